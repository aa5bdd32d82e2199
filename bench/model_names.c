// SPDX-License-Identifier: BSD-3-Clause
//
// See model.h.
#include "bench/model.h"

#include <stdio.h>
#include <string.h>

const char *bench_model_name(int model) {
    static const char *const names[] = {
#define NAME(symbol, name) name,
        BENCH_MODELS(NAME)
#undef NAME
    };
    return names[model];
}

static int find(const char *name) {
    for (int i = 0; i < BENCH_MODEL_COUNT; i++)
        if (strcmp(name, bench_model_name(i)) == 0)
            return i;
    return -1;
}

bool bench_models_parse(const char *list, bool models[BENCH_MODEL_COUNT], bench_error *error) {
    char words[128];
    snprintf(words, sizeof words, "%s", list);
    char *rest = words, *word;
    while ((word = strsep(&rest, ","))) {
        int found = find(word);
        if (found < 0)
            return bench_fail(error,
                              "--model is a list of engine, message, entry, buffer, channel, "
                              "chares, not '%s'",
                              word);
        models[found] = true;
    }
    return true;
}
