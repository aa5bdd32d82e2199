// SPDX-License-Identifier: BSD-3-Clause
//
// Posts: nodes of any thread that run in the owner's progress, once each and in each thread's order.
// How often a sleeping owner is woken, and what the end of a worker does with them.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "engine/test_kit.h"
#include "worker/post.h"

enum { THREADS = 3, EACH = 2000 };

typedef struct item {
    wh_post post;
    unsigned thread, number;
} item;

static unsigned next_of[THREADS];  // the number that comes next of each thread
static _Atomic unsigned ran;

static void check_order(wh_post *post) {
    item *it = whi_container_of(post, item, post);
    CHECK_EQ_INT(it->number, next_of[it->thread]);
    next_of[it->thread]++;
    atomic_fetch_add(&ran, 1);
}

static wh_worker *target;
static item items[THREADS][EACH];

static void *post_all(void *arg) {
    item *mine = arg;
    for (unsigned i = 0; i < EACH; i++)
        wh_worker_post(target, &mine[i].post);
    return NULL;
}

static void start_posters(pthread_t *threads) {
    memset(next_of, 0, sizeof(next_of));
    ran = 0;
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < EACH; i++)
            items[t][i] = (item){.post.fn = check_order, .thread = t, .number = i};
        CHECK(pthread_create(&threads[t], NULL, post_all, items[t]) == 0);
    }
}

static void join_posters(pthread_t *threads) {
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
}

static wh_worker *worker_of(wh_context *ctx, wh_progress_mode mode, int thread) {
    wh_worker *worker = NULL;
    CHECK_EQ_INT(
        wh_worker_create(ctx, WH_WORKER_OPTS(.mode = mode, .progress_thread = thread), &worker),
        WH_OK);
    return worker;
}

static void run_mode(wh_progress_mode mode, int thread) {
    pthread_t threads[THREADS];
    wh_context *ctx = kit_context(NULL);
    target = worker_of(ctx, mode, thread);
    start_posters(threads);
    while (atomic_load(&ran) < THREADS * EACH) {
        if (thread)
            usleep(100);
        else
            CHECK_EQ_INT(wh_worker_wait(target, 20000), WH_OK);
    }
    join_posters(threads);
    wh_worker_destroy(target);
    CHECK_EQ_INT(ran, THREADS * EACH);
    wh_context_destroy(ctx);
}

TEST(threads_post_to_a_spinning_owner) {
    run_mode(WH_PROGRESS_SPIN, 0);
}

TEST(threads_post_to_an_adaptive_owner) {
    run_mode(WH_PROGRESS_ADAPTIVE, 0);
}

TEST(threads_post_to_a_sleeping_owner) {
    run_mode(WH_PROGRESS_WAIT, 0);
}

TEST(threads_post_to_a_progress_thread) {
    run_mode(WH_PROGRESS_DEFAULT, 1);
}

// ---- waking

static bool readable(const wh_worker *worker, int timeout_ms) {
    struct pollfd p = {.fd = wh_worker_fd(worker), .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

// writes takes what the worker's eventfd was written, and puts it back.
static uint64_t writes(wh_worker *worker) {
    uint64_t count = 0;
    if (read(worker->event_fd, &count, sizeof(count)) < 0)
        CHECK_EQ_INT(errno, EAGAIN);
    if (count)
        CHECK(write(worker->event_fd, &count, sizeof(count)) == sizeof(count));
    return count;
}

// arm makes the worker ready to sleep.
static void arm(wh_worker *worker) {
    wh_status st;
    while ((st = wh_worker_arm(worker)) == WH_EBUSY)
        (void)wh_worker_progress(worker);
    CHECK_EQ_INT(st, WH_OK);
}

// However many nodes come, a sleeping owner is woken by one write: each sleep again, and none while it is awake.
TEST(one_write_wakes_a_sleeping_owner) {
    pthread_t threads[THREADS];
    wh_context *ctx = kit_context(NULL);
    target = worker_of(ctx, WH_PROGRESS_DEFAULT, 0);
    for (int sleep = 0; sleep < 3; sleep++) {
        arm(target);
        CHECK(!readable(target, 0));
        start_posters(threads);
        join_posters(threads);
        CHECK_EQ_INT(writes(target), 1);
        CHECK(readable(target, 0));
        CHECK_EQ_INT(wh_worker_arm(target), WH_EBUSY);  // what is there is to run first
        while (ran < THREADS * EACH)
            CHECK(wh_worker_progress(target));
        (void)wh_worker_progress(target);
    }
    start_posters(threads);  // it is awake
    join_posters(threads);
    CHECK_EQ_INT(writes(target), 0);
    wh_worker_destroy(target);
    CHECK_EQ_INT(ran, THREADS * EACH);
    wh_context_destroy(ctx);
}

// The owner that is armed and has gone back to its event loop may post, too.
TEST(an_armed_owner_wakes_itself) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0);
    item one = {.post.fn = check_order};
    memset(next_of, 0, sizeof(next_of));
    arm(worker);
    wh_worker_post(worker, &one.post);
    CHECK(readable(worker, 0));
    while (!next_of[0])
        (void)wh_worker_progress(worker);
    CHECK(!readable(worker, 0));
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
}

