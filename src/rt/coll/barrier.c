// SPDX-License-Identifier: BSD-3-Clause
//
// Barrier by dissemination: after round i a member has heard, directly or through others, of the 2^i before it.
#include "rt/coll/call.h"

typedef struct barrier {
    uint64_t distance;
} barrier;

static bool step(whi_coll_op *op) {
    barrier *s = op->state;
    uint32_t rank = op->team->rank, n = op->team->count;
    WHI_COLL_BEGIN(op)
    for (s->distance = 1; s->distance < n; s->distance *= 2) {
        whi_coll_send(op, (uint32_t)((rank + s->distance) % n), NULL, 0, NULL);
        whi_coll_recv(op, (uint32_t)((rank + n - s->distance) % n), NULL, 0, NULL);
        WHI_COLL_WAIT(op);
    }
    WHI_COLL_END;
}

static const whi_coll_kind kind = {.name = "barrier", .step = step};

wh_status wh_coll_barrier(wh_team *team, const wh_op_opts *opts, wh_request **req) {
    if (!team)
        return WH_EINVAL;
    whi_coll_op *op = whi_coll_op_new(team, &kind, NULL, 2, sizeof(barrier), 0);
    return op ? whi_coll_op_start(op, opts, req) : WH_ENOMEM;
}

wh_status wh_coll_barrier_wait(wh_team *team, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms, wh_coll_barrier(team, NULL, &waited));
}
