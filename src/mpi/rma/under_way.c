// SPDX-License-Identifier: BSD-3-Clause
//
// What an origin has under way: numbered, so that answers find it, and ended once.
#include <stdlib.h>
#include <string.h>
#include <wherry/log.h>
#include <wherry/pack.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"
#include "mpi/rma/access.h"

// Those that wait for an answer, by the low half of their number; its high half counts how often the place was used.  Free places
// are a stack.
typedef struct place {
    whm_under_way *op;  // NULL: free
    uint32_t used, next_free;
} place;
static place *places;
static uint32_t count, first_free;

static bool more_places(void) {
    uint32_t more = count ? 2 * count : 64;
    place *all = realloc(places, more * sizeof(*all));
    if (!all)
        return false;
    for (uint32_t i = count; i < more; i++)
        all[i] = (place){NULL, 0, i + 1};
    first_free = count;
    places = all;
    count = more;
    return true;
}

static int enlist(whm_under_way *op) {
    if (first_free == count && !more_places())
        return MPI_ERR_NO_MEM;
    uint32_t i = first_free;
    place *p = &places[i];
    first_free = p->next_free;
    p->op = op;
    op->id = (uint64_t)++p->used << 32 | i;
    return MPI_SUCCESS;
}

static void strike(const whm_under_way *op) {
    uint32_t i = (uint32_t)op->id;
    places[i].op = NULL;
    places[i].next_free = first_free;
    first_free = i;
}

static whm_under_way *find(uint64_t id) {
    uint32_t i = (uint32_t)id;
    return i < count && places[i].op && places[i].op->id == id ? places[i].op : NULL;
}

whm_under_way *whm_under_way_new(whm_win *win, whm_peer *peer, bool answered) {
    whm_under_way *op = calloc(1, sizeof(*op));
    if (!op)
        return NULL;
    op->win = win;
    op->peer = peer;
    if (answered && enlist(op) != MPI_SUCCESS) {
        free(op);
        return NULL;
    }
    peer->pending++;
    return op;
}

void whm_under_way_forget(whm_under_way *op) {
    if (!op)
        return;
    if (op->id)
        strike(op);
    if (!op->done)
        op->peer->pending--;
    whm_type_release(op->type);
    free(op->staged);
    free(op);
}

static void complete_request(whm_under_way *op) {
    whm_access_request *request = op->request;
    op->request = NULL;
    request->trouble = op->trouble;
    whm_request_end(&request->request, op->error);
}

void whm_under_way_ended(whm_under_way *op, int waited, int error) {
    whm_rank *rank = op->win->rank;
    op->waits &= ~waited;
    op->error = op->error ? op->error : error;
    if (op->waits)
        return;
    if (op->error && !op->request && !op->kept && !op->peer->error) {
        op->peer->error = op->error;
        op->peer->trouble = op->trouble;
    }
    if (op->request)
        complete_request(op);
    if (op->kept) {
        op->done = true;
        op->peer->pending--;
    } else {
        whm_under_way_forget(op);
    }
    whm_wake(rank);
}

void whm_under_way_told(whm_under_way *op, int waited, wh_status status) {
    if (!op->error)
        op->trouble = status;
    whm_under_way_ended(op, waited, whm_class_of(status));
}

int whm_access_fail(int rank, int error, wh_status trouble) {
    if (error == MPI_SUCCESS)
        return MPI_SUCCESS;
    if (error == MPI_ERR_RMA_RANGE)
        return whm_fail(error, "an access to rank %d touched memory outside of its window", rank);
    if (error == MPI_ERR_PROC_ABORTED)
        return whm_gone_rank(rank);
    if (trouble != WH_OK)
        return whm_fail(error, "an access to rank %d was not carried out: %s%s", rank,
                        wh_status_text(trouble), whm_hint_of(trouble));
    return whm_fail(error, "rank %d could not do what was asked of it", rank);
}

int whm_not_sent(const whm_win *win, const whm_peer *peer, wh_status status) {
    int rc = whm_fail_status(status, "a message to a rank of the window cannot be sent");
    return rc == MPI_ERR_PROC_ABORTED ? whm_gone_rank((int)(peer - win->peer)) : rc;
}

// ---- Answers.

