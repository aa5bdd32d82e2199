// SPDX-License-Identifier: BSD-3-Clause
//
// The shm lane: its life, sending, and falling asleep.
//
// A send is one comparison, a copy into the ring, one release store and one load of a word that
// changes only when the peer falls asleep.  Everything else (padding, a larger ring, refusing) is
// behind the comparison.  Invariant: whoever is refused is remembered, so that poll reports when
// space has come, and ready does not let the worker sleep over it.
#include "net/shm/shm.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/copy.h"
#include "net/shm/shm_lane.h"
#include "net/untrusted.h"

wh_status whi_shm_fail(whi_shm *lane, wh_status status) {
    if (lane->failed == WH_OK) {
        lane->failed = status;
        lane->attention = true;
        lane->tx.limit = 0;  // nothing fits from now on
    }
    return lane->failed;
}

wh_status whi_shm_broken(whi_shm *lane, const char *what) {
    whi_log_once_per(WHI_ERROR, "E-SHM-01", 10,
                     "the peer broke the shared memory between us: %s; its link is given up", what);
    return whi_shm_fail(lane, WH_EPROTOCOL);
}

wh_status whi_shm_refuse(whi_shm *lane, uint32_t size, uint32_t bulk) {
    lane->refused_size = size;
    lane->refused_bulk = bulk;
    lane->attention = true;
    return WH_EAGAIN;
}

wh_status whi_shm_retry(whi_shm *lane) {
    wh_status status = WH_OK;
    if (lane->refused_bulk && lane->out.shared)
        status = whi_bulk_has_space(&lane->out, lane->refused_bulk);
    return status == WH_OK ? whi_ring_has_space(&lane->tx, lane->refused_size) : status;
}

void whi_shm_ring_bell(whi_shm *lane) {
    lane->bell_owed = lane->wire->bell(lane->wire_arg) == WH_EAGAIN;
    if (!lane->bell_owed)
        return;
    lane->attention = true;
    if (lane->lane.up->unsent)
        lane->lane.up->unsent(lane->lane.link);
}

// Leaves the full ring for a larger one.  That this fails is no error: the small ring works.
static bool grow(whi_shm *lane) {
    size_t size = lane->ring_max;
    whi_region *region = NULL;
    int fd = -1;
    wh_status status =
        whi_region_create("wherry-ring", sizeof(whi_ring_shared) + size, &region, &fd);
    if (status != WH_OK) {
        lane->ring_max = 0;
        whi_log(WHI_INFO, "I-SHM-02", "a ring of %zu KiB stays as it is: %s",
                (size_t)(lane->tx.mask + 1) >> 10, wh_status_text(status));
        return false;
    }
    status = lane->wire->send_fd(lane->wire_arg, fd);
    close(fd);
    if (status != WH_OK) {
        whi_region_release(region);
        return false;
    }
    whi_offers_move(lane->tx.shared, region->base);
    whi_hdr last = {.cls = WHI_SHM_RING};
    whi_shm_commit(lane, &last);  // in the reserve
    whi_region_release(lane->tx_region);
    lane->tx_region = region;
    lane->ring_max = 0;
    whi_ring_tx_init(&lane->tx, region->base, size);
    return true;
}

wh_status whi_shm_reserve(whi_shm *lane, uint32_t size) {
    if (lane->failed != WH_OK)
        return lane->failed;
    wh_status status = whi_ring_make_space(&lane->tx, size);
    if (status == WH_EAGAIN)
        return lane->ring_max && grow(lane) ? WH_OK : whi_shm_refuse(lane, size, 0);
    return status == WH_OK ? WH_OK : whi_shm_broken(lane, "it freed what was never sent");
}

static inline void copy_payload(whi_copy_method *method, unsigned char *to,
                                const unsigned char *from, uint32_t size) {
    if (size >= WHI_COPY_METHOD_MIN)
        (void)whi_copy_method_copy(method, to, &(whi_span){.ptr = (void *)(uintptr_t)from}, size);
    else if (size > WHI_COPY_LITTLE)
        whi_copy(to, from, size);
    else
        whi_copy_little(to, from, size);
}

static inline wh_status make_space(whi_shm *lane, uint32_t size) {
    assert(size <= lane->eager_limit);
    if (__builtin_expect(!whi_ring_fits(&lane->tx, size), 0))
        return whi_shm_reserve(lane, size);
    return WH_OK;
}

