// SPDX-License-Identifier: BSD-3-Clause
//
// The chunks of staging and the copies under way, see stage.h.
//
// The invariant: a chunk is in one place.  It is free only when no copy and no lane uses it, so that nobody's bytes go into
// another's message; and each copy holds its request and its link once, from its submission until its event has passed.
#include "message/stage.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "message/behind.h"
#include "message/endpoint.h"
#include "type/on_device.h"

enum {
    AHEAD = 4,               // chunks of one send: enough for the device, the lane and a late turn
    PIECES = 8,              // of a payload at least, so that the first is on its way early
    PIECE_LEAST = 64 << 10,  // of those
    SETTLE_US = 20,          // between two questions of one that waits
};

static whi_stage_room *room_of(const wh_worker *worker) {
    return &whi_messages_of(worker)->stage;
}

static whi_stage_chunk *chunk_of(whi_list *node) {
    return whi_container_of(node, whi_stage_chunk, link);
}

// ---- The pool.

static whi_stage_chunk *make(whi_stage_room *room, const whi_mem_ops *ops, int device) {
    whi_stage_chunk *chunk = whi_calloc(1, sizeof(*chunk));
    void *memory = NULL;
    if (!chunk || ops->staging->pin(device, room->chunk_size, &memory) != WH_OK) {
        whi_free(chunk);
        return NULL;
    }
    chunk->memory = memory;
    chunk->ops = ops;
    chunk->pinned_by = device;
    whi_list_init(&chunk->link);
    whi_list_init(&chunk->of_send);
    room->count++;
    return chunk;
}

// take returns a chunk for a copy in one direction, or NULL: there is none free, or no memory for one.
static whi_stage_chunk *take(wh_worker *worker, const whi_buffer *buf,
                             whi_mem_direction direction) {
    whi_stage_room *room = room_of(worker);
    const whi_mem_ops *ops = whi_mem_ops_of((wh_mem_kind)buf->kind);
    whi_stage_chunk *chunk = NULL;
    void *stream;
    if (!ops || !ops->staging || ops->staging->stream(buf->device, direction, &stream) != WH_OK)
        return NULL;
    whi_list_foreach(node, &room->free) {
        if (!chunk && chunk_of(node)->ops == ops)
            chunk = chunk_of(node);
    }
    if (chunk)
        whi_list_remove(&chunk->link);
    else if (room->count < room->limit)
        chunk = make(room, ops, buf->device);
    if (!chunk)
        return NULL;
    chunk->stream = stream;
    chunk->failed = WH_OK;
    chunk->lent = 0;
    return chunk;
}

static void put(wh_worker *worker, whi_stage_chunk *chunk) {
    assert(!chunk->lent && !chunk->passed.ops);
    whi_list_remove(&chunk->link);
    whi_list_remove(&chunk->of_send);
    chunk->req = NULL;
    chunk->place = WHI_STAGE_FREE;
    whi_list_push_front(&room_of(worker)->free, &chunk->link);
}

// ---- Copies.

// copy submits the copy between a chunk and its place in its buffer: of a layout, its kernel.
static wh_status copy(const whi_stage_chunk *chunk, whi_stage_place place) {
    char *there = (char *)chunk->buf->ptr + chunk->offset;
    const whi_buffer *buf = chunk->buf;
    if (buf->type)
        return whi_device_part(
            (uintptr_t)buf->ptr, buf->count, buf->type, (int64_t)chunk->offset, chunk->size,
            place == WHI_STAGE_TAKING ? (char *)(uintptr_t)chunk->from : chunk->memory,
            place == WHI_STAGE_READING || place == WHI_STAGE_PACKING ? WHI_PACK : WHI_UNPACK,
            chunk->stream);
    if (place == WHI_STAGE_READING)
        return chunk->ops->copy_async(WHI_MEM_TO_HOST, chunk->memory, there, chunk->size,
                                      chunk->stream);
    if (place == WHI_STAGE_WRITING)
        return chunk->ops->copy_async(WHI_MEM_FROM_HOST, there, chunk->memory, chunk->size,
                                      chunk->stream);
    return chunk->ops->copy_async(WHI_MEM_WITHIN, there, chunk->from, chunk->size, chunk->stream);
}

