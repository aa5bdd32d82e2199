// SPDX-License-Identifier: BSD-3-Clause
//
// The words of `wherry perf`: lists, cores and kinds of memory as written on the command line.
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

bool perf_parse_layouts(const char *text, bench_plan *plan, bench_error *error) {
    char list[256];
    snprintf(list, sizeof list, "%s", text ? text : "dense");
    plan->layout_count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (plan->layout_count == BENCH_LAYOUTS_MAX)
            return bench_fail(error, "at most %d layouts", BENCH_LAYOUTS_MAX);
        if (!bench_layout_parse(word, &plan->layouts[plan->layout_count++]))
            return bench_fail(error,
                              "'%s' is not a layout: dense, struct, transposed[:BLOCK], or vector, "
                              "subarray or indexed[:BLOCK[:STRIDE]]",
                              word);
    }
    return plan->layout_count > 0 || bench_fail(error, "--layout needs one at least");
}

static const char *list_kinds(char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int kind = WH_MEM_HOST; used < size; kind++) {
        const char *name = wh_mem_kind_name((wh_mem_kind)kind);
        if (strcmp(name, "unknown") == 0)
            break;
        used += (size_t)snprintf(text + used, size - used, ", %s", name);
    }
    return text;
}

// Kinds are those of the library, so that a new one is known here, too.
static bool parse_memory(const char *word, bench_memory *memory, bench_error *error) {
    char kinds[128];
    if (!bench_memory_parse(word, memory))
        return bench_fail(error,
                          "--memory is alloc, user%s, the kinds that this library knows, "
                          "cuda-staged or managed; not '%s'",
                          list_kinds(kinds, sizeof kinds), word);
    if (!(wh_mem_kinds() & 1u << memory->kind))
        return bench_fail(error, "--memory %s: there is none here: %s", word,
                          wh_mem_kind_reason(memory->kind));
    return true;
}

bool perf_parse_memory(const char *text, perf_memories *list, bench_error *error) {
    char words[256];
    list->count = 0;
    if (!text || strcmp(text, "alloc") == 0 || strcmp(text, "user") == 0)
        text = "host";
    if (strlen(text) >= sizeof words)
        return bench_fail(error, "--memory is too long");
    snprintf(words, sizeof words, "%s", text);
    char *rest = words, *word;
    while ((word = strsep(&rest, ","))) {
        if (list->count == PERF_MEMORIES_MAX)
            return bench_fail(error, "--memory has more than %d kinds", PERF_MEMORIES_MAX);
        if (!parse_memory(word, &list->all[list->count++], error))
            return false;
    }
    return true;
}

bool perf_check_buffers(const bench_plan *plan, const perf_memories *memories, bool raw, bool peers,
                        bench_error *error) {
    bool laid_out = false, atomic = false;
    const char *device = NULL;
    for (size_t i = 0; i < memories->count; i++)
        device = memories->all[i].kind != WH_MEM_HOST ? memories->all[i].name : device;
    for (size_t i = 0; i < plan->layout_count; i++)
        laid_out |= plan->layouts[i].kind != BENCH_DENSE;
    for (size_t i = 0; i < plan->test_count; i++)
        atomic |= strcmp(plan->tests[i], "atomic") == 0;
    if (atomic && (device || laid_out))
        return bench_fail(error,
                          "atomic is of one number in host memory: no --layout, no --memory");
    if (device && (raw || peers))
        return bench_fail(error, "--raw and --peers compare in host memory, not with --memory %s",
                          device);
    return true;
}
