// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry perf post`: hand-overs between two threads of this process.
#include "cli/perf.h"

#include "bench/machine.h"
#include "bench/post.h"
#include "bench/report.h"
#include "cli/cli.h"

#include <string.h>

#define COMMAND "perf"

int perf_post_run(const bench_plan *plan, const int cores[2], const char *mode, bool json) {
    bench_post_plan post = {.modes = {"spin", "adaptive", "wait"},
                            .reps = plan->reps,
                            .seconds = plan->seconds,
                            .cores = {cores[0], cores[1]}};
    bench_row rows[BENCH_POST_ROWS_MAX];
    bench_machine machine;
    bench_error error = {""};
    bench_load before, after;
    size_t count = 0;
    bench_machine_read(&machine);  // before this thread has one core only
    memcpy(post.metrics, plan->metrics, sizeof post.metrics);
    if (mode)
        post.modes[0] = mode, post.modes[1] = NULL;
    if (!post.metrics[BENCH_LATENCY] && !post.metrics[BENCH_RATE])
        return cli_complain(COMMAND, CLI_USAGE, "post has a latency and a rate");
    if (!bench_pin(cores[0]))
        return cli_complain(COMMAND, CLI_USAGE, "cannot run on core %d", cores[0]);
    bench_load_read(&before, 0);
    bool good = bench_post_measure(&post, rows, &count, &error);
    bench_load_read(&after, 0);
    if (json) {
        bench_report_json(stdout, rows, count);
    } else if (count) {
        bench_report_machine(stdout, &machine, cores);
        bench_report_table(stdout, rows, count);
    }
    fflush(stdout);
    bench_report_load(stderr, &before, &after);
    return good ? CLI_OK : cli_complain(COMMAND, CLI_FAILED, "%s", error.text);
}
