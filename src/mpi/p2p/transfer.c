// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/p2p/p2p.h"

#include "mpi/base/ids.h"
#include "mpi/base/process.h"

void whm_settle(whm_transfer *t, int error) {
    if (t->error == MPI_SUCCESS)
        t->error = error;
    t->complete = true;
}

void whm_finish(whm_transfer *t, int error) {
    whm_rank *rank = t->rank, *runs = whm_self;
    bool held = t->state & WHM_HOLDS;
    whm_comm *comm = t->comm;
    whm_type *type = t->type;
    t->state &= (uint8_t)~WHM_HOLDS;
    whm_settle(t, error);
    whm_self = rank;
    if (t->done)
        t->done(t);  // may free it
    if (held) {
        whm_type_release(type);
        whm_comm_release(comm);
    }
    whm_self = runs;
    whm_wake(rank);
}

static uint64_t bytes_of(const whm_transfer *t) {
    return (uint64_t)t->type->size * (uint64_t)t->count;
}

void whm_lend(whm_transfer *t) {
    t->state |= WHM_WAITS_BUFFER;
    whm_process_here.under_way++;
    whm_process_here.moving += bytes_of(t);
}

void whm_lent_back(whm_transfer *t) {
    t->state &= (uint8_t)~WHM_WAITS_BUFFER;
    whm_process_here.under_way--;
    whm_process_here.moving -= bytes_of(t);
}

bool whm_print_send(const whm_transfer *t, whm_space space, FILE *file) {
    if (t->state & WHM_UNANSWERED)
        return false;
    int peer = whm_comm_known_rank(t->comm, t->peer);
    if (space == WHM_COLL)
        fprintf(file, "    a send of a collective to rank %d", peer);
    else
        fprintf(file, "    a send of %lld bytes to rank %d, tag %d", (long long)bytes_of(t), peer,
                t->wanted);
    fprintf(file, ", on %s\n", whm_comm_title(t->comm));
    return true;
}

// The last status without a class of its own: most often a limit, which all transfers of the process run into.
static wh_status trouble;

int whm_transfer_fail(const whm_transfer *t) {
    if (t->error == MPI_ERR_TRUNCATE && whm_space_of(t->context) == WHM_COLL)
        return whm_other_call(t->source, t->bytes, t->count * t->type->size);
    if (t->error == MPI_ERR_TRUNCATE)
        return whm_fail(MPI_ERR_TRUNCATE,
                        "a message of %lld bytes from rank %d, tag %d, does not fit into a receive "
                        "of %lld elements of %lld bytes: give it a larger buffer",
                        (long long)t->bytes, t->source, t->tag, (long long)t->count,
                        (long long)t->type->size);
    if (t->error == MPI_ERR_NO_MEM && !(t->state & WHM_IS_SEND))
        return whm_fail(MPI_ERR_NO_MEM,
                        "there was no memory for a message of %lld bytes from rank %d, tag %d: it "
                        "is lost",
                        (long long)t->bytes, t->source, t->tag);
    if (t->error == MPI_ERR_PROC_ABORTED && t->peer >= 0)
        return whm_gone_rank(t->peer);
    if (t->error == MPI_ERR_OTHER && trouble != WH_OK)
        return whm_fail(MPI_ERR_OTHER, "a message was not %s: %s%s",
                        t->state & WHM_IS_SEND ? "sent" : "received", wh_status_text(trouble),
                        whm_hint_of(trouble));
    return t->error;
}

int whm_class_of(wh_status status) {
    whm_process_lost(status);
    int class = status == WH_OK             ? MPI_SUCCESS
                : status == WH_ETRUNCATED   ? MPI_ERR_TRUNCATE
                : status == WH_ENOMEM       ? MPI_ERR_NO_MEM
                : status == WH_ETYPE        ? MPI_ERR_TYPE
                : whm_tells_of_loss(status) ? MPI_ERR_PROC_ABORTED
                                            : MPI_ERR_OTHER;
    if (class == MPI_ERR_OTHER)
        trouble = status;
    return class;
}

void whm_to_nobody(whm_transfer *t) {
    t->complete = true;
    t->source = MPI_PROC_NULL;
    t->tag = MPI_ANY_TAG;
}

void whm_transfer_cancel(whm_transfer *t) {
    if (t->complete || (t->state & (WHM_IS_SEND | WHM_WAITS_MATCH)) != WHM_WAITS_MATCH)
        return;
    whm_match_unpost(t->rank->match, t);
    t->state &= (uint8_t)~WHM_WAITS_MATCH;
    t->cancelled = true;
    t->source = MPI_ANY_SOURCE;
    t->tag = MPI_ANY_TAG;
    whm_finish(t, MPI_SUCCESS);
}

int whm_p2p_begin(void) {
    static whm_mourner mourner = {.fn = whm_p2p_lost};
    whm_on_loss(&mourner);
    wh_worker *worker = whm_process_here.worker;
    wh_status st = wh_worker_set_am(worker, WHM_AM_MESSAGE, whm_on_message, NULL);
    if (st == WH_OK)
        st = wh_worker_set_am(worker, WHM_AM_MATCHED, whm_on_matched, NULL);
    return st == WH_OK ? MPI_SUCCESS : whm_fail_status(st, "messages cannot be taken in");
}