static wh_status shm_send(whi_lane *base, const whi_hdr *hdr, const void *payload) {
    whi_shm *lane = (whi_shm *)base;
    assert(hdr->cls < WHI_CLASS_LANE && hdr->cls != WHI_CLASS_CHUNK && hdr->cls != WHI_CLASS_LONG);
    wh_status status = make_space(lane, hdr->size);
    if (__builtin_expect(status != WH_OK, 0))
        return status;
    copy_payload(&lane->ring_method, whi_ring_payload(&lane->tx), payload, hdr->size);
    whi_shm_commit(lane, hdr);
    return WH_OK;
}

static wh_status shm_send_joined(whi_lane *base, const whi_hdr *hdr, const void *first,
                                 size_t first_size, const void *rest) {
    whi_shm *lane = (whi_shm *)base;
    assert(hdr->cls > WHI_CLASS_LONG && hdr->cls < WHI_CLASS_LANE && first_size <= hdr->size);
    wh_status status = make_space(lane, hdr->size);
    if (__builtin_expect(status != WH_OK, 0))
        return status;
    unsigned char *to = whi_ring_payload(&lane->tx);
    copy_payload(&lane->ring_method, to, first, (uint32_t)first_size);
    copy_payload(&lane->ring_method, to + first_size, rest, hdr->size - (uint32_t)first_size);
    whi_shm_commit(lane, hdr);
    return WH_OK;
}

// ask sets a word that makes the peer ring, and says whether it was not set.
static bool ask(_Atomic uint32_t *word) {
    return atomic_exchange_explicit(word, 1, memory_order_relaxed) == 0;
}

static bool shm_arm(whi_lane *base, bool want_space) {
    whi_shm *lane = (whi_shm *)base;
    bool asked = false;
    if (lane->bell_owed)
        whi_shm_ring_bell(lane);
    if (lane->rx_region) {
        // What poll has kept to itself: whoever sleeps leaves the peer the whole ring.
        if (lane->rx.told != lane->rx.pos)
            whi_shm_tell(lane);
        asked = ask(&lane->rx.shared->armed);
    }
    if (want_space && ask(&lane->tx.shared->want))
        asked = true;
    if (!lane->asymmetric)
        atomic_thread_fence(memory_order_seq_cst);
    return asked;
}

static bool shm_ready(whi_lane *base, bool want_space) {
    whi_shm *lane = (whi_shm *)base;
    if (lane->failed != WH_OK || !whi_ring_empty(&lane->rx))
        return true;
    if (lane->bell_owed)
        return true;
    return want_space && lane->attention && whi_shm_retry(lane) != WH_EAGAIN;
}

static size_t shm_eager_limit(const whi_lane *base) {
    return ((const whi_shm *)base)->eager_limit;
}

static void shm_describe(const whi_lane *base, char *text, size_t size) {
    const whi_shm *lane = (const whi_shm *)base;
    int used = snprintf(text, size, "shm ring %zu KiB", (size_t)(lane->tx.mask + 1) >> 10);
    if (lane->out.shared && used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, ", bulk %zu KiB", lane->out.size >> 10);
    if (lane->fetcher.mode != WHI_FETCH_NEVER && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", reads the peer's memory");
}

static void shm_close(whi_lane *base) {
    whi_shm *lane = (whi_shm *)base;
    whi_shm_drop_bulk(lane);
    whi_region_release(lane->in_region);
    whi_region_release(lane->rx_region);
    whi_region_release(lane->tx_region);
    whi_free(lane);
}

static wh_status shm_pass(whi_lane *lane, const whi_hdr *hdr, int fd) {
    whi_shm *shm = (whi_shm *)lane;
    assert(hdr->size == 0 && hdr->cls < WHI_CLASS_LANE);
    // Space first: a descriptor that is on its way must not be overtaken by that of a larger ring.
    wh_status status = whi_ring_fits(&shm->tx, 0) ? WH_OK : whi_shm_reserve(shm, 0);
    if (status == WH_OK)
        status = shm->wire->send_fd(shm->wire_arg, fd);
    if (status == WH_OK)
        whi_shm_commit(shm, hdr);
    return status;
}

static const whi_lane_ops shm_ops = {
    .name = "shm",
    .shared = true,
    .pass = shm_pass,
    .eager_limit = shm_eager_limit,
    .long_limit = whi_shm_long_limit,
    .long_better = whi_shm_long_better,
    .send = shm_send,
    .send_joined = shm_send_joined,
    .send_long = whi_shm_send_long,
    .push = whi_shm_push,
    .poll = whi_shm_poll,
    .next = whi_shm_next,
    .arm = shm_arm,
    .ready = shm_ready,
    .offer = whi_shm_offer,
    .revoke = whi_shm_revoke,
    .read = whi_shm_read,
    .take = whi_shm_take,
    .came = whi_shm_came,
    .describe = shm_describe,
    .close = shm_close,
};

