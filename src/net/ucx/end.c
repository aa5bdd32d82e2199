// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a ucx lane: what it has sent goes out, then its endpoint is closed by force.
//
// An orderly close of a UCX endpoint waits for the peer, which may be stopped; a forced one throws away what was
// sent last.  So the lane flushes first, for as long as it may take, and forces then.  The owner hears nothing more of
// records; of chunks that are out it does, and last that the lane is gone.  Nothing waits here: whi_ucx_progress
// takes each closing lane further.
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/ucx/ucx_lane.h"

#define LINGER_NS (1 * WHI_NS_PER_S)
#define FORCED_NS (200 * WHI_NS_PER_MS)  // so long UCX may take to close by force

static void flushed(void *request, ucs_status_t status, void *arg) {
    (void)status;
    whi_ucx_lane *lane = arg;
    lane->flushing = false;
    whi_ucp.ucp_request_free(request);
}

static void closed(void *request, ucs_status_t status, void *arg) {
    (void)status;
    whi_ucx_lane *lane = arg;
    lane->ep = NULL;
    whi_ucp.ucp_request_free(request);
}

static void flush(whi_ucx_lane *lane) {
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = flushed,
                                 .user_data = lane};
    whi_ucx_enter(lane->ucx);
    lane->flushing = UCS_PTR_IS_PTR(whi_ucp.ucp_ep_flush_nbx(lane->ep, &param));
    whi_ucx_leave(lane->ucx);
    lane->deadline_ns = whi_clock_ns() + LINGER_NS;
}

static void force(whi_ucx_lane *lane) {
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE,
                                 .cb.send = closed,
                                 .user_data = lane};
    lane->forced = true;
    lane->deadline_ns = whi_clock_ns() + FORCED_NS;
    whi_ucx_enter(lane->ucx);
    if (!UCS_PTR_IS_PTR(whi_ucp.ucp_ep_close_nbx(lane->ep, &param)))
        lane->ep = NULL;
    whi_ucx_leave(lane->ucx);
}

void whi_ucx_close(whi_lane *base) {
    whi_ucx_lane *lane = whi_ucx_lane_of(base);
    bool lost = lane->failing != WH_OK || lane->broken != WH_OK;
    lane->closed = true;
    (void)whi_hash_remove(&lane->ucx->lanes, lane->token);
    whi_ucx_drop_kept(lane);
    whi_list_push_back(&lane->ucx->closing, &lane->node);
    if (lane->ep && !lost)
        flush(lane);
}

void whi_ucx_lane_end(whi_ucx_lane *lane) {
    whi_list_remove(&lane->node);
    // Without UCX (whi_ucx_free) slots may be out that nobody will give back.
    lane->slot_pool.out = 0;
    (void)whi_pool_fini(&lane->slot_pool);
    if (lane->owner)
        lane->owner->closed(lane->lane.link);
    whi_free(lane);
}

// is_written says whether UCX may still write into memory of the owner's.
static bool is_written(const whi_ucx_chunk *chunk) {
    return chunk->incoming && !chunk->staging;
}

// give_back tells the owner of a chunk that UCX will not end.  Nobody hears of it a second time.
static void give_back(whi_ucx_chunk *chunk) {
    whi_ucx_lane *lane = chunk->lane;
    if (chunk->done)
        chunk->done(chunk->arg, false);
    else if (chunk->incoming)
        lane->lane.up->lost(lane->lane.link, &chunk->wire.hdr);
    else if (chunk->lent)
        lane->lane.up->sent(lane->lane.link, &chunk->wire.hdr);
    chunk->done = NULL;
    chunk->incoming = chunk->lent = false;
}

// write_off gives the owner back the memory of outgoing chunks that UCX keeps after a forced close, which it sometimes does
// for good when the peer was killed: nothing can make it read them any more.  Chunks that come in are
// another matter, unless the memory that UCX writes is ours: theirs is only given back when UCX says so, or is gone.
static void write_off(whi_ucx_lane *lane) {
    unsigned count = 0;
    whi_list_foreach(node, &lane->out) {
        whi_ucx_chunk *chunk = whi_container_of(node, whi_ucx_chunk, node);
        count++;
        if (!is_written(chunk))
            give_back(chunk);
    }
    lane->written_off = true;
    whi_log(WHI_INFO, "I-UCX-07", "%s: UCX keeps %u chunks and %u records of a closed connection",
            lane->peer, count, lane->slots);
}

// retire reports a lane to its owner of which UCX still has something that is no longer the owner's.  Its connection has ended:
// the owner gives memory back which the peer could reach through it.
static void retire(whi_ucx_lane *lane) {
    if (lane->ep || !whi_list_empty(&lane->ended))
        return;
    whi_list_foreach(node, &lane->out) {
        if (is_written(whi_container_of(node, whi_ucx_chunk, node)))
            return;
    }
    whi_list_remove(&lane->node);
    whi_list_push_back(&lane->ucx->retired, &lane->node);
    lane->owner->closed(lane->lane.link);
    lane->owner = NULL;
}

void whi_ucx_close_on(whi_ucx_lane *lane) {
    if (lane->ep && !lane->forced && (!lane->flushing || whi_clock_ns() >= lane->deadline_ns))
        force(lane);
    if (!lane->ep && !lane->disconnected) {
        lane->disconnected = true;
        lane->owner->disconnected(lane->lane.link);
    }
    bool late = lane->forced && whi_clock_ns() >= lane->deadline_ns;
    if (late && !lane->written_off)
        write_off(lane);
    if (lane->ep || lane->flushing || lane->slots || !whi_list_empty(&lane->out) ||
        !whi_list_empty(&lane->ended)) {
        if (lane->written_off)
            retire(lane);
        return;
    }
    whi_ucx_lane_end(lane);
}
