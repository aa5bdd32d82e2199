// SPDX-License-Identifier: BSD-3-Clause
//
// Formats messages and hands them to the sink or, as one write each, to standard error.
//
// The invariant: no lock is held while a message is delivered, so a sink may block, wait for an
// interpreter's lock, or be left behind by fork, without stopping any other thread.  The sink and
// its argument are therefore read together under a sequence number that is odd while they change.
// Any thread logs; nothing is allocated and errno is left alone.
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    ID_MAX = 31,
    TEXT_MAX = 1024,     // longer messages end in "..."
    PREFIX_MAX = 128,    // "wherry: 12:03:44.123 [pid.tid] ERROR E-SHM-01: "
    SINK_TRIES = 100,    // then a sink that is being changed is given up, and standard error takes
    SINK_WAIT_US = 100,  // the message: only a fork in the middle of a change takes so long
};

typedef struct sink {
    wh_log_sink_fn fn;
    void *arg;
} sink;

_Atomic int whi_log_shown = WHI_WARN;

static const char *const words[] = {"error", "warn", "info", "debug", "trace"};
static const char *const capitals[] = {"ERROR", "WARN", "INFO", "DEBUG", "TRACE"};

static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER;  // one change of the sink at a time
static _Atomic unsigned sink_sequence;
static _Atomic(wh_log_sink_fn) sink_fn;
static _Atomic(void *) sink_arg;

void whi_log_set_level(whi_log_level level) {
    atomic_store_explicit(&whi_log_shown, (int)level, memory_order_relaxed);
}

wh_status wh_log_set_level(const char *level) {
    whi_log_level parsed;
    wh_status status = whi_log_level_parse(level, &parsed);
    if (status == WH_OK)
        whi_log_set_level(parsed);
    return status;
}

wh_status whi_log_level_parse(const char *text, whi_log_level *level) {
    if (!text)
        return WH_EINVAL;
    for (int i = WHI_LOG_OFF; i <= WHI_TRACE; i++)
        if (!strcmp(text, whi_log_level_name((whi_log_level)i))) {
            *level = (whi_log_level)i;
            return WH_OK;
        }
    return WH_EINVAL;
}

const char *whi_log_level_name(whi_log_level level) {
    return level >= WHI_ERROR && level <= WHI_TRACE ? words[level] : "off";
}

void wh_log_set_sink(wh_log_sink_fn fn, void *arg) {
    whi_log_set_sink(fn, arg);
}

void whi_log_set_sink(wh_log_sink_fn fn, void *arg) {
    pthread_mutex_lock(&setting);
    atomic_fetch_add(&sink_sequence, 1);
    atomic_store(&sink_fn, fn);
    atomic_store(&sink_arg, arg);
    atomic_fetch_add(&sink_sequence, 1);
    pthread_mutex_unlock(&setting);
}

// Returns the sink and its own argument, never those of two different calls of whi_log_set_sink.
static sink current_sink(void) {
    for (int i = 0; i < SINK_TRIES; i++) {
        unsigned before = atomic_load(&sink_sequence);
        sink s = {.fn = atomic_load(&sink_fn), .arg = atomic_load(&sink_arg)};
        if (!(before & 1) && atomic_load(&sink_sequence) == before)
            return s;
        usleep(SINK_WAIT_US);  // whoever changes it was interrupted halfway: a rare case
    }
    return (sink){.fn = NULL};
}

// For wh_log_take_error.
static _Thread_local char last_error[TEXT_MAX];
static _Thread_local bool untaken;

// For wh_log_hold_errors.
static _Thread_local bool holding;
static _Thread_local const char
    *held_id;  // of last_error, which is still to be shown; NULL: is not

const char *wh_log_take_error(void) {
    bool found = untaken;
    untaken = false;
    held_id = NULL;
    return found ? last_error : "";
}

