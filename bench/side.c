// SPDX-License-Identifier: BSD-3-Clause
//
// See side.h.
//
// An operation that is done at once does not call back, so every start looks at its return value
// first; both ways end in note_received and note_sent.
#include "bench/side.h"

#include "bench/clock.h"

#include <string.h>

enum { DATA_TAG = 1, AM_ID = 1 };

static void note_failed(bench_side *side, wh_status status) {
    if (side->failed == WH_OK)
        side->failed = status;
}

// Where the program packs itself, it has to unpack what has come.
static void note_arrived(bench_side *side) {
    wh_status status = side->packed ? bench_buffers_unpack(&side->memory) : WH_OK;
    if (status != WH_OK)
        note_failed(side, status);
}

static void note_received(bench_side *side, const wh_result *result) {
    if (result->object)
        wh_object_free(result->object);
    note_arrived(side);
    if (result->status != WH_OK)
        note_failed(side, result->status);
    side->received++;
}

static void refill(bench_side *side) {
    while (side->posted < side->post_up_to && side->posted - side->received < BENCH_WINDOW &&
           side->failed == WH_OK)
        bench_side_post(side);
}

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    bench_side *side = arg;
    note_received(side, result);
    refill(side);
}

static void note_sent(bench_side *side) {
    if (side->kind->reads && !side->flushing)
        note_arrived(side);
    side->sent++;
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    bench_side *side = arg;
    if (result->status != WH_OK)
        note_failed(side, result->status);
    note_sent(side);
}

// Tagged messages.

static wh_status post_tag(bench_side *side) {
    return wh_tag_recv(side->ep, side->in, side->size, DATA_TAG, WH_TAG_MASK_ALL, &side->recv_opts,
                       NULL);
}

static wh_status send_tag(bench_side *side) {
    return wh_tag_send(side->ep, side->out, side->size, DATA_TAG, &side->send_opts, NULL);
}

// Objects: one frame, and no header besides.

static wh_frame frame_of(const bench_side *side, char *data) {
    return (wh_frame){.data = data,
                      .size = side->size,
                      .mem = side->memory.kind,
                      .type = side->packed ? NULL : side->memory.type};
}

static wh_status post_object(bench_side *side) {
    const wh_frame frame = frame_of(side, side->in);
    return wh_object_recv(side->ep, &frame, 1, sizeof(wh_frame), DATA_TAG, WH_TAG_MASK_ALL,
                          &side->recv_opts, NULL);
}

static wh_status send_object(bench_side *side) {
    const wh_frame frame = frame_of(side, side->out);
    return wh_object_send(side->ep, NULL, 0, &frame, 1, sizeof(wh_frame), DATA_TAG,
                          &side->send_opts, NULL);
}

// Active messages: a small payload is done with when the handler has seen it, as in ucx_perftest.

static wh_status send_am(bench_side *side) {
    return wh_am_send(side->ep, AM_ID, NULL, 0, side->out, side->size, &side->send_opts, NULL);
}

static wh_status on_am(wh_am *am, void *arg) {
    bench_side *side = arg;
    if ((am->data && side->plain) || am->size == 0) {
        side->received++;
        return WH_OK;
    }
    wh_status status = wh_am_recv(am, side->in, side->size, &side->recv_opts, NULL);
    if (status == WH_OK)
        note_received(side, &side->inline_result);
    else if (status != WH_PENDING)
        note_failed(side, status);
    return WH_PENDING;
}

// Accesses to the other side's memory, always at its start.

static wh_status send_put(bench_side *side) {
    return wh_put(side->rkey, 0, side->out, side->size, &side->send_opts, NULL);
}

static wh_status send_get(bench_side *side) {
    return wh_get(side->rkey, 0, side->in, side->size, &side->send_opts, NULL);
}

static wh_status send_add(bench_side *side) {
    return wh_atomic(side->rkey, 0, WH_ATOMIC_ADD, side->size, 1, 0, side->blind ? NULL : side->in,
                     &side->send_opts, NULL);
}

