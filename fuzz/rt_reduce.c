// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: parts of reductions that other PEs send, and values that users go through.
//
// What decodes encodes and decodes to the same, goes together with itself, and becomes a value whose items lie in it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/chare/partial.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

static bool combine(void *arg, uint64_t function, void *inout, const void *in, size_t size) {
    (void)arg;
    if (size && function % 2)
        memcpy(inout, in, size);
    return function % 2;
}

static void go_through(const void *value, size_t size) {
    wh_reduction_item item;
    size_t cursor = 0, before = 0;
    while (wh_reduction_next(value, size, &cursor, &item)) {
        MUST(cursor > before && cursor <= size);
        MUST((const char *)item.data >= (const char *)value + before);
        MUST((const char *)item.data + item.size <= (const char *)value + cursor);
        before = cursor;
    }
}

static void use(whi_partial *partial, const whi_partial *other) {
    const whi_partial_ops ops = {.combine = combine};
    const char *why = NULL;
    void *value;
    size_t size;
    wh_status st = whi_partial_merge(partial, other, &ops, &why);
    MUST(st == WH_OK || (st == WH_EINVAL && why));
    if (whi_partial_value(partial, &value, &size) == WH_OK) {
        go_through(value, size);
        free(value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    whi_partial *partial, *again;
    whi_log_set_level(WHI_LOG_OFF);
    go_through(data, size);
    if (whi_partial_decode(data, size, &partial) != WH_OK)
        return 0;
    size_t encoded = whi_partial_encoded_size(partial);
    MUST(encoded == size);
    void *bytes = malloc(encoded), *twice = malloc(encoded);
    MUST(bytes && twice);
    whi_partial_encode(partial, bytes);
    MUST(whi_partial_decode(bytes, encoded, &again) == WH_OK);
    whi_partial_encode(again, twice);
    MUST(memcmp(bytes, twice, encoded) == 0);
    use(partial, again);
    whi_partial_free(partial);
    whi_partial_free(again);
    free(bytes);
    free(twice);
    return 0;
}
