// SPDX-License-Identifier: BSD-3-Clause
//
// Unexpected messages by the hundred thousand: the receiver's memory stays bounded, nothing is lost, all stay in order.
//
//     unexpected [--messages N] [--lane shm|stream|ucx] [--ucx DIR,DIR]
//
// The sender starts all of its messages at once, of several sizes, while the receiver only progresses: what it then
// holds is the endpoint's credit and the allowed announcements, however many are waiting.  Then it receives them by a tag that all
// share, so that each must be the one that is next, and looks at every byte.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"
#include "ucx_choice.h"

enum {
    HANG_MS = 300000,
    CREDIT = 256 << 10,     // bytes of eager messages, each counted with 64 more
    ANNOUNCE_MAX = 65536,   // and messages of which there is only the announcement
    GROWTH_MAX = 64 << 20,  // bytes of memory that those may cost
    QUIET_MS = 1000,        // no message has come for so long: no more will
    LARGEST = 9000 / 8,     // words of the largest message, which is never eager
};

typedef struct common {
    _Atomic int port;
    _Atomic bool started;  // all messages
} common;

// words_of gives each message its size; message i holds the numbers from i on.
static size_t words_of(uint64_t i) {
    return i % 1000 == 999 ? LARGEST : i % 100 == 99 ? 1024 : i % 10 == 9 ? 64 : 1;
}

// ---- the sender

static void run_sender(const char *lane, uint64_t messages, common *shared) {
    proc_worker w;
    wh_endpoint *ep = NULL;
    char address[32];
    proc_context("%llu unexpected messages over %s, sender", (unsigned long long)messages, lane);
    proc_alarm(2 * HANG_MS / 1000);
    proc_role(0);
    proc_open(&w, lane, "wait", NULL);
    uint64_t *numbers = malloc((messages + LARGEST) * sizeof(*numbers));
    CHECK(numbers);
    for (uint64_t i = 0; i < messages + LARGEST; i++)
        numbers[i] = i;
    while (!atomic_load(&shared->port))
        usleep(1000);
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&shared->port));
    CHECK_STATUS(wh_endpoint_connect_wait(w.worker, address, NULL, &ep), WH_OK);
    for (uint64_t i = 0; i < messages; i++) {
        wh_status st = wh_tag_send(ep, &numbers[i], words_of(i) * 8, 1, NULL, NULL);
        CHECK(st == WH_OK || st == WH_PENDING);
    }
    atomic_store(&shared->started, true);
    // An orderly close comes after all messages.
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
    proc_close(&w);
    free(numbers);
}

// ---- the receiver

static void on_accept(wh_endpoint *ep, void *arg) {
    *(wh_endpoint **)arg = ep;
}

static uint64_t unexpected(const proc_worker *w) {
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_STATUS(wh_worker_counters(w->worker, &counters), WH_OK);
    return counters.unexpected;
}

// let_pile_up progresses until the sender has started all and no more comes; returns how many have come.
static uint64_t let_pile_up(const proc_worker *w, const common *shared) {
    uint64_t last = 0, since_ms = proc_now_ms(), start_ms = since_ms;
    while (proc_now_ms() - since_ms < QUIET_MS) {
        bool started = atomic_load(&shared->started);
        proc_wait(w, 10);
        uint64_t now = unexpected(w);
        if (now != last || !started)
            since_ms = proc_now_ms();
        last = now;
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    return last;
}

static void receive_all(wh_endpoint *ep, uint64_t messages) {
    static uint64_t words[LARGEST];
    wh_result result;
    for (uint64_t i = 0; i < messages; i++) {
        CHECK_STATUS(
            wh_tag_recv_wait(ep, words, sizeof(words), 1, WH_TAG_MASK_ALL, HANG_MS, &result),
            WH_OK);
        CHECK_INT(words[0], i);
        CHECK_INT(result.size, words_of(i) * 8);
        for (size_t k = 1; k < words_of(i); k++)
            CHECK_INT(words[k], i + k);
    }
    CHECK_STATUS(wh_tag_recv_wait(ep, words, 8, 1, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_ECLOSED);
}

static void run_receiver(const char *lane, uint64_t messages, common *shared) {
    proc_worker w;
    wh_listener *listener = NULL;
    wh_endpoint *ep = NULL;
    uint64_t start_ms = proc_now_ms();
    proc_context("%llu unexpected messages over %s, receiver", (unsigned long long)messages, lane);
    proc_alarm(2 * HANG_MS / 1000);
    proc_role(1);
    proc_open(&w, lane, "wait", NULL);
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, &ep, &listener), WH_OK);
    atomic_store(&shared->port, wh_listener_port(listener));
    while (!ep) {
        proc_wait(&w, 100);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    size_t before = proc_rss(getpid());
    uint64_t came = let_pile_up(&w, shared);
    size_t after = proc_rss(getpid());
    receive_all(ep, messages);
    printf("%s: of %llu messages %llu came before they were received, for %zu KiB; all in order, "
           "%.1f s\n",
           lane, (unsigned long long)messages, (unsigned long long)came,
           (after > before ? after - before : 0) / 1024, (double)(proc_now_ms() - start_ms) / 1000);
    // Each eager message costs its credit, so all that came fits into both bounds, and where there is more, it is used up.
    CHECK(came <= CREDIT / (8 + 64) + ANNOUNCE_MAX && (came >= messages || came >= ANNOUNCE_MAX));
    CHECK(after < before + GROWTH_MAX);
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
    wh_listener_close(listener);
    proc_close(&w);
}

static pid_t start(void (*fn)(const char *lane, uint64_t messages, common *shared),
                   const char *lane, uint64_t messages, common *shared) {
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid)
        return pid;
    fn(lane, messages, shared);
    exit(0);
}

int main(int argc, char **argv) {
    uint64_t messages = 100000;
    const char *lane = "shm";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--messages"))
            messages = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--lane"))
            lane = argv[i + 1];
        else if (!strcmp(argv[i], "--ucx"))
            ucx_choose(argv[i + 1]);
    }
    if (!proc_has_lane(lane))
        return 77;
    common *shared = proc_map(sizeof(*shared));
    pid_t pids[] = {start(run_receiver, lane, messages, shared),
                    start(run_sender, lane, messages, shared)};
    bool ok = true;
    for (int left = 2; left > 0; left--) {
        int status;
        CHECK(wait(&status) > 0);
        if (status != 0 && ok)
            for (int i = 0; i < 2; i++)
                kill(pids[i], SIGKILL);
        ok = ok && status == 0;
    }
    return ok ? 0 : 1;
}
