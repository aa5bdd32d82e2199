// SPDX-License-Identifier: BSD-3-Clause
//
// What a worker knows, in print: links, lanes, credits, pending operations.
//
// The signal handler only counts and wakes; the printing is done by each worker's owner in its progress.
#include "worker/dump.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { WORKERS_MAX = 64 };

static _Atomic(wh_worker *) listening[WORKERS_MAX];
static _Atomic uint32_t asked;
static _Atomic uint32_t handling;  // signal handlers that may be looking at a worker

static wh_status dump(const wh_worker *worker, FILE *file) {
    wh_counters counters = worker->counters;
    whi_rooms_foreach(room, worker) if ((*room)->count)(*room)->count(worker, &counters);
    fprintf(file, "worker ");
    for (int i = 0; i < 16; i++)
        fprintf(file, "%02x", worker->uuid[i]);
    fprintf(file, ": %llu links, %llu operations pending, %llu sleeps, %llu wake-ups, %llu bells\n",
            (unsigned long long)counters.links, (unsigned long long)counters.pending,
            (unsigned long long)counters.sleeps, (unsigned long long)counters.wakeups,
            (unsigned long long)counters.doorbells);
    whi_rooms_foreach(room, worker) if ((*room)->dump)(*room)->dump(worker, file);
    if (worker->dump_more)
        worker->dump_more(file, worker->dump_more_arg);
    fflush(file);
    return WH_OK;
}

static wh_status dump_more(wh_worker *worker, wh_dump_fn fn, void *arg) {
    worker->dump_more = fn;
    worker->dump_more_arg = arg;
    return WH_OK;
}

wh_status wh_worker_on_dump(wh_worker *worker, wh_dump_fn fn, void *arg) {
    return worker ? WHI_OWNED(worker, dump_more(worker, fn, arg)) : WH_EINVAL;
}

void wh_worker_dump(const wh_worker *worker, FILE *file) {
    // Only the ownership is changed for the moment, and given back.
    if (worker && file && WHI_OWNED((wh_worker *)(uintptr_t)worker, dump(worker, file)) != WH_OK)
        fprintf(file, "worker: only its owner can print it\n");
}

static void on_signal(int signal) {
    (void)signal;
    atomic_fetch_add(&handling, 1);
    atomic_fetch_add(&asked, 1);
    for (int i = 0; i < WORKERS_MAX; i++) {
        wh_worker *worker = atomic_load(&listening[i]);
        if (worker)
            wh_worker_wake(worker);
    }
    atomic_fetch_sub(&handling, 1);
}

void whi_dump_on_signal(wh_worker *worker) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, former;
    worker->dumps_seen = atomic_load(&asked);
    worker->dumps = true;
    for (int i = 0; i < WORKERS_MAX; i++) {
        wh_worker *none = NULL;
        if (atomic_compare_exchange_strong(&listening[i], &none, worker))
            break;
    }
    // A program that handles the signal itself goes on doing so.
    if (sigaction(SIGUSR1, NULL, &former) == 0 &&
        (former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN))
        sigaction(SIGUSR1, &action, NULL);
}

void whi_dump_if_asked(wh_worker *worker) {
    if (!worker->dumps)
        return;
    uint32_t now = atomic_load_explicit(&asked, memory_order_relaxed);
    if (now == worker->dumps_seen)
        return;
    worker->dumps_seen = now;
    // Of several workers and processes the texts shall not mix, so each goes out at once.
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    wh_worker_dump(worker, memory ? memory : stderr);
    if (memory && fclose(memory) == 0)
        fwrite(text, 1, size, stderr);
    free(text);
}

void whi_dump_forget(wh_worker *worker) {
    for (int i = 0; i < WORKERS_MAX; i++) {
        wh_worker *self = worker;
        (void)atomic_compare_exchange_strong(&listening[i], &self, NULL);
    }
    // A handler in another thread may have seen the worker; it is done in no time.
    while (worker->dumps && atomic_load(&handling))
        whi_cpu_relax();
}
