// SPDX-License-Identifier: BSD-3-Clause
//
// The log inside the library: one macro, five levels, and an id for every message.
//
// Ids are a letter for the level, a part and a number ("W-SHM-01"); they never change, so that
// users can search for them.  A message that is not shown costs one relaxed load and a predictable
// branch, and its arguments are not evaluated; save for errors, which wh_log_take_error tells of, too.  Any thread may log; errno survives.  The public
// side is wherry/log.h.
#ifndef WHI_BASE_LOG_H
#define WHI_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <wherry/log.h>

// The numbers are the positions in the choice `log_level` of the configuration.
typedef enum whi_log_level {
    WHI_LOG_OFF = -1,
    WHI_ERROR,
    WHI_WARN,
    WHI_INFO,
    WHI_DEBUG,
    WHI_TRACE
} whi_log_level;

// What a call site that may repeat itself remembers.
typedef struct whi_log_limiter {
    _Atomic uint64_t next_ns;  // not again before
    _Atomic uint32_t dropped;  // since the last line
} whi_log_limiter;

// whi_log(level, id, format, ...) logs one line; the text needs no line end.
#define whi_log(level, id, ...)                                                                    \
    do {                                                                                           \
        if (whi_log_on(level) || (level) == WHI_ERROR)                                             \
            whi_log_write((level), (id), __VA_ARGS__);                                             \
    } while (0)

// whi_log_once_per logs at most one line in `seconds` from this place in the code, for what a peer
// or a busy loop could repeat without end.  The next line says how many were left out.
#define whi_log_once_per(level, id, seconds, ...)                                                  \
    do {                                                                                           \
        static whi_log_limiter whi_limiter;                                                        \
        if (whi_log_on(level))                                                                     \
            whi_log_write_limited(&whi_limiter, (seconds), (level), (id), __VA_ARGS__);            \
    } while (0)

// Not for callers: the level that is shown, behind whi_log_on.
extern _Atomic int whi_log_shown;

// whi_log_on says whether messages of `level` are shown.
static inline int whi_log_on(whi_log_level level) {
    return __builtin_expect(
        (int)level <= atomic_load_explicit(&whi_log_shown, memory_order_relaxed), 0);
}

// whi_log_set_level shows `level` and all that is more important.
void whi_log_set_level(whi_log_level level);

// whi_log_level_parse reads "error", "warn", "info", "debug", "trace" or "off"; else WH_EINVAL.
WH_CHECK wh_status whi_log_level_parse(const char *text, whi_log_level *level);

// whi_log_level_name returns the word that whi_log_level_parse reads.
const char *whi_log_level_name(whi_log_level level);

// whi_log_set_sink sends messages to `fn`, or to standard error when it is NULL.
void whi_log_set_sink(wh_log_sink_fn fn, void *arg);

// whi_log_set_limited(false) has whi_log_once_per log every line, for tests that look for each.
void whi_log_set_limited(bool limited);

// Not for callers: what the macros call once a message is to be shown.
__attribute__((format(printf, 3, 4), cold)) void whi_log_write(whi_log_level level, const char *id,
                                                               const char *format, ...);
__attribute__((format(printf, 5, 6), cold)) void
whi_log_write_limited(whi_log_limiter *limiter, unsigned seconds, whi_log_level level,
                      const char *id, const char *format, ...);

#endif
