// SPDX-License-Identifier: BSD-3-Clause
//
// The worker's handler of objects, see object_handler.h.
//
// Each object that comes for it is received by a request of ours, and these stand in a queue of their
// endpoint: the handler gets the objects in the order of the sends, each when it is whole and those
// before it have been handed over.  At most UNDER_WAY of an endpoint are asked for at a time; more
// stay messages that nobody has received, and hold their sender by its credit.  So what a slow object
// keeps waiting is bounded, and a few large ones still follow each other without a pause.
//
// A request of ours is never freed before it has left the queue.  Its `done` is NULL from the moment
// that its end was told.
#include "message/object_handler.h"

#include "base/clock.h"
#include "base/log.h"
#include "message/object.h"
#include "message/objects.h"
#include "message/recv.h"

enum { UNDER_WAY = 16, RETRY_MS = 10 };

static wh_request *request_of(whi_list *node) {
    return whi_container_of(node, wh_request, free_link);
}

static bool may_begin(const wh_endpoint *ep) {
    const whi_message_room *room = whi_messages_of(ep->worker);
    return room->object_fn && !ep->user_gone && ep->handling < UNDER_WAY;
}

static void on_whole(wh_request *req, const wh_result *result, void *arg);

// begin makes a receive; NULL: no memory, and it is tried again.
static wh_request *begin(wh_endpoint *ep) {
    whi_message_room *room = whi_messages_of(ep->worker);
    wh_op_opts opts = {.size = sizeof(opts), .done = on_whole, .arg = room->object_arg};
    wh_request *req = whi_req_new(ep->worker, ep, &whi_object_recv_ops, &opts, true);
    if (!req) {
        room->object_starved = true;
        return NULL;
    }
    req->no_place = 1;  // an object that its sender withdraws leaves nothing to be done
    whi_req_accept(req, WHI_STAGE_QUEUED);
    whi_list_push_back(&ep->handled, &req->free_link);
    ep->handling++;
    return req;
}

static wh_request *take_object(wh_endpoint *ep) {
    bool first = whi_list_empty(&ep->match[WHI_MATCH_OBJECT].messages);
    return first && may_begin(ep) ? begin(ep) : NULL;
}

// begin_kept receives objects that have come and that nobody has wanted so far.
static void begin_kept(wh_endpoint *ep) {
    whi_match *match = &whi_messages_of(ep->worker)->match[WHI_MATCH_OBJECT];
    while (may_begin(ep)) {
        whi_message *msg = whi_recv_kept(ep->worker, ep, WHI_MATCH_OBJECT, 0, 0);
        wh_request *req = msg ? begin(ep) : NULL;
        if (!req)
            return;
        whi_match_drop(match, msg);
        whi_recv_meet_kept(req, msg);
    }
}

// complain tells of an object that cannot be had, though its endpoint is well.
static void complain(const wh_request *req) {
    wh_status st = req->result.status;
    if (st != WH_ECLOSED && st != WH_EPEER && st != WH_ECANCELLED && st != WH_EREJECTED)
        whi_log_once_per(WHI_WARN, "W-OBJ-02", 10,
                         "an object for the worker's handler is dropped: %s",
                         req->error ? req->error : wh_status_text(st));
}

// call_handler calls the handler with what is whole and next, and begins with what comes behind it.
static void call_handler(wh_endpoint *ep) {
    whi_message_room *room = whi_messages_of(ep->worker);
    whi_ep_retain(ep);  // the handler may close it
    whi_list *node;
    while ((node = whi_list_first(&ep->handled))) {
        wh_request *req = request_of(node);
        wh_object *object = req->result.object;
        bool drop = ep->user_gone || room->object_end || ep->object_lost;
        if (req->done || (object && !drop && !room->object_fn))
            break;
        whi_list_remove(node);
        ep->handling--;
        if (!object) {
            complain(req);
            if (ep->state == WHI_EP_CLOSED && req->result.status == ep->why)
                ep->object_lost = true;
        }
        wh_request_free(req);
        if (object && drop)
            wh_object_free(object);
        else if (object)
            room->object_fn(ep, object, room->object_arg);
    }
    begin_kept(ep);
    if (ep->eos || ep->state == WHI_EP_CLOSED)
        whi_ep_queue_lost(ep);
    whi_ep_release(ep);
}

static void on_whole(wh_request *req, const wh_result *result, void *arg) {
    (void)result, (void)arg;
    req->done = NULL;
    wh_object *object = whi_object_of(req)->object;
    whi_object_of(req)->object = NULL;
    if (object)  // it did not arrive whole, which an allocator that has put it off does not know
        whi_object_detach(object, req->worker);
    call_handler(req->ep);
}

static void call_all_handlers(wh_worker *worker) {
    whi_list *all = &whi_messages_of(worker)->endpoints;
    whi_list *node = all->next;
    while (node != all) {
        wh_endpoint *ep = whi_container_of(node, wh_endpoint, worker_node);
        whi_ep_retain(ep);  // it stays in the list, whatever the handler ends
        call_handler(ep);
        node = node->next;
        whi_ep_release(ep);
    }
}

static void on_set(whi_deferred *deferred) {
    whi_message_room *room = whi_container_of(deferred, whi_message_room, object_call);
    room->object_queued = false;
    call_all_handlers(&room->links.worker);
}

// call_handlers_later does so in progress.
static void call_handlers_later(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    if (!room->object_queued)
        whi_worker_defer(worker, &room->object_call, on_set);
    room->object_queued = true;
}

static wh_status worker_set_object_owned(wh_worker *worker, wh_object_fn fn, void *arg) {
    whi_message_room *room = whi_messages_of(worker);
    room->object_fn = room->object_end ? NULL : fn;
    room->object_arg = arg;
    call_handlers_later(worker);  // also when it is unset: the end of an endpoint may have waited
    return WH_OK;
}

wh_status wh_worker_set_object(wh_worker *worker, wh_object_fn fn, void *arg) {
    return WHI_OWNED(worker, worker_set_object_owned(worker, fn, arg));
}

static uint64_t first_lost_object(const wh_endpoint *ep) {
    whi_list_foreach(node, &ep->handled) {
        const wh_request *req = request_of(node);
        if (req->stage != WHI_STAGE_DONE && !whi_recv_has_all(req))
            return req->arrival;
    }
    return UINT64_MAX;
}

static void drop_objects(wh_endpoint *ep) {
    if (!whi_list_empty(&ep->handled))
        call_handler(ep);
}

void whi_object_handler_look(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    if (room->object_starved)
        call_handlers_later(worker);
    room->object_starved = false;
}

uint64_t whi_object_handler_next_look(const wh_worker *worker) {
    return whi_messages_of(worker)->object_starved ? whi_clock_ns() + RETRY_MS * WHI_NS_PER_MS
                                                   : WHI_TIMER_NEVER;
}

void whi_object_handler_end(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    room->object_end = true;
    room->object_fn = NULL;
    call_all_handlers(worker);
    whi_object_free_detached(worker);
}

void whi_object_handler_init(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    whi_list_init(&room->detached);
    room->take_object = take_object;
    room->drop_objects = drop_objects;
    room->first_lost_object = first_lost_object;
}
