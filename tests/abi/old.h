// SPDX-License-Identifier: BSD-3-Clause
//
// What version 0.1 promised, as its headers said it: kept here, so that today's library is tried with what a program has
// that was compiled then.  Nothing of this changes any more.
#ifndef WHERRY_ABI_OLD_H
#define WHERRY_ABI_OLD_H

#include <stddef.h>
#include <stdint.h>

typedef struct old_result {
    int status;
    uint64_t size, tag;
    void *source, *object;
} old_result;

typedef struct old_op_opts {
    size_t size;
    uint32_t timeout_ms, flags;
    int mem, device;
    void (*done)(void *req, const old_result *result, void *arg);
    void *arg;
    old_result *result;
} old_op_opts;

typedef struct old_endpoint_opts {
    size_t size;
    uint32_t timeout_ms;
    void (*done)(void *req, const old_result *result, void *arg);
    void *arg;
    const char *secret;
} old_endpoint_opts;

typedef struct old_listener_opts {
    size_t size;
    const char *secret;
    int any_user;
} old_listener_opts;

typedef struct old_worker_opts {
    size_t size;
    int mode;
    int progress_thread;
    void (*accept)(void *ep, void *arg);
    void *accept_arg;
} old_worker_opts;

typedef struct old_frame {
    void *data;
    size_t size;
    int mem, device;
} old_frame;

#endif
