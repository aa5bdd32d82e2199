// SPDX-License-Identifier: BSD-3-Clause
//
// bench-types: times every layout with every engine, alternating within one process, and writes one
// JSON object per layout.  run.py prepares the engines, calls it, and draws tables from its output.
//
//   bench-types [--only TEXT] [--rounds N] [--threads N] [--cold] [--segments] [--unpack] [--quick]
//               [PLUGIN.so ...]
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <wherry/pack.h>

#include "bench/types/engine_wherry.h"
#include "bench/types/layouts.h"
#include "bench/types/limit.h"

enum { ENGINES = 8, ROUNDS_MAX = 101, COLUMNS = 24, PAGE = 4096, FIRST_SEGMENT = 3333 };

typedef struct options {
    const char *only;
    int rounds;
    unsigned threads;  // helpers beside the one that measures
    bool cold, segments, unpack, quick;
} options;

// One thing to time: fn runs it once.
typedef struct column {
    const char *name;
    void (*fn)(const struct column *column);
    const bench_engine *engine;
    bench_type type;
    int64_t count;
    size_t segment;
    int kind;
    struct run *run;
    double samples[ROUNDS_MAX];
} column;

typedef struct run {
    const options *options;
    const bench_layout *layout;
    bench_limit limit;
    char *memory, *packed;
    column columns[COLUMNS];
    int n;
} run;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_engine(const column *c) {
    run *r = c->run;
    if (r->options->unpack)
        c->engine->unpack(r->packed, r->layout->packed, r->memory, c->count, c->type);
    else
        c->engine->pack(r->memory, c->count, c->type, r->packed, r->layout->packed);
}

// In segments that begin at odd places, as a transport asks for them: one message, one cursor.
static void run_segments(const column *c) {
    run *r = c->run;
    size_t size = r->layout->packed, actual, at = 0,
           next = size < FIRST_SEGMENT ? size : FIRST_SEGMENT;
    wh_cursor *cursor;
    if (wh_cursor_create(r->memory, c->count, c->type, 0, &cursor) != WH_OK)
        abort();
    while (at < size) {
        wh_status status = r->options->unpack
                               ? wh_cursor_unpack(cursor, at, r->packed + at, next - at, &actual)
                               : wh_cursor_pack(cursor, at, r->packed + at, next - at, &actual);
        if (status != WH_OK)
            abort();
        at = next;
        next = size - at < c->segment ? size : at + c->segment;
    }
    if (wh_cursor_flush(cursor) != WH_OK)
        abort();
    wh_cursor_destroy(cursor);
}

// The same without a cursor, each call by itself.
static void run_calls(const column *c) {
    run *r = c->run;
    size_t size = r->layout->packed, actual, at = 0,
           next = size < FIRST_SEGMENT ? size : FIRST_SEGMENT;
    while (at < size) {
        wh_status status =
            r->options->unpack
                ? wh_unpack(r->packed + at, next - at, r->memory, c->count, c->type, at, 0, &actual)
                : wh_pack(r->memory, c->count, c->type, at, r->packed + at, next - at, 0, &actual);
        if (status != WH_OK)
            abort();
        at = next;
        next = size - at < c->segment ? size : at + c->segment;
    }
}

static void run_loop(const column *c) {
    c->run->layout->loop(c->run->layout, c->run->memory, c->run->packed);
}

static void run_memcpy(const column *c) {
    memcpy(c->run->packed, c->run->memory, c->run->layout->packed);
}

static void run_limit(const column *c) {
    bench_limit_run(&c->run->limit, c->kind, c->run->memory, c->run->packed);
}

static column *add_column(run *r, const char *name, void (*fn)(const column *)) {
    column *c = &r->columns[r->n++];
    *c = (column){.name = name, .fn = fn, .run = r};
    return c;
}

static void add_engine(run *r, const bench_engine *engine) {
    column *c = add_column(r, engine->name, run_engine);
    c->engine = engine;
    c->type = r->layout->build(r->layout, engine, &c->count);
    engine->commit(c->type);
}

static void flush(const char *at, size_t size) {
#if defined(__x86_64__)
    for (size_t i = 0; i < size; i += 64)
        _mm_clflush(at + i);
    _mm_mfence();
#else
    (void)at;
    (void)size;
#endif
}

