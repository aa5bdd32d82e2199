// SPDX-License-Identifier: BSD-3-Clause
//
// Two hosts: two network namespaces of this machine, joined by a virtual cable.
//
//     netns [part of a case's name]
//
// A case is two processes, near and far, each alone in a namespace of its own, and nothing of it is left behind.  No abstract
// socket reaches from one to the other: with the machine's own boot id the far side is a container of this host, whose
// link must fall back to TCP; with a boot id mounted over that one, it is another host for all that the library can
// see.  Needs the right to make namespaces and the command `ip`: without them it is skipped.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

enum { HANG_MS = 60000, LARGE = 8 << 20, SKIPPED = 77 };
#define NEAR_IP "10.99.0.1"
#define FAR_IP "10.99.0.2"
#define NOBODY_IP "10.99.0.77"

static const size_t sizes[] = {0, 1, 8192, 65536, 1 << 20, LARGE};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
static char out[LARGE], in[LARGE];

typedef struct common {
    _Atomic bool far_ready, far_cannot, wired, far_wired, ready, over;
    _Atomic pid_t far;
    _Atomic int port;
    uint8_t blob[WH_ADDRESS_MAX];
    size_t blob_size;
} common;

static common *shared;

// ---- namespaces

__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    return system(command) == 0;
}

static bool wire_up(const char *device, const char *ip) {
    return shell("ip addr add %s/24 dev %s && ip link set %s up && ip link set lo up", ip, device,
                 device);
}

static void wait_for(_Atomic bool *flag) {
    uint64_t start_ms = proc_now_ms();
    while (!atomic_load(flag)) {
        usleep(1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
}

// pretend_other_host shows this process another boot id; false: it may not.
static bool pretend_other_host(void) {
    char path[] = "/tmp/netns-boot-id-XXXXXX";
    static const char id[] = "01234567-89ab-4cde-8f01-23456789abcd\n";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, id, sizeof(id) - 1) == (ssize_t)sizeof(id) - 1);
    close(fd);
    bool mounted = unshare(CLONE_NEWNS) == 0 &&
                   mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) == 0;
    unlink(path);
    return mounted;
}

// ---- what both sides do

static wh_endpoint *accepted;

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    accepted = ep;
}

static void open_with(proc_worker *w, const char *peer_timeout) {
    const char *options[] = {"connect_timeout=30s", peer_timeout, NULL};
    proc_open(w, "shm,stream", "adaptive", options);
}

