// SPDX-License-Identifier: BSD-3-Clause
//
// Operations and their parts, see op.h.
//
// A part is posted by `go_on`, as long as it has something to post; how one posting has ended is judged by `next`.  The user is
// told in `tell_user`, once, and the operation goes in `end`, after that.
#include "rt/coll/op.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/opts.h"

static void go_on(whi_coll_part *part);
static void advance(whi_coll_op *op);

// ---- The life of an operation.

void whi_coll_args_fini(whi_coll_args *args) {
    whi_coll_data_fini(&args->from);
    whi_coll_data_fini(&args->to);
}

// make allocates it in one piece, so that there is one place where memory can be out.
static whi_coll_op *make(unsigned parts, size_t state, uint64_t temp) {
    size_t state_size = (state + 15) / 16 * 16,
           parts_size = (parts * sizeof(whi_coll_part) + 15) / 16 * 16;
    size_t fixed = sizeof(whi_coll_op) + 16 + state_size + parts_size, total;
    if (__builtin_add_overflow(fixed, temp, &total))
        return NULL;
    whi_coll_op *op = whi_malloc(total);
    if (!op)
        return NULL;
    memset(op, 0, fixed);
    char *at = (char *)op + (sizeof(*op) + 15) / 16 * 16;
    op->state = at;
    op->parts = (whi_coll_part *)(void *)(at + state_size);
    op->part_count = parts;
    op->temp = at + state_size + parts_size;
    whi_list_init(&op->link);
    for (unsigned i = 0; i < parts; i++)
        op->parts[i].op = op;
    return op;
}

whi_coll_op *whi_coll_op_new(wh_team *team, const whi_coll_kind *kind, const whi_coll_args *args,
                             unsigned parts, size_t state, uint64_t temp) {
    whi_coll_op *op = make(parts, state, temp);
    whi_coll_args taken = args ? *args : (whi_coll_args){.root = 0};
    if (!op) {
        whi_coll_args_fini(&taken);
        return NULL;
    }
    op->kind = kind;
    op->args = taken;
    op->team = team;
    team->holds++;
    return op;
}

static void free_op(whi_coll_op *op) {
    if (op->kind->fini)
        op->kind->fini(op);
    whi_coll_args_fini(&op->args);
    whi_list_remove(&op->link);
    whi_team_release(op->team);
    whi_free(op);
}

void whi_coll_fail(whi_coll_op *op, wh_status status, uint32_t culprit, const char *format, ...) {
    if (op->failed)
        return;
    op->failed = status;
    op->culprit = culprit;
    int used =
        snprintf(op->text, sizeof(op->text), "%s of %u PEs: ", op->kind->name, op->team->count);
    va_list args;
    va_start(args, format);
    vsnprintf(op->text + used, sizeof(op->text) - (size_t)used, format, args);
    va_end(args);
    for (unsigned i = 0; i < op->part_count; i++) {
        whi_coll_part *part = &op->parts[i];
        if (part->req && (part->task == WHI_COLL_SEND || part->task == WHI_COLL_RECV))
            wh_request_cancel(part->req);
    }
}

static void tell_user(whi_coll_op *op) {
    wh_request *req = op->req;
    op->req = NULL;
    wh_status st = wh_request_complete(
        req, &(wh_result){.status = op->failed, .size = op->failed ? 0 : op->args.from.size},
        op->text);
    assert(st == WH_OK);
    (void)st;
}

static void end(whi_coll_op *op) {
    if (op->starting) {
        op->finished = true;
        return;
    }
    if (op->req)
        tell_user(op);
    op->team->port->under_way--;
    free_op(op);
}

// advance lets the operation go on if nothing is under way, tells its user if it has failed, and ends it.
static void advance(whi_coll_op *op) {
    if (op->running || op->finished)
        return;
    op->running = true;
    while (!op->out && op->kind->step(op))
        ;
    if (!op->out && !op->failed && op->kind->done) {
        wh_status st = op->kind->done(op);
        if (st != WH_OK)
            whi_coll_fail(op, st, op->team->port->self, "%s", wh_status_text(st));
    }
    op->running = false;
    if (op->failed && !op->lent && op->req && !op->starting)
        tell_user(op);
    if (!op->out)
        end(op);
}

