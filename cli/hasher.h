// SPDX-License-Identifier: BSD-3-Clause
//
// Hashing in parallel with receiving: threads that add parts of files to their digests, those of one sender in the order in
// which they were handed over.
//
// The thread that owns a hasher hands jobs over and asks whether they are done; jobs and the bytes that they name belong to
// it, and stay until then.  A digest is used by nobody else while a job of it is under way.
#ifndef CLI_HASHER_H
#define CLI_HASHER_H

#include "cli/digest.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct hasher hasher;

typedef struct hasher_job {
    digest *digest;
    bool begin;  // a new file
    const void *bytes;
    size_t size;
    bool good;  // it could be hashed; once it is done
    _Atomic bool done;
    struct hasher_job *next;
} hasher_job;

// hasher_create starts up to one thread per processor, which call `wake` after each job.  NULL without memory or threads.
hasher *hasher_create(void (*wake)(void *arg), void *arg);

// hasher_destroy does what was handed over and ends the threads.  NULL is allowed.
void hasher_destroy(hasher *self);

// hasher_put hands a job of the sender of this number over.
void hasher_put(hasher *self, unsigned sender, hasher_job *job);

// hasher_do does a job at once, in the thread of the caller.
void hasher_do(hasher_job *job);

#endif