// Seconds per call; hot ones are repeated until the clock can tell.
static double time_column(const column *c) {
    run *r = c->run;
    if (r->options->cold) {
        flush(r->memory, r->layout->span);
        flush(r->packed, r->layout->packed);
        double begin = now();
        c->fn(c);
        return now() - begin;
    }
    c->fn(c);
    int64_t times = 1;
    for (;; times *= 2) {
        double begin = now();
        for (int64_t i = 0; i < times; i++)
            c->fn(c);
        double took = now() - begin;
        if (took > 50e-6)
            return took / (double)times;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void check_engines(run *r) {
    // Every engine packs the same bytes as the loop does, or the figures mean nothing.
    char *wanted = malloc(r->layout->packed);
    if (!wanted)
        abort();
    memset(r->packed, 0, r->layout->packed);
    r->layout->loop(r->layout, r->memory, r->packed);
    memcpy(wanted, r->packed, r->layout->packed);
    for (int i = 0; i < r->n; i++) {
        const column *c = &r->columns[i];
        if (!c->engine)
            continue;
        memset(r->packed, 0, r->layout->packed);
        c->engine->pack(r->memory, c->count, c->type, r->packed, r->layout->packed);
        if (memcmp(r->packed, wanted, r->layout->packed) != 0) {
            fprintf(stderr, "bench-types: %s packs %s wrongly\n", c->name, r->layout->name);
            exit(1);
        }
    }
    free(wanted);
}

static void report(const run *r) {
    printf("{\"layout\": \"%s\", \"packed\": %zu, \"amp\": %.3f", r->layout->name,
           r->layout->packed, (double)r->limit.lines * 64 / (double)r->layout->packed);
    for (int i = 0; i < r->n; i++) {
        double *samples = (double *)(uintptr_t)r->columns[i].samples;
        qsort(samples, (size_t)r->options->rounds, sizeof(*samples), ascending);
        double median = samples[r->options->rounds / 2];
        printf(", \"%s\": %.4g", r->columns[i].name, (double)r->layout->packed / median * 1e-9);
    }
    printf("}\n");
    fflush(stdout);
}

static void *take(size_t size) {
    void *at = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    if (!at)
        abort();
    return at;
}

static void measure(const options *o, const bench_layout *layout,
                    const bench_engine *const *engines, int nengines) {
    run *r = calloc(1, sizeof(*r));
    if (!r)
        abort();
    r->options = o;
    r->layout = layout;
    size_t span = layout->span > layout->packed ? layout->span : layout->packed;
    r->memory = take(span + 64);
    r->packed = take(layout->packed + 64);
    for (size_t i = 0; i < span; i++)
        r->memory[i] = (char)(i * 131 + (i >> 9));
    for (int i = 0; i < nengines; i++)
        add_engine(r, engines[i]);
    const column *own = &r->columns[0];
    if (!bench_limit_make(own->type, own->count, r->memory, (int64_t)layout->packed, &r->limit))
        abort();
    check_engines(r);
    // What is smaller than a segment has none.
    static const size_t segments[] = {8192, 65536};
    static const char *const names[] = {"seg8K", "seg64K", "calls8K", "calls64K"};
    for (int i = 0; i < 4 && o->segments && layout->packed > FIRST_SEGMENT; i++) {
        column *c = add_column(r, names[i], i < 2 ? run_segments : run_calls);
        c->segment = segments[i % 2];
        c->type = own->type;
        c->count = own->count;
    }
    if (!o->unpack) {
        add_column(r, "loop", run_loop);
        for (int i = 0; i < BENCH_LIMITS; i++)
            add_column(r, bench_limit_names[i], run_limit)->kind = i;
    }
    add_column(r, "memcpy", run_memcpy);
    for (int round = 0; round < o->rounds; round++)
        for (int i = 0; i < r->n; i++)
            r->columns[i].samples[round] = time_column(&r->columns[i]);
    report(r);
    wh_type_release(own->type);
    bench_limit_free(&r->limit);
    free(r->memory);
    free(r->packed);
    free(r);
}

static const bench_engine *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const bench_engine *engine = library ? dlsym(library, "bench_engine_plugin") : NULL;
    if (!engine || engine->open() != 0) {
        fprintf(stderr, "bench-types: %s cannot be used: %s\n", path,
                library ? "it does not start" : dlerror());
        return NULL;
    }
    return engine;
}

int main(int argc, char **argv) {
    options o = {.only = "", .rounds = 9};
    const bench_engine *engines[ENGINES] = {&bench_engine_wherry};
    int nengines = 1, nlayouts;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            o.only = argv[++i];
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            o.rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            o.threads = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--cold") == 0)
            o.cold = true;
        else if (strcmp(argv[i], "--segments") == 0)
            o.segments = true;
        else if (strcmp(argv[i], "--unpack") == 0)
            o.unpack = true;
        else if (strcmp(argv[i], "--quick") == 0)
            o.quick = true;
        else if (nengines < ENGINES && (engines[nengines] = load(argv[i])))
            nengines++;
    }
    o.rounds = o.rounds < 1 ? 1 : o.rounds > ROUNDS_MAX ? ROUNDS_MAX : o.rounds;
    if (wh_pack_set_threads(o.threads) != WH_OK)
        abort();
    bench_layout *layouts = bench_layouts(&nlayouts);
    for (int i = 0; i < nlayouts; i++)
        if (strstr(layouts[i].name, o.only) && !(o.quick && layouts[i].large))
            measure(&o, &layouts[i], engines, nengines);
    bench_layouts_free(layouts, nlayouts);
    // An MPI that is one of several in a process is not finalized: it may not survive that.
    fflush(stdout);
    _Exit(0);
}
