// SPDX-License-Identifier: BSD-3-Clause
//
// See hasher.h.  Lists behind locks: a job takes a hundred times as long as what happens there.
#include "cli/hasher.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 4 };  // what several senders at a time can keep busy

typedef struct line {
    hasher *hasher;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    hasher_job *first, **last;
    bool end;
} line;

struct hasher {
    void (*wake)(void *arg);
    void *arg;
    unsigned count;
    line lines[THREADS_MAX];
};

void hasher_do(hasher_job *job) {
    job->good = (!job->begin || digest_begin(job->digest)) &&
                digest_add(job->digest, job->bytes, job->size);
    atomic_store_explicit(&job->done, true, memory_order_release);
}

// The next job; NULL: there will be none.
static hasher_job *take(line *self) {
    pthread_mutex_lock(&self->lock);
    while (!self->first && !self->end)
        pthread_cond_wait(&self->more, &self->lock);
    hasher_job *job = self->first;
    if (job)
        self->first = job->next;
    if (!self->first)
        self->last = &self->first;
    pthread_mutex_unlock(&self->lock);
    return job;
}

static void *run(void *arg) {
    line *self = arg;
    hasher_job *job;
    while ((job = take(self))) {
        hasher_do(job);
        self->hasher->wake(self->hasher->arg);
    }
    return NULL;
}

// Signals are the business of the thread that was there before.
static bool start(line *self) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&self->thread, NULL, run, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

hasher *hasher_create(void (*wake)(void *arg), void *arg) {
    hasher *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->wake = wake;
    self->arg = arg;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (; self->count < THREADS_MAX && (!self->count || self->count < processors); self->count++) {
        line *next = &self->lines[self->count];
        next->hasher = self;
        next->last = &next->first;
        pthread_mutex_init(&next->lock, NULL);
        pthread_cond_init(&next->more, NULL);
        if (!start(next))
            break;
    }
    if (self->count)
        return self;
    free(self);
    return NULL;
}

void hasher_put(hasher *self, unsigned sender, hasher_job *job) {
    line *to = &self->lines[sender % self->count];
    job->next = NULL;
    pthread_mutex_lock(&to->lock);
    *to->last = job;
    to->last = &job->next;
    pthread_cond_signal(&to->more);
    pthread_mutex_unlock(&to->lock);
}

static void end(line *self) {
    pthread_mutex_lock(&self->lock);
    self->end = true;
    pthread_cond_signal(&self->more);
    pthread_mutex_unlock(&self->lock);
    pthread_join(self->thread, NULL);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->more);
}

void hasher_destroy(hasher *self) {
    for (unsigned i = 0; self && i < self->count; i++)
        end(&self->lines[i]);
    free(self);
}
