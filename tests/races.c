// SPDX-License-Identifier: BSD-3-Clause
//
// Eight threads that submit, cancel, time out, wait and free on two workers at once, while endpoints are aborted and
// closed and, in some rounds, a worker is destroyed.  Written for the thread sanitizer.
//
//     races [--rounds N] [--ops N] [--seed S] [--lane shm|stream]
//
// What must hold: each accepted operation ends once, no call hangs, and nothing is pending at the end.  The round's
// number gives the seed and the mode: who progresses the workers.  The threads' order is the machine's, so that a seed
// repeats the draws, not the race.
//
// An endpoint's handle may not be used once it is given up: `users` counts the threads that are in a call on it.  It
// orders nothing between these threads, so that a race of theirs in the library is not hidden by it.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "proc.h"

enum {
    THREADS = 8,
    PAIRS = 12,
    HELD = 12,  // operations that a thread has at a time
    SMALL = 100,
    LARGE = 20000,
    HANG_MS = 60000,
    TAGS = 3,
};
#define GIVEN_UP (1u << 31)

typedef enum mode { BY_HAND, OWNERS_WAIT, OWNERS_SPIN, PROGRESS_THREADS, MODES } mode;
static const char *const mode_names[] = {"one thread progresses both", "two owners that sleep",
                                         "two adaptive owners", "progress threads"};
static const char *const worker_modes[] = {"spin", "wait", "adaptive", "thread"};

typedef struct end {
    wh_endpoint *ep;
    _Atomic unsigned users;
} end;

typedef struct op {
    wh_request *req;
    _Atomic unsigned ended;  // callbacks that ran
    bool used;
    bool told;   // it has a callback
    bool timed;  // it ends by itself
    char *buf;
    wh_frame frame;
} op;

typedef struct racer {
    pthread_t thread;
    uint64_t random;
    op ops[HELD];
    unsigned accepted;
} racer;

static proc_worker sides[2];
static mode how;
static bool under_fire;  // a worker is destroyed while the threads run
static unsigned ops_per_thread = 200;
static end ends[2][PAIRS];
static racer racers[THREADS];
static _Atomic unsigned running;
static _Atomic bool stop_owners;
static _Atomic unsigned accepted_count;

// ---- handles

static wh_endpoint *enter(end *e) {
    if (atomic_fetch_add_explicit(&e->users, 1, memory_order_relaxed) & GIVEN_UP) {
        atomic_fetch_sub_explicit(&e->users, 1, memory_order_relaxed);
        return NULL;
    }
    return e->ep;
}

static void leave(end *e) {
    atomic_fetch_sub_explicit(&e->users, 1, memory_order_release);
}

// take_over gives the caller the only right to the handle, or nothing.
static wh_endpoint *take_over(end *e) {
    if (atomic_fetch_or_explicit(&e->users, GIVEN_UP, memory_order_relaxed) & GIVEN_UP)
        return NULL;
    while (atomic_load_explicit(&e->users, memory_order_acquire) != GIVEN_UP)
        sched_yield();
    return e->ep;
}

// ---- operations

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    op *o = arg;
    if (result->object)
        wh_object_free(result->object);
    CHECK(atomic_fetch_add(&o->ended, 1) == 0);
}

static uint64_t draw(racer *r, uint64_t n) {
    return proc_below(&r->random, n);
}

static wh_status start(racer *r, op *o, wh_endpoint *ep, int side, const wh_op_opts *opts,
                       wh_request **req) {
    size_t size = draw(r, 4) ? SMALL : LARGE;
    uint64_t tag = draw(r, TAGS);
    bool any = !under_fire && draw(r, 5) == 0;
    o->frame = (wh_frame){.data = o->buf, .size = size};
    switch (draw(r, 7)) {
    case 0: return wh_tag_send(ep, o->buf, size, tag, opts, req);
    case 1:
        return any ? wh_worker_tag_recv(sides[side].worker, o->buf, LARGE, tag, 1, opts, req)
                   : wh_tag_recv(ep, o->buf, LARGE, tag, 1, opts, req);
    case 2: return wh_object_send(ep, o->buf, 10, &o->frame, 1, sizeof(wh_frame), tag, opts, req);
    case 3: return wh_object_recv(ep, NULL, 0, 0, tag, 0, opts, req);
    case 4: return wh_am_send(ep, 1, o->buf, 8, o->buf, size, opts, req);
    case 5: return wh_endpoint_flush(ep, opts, req);
    default: return wh_tag_recv(ep, o->buf, LARGE, tag, 0, opts, req);
    }
}

