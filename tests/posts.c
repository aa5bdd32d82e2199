// SPDX-License-Identifier: BSD-3-Clause
//
// Hand-overs from several threads to one owner, which spins, sleeps, does both, or is the worker's own
// thread: each node runs once and in its thread's order, and none is left behind by an owner that goes
// to sleep in the wrong moment.
//
//   posts [--count N] [--threads N] [--nodes N] [--mode spin|wait|adaptive|thread]
//
// Each thread has some nodes, which it posts again as soon as they have run.  With one only, and one
// thread, a wake-up that is missed is not made up for by the next post; a pause of varying length
// then has the post meet each step of an owner that goes to sleep.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/wherry.h>

enum { THREADS_MAX = 64, NODES_MAX = 4096, PATIENCE_S = 60, PAUSE_MAX = 2048 };

typedef struct poster poster;

typedef struct node {
    wh_post post;
    poster *owner;
    uint64_t number;
    _Atomic bool posted;
} node;

struct poster {
    pthread_t thread;
    wh_worker *worker;
    uint64_t count;  // to post
    uint64_t next;   // that comes next at the owner, who alone has it
    uint64_t wrong;  // that came out of turn
    node nodes[NODES_MAX];
};

static poster posters[THREADS_MAX];
static _Atomic uint64_t total;
static unsigned node_count = 64;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_node(wh_post *post) {
    node *n = (node *)post;
    n->owner->wrong += n->number != n->owner->next;
    n->owner->next = n->number + 1;
    atomic_fetch_add_explicit(&total, 1, memory_order_relaxed);
    atomic_store_explicit(&n->posted, false, memory_order_release);
}

static void *post_all(void *arg) {
    poster *p = arg;
    double end = seconds() + PATIENCE_S;
    for (uint64_t i = 0; i < p->count; i++) {
        node *n = &p->nodes[i % node_count];
        for (unsigned looks = 1; atomic_load_explicit(&n->posted, memory_order_acquire); looks++) {
            if (looks % 4096 == 0)
                sched_yield();
            if (looks % 65536 == 0 && seconds() > end) {
                fprintf(stderr, "posts: node %llu was not run\n", (unsigned long long)n->number);
                exit(1);
            }
        }
        if (i % (1 << 16) == 0)
            end = seconds() + PATIENCE_S;
        for (uint64_t pause = node_count == 1 ? i * 37 % PAUSE_MAX : 0; pause; pause--)
            __asm__ volatile("");
        n->number = i;
        atomic_store_explicit(&n->posted, true, memory_order_relaxed);
        wh_worker_post(p->worker, &n->post);
    }
    return NULL;
}

static bool own(wh_worker *worker, const char *mode, uint64_t count) {
    while (atomic_load_explicit(&total, memory_order_relaxed) < count) {
        if (strcmp(mode, "thread") == 0) {
            struct timespec ms = {.tv_nsec = 1000000};
            nanosleep(&ms, NULL);  // the posters say when it takes too long
        } else if (wh_worker_wait(worker, PATIENCE_S * 1000) != WH_OK) {
            fprintf(stderr, "posts: the owner sleeps after %llu nodes\n",
                    (unsigned long long)atomic_load(&total));
            return false;
        }
    }
    return true;
}

static wh_worker *make_worker(wh_context *ctx, const char *mode) {
    wh_worker_opts opts = {.size = sizeof(opts)};
    wh_worker *worker = NULL;
    if (strcmp(mode, "spin") == 0)
        opts.mode = WH_PROGRESS_SPIN;
    else if (strcmp(mode, "wait") == 0)
        opts.mode = WH_PROGRESS_WAIT;
    else if (strcmp(mode, "thread") == 0)
        opts.progress_thread = 1;
    else
        opts.mode = WH_PROGRESS_ADAPTIVE;
    return wh_worker_create(ctx, &opts, &worker) == WH_OK ? worker : NULL;
}

static bool run_mode(const char *mode, unsigned threads, uint64_t count) {
    wh_context *ctx = NULL;
    wh_worker *worker = wh_context_create(NULL, &ctx) == WH_OK ? make_worker(ctx, mode) : NULL;
    if (!worker) {
        fprintf(stderr, "posts: no worker\n");
        return false;
    }
    uint64_t whole = count / threads * threads;
    double start = seconds();
    total = 0;
    for (unsigned t = 0; t < threads; t++) {
        poster *p = &posters[t];
        *p = (poster){.worker = worker, .count = count / threads};
        for (int i = 0; i < NODES_MAX; i++)
            p->nodes[i] = (node){.post.fn = on_node, .owner = p};
        if (pthread_create(&p->thread, NULL, post_all, p) != 0)
            abort();
    }
    bool good = own(worker, mode, whole);
    if (!good)
        return false;  // its threads hang
    for (unsigned t = 0; t < threads; t++)
        pthread_join(posters[t].thread, NULL);
    double s = seconds() - start;
    wh_counters counters = {.size = sizeof(counters)};
    good = wh_worker_counters(worker, &counters) == WH_OK;
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    for (unsigned t = 0; t < threads; t++)
        good = good && !posters[t].wrong && posters[t].next == count / threads;
    good = good && total == whole;
    printf("posts: %s, %u threads: %llu nodes in %.2f s (%.3f us each), %llu sleeps: %s\n", mode,
           threads, (unsigned long long)whole, s, s * 1e6 / (double)whole,
           (unsigned long long)counters.sleeps, good ? "good" : "LOST OR OUT OF ORDER");
    return good;
}

int main(int argc, char **argv) {
    static const char *const modes[] = {"spin", "wait", "adaptive", "thread"};
    uint64_t count = 400000;
    unsigned threads = 4;
    const char *only = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--nodes") == 0)
            node_count = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--mode") == 0)
            only = argv[i + 1];
    }
    if (!threads || threads > THREADS_MAX || count < threads || !node_count ||
        node_count > NODES_MAX) {
        fprintf(stderr, "posts: --threads is 1 to %d, --nodes 1 to %d, --count no less\n",
                THREADS_MAX, NODES_MAX);
        return 2;
    }
    bool good = true;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (!only || strcmp(only, modes[i]) == 0)
            good = run_mode(modes[i], threads, count) && good;
    return good ? 0 : 1;
}
