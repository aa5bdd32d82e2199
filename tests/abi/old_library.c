// SPDX-License-Identifier: BSD-3-Clause
//
// In the place of version 0.1's library: its soname and its symbols' version, which is what a program is linked to.
#include "old_calls.h"

static int something;

const char *wh_version(void) {
    return "0.1.0";
}

int wh_context_create(const char *const *options, void **ctx) {
    (void)options;
    *ctx = &something;
    return 0;
}

void wh_context_destroy(void *ctx) {
    (void)ctx;
}

int wh_worker_create(void *ctx, const old_worker_opts *opts, void **worker) {
    (void)ctx;
    *worker = &something;
    return opts->size < sizeof(*opts);
}

void wh_worker_destroy(void *worker) {
    (void)worker;
}

int wh_mem_alloc(void *ctx, size_t size, unsigned access, void **mr) {
    (void)ctx, (void)size, (void)access;
    *mr = &something;
    return 0;
}

int wh_mr_destroy(void *mr) {
    (void)mr;
    return 0;
}
