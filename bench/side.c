// SPDX-License-Identifier: BSD-3-Clause
//
// See side.h.
//
// An operation that is done at once does not call back, so every start looks at its return value
// first; both ways end in note_received and note_sent.
#include "bench/side.h"

#include "bench/clock.h"

#include <stdlib.h>
#include <string.h>

enum { DATA_TAG = 1, AM_ID = 1 };

static void note_failed(bench_side *side, wh_status status) {
    if (side->failed == WH_OK)
        side->failed = status;
}

static void note_received(bench_side *side, const wh_result *result) {
    if (result->object)
        wh_object_free(result->object);
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

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    bench_side *side = arg;
    if (result->status != WH_OK)
        note_failed(side, result->status);
    side->sent++;
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

static wh_status post_object(bench_side *side) {
    const wh_frame frame = {.data = side->in, .size = side->size, .mem = WH_MEM_HOST};
    return wh_object_recv(side->ep, &frame, 1, sizeof(wh_frame), DATA_TAG, WH_TAG_MASK_ALL,
                          &side->recv_opts, NULL);
}

static wh_status send_object(bench_side *side) {
    const wh_frame frame = {.data = side->out, .size = side->size, .mem = WH_MEM_HOST};
    return wh_object_send(side->ep, NULL, 0, &frame, 1, sizeof(wh_frame), DATA_TAG,
                          &side->send_opts, NULL);
}

// Active messages: a small payload is done with when the handler has seen it, as in ucx_perftest.

static wh_status send_am(bench_side *side) {
    return wh_am_send(side->ep, AM_ID, NULL, 0, side->out, side->size, &side->send_opts, NULL);
}

static wh_status on_am(wh_am *am, void *arg) {
    bench_side *side = arg;
    if (am->data || am->size == 0) {
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
    {.name = "object", .post = post_object, .send = send_object},
    {.name = "am", .send = send_am},
    {.name = "put", .send = send_put, .remote = true, .flush = true},
    {.name = "get", .send = send_get, .remote = true},
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
    side->recv_opts = (wh_op_opts){.size = sizeof(wh_op_opts),
                                   .mem = WH_MEM_HOST,
                                   .done = on_received,
                                   .arg = side,
                                   .result = &side->inline_result};
    side->send_opts =
        (wh_op_opts){.size = sizeof(wh_op_opts), .mem = WH_MEM_HOST, .done = on_sent, .arg = side};
    return wh_worker_set_am(side->worker, AM_ID, on_am, side);
}

static void drop_buffers(bench_side *side) {
    free(side->out);
    free(side->in);
    side->out = side->in = NULL;
    side->room = 0;
}

void bench_side_fini(bench_side *side) {
    if (wh_worker_set_am(side->worker, AM_ID, NULL, NULL) != WH_OK)
        note_failed(side, WH_EINVAL);
    drop_buffers(side);
}

// Page-aligned, as large buffers usually are, and written once so that no page is missing later.
static char *make_buffer(size_t room) {
    char *buffer = aligned_alloc(4096, room);
    if (buffer)
        memset(buffer, 'w', room);
    return buffer;
}

static wh_status reserve(bench_side *side, size_t size) {
    if (size <= side->room && side->out)
        return WH_OK;
    if (size > SIZE_MAX - 4096)
        return WH_ENOMEM;
    drop_buffers(side);
    size_t room = (size + 4096) & ~(size_t)4095;  // at least one page, also for empty messages
    side->out = make_buffer(room);
    side->in = make_buffer(room);
    if (!side->out || !side->in) {
        drop_buffers(side);
        return WH_ENOMEM;
    }
    side->room = room;
    return WH_OK;
}

wh_status bench_side_begin(bench_side *side, const bench_kind *kind, size_t size,
                           unsigned timeout_s) {
    wh_status status = reserve(side, size);
    if (status != WH_OK)
        return status;
    side->kind = kind;
    side->size = size;
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
        side->sent++;
    else if (status != WH_PENDING)
        note_failed(side, status);
}

void bench_side_send(bench_side *side) {
    note_started(side, side->kind->send(side));
}

void bench_side_flush(bench_side *side) {
    note_started(side, wh_endpoint_flush(side->ep, &side->send_opts, NULL));
}

bool bench_side_overdue(bench_side *side) {
    if (bench_ns() < side->deadline_ns)
        return false;
    note_failed(side, WH_ETIMEDOUT);
    return true;
}