static void cancel(wh_request *req, wh_status why, void *state) {
    whi_coll_op *op = state;
    (void)req;
    if (op->failed)
        return;  // its end is on the way
    whi_coll_fail(op, why, op->team->port->self, "%s", wh_status_text(why));
    if (!op->lent)
        tell_user(op);
}

static bool too_many(const wh_team *team) {
    whi_list *first = whi_list_first(&team->ops);
    return first &&
           team->next - whi_container_of(first, whi_coll_op, link)->number >= WHI_COLL_UNDER_WAY;
}

static wh_status start(whi_coll_op *op, const wh_op_opts *opts, wh_request **req) {
    wh_team *team = op->team;
    wh_layer_ops ops = {.size = sizeof(ops), .text = op->kind->name, .cancel = cancel};
    wh_status st = !team->port->worker ? WH_ECLOSED : too_many(team) ? WH_EAGAIN : WH_OK;
    if (st == WH_OK)
        st = wh_request_create(team->port->worker, &ops, op, opts, req != NULL, &op->req);
    if (st != WH_OK) {
        free_op(op);
        return st;
    }
    op->number = team->next++;
    whi_list_push_back(&team->ops, &op->link);
    team->port->under_way++;
    wh_request *handle = op->req;
    op->starting = true;
    advance(op);
    op->starting = false;
    if (op->finished && !op->failed) {
        if (opts && opts->result)
            *opts->result = (wh_result){.status = WH_OK, .size = op->args.from.size};
        if (req)
            *req = NULL;
        wh_request_discard(handle);
        op->req = NULL;
        end(op);
        return WH_OK;
    }
    if (req)
        *req = handle;
    if (op->failed && !op->lent)
        tell_user(op);
    if (op->finished)
        end(op);
    return WH_PENDING;
}

wh_status whi_coll_op_start(whi_coll_op *op, const wh_op_opts *opts, wh_request **req) {
    wh_op_opts taken = {.size = sizeof(taken)};
    if (opts) {
        wh_status st = whi_opts_take(&taken, sizeof(taken), opts, "wh_op_opts");
        if (st != WH_OK) {
            free_op(op);
            return st;
        }
    }
    return start(op, &taken, req);
}

// ---- Parts.

// A reason has another size than what it stands for.
static uint64_t reason_size(const whi_coll_part *part) {
    return part->size == WHI_COLL_REASON ? WHI_COLL_REASON + 1 : WHI_COLL_REASON;
}

// Of a receive that a reason does not fit in, the data comes into the part first.
static bool is_small(const whi_coll_part *part) {
    return part->size <= WHI_COLL_REASON;
}

static void on_done(wh_request *req, const wh_result *result, void *arg);

static wh_status post(whi_coll_part *part, wh_result *result) {
    whi_coll_op *op = part->op;
    wh_team *team = op->team;
    whi_coll_port *port = team->port;
    wh_op_opts opts = {.size = sizeof(opts), .done = on_done, .arg = part, .result = result};
    uint32_t pe = whi_team_pe(team, part->rank);
    bool sends = part->task == WHI_COLL_SEND || part->task == WHI_COLL_TELL;
    bool data = part->task == WHI_COLL_SEND || (part->task == WHI_COLL_RECV && !is_small(part));
    char *buf = part->small;
    uint64_t count = WHI_COLL_SMALL;
    if (data) {
        buf = part->buf;
        count = part->count;
        opts.type = part->type;
    } else if (part->task == WHI_COLL_TELL) {
        whi_writer writer;
        whi_writer_init(&writer, part->small, sizeof(part->small));
        whi_writer_u32(&writer, (uint32_t)op->failed);
        whi_writer_u32(&writer, op->culprit);
        whi_writer_u8(&writer, 0);
        count = reason_size(part);
    }
    uint32_t id = !sends || !team->ids ? team->id : team->ids[part->rank];
    uint64_t tag = whi_coll_tag(port, sends ? port->self : pe, id, op->number);
    return sends ? port->ops->send(port, pe, tag, buf, count, &opts, &part->req)
                 : port->ops->recv(port, pe, tag, buf, count, &opts, &part->req);
}

