// SPDX-License-Identifier: BSD-3-Clause
//
// The calls of version 0.1 that old_program.c makes, as its headers declared them but for the types of the handles.
#ifndef WHERRY_ABI_OLD_CALLS_H
#define WHERRY_ABI_OLD_CALLS_H

#include "old.h"

const char *wh_version(void);
int wh_context_create(const char *const *options, void **ctx);
void wh_context_destroy(void *ctx);
int wh_worker_create(void *ctx, const old_worker_opts *opts, void **worker);
void wh_worker_destroy(void *worker);
int wh_mem_alloc(void *ctx, size_t size, unsigned access, void **mr);
int wh_mr_destroy(void *mr);

#endif
