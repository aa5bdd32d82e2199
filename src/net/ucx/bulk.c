// SPDX-License-Identifier: BSD-3-Clause
//
// Chunks over UCX: by its rendezvous, out of the owner's memory and into the other owner's.
//
// The lane lends: UCX reads the memory of a chunk, or writes it, until its callback says that it has done.  Chunks that
// have ended wait in a list until their lane is polled, because the owner is told in polls only.  Invariant: a
// chunk is in `out` exactly as long as UCX may touch its memory, then in `ended`, then its owner is told once.
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/ucx/ucx_lane.h"

whi_ucx_chunk *whi_ucx_chunk_new(whi_ucx_lane *lane, bool incoming, unsigned *count) {
    whi_ucx_chunk *chunk = whi_pool_get(&lane->ucx->chunks);
    if (!chunk)
        return NULL;
    *chunk = (whi_ucx_chunk){.lane = lane, .incoming = incoming, .count = count};
    whi_list_push_back(&lane->out, &chunk->node);
    ++*count;
    return chunk;
}

void whi_ucx_chunk_free(whi_ucx_chunk *chunk) {
    --*chunk->count;
    whi_list_remove(&chunk->node);
    whi_free(chunk->staging);
    whi_pool_put(&chunk->lane->ucx->chunks, chunk);
}

void whi_ucx_ended(whi_ucx_chunk *chunk, ucs_status_t status) {
    whi_ucx_lane *lane = chunk->lane;
    chunk->good = status == UCS_OK;
    whi_list_remove(&chunk->node);
    whi_list_push_back(&lane->ended, &chunk->node);
    if (!chunk->good && !lane->closed) {
        whi_log_once_per(WHI_INFO, "I-UCX-05", 1, "%s: %s was lost: %s", lane->peer,
                         chunk->done ? "an access" : "a chunk", whi_ucp.ucs_status_string(status));
        if (lane->failing == WH_OK)
            lane->failing = WH_EPEER;
    }
    whi_ucx_wake(lane);
}

// ---- out

static void chunk_sent(void *request, ucs_status_t status, void *arg) {
    whi_ucx_ended(arg, status);
    whi_ucp.ucp_request_free(request);
}

static wh_status push_small(whi_ucx_lane *lane, whi_hdr *hdr, const whi_span *src, size_t *moved) {
    // Copied at once, but told of like any other.
    whi_ucx_chunk *chunk = src->ptr ? whi_ucx_chunk_new(lane, false, &lane->chunks_out) : NULL;
    if (src->ptr && !chunk) {
        lane->space = true;
        return WH_EAGAIN;
    }
    wh_status status = whi_ucx_put(lane, hdr, src);
    if (status != WH_OK) {
        if (chunk)
            whi_ucx_chunk_free(chunk);
        return status;
    }
    *moved = hdr->size;
    if (chunk) {
        chunk->wire.hdr = *hdr;
        chunk->lent = true;
        whi_ucx_ended(chunk, UCS_OK);
    }
    return WH_OK;
}

static void *fill_staging(whi_ucx_chunk *chunk, const whi_span *src, size_t size) {
    chunk->staging = whi_malloc(size);
    if (chunk->staging)
        src->move(src->ctx, src->base, chunk->staging, size);
    return chunk->staging;
}

static wh_status push_chunk(whi_ucx_lane *lane, const whi_hdr *hdr, const whi_span *src,
                            size_t *moved) {
    whi_ucx_chunk *chunk = whi_ucx_chunk_new(lane, false, &lane->chunks_out);
    void *from = chunk ? src->ptr : NULL;
    if (chunk && !from)
        from = fill_staging(chunk, src, hdr->size);
    if (!from) {
        if (chunk)
            whi_ucx_chunk_free(chunk);
        lane->space = true;
        return WH_EAGAIN;
    }
    chunk->lent = src->ptr != NULL;
    chunk->wire = (whi_ucx_wire){.hdr = *hdr, .token = lane->peer_token, .seq = lane->tx_seq};
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                                     UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .flags = UCP_AM_SEND_FLAG_RNDV,
                                 .cb.send = chunk_sent,
                                 .user_data = chunk,
                                 .memory_type = whi_ucx_memory(src)};
    lane->tx_seq++;
    *moved = hdr->size;
    whi_ucx_enter_for(lane->ucx, src);
    ucs_status_ptr_t request = whi_ucp.ucp_am_send_nbx(lane->ep, WHI_UCX_AM, &chunk->wire,
                                                       WHI_UCX_WIRE, from, hdr->size, &param);
    whi_ucx_leave(lane->ucx);
    if (!UCS_PTR_IS_PTR(request))
        whi_ucx_ended(chunk, UCS_PTR_STATUS(request));
    return WH_OK;
}

