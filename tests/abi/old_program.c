// SPDX-License-Identifier: BSD-3-Clause
//
// A program as it was compiled against version 0.1.  With that version's library it runs; with one that has changed what it
// rests on it must not begin.
#include "old_calls.h"

#include <stdio.h>

int main(void) {
    void *ctx, *worker, *mr;
    old_worker_opts opts = {.size = sizeof(opts)};
    if (wh_context_create(NULL, &ctx) || wh_worker_create(ctx, &opts, &worker) ||
        wh_mem_alloc(ctx, 100, 1, &mr))
        return 1;
    printf("runs with %s\n", wh_version());
    (void)wh_mr_destroy(mr);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
