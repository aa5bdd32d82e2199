// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a request: made, completed, notified, freed.
//
// The invariant: whi_req_complete is reached exactly once per accepted request, takes it out of every list and table, and
// nothing touches its buffer after that.  Callbacks do not run there but at the end of a pass of progress,
// or in the worker's destroy, so that no engine code has a user's code below it.
#include "message/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "message/behind.h"
#include "message/endpoint.h"
#include "message/offer.h"
#include "message/stage.h"

enum { SENTENCE_MAX = 384 };

static wh_request *take(wh_worker *worker) {
    if (whi_worker_is_owner(worker)) {
        wh_request *req = whi_pool_get(&whi_messages_of(worker)->requests);
        if (req)
            req->foreign = 0;
        return req;
    }
    pthread_mutex_lock(&worker->foreign_lock);
    wh_request *req = whi_pool_get(&whi_messages_of(worker)->foreign);
    pthread_mutex_unlock(&worker->foreign_lock);
    if (req)
        req->foreign = 1;
    return req;
}

static void on_timer(whi_timer *timer, void *arg);

static void set_timer(wh_request *req, uint64_t ms) {
    if (!req->timed)
        whi_timer_init(&req->timer, on_timer, req);
    req->timed = 1;
    whi_timers_add(&req->worker->timers, &req->timer, whi_clock_ns() + ms * WHI_NS_PER_MS);
}

static void unset_timer(wh_request *req) {
    if (req->timed)
        whi_timers_remove(&req->worker->timers, &req->timer);
}

wh_status whi_op_opts_take(wh_op_opts *taken, const wh_op_opts *opts) {
    wh_status st = whi_opts_take(taken, sizeof(*taken), opts, "wh_op_opts");
    uint32_t unknown = st == WH_OK ? taken->flags & ~(uint32_t)WHI_OP_FLAGS : 0;
    if (!unknown)
        return st;
    whi_log(WHI_ERROR, "E-OPTS-04",
            "wh_op_opts.flags asks for 0x%x, which this library does not know", unknown);
    return WH_ENOTSUP;
}

wh_request *whi_req_new(wh_worker *worker, wh_endpoint *ep, const whi_req_ops *ops,
                        const wh_op_opts *opts, bool wanted) {
    wh_request *req = take(worker);
    if (!req)
        return NULL;
    uint8_t foreign = req->foreign;
    whi_req_init(req, worker, ep, ops, ops->brief, opts, wanted);
    req->foreign = foreign;
    // Endpoints count their requests without a lock: the owner does it when it takes a foreign one over.
    if (ep && !foreign)
        whi_ep_retain(ep);
    return req;
}

// free_now returns all that the request holds.  Owner, or under foreign_lock when the worker is destroyed.
static void free_now(wh_request *req, bool locked) {
    wh_worker *worker = req->worker;
    if (req->error)
        whi_free(req->error);
    if (req->ops->fini)
        req->ops->fini(req);
    whi_behind_end(req);
    whi_buffer_release(&req->buf);
    wh_endpoint *ep = req->ep;
    if (!req->foreign) {
        whi_pool_put(&whi_messages_of(worker)->requests, req);
    } else {
        if (!locked)
            pthread_mutex_lock(&worker->foreign_lock);
        whi_pool_put(&whi_messages_of(worker)->foreign, req);
        if (!locked)
            pthread_mutex_unlock(&worker->foreign_lock);
    }
    if (ep)
        whi_ep_release(ep);
}

// release takes the handle back: an operation under way goes on, one that has completed goes.  Owner.
static void release(wh_request *req) {
    if (whi_completion_status(&req->completion) == WH_PENDING) {
        req->wanted = 0;
        return;
    }
    // It has completed since; nobody can have taken the object that it brought.
    if (req->others.released && !req->done && req->result.object)
        req->ops->unclaimed(req);
    free_now(req, false);
}

// release_foreign is for other threads: the owner takes it from its list, so that a handle and its
// completion never race for who is last.
static void release_foreign(wh_request *req) {
    wh_worker *worker = req->worker;
    pthread_mutex_lock(&worker->foreign_lock);
    if (worker->destroyed) {
        free_now(req, true);
        whi_worker_unlock_or_free(worker);
        return;
    }
    req->others.released = whi_completion_status(&req->completion) == WH_PENDING;
    whi_list_push_back(&whi_messages_of(worker)->foreign_free, &req->free_link);
    atomic_store_explicit(&whi_messages_of(worker)->foreign_freed, 1, memory_order_relaxed);
    pthread_mutex_unlock(&worker->foreign_lock);
}