wh_status whi_ucx_push(whi_lane *base, const whi_hdr *hdr, const whi_span *src, uint64_t size,
                       size_t *moved) {
    whi_ucx_lane *lane = whi_ucx_lane_of(base);
    assert(size > 0);
    if (lane->broken != WH_OK || lane->failing != WH_OK)
        return lane->broken != WH_OK ? lane->broken : lane->failing;
    if (!lane->ep || lane->chunks_out >= WHI_UCX_CHUNKS)
        return whi_ucx_refuse(lane);
    size_t most = src->ptr || lane->chunk_limit < WHI_UCX_STAGING ? lane->chunk_limit
                                                                  : (size_t)WHI_UCX_STAGING;
    whi_hdr part = *hdr;
    part.cls = WHI_CLASS_CHUNK;
    part.size = (uint32_t)(size < most ? size : most);
    // What is small is copied by the CPU, which reaches no device memory.
    bool small = part.size <= lane->eager_limit && whi_ucx_memory(src) == UCS_MEMORY_TYPE_HOST;
    return small ? push_small(lane, &part, src, moved) : push_chunk(lane, &part, src, moved);
}

// ---- in

static void chunk_landed(void *request, ucs_status_t status, size_t size, void *arg) {
    (void)size;
    whi_ucx_ended(arg, status);
    whi_ucp.ucp_request_free(request);
}

static wh_status no_memory(whi_ucx_lane *lane, whi_ucx_kept *kept) {
    whi_ucp.ucp_am_data_release(lane->ucx->worker, kept->announced);
    whi_free(kept);
    return WH_ENOMEM;
}

wh_status whi_ucx_land(whi_ucx_lane *lane, whi_ucx_kept *kept) {
    whi_ucx_chunk *chunk = whi_ucx_chunk_new(lane, true, &lane->chunks_in);
    if (!chunk)
        return no_memory(lane, kept);
    chunk->wire = kept->wire;
    size_t size = kept->wire.hdr.size;
    wh_status status = lane->lane.up->sink(lane->lane.link, &chunk->wire.hdr, &chunk->span);
    if (status != WH_OK) {
        whi_ucx_chunk_free(chunk);
        (void)no_memory(lane, kept);
        return status;
    }
    // Its id may be given out while it lands: what is nobody's now stays so (0 is never an id).
    if (!chunk->span.ptr && !chunk->span.ctx)
        chunk->wire.hdr.ep = 0;
    void *to = chunk->span.ptr;
    if (!to)
        to = chunk->staging = whi_malloc(size);
    if (!to) {
        whi_ucx_ended(chunk,
                      UCS_ERR_NO_MEMORY);  // the owner, who has heard of it, will hear of its end
        return no_memory(lane, kept);
    }
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .cb.recv_am = chunk_landed,
                                 .user_data = chunk,
                                 .memory_type = whi_ucx_memory(&chunk->span)};
    whi_ucx_enter_for(lane->ucx, &chunk->span);
    ucs_status_ptr_t request =
        whi_ucp.ucp_am_recv_data_nbx(lane->ucx->worker, kept->announced, to, size, &param);
    whi_ucx_leave(lane->ucx);
    whi_free(kept);
    if (!UCS_PTR_IS_PTR(request))
        whi_ucx_ended(chunk, UCS_PTR_STATUS(request));
    return WH_OK;
}

// tell_landed gives the owner a chunk that has come, or what is left of one.
static wh_status tell_landed(whi_ucx_lane *lane, whi_ucx_chunk *chunk) {
    const whi_lane_up *up = lane->lane.up;
    const whi_hdr *hdr = &chunk->wire.hdr;
    if (!chunk->good || lane->closed || lane->broken != WH_OK) {
        up->lost(lane->lane.link, hdr);
        return WH_OK;
    }
    if (chunk->staging)
        chunk->span.move(chunk->span.ctx, chunk->span.base, chunk->staging, hdr->size);
    return up->landed(lane->lane.link, hdr);
}

int whi_ucx_settle(whi_ucx_lane *lane) {
    int count = 0;
    // Only what is here now: an upcall may start more.
    whi_list batch;
    whi_list_take(&batch, &lane->ended);
    whi_list *node;
    while ((node = whi_list_first(&batch))) {
        whi_ucx_chunk *chunk = whi_container_of(node, whi_ucx_chunk, node);
        wh_status status = WH_OK;
        if (chunk->done)
            chunk->done(chunk->arg, chunk->good);
        else if (chunk->incoming)
            status = tell_landed(lane, chunk);
        else if (chunk->lent)
            lane->lane.up->sent(lane->lane.link, &chunk->wire.hdr);
        if (status != WH_OK)
            (void)whi_ucx_fail(lane, status);
        bool space = chunk->count != &lane->chunks_in;
        whi_ucx_chunk_free(chunk);
        if (space)
            whi_ucx_space(lane);
        count++;
    }
    return count;
}
