// SPDX-License-Identifier: BSD-3-Clause
//
// The ring's rare cases: beginning, and making space.
//
// `limit` folds two questions into one comparison of the hot path: is there space before the tail
// (less the reserve), and is there space before the ring's end.  It is moved here only.  The
// invariant is tail <= head <= tail + size - reserve, with all of them multiples of 64.
#include "net/shm/ring.h"

#include "net/shm/classes.h"

static uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t ring_size(const whi_ring_tx *tx) {
    return tx->mask + 1;
}

// The position at which the lap that `head` is in ends.
static uint64_t lap_end(const whi_ring_tx *tx) {
    return (tx->head | tx->mask) + 1;
}

static void set_limit(whi_ring_tx *tx) {
    tx->limit = min_u64(tx->tail + ring_size(tx) - WHI_RING_RESERVE, lap_end(tx));
}

void whi_ring_tx_init(whi_ring_tx *tx, whi_ring_shared *shared, size_t size) {
    assert(size >= WHI_RING_MIN && (size & (size - 1)) == 0);
    *tx = (whi_ring_tx){.data = shared->data, .mask = size - 1, .shared = shared};
    set_limit(tx);
}

void whi_ring_rx_init(whi_ring_rx *rx, whi_ring_shared *shared, size_t size) {
    assert(size >= WHI_RING_MIN && (size & (size - 1)) == 0);
    *rx =
        (whi_ring_rx){.at = shared->data, .data = shared->data, .mask = size - 1, .shared = shared};
}

void whi_ring_rx_none(whi_ring_rx *rx) {
    // Never written: what is empty is not consumed.
    static _Alignas(WHI_RING_STEP) unsigned char nothing[WHI_RING_STEP];
    *rx = (whi_ring_rx){.at = nothing, .data = nothing, .mask = WHI_RING_STEP - 1};
}

static wh_status read_tail(whi_ring_tx *tx) {
    uint64_t tail = atomic_load_explicit(&tx->shared->tail, memory_order_acquire);
    // In unsigned numbers this also says that tail is neither behind the last one nor past head.
    if (tail - tx->tail > tx->head - tx->tail || tail % WHI_RING_STEP)
        return WH_EPROTOCOL;
    tx->tail = tail;
    set_limit(tx);
    return WH_OK;
}

wh_status whi_ring_has_space(whi_ring_tx *tx, uint32_t size) {
    wh_status status = read_tail(tx);
    if (status != WH_OK)
        return status;
    // A record that would pass the end of the lap needs the rest of the lap as padding.
    uint64_t space = whi_ring_space(size), left = lap_end(tx) - tx->head;
    uint64_t need = space <= left ? space : left + space;
    uint64_t available = tx->tail + ring_size(tx) - tx->head;
    return need + WHI_RING_RESERVE <= available ? WH_OK : WH_EAGAIN;
}

wh_status whi_ring_make_space(whi_ring_tx *tx, uint32_t size) {
    wh_status status = whi_ring_has_space(tx, size);
    if (status != WH_OK || whi_ring_fits(tx, size))
        return status;
    whi_hdr pad = {.size = (uint32_t)(lap_end(tx) - tx->head - sizeof(pad)), .cls = WHI_SHM_PAD};
    whi_ring_publish(tx, &pad, false);
    set_limit(tx);
    assert(whi_ring_fits(tx, size));
    return WH_OK;
}
