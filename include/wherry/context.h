// SPDX-License-Identifier: BSD-3-Clause
//
// Context: configuration, shared by the workers that are made from it.
//
// Several contexts may live in one process.  Values come from the caller's options, then from
// WHERRY_* environment variables, then from the defaults; docs/reference/configuration.md lists
// them all.  The environment is never written.  A context is immutable after its creation and any
// thread may use it.
#ifndef WHERRY_CONTEXT_H
#define WHERRY_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>
#include <wherry/version.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_context wh_context;

// wh_version returns the version of the loaded library, such as "0.2.0".  The string is static.
WH_API const char *wh_version(void);

// wh_context_create makes a context from `options`, a NULL-terminated array of "key=value" strings
// (NULL: none).  A key or value that is not valid fails with WH_EINVAL and is named in the log.
// The caller owns *ctx and ends it with wh_context_destroy.
WH_API WH_CHECK wh_status wh_context_create(const char *const *options, wh_context **ctx);

// wh_context_destroy releases the caller's reference; the context is freed with its last worker.
WH_API void wh_context_destroy(wh_context *ctx);

// One entry of the configuration, for documentation and for tools.  The library makes it; it may
// grow at its end.
typedef struct wh_config_item {
    const char *key;            // as in an option: "eager_max"
    const char *env;            // as in the environment: "WHERRY_EAGER_MAX"
    const char *type;           // "size", "uint", "ms", "bool", "string" or the choices "a|b|c"
    const char *default_value;  // as text
    const char *value;          // as text; a secret reads "(set)"
    const char *source;         // "default", "environment" or "option"
    const char *doc;            // one sentence
} wh_config_item;

// wh_context_config calls `fn` for each entry, in the order of the documentation.  The strings live
// during the call.
WH_API void wh_context_config(const wh_context *ctx,
                              void (*fn)(const wh_config_item *item, void *arg), void *arg);

// One lane, as wh_context_lanes tells it.  The library makes it; it may grow at its end.
typedef struct wh_lane_info {
    const char *name;    // "shm", "stream", "ucx"
    bool usable;         // whether this process can use it
    const char *reason;  // why not, or what it rests on; one sentence
    // Of the library that a lane opens at run time, which is UCX: its version, the file that it came from, and the transports
    // that it finds on this machine, such as "tcp/eth0, posix/memory".  NULL for other lanes, and when it cannot be opened.
    const char *version, *path, *transports;
} wh_lane_info;

// wh_context_lanes calls `fn` for each lane that this library knows.  It opens UCX, and asks it for
// its transports, which takes milliseconds.  The strings live during the call.
WH_API void wh_context_lanes(const wh_context *ctx, void (*fn)(const wh_lane_info *lane, void *arg),
                             void *arg);

#ifdef __cplusplus
}
#endif
#endif