void whi_req_reap_foreign(wh_worker *worker) {
    if (!atomic_load_explicit(&whi_messages_of(worker)->foreign_freed, memory_order_relaxed))
        return;
    whi_list mine;
    pthread_mutex_lock(&worker->foreign_lock);
    whi_list_take(&mine, &whi_messages_of(worker)->foreign_free);
    atomic_store_explicit(&whi_messages_of(worker)->foreign_freed, 0, memory_order_relaxed);
    pthread_mutex_unlock(&worker->foreign_lock);
    whi_list *node;
    while ((node = whi_list_pop_front(&mine)))
        release(whi_container_of(node, wh_request, free_link));
}

void whi_req_free_foreign(wh_worker *worker) {
    whi_list *node;
    while ((node = whi_list_pop_front(&whi_messages_of(worker)->foreign_free)))
        free_now(whi_container_of(node, wh_request, free_link), true);
}

// unname takes its ids back: late records about the operation find nothing.
static void unname(wh_request *req) {
    whi_link *link = req->ep ? req->ep->link : NULL;
    if (!link)
        return;
    if (req->loan_id)
        (void)whi_idmap_remove(&whi_messages_on(link)->loans, req->loan_id);
    req->loan_id = 0;
    bool grant = req->ops->names_grant;
    uint32_t id = grant ? req->grant_id : req->send_id;
    if (id && !grant)
        (void)whi_offer_revoke(req);  // before the user has the buffer back
    if (id)
        whi_idmap_remove(grant ? &whi_messages_on(link)->grants : &whi_messages_on(link)->sends,
                         id);
}

void whi_req_discard(wh_request *req) {
    if (req->send_id | req->grant_id)
        unname(req);  // it had a name already when its lane failed
    unset_timer(req);
    whi_list_remove(&req->op_link);
    whi_list_remove(&req->queue_link);
    if (req->foreign) {
        // The owner would have taken a hold of these, and has never seen this request.
        if (req->ops->refused)
            req->ops->refused(req);
        req->ep = NULL;
    }
    free_now(req, false);
}

// publish makes the completion visible to whoever asks or waits.
static void publish(wh_request *req) {
    wh_worker *worker = req->worker;
    if (!req->wanted) {
        free_now(req, false);
        return;
    }
    if (req->ep)
        req->result.source = req->ep->user_gone ? NULL : req->ep;
    whi_completion_set(&req->completion, req->result.status);
    if (atomic_load_explicit(&whi_messages_of(worker)->waiters, memory_order_relaxed))
        whi_event_set(&req->completion.event);
}

static void count_failure(wh_request *req, wh_status status) {
    wh_counters *c = &req->worker->counters;
    if (status == WH_ECANCELLED)
        c->cancelled++;
    else if (status != WH_ETRUNCATED)
        c->failed++;
}

void whi_req_stop_awaiting(wh_request *req) {
    req->awaits->waiter = NULL;
    req->awaits = NULL;
}

void whi_req_complete(wh_request *req, wh_status status) {
    assert(req->stage != WHI_STAGE_DONE && req->stage != WHI_STAGE_NEW && !req->held);
    wh_worker *worker = req->worker;
    wh_endpoint *ep = req->ep;
    whi_req_stage stage = (whi_req_stage)req->stage;
    req->stage = WHI_STAGE_DONE;
    req->result.status = status;
    worker->counters.pending--;
    whi_list_remove(&req->op_link);
    whi_list_remove(&req->queue_link);
    unset_timer(req);
    whi_behind_end(req);
    whi_stage_end(req);
    if (req->send_id | req->grant_id | req->loan_id)
        unname(req);
    if (__builtin_expect(req->awaits != NULL, 0)) {
        req->awaits->dropped = true;  // its receive has failed and been told so
        whi_req_stop_awaiting(req);
    }
    if (__builtin_expect(status < 0, 0))
        count_failure(req, status);
    if (req->ops->completed)
        req->ops->completed(req, stage);
    // An open endpoint is held by the library; any other may go with this request.
    bool settle = ep && ep->state == WHI_EP_OPEN;
    if (ep && req->ops->holds_close)
        ep->sends--;
    if (req->done || req->result.object)
        whi_list_push_back(&worker->completed, &req->queue_link);
    else
        publish(req);
    if (settle && (ep->close_req || ep->eos || !whi_list_empty(&ep->waiting)))
        whi_ep_settle(ep);
}

void whi_req_complete_when_returned(wh_request *req, wh_status status) {
    if (req->held) {
        req->fate = WHI_FATE_RETURNED;
        req->why = status;
    } else {
        whi_req_complete(req, status);
    }
}

__attribute__((format(printf, 2, 0))) static void explain(wh_request *req, const char *format,
                                                          va_list args) {
    char text[SENTENCE_MAX];
    if (!req->wanted)
        return;
    vsnprintf(text, sizeof(text), format, args);
    whi_free(req->error);
    req->error = whi_strdup(text);  // without memory the status has to do
}

void whi_req_explain(wh_request *req, const char *format, ...) {
    va_list args;
    va_start(args, format);
    explain(req, format, args);
    va_end(args);
}

