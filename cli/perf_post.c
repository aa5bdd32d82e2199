// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry perf post`: hand-overs between two threads of this process.
#include "cli/perf.h"

#include "bench/machine.h"
#include "bench/post.h"
#include "bench/report.h"
#include "cli/cli.h"

#define COMMAND "perf"

static bool choose(const perf_post *post, bench_post_plan *plan, bench_error *error) {
    static const char *const all[] = {"spin", "adaptive", "wait"};
    if (!post->metrics[BENCH_LATENCY] && !post->metrics[BENCH_RATE])
        return bench_fail(error, "post has a latency and a rate");
    plan->modes[0] = post->mode;
    for (int i = 0; i < 3 && !post->mode; i++)
        plan->modes[i] = all[i];
    for (int i = 0; i < BENCH_METRIC_COUNT; i++)
        plan->metrics[i] = post->metrics[i];
    plan->reps = post->reps;
    plan->seconds = post->seconds;
    plan->cores[0] = post->cores[0];
    plan->cores[1] = post->cores[1];
    return bench_pin(plan->cores[0]) || bench_fail(error, "cannot run on core %d", plan->cores[0]);
}

int perf_post_run(const perf_post *post) {
    bench_post_plan plan = {.reps = 0};
    bench_row rows[BENCH_POST_ROWS_MAX];
    bench_machine machine;
    bench_error error = {""};
    bench_load before, after;
    size_t count = 0;
    bench_machine_read(&machine);  // before this thread has one core only
    if (!choose(post, &plan, &error))
        return cli_complain(COMMAND, CLI_USAGE, "%s", error.text);
    bench_load_read(&before, 0);
    bool good = bench_post_measure(&plan, rows, &count, &error);
    bench_load_read(&after, 0);
    if (post->json) {
        bench_report_json(stdout, rows, count);
    } else if (count) {
        bench_report_machine(stdout, &machine, plan.cores);
        bench_report_table(stdout, rows, count);
    }
    fflush(stdout);
    bench_report_load(stderr, &before, &after);
    return good ? CLI_OK : cli_complain(COMMAND, CLI_FAILED, "%s", error.text);
}
