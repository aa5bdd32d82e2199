// SPDX-License-Identifier: BSD-3-Clause
//
// The ucx lane: its life, and records.
//
// A record goes out of the caller's memory when UCX can put it away at once, else out of a slot of ours, of which
// each lane has a few.  Arriving records are numbered: UCX promises no order.  The one that is next is handled inside
// UCX's callback while its lane is being polled and its owner wants more; any other is kept.  Invariant: what is kept is
// ordered, and nothing is handled before what is kept or has ended before it, so the lane does not reorder.
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "net/ucx/ucx_lane.h"

wh_status whi_ucx_fail(whi_ucx_lane *lane, wh_status status) {
    if (lane->broken == WH_OK)
        lane->broken = status;
    whi_ucx_wake(lane);
    return lane->broken;
}

wh_status whi_ucx_violated(whi_ucx_lane *lane, const char *what) {
    whi_log_once_per(WHI_WARN, "W-UCX-01", 1, "%s: %s; its link is given up", lane->peer, what);
    return whi_ucx_fail(lane, WH_EPROTOCOL);
}

// ---- sending

static void slot_sent(void *request, ucs_status_t status, void *arg) {
    whi_ucx_slot *slot = arg;
    whi_ucx_lane *lane = slot->lane;
    whi_pool_put(&lane->slot_pool, slot);
    lane->slots--;
    if (status != UCS_OK && lane->failing == WH_OK)
        lane->failing = WH_EPEER;
    whi_ucx_space(lane);
    if (status != UCS_OK)
        whi_ucx_wake(lane);
    whi_ucp.ucp_request_free(request);
}

static wh_status send_failed(whi_ucx_lane *lane, ucs_status_t status) {
    whi_log_once_per(WHI_INFO, "I-UCX-04", 1, "%s: UCX sends no more: %s", lane->peer,
                     whi_ucp.ucs_status_string(status));
    wh_status mine = whi_ucx_status(status);
    return whi_ucx_fail(lane, mine == WH_ENOMEM ? mine : WH_EPEER);
}

static whi_ucx_slot *take_slot(whi_ucx_lane *lane) {
    if (lane->slots >= WHI_UCX_SLOTS)
        return NULL;
    whi_ucx_slot *slot = whi_pool_get(&lane->slot_pool);
    if (!slot) {
        // Without memory there is no space, and nobody but time will make any.
        lane->space = true;
        return NULL;
    }
    lane->slots++;
    slot->lane = lane;
    return slot;
}

static wh_status sent(whi_ucx_lane *lane, whi_ucx_slot *slot, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request))
        return WH_OK;
    whi_pool_put(&lane->slot_pool, slot);
    lane->slots--;
    return request ? send_failed(lane, UCS_PTR_STATUS(request)) : WH_OK;
}

wh_status whi_ucx_put(whi_ucx_lane *lane, const whi_hdr *hdr, const whi_span *payload) {
    whi_ucx_slot *slot = take_slot(lane);
    if (!slot)
        return lane->space ? WH_EAGAIN : whi_ucx_refuse(lane);
    slot->wire = (whi_ucx_wire){.hdr = *hdr, .token = lane->peer_token, .seq = lane->tx_seq};
    if (hdr->size && payload->ptr)
        memcpy(slot->payload, payload->ptr, hdr->size);
    else if (hdr->size && payload->move)
        payload->move(payload->ctx, payload->base, slot->payload, hdr->size);
    static const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .flags = UCP_AM_SEND_FLAG_EAGER,
        .cb.send = slot_sent,
        .memory_type = UCS_MEMORY_TYPE_HOST};
    ucp_request_param_t with = param;
    with.user_data = slot;
    lane->tx_seq++;
    return sent(lane, slot,
                whi_ucp.ucp_am_send_nbx(lane->ep, WHI_UCX_AM, NULL, 0, &slot->wire,
                                        sizeof(slot->wire) + hdr->size, &with));
}

// abbreviate says whether the brief form holds all of a record, and writes it.
static inline bool abbreviate(const whi_ucx_lane *lane, const whi_hdr *hdr, whi_ucx_brief *brief) {
    if (hdr->flags | hdr->aux | hdr->arg | hdr->tag >> 32 | hdr->ep >> 8)
        return false;
    *brief = (whi_ucx_brief){.token = lane->peer_token,
                             .seq = (uint16_t)lane->tx_seq,
                             .ep = (uint8_t)hdr->ep,
                             .cls = hdr->cls,
                             .ep_seq = hdr->seq,
                             .tag = (uint32_t)hdr->tag};
    return true;
}

