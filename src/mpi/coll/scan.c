// SPDX-License-Identifier: BSD-3-Clause
//
// Scan and exscan by recursive doubling: partners exchange the results of the runs of ranks that both stand for, and those who hear of a lower run
// add it to their own result.
#include "mpi/coll/coll.h"
#include "mpi/coll/halving.h"

void whm_scan_doubling(whm_schedule *s, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    MPI_Count count = data->count;
    whm_type *type = data->type;
    bool inclusive = coll->kind == WHM_SCAN, in_place = whm_in_place(&coll->send);
    bool empty = !inclusive;  // the result, so far
    whm_pair run = {.have = whm_schedule_space(s, count, type),
                    .room = whm_schedule_space(s, count, type),
                    .count = count,
                    .type = type};
    if (!run.have || !run.room)
        return;
    const void *operand = in_place ? data->buf : coll->send.buf;
    whm_step_copy(s, run.have, count, type, operand, count, type);
    if (inclusive && !in_place)
        whm_step_copy(s, data->buf, count, type, operand, count, type);
    for (int bit = 1; bit < s->size; bit *= 2) {
        int partner = s->rank ^ bit;
        if (partner >= s->size)
            continue;
        whm_step_recv(s, run.room, count, type, partner);
        whm_step_send(s, run.have, count, type, partner);
        whm_step_wait(s);
        if (partner < s->rank && empty)
            whm_step_copy(s, data->buf, count, type, run.room, count, type);
        else if (partner < s->rank)
            whm_step_reduce(s, run.room, data->buf, count, type);
        if (partner < s->rank)
            empty = false;
        whm_pair_combine(s, &run, 0, count, partner < s->rank);
    }
}
