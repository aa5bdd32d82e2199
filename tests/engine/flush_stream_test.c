// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for a stream of a device: as an operation of a worker, and as a function of a PE.  Over the test driver, in whose stream a
// kernel stands until the test lets it go.
#include <wherry/rt.h>

#include "base/clock.h"
#include "mem/cuda_kit.h"

static wh_context *ctx;
static wh_worker *worker;

static void begin(void) {
    (void)entry("cutest_launch");  // or skips
    CHECK_EQ_INT(wh_context_create(NULL, &ctx), WH_OK);
    CHECK_EQ_INT(wh_worker_create(ctx, NULL, &worker), WH_OK);
}

static void end(void) {
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
}

static wh_request *flush(void *stream, int timeout_ms) {
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_worker_flush_stream(worker, WH_MEM_CUDA, stream,
                                        WH_OP_OPTS(.timeout_ms = timeout_ms), &req),
                 WH_PENDING);
    return req;
}

static void progress_ms(unsigned ms) {
    for (uint64_t until = whi_clock_ns() + ms * 1000000ull; whi_clock_ns() < until;)
        wh_worker_progress(worker);
}

TEST(it_completes_when_the_stream_has_come_so_far) {
    begin();
    gate first = GATE, later = GATE;
    void *stream = make_stream(0, 1);
    launch(0, stream, pass_gate, &first);
    wh_request *req = flush(stream, -1);
    launch(0, stream, pass_gate, &later);
    wh_request *second = flush(stream, -1);
    progress_ms(20);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    open_gate(&first);
    CHECK_EQ_INT(wh_request_wait(req, 5000), WH_OK);  // what came later is not waited for
    CHECK_EQ_INT(wh_request_status(second), WH_PENDING);
    open_gate(&later);
    CHECK_EQ_INT(wh_request_wait(second, 5000), WH_OK);
    wh_request_free(req);
    wh_request_free(second);
    // Nothing is in it: done within the call.
    CHECK_EQ_INT(wh_worker_flush_stream(worker, WH_MEM_CUDA, stream, NULL, &req), WH_OK);
    end();
}

static void note(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    *(wh_status *)arg = result->status;
}

TEST(it_is_cancelled_and_times_out_and_ends_with_its_worker) {
    begin();
    static gate g = GATE;
    wh_status ended = WH_PENDING;
    void *stream = make_stream(0, 1);
    launch(0, stream, pass_gate, &g);
    wh_request *cancelled = flush(stream, -1), *late = flush(stream, 20);
    CHECK_EQ_INT(wh_worker_flush_stream(worker, WH_MEM_CUDA, stream,
                                        WH_OP_OPTS(.done = note, .arg = &ended), NULL),
                 WH_PENDING);
    wh_request_cancel(cancelled);
    CHECK_EQ_INT(wh_request_wait(cancelled, 5000), WH_ECANCELLED);
    CHECK_EQ_INT(wh_request_wait(late, 5000), WH_ETIMEDOUT);
    CHECK_EQ_INT(ended, WH_PENDING);
    wh_request_free(cancelled);
    wh_request_free(late);
    end();
    CHECK_EQ_INT(ended, WH_ECLOSED);
    open_gate(&g);
}

TEST(what_is_no_stream) {
    begin();
    listen();
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_worker_flush_stream(NULL, WH_MEM_CUDA, NULL, NULL, &req), WH_EINVAL);
    CHECK_EQ_INT(wh_worker_flush_stream(worker, WH_MEM_HOST, NULL, NULL, &req), WH_EINVAL);
    CHECK_EQ_INT(wh_worker_flush_stream(worker, WH_MEM_AUTO, NULL, NULL, &req), WH_EINVAL);
    CHECK_EQ_INT(wh_worker_flush_stream(worker, (wh_mem_kind)99, NULL, NULL, &req), WH_EINVAL);
    fail_at("cuEventRecord", 1, 700);
    CHECK(wh_worker_flush_stream(worker, WH_MEM_CUDA, make_stream(0, 1), NULL, &req) < 0);
    CHECK(!req);
    fail_at("cuEventRecord", 0, 0);
    end();
}

// ---- PEs.

static struct {
    gate g;
    void *stream;
    int early, calls;
    wh_status status;
} job;

static void on_stream(wh_pe *pe, wh_status status, void *arg) {
    CHECK(wh_pe_here() == pe && arg == &job);
    job.calls++;
    job.status = status;
    wh_pe_exit(pe, 0);
}

static void open_it(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
    job.early = job.calls;
    open_gate(&job.g);
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    launch(0, job.stream, pass_gate, &job.g);
    CHECK_EQ_INT(wh_pe_on_stream(pe, WH_MEM_CUDA, job.stream, NULL, &job), WH_EINVAL);
    CHECK_EQ_INT(wh_pe_on_stream(pe, WH_MEM_HOST, job.stream, on_stream, &job), WH_EINVAL);
    CHECK_EQ_INT(wh_pe_on_stream(pe, WH_MEM_CUDA, job.stream, on_stream, &job), WH_OK);
    CHECK_EQ_INT(job.calls, 0);
    CHECK_EQ_INT(wh_pe_after(pe, 20000, open_it, NULL, NULL), WH_OK);
}

static void run_job(wh_pe_main_fn first) {
    wh_rt *rt;
    int status = -1;
    (void)entry("cutest_launch");
    job.g = (gate)GATE;
    job.stream = make_stream(0, 1);
    job.calls = 0;
    CHECK_EQ_INT(wh_rt_init(NULL, &rt), WH_OK);
    CHECK_EQ_INT(wh_rt_run(rt, first, NULL, &status), WH_OK);
    wh_rt_finish(rt);
}

TEST(a_pe_is_told) {
    run_job(start);
    CHECK_EQ_INT(job.early, 0);
    CHECK_EQ_INT(job.calls, 1);
    CHECK_EQ_INT(job.status, WH_OK);
}

static void never(wh_pe *pe, wh_status status, void *arg) {
    (void)pe;
    (void)status;
    (void)arg;
    job.calls++;
}

static void leave_early(wh_pe *pe, void *arg) {
    (void)arg;
    CHECK_EQ_INT(wh_pe_on_stream(pe, WH_MEM_CUDA, job.stream, never, &job), WH_OK);  // at once
    launch(0, job.stream, pass_gate, &job.g);
    CHECK_EQ_INT(wh_pe_on_stream(pe, WH_MEM_CUDA, job.stream, never, &job), WH_OK);
    CHECK_EQ_INT(job.calls, 0);  // never inside the call
    wh_pe_exit(pe, 0);
}

// The job ends first: nobody is called.
TEST(a_pe_that_leaves_first) {
    run_job(leave_early);
    CHECK(job.calls <= 1);
    open_gate(&job.g);
}

TEST_MAIN()
