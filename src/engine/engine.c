// SPDX-License-Identifier: BSD-3-Clause
//
// The engine: the rooms, put on top of each other.  The only file that knows them all.
#include "link/room.h"
#include "message/room.h"
#include "rma/room.h"
#include "worker/worker.h"

// The lowest first: init and progress follow this order, the end of a worker the other one.
static const whi_room *const rooms[] = {&whi_link_room_table, &whi_message_room_table,
                                        &whi_rma_room_table, NULL};

wh_status wh_worker_create(wh_context *ctx, const wh_worker_opts *opts, wh_worker **worker) {
    return whi_worker_new(ctx, opts, sizeof(whi_rma_room), rooms, worker);
}
