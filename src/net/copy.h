// SPDX-License-Identifier: BSD-3-Clause
//
// Copying of blocks of host memory, where memcpy cannot be relied on.
//
// The C library may copy blocks of some KiB and more with the processor's string instruction.  On
// several processors that is an order of magnitude slower when the destination is not aligned, and
// when the source is in another processor's cache, which is where a lane's bytes come from.  Its loop for
// blocks of a few hundred bytes can cost twice as much as ours when the other processor has the lines.  A loop
// of vector moves has neither weakness (docs/design/shm.md).  Any thread may call all functions;
// the blocks do not overlap.
#ifndef WHI_NET_COPY_H
#define WHI_NET_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Below this, the C library uses vector moves without a loop.
#define WHI_COPY_LARGE ((size_t)257)

// whi_copy_large copies blocks of WHI_COPY_LARGE bytes and more; it is right for any size.
void whi_copy_large(void *to, const void *from, size_t size);

// whi_copy_nontemporal copies past the caches: for what is too much to stay in them.  Whoever reads the
// destination next fetches it from memory.
void whi_copy_nontemporal(void *to, const void *from, size_t size);

// whi_copy_little copies up to WHI_COPY_LITTLE bytes, the payload of most messages, with moves that overlap instead of a call.
#define WHI_COPY_LITTLE ((size_t)32)
static inline void whi_copy_little(void *to, const void *from, size_t size) {
    uint8_t *dst = to;
    const uint8_t *src = from;
    if (size >= 16) {
        memcpy(dst, src, 16);
        memcpy(dst + size - 16, src + size - 16, 16);
    } else if (size >= 8) {
        memcpy(dst, src, 8);
        memcpy(dst + size - 8, src + size - 8, 8);
    } else if (size >= 4) {
        memcpy(dst, src, 4);
        memcpy(dst + size - 4, src + size - 4, 4);
    } else {
        for (size_t i = 0; i < size; i++)
            dst[i] = src[i];
    }
}

// whi_copy copies a block of any size.
static inline void whi_copy(void *to, const void *from, size_t size) {
    if (size < WHI_COPY_LARGE)
        memcpy(to, from, size);
    else
        whi_copy_large(to, from, size);
}

#endif