// is_lent says whether a part uses memory of the user's, or that the algorithm works in.
static bool is_lent(const whi_coll_part *part) {
    return part->task == WHI_COLL_SEND || part->task == WHI_COLL_RECV;
}

// become changes what a part is to do.
static void become(whi_coll_part *part, whi_coll_task task) {
    whi_coll_op *op = part->op;
    op->lent -= is_lent(part);
    op->out -= part->task != WHI_COLL_IDLE;
    part->task = (uint8_t)task;
    op->lent += is_lent(part);
    op->out += part->task != WHI_COLL_IDLE;
}

// understand fails the operation for the reason that a member has told, if these bytes are one.
static bool understand(whi_coll_part *part, const void *bytes) {
    whi_coll_op *op = part->op;
    whi_reader reader;
    whi_reader_init(&reader, bytes, WHI_COLL_REASON);
    int32_t status = (int32_t)whi_reader_u32(&reader);
    uint32_t culprit = whi_reader_u32(&reader);
    if (status >= 0 || !strcmp(wh_status_name(status), "UNKNOWN") ||
        culprit >= op->team->port->count)
        return false;
    whi_coll_fail(op, status, culprit, "PE %u %s: %s; PE %u has told so", culprit,
                  status == WH_EPEER ? "is lost" : "has given up", wh_status_text(status),
                  whi_team_pe(op->team, part->rank));
    return true;
}

// put_small puts the data of a small message where it belongs.
static void put_small(whi_coll_part *part) {
    if (!part->type) {
        memcpy(part->buf, part->small, part->size);
        return;
    }
    size_t actual;
    wh_status st = wh_unpack(part->small, part->size, part->buf, (int64_t)part->count, part->type,
                             0, 0, &actual);
    if (st != WH_OK)
        whi_coll_fail(part->op, st, part->op->team->port->self, "%s", wh_type_error());
}

// received takes what has come: the data, or why it does not.
static void received(whi_coll_part *part, uint64_t size) {
    whi_coll_op *op = part->op;
    bool staged = is_small(part) || part->task == WHI_COLL_DRAIN;
    if (size == reason_size(part)) {
        char reason[WHI_COLL_REASON];
        size_t actual = sizeof(reason);
        wh_status st = WH_OK;
        if (staged || !part->type)
            memcpy(reason, staged ? part->small : part->buf, sizeof(reason));
        else
            st = wh_pack(part->buf, (int64_t)part->count, part->type, 0, reason, sizeof(reason), 0,
                         &actual);
        if (st == WH_OK && actual == sizeof(reason) && understand(part, reason))
            return;
    }
    if (size != part->size)
        whi_coll_fail(
            op, WH_EINVAL, whi_team_pe(op->team, part->rank),
            "PE %u has sent %llu bytes where %llu were expected; the arguments must agree",
            whi_team_pe(op->team, part->rank), (unsigned long long)size,
            (unsigned long long)part->size);
    else if (staged && part->task == WHI_COLL_RECV && part->buf && !op->failed)
        put_small(part);
}

// Whether a message could not be started, but might be later.
static bool is_short(wh_status st) {
    return st == WH_ENOMEM || st == WH_EAGAIN || st == WH_ELIMIT;
}

static void lost(whi_coll_part *part, wh_status st) {
    uint32_t pe = whi_team_pe(part->op->team, part->rank);
    whi_coll_fail(part->op, WH_EPEER, pe, "PE %u is lost: %s", pe, wh_status_text(st));
}

