// SPDX-License-Identifier: BSD-3-Clause
//
// Accesses at the rank whose memory it is.
//
// All that a head says is checked before memory is touched; an access that fails changes nothing, is counted as one that took effect, and its error goes
// to the origin with the next answer.  Accumulates of one origin are carried out in the order in which they came: while the data of a large
// one are on their way, later ones wait.
#include <stdlib.h>
#include <string.h>
#include <wherry/log.h>
#include <wherry/mem.h>
#include <wherry/pack.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"
#include "mpi/rma/access.h"
#include "mpi/type/make.h"

typedef __int128 wide;

// What an access touches, relative to where it begins.
typedef struct span {
    wide low, high;
    bool nothing;
} span;

static span span_of(wide first, MPI_Count count, const whm_type *type) {
    wide steps = count ? (wide)(count - 1) * type->extent : 0;
    wide low = first + type->true_lb + (steps < 0 ? steps : 0);
    wide high = first + type->true_lb + type->true_extent + (steps > 0 ? steps : 0);
    return (span){low, high, count == 0 || type->size == 0};
}

int whm_check_range(MPI_Aint size, MPI_Aint unit, MPI_Aint disp, MPI_Count count,
                    const whm_type *type) {
    span s = span_of((wide)disp * unit, count, type);
    if (s.nothing || (s.low >= 0 && s.high <= size))
        return MPI_SUCCESS;
    return whm_fail(
        MPI_ERR_RMA_RANGE,
        "the access at displacement %lld goes beyond the %lld bytes of the window there",
        (long long)disp, (long long)size);
}

static int check_attached(const whm_win *win, MPI_Aint address, MPI_Count count,
                          const whm_type *type) {
    span s = span_of((wide)address, count, type);
    for (int i = 0; i < win->regions && !s.nothing; i++) {
        const whm_region *r = &win->region[i];
        s.nothing = s.low >= (intptr_t)r->base && s.high <= (wide)(intptr_t)r->base + r->size;
    }
    return s.nothing ? MPI_SUCCESS
                     : whm_fail(MPI_ERR_RMA_RANGE,
                                "the access at address %#llx touches memory that is not attached",
                                (unsigned long long)address);
}

int whm_locate(const whm_win *win, MPI_Aint disp, MPI_Count count, const whm_type *type,
               void **at) {
    bool dynamic = win->flavor == MPI_WIN_FLAVOR_DYNAMIC;
    int rc = dynamic ? check_attached(win, disp, count, type)
                     : whm_check_range(win->size, win->unit, disp, count, type);
    if (rc == MPI_SUCCESS)  // where nothing is touched any number may stand
        *at = (void *)((uintptr_t)win->base + (uintptr_t)disp * (uintptr_t)win->unit);
    return rc;
}

// `old`: what is there.  The window may be a device's memory.
static int compare(const void *data, void *at, const whm_type *type, const void *old) {
    size_t size = (size_t)type->size;
    if (memcmp((const char *)data + size, old, size) == 0 &&
        wh_mem_copy(at, WH_MEM_AUTO, data, WH_MEM_AUTO, size) != WH_OK)
        return whm_fail(MPI_ERR_OTHER, "the window's memory cannot be written");
    return MPI_SUCCESS;
}

int whm_apply(whm_access_kind kind, wh_reduce op, const void *data, void *at, MPI_Count count,
              whm_type *type, void *old) {
    size_t bytes = (size_t)(count * type->size);
    if (bytes == 0)
        return MPI_SUCCESS;
    if (old && whm_pack(at, count, type, 0, old, bytes, 0) != WH_OK)
        return whm_fail(MPI_ERR_TYPE, "%s", wh_type_error());
    if (kind == WHM_COMPARE)
        return compare(data, at, type, old);
    whm_op how = {.predefined = true, .reduce = op};
    return op == WH_REDUCE_NO_OP ? MPI_SUCCESS
                                 : whm_accumulate(data, (MPI_Count)bytes, 0, at, count, type, &how);
}

// ---- An access that is carried out.

typedef struct whm_served whm_served;
struct whm_served {
    whm_win *win;
    whm_access head;
    whm_type type;  // what is known of the target's type
    wh_type *made;  // its layout, if it came with the message
    void *at;
    wh_am *am;  // kept while it waits
    char *staged;
    size_t bytes;  // of the staged
    whm_served *next;
};

