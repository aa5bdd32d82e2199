// SPDX-License-Identifier: BSD-3-Clause
//
// See post.h.
//
// Nodes come back by a count that the owner publishes now and then: what is measured is their way
// there.
#include "bench/post.h"

#include "bench/clock.h"
#include "bench/machine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 4096, PUBLISH = 256, COUNT_MIN = 64, PATIENCE_S = 60 };

typedef struct pair pair;

typedef struct slot {
    _Alignas(64) wh_post post;
    pair *pair;
} slot;

struct pair {
    slot nodes[NODES];
    wh_worker *mine, *theirs;
    bool spin;
    int core;
    bool returned;  // the node is back
    uint64_t ran;   // nodes, the other thread's
    _Alignas(64) _Atomic uint64_t published;
    _Alignas(64) _Atomic bool stop;
    pthread_t thread;
    bench_hist hist;
};

static void progress(pair *p, wh_worker *worker) {
    if (p->spin)
        (void)wh_worker_progress(worker);
    else if (wh_worker_wait(worker, 1000) != WH_OK)
        return;  // the caller looks at the time
}

static void *own(void *arg) {
    pair *p = arg;
    (void)bench_pin(p->core);
    if (wh_worker_adopt(p->theirs) != WH_OK)
        abort();
    while (!atomic_load_explicit(&p->stop, memory_order_relaxed))
        progress(p, p->theirs);
    return NULL;
}

// ---- rate

static void on_one_of_many(wh_post *post) {
    pair *p = ((slot *)post)->pair;
    if (++p->ran % PUBLISH == 0)
        atomic_store_explicit(&p->published, p->ran, memory_order_release);
}

static void on_last(wh_post *post) {
    pair *p = ((slot *)post)->pair;
    atomic_store_explicit(&p->published, ++p->ran, memory_order_release);
}

static bool await(pair *p, uint64_t ran) {
    uint64_t end = bench_ns() + PATIENCE_S * BENCH_NS_PER_S;
    for (unsigned looks = 1; atomic_load_explicit(&p->published, memory_order_acquire) < ran;
         looks++) {
        bench_relax();
        if (looks % (1 << 16) == 0 && bench_ns() > end)
            return false;
    }
    return true;
}

static bool run_rate(pair *p, uint64_t count, double *seconds) {
    uint64_t before = atomic_load(&p->published), start = bench_ns();
    for (uint64_t i = 0; i < count; i++) {
        if (i >= NODES && i % PUBLISH == 0 && !await(p, before + i + PUBLISH - NODES))
            return false;
        slot *node = &p->nodes[i % NODES];
        node->post.fn = i + 1 < count ? on_one_of_many : on_last;
        wh_worker_post(p->theirs, &node->post);
    }
    if (!await(p, before + count))
        return false;
    *seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    return true;
}

// ---- latency

static void on_back(wh_post *post) {
    ((slot *)post)->pair->returned = true;
}

static void on_there(wh_post *post) {
    post->fn = on_back;
    wh_worker_post(((slot *)post)->pair->mine, post);
}

static bool run_latency(pair *p, uint64_t count, double *seconds) {
    uint64_t start = bench_ns(), end = start + PATIENCE_S * BENCH_NS_PER_S;
    uint64_t before = bench_ticks();
    bench_hist_clear(&p->hist);
    for (uint64_t i = 0; i < count; i++) {
        slot *node = &p->nodes[0];
        p->returned = false;
        node->post.fn = on_there;
        wh_worker_post(p->theirs, &node->post);
        for (unsigned looks = 1; !p->returned; looks++) {
            progress(p, p->mine);
            if (looks % (1 << 16) == 0 && bench_ns() > end)
                return false;
        }
        uint64_t now = bench_ticks();
        bench_hist_add(&p->hist, now - before);
        before = now;
    }
    *seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    return true;
}

// ---- rows