static whi_mem_direction direction_of(whi_stage_place place) {
    return place == WHI_STAGE_READING   ? WHI_MEM_TO_HOST
           : place == WHI_STAGE_WRITING ? WHI_MEM_FROM_HOST
                                        : WHI_MEM_WITHIN;
}

// submit begins that copy.  On an error none is under way.
static wh_status submit(wh_worker *worker, whi_stage_chunk *chunk, whi_stage_place place) {
    wh_status st = copy(chunk, place);
    if (st != WH_OK)
        return st;
    st = chunk->ops->record(chunk->stream, &chunk->passed);
    if (st != WH_OK) {
        chunk->ops->staging->settle(direction_of(place));  // nothing else tells when it has passed
        return st;
    }
    chunk->place = place;
    whi_list_push_back(&room_of(worker)->under_way, &chunk->link);
    whi_behind_wake(worker);
    return WH_OK;
}

static void hold(whi_stage_chunk *chunk) {
    chunk->req->held++;
    whi_messages_on(chunk->net)->held++;
}

// current_of returns the chunk that the request's next bytes are in, or NULL.
static whi_stage_chunk *current_of(const wh_request *req) {
    whi_list_foreach(node, &req->staged->chunks) {
        whi_stage_chunk *chunk = whi_container_of(node, whi_stage_chunk, of_send);
        if (chunk->segment == req->segment && req->offset - chunk->offset < chunk->size)
            return chunk;
    }
    return NULL;
}

// was_read goes on with a send that has one more chunk to push.
static void was_read(whi_stage_chunk *chunk, wh_status st) {
    wh_request *req = chunk->req;
    whi_link *link = chunk->net;
    whi_staged *staged = req->staged;
    chunk->place = WHI_STAGE_READY;
    chunk->failed = st;
    if (staged->waits && current_of(req) == chunk && req->fate == WHI_FATE_GOES_ON) {
        staged->waits = false;
        room_of(req->worker)->up->ready(link, req);
    }
    whi_messages_on(link)->held--;
    if (--req->held == 0)
        room_of(req->worker)->up->unheld(link, req);
}

static void was_written(wh_worker *worker, whi_stage_chunk *chunk, wh_status st) {
    wh_request *req = chunk->req;
    whi_link *link = chunk->net;
    whi_hdr hdr = chunk->hdr;
    whi_buffer_note(chunk->buf, st, "written");
    put(worker, chunk);
    room_of(worker)->up->stored(link, req, &hdr);
}

// was_done goes on behind what a device has done by itself.
static void was_done(wh_worker *worker, whi_stage_chunk *chunk, wh_status st) {
    const whi_stage_up *up = room_of(worker)->up;
    whi_stage_chunk passed = *chunk;
    whi_free(chunk);
    (passed.place == WHI_STAGE_TAKING ? up->taken : up->packed)(&passed, st);
}

// finish does what follows a copy that has passed.
static void finish(wh_worker *worker, whi_stage_chunk *chunk, wh_status st) {
    whi_list_remove(&chunk->link);
    whi_mem_event_release(&chunk->passed);
    whi_behind_wake(worker);
    if (chunk->place == WHI_STAGE_READING)
        was_read(chunk, st);
    else if (chunk->place == WHI_STAGE_TAKING || chunk->place == WHI_STAGE_PACKING)
        was_done(worker, chunk, st);
    else
        was_written(worker, chunk, st);
}

// next_passed finds a copy that has passed.  Those of one stream do so in their order.
static whi_stage_chunk *next_passed(whi_stage_room *room, wh_status *st) {
    enum { STREAMS = 4 };
    const void *late[STREAMS] = {NULL};
    int lates = 0;
    whi_list_foreach(node, &room->under_way) {
        whi_stage_chunk *chunk = chunk_of(node);
        bool behind = false;
        for (int i = 0; i < lates; i++)
            behind |= late[i] == chunk->stream;
        if (behind)
            continue;
        *st = whi_mem_event_query(&chunk->passed);
        if (*st != WH_PENDING)
            return chunk;
        if (lates < STREAMS)
            late[lates++] = chunk->stream;
    }
    return NULL;
}