// forget_result takes what an operation without a callback has brought.
static void forget_result(op *o) {
    wh_result result;
    CHECK_STATUS(wh_request_result(o->req, &result), WH_OK);
    CHECK(wh_request_error(o->req) != NULL);
    if (result.object && !o->told)
        wh_object_free(result.object);
}

static void await_callback(op *o) {
    for (uint64_t begun = proc_now_ms(); o->told && !atomic_load(&o->ended);) {
        CHECK(proc_now_ms() - begun < HANG_MS);
        sched_yield();
    }
}

// finish ends one of the thread's operations in one of the ways that there are.
static void finish(racer *r, op *o) {
    if (o->req) {
        if (draw(r, 3) == 0)
            (void)!wh_request_wait(o->req, (int)draw(r, 2));
        if (!o->timed || draw(r, 2))
            wh_request_cancel(o->req);
        if (o->told && draw(r, 3) == 0) {
            wh_request_free(o->req);
        } else {
            wh_status st = wh_request_wait(o->req, HANG_MS);
            CHECK(st != WH_PENDING && st != WH_EBUSY && wh_request_status(o->req) == st);
            forget_result(o);
            wh_request_free(o->req);
        }
    }
    await_callback(o);
    o->used = false;
}

static void begin(racer *r, op *o) {
    int side = (int)draw(r, 2);
    end *e = &ends[side][draw(r, PAIRS)];
    wh_endpoint *ep = enter(e);
    if (!ep)
        return;
    atomic_store(&o->ended, 0);
    o->told = draw(r, 3) != 0;
    o->req = NULL;
    bool asks = !o->told || draw(r, 3) != 0;
    // Without a handle nothing but time ends it.
    wh_op_opts opts = {.size = sizeof(opts), .done = o->told ? on_done : NULL, .arg = o};
    o->timed = !asks || draw(r, 2);
    opts.timeout_ms = o->timed ? (uint32_t)(1 + draw(r, 5)) : 0;
    wh_status st = start(r, o, ep, side, &opts, asks ? &o->req : NULL);
    leave(e);
    CHECK(st == WH_PENDING || st < 0);
    CHECK(st != WH_EINVAL && st != WH_ETHREAD);
    if (st == WH_PENDING) {
        o->used = true;
        r->accepted++;
    }
}

static void give_up_one(racer *r) {
    end *e = &ends[draw(r, 2)][draw(r, PAIRS)];
    wh_endpoint *ep = take_over(e);
    if (!ep)
        return;
    if (draw(r, 2))
        wh_endpoint_abort(ep);
    else
        (void)!wh_endpoint_close(ep, WH_OP_OPTS(.timeout_ms = 20), NULL);
}

// ask makes the calls that enter a worker with a progress thread.
static void ask(racer *r) {
    end *e = &ends[draw(r, 2)][draw(r, PAIRS)];
    wh_endpoint *ep = enter(e);
    if (!ep)
        return;
    char text[200];
    wh_counters counters = {.size = sizeof(counters)};
    (void)!wh_endpoint_status(ep);
    (void)!wh_endpoint_lanes(ep, text, sizeof(text));
    (void)!wh_endpoint_counters(ep, &counters);
    (void)!wh_tag_probe(ep, 0, 0, NULL);
    leave(e);
}

static void block(racer *r) {
    end *e = &ends[draw(r, 2)][draw(r, PAIRS)];
    wh_endpoint *ep = enter(e);
    if (!ep)
        return;
    char word[8] = {0};
    int ms = (int)draw(r, 3);
    switch (draw(r, 3)) {
    case 0: (void)!wh_tag_recv_wait(ep, word, 8, 7, WH_TAG_MASK_ALL, ms, NULL); break;
    case 1: (void)!wh_tag_send_wait(ep, word, 8, 0, ms); break;
    default: (void)!wh_endpoint_flush_wait(ep, ms);
    }
    leave(e);
}

