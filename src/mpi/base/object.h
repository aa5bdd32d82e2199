// SPDX-License-Identifier: BSD-3-Clause
//
// Objects that programs know by handles: communicators, groups, types, requests and the rest.
//
// A handle of the standard's ABI is a pointer.  The predefined ones are small numbers, which name an object of the rank that
// asks (whm_rank.named); all others are the address of our object.  Memory of objects is kept for later objects, never given back, so
// that a handle that was freed is recognised by its mark (whm_object_of, rank.h).
#ifndef WHM_BASE_OBJECT_H
#define WHM_BASE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum whm_kind {
    WHM_COMM = 1,
    WHM_GROUP,
    WHM_TYPE,
    WHM_OP,
    WHM_REQUEST,
    WHM_MESSAGE,
    WHM_INFO,
    WHM_ERRHANDLER,
    WHM_WIN,
    WHM_FILE,
    WHM_SESSION,
    WHM_KINDS
} whm_kind;

enum { WHM_MARK = 0x6D706900 };  // | kind, while the object lives

typedef struct whm_object {  // the first member of each of them
    uint32_t mark;
    int32_t refs;  // of the program, and of objects and operations that use it
    void *handle;  // what the program knows it by
} whm_object;

// whm_object_new makes one of `size` bytes, zero but for what stands here: one reference, its address as handle.  NULL: no memory.
void *whm_object_new(whm_kind kind, size_t size);

// whm_object_free gives its memory back to the next of that size; what it holds was released before.
void whm_object_free(void *object, size_t size);

static inline void *whm_retain(void *object) {
    ((whm_object *)object)->refs++;
    return object;
}

// whm_released drops a reference: true when it was the last, and the caller ends the object.
static inline bool whm_released(void *object) {
    return --((whm_object *)object)->refs == 0;
}

#endif
