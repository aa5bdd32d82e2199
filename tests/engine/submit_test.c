// SPDX-License-Identifier: BSD-3-Clause
//
// Work from other threads: submitted, refused when the queue is full, cancelled, aborted, freed, and ended by the worker's
// destruction, each exactly once.  And the worker that a progress thread lends to others.  Written for the thread sanitizer.
#include <pthread.h>

#include "engine/test_kit.h"

enum { THREADS = 3, OPS = 300 };

static duo d;
static _Atomic unsigned completed, failed, finished;

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    atomic_fetch_add(&completed, 1);
    atomic_fetch_add(&failed, result->status != WH_OK);
}

// ---- many threads send and receive over one worker

typedef struct job {
    pthread_t thread;
    unsigned number;
    unsigned again;  // times that the queue was full
} job;

static void *send_and_receive(void *arg) {
    job *j = arg;
    for (uint64_t i = 0; i < OPS; i++) {
        uint64_t out = (uint64_t)j->number << 32 | i, in = 0;
        wh_request *recv = NULL;
        wh_status st;
        while ((st = wh_tag_recv(d.from, &in, sizeof(in), j->number, WH_TAG_MASK_ALL, NULL,
                                 &recv)) == WH_EAGAIN)
            j->again++;
        CHECK_EQ_INT(st, WH_PENDING);
        while ((st = wh_tag_send(d.to, &out, sizeof(out), j->number, WH_OP_OPTS(.done = on_done),
                                 NULL)) == WH_EAGAIN)
            j->again++;
        CHECK_EQ_INT(st, WH_PENDING);
        CHECK_EQ_INT(wh_request_wait(recv, 20000), WH_OK);
        CHECK(in == out);
        wh_request_free(recv);
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static void run_threads(job *jobs, void *(*fn)(void *)) {
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (job){.number = i + 1};
        CHECK(pthread_create(&jobs[i].thread, NULL, fn, &jobs[i]) == 0);
    }
}

static void join_threads(job *jobs) {
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(jobs[i].thread, NULL);
}

TEST(threads_send_and_receive) {
    job jobs[THREADS];
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    completed = failed = finished = 0;
    run_threads(jobs, send_and_receive);
    UNTIL(&d, atomic_load(&finished) == THREADS && atomic_load(&completed) == THREADS * OPS);
    join_threads(jobs);
    CHECK_EQ_INT(failed, 0);
    duo_for(&d, 5);
    CHECK_EQ_INT(d.server->counters.pending + d.client->counters.pending, 0);
    duo_end(&d);
}

// Sleeping workers are woken by what other threads hand in.
static _Atomic bool stop;
static void *wait_for_work(void *arg) {
    wh_worker *worker = arg;
    CHECK_EQ_INT(wh_worker_adopt(worker), WH_OK);
    while (!atomic_load(&stop))
        CHECK(wh_worker_wait(worker, 1000) != WH_EINVAL);
    return NULL;
}

TEST(sleeping_owners_are_woken) {
    static const char *const waits[] = {"progress=wait", NULL};
    job jobs[THREADS];
    pthread_t owners[2];
    duo_begin(&d, waits, waits);
    duo_connect(&d);
    completed = failed = finished = 0;
    atomic_store(&stop, false);
    wh_worker *workers[2] = {d.server, d.client};
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&owners[i], NULL, wait_for_work, workers[i]) == 0);
    run_threads(jobs, send_and_receive);
    join_threads(jobs);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        wh_worker_wake(workers[i]);
        pthread_join(owners[i], NULL);
        CHECK_EQ_INT(wh_worker_adopt(workers[i]), WH_OK);
    }
    UNTIL(&d, atomic_load(&completed) == THREADS * OPS);
    CHECK_EQ_INT(failed, 0);
    duo_end(&d);
}

// ---- calls that are refused before they are handed over

static void *call_wrongly(void *arg) {
    (void)arg;
    wh_frame nothing = {.data = NULL, .size = 5};
    for (int i = 0; i < 10; i++) {
        wh_request *req = NULL;
        CHECK_EQ_INT(wh_object_send(d.to, "h", 1, &nothing, 1, sizeof(wh_frame), 1, NULL, &req),
                     WH_EINVAL);
        CHECK(!req);
    }
    return NULL;
}

