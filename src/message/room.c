// SPDX-License-Identifier: BSD-3-Clause
//
// What the worker and the links ask of the message room, see room.h.
#include "message/room.h"

#include "base/alloc.h"
#include "link/dial.h"
#include "message/am.h"
#include "message/behind.h"
#include "message/bulk_lane.h"
#include "message/deliver.h"
#include "message/device_offer.h"
#include "message/endpoint.h"
#include "message/frames.h"
#include "message/long.h"
#include "message/object_handler.h"
#include "message/offer.h"
#include "message/recv.h"
#include "message/request.h"
#include "message/send.h"
#include "message/stage.h"

// Payload bytes of the pools for messages that came before their receive, the last one being eager_max.
static const size_t message_sizes[WHI_MESSAGE_POOLS - 1] = {64, 512, 2048};

// ---- What links ask.

static void made(whi_link *link) {
    whi_link_messages *on = whi_messages_on(link);
    whi_list *lists[] = {&on->dirty_eps, &on->bulks,   &on->beside,
                         &on->ep_list,   &on->filling, &on->imports};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        whi_list_init(lists[i]);
    whi_idmap *maps[] = {&on->sends, &on->grants, &on->loans};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        whi_idmap_init(maps[i]);
    whi_hash_init(&on->announced);
    whi_hash_init(&on->eps);
    on->next_number = link->active ? 1 : 2;
    whi_message_up_of(link->worker)->link_made(link);
}

static void freed(whi_link *link) {
    whi_message_up_of(link->worker)->link_freed(link);
    whi_link_messages *on = whi_messages_on(link);
    whi_idmap_fini(&on->sends);
    whi_idmap_fini(&on->grants);
    whi_idmap_fini(&on->loans);
    whi_hash_fini(&on->announced);
    whi_hash_fini(&on->eps);
}

static unsigned drain_eps(whi_link *link) {
    unsigned count = 0;
    whi_list todo;
    whi_list_take(&todo, &whi_messages_on(link)->dirty_eps);
    whi_list *node;
    while ((node = whi_list_pop_front(&todo))) {
        wh_endpoint *ep = whi_container_of(node, wh_endpoint, dirty_node);
        ep->dirty = false;
        if (link->pollable.blocked) {
            // Nobody has room: the rest keeps its place.
            ep->dirty = true;
            whi_list_push_back(&whi_messages_on(link)->dirty_eps, node);
            continue;
        }
        count += whi_ep_drain(ep);
    }
    return count;
}

static unsigned send_out(whi_link *link) {
    unsigned count = drain_eps(link);
    if (!link->dead && !link->doomed && !whi_list_empty(&whi_messages_on(link)->bulks) &&
        whi_queue_empty(&link->controls))
        count += whi_send_push(link, false);
    return count;
}

static unsigned send_rest(whi_link *link) {
    return whi_messages_on(link)->mid ? whi_send_push(link, true) : 0;
}

static bool empty(const whi_link *link) {
    const whi_link_messages *on = whi_messages_on(link);
    return whi_list_empty(&on->dirty_eps) && whi_list_empty(&on->bulks);
}

static bool needed(const whi_link *link) {
    const whi_link_messages *on = whi_messages_on(link);
    return !whi_list_empty(&on->ep_list) || on->mid || on->landing || on->held;
}

// complete_returned completes an operation whose endpoint has ended and whose buffer the lane still had.
static void complete_returned(wh_request *req) {
    if (!req || req->stage == WHI_STAGE_DONE)
        return;
    if (req->ep->state == WHI_EP_CLOSED)  // else it ends with its endpoint
        whi_ep_returned(req);
}

static void ended(whi_link *link, wh_status why, const char *sentence) {
    whi_chunk_link_ended(link);
    whi_link_messages *on = whi_messages_on(link);
    wh_request *mid = on->mid, *landing = on->landing;
    on->mid = on->landing = NULL;
    complete_returned(mid);
    if (landing != mid)
        complete_returned(landing);
    whi_list *node;
    while ((node = whi_list_first(&on->ep_list))) {
        wh_endpoint *ep = whi_container_of(node, wh_endpoint, link_node);
        // An endpoint that was only being opened on a link that existed may find another one.
        if (ep->state == WHI_EP_CONNECTING && ep->dial && whi_dial_again(ep->dial, why)) {
            whi_ep_leave(link, ep);
            ep->link = NULL;
            continue;
        }
        whi_ep_end(ep, why, sentence);
    }
}

static void disconnected(whi_link *link) {
    whi_message_up_of(link->worker)->link_disconnected(link);
}