static bool orders(uint8_t kind) {
    return kind == WHM_ACCUMULATE || kind == WHM_GET_ACCUMULATE || kind == WHM_COMPARE;
}

static whm_served *keep(const whm_served *s) {
    whm_served *kept = malloc(sizeof(*kept));
    if (kept)
        *kept = *s;
    return kept;
}

static void drop_type(whm_served *s) {
    wh_type_release(s->made);
    s->made = NULL;
}

// Tells the origin, where it waits; else counts.
static void ended(whm_served *s, int error) {
    const whm_access *head = &s->head;
    bool answers = head->kind != WHM_PUT && head->kind != WHM_ACCUMULATE;
    drop_type(s);
    if (answers && error != MPI_SUCCESS)
        whm_answer_to(s->win, head->origin, head->id, error);
    if (!answers)
        whm_took_effect(s->win, head->origin, error);
}

// The type: a named one, or flattened.
static int take_type(whm_served *s, const void *flat) {
    const whm_access *head = &s->head;
    bool known = head->named && head->named < WHM_NAMED;  // else a handle would be an address
    whm_type *named = known ? whm_type_of((MPI_Datatype)(uintptr_t)head->named) : NULL;
    if ((head->named && !named) || (!named && !head->flat))
        return MPI_ERR_TYPE;
    if (!head->flat) {
        s->type = *named;
        return MPI_SUCCESS;
    }
    if (wh_type_unflatten(flat, head->flat, NULL, &s->made) != WH_OK)
        return MPI_ERR_TYPE;
    s->type = (whm_type){.layout = s->made, .base = named};
    return whm_type_measure(&s->type);
}

// How many bytes of data an access of this kind has.
static size_t data_size(const whm_served *s) {
    size_t bytes = (size_t)(s->head.count * s->type.size);
    switch (s->head.kind) {
    case WHM_GET: return 0;
    case WHM_COMPARE: return 2 * bytes;
    case WHM_GET_ACCUMULATE: return s->head.op == WH_REDUCE_NO_OP ? 0 : bytes;
    default: return bytes;
    }
}

static int check_op(const whm_served *s) {
    const whm_access *head = &s->head;
    if (head->kind == WHM_COMPARE)
        return head->count == 1 && s->type.dense && s->type.basic ? MPI_SUCCESS : MPI_ERR_TYPE;
    whm_op op = {.predefined = true, .reduce = (wh_reduce)head->op};
    if (head->op >= WH_REDUCES)
        return MPI_ERR_OP;
    return orders(head->kind) && head->count ? whm_op_check_access(&op, (whm_type *)&s->type)
                                             : MPI_SUCCESS;
}

// All that is to be checked once the type is known; `size`: bytes of the data that have come.
static int place(whm_served *s, size_t size) {
    MPI_Count bytes;
    if (s->head.count < 0 || __builtin_mul_overflow(s->head.count, s->type.size, &bytes))
        return MPI_ERR_COUNT;
    int rc = check_op(s);
    if (rc == MPI_SUCCESS)
        rc = whm_locate(s->win, s->head.disp, s->head.count, &s->type, &s->at);
    if (rc == MPI_SUCCESS && size != data_size(s))
        rc = MPI_ERR_TRUNCATE;
    return rc;
}

// ---- Answers with data.

static void on_answered(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;  // an origin that is gone needs no answer
    whm_served *s = arg;
    wh_type_release(s->made);
    free(s->staged);
    free(s);
}

// Sends `count` elements of a layout, or bytes, to who waits for them.  What is sent stays until the engine says so.
static int answer_with(whm_served *s, const void *buf, size_t count, const wh_type *layout) {
    int world = s->win->peer[s->head.origin].world;
    whm_answer answer = {.origin = world, .id = s->head.id};
    wh_endpoint *ep;
    int rc = whm_endpoint(world, &ep);
    whm_served *kept = rc == MPI_SUCCESS ? keep(s) : NULL;
    if (!kept)
        return rc == MPI_SUCCESS ? MPI_ERR_NO_MEM : rc;
    wh_op_opts opts = {.size = sizeof(opts),
                       .flags = WH_OP_UNTYPED,
                       .done = on_answered,
                       .arg = kept,
                       .type = layout};
    wh_status status =
        wh_am_send(ep, WHM_AM_RESULT, &answer, sizeof(answer), buf, count, &opts, NULL);
    if (status != WH_PENDING && status != WH_OK) {
        free(kept);
        return whm_class_of(status);
    }
    if (status == WH_OK)
        on_answered(NULL, NULL, kept);
    s->made = NULL;
    s->staged = NULL;
    return MPI_SUCCESS;
}

