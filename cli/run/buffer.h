// SPDX-License-Identifier: BSD-3-Clause
//
// Bytes on their way: added at the end, taken from the front.
#ifndef CLI_RUN_BUFFER_H
#define CLI_RUN_BUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef struct buffer {
    uint8_t *bytes;
    size_t at, end, room;  // what is kept lies from `at` to `end`
} buffer;

static inline size_t buffer_size(const buffer *self) {
    return self->end - self->at;
}

static inline uint8_t *buffer_bytes(const buffer *self) {
    return self->bytes + self->at;
}

// buffer_add and buffer_reserve end the process when memory is out: whatever it has started ends with it.
void buffer_add(buffer *self, const void *bytes, size_t size);

// buffer_reserve makes room for `size` more bytes and returns where they go; buffer_extend says how many came.
uint8_t *buffer_reserve(buffer *self, size_t size);
void buffer_extend(buffer *self, size_t size);

void buffer_drop(buffer *self, size_t size);  // from the front
void buffer_free(buffer *self);

#endif
