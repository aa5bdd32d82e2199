// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Put and its relatives, at the rank that calls them.
//
// Memory that is mapped here is copied to and from in the call, and so is that of a rank of this process.  Else the access travels
// as an active message: a put's and an accumulate's data with it, a get's data with the answer.
#include <stdlib.h>
#include <string.h>
#include <wherry/mem.h>
#include <wherry/pack.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/rma/access.h"
#include "mpi/type/predefined.h"

enum {
    COPIED_MAX = 8 << 10
};  // bytes of data that the engine copies, so that the call is done with the buffer

typedef struct data {  // typed elements of the caller's
    void *buf;
    MPI_Count count;
    whm_type *type;  // NULL: none
} data;

// One call of these functions.
typedef struct access {
    whm_win *win;
    whm_peer *peer;
    whm_access_kind kind;
    const whm_op *op;       // of accumulates
    data in, out;           // what goes there, what comes back
    const void *compare;    // WHM_COMPARE
    MPI_Aint disp;          // at the target
    MPI_Count count;        //
    whm_type *type;         //
    whm_request **request;  // NULL: none is wanted
} access;

static MPI_Count bytes_of(const data *d) {
    return d->type ? d->count * d->type->size : 0;
}

// ---- What is checked here; the target checks it again.

static bool in_epoch(const whm_win *win, const whm_peer *peer) {
    return peer->lock || win->all_locked || peer->started || win->fenced;
}

static int check_size(const access *a, const data *d, const char *what) {
    MPI_Count there;
    if (__builtin_mul_overflow(a->count, a->type->size, &there))
        return whm_fail(MPI_ERR_COUNT, "target_count is %lld, too many", (long long)a->count);
    if (d->type && bytes_of(d) != there)
        return whm_fail(MPI_ERR_TRUNCATE, "%s is %lld bytes, and the target's data %lld", what,
                        (long long)bytes_of(d), (long long)there);
    return MPI_SUCCESS;
}

