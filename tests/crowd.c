// SPDX-License-Identifier: BSD-3-Clause
//
// A crowd: hundreds of processes that connect to one receiver at the same moment all get in and are all served.
//
//     crowd [--lane shm|stream] [--senders N]
//
// The senders are started first and wait at a barrier.  Each then connects, sends its numbered messages and one large one,
// and closes.  The receiver takes them from any source and must see each sender's messages whole, once and in order, and
// the end of each.
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

// Generous, because two cores may have to run all of it.
enum { HANG_MS = 120000, SENDERS_MAX = 2000, MESSAGES = 20, LARGE = 100000 };
static const char *const patient[] = {"connect_timeout=2m", "handshake_timeout=2m",
                                      "close_timeout=2m", NULL};

typedef struct common {
    _Atomic int port, ready;
    _Atomic bool go;
} common;

static void run_sender(const char *lane, uint64_t number, common *shared) {
    proc_worker w;
    wh_endpoint *ep = NULL;
    char address[32];
    static char large[LARGE];
    proc_context("crowd over %s, sender %d", lane, (int)number);
    proc_alarm(2 * HANG_MS / 1000);
    proc_open(&w, lane, "wait", patient);
    proc_fill(large, LARGE, number);
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        usleep(2000);
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&shared->port));
    CHECK_STATUS(wh_endpoint_connect_wait(w.worker, address, NULL, &ep), WH_OK);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        uint64_t message = number << 32 | i;
        CHECK_STATUS(wh_tag_send_wait(ep, &message, 8, 1, HANG_MS), WH_OK);
    }
    CHECK_STATUS(wh_tag_send_wait(ep, large, LARGE, 2, HANG_MS), WH_OK);
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
    proc_close(&w);
}

// ---- the receiver

static wh_endpoint *accepted[SENDERS_MAX];
static unsigned accepted_count, ended_count;

static void on_lost(wh_endpoint *ep, wh_status status, void *arg) {
    (void)ep, (void)arg;
    CHECK_STATUS(status, WH_ECLOSED);
    ended_count++;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    CHECK(accepted_count < SENDERS_MAX);
    accepted[accepted_count++] = ep;
    CHECK_STATUS(wh_endpoint_on_lost(ep, on_lost, NULL), WH_OK);
}

static void receive(const proc_worker *w, unsigned senders) {
    static uint32_t next[SENDERS_MAX];
    static bool large_came[SENDERS_MAX];
    static char large[LARGE];
    for (unsigned i = 0; i < senders * MESSAGES; i++) {
        uint64_t message = 0;
        CHECK_STATUS(
            wh_worker_tag_recv_wait(w->worker, &message, 8, 1, WH_TAG_MASK_ALL, HANG_MS, NULL),
            WH_OK);
        uint64_t number = message >> 32;
        CHECK(number < senders);
        CHECK_INT((uint32_t)message, next[number]++);
    }
    for (unsigned i = 0; i < senders; i++) {
        CHECK_STATUS(
            wh_worker_tag_recv_wait(w->worker, large, LARGE, 2, WH_TAG_MASK_ALL, HANG_MS, NULL),
            WH_OK);
        uint64_t number;
        memcpy(&number, large, 8);
        CHECK(number < senders && !large_came[number] && proc_same(large, LARGE, number));
        large_came[number] = true;
    }
}

static void run_receiver(const char *lane, unsigned senders, common *shared) {
    proc_worker w;
    wh_listener *listener = NULL;
    proc_open(&w, lane, "wait", patient);
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                 WH_OK);
    atomic_store(&shared->port, wh_listener_port(listener));
    uint64_t start_ms = proc_now_ms();
    while (atomic_load(&shared->ready) < (int)senders) {
        usleep(2000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    start_ms = proc_now_ms();
    atomic_store(&shared->go, true);
    receive(&w, senders);
    while (ended_count < senders) {
        proc_wait(&w, 1000);
        CHECK(proc_now_ms() - start_ms < 2 * HANG_MS);
    }
    CHECK_INT(accepted_count, senders);
    for (unsigned i = 0; i < senders; i++)
        CHECK_STATUS(wh_endpoint_close_wait(accepted[i], HANG_MS), WH_OK);
    printf("%s: %u senders at once, all served after %.1f s\n", lane, senders,
           (double)(proc_now_ms() - start_ms) / 1000);
    wh_listener_close(listener);
    proc_close(&w);
}

int main(int argc, char **argv) {
    unsigned senders = 300;
    const char *lane = "shm";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--senders"))
            senders = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--lane"))
            lane = argv[i + 1];
    }
    CHECK(senders >= 1 && senders <= SENDERS_MAX);
    if (!proc_raise_descriptors(senders * 4 + 200)) {
        printf("skipped: not enough descriptors are allowed for %u links\n", senders);
        return 77;
    }
    common *shared = proc_map(sizeof(*shared));
    for (unsigned i = 0; i < senders; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            run_sender(lane, i, shared);
            exit(0);
        }
    }
    proc_context("crowd over %s, receiver", lane);
    proc_alarm(3 * HANG_MS / 1000);
    run_receiver(lane, senders, shared);
    bool ok = true;
    for (unsigned i = 0; i < senders; i++) {
        int status;
        CHECK(wait(&status) > 0);
        ok = ok && status == 0;
    }
    return ok ? 0 : 1;
}
