// SPDX-License-Identifier: BSD-3-Clause
//
// Connections that come to nothing: each attempt ends with an error, soon, and never hangs.
//
//     refused [--rounds N] [--seed S]
//
// What the client meets is drawn from the seed: a port where nobody listens, one that closes at once, with a reset, after
// some garbage, or a little later, and a listener of Wherry's that goes away at that very moment.  The connect timeout
// is far longer than any of these takes, so WH_ETIMEDOUT means that an end was missed.  Operations that were started
// before must end with the connection.  WHERRY_SEED=n repeats round n.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

enum { HANG_MS = 60000 };

typedef enum meeting { NOBODY, CLOSES, RESETS, GARBAGE, LATER, LEAVES, MEETINGS } meeting;
static const char *const meeting_names[] = {"nobody listens",     "closes at once",
                                            "resets at once",     "sends garbage and closes",
                                            "closes a bit later", "a listener that leaves"};
static const char *const modes[] = {"wait", "spin", "adaptive", "thread"};

typedef struct round {
    uint64_t seed;
    meeting meeting;
    const char *mode;
    bool waits;  // the blocking call; else operations are started at once
    unsigned delay_us;
} round_of;

static _Atomic int *port;  // of what the other process offers

static round_of make_round(uint64_t seed) {
    uint64_t state = seed;
    round_of r = {.seed = seed};
    r.meeting = (meeting)(seed % MEETINGS);
    r.mode = modes[seed / MEETINGS % 4];
    r.waits = proc_below(&state, 2);
    r.delay_us = (unsigned)proc_below(&state, 3000);
    return r;
}

// ---- the other side

static int listen_somewhere(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, size) == 0);
    CHECK(listen(fd, 16) == 0 && getsockname(fd, (struct sockaddr *)&addr, &size) == 0);
    atomic_store(port, ntohs(addr.sin_port));
    return fd;
}

// A port is kept bound, not listening, so that nobody else can get it meanwhile.
static void offer_nothing(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, size) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&addr, &size) == 0);
    atomic_store(port, ntohs(addr.sin_port));
    pause();
}

static void offer_socket(const round_of *r) {
    static const char garbage[200] = "GET / HTTP/1.0\r\n";
    int fd = listen_somewhere();
    for (;;) {
        int got = accept(fd, NULL, NULL);
        CHECK(got >= 0);
        if (r->meeting == RESETS) {
            struct linger linger = {.l_onoff = 1};
            CHECK(setsockopt(got, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
        }
        if (r->meeting == GARBAGE)
            (void)!write(got, garbage, r->delay_us % sizeof(garbage));
        if (r->meeting == LATER)
            usleep(r->delay_us);
        close(got);
    }
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    wh_endpoint_abort(ep);
}

static void offer_listener(const round_of *r) {
    proc_worker w;
    wh_listener *listener = NULL;
    proc_open(&w, "shm,stream", "wait", NULL);
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                 WH_OK);
    atomic_store(port, wh_listener_port(listener));
    uint64_t end_us = proc_now_us() + r->delay_us;
    while (proc_now_us() < end_us)
        (void)wh_worker_progress(w.worker);
    if (r->seed % 2)
        wh_listener_close(listener);
    proc_close(&w);
    exit(0);
}

static pid_t offer(const round_of *r) {
    atomic_store(port, 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(2 * HANG_MS / 1000);
        if (r->meeting == NOBODY)
            offer_nothing();
        else if (r->meeting == LEAVES)
            offer_listener(r);
        else
            offer_socket(r);
        exit(0);
    }
    while (!atomic_load(port))
        usleep(100);
    return pid;
}

// ---- the client

// may_be says whether an attempt may end so.  A listener that leaves may have been quick enough to accept.
static bool may_be(const round_of *r, wh_status st) {
    if (r->meeting == NOBODY)
        return st == WH_EREFUSED;
    return st < 0 && st != WH_ETIMEDOUT;
}

static void wait_end(const proc_worker *w, wh_request *req, const round_of *r) {
    uint64_t start_ms = proc_now_ms();
    while (wh_request_status(req) == WH_PENDING) {
        proc_wait(w, 1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    wh_status st = wh_request_status(req);
    if (!may_be(r, st) && !(r->meeting == LEAVES && st == WH_OK))
        proc_fail(__FILE__, __LINE__, "an operation has ended with %s", wh_status_name(st));
    wh_request_free(req);
}

static void attempt(const proc_worker *w, const round_of *r) {
    const wh_endpoint_opts *opts = WH_ENDPOINT_OPTS(.timeout_ms = HANG_MS);
    char address[32];
    wh_endpoint *ep = NULL;
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(port));
    if (r->waits) {
        wh_status st = wh_endpoint_connect_wait(w->worker, address, opts, &ep);
        if (!may_be(r, st) && !(r->meeting == LEAVES && st == WH_OK))
            proc_fail(__FILE__, __LINE__, "the attempt has ended with %s", wh_status_name(st));
        if (st != WH_OK)
            return;
    } else {
        CHECK_STATUS(wh_endpoint_connect(w->worker, address, opts, &ep), WH_OK);
    }
    char buf[8] = "message";
    wh_request *send = NULL, *recv = NULL;
    if (wh_tag_send(ep, buf, 8, 1, WH_OP_OPTS(.flags = WH_OP_SYNC), &send) == WH_PENDING)
        wait_end(w, send, r);
    if (wh_tag_recv(ep, buf, 8, 1, WH_TAG_MASK_ALL, NULL, &recv) == WH_PENDING)
        wait_end(w, recv, r);
    wh_endpoint_abort(ep);
}

static void run_round(uint64_t seed, uint64_t *longest_ms) {
    round_of r = make_round(seed);
    proc_context("round %llu: %s, %s", (unsigned long long)seed, meeting_names[r.meeting], r.mode);
    proc_alarm(3 * HANG_MS / 1000);
    pid_t pid = offer(&r);
    proc_worker w;
    proc_open(&w, "shm,stream", r.mode, NULL);
    uint64_t start_ms = proc_now_ms();
    attempt(&w, &r);
    uint64_t took_ms = proc_now_ms() - start_ms;
    *longest_ms = took_ms > *longest_ms ? took_ms : *longest_ms;
    proc_close(&w);
    if (r.meeting != LEAVES)
        kill(pid, SIGKILL);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(r.meeting != LEAVES || status == 0);
}

static void silent(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text, (void)arg;
}

int main(int argc, char **argv) {
    unsigned rounds = 480;
    bool given;
    uint64_t seed = proc_seed(1, &given), longest_ms = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--rounds"))
            rounds = (unsigned)atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            seed = given ? seed : strtoull(argv[i + 1], NULL, 0);
    }
    port = proc_map(sizeof(*port));
    if (!given)
        wh_log_set_sink(silent, NULL);
    for (unsigned i = 0; i < (given ? 1 : rounds); i++)
        run_round(seed + i, &longest_ms);
    printf("%u attempts from seed %llu have ended; the longest took %llu ms\n", given ? 1 : rounds,
           (unsigned long long)seed, (unsigned long long)longest_ms);
    return 0;
}
