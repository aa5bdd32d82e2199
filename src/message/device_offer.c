// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory that the receiver copies by itself, see device_offer.h.
//
// The invariant: as long as an offer is out its send is held, as by a lane that lends, and so its memory stays the send's.  The
// receiver believes the bytes that it has copied only if the link is still there afterwards, since a sender whose link
// ends gives its memory back without an answer, and hangs up before.
#include "message/device_offer.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "message/behind.h"
#include "message/endpoint.h"
#include "message/import.h"
#include "message/records.h"

enum { TAKEN = 0, REFUSED = 1, NO_DESCRIPTORS = 2 };  // arg of TAKEN

enum {
    PATIENCE_NS = 10 * 1000 * 1000
};  // many turns of a device, few of a message through the host

// In one process the two ends may be two threads'.  A copy begins under this lock, after a look whether the sender has hung up,
// and a sender hangs up under it: so each copy has begun before, and is waited for, or sees that it must not begin.
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;

static whi_device_room *room_of(const wh_worker *worker) {
    return &whi_messages_of(worker)->device;
}

bool whi_device_offer_may(const whi_link *link) {
    return link->worker->ctx->config.device_path == WHI_DEVICE_PATH_AUTO &&
           (link->peer.features & WHI_FEATURE_DEVICE) &&
           (link->same_process || (link->local && !whi_link_other_user(link)));
}

// ---- Sending.

static uint64_t piece_of(uint64_t left) {
    return left < WHI_DEVICE_OFFER_MAX ? left : WHI_DEVICE_OFFER_MAX;
}

// describe says where the bytes at `ptr` are, up to `size` of them: as many as one handle covers.
static bool describe(const whi_link *link, const whi_mem_ops *ops, const char *ptr, uint64_t size,
                     whi_device_offer *offer) {
    whi_mem_handle handle;
    *offer = (whi_device_offer){.size = size, .kind = (uint8_t)ops->kind};
    if (link->same_process) {
        offer->how = WHI_OFFER_ADDRESS;
        offer->at = (uint64_t)(uintptr_t)ptr;
        return true;
    }
    if (!ops->sharing || ops->sharing->export(ptr, &handle) != WH_OK)
        return false;
    if (handle.descriptor && whi_messages_on(link)->descriptors_never)
        return false;
    offer->how = handle.descriptor ? WHI_OFFER_DESCRIPTOR : WHI_OFFER_HANDLE;
    offer->at = (uint64_t)(uintptr_t)ptr - handle.base;
    offer->id = handle.id;
    offer->base = handle.base;
    offer->length = handle.length;
    memcpy(offer->device, handle.device, sizeof(offer->device));
    memcpy(offer->handle, handle.bytes, sizeof(offer->handle));
    if (offer->at >= handle.length)
        return false;
    // Behind a piece of virtual memory there may be another one.  What crosses the end of its allocation is an error that the
    // copy of a chunk tells.
    if (handle.descriptor && size > handle.length - offer->at)
        offer->size = handle.length - offer->at;
    return offer->size <= handle.length - offer->at;
}

// tell sends an offer, for whose answer the send is held.  The send is in no list.
static void tell(whi_link *link, wh_request *req, const whi_device_offer *offer) {
    whi_hdr hdr = {.cls = WHI_CLASS_OFFER,
                   .size = sizeof(*offer),
                   .ep = req->ep->number,
                   .seq = req->segment,
                   .tag = req->grant_id | (uint64_t)req->loan_id << 32,
                   .arg = req->offset};
    req->device = WHI_DEVICE_OUT;
    req->offered = (uint32_t)offer->size;
    req->held++;
    whi_messages_on(link)->held++;
    whi_link_control(link, &hdr, offer);
}

// look_soon has the sends that wait looked at.
static void look_soon(wh_worker *worker) {
    if (whi_list_empty(&room_of(worker)->waiting))
        return;
    room_of(worker)->look = true;
    whi_behind_wake(worker);
}

