// SPDX-License-Identifier: BSD-3-Clause
//
// A program of a job: every PE talks to every other one, then the job ends with the status that it was given.
//
//     wherry run -n 8 rt-job [--status S] [--rounds R] [--exit PE] [--die PE (kill|segv|exit|stop|hang)] [--loop poll] [--fork 1]
//
// PE 0 prints how many there are, who has started them, and how long first contact with all took.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <wherry/wherry.h>

enum { NUMBER = 1, DONE };

static int status, rounds = 3, dies = -1, exits = -1, forks;
static const char *how = "", *loop = "";

typedef struct pe_state {
    int received, done;
    double begin;
} pe_state;

#define MUST(cond) ((cond) ? (void)0 : fail(#cond, __LINE__))

static void fail(const char *what, int line) {
    fprintf(stderr, "rt_job.c:%d: not so: %s\n", line, what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(void) {
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    else if (!strcmp(how, "segv"))
        raise(SIGSEGV);
    else if (!strcmp(how, "stop"))
        raise(SIGSTOP);
    else if (!strcmp(how, "hang"))
        for (;;)
            pause();
    else
        exit(3);
}

static void send_round(wh_pe *pe, int round) {
    int pes = wh_rt_pes(wh_pe_rt(pe)), me = wh_pe_number(pe);
    for (int i = 1; i <= pes; i++) {
        int to = (me + i) % pes;
        wh_status st = wh_pe_send(pe, to, NUMBER, &round, sizeof(round), &me, sizeof(me), 0);
        MUST(st == WH_OK || (st == WH_EPEER && to == dies));
    }
}

static void on_done(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)msg;
    pe_state *s = arg;
    int pes = wh_rt_pes(wh_pe_rt(pe));
    if (++s->done < pes)
        return;
    printf("%d processes, %d PEs, started by %s, %.3f s\n", wh_rt_processes(wh_pe_rt(pe)), pes,
           wh_rt_launcher(wh_pe_rt(pe)), now() - s->begin);
    wh_pe_exit(pe, status);
}

static void end_job(wh_pe *pe, void *arg) {
    (void)arg;
    wh_pe_exit(pe, status);
}

static void on_number(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    pe_state *s = arg;
    int pes = wh_rt_pes(wh_pe_rt(pe)), round, from;
    memcpy(&round, msg->head, sizeof(round));
    memcpy(&from, msg->data, sizeof(from));
    MUST(from == msg->source && msg->size == sizeof(from) && round < rounds);
    if (++s->received % pes)
        return;
    if (exits == wh_pe_number(pe) && s->received == pes)  // others shall have the time to hang
        MUST(wh_pe_after(pe, 100000, end_job, NULL, NULL) == WH_OK);
    if (dies == wh_pe_number(pe))
        die();
    if (s->received < pes * rounds)
        send_round(pe, s->received / pes);
    else
        MUST(wh_pe_send(pe, 0, DONE, NULL, 0, NULL, 0, 0) == WH_OK);
}

static void start(wh_pe *pe, void *arg) {
    pe_state *s = (pe_state *)arg + wh_pe_number(pe) % wh_rt_local_pes(wh_pe_rt(pe));
    s->begin = now();
    MUST(wh_pe_set_handler(pe, NUMBER, on_number, s) == WH_OK);
    MUST(wh_pe_set_handler(pe, DONE, on_done, s) == WH_OK);
    send_round(pe, 0);
}

// As a program with an event loop of its own does.
static void run_in_loop(wh_rt *rt, pe_state *states, int *ended) {
    wh_pe *pe;
    MUST(wh_rt_begin(rt, start, states, &pe) == WH_OK);
    MUST(wh_rt_end(rt, ended) == WH_EBUSY);
    struct pollfd fd = {.fd = wh_worker_fd(wh_pe_worker(pe)), .events = POLLIN};
    while (!wh_pe_ended(pe)) {
        int timeout_ms;
        if (!wh_pe_turn(pe) && wh_pe_arm(pe, &timeout_ms) == WH_OK)
            MUST(poll(&fd, 1, timeout_ms) >= 0);
    }
    MUST(wh_rt_end(rt, ended) == WH_OK);
}

int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--status"))
            status = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--rounds"))
            rounds = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--loop"))
            loop = argv[i + 1];
        else if (!strcmp(argv[i], "--fork"))
            forks = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--exit"))
            exits = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--die") && i + 2 < argc) {
            dies = atoi(argv[i + 1]);
            how = argv[i++ + 2];
        }
    }
    wh_rt *rt;
    int ended;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (forks) {  // a child of this process can do nothing to its job
        pid_t child = fork();
        if (child == 0) {
            wh_rt_finish(rt);
            _exit(0);
        }
        MUST(child > 0 && waitpid(child, &ended, 0) == child && ended == 0);
    }
    pe_state *states = calloc((size_t)wh_rt_local_pes(rt), sizeof(*states));
    MUST(states);
    if (*loop)
        run_in_loop(rt, states, &ended);
    else
        MUST(wh_rt_run(rt, start, states, &ended) == WH_OK);
    wh_rt_finish(rt);
    free(states);
    return ended;
}