// The part of another rank as it has said itself; what a dynamic window has attached only its rank knows.
static int check_range(const access *a) {
    if (a->win->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return MPI_SUCCESS;
    return whm_check_range(a->peer->size, a->peer->unit, a->disp, a->count, a->type);
}

static int check(const access *a) {
    int rc = check_size(a, &a->in, "the origin's data");
    if (rc == MPI_SUCCESS)
        rc = check_size(a, &a->out, "the result");
    if (rc == MPI_SUCCESS && !in_epoch(a->win, a->peer))
        rc = whm_fail(MPI_ERR_RMA_SYNC,
                      "there is no epoch in which rank %d may be accessed: call MPI_Win_fence, "
                      "MPI_Win_lock or MPI_Win_start before",
                      (int)(a->peer - a->win->peer));
    if (rc == MPI_SUCCESS && a->op && a->count)
        rc = whm_op_check_access(a->op, a->type);
    return rc == MPI_SUCCESS ? check_range(a) : rc;
}

// ---- Requests: they end when the buffers are the program's again, as far as origin and result are concerned.

static int request_fail(const whm_request *request) {
    const whm_access_request *r = (const whm_access_request *)request;
    return whm_access_fail(r->rank, request->status.MPI_ERROR, r->trouble);
}

static const whm_request_ops request_ops = {.text = "one-sided access", .fail = request_fail};

static int request_new(const access *a, whm_access_request **request) {
    *request = (void *)whm_request_new(&request_ops, sizeof(**request), a->win->comm, false);
    if (!*request)
        return whm_no_memory();
    (*request)->rank = a->peer ? (int)(a->peer - a->win->peer) : MPI_PROC_NULL;
    return MPI_SUCCESS;
}

// One for what has ended in the call.
static int request_ended(const access *a) {
    whm_access_request *request;
    if (!a->request)
        return MPI_SUCCESS;
    int rc = request_new(a, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_request_end(&request->request, MPI_SUCCESS);
    *a->request = &request->request;
    return MPI_SUCCESS;
}

// ---- Within this process, or in memory that is mapped here.

static int pack_in(const access *a, void *packed) {
    const data *in = &a->in;
    if (!bytes_of(in))
        return MPI_SUCCESS;
    wh_status status = whm_pack(in->buf, in->count, in->type, 0, packed, (size_t)bytes_of(in), 0);
    if (status != WH_OK)
        return whm_fail(MPI_ERR_BUFFER, "%s", wh_type_error());
    if (a->kind == WHM_COMPARE &&
        wh_mem_copy((char *)packed + a->type->size, WH_MEM_AUTO, a->compare, WH_MEM_AUTO,
                    (size_t)a->type->size) != WH_OK)
        return whm_fail(MPI_ERR_BUFFER, "compare_addr cannot be read");
    return MPI_SUCCESS;
}

static size_t room_of(const access *a) {
    return (size_t)bytes_of(&a->in) + (a->kind == WHM_COMPARE ? (size_t)a->type->size : 0);
}

static int combine_near(const access *a, void *at) {
    MPI_Count result = bytes_of(&a->out);
    char *packed = malloc(room_of(a) + (size_t)result + 1),
         *old = packed ? packed + room_of(a) : NULL;
    if (!packed)
        return whm_no_memory();
    int rc = pack_in(a, packed);
    if (rc == MPI_SUCCESS)
        rc = whm_apply(a->kind, a->op ? a->op->reduce : WH_REDUCE_NO_OP, packed, at, a->count,
                       a->type, a->out.type ? old : NULL);
    if (rc == MPI_SUCCESS && result &&
        whm_unpack(old, (size_t)result, a->out.buf, a->out.count, a->out.type, 0, 0) != WH_OK)
        rc = whm_fail(MPI_ERR_BUFFER, "%s", wh_type_error());
    free(packed);
    return rc;
}

static int access_near(const access *a, void *at) {
    switch (a->kind) {
    case WHM_PUT: return whm_copy(at, a->count, a->type, a->in.buf, a->in.count, a->in.type);
    case WHM_GET: return whm_copy(a->out.buf, a->out.count, a->out.type, at, a->count, a->type);
    default: return combine_near(a, at);
    }
}

// The owner carries accumulates out, also in memory that is mapped.
static bool is_near(const access *a, void **at) {
    whm_rank *near = whm_rank_at(a->peer->world);
    if (near)
        return whm_locate(near->wins->at[a->peer->win], a->disp, a->count, a->type, at) ==
               MPI_SUCCESS;
    if (!a->peer->direct || (a->kind != WHM_PUT && a->kind != WHM_GET))
        return false;
    *at = a->peer->direct + a->disp * a->peer->unit;
    return true;
}

// ---- Elsewhere.

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_under_way_told(arg, WHM_WAITS_SENT, result->status);
}

// What is sent: a head, perhaps with the flattened type behind it, and data.
typedef struct message {
    union {
        whm_access head;
        char bytes[WH_AM_HEADER_MAX];
    };
    size_t head_size;
    const void *buf;
    size_t count;           // elements of `layout`, or bytes
    const wh_type *layout;  // NULL: bytes
    void *staged;           // NULL: they are the caller's
} message;

// A flattened type that has no room behind the head goes before the data, and both into a buffer of their own.
static int stage(const access *a, message *m, size_t flat) {
    size_t room = room_of(a), done;
    char *all = malloc(flat + room + 1);
    if (!all)
        return whm_no_memory();
    int rc = MPI_SUCCESS;
    if (flat && wh_type_flatten(a->type->layout, all, flat, &done) != WH_OK)
        rc = whm_fail(MPI_ERR_TYPE, "%s", wh_type_error());
    if (rc == MPI_SUCCESS)
        rc = pack_in(a, all + flat);
    if (rc != MPI_SUCCESS) {
        free(all);
        return rc;
    }
    m->staged = all;
    m->buf = all;
    m->count = flat + room;
    return MPI_SUCCESS;
}

static int describe(const access *a, message *m) {
    const whm_type *type = a->type;
    m->head_size = sizeof(m->head);
    m->head.named = type->base ? (uint32_t)(uintptr_t)type->base->o.handle : 0;
    bool named = type->base && type->layout == type->base->layout;
    size_t flat = 0, room = sizeof(m->bytes) - sizeof(m->head);
    if (!named)  // it says how large it would be
        (void)!(wh_type_flatten(type->layout, NULL, 0, &flat) == WH_OK);
    m->head.flat = (uint32_t)flat;
    m->head.behind = flat > room;
    if (flat > room || a->kind == WHM_COMPARE)
        return stage(a, m, flat > room ? flat : 0);
    if (flat && wh_type_flatten(type->layout, m->bytes + sizeof(m->head), room, &flat) != WH_OK)
        return whm_fail(MPI_ERR_TYPE, "%s", wh_type_error());
    m->head_size += flat;
    if (bytes_of(&a->in)) {
        m->buf = a->in.buf;
        m->count = whm_for_engine(a->in.type, a->in.count, &m->layout);
    }
    return MPI_SUCCESS;
}

static int prepare(const access *a, message *m) {
    m->head = (whm_access){.kind = (uint8_t)a->kind,
                           .op = a->op ? (uint8_t)a->op->reduce : 0,
                           .win = a->peer->win,
                           .target = a->peer->world,
                           .origin = a->win->comm->rank,
                           .disp = a->disp,
                           .count = a->count};
    m->buf = NULL;
    m->count = 0;
    m->layout = NULL;
    m->staged = NULL;
    return describe(a, m);
}

static int failed(const access *a, wh_status status, whm_under_way *op) {
    if (op && op->request)
        whm_request_drop(&op->request->request);
    whm_under_way_forget(op);
    return whm_not_sent(a->win, a->peer, status);
}

// Data without an answer that the engine copies leave nothing under way.
static int send_copied(const access *a, wh_endpoint *ep, const message *m) {
    wh_status status =
        wh_am_send_copy(ep, WHM_AM_ACCESS, m->bytes, m->head_size, m->buf, m->count, NULL, NULL);
    if (status != WH_OK && status != WH_PENDING)
        return status == WH_ENOTSUP ? MPI_ERR_PENDING : failed(a, status, NULL);
    a->peer->sent++;
    return request_ended(a);
}

static int send_with(const access *a, wh_endpoint *ep, message *m, whm_under_way *op) {
    op->staged = m->staged;
    m->head.id = op->id;
    op->waits = WHM_WAITS_SENT | (op->id ? WHM_WAITS_ANSWER : 0);
    wh_op_opts opts = {.size = sizeof(opts),
                       .flags = WH_OP_UNTYPED,
                       .done = on_sent,
                       .arg = op,
                       .type = m->layout};
    if (!op->id)
        a->peer->sent++;
    if (a->request)
        *a->request = &op->request->request;
    wh_status status =
        wh_am_send(ep, WHM_AM_ACCESS, m->bytes, m->head_size, m->buf, m->count, &opts, NULL);
    if (status == WH_PENDING)
        return MPI_SUCCESS;
    if (status == WH_OK) {
        whm_under_way_ended(op, WHM_WAITS_SENT, MPI_SUCCESS);
        return MPI_SUCCESS;
    }
    if (!op->id)
        a->peer->sent--;
    return failed(a, status, op);
}

static int begin(const access *a, bool answered, whm_under_way **op) {
    *op = whm_under_way_new(a->win, a->peer, answered);
    if (!*op)
        return whm_no_memory();
    whm_type *held = a->out.type ? a->out.type : a->in.type;
    (*op)->type = held ? whm_retain(held) : NULL;
    (*op)->buf = a->out.buf;
    (*op)->count = a->out.count;
    int rc = a->request ? request_new(a, &(*op)->request) : MPI_SUCCESS;
    if (rc != MPI_SUCCESS) {
        whm_under_way_forget(*op);
        *op = NULL;
    }
    return rc;
}

static int access_far(const access *a) {
    wh_endpoint *ep;
    message m;
    whm_under_way *op;
    bool answered = a->kind != WHM_PUT && a->kind != WHM_ACCUMULATE;
    (void)whm_plain(a->in.buf);  // a device's driver that has come is noticed
    int rc = whm_endpoint(a->peer->world, &ep);
    if (rc == MPI_SUCCESS)
        rc = prepare(a, &m);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!answered && !m.layout && !m.staged && m.count <= COPIED_MAX) {
        rc = send_copied(a, ep, &m);
        if (rc != MPI_ERR_PENDING)
            return rc;
    }
    rc = begin(a, answered, &op);
    if (rc == MPI_SUCCESS)
        return send_with(a, ep, &m, op);
    free(m.staged);
    return rc;
}

