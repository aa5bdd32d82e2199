// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for the caller's streams, see behind.h.
//
// Nothing tells a thread that an event of a device has passed, so that the worker asks: in each pass, and while it sleeps after
// intervals that grow with the time it has waited.  The invariant: a request is in the list only while it is pending
// and can do nothing else, and whoever ends the request, or gives it another turn, takes it out.
#include "message/behind.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "message/room.h"

enum {
    AWAKE_NS = 100 * 1000,  // without an event passing, before the worker may sleep
    LATE = 8,               // a look comes at most this part of the time waited too late
    SLEEP_LEAST_NS = 50 * 1000,
    SLEEP_MOST_NS = 1000 * 1000,
};

static whi_behind_room *room_of(const wh_worker *worker) {
    return &whi_messages_of(worker)->behind;
}

wh_status whi_behind_begin(wh_request *req, wh_mem_kind kind, void *stream) {
    const whi_mem_ops *ops = whi_mem_ops_of(kind);
    whi_behind *behind = whi_calloc(1, sizeof(*behind));
    if (!behind)
        return WH_ENOMEM;
    wh_status st = ops->record(stream, &behind->after);
    if (st != WH_OK) {
        whi_free(behind);
        return st;
    }
    behind->req = req;
    whi_list_init(&behind->link);
    req->behind = behind;
    return WH_OK;
}

void whi_behind_drop(wh_request *req) {
    whi_behind *behind = req->behind;
    req->behind = NULL;
    whi_list_remove(&behind->link);
    whi_mem_event_release(&behind->after);
    whi_free(behind->kept);
    whi_free(behind);
}

wh_status whi_behind_ask(wh_request *req) {
    wh_status st = whi_mem_event_query(&req->behind->after);
    if (st == WH_OK)
        whi_mem_event_release(&req->behind->after);  // what is left has passed
    return st;
}

void whi_behind_await(wh_request *req, void (*go)(wh_request *req)) {
    whi_behind *behind = req->behind;
    whi_behind_room *room = room_of(req->worker);
    behind->go = go;
    if (whi_list_linked(&behind->link))
        return;
    whi_list_push_back(&room->awaited, &behind->link);
    whi_behind_wake(req->worker);
}

void whi_behind_wake(wh_worker *worker) {
    room_of(worker)->since_ns = whi_clock_ns();
    worker->countdown = 0;
}

void whi_behind_rest(wh_request *req) {
    whi_behind *behind = req->behind;
    if (!behind)
        return;
    whi_list_remove(&behind->link);
    whi_free(behind->kept);
    behind->kept = NULL;
}

void *whi_behind_keep(wh_request *req, uint64_t size) {
    whi_behind *behind = req->behind;
    behind->kept = whi_malloc(size ? size : 1);
    behind->kept_size = size;
    return behind->kept;
}

void whi_behind_init(wh_worker *worker) {
    whi_list_init(&room_of(worker)->awaited);
}

unsigned whi_behind_look(wh_worker *worker) {
    whi_behind_room *room = room_of(worker);
    unsigned count = 0;
    if (whi_list_empty(&room->awaited))
        return 0;
    // What goes on may end others of the list, or await something again: those that are left come from the front.
    whi_list todo;
    whi_list_take(&todo, &room->awaited);
    whi_list *node;
    while ((node = whi_list_pop_front(&todo))) {
        whi_behind *behind = whi_container_of(node, whi_behind, link);
        if (whi_behind_ask(behind->req) == WH_PENDING) {
            whi_list_push_back(&room->awaited, node);
            continue;
        }
        whi_behind_wake(worker);
        behind->go(behind->req);
        count++;
    }
    return count;
}

bool whi_behind_busy(const wh_worker *worker) {
    return !whi_list_empty(&room_of(worker)->awaited) ||
           !whi_list_empty(&whi_messages_of(worker)->stage.under_way);
}

// waited returns for how long nothing has passed.
static uint64_t waited(const whi_behind_room *room, uint64_t now_ns) {
    return now_ns > room->since_ns ? now_ns - room->since_ns : 0;
}

wh_status whi_behind_arm(wh_worker *worker) {
    const whi_behind_room *room = room_of(worker);
    bool awake = whi_behind_busy(worker) && waited(room, whi_clock_ns()) < AWAKE_NS;
    return awake ? WH_EBUSY : WH_OK;
}

uint64_t whi_behind_next_look(const wh_worker *worker) {
    if (!whi_behind_busy(worker))
        return WHI_TIMER_NEVER;
    uint64_t now_ns = whi_clock_ns(), pause = waited(room_of(worker), now_ns) / LATE;
    pause = pause < SLEEP_LEAST_NS ? SLEEP_LEAST_NS : pause;
    return now_ns + (pause < SLEEP_MOST_NS ? pause : SLEEP_MOST_NS);
}