// next judges how what was posted has ended, and says whether the part has something more to post.
static bool next(whi_coll_part *part, wh_status st, const wh_result *result) {
    whi_coll_op *op = part->op;
    bool sends = part->task == WHI_COLL_SEND || part->task == WHI_COLL_TELL;
    bool again = false;
    if (st == WH_OK) {
        if (!sends)
            received(part, result->size);
    } else if (st == WH_ETRUNCATED) {
        if (!op->failed)
            received(part, result->size);
    } else if (st == WH_ETYPE || st == WH_EREJECTED) {
        whi_coll_fail(op, WH_ETYPE, whi_team_pe(op->team, part->rank),
                      "PE %u has elements of another type; they must be the same",
                      whi_team_pe(op->team, part->rank));
    } else if (st == WH_ECANCELLED && is_lent(part) && op->failed) {
        again = true;  // by whi_coll_fail
    } else {
        lost(part, st);
    }
    whi_coll_task instead = sends ? WHI_COLL_TELL : WHI_COLL_DRAIN;
    become(part, again ? instead : WHI_COLL_IDLE);
    return again;
}

static void on_again(wh_post *node) {
    whi_coll_op *op = whi_container_of(node, whi_coll_op, again);
    op->posted = false;
    for (unsigned i = 0; i < op->part_count; i++) {
        whi_coll_part *part = &op->parts[i];
        if (part->waits) {
            part->waits = false;
            go_on(part);
        }
    }
    advance(op);
}

// wait_for_memory is for what has to be posted: after a failure nothing is left to do but to try again.
static void wait_for_memory(whi_coll_part *part) {
    whi_coll_op *op = part->op;
    part->waits = true;
    if (op->posted)
        return;
    op->posted = true;
    op->again.fn = on_again;
    wh_worker_post(op->team->port->worker, &op->again);
}

static void go_on(whi_coll_part *part) {
    whi_coll_op *op = part->op;
    wh_result result;
    wh_status st;
    do {
        result = (wh_result){.status = WH_OK};
        part->req = NULL;
        st = post(part, &result);
        if (st == WH_PENDING)
            return;
        part->req = NULL;
        if (is_lent(part) && (is_short(st) || st == WH_EINVAL || st == WH_ENOTSUP)) {
            // Nothing has been started, and the other member waits for it.
            whi_coll_fail(op, st, op->team->port->self, "%s", wh_status_text(st));
            st = WH_ECANCELLED;
        } else if (is_short(st)) {
            wait_for_memory(part);
            return;
        }
    } while (next(part, st, &result));
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    whi_coll_part *part = arg;
    whi_coll_op *op = part->op;
    bool again = next(part, result->status, result);
    part->req = NULL;
    wh_request_free(req);
    if (again)
        go_on(part);
    advance(op);
}

static void begin(whi_coll_op *op, uint32_t rank, whi_coll_task task, char *buf, uint64_t count,
                  const wh_type *type) {
    whi_coll_part *part = op->parts;
    while (part->task != WHI_COLL_IDLE)
        part++;
    assert(part < op->parts + op->part_count && rank != op->team->rank);
    uint64_t size = type ? count * (uint64_t)wh_type_size(type) : count;
    part->rank = rank;
    part->type = type;
    part->buf = buf;
    part->count = count;
    part->size = size;
    if (!size) {
        // Nothing is told by one byte, so that a message always says something.
        part->type = NULL;
        part->buf = task == WHI_COLL_SEND ? part->small : NULL;
        part->count = part->size = 1;
    }
    if (op->failed)
        task = task == WHI_COLL_SEND ? WHI_COLL_TELL : WHI_COLL_DRAIN;
    become(part, task);
    go_on(part);
}

void whi_coll_send(whi_coll_op *op, uint32_t rank, const void *buf, uint64_t count,
                   const wh_type *type) {
    begin(op, rank, WHI_COLL_SEND, (char *)(uintptr_t)buf, count, type);
}

void whi_coll_recv(whi_coll_op *op, uint32_t rank, void *buf, uint64_t count, const wh_type *type) {
    begin(op, rank, WHI_COLL_RECV, buf, count, type);
}
