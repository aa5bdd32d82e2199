// SPDX-License-Identifier: BSD-3-Clause
//
// The sending half of bulk: chunks through bulk memory, and whose memory that is.
//
// A lane makes its bulk memory at the first large push and announces it in the ring.  All lanes of
// a worker share one budget; when that is used up, lanes with nothing in flight give theirs back,
// the longest idle first, and if it is still not enough the lane takes a smaller one.  A chunk goes
// through the ring when it is small, or when there is no bulk memory to be had: so a push gets
// further whenever the ring has space.
#include <unistd.h>

#include "base/log.h"
#include "net/shm/shm_lane.h"

void whi_shm_budget_init(whi_shm_budget *budget, size_t limit) {
    *budget = (whi_shm_budget){.limit = limit};
    whi_list_init(&budget->lanes);
}

void whi_shm_drop_bulk(whi_shm *lane) {
    if (!lane->out.shared)
        return;
    whi_list_remove(&lane->holder);
    lane->budget->used -= lane->out.size;
    whi_region_release(lane->out_region);
    lane->out_region = NULL;
    lane->out = (whi_bulk_tx){0};
}

// Takes the bulk memory of an idle lane.  False: it is in use, or the ring has no space to say so.
static bool withdraw_bulk(whi_shm *lane) {
    if (lane->failed != WH_OK || !whi_bulk_idle(&lane->out) ||
        whi_ring_make_space(&lane->tx, 0) != WH_OK)
        return false;
    whi_shm_drop_bulk(lane);
    whi_hdr gone = {.cls = WHI_SHM_BULK_GONE};
    whi_shm_commit(lane, &gone);
    return true;
}

// Makes the budget hold `size` more bytes, at the cost of idle lanes.
static bool afford(whi_shm_budget *budget, size_t size) {
    if (size > budget->limit)
        return false;
    whi_list_foreach(node, &budget->lanes) {
        if (budget->used <= budget->limit - size)
            return true;
        (void)withdraw_bulk(whi_container_of(node, whi_shm, holder));
    }
    return budget->used <= budget->limit - size;
}

// Returns how much the budget can hold, or 0.
static size_t choose_size(const whi_shm *lane) {
    size_t size = lane->bulk_size;
    while (size >= WHI_BULK_MIN && !afford(lane->budget, size))
        size = size / 2 & ~(WHI_BULK_ALIGN - 1);
    return size >= WHI_BULK_MIN ? size : 0;
}

// Makes the memory and passes it on; what fails leaves nothing behind.
static whi_region *pass_bulk(whi_shm *lane, size_t size) {
    whi_region *region = NULL;
    int fd = -1;
    wh_status status =
        whi_region_create("wherry-bulk", sizeof(whi_bulk_shared) + size, &region, &fd);
    if (status != WH_OK) {
        whi_log_once_per(WHI_WARN, "W-SHM-01", 10,
                         "no %zu KiB of shared memory for large messages, which get slower: %s",
                         size >> 10, wh_status_text(status));
        return NULL;
    }
    status = lane->wire->send_fd(lane->wire_arg, fd);
    close(fd);
    if (status != WH_OK) {
        whi_region_release(region);
        return NULL;
    }
    return region;
}

static bool open_bulk(whi_shm *lane) {
    size_t size = choose_size(lane);
    // Space for the announcement comes first: a descriptor that was passed cannot be taken back.
    if (!size || whi_ring_make_space(&lane->tx, 0) != WH_OK)
        return false;
    whi_region *region = pass_bulk(lane, size);
    if (!region)
        return false;
    whi_hdr hdr = {.cls = WHI_SHM_BULK};
    whi_shm_commit(lane, &hdr);
    whi_bulk_tx_init(&lane->out, region->base, size, lane->bulk_chunk_max, lane->bulk_laps);
    lane->out_region = region;
    lane->budget->used += size;
    whi_list_push_back(&lane->budget->lanes, &lane->holder);
    return true;
}

static void mark_used(whi_shm *lane) {
    whi_list *lanes = &lane->budget->lanes;
    if (whi_list_last(lanes) == &lane->holder)
        return;
    whi_list_remove(&lane->holder);
    whi_list_push_back(lanes, &lane->holder);
}

static wh_status push_bulk(whi_shm *lane, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                           size_t *moved) {
    whi_shm_chunk chunk;
    uint32_t part = whi_bulk_cut(&lane->out, size);
    wh_status status = whi_bulk_has_space(&lane->out, part);
    if (status == WH_EAGAIN)
        return whi_shm_refuse(lane, sizeof(chunk), part);
    if (status != WH_OK)
        return whi_shm_broken(lane, "it took out what was never put in");
    if (!whi_ring_fits(&lane->tx, sizeof(chunk))) {
        status = whi_shm_reserve(lane, sizeof(chunk));
        if (status != WH_OK)
            return status;
    }
    void *to = whi_bulk_take(&lane->out, part, &chunk);
    whi_copy_method *method = &lane->bulk_method[whi_bulk_in_long_lap(&lane->out)];
    uint64_t cycles = whi_copy_method_copy(method, to, src, part);
    if (cycles)
        whi_bulk_note(&lane->out, cycles, part);
    whi_hdr record = *hdr;
    record.cls = WHI_SHM_CHUNK;
    record.size = sizeof(chunk);
    memcpy(whi_ring_payload(&lane->tx), &chunk, sizeof(chunk));
    whi_shm_commit(lane, &record);
    mark_used(lane);
    *moved = part;
    return WH_OK;
}

static wh_status push_inline(whi_shm *lane, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                             size_t *moved) {
    whi_hdr record = *hdr;
    record.cls = WHI_CLASS_CHUNK;
    record.size = size < lane->eager_limit ? (uint32_t)size : lane->eager_limit;
    if (!whi_ring_fits(&lane->tx, record.size)) {
        wh_status status = whi_shm_reserve(lane, record.size);
        if (status != WH_OK)
            return status;
    }
    (void)whi_copy_method_copy(&lane->ring_method, whi_ring_payload(&lane->tx), src, record.size);
    whi_shm_commit(lane, &record);
    *moved = record.size;
    return WH_OK;
}

wh_status whi_shm_push(whi_lane *base, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                       size_t *moved) {
    whi_shm *lane = (whi_shm *)base;
    assert(size > 0);
    if (lane->failed != WH_OK)
        return lane->failed;
    if (size > lane->eager_limit && (lane->out.shared || open_bulk(lane)))
        return push_bulk(lane, hdr, src, size, moved);
    return push_inline(lane, hdr, src, size, moved);
}