static bool measure(pair *p, const bench_post_plan *plan, bench_row *row) {
    bool (*run)(pair *, uint64_t, double *) = row->metric == BENCH_LATENCY ? run_latency : run_rate;
    double target = plan->seconds / plan->reps, seconds = 0, rates[BENCH_REPS_MAX];
    static bench_stats runs[BENCH_REPS_MAX];
    uint64_t count = COUNT_MIN;
    for (;;) {  // which also warms up
        if (!run(p, count, &seconds))
            return false;
        if (seconds >= target / 2)
            break;
        double fill = seconds > 0 ? (double)count * target / seconds : 0;
        count = fill < 2 * (double)count || fill > 10 * (double)count ? count * 4 : (uint64_t)fill;
    }
    for (unsigned i = 0; i < plan->reps; i++) {
        if (!run(p, count, &seconds))
            return false;
        runs[i] = bench_hist_stats(&p->hist, bench_ns_per_tick() / 2000);
        rates[i] = (double)count / seconds / 1e6;
    }
    row->stats = row->metric == BENCH_LATENCY ? bench_stats_of_runs(runs, plan->reps)
                                              : bench_stats_of_rates(rates, plan->reps);
    return true;
}

static bool open_pair(pair *p, wh_context *ctx, const bench_post_plan *plan, const char *mode) {
    wh_progress_mode how = strcmp(mode, "spin") == 0   ? WH_PROGRESS_SPIN
                           : strcmp(mode, "wait") == 0 ? WH_PROGRESS_WAIT
                                                       : WH_PROGRESS_ADAPTIVE;
    p->spin = how == WH_PROGRESS_SPIN;
    p->core = plan->cores[1];
    p->ran = 0;
    atomic_store(&p->published, 0);
    atomic_store(&p->stop, false);
    p->mine = p->theirs = NULL;
    for (int i = 0; i < NODES; i++)
        p->nodes[i].pair = p;
    return wh_worker_create(ctx, WH_WORKER_OPTS(.mode = how), &p->mine) == WH_OK &&
           wh_worker_create(ctx, WH_WORKER_OPTS(.mode = how), &p->theirs) == WH_OK &&
           pthread_create(&p->thread, NULL, own, p) == 0;
}

static void close_pair(pair *p, bool started) {
    if (started) {
        atomic_store(&p->stop, true);
        wh_worker_wake(p->theirs);
        pthread_join(p->thread, NULL);
        if (wh_worker_adopt(p->theirs) != WH_OK)
            abort();
    }
    wh_worker_destroy(p->theirs);
    wh_worker_destroy(p->mine);
}

static bool measure_mode(pair *p, wh_context *ctx, const bench_post_plan *plan, const char *mode,
                         bench_row *rows, size_t *count, bench_error *error) {
    static const bench_metric metrics[] = {BENCH_LATENCY, BENCH_RATE};
    bool started = open_pair(p, ctx, plan, mode);
    bool good = started || bench_fail(error, "cannot make two workers and a thread");
    for (int i = 0; good && i < 2; i++) {
        if (!plan->metrics[metrics[i]])
            continue;
        bench_row *row = &rows[*count];
        *row = (bench_row){.test = "post", .metric = metrics[i], .lane = "thread", .mode = mode};
        good = measure(p, plan, row) || bench_fail(error, "a node was not run in %d s", PATIENCE_S);
        *count += good;
    }
    close_pair(p, started);
    return good;
}

bool bench_post_measure(const bench_post_plan *plan, bench_row rows[BENCH_POST_ROWS_MAX],
                        size_t *count, bench_error *error) {
    *count = 0;
    wh_context *ctx = NULL;
    pair *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    bool good = p && wh_context_create(NULL, &ctx) == WH_OK;
    if (!good)
        bench_fail(error, "no context: out of memory, or a setting is wrong");
    else
        memset(p, 0, sizeof *p);
    for (int i = 0; good && i < 3 && plan->modes[i]; i++)
        good = measure_mode(p, ctx, plan, plan->modes[i], rows, count, error);
    if (ctx)
        wh_context_destroy(ctx);
    free(p);
    return good;
}