static void dump_link(const whi_link *link, FILE *file) {
    whi_list_foreach(node, &whi_messages_on(link)->ep_list)
        whi_ep_dump(whi_container_of(node, wh_endpoint, link_node), file);
}

static const whi_lane_up lane_up = {.deliver = whi_deliver,
                                    .sink = whi_chunk_sink,
                                    .landed = whi_chunk_landed,
                                    .unsent = whi_link_unsent,
                                    .sent = whi_chunk_sent,
                                    .lost = whi_chunk_lost};

static const whi_lane_up bulk_up = {.deliver = whi_chunk_not_one,
                                    .sink = whi_chunk_sink_beside,
                                    .landed = whi_chunk_landed_beside,
                                    .sent = whi_chunk_sent,
                                    .lost = whi_chunk_lost};

static const whi_link_up link_up = {.lane_up = &lane_up,
                                    .bulk_up = &bulk_up,
                                    .send_bulk = whi_send_push_beside,
                                    .bulk_lost = whi_bulk_lost,
                                    .made = made,
                                    .freed = freed,
                                    .send = send_out,
                                    .rest = send_rest,
                                    .empty = empty,
                                    .needed = needed,
                                    .ended = ended,
                                    .disconnected = disconnected,
                                    .dump = dump_link};

// ---- What the worker asks.

static void init_pools(whi_message_room *room, size_t eager_max) {
    whi_pool_init(&room->requests, sizeof(wh_request), 64, "request");
    whi_pool_init(&room->foreign, sizeof(wh_request), 64, "request of another thread");
    whi_blocks_init(&room->copies);
    for (int i = 0; i < WHI_MESSAGE_POOLS; i++) {
        size_t payload = i < WHI_MESSAGE_POOLS - 1 ? message_sizes[i] : eager_max;
        whi_pool_init(&room->messages[i], sizeof(whi_message) + payload, 64, "message");
    }
}

static const whi_stage_up stage_up = {.unheld = whi_send_unheld,
                                      .ready = whi_bulk_list,
                                      .stored = whi_chunk_stored,
                                      .taken = whi_device_offer_passed,
                                      .packed = whi_device_offer_packed};
static const whi_device_up device_up = {.took = whi_send_took,
                                        .again = whi_send_again,
                                        .stored = whi_chunk_stored,
                                        .dropped = whi_chunk_dropped};

static wh_status init(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    whi_list *lists[] = {&room->endpoints, &room->any_source, &room->foreign_free,
                         &room->foreign_aborts, &room->fetches};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        whi_list_init(lists[i]);
    whi_behind_init(worker);
    whi_stage_init(worker, &stage_up);
    whi_device_offer_init(worker, &device_up);
    whi_hash_init(&room->am_handlers);
    init_pools(room, worker->eager_max);
    worker->notify = whi_req_run_completed;
    room->links.up = &link_up;
    whi_open_init(worker);
    whi_close_init(worker);
    whi_ahead_init(worker);
    whi_object_handler_init(worker);
    whi_control_on(worker, WHI_CLASS_BYE, whi_link_record, 0);
    whi_control_on(worker, WHI_CLASS_SWITCH, whi_link_record, 0);
    whi_control_on(worker, WHI_CLASS_LANE_ADDRESS, whi_link_record, WHI_LANE_PIECE);
    whi_send_init(worker);
    whi_recv_init(worker);
    whi_frames_init(worker);
    uint64_t payload = worker->eager_max > WHI_LONG_MAX ? worker->eager_max : WHI_LONG_MAX;
    room->scratch = whi_malloc(payload + WHI_CONTROL_MAX);
    room->arrived = whi_malloc(worker->eager_max + WHI_CONTROL_MAX);
    if (!room->scratch || !room->arrived)
        return WH_ENOMEM;
    wh_status st = WH_OK;
    for (int i = 0; st == WH_OK && i < WHI_MATCH_COUNT; i++)
        st = whi_match_init(&room->match[i]);
    return st;
}

static void fini(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    whi_frames_fini(worker);
    whi_stage_fini(worker);
    whi_device_pool_fini(&room->device.packed);
    for (int i = 0; i < WHI_MATCH_COUNT; i++)
        whi_match_fini(&room->match[i]);
    whi_hash_fini(&room->am_handlers);
    whi_pool_fini(&room->requests);
    whi_pool_fini(&room->foreign);
    for (int i = 0; i < WHI_MESSAGE_POOLS; i++)
        whi_pool_fini(&room->messages[i]);
    whi_blocks_fini(&room->copies);
    whi_free(room->scratch);
    whi_free(room->arrived);
}