// An endpoint counts only the requests that have reached its owner.
TEST(refused_calls_leave_the_endpoint) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    pthread_t thread;
    int64_t refs = d.to->refs;
    CHECK(pthread_create(&thread, NULL, call_wrongly, NULL) == 0);
    pthread_join(thread, NULL);
    duo_for(&d, 1);
    CHECK_EQ_INT(d.to->refs, refs);
    duo_end(&d);
}

// ---- objects that had to wait

static char part[1000];

static void *send_small_object(void *arg) {
    (void)arg;
    wh_frame frame = {.data = part, .size = sizeof(part)};
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_object_send(d.to, "h", 1, &frame, 1, sizeof(wh_frame), 1, NULL, &req),
                 WH_PENDING);
    CHECK_EQ_INT(wh_request_wait(req, 20000), WH_OK);
    wh_request_free(req);
    atomic_fetch_add(&finished, 1);
    return NULL;
}

// A small object goes at once, as from the owner: its sender does not wait for the receive.
TEST(a_small_object_is_done_before_its_receive) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    finished = 0;
    memset(part, 7, sizeof(part));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, send_small_object, NULL) == 0);
    UNTIL(&d, atomic_load(&finished) == 1);
    pthread_join(thread, NULL);
    CHECK_EQ_INT(d.to->counters.rendezvous, 0);
    char got[sizeof(part)] = {0};
    wh_frame place = {.data = got, .size = sizeof(got)};
    wh_request *req = NULL;
    wh_result result;
    CHECK_EQ_INT(
        wh_object_recv(d.from, &place, 1, sizeof(wh_frame), 1, WH_TAG_MASK_ALL, NULL, &req),
        WH_PENDING);
    UNTIL(&d, wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(wh_request_result(req, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    wh_object_free(result.object);
    CHECK(memcmp(got, part, sizeof(part)) == 0);
    wh_request_free(req);
    duo_end(&d);
}

// ---- a full queue

static void *fill_queue(void *arg) {
    job *j = arg;
    static char word[8];
    unsigned accepted = 0;
    for (int i = 0; i < 100; i++) {
        wh_status st = wh_tag_send(d.to, word, sizeof(word), 9, WH_OP_OPTS(.done = on_done), NULL);
        CHECK(st == WH_PENDING || st == WH_EAGAIN);
        accepted += st == WH_PENDING;
        j->again += st == WH_EAGAIN;
    }
    j->number = accepted;
    return NULL;
}

TEST(a_full_queue_refuses) {
    static const char *const few[] = {"submit_max=16", NULL};
    job one = {.number = 0};
    duo_begin(&d, few, few);
    duo_connect(&d);
    completed = failed = 0;
    CHECK(pthread_create(&one.thread, NULL, fill_queue, &one) == 0);
    pthread_join(one.thread, NULL);
    CHECK_EQ_INT(one.number, 16);
    CHECK_EQ_INT(one.again, 84);
    UNTIL(&d, atomic_load(&completed) == 16);
    duo_for(&d, 5);
    CHECK_EQ_INT(completed, 16);  // what was refused never happens
    CHECK_EQ_INT(failed, 0);
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_endpoint_counters(d.to, &counters), WH_OK);
    CHECK_EQ_INT(counters.sent_messages, 16);
    duo_end(&d);
}

// ---- calls

static void count_call(void *arg) {
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

static _Atomic unsigned calls;
static void *call_often(void *arg) {
    (void)arg;
    for (int i = 0; i < OPS; i++)
        while (wh_worker_call(d.server, count_call, &calls) == WH_EAGAIN) {
        }
    return NULL;
}

TEST(calls_run_once) {
    job jobs[THREADS];
    duo_begin(&d, NULL, NULL);
    calls = 0;
    run_threads(jobs, call_often);
    UNTIL(&d, atomic_load(&calls) == THREADS * OPS);
    join_threads(jobs);
    CHECK_EQ_INT(wh_worker_call(d.server, count_call, &calls), WH_OK);  // the owner may, too
    UNTIL(&d, atomic_load(&calls) == THREADS * OPS + 1);
    CHECK_EQ_INT(wh_worker_call(NULL, count_call, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_worker_call(d.server, NULL, NULL), WH_EINVAL);
    duo_end(&d);
}

// ---- cancel, free and abort from elsewhere

static void *cancel_and_free(void *arg) {
    (void)arg;
    for (int i = 0; i < OPS; i++) {
        char word;
        wh_request *recv = NULL;
        wh_status st;
        while ((st = wh_tag_recv(d.from, &word, 1, 4711, WH_TAG_MASK_ALL, NULL, &recv)) ==
               WH_EAGAIN) {
        }
        CHECK_EQ_INT(st, WH_PENDING);
        wh_request_cancel(recv);
        CHECK_EQ_INT(wh_request_wait(recv, 20000), WH_ECANCELLED);
        wh_request_free(recv);
    }
    atomic_fetch_add(&completed, 1);
    return NULL;
}

TEST(cancelled_from_other_threads) {
    job jobs[THREADS];
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    completed = 0;
    run_threads(jobs, cancel_and_free);
    UNTIL(&d, atomic_load(&completed) == THREADS);
    join_threads(jobs);
    duo_for(&d, 5);
    CHECK_EQ_INT(d.server->counters.pending, 0);
    duo_end(&d);
}

static void *abort_one(void *arg) {
    wh_endpoint_abort(arg);
    return NULL;
}

static void abort_elsewhere(wh_endpoint *ep) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, abort_one, ep) == 0);
    pthread_join(thread, NULL);
}

