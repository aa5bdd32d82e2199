// SPDX-License-Identifier: BSD-3-Clause
//
// Writing a PE's timeline, see trace.h.
//
// Times are microseconds since the launcher began, by the clocks of the hosts.  Lines are kept until there are many; they are written
// whole, by one thread of the process at a time, and a launcher that is slow is waited for.
#include "rt/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { KEPT = 32 << 10, LINE_MAX_BYTES = 512, NAME_MAX_BYTES = 100, IDLE_LEAST_NS = 1000 };

struct whi_trace {
    int fd, rank, pe;
    pid_t pid;
    uint64_t zero;  // of this clock, when the launcher began
    uint64_t idle;  // since when nothing was done; 0: something was
    uint64_t last;  // when the last span ended
    size_t size;
    uint32_t *sent, *came;  // messages, by PE
    char lines[KEPT];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// What the clock of spans showed when the launcher began: the hosts have the time of day in common, if anything.
static uint64_t zero_of(uint64_t start) {
    struct timespec day;
    clock_gettime(CLOCK_REALTIME, &day);
    uint64_t gone = (uint64_t)day.tv_sec * WHI_NS_PER_S + (uint64_t)day.tv_nsec - start;
    return whi_clock_ns() - gone;
}

whi_trace *whi_trace_open(int rank, int pe, int pes) {
    const char *fd = getenv("WHERRYRUN_TRACE_FD"), *start = getenv("WHERRYRUN_TRACE_START");
    if (!fd || !start)
        return NULL;
    whi_trace *t = whi_calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->fd = atoi(fd);
    (void)fcntl(t->fd, F_SETFD, FD_CLOEXEC);  // it is not for what the program starts
    t->rank = rank;
    t->pe = pe;
    t->pid = getpid();
    t->zero = zero_of(strtoull(start, NULL, 10));
    t->sent = whi_calloc((size_t)pes, sizeof(*t->sent));
    t->came = whi_calloc((size_t)pes, sizeof(*t->came));
    if (t->sent && t->came) {
        t->size = (size_t)snprintf(t->lines, LINE_MAX_BYTES,
                                   "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,"
                                   "\"args\":{\"name\":\"PE %d\"}},\n",
                                   rank, pe, pe);
        return t;
    }
    whi_trace_close(t);
    return NULL;
}

// A launcher that has gone is no error of the program's.
void whi_trace_flush(whi_trace *t) {
    pthread_mutex_lock(&lock);
    for (size_t done = 0; done < t->size;) {
        ssize_t n = write(t->fd, t->lines + done, t->size - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    pthread_mutex_unlock(&lock);
    t->size = 0;
}

void whi_trace_close(whi_trace *trace) {
    if (!trace)
        return;
    if (trace->pid == getpid())
        whi_trace_flush(trace);
    whi_free(trace->sent);
    whi_free(trace->came);
    whi_free(trace);
}

uint64_t whi_trace_now(void) {
    return whi_clock_ns();
}

static double microseconds(const whi_trace *t, uint64_t ns) {
    return (double)(int64_t)(ns - t->zero) / 1e3;
}

#define ADD(t, ...)                                                                                \
    do {                                                                                           \
        if (KEPT - (t)->size < LINE_MAX_BYTES)                                                     \
            whi_trace_flush(t);                                                                    \
        (t)->size += (size_t)snprintf((t)->lines + (t)->size, LINE_MAX_BYTES, __VA_ARGS__);        \
    } while (0)

// As text of JSON: what would need an escape becomes a question mark.
static const char *clean(const char *name, char text[NAME_MAX_BYTES + 1]) {
    size_t i = 0;
    for (; name[i] && i < NAME_MAX_BYTES; i++)
        text[i] =
            name[i] < 32 || name[i] > 126 || name[i] == '"' || name[i] == '\\' ? '?' : name[i];
    text[i] = '\0';
    return text;
}

static void add_span(whi_trace *t, const char *name, const char *part, uint64_t begin,
                     uint64_t end) {
    char one[NAME_MAX_BYTES + 1], two[NAME_MAX_BYTES + 1];
    ADD(t, "{\"name\":\"%s%s%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f},\n",
        clean(name, one), part ? "." : "", part ? clean(part, two) : "", t->rank, t->pe,
        microseconds(t, begin), (double)(end - begin) / 1e3);
}

static void end_idle(whi_trace *t, uint64_t now) {
    if (t->idle && now > t->idle && now - t->idle >= IDLE_LEAST_NS)
        add_span(t, "idle", NULL, t->idle, now);
    t->idle = 0;
}

void whi_trace_span(whi_trace *trace, const char *name, const char *part, uint64_t begin) {
    end_idle(trace, begin);
    trace->last = whi_trace_now();
    add_span(trace, name, part, begin, trace->last);
}

void whi_trace_turn(whi_trace *trace, uint64_t begin, unsigned done) {
    if (done)
        end_idle(trace, begin);
    else if (!trace->idle)
        trace->idle = begin > trace->last ? begin : trace->last;
}

static void add_arrow(whi_trace *t, const char *end, int source, int dest, uint32_t number,
                      uint64_t at) {
    ADD(t,
        "{\"name\":\"message\",\"cat\":\"message\",%s,\"id\":\"%d-%d-%u\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f},\n",
        end, source, dest, number, t->rank, t->pe, microseconds(t, at));
}

void whi_trace_sent(whi_trace *trace, int dest, uint64_t at) {
    add_arrow(trace, "\"ph\":\"s\"", trace->pe, dest, ++trace->sent[dest], at);
}

uint32_t whi_trace_came(whi_trace *trace, int source) {
    return ++trace->came[source];
}

void whi_trace_handled(whi_trace *trace, int source, uint32_t number) {
    add_arrow(trace, "\"ph\":\"f\",\"bp\":\"e\"", source, trace->pe, number, whi_trace_now());
}