static int answer_get(whm_served *s) {
    const wh_type *layout;
    (void)whm_plain(s->at);  // a device's driver that has come is noticed
    size_t count = whm_for_engine(&s->type, s->head.count, &layout);
    return answer_with(s, s->at, count, count ? layout : NULL);
}

// Combines, and sends what was there before.
static int exchange(whm_served *s, const void *data) {
    size_t bytes = (size_t)(s->head.count * s->type.size);
    char *old = malloc(bytes + 1);
    if (!old)
        return MPI_ERR_NO_MEM;
    int rc =
        whm_apply(s->head.kind, (wh_reduce)s->head.op, data, s->at, s->head.count, &s->type, old);
    s->staged = old;
    if (rc == MPI_SUCCESS)
        rc = answer_with(s, old, bytes, NULL);
    if (rc != MPI_SUCCESS)
        free(s->staged);
    s->staged = NULL;
    return rc;
}

// Carries out what is placed, with its data at hand.
static void carry_out(whm_served *s, const void *data, size_t size) {
    int rc;
    switch (s->head.kind) {
    case WHM_PUT:
        rc = !size || whm_unpack(data, size, s->at, s->head.count, &s->type, 0, 0) == WH_OK
                 ? MPI_SUCCESS
                 : MPI_ERR_TYPE;
        break;
    case WHM_GET: rc = answer_get(s); break;
    case WHM_ACCUMULATE:
        rc = whm_apply(WHM_ACCUMULATE, (wh_reduce)s->head.op, data, s->at, s->head.count, &s->type,
                       NULL);
        break;
    default: rc = exchange(s, data); break;
    }
    ended(s, rc);
}

// The same, from the whole payload: a flattened type may stand before the data.
static void carry_out_payload(whm_served *s, const char *payload, size_t size) {
    size_t flat = s->head.behind ? s->head.flat : 0;
    int rc = flat > size ? MPI_ERR_TYPE : MPI_SUCCESS;
    if (rc == MPI_SUCCESS && s->head.behind)
        rc = take_type(s, payload);
    if (rc == MPI_SUCCESS)
        rc = place(s, size - flat);
    if (rc == MPI_SUCCESS)
        carry_out(s, flat ? payload + flat : payload, size - flat);
    else
        ended(s, rc);
}

// ---- Accumulates in order.

static void serve_waiting(whm_win *win, whm_peer *peer);

// The first of those that wait has ended.
static void first_ended(whm_served *s) {
    whm_win *win = s->win;
    whm_peer *peer = &win->peer[s->head.origin];
    peer->served = s->next;
    if (s->am)
        wh_am_drop(s->am);
    free(s->staged);
    free(s);
    serve_waiting(win, peer);
}

static void on_staged(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_served *s = arg;
    char *payload = s->staged;
    s->am = NULL;
    s->staged = NULL;
    if (result->status == WH_OK)
        carry_out_payload(s, payload, s->bytes);
    else
        ended(s, whm_class_of(result->status));
    free(payload);
    if (orders(s->head.kind))
        first_ended(s);
    else
        free(s);
}

// Begins to take the payload into memory of its own; whoever kept `s` hears of it by on_staged.  An error: nothing has begun.
static int stage(whm_served *s) {
    s->bytes = s->am->size;
    s->staged = malloc(s->bytes + 1);
    if (!s->staged)
        return MPI_ERR_NO_MEM;
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {.size = sizeof(opts), .done = on_staged, .arg = s, .result = &result};
    wh_status status = wh_am_recv(s->am, s->staged, s->bytes, &opts, NULL);
    if (status == WH_OK)
        on_staged(NULL, &result, s);
    if (status == WH_OK || status == WH_PENDING)
        return MPI_SUCCESS;
    free(s->staged);
    s->staged = NULL;
    return whm_class_of(status);
}

static void serve_waiting(whm_win *win, whm_peer *peer) {
    (void)win;
    whm_served *s = peer->served;
    if (!s)
        return;
    if (s->am->data || !s->am->size) {
        carry_out_payload(s, s->am->data, s->am->size);
        first_ended(s);
        return;
    }
    int rc = stage(s);
    if (rc != MPI_SUCCESS) {
        ended(s, rc);
        first_ended(s);
    }
}

