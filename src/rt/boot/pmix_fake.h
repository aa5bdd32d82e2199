// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: a libpmix.so.2 of ours, which keeps what processes put in memory that they share, and says what it is told.
#ifndef WHI_RT_BOOT_PMIX_FAKE_H
#define WHI_RT_BOOT_PMIX_FAKE_H

#include <pthread.h>

#include "rt/boot/pmix_abi.h"

enum {
    FAKE_ENTRIES = 1024,
    FAKE_KEY = 64,
    FAKE_TEXT = 4096,  // of this length PMIx 5.0 answers with compressed strings
    FAKE_COMPRESSED = 43,
    FAKE_NOT_SEEN = -24,  // a wait without end, cut short
};

typedef struct fake_entry {
    uint32_t rank;
    char key[FAKE_KEY], text[FAKE_TEXT + 1];
} fake_entry;

typedef struct fake_store {
    pthread_barrier_t fence;
    pthread_mutex_t lock;
    int count, collected;  // entries that are committed, and those that a fence has collected
    fake_entry entry[FAKE_ENTRIES];
} fake_store;

// What it says.  A status of 0 is honest.
typedef struct fake_pmix {
    int init, put, commit, fence, get, job_size;
    const char *nspace;    // NULL: the environment's
    uint16_t size_type;    // of the job's size
    uint32_t size;         // processes
    uint16_t type;         // of a value; WHI_PMIX_STRING is honest
    const char *text;      // a value; NULL is honest
    bool none, no_text;    // success without a value, a string without a text
    fake_store *store;     // NULL: of this process
    int inits, finalizes;  // calls
    int aborted;           // with this status
} fake_pmix;

#endif
