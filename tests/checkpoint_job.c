// SPDX-License-Identifier: BSD-3-Clause
//
// A job that counts rounds and writes a checkpoint after each; started again, it goes on from the last one.
//
//     checkpoint-job FOLDER ROUNDS [KILL_US]     process 1 is killed after so many microseconds of its first round
//
// It prints the round that it begins with and the one that it ends with.  All elements of a checkpoint are of the same round.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <wherry/wherry.h>

enum { COUNTERS = 60, BULK = 20000 };

static struct {
    const char *folder;
    int rounds;
    long kill_us;
    int64_t round;  // of PE 0
    bool begun;
    wh_proxy counters;
} job;

typedef struct counter {
    int64_t round;
    char bulk[BULK];
} counter;

static void must(wh_pe *pe, const char *what, wh_status status) {
    if (status == WH_OK)
        return;
    fprintf(stderr, "checkpoint-job: %s: %s\n", what, wh_status_text(status));
    wh_pe_exit(pe, 1);
}

static wh_callback to(const char *function) {
    return (wh_callback){
        .kind = WH_CALLBACK_FUNCTION, .function = wh_function_id(function), .pe = 0};
}

static size_t pack(wh_chare *self, void *to_bytes) {
    if (to_bytes)
        memcpy(to_bytes, self->state, sizeof(counter));
    return sizeof(counter);
}

static wh_status unpack(wh_chare *self, const void *data, size_t size) {
    if (size != sizeof(counter))
        return WH_EPROTOCOL;
    memcpy(self->state, data, size);
    return WH_OK;
}

// report contributes the smallest and, negative, the largest round.
static void report(wh_chare *self) {
    const counter *c = self->state;
    for (int i = 0; i < BULK; i++)
        if (c->bulk[i] != (char)c->round)
            must(self->pe, "bytes of a counter", WH_EPROTOCOL);
    const int64_t range[2] = {c->round, -c->round};
    wh_contribution part = {.reducer = WH_REDUCER_OP,
                            .op = WH_REDUCE_MIN,
                            .type = WH_TYPE_INT64,
                            .data = range,
                            .count = 2};
    wh_callback callback = to("counted");
    must(self->pe, "contribute", wh_contribute(self, &part, 1, sizeof(part), &callback));
}

enum { COUNT, TELL };  // entries

static void count(wh_chare *self, const wh_call *call) {
    (void)call;
    counter *c = self->state;
    c->round++;
    memset(c->bulk, (char)c->round, BULK);
    report(self);
}

static void tell(wh_chare *self, const wh_call *call) {
    (void)call;
    report(self);
}

static const wh_entry entries[] = {
    [COUNT] = {.name = "count", .fn = count}, [TELL] = {.name = "tell", .fn = tell}};
static const wh_class counter_class = {.size = sizeof(wh_class),
                                       .name = "counter",
                                       .state = sizeof(counter),
                                       .pack = pack,
                                       .unpack = unpack,
                                       .entries = entries,
                                       .entry_count = 2,
                                       .entry_size = sizeof(wh_entry)};

// ---- PE 0.

static void next_round(wh_pe *pe) {
    must(pe, "send", wh_chare_send(pe, job.counters, COUNT, NULL, 0, NULL));
}

static void on_counted(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    int64_t range[2];
    memcpy(range, call->args, sizeof(range));
    if (range[0] != -range[1])
        must(pe, "rounds of counters differ", WH_EPROTOCOL);
    job.round = range[0];
    if (!job.begun) {
        job.begun = true;
        printf("from %lld\n", (long long)job.round);
        fflush(stdout);
        next_round(pe);
        return;
    }
    wh_callback callback = to("written");
    must(pe, "checkpoint", wh_checkpoint_write(pe, job.folder, &callback));
}

static wh_status status_of(const wh_call *call) {
    int32_t status = WH_EPROTOCOL;
    if (call->size == sizeof(status))
        memcpy(&status, call->args, sizeof(status));
    return (wh_status)status;
}

static void on_written(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    must(pe, "write", status_of(call));
    if (--job.rounds > 0) {
        next_round(pe);
        return;
    }
    printf("to %lld\n", (long long)job.round);
    wh_pe_exit(pe, 0);
}

static void on_read(wh_pe *pe, const wh_call *call, void *arg) {
    (void)arg;
    must(pe, "read", status_of(call));
    must(pe, "send", wh_chare_send(pe, job.counters, TELL, NULL, 0, NULL));
}

static void begin(wh_pe *pe) {
    wh_callback callback = to("read");
    wh_status st = wh_checkpoint_read(pe, job.folder, &callback);
    // It was the first collection of PE 0, which is how this program knows its proxy.
    FILE *file = fopen("proxy", "rb");
    if (st == WH_OK && (!file || fread(&job.counters, sizeof(job.counters), 1, file) != 1))
        st = WH_ESYSTEM;
    if (file)
        fclose(file);
    if (st != WH_ENOTFOUND) {
        must(pe, "read", st);
        return;
    }
    must(pe, "array",
         wh_array_create(pe, "counter", WH_ARRAY_OPTS(.dims = 1, .shape = {COUNTERS}), NULL, 0,
                         &job.counters));
    if (!(file = fopen("proxy", "wb")) ||
        fwrite(&job.counters, sizeof(job.counters), 1, file) != 1 || fclose(file) != 0)
        must(pe, "proxy", WH_ESYSTEM);
    must(pe, "send", wh_chare_send(pe, job.counters, TELL, NULL, 0, NULL));
}

static void on_alarm(int number) {
    (void)number;
    raise(SIGKILL);
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    must(pe, "class", wh_class_register(pe, &counter_class));
    must(pe, "function", wh_function_register(pe, "counted", on_counted, NULL));
    must(pe, "function", wh_function_register(pe, "written", on_written, NULL));
    must(pe, "function", wh_function_register(pe, "read", on_read, NULL));
    if (wh_pe_number(pe) == 0)
        begin(pe);
    if (wh_pe_number(pe) == 1 && job.kill_us) {
        signal(SIGALRM, on_alarm);
        struct itimerval when = {
            .it_value = {.tv_sec = job.kill_us / 1000000, .tv_usec = job.kill_us % 1000000}};
        setitimer(ITIMER_REAL, &when, NULL);
    }
}

int main(int argc, char **argv) {
    wh_rt *rt;
    int status = 1;
    if (argc < 3)
        return 2;
    job.folder = argv[1];
    job.rounds = atoi(argv[2]);
    job.kill_us = argc > 3 ? atol(argv[3]) : 0;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