static int run(access *a, int rank, whm_win *win) {
    a->win = win;
    int rc = whm_win_peer(win, rank, &a->peer);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!a->peer)
        return request_ended(a);
    rc = check(a);
    if (rc != MPI_SUCCESS)
        return rc;
    void *at;
    if (!is_near(a, &at))
        return whm_rank_at(a->peer->world) ? MPI_ERR_RMA_RANGE : access_far(a);
    rc = access_near(a, at);
    return rc == MPI_SUCCESS ? request_ended(a) : rc;
}

// ---- The functions of MPI.

int mpi_rput(const void *buf, MPI_Count count, whm_type *type, int rank, MPI_Aint disp,
             MPI_Count target_count, whm_type *target_type, whm_win *win, whm_request **request) {
    access a = {.kind = WHM_PUT,
                .in = {(void *)(uintptr_t)buf, count, type},
                .disp = disp,
                .count = target_count,
                .type = target_type,
                .request = request};
    return run(&a, rank, win);
}

int mpi_put(const void *buf, MPI_Count count, whm_type *type, int rank, MPI_Aint disp,
            MPI_Count target_count, whm_type *target_type, whm_win *win) {
    return mpi_rput(buf, count, type, rank, disp, target_count, target_type, win, NULL);
}

int mpi_rget(void *buf, MPI_Count count, whm_type *type, int rank, MPI_Aint disp,
             MPI_Count target_count, whm_type *target_type, whm_win *win, whm_request **request) {
    access a = {.kind = WHM_GET,
                .out = {buf, count, type},
                .disp = disp,
                .count = target_count,
                .type = target_type,
                .request = request};
    return run(&a, rank, win);
}

