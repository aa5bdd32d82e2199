// SPDX-License-Identifier: BSD-3-Clause
//
// A heap in a range of addresses: all that it knows lies in the range, so that its bytes can be copied to the same addresses of another
// process and go on there.
//
// Sizes are rounded up to classes, 16 bytes apart below a KiB, a quarter of a power of two above; a freed block is for the next of its class.
// One thread at a time, unless whm_heap_share says otherwise.
#ifndef WHM_BASE_HEAP_H
#define WHM_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct whm_heap whm_heap;

// whm_heap_make begins one at the begin of the range, which is zero, writable, and aligned to a page.
whm_heap *whm_heap_make(void *begin, size_t size);

// whm_heap_alloc returns `size` bytes, aligned to `align` (a power of two; at least 16 in any case); zero: all of them are.  NULL: no room.
void *whm_heap_alloc(whm_heap *heap, size_t size, size_t align, bool zero);

// whm_heap_resize is realloc of a block, in its heap; NULL: no room, and the block stays.
void *whm_heap_resize(void *block, size_t size);

// whm_heap_free gives a block back to its heap.  Pages of very large ones are the system's until they are used again.
void whm_heap_free(void *block);

// whm_heap_share says that several threads use the heap from now on.
void whm_heap_share(whm_heap *heap);

// whm_heap_trim gives the system the pages of all freed blocks of some size.
void whm_heap_trim(whm_heap *heap);

// whm_heap_size is what a block has room for.
size_t whm_heap_size(const void *block);

// whm_heap_end is the end of what was ever used.
void *whm_heap_end(const whm_heap *heap);

#endif