// ---- what a node's function may do

typedef struct repeat {
    wh_post post;
    wh_worker *worker;
    unsigned left, calls;
} repeat;

static void post_again(wh_post *post) {
    repeat *r = whi_container_of(post, repeat, post);
    r->calls++;
    if (r->left && r->left--)
        wh_worker_post(r->worker, post);
}

// A pass runs what was there when it looked: a node that comes back waits for the next one.
TEST(a_pass_runs_what_was_there) {
    wh_context *ctx = kit_context(NULL);
    repeat r = {.post.fn = post_again, .worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0), .left = 9};
    wh_worker_post(r.worker, &r.post);
    CHECK_EQ_INT(r.calls, 0);
    for (unsigned pass = 1; pass <= 10; pass++) {
        CHECK(wh_worker_progress(r.worker));
        CHECK_EQ_INT(r.calls, pass);
    }
    for (int i = 0; i < 5; i++)
        (void)wh_worker_progress(r.worker);
    CHECK_EQ_INT(r.calls, 10);
    wh_worker_destroy(r.worker);
    wh_context_destroy(ctx);
}

static void free_node(wh_post *post) {
    free(post);
    atomic_fetch_add(&ran, 1);
}

TEST(a_node_may_be_freed_by_its_function) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0);
    ran = 0;
    for (int i = 0; i < 100; i++) {
        wh_post *post = malloc(sizeof(*post));
        CHECK(post);
        post->fn = free_node;
        wh_worker_post(worker, post);
    }
    while (ran < 100)
        CHECK(wh_worker_progress(worker));
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
}

TEST(what_cannot_be_posted_is_said) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0);
    wh_post empty = {.fn = NULL};
    kit_log_begin();
    wh_worker_post(NULL, &empty);
    CHECK(logged("E-WRK-03") && logged("without a worker"));
    wh_worker_post(worker, NULL);
    CHECK(logged("without a node"));
    wh_worker_post(worker, &empty);
    CHECK(logged("without a function in the node"));
    (void)wh_worker_progress(worker);
    wh_log_set_sink(NULL, NULL);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
}

// ---- the end

TEST(destroy_runs_what_was_posted) {
    for (int thread = 0; thread < 2; thread++) {
        pthread_t threads[THREADS];
        wh_context *ctx = kit_context(NULL);
        target = worker_of(ctx, WH_PROGRESS_DEFAULT, thread);
        start_posters(threads);
        join_posters(threads);
        repeat r = {.post.fn = post_again, .worker = target, .left = 5};
        wh_worker_post(target, &r.post);
        wh_worker_destroy(target);
        CHECK_EQ_INT(ran, THREADS * EACH);
        CHECK_EQ_INT(r.calls, 6);
        wh_context_destroy(ctx);
    }
}

// A node that comes back for ever does not keep a worker from its end.
TEST(destroy_leaves_a_node_without_an_end) {
    wh_context *ctx = kit_context(NULL);
    repeat r = {.post.fn = post_again,
                .worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0),
                .left = UINT32_MAX};
    kit_log_begin();
    wh_worker_post(r.worker, &r.post);
    wh_worker_destroy(r.worker);
    CHECK(r.calls >= 1000);
    CHECK(logged("E-WRK-04"));
    wh_log_set_sink(NULL, NULL);
    wh_context_destroy(ctx);
}

static repeat from_end;

static void on_end(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    CHECK_EQ_INT(result->status, WH_ECLOSED);
    wh_worker_post(from_end.worker, &from_end.post);
}

// What a callback posts while its worker ends runs, too.
TEST(posted_by_the_end) {
    static char word;
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0);
    from_end = (repeat){.post.fn = post_again, .worker = worker};
    CHECK_EQ_INT(
        wh_worker_tag_recv(worker, &word, 1, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.done = on_end), NULL),
        WH_PENDING);
    wh_worker_destroy(worker);
    CHECK_EQ_INT(from_end.calls, 1);
    wh_context_destroy(ctx);
}

// In a child the nodes of the parent do not run, whatever it posts; in the parent they do.
TEST(a_child_runs_none) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = worker_of(ctx, WH_PROGRESS_DEFAULT, 0);
    repeat r = {.post.fn = post_again, .worker = worker}, other = r;
    arm(worker);
    wh_worker_post(worker, &r.post);
    pid_t child = fork();
    if (child == 0) {
        wh_worker_post(worker, &other.post);
        (void)wh_worker_progress(worker);
        wh_worker_destroy(worker);
        _exit(r.calls + other.calls ? 1 : 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(wh_worker_progress(worker));
    CHECK_EQ_INT(r.calls, 1);
    CHECK_EQ_INT(other.calls, 0);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
}

TEST_MAIN()
