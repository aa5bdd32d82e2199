// SPDX-License-Identifier: BSD-3-Clause
//
// A map over tasks of very different length, whose workers steal from each other; start it with `wherry run -n 4 steal 400`.
//
// A task may be at work or on its way to a thief, so that no worker knows when all are done: a detector does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum { TASKS_MAX = 100000, RETRY_US = 200 };

static int tasks_of_job = 200;  // the same in all processes

static void must(wh_pe *pe, wh_status status, const char *what) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "steal: %s: %s\n", what, wh_status_text(status));
    wh_pe_exit(pe, 1);
}

// The task: what it takes grows with n, so the last tasks are the long ones.
static int64_t primes_below(int64_t n) {
    int64_t count = 0;
    for (int64_t k = 2; k < n; k++) {
        int64_t d = 2;
        while (d * d <= k && k % d)
            d++;
        count += d * d > k;
    }
    return count;
}

typedef struct worker {
    wh_detector detector;
    int32_t *tasks;
    int count;
    int victim;  // the one asked last
    int64_t done, stolen, primes;
    bool over;
} worker;

#define WORKER_ENTRIES(ENTRY)                                                                      \
    ENTRY(worker, start, 0)                                                                        \
    ENTRY(worker, step, 0)                                                                         \
    ENTRY(worker, steal, 0)                                                                        \
    ENTRY(worker, give, 0)                                                                         \
    ENTRY(worker, report, 0)

static void worker_end(wh_chare *self) {
    free(((worker *)self->state)->tasks);
}

WH_CLASS(worker, WORKER_ENTRIES, .state = sizeof(worker), .destruct = worker_end);

static void call(wh_chare *self, int pe, unsigned entry, const void *args, size_t size) {
    wh_proxy to = wh_proxy_at(self->proxy, 1, &(int32_t){pe});
    must(self->pe, wh_chare_send(self->pe, to, entry, args, size, NULL), "a call");
}

static void take(wh_chare *self, const int32_t *tasks, int count) {
    worker *w = self->state;
    memcpy(w->tasks + w->count, tasks, (size_t)count * sizeof(*tasks));
    w->count += count;
    // A message to itself, so that a thief's comes in between.
    call(self, self->proxy.index[0], worker_step_entry, NULL, 0);
}

static void ask_next(wh_pe *pe, void *arg) {
    wh_chare *self = arg;
    worker *w = self->state;
    int pes = wh_rt_pes(wh_pe_rt(pe)), me = self->proxy.index[0];
    if (w->over || pes == 1)
        return;
    do
        w->victim = (w->victim + 1) % pes;
    while (w->victim == me);
    call(self, w->victim, worker_steal_entry, &self->proxy.index[0], sizeof(int32_t));
}

// ---- The entries.

static void worker_start(wh_chare *self, const wh_call *msg) {
    worker *w = self->state;
    int pes = wh_rt_pes(wh_pe_rt(self->pe)), me = self->proxy.index[0];
    int first = tasks_of_job / pes * me,
        last = me + 1 < pes ? first + tasks_of_job / pes : tasks_of_job;
    memcpy(&w->detector, msg->args, sizeof(w->detector));
    w->victim = me;
    w->tasks = malloc(TASKS_MAX * sizeof(*w->tasks));
    if (!w->tasks) {
        must(self->pe, WH_ENOMEM, "tasks");
        return;
    }
    for (int i = first; i < last; i++)
        w->tasks[w->count++] = i;
    must(self->pe, wh_detector_produce(self->pe, w->detector, (uint64_t)w->count), "tasks");
    must(self->pe, wh_detector_done(self->pe, w->detector), "tasks");
    call(self, me, worker_step_entry, NULL, 0);
}

static void worker_step(wh_chare *self, const wh_call *msg) {
    worker *w = self->state;
    (void)msg;
    if (!w->count) {
        ask_next(self->pe, self);
        return;
    }
    w->primes += primes_below(10 * (int64_t)w->tasks[--w->count]);
    w->done++;
    must(self->pe, wh_detector_consume(self->pe, w->detector, 1), "a task");
    call(self, self->proxy.index[0], worker_step_entry, NULL, 0);
}

static void worker_steal(wh_chare *self, const wh_call *msg) {
    worker *w = self->state;
    int32_t thief;
    memcpy(&thief, msg->args, sizeof(thief));
    int half = (w->count + 1) / 2;
    w->count -= half;
    call(self, thief, worker_give_entry, w->tasks ? w->tasks + w->count : NULL,
         (size_t)half * sizeof(*w->tasks));
}

static void worker_give(wh_chare *self, const wh_call *msg) {
    worker *w = self->state;
    int count = (int)(msg->size / sizeof(*w->tasks));
    w->stolen += count;
    if (count)
        take(self, msg->args, count);
    else  // the next one, when others have had the time to do something
        must(self->pe, wh_pe_after(self->pe, RETRY_US, ask_next, self, NULL), "a timer");
}

static void worker_report(wh_chare *self, const wh_call *msg) {
    worker *w = self->state;
    int64_t found[] = {w->done, w->stolen, w->primes};
    wh_contribution sum = {.reducer = WH_REDUCER_OP,
                           .op = WH_REDUCE_SUM,
                           .type = WH_TYPE_INT64,
                           .data = found,
                           .count = 3};
    wh_callback to = {.kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("result")};
    (void)msg;
    w->over = true;
    must(self->pe, wh_contribute(self, &sum, 1, sizeof(sum), &to), "the result");
}

// ---- The program.

static wh_proxy workers;  // of PE 0

static void all_done(wh_pe *pe, wh_status status, void *arg) {
    (void)arg;
    must(pe, status, "the detector");
    must(pe, wh_chare_send(pe, workers, worker_report_entry, NULL, 0, NULL), "a call");
}

static void result(wh_pe *pe, const wh_call *msg, void *arg) {
    int64_t found[3], primes = 0;
    (void)arg;
    memcpy(found, msg->args, sizeof(found));
    for (int i = 0; i < tasks_of_job; i++)
        primes += primes_below(10 * (int64_t)i);
    bool good = found[0] == tasks_of_job && found[2] == primes;
    printf("%lld tasks on %d PEs, %lld of them stolen: %s\n", (long long)found[0],
           wh_rt_pes(wh_pe_rt(pe)), (long long)found[1], good ? "right" : "WRONG");
    wh_pe_exit(pe, good ? 0 : 1);
}

static void start(wh_pe *pe, void *arg) {
    wh_detector detector;
    (void)arg;
    must(pe, wh_class_register(pe, &worker_class), "the class");
    must(pe, wh_function_register(pe, "result", result, NULL), "the function");
    if (wh_pe_number(pe) != 0)
        return;
    // Each worker is a producer: of the tasks that it begins with.
    uint32_t pes = (uint32_t)wh_rt_pes(wh_pe_rt(pe));
    must(pe, wh_group_create(pe, "worker", NULL, 0, &workers), "the workers");
    must(pe, wh_detector_create(pe, pes, all_done, NULL, &detector), "the detector");
    must(pe, wh_chare_send(pe, workers, worker_start_entry, &detector, sizeof(detector), NULL),
         "a call");
}

int main(int argc, char **argv) {
    wh_rt *rt;
    int status = 1;
    if (argc > 1)
        tasks_of_job = atoi(argv[1]);
    if (tasks_of_job < 1 || tasks_of_job > TASKS_MAX) {
        fprintf(stderr, "usage: steal [TASKS], from 1 to %d\n", TASKS_MAX);
        return 2;
    }
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
