// SPDX-License-Identifier: BSD-3-Clause
//
// What connected but silent peers cost: CPU while they rest, memory, and the latency of the one that talks.
//
//     idle [--links N] [--seconds S] [--lane shm|stream|ucx]
//
// One child process hosts N workers that each connect to this process, which has a receive pending on every link.  For each
// way to wait that sleeps: the CPU time of so many seconds of it, and then a message on every link, which must
// reach its receive.  Then the round trip of 8 bytes to an echo process, from a worker with all those links and from
// one with that link alone, in turns.  The figures are printed; only gross excess fails, since a busy machine is no fault.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"

enum {
    HANG_MS = 120000,
    LINKS_MAX = 4000,
    DESCRIPTORS_PER_WORKER = 12,
    ROUNDS = 2000,  // round trips per turn
    WARM_UP = 10,   // turns: links are polled for a while before they count as idle
    TURNS = 15,
    CPU_MAX_PERCENT = 2,
    LATENCY_MAX_FACTOR = 5,
};
static const char *const patient[] = {"connect_timeout=2m", "handshake_timeout=2m",
                                      "close_timeout=2m", NULL};

typedef struct common {
    _Atomic int port, echo_port;
    _Atomic unsigned connected;
    _Atomic bool speak, spoken, leave;
    size_t host_rss[2];  // of the process of the peers: its workers made, and connected
} common;

static common *shared;

static wh_endpoint *connect_to(const proc_worker *w, int port) {
    wh_endpoint *ep = NULL;
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    CHECK_STATUS(wh_endpoint_connect(w->worker, address, NULL, &ep), WH_OK);
    return ep;
}

static pid_t spawn(void (*fn)(const char *lane, unsigned n), const char *lane, unsigned n) {
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        proc_alarm(3 * HANG_MS / 1000);
        fn(lane, n);
        exit(0);
    }
    return pid;
}

static void join(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
}

// ---- the process that hosts the peers: it sleeps, like a machine full of quiet programs

static proc_worker hosts[LINKS_MAX];
static wh_endpoint *host_eps[LINKS_MAX];

static void progress_hosts(unsigned links, useconds_t pause_us) {
    for (unsigned i = 0; i < links; i++)
        (void)wh_worker_progress(hosts[i].worker);
    usleep(pause_us);
}

static void host_peers(const char *lane, unsigned links) {
    proc_context("idle over %s, the %u peers", lane, links);
    while (!atomic_load(&shared->port))
        usleep(1000);
    for (unsigned i = 0; i < links; i++)
        proc_open(&hosts[i], lane, "wait", patient);
    shared->host_rss[0] = proc_rss(getpid());
    for (unsigned i = 0; i < links; i++) {
        host_eps[i] = connect_to(&hosts[i], atomic_load(&shared->port));
        while (wh_endpoint_status(host_eps[i]) == WH_PENDING)
            proc_wait(&hosts[i], 1000);
        CHECK_STATUS(wh_endpoint_status(host_eps[i]), WH_OK);
        atomic_fetch_add(&shared->connected, 1);
    }
    // The last of the handshakes; that of UCX goes on after the endpoint can be used.
    for (int pass = 0; pass < 100; pass++)
        progress_hosts(links, 1000);
    shared->host_rss[1] = proc_rss(getpid());
    while (!atomic_load(&shared->speak) && !atomic_load(&shared->leave))
        usleep(5000);
    for (uint64_t i = 0; i < links && atomic_load(&shared->speak); i++)
        CHECK_STATUS(wh_tag_send_wait(host_eps[i], &i, 8, 1, HANG_MS), WH_OK);
    atomic_store(&shared->spoken, true);
    while (!atomic_load(&shared->leave))  // UCX may still hold what has been sent
        progress_hosts(links, 5000);
    for (unsigned i = 0; i < links; i++) {
        wh_endpoint_abort(host_eps[i]);
        proc_close(&hosts[i]);
    }
}

// ---- the process in the middle

static wh_endpoint *accepted[LINKS_MAX];
static _Atomic unsigned accepted_count;