TEST(aborted_from_another_thread) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    wh_endpoint *sibling_end, *sibling = duo_open(&d, &sibling_end);
    abort_elsewhere(d.to);
    d.to = NULL;
    UNTIL(&d, wh_endpoint_status(d.from) == WH_EPEER);
    CHECK_EQ_INT(wh_endpoint_status(sibling), WH_OK);
    // One that the owner never gets to hear of before it is destroyed.
    abort_elsewhere(sibling);
    wh_endpoint_abort(sibling_end);
    duo_end(&d);
}

// ---- the end of a worker under fire

static _Atomic unsigned accepted_ops, closed;

static void count_end(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg, (void)result;
    atomic_fetch_add(&completed, 1);
}

static void *submit_until_closed(void *arg) {
    (void)arg;
    static char into[THREADS];
    for (;;) {
        wh_request *recv = NULL;
        wh_status st =
            wh_tag_recv(d.from, into, 1, 8, WH_TAG_MASK_ALL, WH_OP_OPTS(.done = count_end), &recv);
        if (st == WH_EAGAIN)
            continue;
        if (st == WH_ECLOSED)
            break;
        CHECK_EQ_INT(st, WH_PENDING);
        atomic_fetch_add(&accepted_ops, 1);
        wh_status end = wh_request_wait(recv, 20000);
        CHECK_EQ_INT(end, WH_ECLOSED);
        wh_request_free(recv);
    }
    atomic_fetch_add(&closed, 1);
    return NULL;
}

TEST(destroyed_while_others_submit) {
    for (int round = 0; round < 20; round++) {
        job jobs[THREADS];
        duo_begin(&d, NULL, NULL);
        duo_connect(&d);
        completed = accepted_ops = closed = 0;
        run_threads(jobs, submit_until_closed);
        if (round % 2)
            UNTIL(&d, atomic_load(&accepted_ops) >= THREADS);
        wh_listener_close(d.listener);
        wh_worker_destroy(d.server);
        join_threads(jobs);
        CHECK_EQ_INT(closed, THREADS);
        CHECK_EQ_INT(completed, accepted_ops);
        wh_endpoint_abort(d.from);  // the last handle: the worker's memory goes with it
        wh_endpoint_abort(d.to);
        wh_worker_destroy(d.client);
        wh_context_destroy(d.ctx[0]);
        wh_context_destroy(d.ctx[1]);
        wh_log_set_sink(NULL, NULL);
    }
}

// ---- a progress thread, and the worker it lends

typedef struct entered {
    wh_worker *worker;
    wh_listener *listener;
    wh_endpoint *to;
    _Atomic(wh_endpoint *) from;
} entered;

static entered b;

static void keep_end(wh_endpoint *ep, void *arg) {
    (void)arg;
    atomic_store(&b.from, ep);
}

static void open_borrowed(wh_context *ctx) {
    b = (entered){.worker = NULL};
    CHECK_EQ_INT(wh_worker_create(ctx, WH_WORKER_OPTS(.progress_thread = true), &b.worker), WH_OK);
    CHECK_EQ_INT(wh_listener_open(b.worker, "127.0.0.1:0", NULL, keep_end, NULL, &b.listener),
                 WH_OK);
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", wh_listener_port(b.listener));
    CHECK_EQ_INT(wh_endpoint_connect_wait(b.worker, address, NULL, &b.to), WH_OK);
    for (int i = 0; i < 20000 && !atomic_load(&b.from); i++)
        usleep(1000);
    CHECK(atomic_load(&b.from));
}

