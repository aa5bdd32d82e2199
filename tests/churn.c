// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting and closing leaves nothing behind: memory and descriptors of both processes stay where they were.
//
//     churn [--cycles N] [--lane shm|stream]
//
// A cycle: the client connects, a message goes each way, the client closes, the server reads the end of the stream and
// closes.  Every second cycle the client makes a new worker and context for it.  The first tenth warms up; from
// there to the end descriptors may not grow at all, and memory only by less than a few bytes per cycle.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

enum { HANG_MS = 60000, GROWTH_MAX = 1 << 20, HEAP_GROWTH_MAX = 128 << 10 };

static _Atomic int *port;  // shared with the child

typedef struct usage {
    int descriptors;
    size_t resident, heap;  // bytes
} usage;

static usage usage_now(void) {
    return (usage){proc_descriptors(), proc_rss(getpid()), mallinfo2().uordblks};
}

// check_flat compares with the beginning.  The last link may still be closing: descriptors get some time.
static void check_flat(const char *who, const usage *before, const proc_worker *w,
                       unsigned cycles) {
    uint64_t start_ms = proc_now_ms();
    usage now = usage_now();
    while (now.descriptors > before->descriptors && proc_now_ms() - start_ms < HANG_MS) {
        proc_wait(w, 10);
        now = usage_now();
    }
    long grown = (long)now.resident - (long)before->resident;
    long heap = (long)now.heap - (long)before->heap;
    printf(
        "  %s: %d descriptors, then %d; over %u cycles %+ld KiB resident, %+ld bytes allocated\n",
        who, before->descriptors, now.descriptors, cycles, grown / 1024, heap);
    fflush(stdout);
    CHECK(now.descriptors <= before->descriptors);
    CHECK(grown < GROWTH_MAX && heap < HEAP_GROWTH_MAX);
}

// ---- the server

static wh_endpoint *accepted;

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    CHECK(!accepted);
    accepted = ep;
}

static void serve_one(const proc_worker *w) {
    uint64_t start_ms = proc_now_ms(), number;
    while (!accepted) {
        proc_wait(w, 1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    wh_endpoint *ep = accepted;
    accepted = NULL;
    CHECK_STATUS(wh_tag_recv_wait(ep, &number, 8, 1, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_OK);
    CHECK_STATUS(wh_tag_send_wait(ep, &number, 8, 2, HANG_MS), WH_OK);
    CHECK_STATUS(wh_tag_recv_wait(ep, &number, 8, 1, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_ECLOSED);
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
}

static void serve(const char *lane, unsigned cycles) {
    proc_worker w;
    wh_listener *listener = NULL;
    usage before = {0};
    proc_context("churn over %s, server", lane);
    proc_open(&w, lane, "wait", NULL);
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                 WH_OK);
    atomic_store(port, wh_listener_port(listener));
    for (unsigned i = 0; i < cycles; i++) {
        if (i == cycles / 10)
            before = usage_now();
        serve_one(&w);
    }
    check_flat("server", &before, &w, cycles - cycles / 10);
    wh_listener_close(listener);
    proc_close(&w);
}

// ---- the client

static void visit(const proc_worker *w, uint64_t number) {
    char address[32];
    uint64_t answer = 0;
    wh_endpoint *ep = NULL;
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(port));
    CHECK_STATUS(
        wh_endpoint_connect_wait(w->worker, address, WH_ENDPOINT_OPTS(.timeout_ms = HANG_MS), &ep),
        WH_OK);
    CHECK_STATUS(wh_tag_send_wait(ep, &number, 8, 1, HANG_MS), WH_OK);
    CHECK_STATUS(wh_tag_recv_wait(ep, &answer, 8, 2, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_OK);
    CHECK_INT(answer, number);
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
}

static void visit_often(const char *lane, unsigned cycles) {
    proc_worker kept, fresh;
    usage before = {0};
    proc_context("churn over %s, client", lane);
    proc_open(&kept, lane, "wait", NULL);
    while (!atomic_load(port))
        usleep(1000);
    for (unsigned i = 0; i < cycles; i++) {
        proc_alarm(2 * HANG_MS / 1000);
        if (i == cycles / 10)
            before = usage_now();
        if (i % 2) {
            proc_open(&fresh, lane, "wait", NULL);
            visit(&fresh, i);
            proc_close(&fresh);
        } else {
            visit(&kept, i);
        }
    }
    check_flat("client", &before, &kept, cycles - cycles / 10);
    proc_close(&kept);
}

static bool run(const char *lane, unsigned cycles) {
    uint64_t start_ms = proc_now_ms();
    atomic_store(port, 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        visit_often(lane, cycles);
        exit(0);
    }
    serve(lane, cycles);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("%s: %u cycles, %.1f s\n", lane, cycles, (double)(proc_now_ms() - start_ms) / 1000);
    return status == 0;
}

int main(int argc, char **argv) {
    static const char *const lanes[] = {"shm", "stream"};
    unsigned cycles = 1000;
    const char *only = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--cycles"))
            cycles = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--lane"))
            only = argv[i + 1];
    }
    port = proc_map(sizeof(*port));
    bool ok = true;
    for (int i = 0; i < 2; i++)
        if (strstr(lanes[i], only))
            ok = run(lanes[i], cycles) && ok;
    return ok ? 0 : 1;
}
