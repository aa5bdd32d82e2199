// SPDX-License-Identifier: BSD-3-Clause
//
// Bytes that grow at their end.  One thread; zeroed is empty; whi_blob_fini frees it.
#ifndef WHI_BASE_BLOB_H
#define WHI_BASE_BLOB_H

#include "base/alloc.h"

typedef struct whi_blob {
    uint8_t *data;
    size_t size, space;
} whi_blob;

// whi_blob_add makes space for `size` bytes at the end, which the caller fills.  NULL: no memory, and nothing has changed.
static inline void *whi_blob_add(whi_blob *blob, size_t size) {
    if (!blob->data || blob->space - blob->size < size) {
        size_t space;
        if (__builtin_add_overflow(2 * blob->space + 64, size, &space))
            return NULL;
        uint8_t *data = whi_realloc(blob->data, space);
        if (!data)
            return NULL;
        blob->data = data;
        blob->space = space;
    }
    blob->size += size;
    return blob->data + blob->size - size;
}

static inline void whi_blob_fini(whi_blob *blob) {
    whi_free(blob->data);
    *blob = (whi_blob){.data = NULL};
}

#endif