unsigned whi_stage_look(wh_worker *worker) {
    whi_stage_room *room = room_of(worker);
    unsigned count = 0;
    wh_status st;
    whi_stage_chunk *chunk;
    // What follows a copy may end others of the list, or begin some: they come from its front.
    while (!whi_list_empty(&room->under_way) && (chunk = next_passed(room, &st))) {
        finish(worker, chunk, st);
        count++;
    }
    return count;
}

// concerns says whether a copy is one of those that are waited for.
static bool concerns(const whi_stage_chunk *chunk, const wh_request *req, const wh_endpoint *ep,
                     const whi_link *link) {
    return (!req || chunk->req == req) && (!ep || chunk->req->ep == ep) &&
           (!link || chunk->net == link);
}

void whi_stage_settle(wh_worker *worker, const wh_request *req, const wh_endpoint *ep,
                      const whi_link *link) {
    whi_stage_room *room = room_of(worker);
    bool within = room->settles;
    room->settles = true;
    for (bool found = !whi_list_empty(&room->under_way); found;) {
        found = false;
        whi_list_foreach(node, &room->under_way) {
            whi_stage_chunk *chunk = chunk_of(node);
            if (!concerns(chunk, req, ep, link))
                continue;
            wh_status st;
            while ((st = whi_mem_event_query(&chunk->passed)) == WH_PENDING)
                usleep(SETTLE_US);
            finish(worker, chunk, st);
            found = true;
            break;  // what followed may have changed the list
        }
    }
    room->settles = within;
}

// ---- Sends.

static wh_status need_staged(wh_request *req) {
    if (req->staged)
        return WH_OK;
    whi_staged *made = whi_calloc(1, sizeof(*made));
    if (!made)
        return WH_ENOMEM;
    whi_list_init(&made->chunks);
    req->staged = made;
    return WH_OK;
}

static uint64_t piece_of(const whi_stage_room *room, uint64_t size) {
    uint64_t piece = (size / PIECES + PIECE_LEAST - 1) & ~(uint64_t)(PIECE_LEAST - 1);
    piece = piece < PIECE_LEAST ? PIECE_LEAST : piece;
    return piece < room->chunk_size ? piece : room->chunk_size;
}

// find_part goes on to the next part of the payload that is staged, when all of one is.  What is not staged and short is
// passed over: a chunk that is filled behind it soon has its turn.
static bool find_part(const wh_request *req, whi_staged *staged) {
    while (staged->submitted == staged->end) {
        uint32_t segment = staged->segment;
        whi_buffer *next = req->ops->after ? req->ops->after(req, &segment) : NULL;
        bool stages = next && whi_buffer_stages(next);
        if (!next || next->failed || (!stages && next->size > room_of(req->worker)->chunk_size))
            return false;
        staged->buf = next;
        staged->segment = segment;
        staged->submitted = 0;
        staged->end = stages ? next->size : 0;
    }
    return true;
}

// read_ahead begins to fill chunks with what comes next.
static wh_status read_ahead(whi_link *link, wh_request *req) {
    whi_staged *staged = req->staged;
    wh_worker *worker = req->worker;
    while (staged->ahead < AHEAD && find_part(req, staged)) {
        whi_stage_chunk *chunk = take(worker, staged->buf, WHI_MEM_TO_HOST);
        if (!chunk)
            return WH_OK;
        uint64_t left = staged->end - staged->submitted;
        uint64_t piece = piece_of(room_of(worker), req->accept);
        chunk->req = req;
        chunk->net = link;
        chunk->buf = staged->buf;
        chunk->segment = staged->segment;
        chunk->offset = staged->submitted;
        chunk->size = left < piece ? left : piece;
        wh_status st = submit(worker, chunk, WHI_STAGE_READING);
        if (st != WH_OK) {
            put(worker, chunk);
            whi_buffer_note(staged->buf, st, "read");
            return st;
        }
        hold(chunk);
        whi_list_push_back(&staged->chunks, &chunk->of_send);
        staged->submitted += chunk->size;
        staged->ahead++;
    }
    return WH_OK;
}

