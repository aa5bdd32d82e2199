// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for requests: the owner progresses, other threads sleep on the request's event.
//
// A completer must not pay for waiters that are not there, so it looks at `waiters` without a fence; the waiter makes up
// for that with a barrier in all threads of the process, and, where the kernel has none, sleeps in short slices.
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "mem/mem.h"
#include "message/behind.h"
#include "message/request.h"
#include "message/room.h"
#include "worker/worker.h"

#define SLICE_NS (1 * WHI_NS_PER_MS)

// process_barrier orders this thread's stores before the loads of all others; false: not to be had here.
static bool process_barrier(void) {
    static _Atomic int state;  // 0: unknown, 1: works, 2: does not
    if (atomic_load(&state) == 0) {
        long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
        atomic_store(&state, rc == 0 ? 1 : 2);
    }
    return atomic_load(&state) == 1 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static uint64_t deadline_of(int timeout_ms) {
    return timeout_ms < 0 ? WHI_TIMER_NEVER : whi_clock_ns() + (uint64_t)timeout_ms * WHI_NS_PER_MS;
}

static int left_ms(uint64_t deadline_ns) {
    if (deadline_ns == WHI_TIMER_NEVER)
        return -1;
    uint64_t now = whi_clock_ns();
    return now >= deadline_ns ? 0 : (int)((deadline_ns - now + WHI_NS_PER_MS - 1) / WHI_NS_PER_MS);
}

static wh_status wait_as_owner(wh_request *req, int timeout_ms) {
    wh_worker *worker = req->worker;
    if (worker->in_progress)
        return WH_EBUSY;
    uint64_t deadline = deadline_of(timeout_ms);
    wh_status st;
    while ((st = whi_completion_status(&req->completion)) == WH_PENDING) {
        bool moved = wh_worker_progress(worker) > 0;
        if (whi_completion_status(&req->completion) != WH_PENDING)
            continue;
        // Asked while others keep the worker busy, too: they must not hold this wait beyond its end.
        int left = left_ms(deadline);
        if (left == 0)
            return WH_ETIMEDOUT;
        if (!moved && wh_worker_wait(worker, left) == WH_ETIMEDOUT && left_ms(deadline) == 0 &&
            whi_completion_status(&req->completion) == WH_PENDING)
            return WH_ETIMEDOUT;
    }
    return st;
}

static wh_status wait_as_other(wh_request *req, int timeout_ms) {
    wh_worker *worker = req->worker;
    uint64_t deadline = deadline_of(timeout_ms);
    atomic_fetch_add(&whi_messages_of(worker)->waiters, 1);
    bool ordered = process_barrier();
    wh_status st;
    while ((st = whi_completion_status(&req->completion)) == WH_PENDING) {
        uint64_t now = whi_clock_ns();
        if (now >= deadline) {
            st = WH_ETIMEDOUT;
            break;
        }
        uint64_t slice = deadline == WHI_TIMER_NEVER ? WHI_FOREVER : deadline - now;
        if (!ordered && slice > SLICE_NS)
            slice = SLICE_NS;
        (void)whi_event_wait(&req->completion.event, slice);
    }
    atomic_fetch_sub(&whi_messages_of(worker)->waiters, 1);
    return st;
}

wh_status wh_request_wait(wh_request *req, int timeout_ms) {
    if (!req)
        return WH_EINVAL;
    wh_status st = whi_completion_status(&req->completion);
    if (st != WH_PENDING)
        return st;
    return whi_worker_is_owner(req->worker) ? wait_as_owner(req, timeout_ms)
                                            : wait_as_other(req, timeout_ms);
}

wh_status whi_req_wait_result(wh_request *req, int timeout_ms, wh_result *result) {
    wh_status st = wh_request_wait(req, timeout_ms);
    if (st == WH_ETIMEDOUT && wh_request_status(req) == WH_PENDING) {
        // The buffer is the caller's again only after the completion, which the cancel brings.
        wh_request_cancel(req);
        st = wh_request_wait(req, -1);
        if (st == WH_ECANCELLED)
            st = WH_ETIMEDOUT;
    }
    if (result && wh_request_result(req, result) != WH_OK)
        *result = (wh_result){.status = st};
    if (result)
        result->status = st;
    wh_request_free(req);
    return st;
}

// ---- An operation that is only the waiting for a stream of the caller's (behind.h).  It belongs to no endpoint.

static void passed(wh_request *req) {
    wh_status st = whi_behind_ask(req);
    if (st == WH_OK)
        whi_req_complete(req, WH_OK);
    else
        whi_req_fail(req, st, "the work in the stream has failed: %s", wh_status_text(st));
}

static wh_status post(wh_request *req) {
    wh_status behind = whi_behind_ask(req);
    if (behind != WH_PENDING)
        return behind;
    whi_req_accept(req, WHI_STAGE_QUEUED);
    whi_behind_await(req, passed);
    return WH_PENDING;
}

static void withdraw(wh_request *req, wh_status why) {
    whi_req_fail(req, why, "wait for a stream: %s", wh_status_text(why));
}

static const whi_req_ops stream_ops = {
    .text = "wait for a stream", .post = post, .withdraw = withdraw, .match = WHI_MATCH_NONE};

wh_status wh_worker_flush_stream(wh_worker *worker, wh_mem_kind kind, void *stream,
                                 const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!worker || kind <= WH_MEM_HOST || (int)kind >= WHI_MEM_KINDS)
        return WH_EINVAL;
    const whi_mem_ops *ops = whi_mem_ops_of(kind);
    if (!ops)
        return WH_ENOTSUP;
    wh_request *req = whi_req_new(worker, NULL, &stream_ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    wh_status st = whi_behind_begin(req, kind, stream);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    return whi_req_start(req, opts, out);
}