static bool in_use(const wh_worker *worker) {
    const whi_message_room *room = whi_messages_of(worker);
    size_t out = whi_pool_out(&room->requests) + whi_pool_out(&room->foreign);
    for (int i = 0; i < WHI_MESSAGE_POOLS; i++)
        out += whi_pool_out(&room->messages[i]);
    return out != 0;
}

static void in_child(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    whi_pool_init(&room->foreign, sizeof(wh_request), 64, "request of another thread");
    whi_list_init(&room->foreign_free);
    whi_list_init(&room->foreign_aborts);
}

static unsigned look(wh_worker *worker) {
    whi_req_reap_foreign(worker);
    whi_object_handler_look(worker);
    return whi_stage_look(worker) + whi_device_offer_look(worker) + whi_behind_look(worker);
}

static bool busy(const wh_worker *worker) {
    return whi_device_offer_busy(worker) || whi_behind_busy(worker);
}

static wh_status arm(wh_worker *worker) {
    return whi_device_offer_busy(worker) ? WH_EBUSY : whi_behind_arm(worker);
}

static uint64_t next_look(const wh_worker *worker) {
    uint64_t handler = whi_object_handler_next_look(worker), behind = whi_behind_next_look(worker);
    return handler < behind ? handler : behind;
}

static void asked(wh_worker *worker) {
    whi_ep_run_foreign_aborts(worker);
    whi_req_cancel_asked(&whi_messages_of(worker)->any_source);
    whi_list_foreach(node, &whi_messages_of(worker)->endpoints) {
        wh_endpoint *ep = whi_container_of(node, wh_endpoint, worker_node);
        whi_ep_retain(ep);  // it may end with the last of its operations
        whi_req_cancel_asked(&ep->ops);
        whi_ep_release(ep);
    }
}

static void close_all(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    whi_list_foreach(node, &room->endpoints)
        whi_ep_close_now(whi_container_of(node, wh_endpoint, worker_node));
    // A request of a layer may stay until the callbacks of its parts have run.
    whi_list all, *node;
    whi_list_take(&all, &room->any_source);
    while ((node = whi_list_pop_front(&all))) {
        whi_list_push_back(&room->any_source, node);
        whi_req_withdraw(whi_container_of(node, wh_request, op_link), WH_ECLOSED);
    }
    whi_am_forget_handlers(worker);
    whi_object_handler_end(worker);
}

static void finish(wh_worker *worker) {
    whi_layer_end(worker);
    whi_frames_fini(worker);  // `fini` may be long after, when the last handle has been given back
    whi_ep_run_foreign_aborts(worker);
    whi_req_reap_foreign(worker);
}

static void free_foreign(wh_worker *worker) {
    // From here on other threads free for themselves.
    whi_req_free_foreign(worker);
    whi_ep_release_aborted(worker);
}

static void count(const wh_worker *worker, wh_counters *counters) {
    whi_ep_add_counters(worker, counters);
}

static void dump(const wh_worker *worker, FILE *file) {
    const whi_message_room *room = whi_messages_of(worker);
    for (int i = 0; i < WHI_MATCH_COUNT; i++)
        fprintf(file, "  %s: %zu receives wait, %zu messages wait\n",
                i == WHI_MATCH_TAG ? "tags" : "objects", room->match[i].receives,
                room->match[i].messages);
    if (room->stage.count)
        fprintf(file, "  staging: %u chunks of %llu bytes, %llu payload chunks went without\n",
                room->stage.count, (unsigned long long)room->stage.chunk_size,
                (unsigned long long)room->stage.without);
    wh_counters counters = worker->counters;
    whi_ep_add_counters(worker, &counters);
    if (counters.device_sent || counters.device_received)
        fprintf(file, "  from device to device: %llu parts sent, %llu received\n",
                (unsigned long long)counters.device_sent,
                (unsigned long long)counters.device_received);
    if (!whi_list_empty(&room->any_source)) {
        fprintf(file, "  operations of no endpoint:\n");
        whi_req_dump_all(&room->any_source, file, "    ");
    }
}

const whi_room whi_message_room_table = {.name = "message",
                                         .init = init,
                                         .fini = fini,
                                         .in_use = in_use,
                                         .in_child = in_child,
                                         .look = look,
                                         .due = whi_offer_due,
                                         .busy = busy,
                                         .asked = asked,
                                         .arm = arm,
                                         .next_look = next_look,
                                         .close = close_all,
                                         .finish = finish,
                                         .free_foreign = free_foreign,
                                         .count = count,
                                         .dump = dump};