static void *race(void *arg) {
    racer *r = arg;
    for (unsigned i = 0; i < ops_per_thread; i++) {
        op *o = &r->ops[draw(r, HELD)];
        if (o->used)
            finish(r, o);
        else
            begin(r, o);
        if (draw(r, 60) == 0)
            give_up_one(r);
        if (draw(r, 20) == 0)
            ask(r);
        if (draw(r, 20) == 0)
            block(r);
    }
    for (int i = 0; i < HELD; i++)
        if (r->ops[i].used)
            finish(r, &r->ops[i]);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

// ---- workers and who progresses them

static wh_status on_am(wh_am *am, void *arg) {
    (void)am, (void)arg;
    return WH_OK;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    unsigned n = atomic_load(&accepted_count);
    CHECK(n < PAIRS);
    ends[0][n].ep = ep;
    atomic_store(&accepted_count, n + 1);
}

static void progress_both(void) {
    if (how == PROGRESS_THREADS) {
        sched_yield();
        return;
    }
    for (int i = 0; i < 2; i++)
        (void)wh_worker_progress(sides[i].worker);
}

static wh_listener *open_round(const char *lane, unsigned pairs) {
    wh_listener *listener = NULL;
    atomic_store(&accepted_count, 0);
    for (int i = 0; i < 2; i++) {
        proc_open(&sides[i], lane, worker_modes[how], NULL);
        CHECK_STATUS(wh_worker_set_am(sides[i].worker, 1, on_am, NULL), WH_OK);
    }
    CHECK_STATUS(wh_listener_open(sides[0].worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                 WH_OK);
    char address[64];
    CHECK_STATUS(wh_listener_address(listener, address, sizeof(address)), WH_OK);
    for (unsigned i = 0; i < pairs; i++) {
        atomic_store(&ends[0][i].users, 0);
        atomic_store(&ends[1][i].users, 0);
        CHECK_STATUS(wh_endpoint_connect(sides[1].worker, address, NULL, &ends[1][i].ep), WH_OK);
        uint64_t begun = proc_now_ms();
        while (wh_endpoint_status(ends[1][i].ep) == WH_PENDING ||
               atomic_load(&accepted_count) <= i) {
            CHECK(proc_now_ms() - begun < HANG_MS);
            progress_both();
        }
    }
    return listener;
}

static void *own(void *arg) {
    proc_worker *w = arg;
    CHECK_STATUS(wh_worker_adopt(w->worker), WH_OK);
    while (!atomic_load(&stop_owners))
        (void)!wh_worker_wait(w->worker, 1000);
    if (under_fire && w == &sides[0])
        wh_worker_destroy(w->worker);
    return NULL;
}

// attend lets the workers go on until the threads are through, or, under fire, are half through.
static void attend(void) {
    pthread_t owners[2];
    bool owned = how == OWNERS_WAIT || how == OWNERS_SPIN;
    uint64_t until = proc_now_ms() + 30;
    atomic_store(&stop_owners, false);
    for (int i = 0; owned && i < 2; i++)
        CHECK(pthread_create(&owners[i], NULL, own, &sides[i]) == 0);
    while (atomic_load(&running) && !(under_fire && proc_now_ms() > until)) {
        if (owned)
            usleep(1000);
        else
            progress_both();
    }
    atomic_store(&stop_owners, true);
    for (int i = 0; owned && i < 2; i++) {
        wh_worker_wake(sides[i].worker);
        pthread_join(owners[i], NULL);
        if (!under_fire || i == 1)
            CHECK_STATUS(wh_worker_adopt(sides[i].worker), WH_OK);
    }
    if (under_fire && !owned)
        wh_worker_destroy(sides[0].worker);
    while (atomic_load(&running)) {
        if (how == PROGRESS_THREADS)
            usleep(1000);
        else
            (void)wh_worker_progress(sides[1].worker);
    }
}

static void check_quiet(int side) {
    wh_counters counters = {.size = sizeof(counters), .pending = 1};
    for (uint64_t begun = proc_now_ms(); counters.pending; progress_both()) {
        CHECK_STATUS(wh_worker_counters(sides[side].worker, &counters), WH_OK);
        CHECK(proc_now_ms() - begun < HANG_MS);
    }
}

static void close_round(wh_listener *listener) {
    if (!under_fire)
        for (int i = 0; i < 2; i++)
            check_quiet(i);
    wh_listener_close(listener);
    for (int i = 0; i < 2 * PAIRS; i++) {
        wh_endpoint *ep = take_over(&ends[i & 1][i / 2]);
        if (ep)
            wh_endpoint_abort(ep);
    }
    if (!under_fire)
        wh_worker_destroy(sides[0].worker);
    wh_worker_destroy(sides[1].worker);
    for (int i = 0; i < 2; i++)
        wh_context_destroy(sides[i].ctx);
}

static void run_round(uint64_t seed, const char *lane) {
    uint64_t state = seed;
    how = (mode)(seed % MODES);
    under_fire = seed / MODES % 3 == 2;
    proc_context("round %llu over %s: %s%s; repeat with WHERRY_SEED=%llu", (unsigned long long)seed,
                 lane, mode_names[how], under_fire ? ", a worker is destroyed" : "",
                 (unsigned long long)seed);
    wh_listener *listener = open_round(lane, PAIRS);
    atomic_store(&running, THREADS);
    unsigned accepted = 0;
    for (int i = 0; i < THREADS; i++) {
        racers[i].random = proc_random(&state);
        racers[i].accepted = 0;
        CHECK(pthread_create(&racers[i].thread, NULL, race, &racers[i]) == 0);
    }
    attend();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(racers[i].thread, NULL);
        accepted += racers[i].accepted;
    }
    CHECK(accepted > THREADS);
    close_round(listener);
}

// ---- the last handle of a worker that is being destroyed

static void *give_up_last(void *arg) {
    const uint64_t *seed = arg;
    wh_endpoint *ep = take_over(&ends[0][0]);
    atomic_store(&running, 0);
    if (*seed & 1)
        wh_endpoint_abort(ep);
    else
        (void)!wh_endpoint_close(ep, NULL, NULL);
    return NULL;
}

// run_last lets a thread give the last handle up while the worker's memory waits for nothing else.
static void run_last(uint64_t seed, const char *lane) {
    how = seed & 2 ? PROGRESS_THREADS : BY_HAND;
    proc_context("the last handle, round %llu over %s", (unsigned long long)seed, lane);
    wh_listener_close(open_round(lane, 1));
    atomic_store(&running, 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, give_up_last, &seed) == 0);
    while (atomic_load(&running))
        sched_yield();
    wh_worker_destroy(sides[0].worker);
    pthread_join(thread, NULL);
    wh_endpoint_abort(ends[1][0].ep);
    wh_worker_destroy(sides[1].worker);
    for (int i = 0; i < 2; i++)
        wh_context_destroy(sides[i].ctx);
}

// drop_line is the log's sink: messages without a receiver are no news here.
static void drop_line(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text, (void)arg;
}

int main(int argc, char **argv) {
    unsigned rounds = 12;
    uint64_t first = 0;
    const char *lane = "shm";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--ops") == 0)
            ops_per_thread = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0)
            first = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--lane") == 0)
            lane = argv[i + 1];
    }
    bool once;
    first = proc_seed(first, &once);
    proc_alarm(rounds < 100 ? 280 : 7000);
    wh_log_set_sink(drop_line, NULL);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < HELD; k++) {
            racers[i].ops[k].buf = calloc(1, LARGE);
            CHECK(racers[i].ops[k].buf);
        }
    for (unsigned i = 0; i < (once ? 1 : rounds); i++) {
        run_round(first + i, lane);
        for (unsigned k = 0; k < 4; k++)
            run_last(4 * first + k, lane);
    }
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < HELD; k++)
            free(racers[i].ops[k].buf);
    printf("races over %s: %u rounds of %d threads\n", lane, once ? 1 : rounds, THREADS);
    return 0;
}
