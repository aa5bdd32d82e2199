// SPDX-License-Identifier: BSD-3-Clause
//
// Functions that are called when a stream of a device has come so far.
#include "base/alloc.h"
#include "rt/pe/pe.h"
#include "rt/pe/refuse.h"

typedef struct awaited {
    whi_ready ready;
    wh_pe *pe;
    wh_pe_stream_fn fn;
    void *arg;
    wh_status status;
} awaited;

static void run(wh_pe *pe, whi_ready *ready) {
    awaited *a = whi_container_of(ready, awaited, ready);
    a->fn(pe, a->status, a->arg);
    whi_free(a);
}

static void drop(whi_ready *ready) {
    whi_free(whi_container_of(ready, awaited, ready));
}

static void passed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    awaited *a = arg;
    a->status = result->status;
    whi_pe_do(a->pe, &a->ready);
}

wh_status wh_pe_on_stream(wh_pe *pe, wh_mem_kind kind, void *stream, wh_pe_stream_fn fn,
                          void *arg) {
    awaited *a = fn ? whi_malloc(sizeof(*a)) : NULL;
    if (!a)
        return fn ? WH_ENOMEM : whi_refuse_function("wh_pe_on_stream");
    *a = (awaited){.ready = {.run = run, .drop = drop}, .pe = pe, .fn = fn, .arg = arg};
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {
        .size = sizeof(opts), .timeout_ms = -1, .done = passed, .arg = a, .result = &result};
    wh_status st = wh_worker_flush_stream(pe->worker, kind, stream, &opts, NULL);
    if (st == WH_OK)
        passed(NULL, &result, a);
    else if (st != WH_PENDING)
        whi_free(a);
    return st == WH_PENDING ? WH_OK : st;
}
