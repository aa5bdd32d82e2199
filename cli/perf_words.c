// SPDX-License-Identifier: BSD-3-Clause
//
// The words of `wherry perf`: lists and cores as written on the command line.
#include "cli/perf.h"

#include "bench/machine.h"
#include "bench/text.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

bool perf_parse_sizes(const char *text, bench_plan *plan, bench_error *error) {
    char list[256];
    snprintf(list, sizeof list, "%s", text);
    plan->size_count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (plan->size_count == BENCH_SIZES_MAX)
            return bench_fail(error, "at most %d sizes", BENCH_SIZES_MAX);
        if (!bench_parse_size(word, &plan->sizes[plan->size_count++]))
            return bench_fail(error, "'%s' is not a size", word);
        if (plan->sizes[plan->size_count - 1] > BENCH_SIZE_MAX)
            return bench_fail(error, "'%s' is too large: a message has at most 8G", word);
    }
    return plan->size_count > 0 || bench_fail(error, "--sizes needs one at least");
}

bool perf_parse_metrics(const char *text, bench_plan *plan, bench_error *error) {
    char list[128];
    snprintf(list, sizeof list, "%s", text ? text : "latency,bandwidth,bidir,rate");
    plan->every_cell = text != NULL;
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bench_metric metric;
        if (!bench_metric_parse(word, &metric))
            return bench_fail(error, "'%s' is not a metric (latency, bandwidth, bidir, rate)",
                              word);
        plan->metrics[metric] = true;
    }
    return true;
}

bool perf_parse_tests(char **words, int count, bench_plan *plan, bench_error *error) {
    static const char *const fallback = "tag";
    for (int i = 0; i < count; i++) {
        if (cli_one_of("tag|object|am|put|get|atomic|post", words[i]) < 0)
            return bench_fail(error, "'%s' is not a test (tag, object, am, put, get, atomic, post)",
                              words[i]);
        if (strcmp(words[i], "post") == 0 && count > 1)
            return bench_fail(error, "post, which is within one process, is measured alone");
        for (size_t k = 0; k < plan->test_count; k++)
            if (strcmp(plan->tests[k], words[i]) == 0)
                return bench_fail(error, "each test once");
        plan->tests[plan->test_count++] = words[i];
    }
    if (count == 0)
        plan->tests[plan->test_count++] = fallback;
    return true;
}

bool perf_parse_pin(const char *text, int cores[2], bench_error *error) {
    if (!text) {
        bench_pick_cores(cores);
        return true;
    }
    cores[0] = cores[1] = -1;
    if (strcmp(text, "none") == 0)
        return true;
    char tail;
    int found = sscanf(text, "%d,%d%c", &cores[0], &cores[1], &tail);
    if ((found != 1 && found != 2) || cores[0] < 0 || (found == 2 && cores[1] < 0))
        return bench_fail(error, "--pin takes two cores such as 0,1, or none");
    for (int i = 0; i < found; i++) {
        if (!bench_may_use(cores[i]))
            return bench_fail(error,
                              "--pin: core %d is not one that this process may use; `taskset -cp "
                              "$$` shows which",
                              cores[i]);
    }
    return true;
}