// An accumulate that must wait, for others or for its data.
static wh_status queue(whm_served *s) {
    whm_peer *peer = &s->win->peer[s->head.origin];
    whm_served *kept = keep(s);
    if (!kept) {
        ended(s, MPI_ERR_NO_MEM);
        return WH_OK;
    }
    whm_served **last = &peer->served;
    while (*last)
        last = &(*last)->next;
    *last = kept;
    if (peer->served != kept)
        return WH_PENDING;
    int rc = stage(kept);  // it is the first: its data are not here
    if (rc == MPI_SUCCESS)
        return WH_PENDING;
    kept->am = NULL;  // dropped by the return
    ended(kept, rc);
    first_ended(kept);
    return WH_OK;
}

// ---- Large puts.

static void on_put(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whm_served *s = arg;
    ended(s, whm_class_of(result->status));
    free(s);
}

// Straight into the window.
static wh_status receive_put(whm_served *s) {
    whm_served *kept = keep(s);
    wh_status status = WH_ENOMEM;
    wh_result result = {.status = WH_OK};
    if (kept) {
        wh_op_opts opts = {.size = sizeof(opts),
                           .flags = WH_OP_UNTYPED,
                           .done = on_put,
                           .arg = kept,
                           .result = &result};
        size_t n = whm_for_engine(&kept->type, kept->head.count, &opts.type);
        status = wh_am_recv(s->am, kept->at, n, &opts, NULL);
        if (status == WH_PENDING)
            return WH_PENDING;
        free(kept);
    }
    ended(s, whm_class_of(status));
    return status == WH_OK ? WH_PENDING : WH_OK;
}

static wh_status stage_put(whm_served *s) {
    whm_served *kept = keep(s);
    int rc = kept ? stage(kept) : MPI_ERR_NO_MEM;
    if (rc == MPI_SUCCESS)
        return WH_PENDING;
    free(kept);
    ended(s, rc);
    return WH_OK;
}

// ---- What comes.

static wh_status refuse(const char *why) {
    (void)!(wh_log_write("error", "E-MPI-03", "an access to a window is dropped: %s", why) ==
            WH_OK);
    return WH_OK;
}

static wh_status serve_data(whm_served *s, wh_am *am, const char *flat) {
    bool here = am->data || !am->size;
    s->am = am;
    if (orders(s->head.kind) && (s->win->peer[s->head.origin].served || !here)) {
        if (!s->head.behind && take_type(s, flat) != MPI_SUCCESS) {
            ended(s, MPI_ERR_TYPE);
            return WH_OK;
        }
        return queue(s);
    }
    int rc = s->head.behind ? MPI_SUCCESS : take_type(s, flat);
    if (rc == MPI_SUCCESS && here) {
        s->am = NULL;
        carry_out_payload(s, am->data, am->size);
        return WH_OK;
    }
    if (rc == MPI_SUCCESS && s->head.behind)
        return stage_put(s);
    if (rc == MPI_SUCCESS)
        rc = place(s, am->size);
    if (rc == MPI_SUCCESS)
        return receive_put(s);
    ended(s, rc);
    return WH_OK;
}

static whm_win *window_of(const whm_access *head) {
    whm_rank *rank = whm_rank_at(head->target);
    whm_wins *wins = rank ? rank->wins : NULL;
    whm_win *win = wins && head->win < wins->count ? wins->at[head->win] : NULL;
    return win && (uint32_t)head->origin < (uint32_t)win->comm->size ? win : NULL;
}

wh_status whm_on_access(wh_am *am, void *arg) {
    (void)arg;
    whm_served s = {0};
    if (am->header_size < sizeof(s.head))
        return refuse("its head is too short");
    memcpy(&s.head, am->header, sizeof(s.head));
    size_t flat = am->header_size - sizeof(s.head);
    s.win = window_of(&s.head);
    if (!s.win)
        return refuse("there is no such window, or no such rank in it");
    if (s.head.kind >= WHM_ACCESS_KINDS || flat != (s.head.behind ? 0 : s.head.flat))
        return refuse("its head is none of this release");
    if (s.head.kind < WHM_DATA_KINDS)
        return serve_data(&s, am, (const char *)am->header + sizeof(s.head));
    whm_serve(s.win, &s.head);
    return WH_OK;
}