static void put_packed(whi_link *link, wh_request *req) {
    whi_device_room *room = room_of(link->worker);
    if (!req->packed)
        return;
    whi_device_pool_put(&room->packed, req->packed);
    req->packed = NULL;
    whi_messages_on(link)->packed--;
    room->came_back = true;
    room->stalls = false;
    look_soon(link->worker);
}

static void be_patient(wh_worker *worker) {
    whi_device_room *room = room_of(worker);
    room->came_back = false;
    whi_timers_add(&worker->timers, &room->patience, whi_clock_ns() + room->patience_ns);
}

static void out_of_patience(whi_timer *timer, void *arg) {
    (void)timer;
    wh_worker *worker = arg;
    whi_device_room *room = room_of(worker);
    if (whi_list_empty(&room->waiting))
        return;
    room->stalls = !room->came_back;
    if (room->stalls)
        look_soon(worker);
    else
        be_patient(worker);
}

// may_wait says whether a send waits for memory that others have.  What its own link has comes back, or the link ends; what
// others have is waited for as long as some comes back at all.
static bool may_wait(const whi_link *link) {
    whi_device_room *room = room_of(link->worker);
    if (whi_messages_on(link)->packed)
        return true;
    if (!room->stalls && room->patience.state == WHI_TIMER_IDLE)
        be_patient(link->worker);
    return !room->stalls;
}

// pack begins to pack a part of a layout, which is offered when that has passed.  WH_PENDING: it waits for memory.
static wh_status pack(whi_link *link, wh_request *req, const whi_mem_ops *ops, whi_buffer *buf,
                      uint64_t left) {
    whi_device_offer offer;
    whi_link_messages *on = whi_messages_on(link);
    if (on->packs_never)
        return WH_ENOTSUP;
    whi_device_room *room = room_of(link->worker);
    bool behind = !whi_list_empty(&room->waiting) && may_wait(link);
    wh_status st = behind
                       ? WH_PENDING
                       : whi_device_pool_take(&room->packed, ops, buf->device, left, &req->packed);
    if (st == WH_EAGAIN && may_wait(link))
        return WH_PENDING;
    if (st != WH_OK)
        return st;
    on->packed++;
    const whi_device_block *block = req->packed;
    whi_stage_chunk like = {.req = req,
                            .net = link,
                            .buf = buf,
                            .offset = req->offset,
                            .size = left < block->size ? left : block->size,
                            .memory = block->memory};
    // What cannot be offered once never can be: it is the kind of memory that cannot.
    on->packs_never = !describe(link, ops, block->memory, like.size, &offer);
    st = on->packs_never ? WH_ENOTSUP : whi_stage_begin(link->worker, &like, WHI_STAGE_PACKING);
    if (st == WH_OK)
        req->device = WHI_DEVICE_PACKING;
    else
        put_packed(link, req);
    return st;
}

// begin has a send offer or pack a part, or wait for memory (WH_PENDING); else it goes as all others do.
static wh_status begin(whi_link *link, wh_request *req, whi_buffer *buf, uint64_t left) {
    whi_device_offer offer;
    const whi_mem_ops *ops = whi_mem_ops_of((wh_mem_kind)buf->kind);
    req->packed = NULL;
    if (!ops || !whi_device_offer_may(link) ||
        (!buf->type && !describe(link, ops, (const char *)buf->ptr + req->offset, left, &offer)))
        return WH_ENOTSUP;
    if (!req->loan_id && whi_idmap_put(&whi_messages_on(link)->loans, req, &req->loan_id) != WH_OK)
        return WH_ENOMEM;
    if (buf->type)
        return pack(link, req, ops, buf, left);
    tell(link, req, &offer);
    return WH_OK;
}