// send_short asks UCX to take a record at once, out of the caller's memory, or not at all: WH_EAGAIN.
static wh_status send_short(whi_ucx_lane *lane, const whi_hdr *hdr, const void *payload) {
    static const ucp_request_param_t at_once = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS |
                                                                UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL |
                                                                UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                                .flags = UCP_AM_SEND_FLAG_EAGER,
                                                .memory_type = UCS_MEMORY_TYPE_HOST};
    union {
        whi_ucx_wire wire;
        whi_ucx_brief brief;
    } header;
    size_t header_size = WHI_UCX_BRIEF;
    if (!abbreviate(lane, hdr, &header.brief)) {
        header.wire = (whi_ucx_wire){.hdr = *hdr, .token = lane->peer_token, .seq = lane->tx_seq};
        header_size = WHI_UCX_WIRE;
    }
    ucs_status_ptr_t request = whi_ucp.ucp_am_send_nbx(lane->ep, WHI_UCX_AM, &header, header_size,
                                                       payload, hdr->size, &at_once);
    if (__builtin_expect(!request, 1)) {
        lane->tx_seq++;
        return WH_OK;
    }
    ucs_status_t status = UCS_PTR_STATUS(request);
    return status == UCS_ERR_NO_RESOURCE ? WH_EAGAIN : send_failed(lane, status);
}

static wh_status ucx_send(whi_lane *base, const whi_hdr *hdr, const void *payload) {
    whi_ucx_lane *lane = whi_ucx_lane_of(base);
    assert(hdr->cls < WHI_CLASS_LANE && hdr->cls != WHI_CLASS_CHUNK);
    assert(hdr->size <= lane->eager_limit);
    if (__builtin_expect(lane->broken != WH_OK || lane->failing != WH_OK, 0))
        return lane->broken != WH_OK ? lane->broken : lane->failing;
    if (__builtin_expect(!lane->ep, 0))
        return whi_ucx_refuse(lane);
    bool tried = hdr->size <= lane->short_max;
    if (tried) {
        wh_status status = send_short(lane, hdr, payload);
        if (status != WH_EAGAIN)
            return status;
    }
    whi_span span = {.ptr = (void *)(uintptr_t)payload};
    unsigned waiting = lane->slots;
    wh_status status = whi_ucx_put(lane, hdr, &span);
    // Taken now without waiting: then it was the size that was in the way before, and will be again.
    if (tried && status == WH_OK && lane->slots == waiting && hdr->size)
        lane->short_max = hdr->size - 1;
    return status;
}

// ---- receiving

static wh_status handle(whi_ucx_lane *lane, const whi_hdr *hdr, void *payload) {
    const whi_lane_up *up = lane->lane.up;
    if (__builtin_expect(hdr->cls != WHI_CLASS_CHUNK, 1))
        return up->deliver(lane->lane.link, hdr, payload);
    whi_span span;
    wh_status status = up->sink(lane->lane.link, hdr, &span);
    if (status != WH_OK)
        return status;
    if (whi_ucx_memory(&span) != UCS_MEMORY_TYPE_HOST)
        status = whi_mem_copy(whi_mem_ops_of((wh_mem_kind)span.kind), span.ptr, &whi_mem_host,
                              payload, hdr->size);
    else if (span.ptr)
        memcpy(span.ptr, payload, hdr->size);
    else
        span.move(span.ctx, span.base, payload, hdr->size);
    if (status == WH_OK)
        return up->landed(lane->lane.link, hdr);
    up->lost(lane->lane.link, hdr);
    return status;
}

static inline void handle_next(whi_ucx_lane *lane, const whi_hdr *hdr, void *payload) {
    lane->rx_seq++;
    lane->ucx->budget--;
    lane->ucx->events++;
    bool entered = lane->ucx->entered;
    whi_ucx_leave(lane->ucx);  // what follows may be a program's handler
    wh_status status = handle(lane, hdr, payload);
    if (__builtin_expect(entered, 0))
        whi_ucx_enter(lane->ucx);
    if (__builtin_expect(status != WH_OK, 0))
        (void)whi_ucx_fail(lane, status);
}

static bool next_is_here(const whi_ucx_lane *lane) {
    if (whi_list_empty(&lane->kept))
        return false;
    const whi_ucx_kept *kept = whi_container_of(whi_list_first(&lane->kept), whi_ucx_kept, node);
    return kept->wire.seq == lane->rx_seq && (!kept->announced || lane->chunks_in < WHI_UCX_CHUNKS);
}