wh_status whi_stage_source(whi_link *link, wh_request *req, whi_buffer *buf, whi_span *src,
                           uint64_t *left) {
    if (!whi_buffer_stages(buf) || buf->failed || need_staged(req) != WH_OK)
        return WH_OK;
    whi_staged *staged = req->staged;
    bool within = whi_messages_on(link)->mid == req;  // a chunk of which the lane has a part
    if (!staged->ahead && within)
        return WH_OK;  // the rest of what was begun without, for which the lane waits
    if (!staged->ahead) {
        staged->buf = buf;
        staged->segment = req->segment;
        staged->submitted = req->offset;
        staged->end = req->offset + *left;
    }
    // One whose endpoint has ended sends the rest of a chunk only, which is here.  And what fails here ends the send, which
    // must not be while the lane waits for the rest of a chunk.
    wh_status st = req->fate == WHI_FATE_GOES_ON && !within ? read_ahead(link, req) : WH_OK;
    whi_stage_chunk *chunk = current_of(req);
    if (st == WH_OK && chunk) {
        st = chunk->failed;
        whi_buffer_note(buf, st, "read");
    }
    if (st != WH_OK) {
        whi_stage_settle(req->worker, req, NULL, NULL);
        return st;
    }
    if (!chunk) {
        room_of(req->worker)->without++;
        return WH_OK;  // there is none free: it goes as if there were no staging
    }
    if (chunk->place == WHI_STAGE_READING) {
        whi_list_remove(&req->queue_link);
        staged->waits = true;
        return WH_PENDING;
    }
    *src = (whi_span){.ptr = chunk->memory + (req->offset - chunk->offset)};
    *left = chunk->offset + chunk->size - req->offset;
    return WH_OK;
}

void whi_stage_pushed(wh_request *req, uint64_t moved, bool lends) {
    whi_stage_chunk *chunk = req->staged && moved ? current_of(req) : NULL;
    if (!chunk)
        return;
    chunk->lent += lends;
    if (req->offset + moved < chunk->offset + chunk->size)
        return;
    req->staged->ahead--;
    if (!chunk->lent)
        put(req->worker, chunk);
}

void whi_stage_sent(wh_request *req, const whi_hdr *hdr) {
    if (!req->staged)
        return;
    whi_list_foreach(node, &req->staged->chunks) {
        whi_stage_chunk *chunk = whi_container_of(node, whi_stage_chunk, of_send);
        if (!chunk->lent || chunk->segment != hdr->seq || hdr->arg - chunk->offset >= chunk->size)
            continue;
        bool whole = req->segment != chunk->segment || req->offset >= chunk->offset + chunk->size;
        if (--chunk->lent == 0 && whole)
            put(req->worker, chunk);
        return;
    }
}

void whi_stage_drop(wh_request *req) {
    whi_staged *staged = req->staged;
    whi_list *node;
    while ((node = whi_list_first(&staged->chunks)))
        put(req->worker, whi_container_of(node, whi_stage_chunk, of_send));
    req->staged = NULL;
    whi_free(staged);
}

// ---- Receives.

static whi_stage_chunk *filling(const whi_link *link, const whi_hdr *hdr) {
    whi_list_foreach(node, &whi_messages_on(link)->filling) {
        whi_stage_chunk *chunk = chunk_of(node);
        if (chunk->hdr.ep == hdr->ep && chunk->hdr.seq == hdr->seq && chunk->hdr.arg == hdr->arg &&
            chunk->hdr.size == hdr->size)
            return chunk;
    }
    return NULL;
}