bool whi_device_offer_make(whi_link *link, wh_request *req, whi_buffer *buf, uint64_t left) {
    if (req->device != WHI_DEVICE_DIRECT || req->fate != WHI_FATE_GOES_ON ||
        whi_messages_on(link)->mid == req || !whi_buffer_stages(buf) || buf->failed || !left)
        return false;
    wh_status st = begin(link, req, buf, piece_of(left));
    if (st != WH_OK && st != WH_PENDING) {
        req->device = WHI_DEVICE_STAGED;
        return false;
    }
    whi_list_remove(&req->queue_link);
    if (st == WH_PENDING) {
        req->device = WHI_DEVICE_WAITING;
        whi_list_push_back(&room_of(link->worker)->waiting, &req->queue_link);
    }
    return true;
}

unsigned whi_device_offer_look(wh_worker *worker) {
    whi_device_room *room = room_of(worker);
    if (!room->look)
        return 0;
    room->look = false;
    whi_list all, *node;
    unsigned count = 0;
    for (whi_list_take(&all, &room->waiting); (node = whi_list_pop_front(&all));) {
        wh_request *req = whi_container_of(node, wh_request, queue_link);
        whi_link *link = req->ep->link;
        if (!whi_list_empty(&room->waiting) && may_wait(link)) {
            whi_list_push_back(&room->waiting, node);  // behind one for which there was none
            continue;
        }
        req->device = WHI_DEVICE_DIRECT;
        room->up->again(link, req);
        count++;
    }
    return count;
}

void whi_device_offer_packed(const whi_stage_chunk *chunk, wh_status st) {
    whi_device_offer offer;
    whi_link *link = chunk->net;
    wh_request *req = chunk->req;
    whi_buffer_note(chunk->buf, st, "read");
    req->held--;
    whi_messages_on(link)->held--;
    bool ends = req->fate != WHI_FATE_GOES_ON || whi_messages_of(link->worker)->stage.settles;
    if (st == WH_OK && !ends && describe(link, chunk->ops, chunk->memory, chunk->size, &offer)) {
        tell(link, req, &offer);
        return;
    }
    put_packed(link, req);
    req->device = WHI_DEVICE_STAGED;
    room_of(link->worker)->up->took(link, req, 0);
}

// answered goes on with a send whose offer is not out any more.
static void answered(whi_link *link, wh_request *req, bool taken) {
    req->device = taken ? WHI_DEVICE_DIRECT : WHI_DEVICE_STAGED;
    put_packed(link, req);
    req->held--;
    whi_messages_on(link)->held--;
    req->ep->counters.device_sent += taken;
    room_of(link->worker)->up->took(link, req, taken ? req->offered : 0);
}

static wh_status on_taken(whi_link *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->loans, (uint32_t)hdr->tag);
    if (!req || req->device != WHI_DEVICE_OUT || req->ep->number != hdr->ep ||
        hdr->arg > NO_DESCRIPTORS)
        return whi_link_broken(link, hdr, "an answer to no offer");
    whi_messages_on(link)->descriptors_never |= hdr->arg == NO_DESCRIPTORS;
    answered(link, req, hdr->arg == TAKEN);
    return WH_OK;
}

// ---- Receiving.

bool whi_device_offer_may_come(const wh_request *req) {
    const whi_link *link = req->ep->link;
    bool here = req->ops->on_device ? req->ops->on_device(req) : whi_buffer_stages(&req->buf);
    return here && whi_device_offer_may(link) && !whi_messages_on(link)->by_handle[false].never;
}

static void answer(whi_link *link, uint32_t ep, uint32_t offer_id, uint64_t what) {
    whi_hdr hdr = {.cls = WHI_CLASS_TAKEN, .ep = ep, .tag = offer_id, .arg = what};
    whi_link_control(link, &hdr, NULL);
}

// check finds what no honest peer offers.
static const char *check(const whi_link *link, const whi_hdr *hdr, const whi_device_offer *offer) {
    if (hdr->size != sizeof(*offer) || !(hdr->tag >> 32) || !offer->size ||
        offer->size > WHI_DEVICE_OFFER_MAX)
        return "an offer that cannot be";
    if (!whi_device_offer_may(link))
        return "an offer of device memory that nobody has asked for";
    bool handle = offer->how == WHI_OFFER_HANDLE || offer->how == WHI_OFFER_DESCRIPTOR;
    if (!handle && !(offer->how == WHI_OFFER_ADDRESS && link->same_process))
        return "an offer of an address in another process";
    if (handle && (offer->size > offer->length || offer->at > offer->length - offer->size))
        return "an offer of bytes outside their allocation";
    return NULL;
}

