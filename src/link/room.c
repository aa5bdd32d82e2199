// SPDX-License-Identifier: BSD-3-Clause
//
// What the worker asks of the link room, see room.h.
#include "link/room.h"

#include <stdio.h>

#include "base/clock.h"
#include "link/acceptor.h"
#include "link/link.h"
#include "link/listener.h"
#include "link/local.h"
#include "link/ucx.h"

static wh_status init(wh_worker *worker) {
    whi_link_room *room = whi_links_of(worker);
    whi_list *lists[] = {&room->listeners, &room->dials, &room->acceptors, &room->processes};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        whi_list_init(lists[i]);
    whi_hash_init(&room->links);
    whi_hash_init(&room->dial_leaders);
    whi_pool_init(&room->controls, whi_link_control_size(), 0, "control record");
    whi_shm_budget_init(&room->bulk_budget, worker->ctx->config.bulk_budget);
    return WH_OK;
}

static void fini(wh_worker *worker) {
    whi_link_room *room = whi_links_of(worker);
    whi_hash_fini(&room->links);
    whi_hash_fini(&room->dial_leaders);
    whi_pool_fini(&room->controls);
}

static unsigned look(wh_worker *worker) {
    return whi_worker_ucx_pass(worker);
}

static bool busy(const wh_worker *worker) {
    const whi_link_room *room = whi_links_of(worker);
    return room->ucx && whi_ucx_closing(room->ucx);
}

static wh_status arm(wh_worker *worker) {
    return whi_links_of(worker)->ucx ? whi_worker_ucx_arm(worker) : WH_OK;
}

static uint64_t next_look(const wh_worker *worker) {
    const whi_link_room *room = whi_links_of(worker);
    return room->ucx ? whi_clock_ns() + room->ucx_nap_ns : WHI_TIMER_NEVER;
}

static void close_all(wh_worker *worker) {
    whi_link_room *room = whi_links_of(worker);
    whi_listener_close_all(worker);
    whi_acceptor_drop_all(worker, NULL);
    size_t cursor = 0;
    uint64_t key;
    whi_link *link;
    while ((link = whi_hash_next(&room->links, &cursor, &key))) {
        whi_link_drop(link);
        cursor = 0;
    }
    whi_local_close(worker);
}

static void finish(wh_worker *worker) {
    whi_worker_ucx_end(worker);  // brings back what UCX holds, and with it the links
}

static void count(const wh_worker *worker, wh_counters *counters) {
    counters->links = whi_hash_count(&whi_links_of(worker)->links);
}

static void dump(const wh_worker *worker, FILE *file) {
    size_t cursor = 0;
    uint64_t key;
    const whi_link *link;
    while ((link = whi_hash_next(&whi_links_of(worker)->links, &cursor, &key)))
        if (link->tx)
            whi_link_dump(link, file);
}

const whi_room whi_link_room_table = {.name = "link",
                                      .init = init,
                                      .fini = fini,
                                      .look = look,
                                      .busy = busy,
                                      .arm = arm,
                                      .next_look = next_look,
                                      .close = close_all,
                                      .finish = finish,
                                      .count = count,
                                      .dump = dump};