static void on_accept(wh_endpoint *ep, void *arg) {
    unsigned n = atomic_load(&accepted_count);
    (void)arg;
    CHECK(n < LINKS_MAX);
    accepted[n] = ep;
    atomic_store(&accepted_count, n + 1);
}

typedef struct pending {
    uint64_t number;
    wh_request *req;
} pending;

typedef struct middle {
    proc_worker w;
    wh_listener *listener;
    unsigned links;
    pending *receives;
    pid_t host;
    size_t rss;  // before the links came
} middle;

// open_links makes the worker in the middle and lets all peers connect.
static void open_links(middle *m, const char *lane, const char *mode, unsigned links) {
    *m = (middle){.links = links, .receives = calloc(links, sizeof(pending))};
    CHECK(m->receives);
    atomic_store(&accepted_count, 0);
    memset(shared, 0, sizeof(*shared));
    m->host = spawn(host_peers, lane, links);
    proc_open(&m->w, lane, mode, patient);
    m->rss = proc_rss(getpid());
    CHECK_STATUS(wh_listener_open(m->w.worker, "127.0.0.1:0", NULL, on_accept, NULL, &m->listener),
                 WH_OK);
    atomic_store(&shared->port, wh_listener_port(m->listener));
    uint64_t start_ms = proc_now_ms();
    while (atomic_load(&accepted_count) < links || atomic_load(&shared->connected) < links) {
        proc_wait(&m->w, 100);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    for (unsigned i = 0; i < links; i++)
        CHECK_STATUS(wh_tag_recv(accepted[i], &m->receives[i].number, 8, 1, WH_TAG_MASK_ALL, NULL,
                                 &m->receives[i].req),
                     WH_PENDING);
}

static void close_links(middle *m) {
    atomic_store(&shared->leave, true);
    wh_listener_close(m->listener);
    for (unsigned i = 0; i < m->links; i++) {
        wh_request_free(m->receives[i].req);
        wh_endpoint_abort(accepted[i]);
    }
    proc_close(&m->w);
    free(m->receives);
    join(m->host);
}

static void rest(const middle *m, uint64_t us) {
    uint64_t end_us = proc_now_us() + us;
    for (uint64_t now; (now = proc_now_us()) < end_us;) {
        if (m->w.thread)
            usleep((useconds_t)(end_us - now));
        else
            (void)!wh_worker_wait(m->w.worker, (int)((end_us - now) / 1000) + 1);
    }
}

// let_all_speak requires that a message on each of the links, cold as they are by now, reaches its receive.
static void let_all_speak(const middle *m) {
    uint64_t start_ms = proc_now_ms();
    atomic_store(&shared->speak, true);
    for (unsigned i = 0; i < m->links; i++) {
        while (wh_request_status(m->receives[i].req) == WH_PENDING) {
            proc_wait(&m->w, 1000);
            CHECK(proc_now_ms() - start_ms < HANG_MS);
        }
        CHECK_STATUS(wh_request_status(m->receives[i].req), WH_OK);
        CHECK(m->receives[i].number < m->links);
    }
}

static unsigned seconds = 10;
static const char *mode;

static void measure_rest(const char *lane, unsigned links) {
    middle m;
    proc_context("idle over %s, %s", lane, mode);
    open_links(&m, lane, mode, links);
    rest(&m, 300000);  // until the links have cooled down
    uint64_t cpu_us = proc_cpu_us(), start_us = proc_now_us();
    rest(&m, seconds * 1000000ull);
    double percent = 100.0 * (double)(proc_cpu_us() - cpu_us) / (double)(proc_now_us() - start_us);
    size_t here = proc_rss(getpid()) - m.rss, there = shared->host_rss[1] - shared->host_rss[0];
    printf("%s, %s: %u links at rest: %.3f %% of a core; per link %zu KiB here, %zu KiB there\n",
           lane, mode, links, percent, here / links / 1024, there / links / 1024);
    CHECK(percent < CPU_MAX_PERCENT);
    let_all_speak(&m);
    close_links(&m);
}

// ---- latency

static void echo(const char *lane, unsigned links) {
    proc_worker w;
    wh_listener *listener = NULL;
    proc_context("idle over %s, echo", lane);
    proc_open(&w, lane, "spin", patient);
    atomic_store(&accepted_count, 0);  // the parent has had some
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                 WH_OK);
    atomic_store(&shared->echo_port, wh_listener_port(listener));
    for (uint64_t number = 0; number != UINT64_MAX;) {
        wh_result result;
        CHECK_STATUS(
            wh_worker_tag_recv_wait(w.worker, &number, 8, 1, WH_TAG_MASK_ALL, HANG_MS, &result),
            WH_OK);
        CHECK_STATUS(wh_tag_send_wait(result.source, &number, 8, 2, HANG_MS), WH_OK);
    }
    // The last answer must be on its way before this process goes: its reader goes first.
    wh_status st =
        wh_tag_recv_wait(accepted[0], &links, sizeof(links), 3, WH_TAG_MASK_ALL, HANG_MS, NULL);
    CHECK(st == WH_EPEER || st == WH_ECLOSED);
    proc_close(&w);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof(*values), by_size);
    return values[count / 2];
}