void whi_req_fail(wh_request *req, wh_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    explain(req, format, args);
    va_end(args);
    whi_req_complete(req, status);
}

// notify runs the callback of one completed request.
static inline void notify(wh_request *req) {
    req->result.source = req->ep && !req->ep->user_gone ? req->ep : NULL;
    if (req->result.object && !req->done && !req->wanted) {
        req->ops->unclaimed(req);
    }
    if (req->done)
        req->done(req->wanted ? req : NULL, &req->result, req->arg);
    if (req->ops->notified)
        req->ops->notified(req);
    publish(req);
}

unsigned whi_req_run_completed(wh_worker *worker) {
    unsigned count = 0;
    whi_list *node;
    // Only what is here now: a callback that starts what ends at once must not hold progress for ever.
    whi_list batch;
    whi_list_take(&batch, &worker->completed);
    while ((node = whi_list_pop_front(&batch))) {
        notify(whi_container_of(node, wh_request, queue_link));
        count++;
    }
    return count;
}

void whi_req_accept(wh_request *req, whi_req_stage stage) {
    wh_worker *worker = req->worker;
    req->stage = (uint8_t)stage;
    worker->counters.pending++;
    whi_list_push_back(req->ep ? &req->ep->ops : &whi_messages_of(worker)->any_source,
                       &req->op_link);
    if (req->ops->holds_close) {
        assert(req->ep);
        req->ep->sends++;
    }
    if (req->timeout_ms)
        set_timer(req, req->timeout_ms);
}

static void on_timer(whi_timer *timer, void *arg) {
    (void)timer;
    wh_request *req = arg;
    if (req->grace && req->stage == WHI_STAGE_MOVING && !req->disowned) {
        whi_link_fail(
            req->ep->link, WH_ETIMEDOUT,
            "the peer has not returned the buffer of a %s within the grace time (%llu ms) "
            "after it was withdrawn",
            whi_req_text(req), (unsigned long long)req->worker->ctx->config.grace);
        return;
    }
    whi_req_withdraw(req, WH_ETIMEDOUT);
}

void whi_req_start_grace(wh_request *req, wh_status why) {
    if (req->grace)
        return;
    req->grace = 1;
    if (!req->why)
        req->why = why;  // else it has failed before
    set_timer(req, req->worker->ctx->config.grace);
}

// withdraw_awaiting is for what has matched and waits for a stream of the caller's.  It has come too late, and the peer is not
// to blame: its time begins when it is asked to move something (whi_req_go_on).  Only the worker's end waits for nothing.
static void withdraw_awaiting(wh_request *req, wh_status why) {
    if (why == WH_ECLOSED)
        whi_req_fail(req, why, "%s: %s", whi_req_text(req), wh_status_text(why));
    else if (!req->why)
        req->why = why;
}

void whi_req_go_on(wh_request *req) {
    if (req->why && req->stage == WHI_STAGE_MOVING)
        whi_req_start_grace(req, req->why);
}

void whi_req_withdraw(wh_request *req, wh_status why) {
    if (req->stage == WHI_STAGE_DONE || req->stage == WHI_STAGE_NEW || req->disowned)
        return;
    if (req->stage != WHI_STAGE_MOVING)
        req->ops->withdraw(req, why);
    else if (whi_behind_awaited(req))
        withdraw_awaiting(req, why);
    else if (!req->ops->withdraw_moving || !req->ops->withdraw_moving(req, why))
        whi_req_start_grace(req, why);
}

wh_status wh_request_status(const wh_request *req) {
    return req ? whi_completion_status(&req->completion) : WH_EINVAL;
}

wh_status wh_request_result(const wh_request *req, wh_result *result) {
    if (!req || !result)
        return WH_EINVAL;
    if (whi_completion_status(&req->completion) == WH_PENDING)
        return WH_PENDING;
    *result = req->result;
    return WH_OK;
}

const char *wh_request_error(const wh_request *req) {
    wh_status st = wh_request_status(req);
    // Its callback runs before it is published; only the owner may look at what it is until then.
    if (st == WH_PENDING && whi_worker_is_owner(req->worker) && req->stage == WHI_STAGE_DONE)
        st = req->result.status;
    if (st == WH_PENDING || st == WH_OK || !req)
        return "";
    return req->error ? req->error : wh_status_text(st);
}

void wh_request_cancel(wh_request *req) {
    if (!req || whi_completion_status(&req->completion) != WH_PENDING)
        return;
    wh_worker *worker = req->worker;
    if (whi_worker_is_owner(worker)) {
        whi_req_withdraw(req, WH_ECANCELLED);
        return;
    }
    // The owner looks through its requests: slower than a queue, but it cannot be full.
    atomic_store(&req->others.cancel, true);
    whi_worker_ask(worker);
}

void wh_request_free(wh_request *req) {
    if (!req)
        return;
    if (whi_worker_is_owner(req->worker))
        release(req);
    else
        release_foreign(req);
}
