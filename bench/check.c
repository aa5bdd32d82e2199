// SPDX-License-Identifier: BSD-3-Clause
//
// See check.h.
#include "bench/check.h"

#include <stdlib.h>
#include <string.h>

enum { ACCESS_MS = 20000 };

static bool told(wh_status status, bench_error *error) {
    if (status == WH_EPROTOCOL)
        return bench_fail(error, "what has come is not what was sent");
    return status == WH_OK ||
           bench_fail(error, "the content cannot be checked: %s", wh_status_text(status));
}

bool bench_check_begin(bench_side *side, bench_error *error) {
    const bench_buffers *memory = &side->memory;
    if (!side->check || !side->kind->remote || !side->kind->reads)
        return true;
    char *bytes = bench_buffers_marked(memory);
    wh_status status =
        bytes ? wh_put_wait(side->rkey, 0, bytes, memory->size, ACCESS_MS) : WH_ENOMEM;
    if (status == WH_OK)
        status = wh_endpoint_flush_wait(side->ep, ACCESS_MS);
    free(bytes);
    return told(status, error);
}

static wh_status check_remote(bench_side *side) {
    const bench_buffers *memory = &side->memory;
    char *want = bench_buffers_marked(memory), *have = malloc(memory->size + 1);
    wh_status status = WH_ENOMEM;
    if (want && have)
        status = wh_get_wait(side->rkey, 0, have, memory->size, ACCESS_MS);
    if (status == WH_OK && memcmp(want, have, memory->size) != 0)
        status = WH_EPROTOCOL;
    free(want);
    free(have);
    return status;
}

bool bench_check_end(bench_side *side, bench_error *error) {
    if (!side->check)
        return true;
    if (side->kind->remote && !side->kind->reads)
        return told(check_remote(side), error);
    bool any = side->received > 0 || side->kind->reads;
    return told(any ? bench_buffers_verify(&side->memory) : WH_OK, error);
}
