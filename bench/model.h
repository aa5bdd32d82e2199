// SPDX-License-Identifier: BSD-3-Clause
//
// What the runtime costs (wherry/rt.h): messages between PEs, entries of chares, channels; beside the engine's own
// messages between the same two processes, in turns with them.
//
// Both processes of a job call bench_model_measure; that of rank 0 gets the figures.
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include "bench/machine.h"
#include "bench/measure.h"

// X(symbol, name): what the option says.
#define BENCH_MODELS(X)                                                                            \
    X(ENGINE, "engine")   /* the yardsticks: active and tagged messages between two workers */     \
    X(MESSAGE, "message") /* wh_pe_send */                                                         \
    X(ENTRY, "entry")     /* wh_chare_send with arguments, between processes and within one */     \
    X(BUFFER, "buffer")   /* wh_chare_send with a buffer beside the arguments */                   \
    X(CHANNEL, "channel") /* wh_channel_send */                                                    \
    X(CHARES, "chares")   /* many of them: made, called, and their memory */

typedef enum bench_model {
#define BENCH_MODEL_ENUM(symbol, name) BENCH_MODEL_##symbol,
    BENCH_MODELS(BENCH_MODEL_ENUM)
#undef BENCH_MODEL_ENUM
        BENCH_MODEL_COUNT
} bench_model;

typedef struct bench_model_plan {
    bool models[BENCH_MODEL_COUNT];
    const uint64_t *sizes;
    size_t size_count;
    unsigned reps;
    double seconds;       // for all repetitions of a size and model together
    bench_memory memory;  // of buffers and channels, and of the engine's messages
    uint64_t chares;      // how many, up to INT32_MAX
    int cores[2];         // of the two processes; -1: anywhere
    const char *mode;     // for the rows
} bench_model_plan;

typedef struct bench_model_result {  // of rank 0; empty elsewhere
    bool lead;                       // this is rank 0
    bench_row *rows;                 // the caller frees them
    size_t count;
    char lane[32];  // of the rows
    bench_load before, after;
} bench_model_result;

const char *bench_model_name(int model);

// bench_models_parse reads a list of names with commas between; false with a sentence.
bool bench_models_parse(const char *list, bool models[BENCH_MODEL_COUNT], bench_error *error);

// bench_model_measure joins the job of two processes, measures, and leaves it.  False with a sentence when it cannot, empty
// where the other process is the one that says why.
bool bench_model_measure(const bench_model_plan *plan, bench_model_result *result,
                         bench_error *error);

#endif