static void *enter_often(void *arg) {
    (void)arg;
    for (int i = 0; i < OPS; i++) {
        wh_counters counters = {.size = sizeof(counters)};
        char text[200];
        CHECK_EQ_INT(wh_worker_counters(b.worker, &counters), WH_OK);
        CHECK_EQ_INT(wh_endpoint_status(b.to), WH_OK);
        CHECK_EQ_INT(wh_endpoint_lanes(b.to, text, sizeof(text)), WH_OK);
        CHECK_EQ_INT(wh_tag_probe(b.to, 99, WH_TAG_MASK_ALL, NULL), WH_ENOTFOUND);
        uint64_t out = (uint64_t)i, in = 0;
        wh_request *recv = NULL;
        wh_status st = wh_tag_recv(b.from, &in, sizeof(in), 5, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK(st == WH_OK || st == WH_PENDING);
        CHECK_EQ_INT(wh_tag_send_wait(b.to, &out, sizeof(out), 5, 20000), WH_OK);
        if (st == WH_PENDING)
            CHECK_EQ_INT(wh_request_wait(recv, 20000), WH_OK);
        wh_request_free(recv);
    }
    return NULL;
}

TEST(a_progress_thread_lends_its_worker) {
    wh_context *ctx = kit_context(NULL);
    open_borrowed(ctx);
    CHECK_EQ_INT(wh_worker_adopt(b.worker), WH_EINVAL);
    CHECK_EQ_INT(wh_worker_wait(b.worker, 0), WH_ETHREAD);
    CHECK_EQ_INT(wh_worker_progress(b.worker), 0);
    job jobs[THREADS];
    run_threads(jobs, enter_often);
    join_threads(jobs);
    CHECK_EQ_INT(wh_endpoint_close_wait(b.to, 20000), WH_OK);
    wh_endpoint_abort(b.from);
    wh_listener_close(b.listener);
    wh_worker_destroy(b.worker);
    wh_context_destroy(ctx);
}

static void *ask_until_closed(void *arg) {
    (void)arg;
    wh_status st;
    // Its own endpoints end with it: WH_ECLOSED is the status of one that has ended, too.
    while ((st = wh_tag_probe(b.to, 1, WH_TAG_MASK_ALL, NULL)) == WH_ENOTFOUND)
        atomic_fetch_add(&calls, 1);
    CHECK_EQ_INT(st, WH_ECLOSED);
    return NULL;
}

// Who waits for a progress thread is not left behind by the worker's end, and wakes nobody after it.
TEST(destroyed_while_others_borrow) {
    for (int round = 0; round < 20; round++) {
        wh_context *ctx = kit_context(NULL);
        job jobs[THREADS];
        open_borrowed(ctx);
        calls = 0;
        run_threads(jobs, ask_until_closed);
        while (atomic_load(&calls) < 20)
            usleep(100);
        wh_listener_close(b.listener);
        wh_worker_destroy(b.worker);
        join_threads(jobs);
        wh_endpoint_abort(b.from);
        wh_endpoint_abort(b.to);
        wh_context_destroy(ctx);
    }
}

// ---- threads that may not

static void *not_the_owner(void *arg) {
    (void)arg;
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_worker_progress(d.server), 0);
    CHECK_EQ_INT(wh_worker_wait(d.server, 0), WH_ETHREAD);
    CHECK_EQ_INT(wh_worker_arm(d.server), WH_ETHREAD);
    CHECK_EQ_INT(wh_worker_counters(d.server, &counters), WH_ETHREAD);
    CHECK_EQ_INT(wh_endpoint_status(d.from), WH_ETHREAD);
    CHECK_EQ_INT(wh_worker_set_am(d.server, 1, NULL, NULL), WH_ETHREAD);
    CHECK_EQ_INT(wh_tag_probe(d.from, 0, 0, NULL), WH_ETHREAD);
    wh_worker_destroy(d.server);  // does nothing, and says so
    return NULL;
}

TEST(only_the_owner_may) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, not_the_owner, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(logged("E-WRK-02"));
    CHECK_EQ_INT(wh_endpoint_status(d.from), WH_OK);
    duo_end(&d);
}

TEST_MAIN()