bool whi_stage_out(const whi_link *link, const whi_hdr *hdr) {
    return filling(link, hdr) != NULL;
}

bool whi_stage_sink(whi_link *link, wh_request *req, whi_buffer *buf, uint64_t offset,
                    const whi_hdr *hdr, bool lends, whi_span *span) {
    wh_worker *worker = req->worker;
    whi_stage_chunk *chunk =
        hdr->size <= room_of(worker)->chunk_size ? take(worker, buf, WHI_MEM_FROM_HOST) : NULL;
    if (!chunk) {
        room_of(worker)->without++;
        return false;
    }
    chunk->req = req;
    chunk->net = link;
    chunk->buf = buf;
    chunk->hdr = *hdr;
    chunk->offset = offset;
    chunk->size = hdr->size;
    chunk->place = WHI_STAGE_FILLING;
    chunk->given_back = lends;
    whi_list_push_back(&whi_messages_on(link)->filling, &chunk->link);
    *span = (whi_span){.ptr = chunk->memory};
    return true;
}

bool whi_stage_filled(whi_link *link, const whi_hdr *hdr) {
    whi_stage_chunk *chunk = filling(link, hdr);
    if (!chunk)
        return false;
    wh_worker *worker = link->worker;
    whi_list_remove(&chunk->link);
    // What a lane gives back after the end of its link would be a copy that nobody waits for.
    bool wanted = chunk->req->fate != WHI_FATE_RETURNED;
    wh_status st = wanted ? submit(worker, chunk, WHI_STAGE_WRITING) : WH_OK;
    if (!wanted || st != WH_OK)
        was_written(worker, chunk, st);
    return true;
}

bool whi_stage_unfilled(whi_link *link, const whi_hdr *hdr) {
    whi_stage_chunk *chunk = filling(link, hdr);
    if (chunk)
        put(link->worker, chunk);
    return chunk;
}

// ---- What a device does by itself, without chunks.

wh_status whi_stage_begin(wh_worker *worker, const whi_stage_chunk *like, whi_stage_place place) {
    whi_stage_chunk *chunk = whi_memdup(like, sizeof(*like));
    if (!chunk)
        return WH_ENOMEM;
    chunk->ops = whi_mem_ops_of((wh_mem_kind)like->buf->kind);
    chunk->passed = (whi_mem_event){.ops = NULL};
    whi_list_init(&chunk->link);
    whi_list_init(&chunk->of_send);
    wh_status st =
        chunk->ops && chunk->ops->staging
            ? chunk->ops->staging->stream(like->buf->device, WHI_MEM_WITHIN, &chunk->stream)
            : WH_ENOTSUP;
    if (st == WH_OK)
        st = submit(worker, chunk, place);
    if (st == WH_OK)
        hold(chunk);
    else
        whi_free(chunk);
    return st;
}

const whi_hdr *whi_stage_first_out(const whi_link *link) {
    whi_list_foreach(node, &whi_messages_on(link)->filling) {
        if (!chunk_of(node)->given_back)
            return &chunk_of(node)->hdr;
    }
    return NULL;
}

// ---- The room.

void whi_stage_init(wh_worker *worker, const whi_stage_up *up) {
    whi_stage_room *room = room_of(worker);
    room->up = up;
    whi_list_init(&room->free);
    whi_list_init(&room->under_way);
    room->chunk_size = worker->ctx->config.stage_chunk;
    uint64_t limit = worker->ctx->config.stage_max / room->chunk_size;
    room->limit = limit < WHI_STAGE_CHUNKS_MAX ? (unsigned)limit : WHI_STAGE_CHUNKS_MAX;
}

void whi_stage_fini(wh_worker *worker) {
    whi_stage_room *room = room_of(worker);
    whi_list *node;
    while (room->chunk_size && (node = whi_list_pop_front(&room->free))) {
        whi_stage_chunk *chunk = chunk_of(node);
        chunk->ops->staging->unpin(chunk->pinned_by, chunk->memory);
        whi_free(chunk);
        room->count--;
    }
}