// find_memory finds where the offered bytes are in this process; NULL: they cannot be had.
static const void *find_memory(whi_link *link, const whi_mem_ops *ops, int device,
                               const whi_device_offer *offer, whi_import **import) {
    *import = NULL;
    if (offer->how == WHI_OFFER_ADDRESS)
        return (const void *)(uintptr_t)offer->at;
    if (link->same_process || !ops->sharing)
        return NULL;
    whi_mem_handle handle = {.id = offer->id,
                             .base = offer->base,
                             .length = offer->length,
                             .descriptor = offer->how == WHI_OFFER_DESCRIPTOR};
    memcpy(handle.device, offer->device, sizeof(handle.device));
    memcpy(handle.bytes, offer->handle, sizeof(handle.bytes));
    *import = whi_import_get(link, ops, &handle, device);
    if (!*import)
        return NULL;
    uint64_t length = (*import)->mapping.length;
    if (offer->size <= length && offer->at <= length - offer->size)
        return (const char *)(*import)->mapping.base + offer->at;
    whi_import_put(*import);
    return NULL;
}

// reached says whether kernels of the device that a layout lies on reach what was offered.
static bool reached(const whi_mem_ops *ops, const whi_buffer *buf, const void *from,
                    uint64_t size) {
    whi_mem_place place;
    return ops->kernels && ops->kernels->place(from, size, &place) == WH_OK &&
           place.device == buf->device;
}

// take begins the copy of an offer into its place; false: it is to be sent.
static bool take(whi_link *link, wh_request *req, whi_buffer *buf, uint64_t offset,
                 const whi_hdr *chunk, const whi_device_offer *offer, uint32_t offer_id) {
    const whi_mem_ops *ops = whi_mem_ops_of((wh_mem_kind)buf->kind);
    whi_import *import = NULL;
    if (buf->failed || !ops || offer->kind != ops->kind)
        return false;
    const void *from = find_memory(link, ops, buf->device, offer, &import);
    if (!from)
        return false;
    whi_stage_chunk like = {.req = req,
                            .net = link,
                            .buf = buf,
                            .hdr = *chunk,
                            .offset = offset,
                            .size = offer->size,
                            .from = from,
                            .import = import,
                            .offer_id = offer_id};
    if ((!buf->type || reached(ops, buf, from, offer->size)) &&
        whi_stage_begin(link->worker, &like, WHI_STAGE_TAKING) == WH_OK)
        return true;
    if (import)
        whi_import_put(import);
    return false;
}

// refusal returns how an offer is refused.
static uint64_t refusal(const whi_link *link, const whi_device_offer *offer) {
    bool never = offer->how == WHI_OFFER_DESCRIPTOR && whi_messages_on(link)->by_handle[true].never;
    return never ? NO_DESCRIPTORS : REFUSED;
}

