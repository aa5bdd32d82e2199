// SPDX-License-Identifier: BSD-3-Clause
//
// Bulk memory: through which the bytes of large chunks pass, while their records pass through the
// ring.
//
// The sender copies in and the receiver copies out at the same time, on two processors.  Chunks
// follow each other in laps, through all of the memory or through its beginning only.  On some
// processors writing to lines that the receiver still has in its own cache is several times slower
// than to those that have left it, so a lap must be larger than that cache; on others a short lap
// is faster, since it leaves the caches to the program.  So the sender tries both (pick.h): it chooses for each lap, and
// measures pieces of 128 KiB and more.
//
// Space is managed by the sender alone; a record says where the bytes are and what to answer, in
// the shared word `done`, when they are out.  Each end belongs to one thread; the memory belongs to
// whoever gave it.
#ifndef WHI_NET_SHM_BULK_H
#define WHI_NET_SHM_BULK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/lane.h"
#include "net/shm/classes.h"
#include "net/shm/pick.h"

#define WHI_BULK_ALIGN                                                                             \
    ((size_t)4096)  // chunks begin at multiples: copies are as aligned as the user
#define WHI_BULK_MIN ((size_t)128 << 10)  // less brings nothing over chunks in the ring
#define WHI_BULK_MAX ((size_t)1 << 30)    // of one direction, from a peer or from the configuration
#define WHI_BULK_LAP ((size_t)256 << 10)  // a short lap

typedef struct whi_bulk_shared {
    _Alignas(4096) _Atomic uint64_t done;  // receiver: `end` of the last chunk that it took out
    _Alignas(4096) unsigned char data[];
} whi_bulk_shared;
static_assert(sizeof(whi_bulk_shared) == 4096, "shared layout");

// Positions count bytes from the beginning of time; done <= head <= done + size.
typedef struct whi_bulk_tx {
    whi_bulk_shared *shared;  // NULL: there is no bulk memory
    size_t size;
    size_t chunk_max;  // the largest chunk of a lap through all of it
    uint64_t head;     // where the next chunk goes
    uint64_t base;     // the position of the memory's first byte in this lap
    uint64_t done;     // as last read and found good

    bool choose;               // whether laps may be short
    size_t before, lap, next;  // lengths of the lap that was, that is and that will be
    uint64_t cycles, bytes;    // what the last chunks have cost that were timed
    whi_pick pick;             // the second way is the short lap
} whi_bulk_tx;

typedef struct whi_bulk_rx {
    whi_bulk_shared *shared;  // NULL: there is no bulk memory
    size_t size;
} whi_bulk_rx;

// whi_bulk_chunk_size returns what suits the caches of this machine when the memory holds `count`
// chunks.
size_t whi_bulk_chunk_size(unsigned count);

// whi_bulk_tx_init begins to send through zeroed memory of which `size` bytes hold chunks, each at
// most `chunk_max`.  `choose` allows short laps where they are faster.
void whi_bulk_tx_init(whi_bulk_tx *tx, whi_bulk_shared *shared, size_t size, size_t chunk_max,
                      bool choose);

// whi_bulk_cut returns how much of `size` bytes should be the next chunk.
uint32_t whi_bulk_cut(const whi_bulk_tx *tx, uint64_t size);

// whi_bulk_has_space asks for the space of a chunk.  WH_EAGAIN: not now.  WH_EPROTOCOL: `done` is
// wrong.
wh_status whi_bulk_has_space(whi_bulk_tx *tx, uint32_t size);

// whi_bulk_take takes the space of a chunk for which there is some, and returns it.
unsigned char *whi_bulk_take(whi_bulk_tx *tx, uint32_t size, whi_shm_chunk *chunk);

// whi_bulk_in_long_lap says whether the chunk taken last is of a lap through all of the memory, where laps may be short, and
// whi_bulk_prefers_long_laps whether such have been found to be better.
static inline bool whi_bulk_in_long_lap(const whi_bulk_tx *tx) {
    return tx->choose && tx->lap == tx->size;
}

static inline bool whi_bulk_prefers_long_laps(const whi_bulk_tx *tx) {
    return tx->choose && !tx->pick.second;
}

// whi_bulk_note says what copying `size` bytes of the chunk just taken has cost.
void whi_bulk_note(whi_bulk_tx *tx, uint64_t cycles, uint32_t size);

// whi_bulk_idle says whether the receiver has taken everything out.
bool whi_bulk_idle(whi_bulk_tx *tx);

// whi_bulk_find returns the bytes of a chunk that the peer has announced, or NULL when it cannot be
// so.
unsigned char *whi_bulk_find(const whi_bulk_rx *rx, const whi_shm_chunk *chunk);

// whi_bulk_free gives the space of that chunk back.
void whi_bulk_free(const whi_bulk_rx *rx, const whi_shm_chunk *chunk);

// whi_bulk_write copies `size` bytes to the beginning of a sink.  What stands at a large `offset`
// in its segment goes past the caches: they hold enough of it already.
void whi_bulk_write(const whi_span *dst, void *host, size_t size, uint64_t offset);

#endif