int mpi_get(void *buf, MPI_Count count, whm_type *type, int rank, MPI_Aint disp,
            MPI_Count target_count, whm_type *target_type, whm_win *win) {
    return mpi_rget(buf, count, type, rank, disp, target_count, target_type, win, NULL);
}

int mpi_raccumulate(const void *buf, MPI_Count count, whm_type *type, int rank, MPI_Aint disp,
                    MPI_Count target_count, whm_type *target_type, whm_op *op, whm_win *win,
                    whm_request **request) {
    access a = {.kind = WHM_ACCUMULATE,
                .op = op,
                .in = {(void *)(uintptr_t)buf, count, type},
                .disp = disp,
                .count = target_count,
                .type = target_type,
                .request = request};
    return run(&a, rank, win);
}

int mpi_accumulate(const void *buf, MPI_Count count, whm_type *type, int rank, MPI_Aint disp,
                   MPI_Count target_count, whm_type *target_type, whm_op *op, whm_win *win) {
    return mpi_raccumulate(buf, count, type, rank, disp, target_count, target_type, op, win, NULL);
}

// With MPI_NO_OP the origin's data are not looked at.
static data origin_of(const whm_op *op, const void *buf, MPI_Count count, whm_type *type) {
    bool none = op->predefined && op->reduce == WH_REDUCE_NO_OP;
    return none ? (data){0} : (data){(void *)(uintptr_t)buf, count, type};
}

int mpi_rget_accumulate(const void *buf, MPI_Count count, whm_type *type, void *result,
                        MPI_Count result_count, whm_type *result_type, int rank, MPI_Aint disp,
                        MPI_Count target_count, whm_type *target_type, whm_op *op, whm_win *win,
                        whm_request **request) {
    access a = {.kind = WHM_GET_ACCUMULATE,
                .op = op,
                .in = origin_of(op, buf, count, type),
                .out = {result, result_count, result_type},
                .disp = disp,
                .count = target_count,
                .type = target_type,
                .request = request};
    return run(&a, rank, win);
}

int mpi_get_accumulate(const void *buf, MPI_Count count, whm_type *type, void *result,
                       MPI_Count result_count, whm_type *result_type, int rank, MPI_Aint disp,
                       MPI_Count target_count, whm_type *target_type, whm_op *op, whm_win *win) {
    return mpi_rget_accumulate(buf, count, type, result, result_count, result_type, rank, disp,
                               target_count, target_type, op, win, NULL);
}

int mpi_fetch_and_op(const void *buf, void *result, whm_type *type, int rank, MPI_Aint disp,
                     whm_op *op, whm_win *win) {
    if (!type->basic)
        return whm_fail(MPI_ERR_TYPE, "the datatype must be a predefined one");
    return mpi_rget_accumulate(buf, 1, type, result, 1, type, rank, disp, 1, type, op, win, NULL);
}

int mpi_compare_and_swap(const void *buf, const void *compare, void *result, whm_type *type,
                         int rank, MPI_Aint disp, whm_win *win) {
    const int comparable =
        WHM_C_INTEGER | WHM_FORTRAN_INTEGER | WHM_LOGICAL | WHM_MULTI | WHM_BYTES;
    if (!type->basic || !(type->base->what->group & comparable))
        return whm_fail(MPI_ERR_TYPE, "the datatype must be a predefined integer, logical or byte");
    access a = {.kind = WHM_COMPARE,
                .compare = compare,
                .in = {(void *)(uintptr_t)buf, 1, type},
                .out = {result, 1, type},
                .disp = disp,
                .count = 1,
                .type = type};
    return run(&a, rank, win);
}
