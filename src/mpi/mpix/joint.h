// SPDX-License-Identifier: BSD-3-Clause
//
// Where libwherry_mpix.so and libmpi_abi.so.1 meet.  Neither needs the other: the MPI library looks for the symbol `whm_joint`, and fills in what it does.
#ifndef WHM_MPIX_JOINT_H
#define WHM_MPIX_JOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHM_JOINT_VERSION = 2 };

typedef struct whm_joint {
    uint32_t version;  // of this struct, as libwherry_mpix.so knows it
    // From now on the calling thread's malloc takes from this heap; NULL: from the C library's.
    void (*use_heap)(void *heap);
    // What keeps a rank with this heap in the process, as a sentence goes on behind "as"; NULL: nothing that is known here.
    const char *(*keeps)(const void *heap);
    // Filled in by the MPI library, once, before use_heap:
    uintptr_t begin, size;  // addresses that heaps lie at
    void *(*alloc)(void *heap, size_t size, size_t align, bool zero);
    void *(*resize)(void *block, size_t size);
    void (*free)(void *block);
    size_t (*room)(const void *block);
    void (*share)(void *heap);  // several threads use it from now on
    int (*process)(int *process, int *processes);
    int (*migrate)(int process);
    int (*balance)(int *moved);
    int (*checkpoint)(const char *folder, int *restarted);
    int (*get_load)(double *load);
    int (*set_load)(double load);
} whm_joint_t;

#define WHM_JOINT "whm_joint"

#endif