// note_crowd notes whether UCX has to wait for the lane: only where polling it makes that better.  What a peer has sent before
// its link reads the lane, or while a record is missing, holds up nobody else; that has its own limit.
static void note_crowd(whi_ucx_lane *lane) {
    bool crowd = lane->kept_size > WHI_UCX_CROWD && lane->reads && lane->broken == WH_OK &&
                 next_is_here(lane);
    lane->ucx->crowds += crowd;
    lane->ucx->crowds -= lane->crowd;
    lane->crowd = crowd;
}

// kept_bytes is what a message that is kept costs; of an announcement UCX has the rest.
static size_t kept_bytes(const whi_ucx_kept *kept) {
    return sizeof(*kept) + (kept->announced ? 0 : kept->wire.hdr.size);
}

static size_t kept_max(const whi_ucx_lane *lane) {
    size_t records = WHI_UCX_KEPT_RECORDS * lane->eager_max;
    return records > WHI_UCX_KEPT_MAX ? records : WHI_UCX_KEPT_MAX;
}

static ucs_status_t keep(whi_ucx_lane *lane, const whi_ucx_wire *wire, void *data, size_t size,
                         bool announced) {
    if (lane->kept_size > kept_max(lane)) {
        (void)whi_ucx_violated(lane, "it sent more ahead of its turn than a Wherry peer does");
        return UCS_OK;
    }
    whi_ucx_kept *kept = whi_malloc(sizeof(*kept) + (announced ? 0 : size));
    if (!kept) {
        (void)whi_ucx_fail(lane, WH_ENOMEM);
        return UCS_OK;
    }
    kept->wire = *wire;
    kept->announced = announced ? data : NULL;
    if (!announced && size)
        memcpy(kept->payload, data, size);
    whi_list *before = lane->kept.prev;
    int32_t after = -1;
    while (before != &lane->kept &&
           (after = (int32_t)(wire->seq - whi_container_of(before, whi_ucx_kept, node)->wire.seq)) <
               0)
        before = before->prev;
    if (before != &lane->kept && after == 0) {
        whi_free(kept);
        (void)whi_ucx_violated(lane, "it sent one number twice");
        return UCS_OK;
    }
    whi_list_insert(before, &kept->node);
    lane->kept_size += kept_bytes(kept);
    note_crowd(lane);
    whi_ucx_wake(lane);
    return announced ? UCS_INPROGRESS : UCS_OK;
}

// sane says whether a message may be what it says of itself.
static bool sane(const whi_ucx_lane *lane, const whi_ucx_wire *wire, size_t size, bool announced) {
    const whi_hdr *hdr = &wire->hdr;
    bool chunk = hdr->cls == WHI_CLASS_CHUNK;
    size_t most = chunk && announced ? lane->chunk_max : lane->eager_max;
    return hdr->size == size && hdr->cls < WHI_CLASS_LANE && size <= most &&
           (chunk ? size > 0 : !announced) && (uint32_t)(wire->seq - lane->rx_seq) < WHI_UCX_AHEAD;
}

ucs_status_t whi_ucx_arrived(whi_ucx_lane *lane, const whi_ucx_wire *wire, void *data, size_t size,
                             bool announced) {
    whi_ucx *ucx = lane->ucx;
    if (__builtin_expect(lane->broken != WH_OK, 0))
        return UCS_OK;
    if (__builtin_expect(!sane(lane, wire, size, announced), 0)) {
        (void)whi_ucx_violated(lane, "it sent what no Wherry peer sends over UCX");
        return UCS_OK;
    }
    bool now = lane == ucx->polled && ucx->budget > 0 && wire->seq == lane->rx_seq && !announced &&
               whi_list_empty(&lane->kept) && whi_list_empty(&lane->ended);
    if (__builtin_expect(!now, 0))
        return keep(lane, wire, data, size, announced);
    handle_next(lane, &wire->hdr, data);
    return UCS_OK;
}

// handle_kept handles what is kept and whose turn it is.
static void handle_kept(whi_ucx_lane *lane) {
    whi_ucx *ucx = lane->ucx;
    while (ucx->budget > 0 && lane->broken == WH_OK && next_is_here(lane)) {
        whi_ucx_kept *kept = whi_container_of(whi_list_pop_front(&lane->kept), whi_ucx_kept, node);
        lane->kept_size -= kept_bytes(kept);
        if (kept->announced) {
            lane->rx_seq++;
            ucx->budget--;
            ucx->events++;
            wh_status status = whi_ucx_land(lane, kept);
            if (status != WH_OK)
                (void)whi_ucx_fail(lane, status);
        } else {
            handle_next(lane, &kept->wire.hdr, kept->payload);
            whi_free(kept);
        }
    }
    note_crowd(lane);
}