static void write_all(const char *line, size_t size) {
    while (size) {
        ssize_t n = write(STDERR_FILENO, line, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;  // nobody is left to whom this could be reported
        line += n;
        size -= (size_t)n;
    }
}

static void to_stderr(whi_log_level level, const char *id, const char *text) {
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    char line[PREFIX_MAX + TEXT_MAX];
    int n = snprintf(line, sizeof(line), "wherry: %02d:%02d:%02d.%03ld [%ld.%ld] %s %s: %s\n",
                     tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000000, (long)getpid(),
                     syscall(SYS_gettid), capitals[level], id, text);
    size_t size = (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;
    line[size - 1] = '\n';  // also when an id was longer than any of ours
    write_all(line, size);
}

static void show(whi_log_level level, const char *id, const char *text) {
    sink s = current_sink();
    if (s.fn)
        s.fn(words[level], id, text, s.arg);
    else
        to_stderr(level, id, text);
}

static void show_held(void) {
    const char *id = held_id;
    held_id = NULL;
    if (id && whi_log_on(WHI_ERROR))
        show(WHI_ERROR, id, last_error);
}

void wh_log_hold_errors(bool hold) {
    int saved_errno = errno;
    show_held();
    holding = hold;
    errno = saved_errno;
}

__attribute__((format(printf, 4, 0))) static void
deliver(whi_log_level level, const char *id, uint32_t dropped, const char *format, va_list args) {
    int saved_errno = errno;
    char text[TEXT_MAX];
    int n = vsnprintf(text, sizeof(text), format, args);
    size_t size = n < 0 ? 0 : (size_t)n;
    if (size >= sizeof(text)) {
        size = sizeof(text) - 1;
        memcpy(text + size - 3, "...", 3);
    }
    if (dropped)
        snprintf(text + size, sizeof(text) - size, " (%u more like this before)", dropped);
    // One message is one line, also when a peer's text is part of it.
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    if (level == WHI_ERROR) {
        if (strcmp(last_error, text) != 0)
            show_held();
        memcpy(last_error, text, strlen(text) + 1);
        untaken = true;
    }
    if (level == WHI_ERROR && holding)
        held_id = id;
    else if (whi_log_on(level))
        show(level, id, text);
    errno = saved_errno;
}

void whi_log_write(whi_log_level level, const char *id, const char *format, ...) {
    va_list args;
    va_start(args, format);
    deliver(level, id, 0, format, args);
    va_end(args);
}

static bool is_id(const char *id) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
    return id && *id && strnlen(id, ID_MAX + 1) <= ID_MAX && !id[strspn(id, letters)];
}

wh_status wh_log_write(const char *level, const char *id, const char *format, ...) {
    whi_log_level number;
    if (!level || whi_log_level_parse(level, &number) != WH_OK || number == WHI_LOG_OFF ||
        !is_id(id) || !format)
        return WH_EINVAL;
    if (!whi_log_on(number) && number != WHI_ERROR)
        return WH_OK;
    va_list args;
    va_start(args, format);
    deliver(number, id, 0, format, args);
    va_end(args);
    return WH_OK;
}

bool wh_log_shown(const char *level) {
    whi_log_level number;
    return level && whi_log_level_parse(level, &number) == WH_OK && number != WHI_LOG_OFF &&
           whi_log_on(number);
}

static _Atomic bool limits = true;

void whi_log_set_limited(bool limited) {
    atomic_store(&limits, limited);
}

void whi_log_write_limited(whi_log_limiter *limiter, unsigned seconds, whi_log_level level,
                           const char *id, const char *format, ...) {
    uint64_t now = whi_clock_ns();
    uint64_t next = atomic_load_explicit(&limiter->next_ns, memory_order_relaxed);
    // Of the threads that come here at once, the one whose exchange succeeds logs.
    bool early = now < next && atomic_load_explicit(&limits, memory_order_relaxed);
    if (early ||
        !atomic_compare_exchange_strong(&limiter->next_ns, &next, now + seconds * WHI_NS_PER_S)) {
        atomic_fetch_add_explicit(&limiter->dropped, 1, memory_order_relaxed);
        return;
    }
    uint32_t dropped = atomic_exchange_explicit(&limiter->dropped, 0, memory_order_relaxed);
    va_list args;
    va_start(args, format);
    deliver(level, id, dropped, format, args);
    va_end(args);
}