static wh_status on_offer(whi_link *link, const whi_hdr *hdr, const void *payload) {
    whi_device_offer offer = {.size = 0};
    if (hdr->size == sizeof(offer))
        memcpy(&offer, payload, sizeof(offer));
    const char *wrong = check(link, hdr, &offer);
    if (wrong)
        return whi_link_broken(link, hdr, wrong);
    uint32_t grant_id = (uint32_t)hdr->tag, offer_id = (uint32_t)(hdr->tag >> 32);
    wh_request *req = whi_idmap_get(&whi_messages_on(link)->grants, grant_id);
    if (!req || req->fate == WHI_FATE_RETURNED) {
        answer(link, hdr->ep, offer_id, TAKEN);  // granted once, and ended meanwhile: thrown away
        return WH_OK;
    }
    if (req->device != WHI_DEVICE_DIRECT || req->ep->number != hdr->ep ||
        offer.size > req->accept - req->moved)
        return whi_link_broken(link, hdr, "an offer that does not fit what was granted");
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK,
                     .size = (uint32_t)offer.size,
                     .ep = grant_id,
                     .seq = hdr->seq,
                     .arg = hdr->arg};
    whi_span span;
    if (req->ops->sink(req, &chunk, &span) != WH_OK)
        return whi_link_broken(link, hdr, "an offer that does not fit what was granted");
    whi_buffer *buf = whi_buffer_of_sink(&span);
    if (link->same_process)
        pthread_mutex_lock(&beginning);
    bool gone = whi_link_hung_up(link);
    bool takes = !gone && buf && take(link, req, buf, span.base, &chunk, &offer, offer_id);
    if (link->same_process)
        pthread_mutex_unlock(&beginning);
    if (gone)
        return WH_OK;  // its memory may be its user's again; the receive ends with the link
    if (takes)
        req->device = WHI_DEVICE_OUT;
    else
        answer(link, hdr->ep, offer_id, refusal(link, &offer));
    return WH_OK;
}

void whi_device_offer_passed(const whi_stage_chunk *chunk, wh_status st) {
    whi_link *link = chunk->net;
    wh_request *req = chunk->req;
    const whi_device_up *up = room_of(link->worker)->up;
    if (chunk->import)
        whi_import_put(chunk->import);
    req->device = WHI_DEVICE_DIRECT;
    whi_buffer_note(chunk->buf, st, "written");
    answer(link, req->ep->number, chunk->offer_id, TAKEN);
    if (whi_link_hung_up(link)) {
        up->dropped(link, req);  // the receive ends with the link
    } else {
        req->ep->counters.device_received++;
        up->stored(link, req, &chunk->hdr);
    }
}

// ---- The end.

// settle_all waits for copies in this process that others make of memory that is about to be given back.
static void settle_all(void) {
    for (int kind = WH_MEM_HOST + 1; kind < WHI_MEM_KINDS; kind++) {
        const whi_mem_ops *ops = whi_mem_ops_of((wh_mem_kind)kind);
        if (ops && ops->staging)
            ops->staging->settle(WHI_MEM_WITHIN);
    }
}

// hang_up tells the peer that nothing is offered any more.  What it begins from then on does not touch what was.
static void hang_up(const whi_link *link) {
    if (link->same_process)
        pthread_mutex_lock(&beginning);
    whi_control_hang_up(&link->control);
    if (!link->same_process)
        return;
    pthread_mutex_unlock(&beginning);
    settle_all();
}

void whi_device_offer_link_ended(whi_link *link) {
    uint32_t cursor = 0;
    bool gave = false;
    wh_request *req;
    while ((req = whi_idmap_next(&whi_messages_on(link)->loans, &cursor))) {
        if (req->device != WHI_DEVICE_OUT)
            continue;
        if (!gave)
            hang_up(link);
        gave = true;
        req->device = WHI_DEVICE_STAGED;
        put_packed(link, req);
        whi_messages_on(link)->held--;
        if (--req->held == 0 && req->fate == WHI_FATE_RETURNED)
            room_of(link->worker)->up->took(link, req, 0);
    }
    whi_import_link_ended(link);
}

void whi_device_offer_init(wh_worker *worker, const whi_device_up *up) {
    whi_device_room *room = room_of(worker);
    room->up = up;
    whi_list_init(&room->waiting);
    whi_timer_init(&room->patience, out_of_patience, worker);
    room->patience_ns = PATIENCE_NS;
    whi_device_pool_init(&room->packed, worker->ctx->config.device_pack_max);
    whi_control_on(worker, WHI_CLASS_OFFER, on_offer, sizeof(whi_device_offer));
    whi_control_on(worker, WHI_CLASS_TAKEN, on_taken, 0);
}