static double now_precisely_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

// round_trip returns the median of some round trips, in microseconds.
static double round_trip(wh_endpoint *ep) {
    static double us[ROUNDS];
    for (uint64_t number = 0, answer; number < ROUNDS; number++) {
        double start_us = now_precisely_us();
        CHECK_STATUS(wh_tag_send_wait(ep, &number, 8, 1, HANG_MS), WH_OK);
        CHECK_STATUS(wh_tag_recv_wait(ep, &answer, 8, 2, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_OK);
        us[number] = now_precisely_us() - start_us;
        CHECK_INT(answer, number);
    }
    return median(us, ROUNDS);
}

static void measure_latency(const char *lane, unsigned links) {
    middle m;
    proc_worker alone;
    double with[TURNS], without[TURNS];
    proc_context("idle over %s, latency", lane);
    open_links(&m, lane, "spin", links);
    pid_t echoes = spawn(echo, lane, 0);
    while (!atomic_load(&shared->echo_port))
        usleep(1000);
    proc_open(&alone, lane, "spin", patient);
    wh_endpoint *crowded = connect_to(&m.w, atomic_load(&shared->echo_port));
    wh_endpoint *single = connect_to(&alone, atomic_load(&shared->echo_port));
    for (int i = 0; i < WARM_UP; i++)
        (void)round_trip(crowded);
    for (int i = 0; i < TURNS; i++) {
        with[i] = round_trip(crowded);
        without[i] = round_trip(single);
    }
    double crowded_us = median(with, TURNS), single_us = median(without, TURNS);
    double factor = crowded_us / single_us;
    printf("%s: round trip of 8 bytes %.2f us beside %u idle links, %.2f us without: %.2fx\n", lane,
           crowded_us, links, single_us, factor);
    uint64_t last = UINT64_MAX;
    CHECK_STATUS(wh_tag_send_wait(crowded, &last, 8, 1, HANG_MS), WH_OK);
    CHECK_STATUS(wh_tag_recv_wait(crowded, &last, 8, 2, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_OK);
    wh_endpoint_abort(crowded);
    wh_endpoint_abort(single);
    proc_close(&alone);
    close_links(&m);
    join(echoes);
    fflush(stdout);
    CHECK(factor < LATENCY_MAX_FACTOR);
}

int main(int argc, char **argv) {
    static const char *const modes[] = {"wait", "adaptive", "thread"};
    unsigned links = 1000;
    const char *lane = "shm";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--links"))
            links = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--lane"))
            lane = argv[i + 1];
    }
    if (!proc_has_lane(lane))
        return 77;
    CHECK(links >= 1 && links <= LINKS_MAX - 2 && seconds >= 1);
    if (!proc_raise_descriptors(links * DESCRIPTORS_PER_WORKER + 200)) {
        printf("skipped: not enough descriptors are allowed for %u workers\n", links);
        return 77;
    }
    shared = proc_map(sizeof(*shared));
    // Each in a process of its own, so that the memory of one is not the other's.
    for (int i = 0; i < 3; i++) {
        mode = modes[i];
        join(spawn(measure_rest, lane, links));
    }
    join(spawn(measure_latency, lane, links));
    return 0;
}