static const bench_kind kinds[] = {
    {.name = "tag", .post = post_tag, .send = send_tag},
    {.name = "object", .post = post_object, .send = send_object, .framed = true},
    {.name = "am", .send = send_am},
    {.name = "put", .send = send_put, .remote = true, .flush = true},
    {.name = "get", .send = send_get, .remote = true, .reads = true},
    {.name = "atomic", .send = send_add, .remote = true},
};

const bench_kind *bench_kind_find(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(name, kinds[i].name) == 0)
            return &kinds[i];
    }
    return NULL;
}

wh_status bench_side_init(bench_side *side, wh_endpoint *ep, bool spin) {
    *side = (bench_side){.ep = ep, .worker = wh_endpoint_worker(ep), .spin = spin};
    side->memory.kind = WH_MEM_HOST;
    side->recv_opts = (wh_op_opts){.size = sizeof(wh_op_opts),
                                   .done = on_received,
                                   .arg = side,
                                   .result = &side->inline_result};
    side->send_opts = (wh_op_opts){.size = sizeof(wh_op_opts), .done = on_sent, .arg = side};
    return wh_worker_set_am(side->worker, AM_ID, on_am, side);
}

void bench_side_fini(bench_side *side) {
    if (wh_worker_set_am(side->worker, AM_ID, NULL, NULL) != WH_OK)
        note_failed(side, WH_EINVAL);
    bench_buffers_free(&side->memory);
}

// Tells the operations what they move: the layout itself, or the bytes that were packed from it.
static void aim(bench_side *side) {
    bench_buffers *memory = &side->memory;
    bool packed = side->packed;
    side->plain = !memory->type && memory->kind == WH_MEM_HOST;
    side->out = packed ? memory->packed_out : memory->out;
    side->in = packed ? memory->packed_in : memory->in;
    side->size = packed ? memory->size : memory->count;
    side->recv_opts.type = packed || side->kind->framed ? NULL : memory->type;
    side->send_opts.type = side->recv_opts.type;
    side->recv_opts.mem = side->send_opts.mem = memory->kind;
}

wh_status bench_side_begin(bench_side *side, const bench_kind *kind, const bench_cell *cell,
                           unsigned timeout_s) {
    wh_status status = bench_buffers_fit(&side->memory, &cell->layout, cell->size, cell->packed);
    if (status == WH_OK && cell->check)
        status = bench_buffers_mark(&side->memory);
    if (status != WH_OK)
        return status;
    side->kind = kind;
    side->flushing = false;
    side->packed = cell->packed;
    side->check = cell->check;
    aim(side);
    side->posted = side->post_up_to = side->received = side->started = side->sent = 0;
    side->failed = WH_OK;
    side->idle = 0;
    side->deadline_ns = bench_ns() + timeout_s * BENCH_NS_PER_S;
    return WH_OK;
}

void bench_side_expect(bench_side *side, uint64_t count) {
    side->post_up_to = count;
    refill(side);
}

void bench_side_post(bench_side *side) {
    side->posted++;
    if (!side->kind->post)
        return;
    wh_status status = side->kind->post(side);
    if (status == WH_OK)
        note_received(side, &side->inline_result);
    else if (status != WH_PENDING)
        note_failed(side, status);
}

static void note_started(bench_side *side, wh_status status) {
    side->started++;
    if (status == WH_OK)
        note_sent(side);
    else if (status != WH_PENDING)
        note_failed(side, status);
}

void bench_side_send(bench_side *side) {
    if (side->packed && !side->kind->reads) {
        wh_status status = bench_buffers_pack(&side->memory);
        if (status != WH_OK)
            note_failed(side, status);
    }
    note_started(side, side->kind->send(side));
}

void bench_side_flush(bench_side *side) {
    side->flushing = true;
    note_started(side, wh_endpoint_flush(side->ep, &side->send_opts, NULL));
}

bool bench_side_overdue(bench_side *side) {
    if (bench_ns() < side->deadline_ns)
        return false;
    note_failed(side, WH_ETIMEDOUT);
    return true;
}