// be_found listens and publishes where.
static void be_found(const proc_worker *w) {
    wh_listener *listener = NULL;
    CHECK_STATUS(wh_listener_open(w->worker, "*:0", NULL, on_accept, NULL, &listener), WH_OK);
    atomic_store(&shared->port, wh_listener_port(listener));
    atomic_store(&shared->ready, true);
    uint64_t start_ms = proc_now_ms();
    while (!accepted) {
        proc_wait(w, 1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    wh_listener_close(listener);
}

static wh_endpoint *find(const proc_worker *w) {
    char address[64];
    wh_endpoint *ep = NULL;
    wait_for(&shared->ready);
    snprintf(address, sizeof(address), NEAR_IP ":%d", atomic_load(&shared->port));
    CHECK_STATUS(wh_endpoint_connect_wait(w->worker, address, NULL, &ep), WH_OK);
    return ep;
}

static void exchange(wh_endpoint *ep, uint64_t mine, uint64_t theirs) {
    char lanes[128];
    CHECK_STATUS(wh_endpoint_lanes(ep, lanes, sizeof(lanes)), WH_OK);
    if (strncmp(lanes, "stream (tcp", 11) != 0)
        proc_fail(__FILE__, __LINE__, "the endpoint goes by %s", lanes);
    for (size_t i = 0; i < SIZES; i++) {
        wh_request *send = NULL;
        proc_fill(out, sizes[i], mine + i);
        wh_status st = wh_tag_send(ep, out, sizes[i], i, NULL, &send);
        CHECK(st == WH_OK || st == WH_PENDING);
        CHECK_STATUS(wh_tag_recv_wait(ep, in, sizes[i], i, WH_TAG_MASK_ALL, HANG_MS, NULL), WH_OK);
        CHECK(proc_same(in, sizes[i], theirs + i));
        if (send)
            CHECK_STATUS(wh_request_wait(send, HANG_MS), WH_OK);
        wh_request_free(send);
    }
}

// ---- the cases

static void exchange_near(void) {
    proc_worker w;
    open_with(&w, NULL);
    be_found(&w);
    exchange(accepted, 100, 200);
    CHECK_STATUS(wh_endpoint_close_wait(accepted, HANG_MS), WH_OK);
    proc_close(&w);
}

static void exchange_far(void) {
    proc_worker w;
    open_with(&w, NULL);
    wh_endpoint *ep = find(&w);
    exchange(ep, 200, 100);
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
    proc_close(&w);
}

static void blob_near(void) {
    proc_worker w;
    wh_context *ctx = NULL;
    CHECK_STATUS(wh_context_create(NULL, &ctx), WH_OK);
    w = (proc_worker){.ctx = ctx};
    CHECK_STATUS(wh_worker_create(ctx, WH_WORKER_OPTS(.accept = on_accept), &w.worker), WH_OK);
    CHECK_STATUS(wh_worker_address(w.worker, shared->blob, &shared->blob_size), WH_OK);
    atomic_store(&shared->ready, true);
    uint64_t start_ms = proc_now_ms();
    while (!accepted) {
        proc_wait(&w, 1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    exchange(accepted, 100, 200);
    CHECK_STATUS(wh_endpoint_close_wait(accepted, HANG_MS), WH_OK);
    proc_close(&w);
}

static void blob_far(void) {
    proc_worker w;
    wh_endpoint *ep = NULL;
    open_with(&w, NULL);
    wait_for(&shared->ready);
    CHECK_STATUS(wh_endpoint_connect_blob(w.worker, shared->blob, shared->blob_size, NULL, &ep),
                 WH_OK);
    uint64_t start_ms = proc_now_ms();
    while (wh_endpoint_status(ep) == WH_PENDING) {
        proc_wait(&w, 1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    exchange(ep, 200, 100);
    CHECK_STATUS(wh_endpoint_close_wait(ep, HANG_MS), WH_OK);
    proc_close(&w);
}

// Operations that only the end of the peer ends: a receive, and (`busy`) a send that nobody takes.
typedef struct waiting {
    wh_request *recv, *send;
} waiting;

static waiting start_waiting(wh_endpoint *ep, bool busy) {
    waiting ops = {NULL, NULL};
    CHECK_STATUS(wh_tag_recv(ep, in, 8, 99, WH_TAG_MASK_ALL, NULL, &ops.recv), WH_PENDING);
    if (busy)
        CHECK_STATUS(wh_tag_send(ep, out, LARGE, 98, NULL, &ops.send), WH_PENDING);
    return ops;
}

// see_end requires that they end with an error, and says after how long.
static void see_end(const proc_worker *w, const waiting *ops, const char *what, bool typed) {
    uint64_t start_ms = proc_now_ms();
    while (wh_request_status(ops->recv) == WH_PENDING ||
           (ops->send && wh_request_status(ops->send) == WH_PENDING)) {
        proc_wait(w, 1000);
        CHECK(proc_now_ms() - start_ms < HANG_MS);
    }
    wh_status st = wh_request_status(ops->recv);
    CHECK(st == WH_EPEER || (!typed && st == WH_ETIMEDOUT));
    if (ops->send)
        CHECK_STATUS(wh_request_status(ops->send), st);
    printf("  %s: %s after %llu ms\n", what, wh_status_name(st),
           (unsigned long long)(proc_now_ms() - start_ms));
    wh_request_free(ops->recv);
    wh_request_free(ops->send);
}

static void stay(void) {
    proc_worker w;
    open_with(&w, NULL);
    (void)find(&w);
    while (!atomic_load(&shared->over))
        proc_wait(&w, 10);
    _exit(0);
}

static void killed_near(void) {
    proc_worker w;
    open_with(&w, NULL);
    be_found(&w);
    waiting ops = start_waiting(accepted, true);
    proc_wait(&w, 50);
    CHECK(kill(atomic_load(&shared->far), SIGKILL) == 0);
    see_end(&w, &ops, "the far process was killed", true);
    wh_endpoint_abort(accepted);
    proc_close(&w);
}

static void pulled_near(bool busy, const char *what) {
    proc_worker w;
    open_with(&w, "peer_timeout=1s");
    be_found(&w);
    waiting ops = start_waiting(accepted, false);
    proc_wait(&w, 50);
    CHECK(shell("ip link set near down"));
    if (busy)  // now, so that it is never acknowledged
        CHECK_STATUS(wh_tag_send(accepted, out, LARGE, 98, NULL, &ops.send), WH_PENDING);
    see_end(&w, &ops, what, false);
    wh_endpoint_abort(accepted);
    proc_close(&w);
}

static void pulled_idle_near(void) {
    pulled_near(false, "cable pulled, nothing under way, peer_timeout 1 s");
}

static void pulled_busy_near(void) {
    pulled_near(true, "cable pulled, a send under way, peer_timeout 1 s");
}

static void unreachable_near(void) {
    proc_worker w;
    wh_endpoint *ep = NULL;
    open_with(&w, NULL);
    uint64_t start_ms = proc_now_ms();
    CHECK_STATUS(wh_endpoint_connect_wait(w.worker, FAR_IP ":9", NULL, &ep), WH_EREFUSED);
    printf("  nobody listens: EREFUSED after %llu ms\n",
           (unsigned long long)(proc_now_ms() - start_ms));
    start_ms = proc_now_ms();
    wh_status st = wh_endpoint_connect_wait(w.worker, NOBODY_IP ":9",
                                            WH_ENDPOINT_OPTS(.timeout_ms = 1000), &ep);
    CHECK(st < 0 && !ep);
    printf("  no such host: %s after %llu ms, connect timeout 1 s\n", wh_status_name(st),
           (unsigned long long)(proc_now_ms() - start_ms));
    proc_close(&w);
    atomic_store(&shared->over, true);
}

static void wait_over(void) {
    wait_for(&shared->over);
}

static const struct {
    const char *name;
    void (*near)(void), (*far)(void);
    bool far_ends;    // by itself, with success; else it is killed
    bool other_host;  // else far is a container of this one
} cases[] = {
    {"container: exchange", exchange_near, exchange_far, true, false},
    {"other host: exchange", exchange_near, exchange_far, true, true},
    {"other host: by address blob", blob_near, blob_far, true, true},
    {"killed", killed_near, stay, false, true},
    {"pulled, idle", pulled_idle_near, stay, false, true},
    {"pulled, busy", pulled_busy_near, stay, false, true},
    {"unreachable", unreachable_near, wait_over, true, true},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

// ---- a case

static void run_far(size_t index) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    proc_context("case \"%s\", far", cases[index].name);
    proc_alarm(2 * HANG_MS / 1000);
    CHECK(unshare(CLONE_NEWNET) == 0);
    if (cases[index].other_host && !pretend_other_host())
        atomic_store(&shared->far_cannot, true);
    atomic_store(&shared->far_ready, true);
    wait_for(&shared->wired);
    CHECK(wire_up("far", FAR_IP));
    atomic_store(&shared->far_wired, true);
    cases[index].far();
    exit(0);
}

// run_near returns the exit status of a case; it is a process of its own.
static int run_near(size_t index) {
    proc_context("case \"%s\", near", cases[index].name);
    proc_alarm(2 * HANG_MS / 1000);
    if (unshare(CLONE_NEWNET) != 0)
        return SKIPPED;
    pid_t far = fork();
    CHECK(far >= 0);
    if (far == 0)
        run_far(index);
    atomic_store(&shared->far, far);
    wait_for(&shared->far_ready);
    if (atomic_load(&shared->far_cannot) ||
        !shell("ip link add near type veth peer name far netns %d", (int)far) ||
        !wire_up("near", NEAR_IP)) {
        kill(far, SIGKILL);
        (void)waitpid(far, NULL, 0);
        return SKIPPED;
    }
    atomic_store(&shared->wired, true);
    wait_for(&shared->far_wired);
    cases[index].near();
    if (!cases[index].far_ends)
        kill(far, SIGKILL);
    int status;
    CHECK(waitpid(far, &status, 0) == far);
    return cases[index].far_ends ? (WIFEXITED(status) ? WEXITSTATUS(status) : 1) : 0;
}

static int run_case(size_t index) {
    memset(shared, 0, sizeof(*shared));
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        exit(run_near(index));
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "", *path = getenv("PATH");
    int passed = 0, failed = 0, skipped = 0;
    char longer[4096];
    // `ip` is not where ordinary users look.
    snprintf(longer, sizeof(longer), "%s:/usr/sbin:/sbin", path ? path : "/usr/bin:/bin");
    setenv("PATH", longer, 1);
    shared = proc_map(sizeof(*shared));
    for (size_t i = 0; i < CASES; i++) {
        if (!strstr(cases[i].name, part))
            continue;
        int status = run_case(i);
        printf("%-7s %s\n",
               status == 0         ? "ok"
               : status == SKIPPED ? "skipped"
                                   : "FAILED",
               cases[i].name);
        fflush(stdout);
        passed += status == 0;
        skipped += status == SKIPPED;
        failed += status != 0 && status != SKIPPED;
    }
    printf("%d passed, %d failed, %d skipped%s\n", passed, failed, skipped,
           skipped ? ": namespaces or the command `ip` are not to be had" : "");
    return failed ? 1 : passed ? 0 : SKIPPED;
}
