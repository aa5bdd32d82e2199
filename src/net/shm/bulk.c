// SPDX-License-Identifier: BSD-3-Clause
//
// Bulk memory: its size, how a payload is cut, and whose space it is.
//
// Invariant: all chunks in flight lie in positions [done, head), in this lap and the one before, and
// a position p of this lap is byte p - base.  A chunk that does not fit before the end begins the
// next lap.  Its length is known one lap ahead, so that the chunk cut for it fits whichever lap it
// gets.
#include "net/shm/bulk.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/copy.h"

// How a payload is cut.  Its first part is copied in while the receiver waits, and its last out
// while the sender does: a quarter of what is left keeps both short; below CUT_MIN the records cost
// more.
enum { CUT_PARTS = 4, CUT_MIN = 16 << 10 };

enum { LAP_CHUNKS = 4 };  // the least that a short lap holds

enum { NOTED = WHI_BULK_LAP / 2 };  // bytes of which the cost is noted together

// Four chunks of a MiB are more than the second cache of today's processors (one or two MiB).
enum { CHUNK_LARGE = 1 << 20, CHUNK_SMALL = 256 << 10, L3_UNKNOWN = 8 << 20 };

static size_t read_l3_size(void) {
    // sysfs first: under some hypervisors sysconf adds up the caches of processors that are not
    // ours.
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    size_t kilobytes = 0;
    if (file) {
        if (fscanf(file, "%zuK", &kilobytes) != 1)
            kilobytes = 0;
        fclose(file);
    }
    long bytes = kilobytes ? (long)(kilobytes << 10) : sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : L3_UNKNOWN;
}

// The size of the last cache, read once.
static size_t shared_cache(void) {
    static _Atomic size_t known;
    size_t size = atomic_load_explicit(&known, memory_order_relaxed);
    if (size == 0) {
        size = read_l3_size();
        atomic_store_explicit(&known, size, memory_order_relaxed);
    }
    return size;
}

size_t whi_bulk_chunk_size(unsigned count) {
    // All of it should stay in the cache that the processors share, and leave most of that to the
    // program.
    size_t size = CHUNK_LARGE;
    while (size > CHUNK_SMALL && size * count > shared_cache() / 4)
        size /= 2;
    return size;
}

static size_t choose_lap(whi_bulk_tx *tx) {
    return tx->choose && whi_pick_choose(&tx->pick) ? WHI_BULK_LAP : tx->size;
}

void whi_bulk_tx_init(whi_bulk_tx *tx, whi_bulk_shared *shared, size_t size, size_t chunk_max,
                      bool choose) {
    assert(size >= WHI_BULK_MIN && size <= WHI_BULK_MAX && size % WHI_BULK_ALIGN == 0);
    // A chunk and the end of the lap that it skips must both fit, or it would wait for ever.
    *tx = (whi_bulk_tx){.shared = shared,
                        .size = size,
                        .chunk_max = chunk_max < size / 2 ? chunk_max : size / 2,
                        .choose = choose && size > WHI_BULK_LAP};
    whi_pick_init(&tx->pick, true);
    tx->before = tx->lap = choose_lap(tx);
    tx->next = choose_lap(tx);
}

static uint64_t aligned(uint64_t size) {
    return (size + WHI_BULK_ALIGN - 1) & ~(uint64_t)(WHI_BULK_ALIGN - 1);
}

uint32_t whi_bulk_cut(const whi_bulk_tx *tx, uint64_t size) {
    uint64_t part = aligned(size / CUT_PARTS);
    if (part < CUT_MIN)
        part = CUT_MIN;
    size_t most =
        tx->lap < tx->size || tx->next < tx->size ? WHI_BULK_LAP / LAP_CHUNKS : tx->chunk_max;
    if (part > most)
        part = most;
    return (uint32_t)(part < size ? part : size);
}

// The position at which a chunk would begin.
static uint64_t start_of(const whi_bulk_tx *tx, uint32_t size) {
    uint64_t lap_end = tx->base + tx->lap;
    return aligned(size) <= lap_end - tx->head ? tx->head : lap_end;
}

// A chunk must end before the oldest one in flight, if that is of the lap before the chunk's.
static bool fits(const whi_bulk_tx *tx, uint32_t size) {
    uint64_t start = start_of(tx, size);
    bool turns = start == tx->base + tx->lap;
    if (!turns && tx->done >= tx->base)
        return true;
    return start + aligned(size) - tx->done <= (turns ? tx->lap : tx->before);
}

static wh_status read_done(whi_bulk_tx *tx) {
    uint64_t done = atomic_load_explicit(&tx->shared->done, memory_order_acquire);
    if (done - tx->done > tx->head - tx->done)
        return WH_EPROTOCOL;
    tx->done = done;
    return WH_OK;
}

wh_status whi_bulk_has_space(whi_bulk_tx *tx, uint32_t size) {
    if (fits(tx, size))
        return WH_OK;
    wh_status status = read_done(tx);
    if (status != WH_OK)
        return status;
    return fits(tx, size) ? WH_OK : WH_EAGAIN;
}

static void turn(whi_bulk_tx *tx) {
    if (tx->next != tx->lap)
        tx->cycles = tx->bytes = 0;
    tx->base += tx->lap;
    tx->before = tx->lap;
    tx->lap = tx->next;
    tx->next = choose_lap(tx);
}

unsigned char *whi_bulk_take(whi_bulk_tx *tx, uint32_t size, whi_shm_chunk *chunk) {
    uint64_t start = start_of(tx, size);
    if (start == tx->base + tx->lap)
        turn(tx);
    tx->head = start + aligned(size);
    *chunk = (whi_shm_chunk){.offset = (uint32_t)(start - tx->base), .size = size, .end = tx->head};
    return tx->shared->data + chunk->offset;
}

void whi_bulk_note(whi_bulk_tx *tx, uint64_t cycles, uint32_t size) {
    bool is_new = tx->base == 0;
    // The first long lap after short ones finds memory that is new, too, or that has left the caches.
    bool is_cold = whi_bulk_in_long_lap(tx) && tx->before < tx->size;
    if (is_new || is_cold)
        return;
    tx->cycles += cycles;
    tx->bytes += size;
    if (tx->bytes < NOTED)
        return;
    whi_pick_note(&tx->pick, !whi_bulk_in_long_lap(tx), tx->cycles, tx->bytes, tx->bytes);
    tx->cycles = tx->bytes = 0;
}

bool whi_bulk_idle(whi_bulk_tx *tx) {
    return read_done(tx) == WH_OK && tx->done == tx->head;
}

unsigned char *whi_bulk_find(const whi_bulk_rx *rx, const whi_shm_chunk *chunk) {
    if (!rx->shared || chunk->size == 0 || chunk->size > rx->size ||
        chunk->offset > rx->size - chunk->size)
        return NULL;
    return rx->shared->data + chunk->offset;
}

void whi_bulk_free(const whi_bulk_rx *rx, const whi_shm_chunk *chunk) {
    atomic_store_explicit(&rx->shared->done, chunk->end, memory_order_release);
}

void whi_bulk_write(const whi_span *dst, void *host, size_t size, uint64_t offset) {
    if (!dst->ptr)
        dst->move(dst->ctx, dst->base, host, size);
    else if (size >= WHI_COPY_LARGE && offset >= shared_cache() / 2)
        whi_copy_nontemporal(dst->ptr, host, size);
    else
        whi_copy(dst->ptr, host, size);
}