void whi_ucx_drop_kept(whi_ucx_lane *lane) {
    whi_list *node;
    while ((node = whi_list_pop_front(&lane->kept))) {
        whi_ucx_kept *kept = whi_container_of(node, whi_ucx_kept, node);
        if (kept->announced)
            whi_ucp.ucp_am_data_release(lane->ucx->worker, kept->announced);
        whi_free(kept);
    }
    lane->kept_size = 0;
    note_crowd(lane);
}

static int ucx_poll(whi_lane *base, int budget) {
    whi_ucx_lane *lane = whi_ucx_lane_of(base);
    whi_ucx *ucx = lane->ucx;
    if (__builtin_expect(lane->broken != WH_OK, 0))
        return lane->broken;
    ucx->polled = lane;
    ucx->budget = budget;
    lane->reads = lane->reads || budget > 0;
    ucx->events = whi_ucx_settle(lane);
    handle_kept(lane);
    whi_ucx_listen(ucx);
    if (!whi_list_empty(&lane->ended))
        ucx->events += whi_ucx_settle(lane);
    if (!whi_list_empty(&lane->kept))
        handle_kept(lane);
    ucx->polled = NULL;
    if (lane->space) {
        lane->space = false;
        ucx->events++;
    }
    if (__builtin_expect(lane->failing != WH_OK, 0) && lane->broken == WH_OK && !ucx->events)
        lane->broken = lane->failing;
    return lane->broken != WH_OK ? (int)lane->broken : ucx->events;
}

static bool ucx_arm(whi_lane *base, bool want_space) {
    (void)base, (void)want_space;  // the domain's descriptor tells, see whi_ucx_arm
    return false;
}

static bool ucx_ready(whi_lane *base, bool want_space) {
    const whi_ucx_lane *lane = whi_ucx_lane_of(base);
    return lane->broken != WH_OK || lane->failing != WH_OK || next_is_here(lane) ||
           !whi_list_empty(&lane->ended) || (want_space && lane->space);
}

static size_t ucx_eager_limit(const whi_lane *base) {
    return ((const whi_ucx_lane *)base)->eager_limit;
}

static bool ucx_takes(const whi_lane *base, int kind) {
    const whi_ucx_lane *lane = (const whi_ucx_lane *)base;
    ucs_memory_type_t type = whi_ucx_memory_of(kind);
    return type != UCS_MEMORY_TYPE_UNKNOWN && (lane->ucx->memory_types & UCS_BIT(type));
}

static const whi_lane_ops ucx_ops = {
    .name = "ucx",
    .lends = true,
    .takes = ucx_takes,
    .access = &whi_ucx_access,
    .eager_limit = ucx_eager_limit,
    .send = ucx_send,
    .push = whi_ucx_push,
    .poll = ucx_poll,
    .arm = ucx_arm,
    .ready = ucx_ready,
    .describe = whi_ucx_describe,
    .close = whi_ucx_close,
};

// ---- life

wh_status whi_ucx_lane_create(whi_ucx *ucx, const whi_ucx_opts *opts, const whi_lane_up *up,
                              const whi_ucx_owner *owner, void *link, whi_lane **out) {
    whi_ucx_lane *lane = whi_calloc(1, sizeof(*lane));
    if (!lane)
        return WH_ENOMEM;
    wh_status status = whi_random_bytes(&lane->token, sizeof(lane->token));
    if (status == WH_OK)
        status = whi_hash_put(&ucx->lanes, lane->token, lane);
    if (status != WH_OK) {
        whi_free(lane);
        return status;
    }
    whi_lane_init(&lane->lane, &ucx_ops, up, link);
    assert(up->sent && up->lost);
    lane->ucx = ucx;
    lane->owner = owner;
    lane->eager_limit = lane->short_max = opts->eager_limit;
    lane->eager_max = opts->eager_max;
    lane->chunk_limit = lane->chunk_max = opts->chunk ? opts->chunk : WHI_UCX_CHUNK;
    lane->same_host = opts->same_host;
    strncpy(lane->peer, opts->peer ? opts->peer : "the peer", sizeof(lane->peer) - 1);
    whi_pool_init(&lane->slot_pool, sizeof(whi_ucx_slot) + opts->eager_limit, 0, "ucx slot");
    whi_list *lists[] = {&lane->kept, &lane->out, &lane->ended, &lane->node};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        whi_list_init(lists[i]);
    *out = &lane->lane;
    return WH_OK;
}

void whi_ucx_lane_lost(whi_lane *lane) {
    whi_ucx_lane *mine = whi_ucx_lane_of(lane);
    if (mine->failing == WH_OK)
        mine->failing = WH_EPEER;
}