// Puts what has come where the operation wants it.
static int take(const whm_under_way *op, const void *data, size_t size) {
    size_t room = op->type ? (size_t)(op->count * op->type->size) : 0;
    if (size != room)
        return whm_fail(MPI_ERR_TRUNCATE, "%zu bytes have come instead of %zu", size, room);
    if (!size)
        return MPI_SUCCESS;
    wh_status status = whm_unpack(data, size, op->buf, op->count, op->type, 0, 0);
    return status == WH_OK
               ? MPI_SUCCESS
               : whm_fail(MPI_ERR_BUFFER, "the result cannot be written: %s", wh_type_error());
}

void whm_answered(const whm_answer *answer, const void *data, size_t size) {
    whm_under_way *op = find(answer->id);
    if (!op)
        return;
    int error = answer->error ? answer->error : take(op, data, size);
    whm_under_way_ended(op, WHM_WAITS_ANSWER, error);
}

void whm_under_way_lost(void) {
    for (uint32_t i = 0; i < count; i++) {
        whm_under_way *op = places[i].op;
        if (op && op->waits & WHM_WAITS_ANSWER && whm_is_gone(op->peer->world))
            whm_under_way_ended(op, WHM_WAITS_ANSWER, MPI_ERR_PROC_ABORTED);
    }
}

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_under_way *op = arg;
    // It may have ended when the target was lost.
    if (op->waits & WHM_WAITS_ANSWER)
        whm_under_way_told(op, WHM_WAITS_ANSWER, result->status);
}

// Data that are still at the target come straight into the buffer.
static wh_status receive(whm_under_way *op, wh_am *am) {
    const whm_type *type = op->type;
    if (!type || am->size != (size_t)(op->count * type->size)) {
        whm_under_way_ended(op, WHM_WAITS_ANSWER, MPI_ERR_TRUNCATE);
        return WH_OK;
    }
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {.size = sizeof(opts),
                       .flags = WH_OP_UNTYPED,
                       .done = on_received,
                       .arg = op,
                       .result = &result};
    size_t elements = whm_for_engine(type, op->count, &opts.type);
    wh_status status = wh_am_recv(am, op->buf, elements, &opts, NULL);
    if (status == WH_PENDING)
        return WH_PENDING;
    whm_under_way_told(op, WHM_WAITS_ANSWER, status);
    return status == WH_OK ? WH_PENDING : WH_OK;
}

wh_status whm_on_answer(wh_am *am, void *arg) {
    (void)arg;
    whm_answer answer;
    if (am->header_size != sizeof(answer))
        return WH_OK;
    memcpy(&answer, am->header, sizeof(answer));
    whm_under_way *op = find(answer.id);
    if (!op || answer.origin != op->win->rank->world) {
        (void)!(wh_log_write("error", "E-MPI-02", "an answer to no access is dropped") == WH_OK);
        return WH_OK;
    }
    if (answer.error == MPI_SUCCESS && am->size && !am->data)
        return receive(op, am);
    whm_answered(&answer, am->data, am->size);
    return WH_OK;
}

// ---- Control messages.

int whm_tell(whm_win *win, whm_peer *peer, whm_access *head) {
    head->win = peer->win;
    head->target = peer->world;
    head->origin = win->comm->rank;
    whm_rank *near = whm_rank_at(peer->world);
    if (near) {
        whm_serve(near->wins->at[peer->win], head);
        return MPI_SUCCESS;
    }
    wh_endpoint *ep;
    int rc = whm_endpoint(peer->world, &ep);
    if (rc != MPI_SUCCESS)
        return rc;
    wh_status status = whm_notify(ep, WHM_AM_ACCESS, head, sizeof(*head));
    return status == WH_OK || status == WH_PENDING ? MPI_SUCCESS : whm_not_sent(win, peer, status);
}

int whm_ask(whm_win *win, whm_peer *peer, whm_access *head) {
    whm_under_way *op = whm_under_way_new(win, peer, true);
    if (!op)
        return whm_no_memory();
    op->kept = true;
    op->waits = WHM_WAITS_ANSWER;
    head->id = op->id;
    int rc = whm_tell(win, peer, head);
    while (rc == MPI_SUCCESS && !op->done)
        whm_block();
    if (rc == MPI_SUCCESS)
        rc = whm_access_fail((int)(peer - win->peer), op->error, op->trouble);
    whm_under_way_forget(op);
    return rc;
}
