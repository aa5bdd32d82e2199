// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's streams and events, see driver.h.
//
// A stream is a thread with a queue.  Each piece of work has a ticket, and the stream tells how far
// it has come; an event is a stream and a ticket.  Before each piece the thread sleeps a random time
// (cutest_delay), so that whoever does not wait sees what was there before.  A context's default
// stream waits for all its blocking streams and they for it, as CUDA's legacy one does.
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct stream {
    struct stream *next;  // of all that were ever made
    CUcontext context;
    bool blocking, gone;
    work *first, **last;
    uint64_t submitted, completed, rng;
    uint64_t busy_until;  // its thread's
};

struct event {
    CUcontext context;
    CUstream stream;  // NULL: never recorded
    uint64_t ticket;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static CUstream all;
static uint64_t seed = 1;
static unsigned delay_us;
static unsigned bytes_per_us;  // of a copy; 0: as fast as it goes
static long live_events;
static bool early;  // events tell that they have passed before they have

// CUTEST_DELAY and CUTEST_SEED are what cutest_delay would be called with; CUTEST_EARLY=1 takes the order away from whoever asks
// events, to show that somebody would notice.
__attribute__((constructor)) static void read_order(void) {
    const char *most = getenv("CUTEST_DELAY"), *first = getenv("CUTEST_SEED");
    delay_us = most ? (unsigned)strtoul(most, NULL, 10) : 0;
    seed = first ? strtoull(first, NULL, 10) : seed;
    early = getenv("CUTEST_EARLY") != NULL;
}

// ---- The thread of a stream.

static unsigned random_delay(CUstream s) {
    s->rng ^= s->rng << 13;
    s->rng ^= s->rng >> 7;
    s->rng ^= s->rng << 17;
    return delay_us ? (unsigned)(s->rng % (delay_us + 1)) : 0;
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_until(uint64_t ns) {
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
                          .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0) {
    }
}

// Under the lock, which it gives up while it works.
static void perform(CUstream s, work *w) {
    if (!w->fn) {
        while (w->other->completed < w->other_ticket)
            pthread_cond_wait(&moved, &lock);
        return;
    }
    unsigned pause = random_delay(s);
    unsigned rate = w->size ? bytes_per_us : 0;
    pthread_mutex_unlock(&lock);
    if (pause)
        usleep(pause);
    // Of the copies of a stream each begins when the one before it would have ended.
    uint64_t begin = now_ns();
    if (begin < s->busy_until + 200000)
        begin = s->busy_until;
    w->fn(w);
    if (rate) {
        s->busy_until = begin + w->size * 1000 / rate;
        sleep_until(s->busy_until);
    }
    pthread_mutex_lock(&lock);
}

static void *run(void *arg) {
    CUstream s = arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!s->first)
            pthread_cond_wait(&moved, &lock);
        work *w = s->first;
        perform(s, w);
        s->first = w->next;
        if (!s->first)
            s->last = &s->first;
        s->completed = w->ticket;
        free(w);
        pthread_cond_broadcast(&moved);
    }
    return NULL;
}

// Under the lock.
static CUstream make(CUcontext context, bool blocking) {
    CUstream s = calloc(1, sizeof(*s));
    pthread_t thread;
    if (!s)
        return NULL;
    s->context = context;
    s->blocking = blocking;
    s->last = &s->first;
    s->rng = seed = seed * 6364136223846793005u + 1442695040888963407u;
    if (!s->rng)
        s->rng = 1;
    if (pthread_create(&thread, NULL, run, s) != 0) {
        free(s);
        return NULL;
    }
    pthread_detach(thread);
    s->next = all;
    all = s;
    return s;
}

// Under the lock.  The handles 0 and 1 are the default stream of the current context, 2 that of
// this thread.
static CUstream resolve(CUstream handle) {
    static __thread CUstream mine;
    CUcontext context = current();
    if ((uintptr_t)handle > 2)
        return handle->gone || handle->context != context ? NULL : handle;
    if ((uintptr_t)handle == 2) {
        if (!mine || mine->context != context)
            mine = make(context, true);
        return mine;
    }
    if (!context->legacy)
        context->legacy = make(context, true);
    return context->legacy;
}

// Under the lock.
static void append(CUstream s, const work *w) {
    work *copy = malloc(sizeof(*copy));
    if (!copy)
        abort();
    *copy = *w;
    copy->next = NULL;
    copy->ticket = ++s->submitted;
    *s->last = copy;
    s->last = &copy->next;
}

static void append_wait(CUstream s, CUstream other, uint64_t ticket) {
    if (other && other != s && other->completed < ticket)
        append(s, &(work){.other = other, .other_ticket = ticket});
}

// Under the lock.  Makes a stream wait as the default stream demands it.
static void obey_default(CUstream s) {
    CUstream legacy = s->context->legacy;
    if (s == legacy) {
        for (CUstream other = all; other; other = other->next)
            if (other->blocking && other->context == s->context)
                append_wait(s, other, other->submitted);
    } else if (s->blocking && legacy) {
        append_wait(s, legacy, legacy->submitted);
    }
}

