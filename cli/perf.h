// SPDX-License-Identifier: BSD-3-Clause
//
// What the parts of `wherry perf` share.  The asking end is in perf.c, the other in perf_serve.c, what needs no other
// process in perf_post.c, what is measured by a job of two in perf_model.c, and the words of the options in perf_words.c.
#ifndef CLI_PERF_H
#define CLI_PERF_H

#include "bench/measure.h"
#include "bench/raw.h"

#include <stdbool.h>

typedef struct perf_serve {
    const char *address;               // where to listen
    const char *secret, *secret_file;  // that the other end must know; NULL: as configured
    const char *lane, *mode;
    const char *bare_host;  // where bare sockets listen, NULL: at all addresses
    bench_bells bells;      // fd[0] -1: none
    int core;               // -1: anywhere
    bool once;              // end after the first session
    bool quiet;             // print nothing but the port
} perf_serve;

// perf_serve_run listens and serves one session after the other.  Returns an exit code.
int perf_serve_run(const perf_serve *serve);

// perf_post_run measures wh_worker_post between two threads, on these cores, with the plan's metrics and times; `mode` is
// that of the owners, NULL: one after the other.  Returns an exit code.
int perf_post_run(const bench_plan *plan, const int cores[2], const char *mode, bool json);

// What `wherry perf --model` was given; NULL: not given.
typedef struct perf_model_words {
    const char *models, *sizes, *lane, *mode, *reps, *seconds, *pin, *count, *memory;
    bool json;
} perf_model_words;

// perf_model_launch starts two processes of this program as a job, which perf_model_run is: it measures, with `from`'s sizes,
// times and mode, on these cores, and the one of rank 0 prints.  Both return an exit code.
int perf_model_launch(const perf_model_words *words, const bench_plan *from);
int perf_model_run(const perf_model_words *words, const bench_plan *from, const int cores[2]);

// The words of options, NULL where one was not given; false with a sentence when they are wrong.
bool perf_parse_sizes(const char *text, bench_plan *plan, bench_error *error);
bool perf_parse_metrics(const char *text, bench_plan *plan, bench_error *error);
bool perf_parse_tests(char **words, int count, bench_plan *plan, bench_error *error);
bool perf_parse_pin(const char *text, int cores[2], bench_error *error);
bool perf_parse_layouts(const char *text, bench_plan *plan, bench_error *error);
enum { PERF_MEMORIES_MAX = 8 };
typedef struct perf_memories {  // one after the other
    bench_memory all[PERF_MEMORIES_MAX];
    size_t count;
} perf_memories;
bool perf_parse_memory(const char *text, perf_memories *list, bench_error *error);

// perf_check_buffers says whether tests, layouts, memory and comparisons go together.
bool perf_check_buffers(const bench_plan *plan, const perf_memories *memories, bool raw, bool peers,
                        bench_error *error);

#endif
