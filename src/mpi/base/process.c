// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/process.h"

#include <stdlib.h>
#include <unistd.h>

#include "mpi/base/lock.h"

whm_process whm_process_here;

static void nothing(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
}

int whm_process_begin(int level) {
    whm_process *p = &whm_process_here;
    static whm_rank *only[1];
    wh_status st = wh_rt_init(WH_RT_OPTS(.pes = 1), &p->rt);
    if (st == WH_OK)
        st = wh_rt_begin(p->rt, nothing, NULL, &p->pe);
    if (st != WH_OK)
        return whm_fail_status(st, "this process cannot join its job");
    only[0] = whm_self;
    p->worker = wh_pe_worker(p->pe);
    p->level = level;
    p->ranks = wh_rt_processes(p->rt);
    p->first = whm_self->world = wh_rt_rank(p->rt);
    p->local = 1;
    p->rank = only;
    return MPI_SUCCESS;
}

// flush waits until what this process has sent has been taken in by the processes that it went to.
static int flush(void) {
    whm_process *p = &whm_process_here;
    for (int i = 0; i < p->ranks; i++) {
        wh_endpoint *ep = p->sent_to ? p->sent_to[i] : NULL;
        wh_status st = ep ? wh_endpoint_flush_wait(ep, -1) : WH_OK;
        if (st != WH_OK)
            return whm_fail_status(st, "a process has not taken what was sent to it");
    }
    return MPI_SUCCESS;
}

int whm_process_end(int (*barrier)(void)) {
    whm_process *p = &whm_process_here;
    int status = 0, rc = flush();
    if (rc == MPI_SUCCESS)
        rc = barrier();
    if (rc != MPI_SUCCESS)
        return rc;
    if (p->first == 0)
        wh_pe_exit(p->pe, 0);
    while (wh_pe_step(p->pe))
        ;
    wh_status st = wh_rt_end(p->rt, &status);
    if (st != WH_OK || status)
        return st != WH_OK ? whm_fail_status(st, "the job cannot be left")
                           : whm_fail(MPI_ERR_OTHER, "the job has ended with status %d", status);
    wh_rt_finish(p->rt);
    free(p->sent_to);
    p->sent_to = NULL;
    p->rt = NULL;
    p->pe = NULL;
    p->worker = NULL;
    return MPI_SUCCESS;
}

void whm_process_abort(int status) {
    // The launcher sees a process that has not left the job, and ends the others.
    _exit(status ? status : 1);
}

int whm_endpoint(int world, wh_endpoint **ep) {
    whm_process *p = &whm_process_here;
    if (!p->sent_to && !(p->sent_to = calloc((size_t)p->ranks, sizeof(*p->sent_to))))
        return whm_no_memory();
    if (!p->sent_to[world]) {
        wh_status st = wh_pe_endpoint(p->pe, world, &p->sent_to[world]);
        if (st != WH_OK)
            return whm_fail_status(st, "there is no way to the process of that rank");
    }
    *ep = p->sent_to[world];
    return MPI_SUCCESS;
}

void whm_progress(void) {
    (void)wh_pe_turn(whm_process_here.pe);
}

void whm_block(void) {
    // The job has ended under this program: another rank has aborted, and the launcher says so.
    if (!wh_pe_step(whm_process_here.pe))
        whm_process_abort(1);
    if (__builtin_expect(whm_process_here.level == MPI_THREAD_MULTIPLE, 0))
        whm_hand_over();
}
