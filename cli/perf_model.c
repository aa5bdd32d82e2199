// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry perf --model`: what the runtime's messages cost, in a job of two processes on this host.
//
// The command is the launcher of the job, whose processes are this program again with --child.
#include "cli/perf.h"

#include "bench/model.h"
#include "bench/report.h"
#include "cli/cli.h"
#include "cli/run/launcher.h"
#include "cli/text.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND "perf"

enum { KILL_AFTER_MS = 2000, WORDS_MAX = 24, PATIENCE_S = 60 };

static bool check(const perf_model_words *words, bench_model_plan *plan, bench_error *error) {
    plan->chares = 1000000;
    if (words->count && !cli_parse_uint(words->count, 1, INT_MAX, &plan->chares))
        return bench_fail(error, "--count is a number from 1 to %d, not '%s'", INT_MAX,
                          words->count);
    if (!bench_models_parse(words->models, plan->models, error))
        return false;
    bool arguments = plan->models[BENCH_MODEL_MESSAGE] || plan->models[BENCH_MODEL_ENTRY] ||
                     plan->models[BENCH_MODEL_CHARES];
    return plan->memory.kind == WH_MEM_HOST || !arguments ||
           bench_fail(error, "--memory %s goes with --model engine, buffer, channel",
                      plan->memory.name);
}

static size_t add(char **argv, size_t count, const char *name, const char *value) {
    if (value) {
        argv[count++] = (char *)name;
        argv[count++] = (char *)value;
    }
    return count;
}

// limit_ms is when a job counts as hung: after twenty times its due, as other programs do.
static int64_t limit_ms(const bench_model_plan *plan) {
    double cells = (double)plan->size_count * BENCH_MODEL_COUNT * 2;
    double chares_s = plan->models[BENCH_MODEL_CHARES] ? (double)plan->chares / 1e6 : 0;
    return (int64_t)(1000 * (PATIENCE_S + 20 * (cells * plan->seconds + chares_s * plan->reps)));
}

int perf_model_launch(const perf_model_words *words, const bench_plan *from) {
    bench_model_plan plan = {.size_count = from->size_count,
                             .reps = from->reps,
                             .seconds = from->seconds,
                             .memory = from->memory};
    bench_error error = {""};
    char path[PATH_MAX], host[256] = "";
    char *argv[WORDS_MAX], *env[] = {NULL};
    if (!check(words, &plan, &error))
        return cli_complain(COMMAND, CLI_USAGE, "%s", error.text);
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0 || gethostname(host, sizeof host - 1) != 0)
        return cli_complain(COMMAND, CLI_FAILED, "cannot find this program");
    path[size] = '\0';
    size_t count = add(argv, 0, path, COMMAND);
    count = add(argv, count, "--model", words->models);
    count = add(argv, count, "--sizes", words->sizes);
    count = add(argv, count, "--lane", words->lane);
    count = add(argv, count, "--mode", words->mode);
    count = add(argv, count, "--reps", words->reps);
    count = add(argv, count, "--time", words->seconds);
    count = add(argv, count, "--pin", words->pin);
    count = add(argv, count, "--memory", words->memory);
    count = add(argv, count, "--count", words->count);
    if (words->json)
        argv[count++] = (char *)"--json";
    argv[count++] = (char *)"--child";
    argv[count] = NULL;
    const char *const hosts[] = {host};
    const run_options job = {.size = 2,
                             .hosts = hosts,
                             .per_host = 2,
                             .bind = RUN_BIND_NONE,
                             .env = env,
                             .timeout_ms = limit_ms(&plan),
                             .kill_after_ms = KILL_AFTER_MS,
                             .argv = argv};
    return launcher_run(&job);
}

static void report(const bench_model_result *result, const int cores[2],
                   const bench_machine *machine, bool json) {
    if (json) {
        bench_report_json(stdout, result->rows, result->count);
    } else {
        bench_report_machine(stdout, machine, cores);
        bench_report_table(stdout, result->rows, result->count);
    }
    fflush(stdout);
    bench_report_load(stderr, &result->before, &result->after);
}

int perf_model_run(const perf_model_words *words, const bench_plan *from, const int cores[2]) {
    static const uint64_t sizes[] = {8, 1024, 65536, 1048576};
    bench_model_plan plan = {.sizes = words->sizes ? from->sizes : sizes,
                             .size_count =
                                 words->sizes ? from->size_count : sizeof sizes / sizeof *sizes,
                             .reps = from->reps,
                             .seconds = from->seconds,
                             .memory = from->memory,
                             .cores = {cores[0], cores[1]},
                             .mode = from->mode};
    bench_model_result result;
    bench_machine machine;
    bench_error error = {""};
    if (!check(words, &plan, &error))
        return cli_complain(COMMAND, CLI_USAGE, "%s", error.text);
    bench_machine_read(&machine);  // before this thread has one core only
    setenv("WHERRY_PROGRESS", plan.mode, 1);
    if (words->lane)
        setenv("WHERRY_LANES", words->lane, 1);
    bool good = bench_model_measure(&plan, &result, &error);
    if (good && result.lead)
        report(&result, cores, &machine, words->json);
    free(result.rows);
    if (good || !*error.text)  // of what has failed elsewhere it is said there
        return good ? CLI_OK : CLI_FAILED;
    return cli_complain(COMMAND, CLI_FAILED, "%s", error.text);
}
