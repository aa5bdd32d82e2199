// SPDX-License-Identifier: BSD-3-Clause
//
// The record classes that the shm lane keeps to itself, and their payloads (docs/wire.md).
//
// Little-endian, no padding, in shared memory: copy first, then check.
#ifndef WHI_NET_SHM_CLASSES_H
#define WHI_NET_SHM_CLASSES_H

#include "net/lane.h"

enum {
    WHI_SHM_PAD = WHI_CLASS_LANE,  // fills the end of the ring; its payload is nothing
    WHI_SHM_RING,                  // the last record: the descriptor of a larger ring was passed
    WHI_SHM_BULK,                  // the descriptor of bulk memory was passed
    WHI_SHM_BULK_GONE,             // the sender has given its bulk memory up
    WHI_SHM_CHUNK,                 // a chunk whose bytes are in bulk memory: whi_shm_chunk
    WHI_SHM_WORD,                  // the sender's memory may be read: whi_shm_word
    WHI_SHM_REST,                  // the next part of the long record that has begun
};

// By what a reader of the sender's memory knows that it is the sender's; it is there as it is here.
typedef struct whi_shm_word {
    uint64_t address;  // where it lies
    uint8_t random[24];
} whi_shm_word;
static_assert(sizeof(whi_shm_word) == 32, "wire layout");

// The record's header is the chunk's, except for the size.
typedef struct whi_shm_chunk {
    uint32_t offset;  // where in bulk memory
    uint32_t size;
    uint64_t end;  // what `done` becomes once the chunk was taken out
} whi_shm_chunk;

static_assert(sizeof(whi_shm_chunk) == 16, "wire layout");

#endif
