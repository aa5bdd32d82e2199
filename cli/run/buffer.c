// SPDX-License-Identifier: BSD-3-Clause
//
// See buffer.h.
#include "cli/run/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM_LEAST = 512 };

uint8_t *buffer_reserve(buffer *self, size_t size) {
    size_t kept = buffer_size(self);
    if (self->room - self->end >= size && self->bytes)
        return self->bytes + self->end;
    if (self->bytes && self->at && kept)
        memmove(self->bytes, self->bytes + self->at, kept);
    self->at = 0;
    self->end = kept;
    if (!self->bytes || self->room - kept < size) {
        size_t room = self->room * 2 > kept + size ? self->room * 2 : kept + size;
        self->room = room > ROOM_LEAST ? room : ROOM_LEAST;
        self->bytes = realloc(self->bytes, self->room);
        if (!self->bytes) {
            fprintf(stderr, "wherry run: out of memory\n");
            _exit(1);
        }
    }
    return self->bytes + self->end;
}

void buffer_extend(buffer *self, size_t size) {
    self->end += size;
}

void buffer_add(buffer *self, const void *bytes, size_t size) {
    if (!size)
        return;
    memcpy(buffer_reserve(self, size), bytes, size);
    self->end += size;
}

void buffer_drop(buffer *self, size_t size) {
    self->at += size;
    if (self->at == self->end)
        self->at = self->end = 0;
}

void buffer_free(buffer *self) {
    free(self->bytes);
    *self = (buffer){NULL, 0, 0, 0};
}