static bool is_ring_size(size_t size) {
    return size >= WHI_RING_MIN && size <= WHI_RING_MAX && (size & (size - 1)) == 0;
}

static wh_status check(const whi_shm_opts *opts, size_t chunk_max) {
    bool grows = opts->ring_max > opts->ring_size;
    if (!is_ring_size(opts->ring_size) || (grows && !is_ring_size(opts->ring_max)))
        return WH_EINVAL;
    if (opts->eager_limit == 0 || opts->eager_limit > opts->ring_size / 4)
        return WH_EINVAL;
    if (chunk_max > WHI_BULK_MAX || opts->chunks > WHI_BULK_MAX / chunk_max)
        return WH_EINVAL;
    size_t bulk_size = chunk_max * opts->chunks;
    bool bulk_is_sane =
        bulk_size % WHI_BULK_ALIGN == 0 && bulk_size >= WHI_BULK_MIN && bulk_size <= WHI_BULK_MAX;
    return bulk_size == 0 || bulk_is_sane ? WH_OK : WH_EINVAL;
}

wh_status whi_shm_create(const whi_shm_opts *opts, const whi_lane_up *up, void *link,
                         whi_lane **lane, int *ring_fd) {
    size_t chunk_max = opts->chunk_max ? opts->chunk_max : whi_bulk_chunk_size(opts->chunks);
    wh_status status = check(opts, chunk_max);
    if (status != WH_OK)
        return status;
    whi_shm *self = whi_calloc(1, sizeof(*self));
    if (!self)
        return WH_ENOMEM;
    int fd = -1;
    status = whi_region_create("wherry-ring", sizeof(whi_ring_shared) + opts->ring_size,
                               &self->tx_region, &fd);
    if (status != WH_OK) {
        whi_free(self);
        return status;
    }
    whi_lane_init(&self->lane, &shm_ops, up, link);
    whi_ring_tx_init(&self->tx, self->tx_region->base, opts->ring_size);
    whi_ring_rx_none(&self->rx);
    whi_copy_method_init(&self->ring_method, WHI_COPY_GAIN);
    whi_copy_method_init(&self->bulk_method[false], WHI_COPY_GAIN);
    whi_copy_method_init(&self->bulk_method[true], WHI_COPY_WEIGHT);
    whi_list_init(&self->holder);
    self->takes_long = opts->takes_long;
    self->asymmetric = opts->asymmetric;
    self->eager_limit = (uint32_t)opts->eager_limit;
    self->ring_max = opts->ring_max > opts->ring_size ? opts->ring_max : 0;
    self->bulk_size = chunk_max * opts->chunks;
    self->bulk_chunk_max = chunk_max;
    self->bulk_laps = !opts->chunk_max;
    self->budget = opts->budget;
    self->wire = opts->wire;
    self->wire_arg = opts->wire_arg;
    self->fetcher.mode = opts->peer ? (whi_fetch_mode)opts->fetch : WHI_FETCH_NEVER;
    self->fetcher.peer.pid = opts->peer;
    whi_pick_init_row(self->fetcher.picks[WHI_FETCH_ALONE], false, UINT32_MAX,
                      WHI_FETCH_LAPS * self->bulk_size);
    whi_pick_init_row(self->fetcher.picks[WHI_FETCH_BOTH_WAYS], false, WHI_FETCH_TRIED, 0);
    whi_pick_init_row(self->long_tx.picks, true, WHI_LONG_TRIED, 0);
    if (opts->fetch != WHI_FETCH_NEVER)
        whi_shm_introduce(self);
    *lane = &self->lane;
    *ring_fd = fd;
    return WH_OK;
}

wh_status whi_shm_attach(whi_lane *lane, int fd) {
    wh_status status = whi_shm_map_ring((whi_shm *)lane, fd);
    whi_untrusted_close(fd);
    return status;
}

static const char *why_not(wh_status status) {
    switch (status) {
    case WH_ENOMEM: return "there is no memory for a ring";
    case WH_ELIMIT:
        return "a ring is more than this process may have in a file (ulimit -f), or one file too "
               "many (ulimit -n)";
    default: return "this system gives no sealed memory files (memfd_create with sealing)";
    }
}

bool whi_shm_available(size_t ring, const char **why) {
    whi_region *region = NULL;
    int fd = -1;
    wh_status status =
        whi_region_create("wherry-probe", sizeof(whi_ring_shared) + ring, &region, &fd);
    if (status != WH_OK) {
        *why = why_not(status);
        return false;
    }
    close(fd);
    whi_region_release(region);
    return true;
}