CUresult submit(CUstream handle, const work *w) {
    pthread_mutex_lock(&lock);
    CUstream s = resolve(handle);
    if (s) {
        obey_default(s);
        append(s, w);
        pthread_cond_broadcast(&moved);
    }
    pthread_mutex_unlock(&lock);
    return s ? SUCCESS : INVALID_HANDLE;
}

static void wait_until(CUstream s, uint64_t ticket) {
    while (s->completed < ticket)
        pthread_cond_wait(&moved, &lock);
}

void drain(CUdevice device) {
    pthread_mutex_lock(&lock);
    for (CUstream s = all; s; s = s->next)
        if (s->context->device == device)
            wait_until(s, s->submitted);
    pthread_mutex_unlock(&lock);
}

// ---- For tests.

// Each piece of work that begins from now on first sleeps up to `most_us`; `new_seed` decides how long for the
// streams that are made from now on.
PUBLIC void cutest_delay(uint64_t new_seed, unsigned most_us);
void cutest_delay(uint64_t new_seed, unsigned most_us) {
    pthread_mutex_lock(&lock);
    seed = new_seed;
    delay_us = most_us;
    pthread_mutex_unlock(&lock);
}

// Copies that begin from now on take as long as at so many bytes in a microsecond; 0: no longer than they do.
PUBLIC void cutest_bandwidth(unsigned bytes);
void cutest_bandwidth(unsigned bytes) {
    pthread_mutex_lock(&lock);
    bytes_per_us = bytes;
    pthread_mutex_unlock(&lock);
}

static void run_kernel(work *w) {
    w->kernel(w->arg);
}

// Launches a "kernel": a function that runs in stream order, and may use cutest_engine.
PUBLIC CUresult cutest_launch(CUstream stream, void (*kernel)(void *), void *arg);
CUresult cutest_launch(CUstream stream, void (*kernel)(void *), void *arg) {
    BEGIN(CONTEXT);
    return submit(stream, &(work){.fn = run_kernel, .kernel = kernel, .arg = arg});
}

PUBLIC long cutest_events(void);
long cutest_events(void) {
    return live_events;
}

// ---- Entry points.

PUBLIC CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    CUstream s = make(current(), !(flags & 1));
    pthread_mutex_unlock(&lock);
    if (!s)
        return OUT_OF_MEMORY;
    *stream = s;
    return SUCCESS;
}

PUBLIC CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    stream->gone = true;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

PUBLIC CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    CUstream s = resolve(stream);
    if (s)
        wait_until(s, s->submitted);
    pthread_mutex_unlock(&lock);
    return s ? SUCCESS : INVALID_HANDLE;
}

PUBLIC CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    BEGIN((uintptr_t)stream > 2 ? INIT : CONTEXT);
    if ((uintptr_t)stream > 2 && stream->gone)
        return INVALID_HANDLE;
    *context = (uintptr_t)stream > 2 ? stream->context : current();
    return SUCCESS;
}

PUBLIC CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    BEGIN(CONTEXT);
    (void)flags;
    pthread_mutex_lock(&lock);
    CUstream s = resolve(stream);
    if (s && event->stream) {
        obey_default(s);
        append_wait(s, event->stream, event->ticket);
        pthread_cond_broadcast(&moved);
    }
    pthread_mutex_unlock(&lock);
    return s ? SUCCESS : INVALID_HANDLE;
}

PUBLIC CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventCreate(CUevent *event, unsigned flags) {
    BEGIN(CONTEXT);
    (void)flags;
    CUevent made = calloc(1, sizeof(*made));
    if (!made)
        return OUT_OF_MEMORY;
    made->context = current();
    pthread_mutex_lock(&lock);
    live_events++;
    pthread_mutex_unlock(&lock);
    *event = made;
    return SUCCESS;
}

PUBLIC CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventRecord(CUevent event, CUstream stream) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    CUstream s = resolve(stream);
    bool fits = s && s->context == event->context;
    if (fits) {
        obey_default(s);
        event->stream = s;
        event->ticket = s->submitted;
        pthread_cond_broadcast(&moved);
    }
    pthread_mutex_unlock(&lock);
    return fits ? SUCCESS : INVALID_HANDLE;
}

PUBLIC CUresult cuEventQuery(CUevent event);
CUresult cuEventQuery(CUevent event) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    bool passed = early || !event->stream || event->stream->completed >= event->ticket;
    pthread_mutex_unlock(&lock);
    return passed ? SUCCESS : NOT_READY;
}

PUBLIC CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventDestroy_v2(CUevent event) {
    BEGIN(CONTEXT);
    pthread_mutex_lock(&lock);
    live_events--;
    pthread_mutex_unlock(&lock);
    free(event);
    return SUCCESS;
}
