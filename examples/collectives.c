// SPDX-License-Identifier: BSD-3-Clause
//
// Pi as a sum, of which each processing element has a part; start it with `wherry run -n 4 collectives`.
#include <stdio.h>

#include <wherry/wherry.h>

enum { TERMS = 1000000 };

// wait_for waits, as a user-level thread, for what a call has started.
static wh_status wait_for(wh_pe *pe, wh_status st, wh_wait *wait) {
    if (st == WH_PENDING)
        st = wh_pe_wait(pe, wait);
    return st == WH_OK ? wait->result.status : st;
}

static wh_status sum(wh_pe *pe, wh_team *all, double *pi) {
    wh_wait wait = {.done = false};
    double part = 0;
    for (uint32_t i = wh_team_rank(all); i < TERMS; i += wh_team_size(all))
        part += (i % 2 ? -4.0 : 4.0) / (2 * i + 1);
    return wait_for(pe,
                    wh_coll_allreduce(all, &part, pi, 1, wh_type_basic(WH_TYPE_DOUBLE),
                                      WH_REDUCTION(.op = WH_REDUCE_SUM),
                                      WH_OP_OPTS(.done = wh_wait_done, .arg = &wait), NULL),
                    &wait);
}

// end waits until all have the result; then the first ends the job.
static wh_status end(wh_pe *pe, wh_team *all) {
    wh_wait wait = {.done = false};
    wh_status st = wh_coll_barrier(all, WH_OP_OPTS(.done = wh_wait_done, .arg = &wait), NULL);
    return wait_for(pe, st, &wait);
}

static void start(wh_pe *pe, void *arg) {  // on each PE
    (void)arg;
    wh_team *all = NULL;
    double pi = 0;
    wh_status st = wh_pe_team(pe, &all);
    if (st == WH_OK)
        st = sum(pe, all, &pi);
    if (st == WH_OK)
        st = end(pe, all);
    if (st == WH_OK && wh_pe_number(pe) == 0)
        printf("%.5f by %u PEs\n", pi, wh_team_size(all));
    wh_team_free(all);
    if (st != WH_OK || wh_pe_number(pe) == 0)
        wh_pe_exit(pe, st == WH_OK ? 0 : 1);
}

int main(void) {
    wh_rt *rt;
    int status = 1;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
