// SPDX-License-Identifier: BSD-3-Clause
//
// Remote accesses whose other side is killed: each ends once, and memory comes free.
//
//     rma_faults [--trials N] [--lane shm|stream|ucx]
//
// Without --lane all but ucx, and that over TCP unless UCX_TLS says otherwise: docs/design/ucx.md has what its shared memory,
// and accesses by UCX itself (WHERRY_UCX_RMA=native), do not survive.
//
// A trial: a process owns memory, of the library's or of its user's, and another one accesses it with puts, gets and atomics of
// all sizes, many under way.  At a moment that the seed decides one of them is killed.  If it was the owner, each access of
// the other must end with WH_OK or WH_EPEER, once, and soon.  If it was the initiator, the owner must be able to
// free its memory, soon.  WHERRY_SEED=n runs trial n alone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

enum { OPS = 24, MEMORY = 4 << 20, LATE_MS = 25000 };

typedef struct common {  // between the processes of a trial
    _Atomic int port;
    char key[WH_MR_KEY_MAX];
    size_t key_size;
    _Atomic unsigned done;  // accesses that have ended
    _Atomic bool struck;
} common;

typedef struct op {
    bool used;
    int ended;
    wh_status status;
    wh_request *req;
    char *buf;
    uint64_t old;
} op;

typedef struct trial {
    uint64_t seed, rng;
    const char *lane;
    bool ours, kills_owner;
    unsigned strike_at;
    common *shared;
} trial;

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    op *o = arg;
    (void)req;
    o->status = result->status;
    o->ended++;
}

// ---- the owner

static void on_accept(wh_endpoint *ep, void *arg) {
    *(wh_endpoint **)arg = ep;
}

static void own(trial *t) {
    proc_worker w;
    wh_listener *listener;
    wh_endpoint *ep = NULL;
    wh_mr *mr;
    char *users = NULL;
    proc_open(&w, t->lane, "wait", NULL);
    if (t->ours) {
        CHECK_STATUS(wh_mr_alloc(w.ctx, MEMORY, WH_MR_ALL, &mr), WH_OK);
    } else {
        users = calloc(1, MEMORY);
        CHECK(users);
        CHECK_STATUS(wh_mr_register(w.ctx, users, MEMORY, WH_MEM_HOST, WH_MR_ALL, &mr), WH_OK);
    }
    CHECK_STATUS(wh_mr_key(mr, t->shared->key, &t->shared->key_size), WH_OK);
    CHECK_STATUS(wh_listener_open(w.worker, "127.0.0.1:0", NULL, on_accept, &ep, &listener), WH_OK);
    atomic_store(&t->shared->port, wh_listener_port(listener));
    while (!atomic_load(&t->shared->struck))
        proc_wait(&w, 5);
    wh_status st;
    uint64_t end = proc_now_ms() + LATE_MS;
    while ((st = wh_mr_destroy(mr)) == WH_EBUSY && proc_now_ms() < end)
        proc_wait(&w, 5);
    CHECK_STATUS(st, WH_OK);
    free(users);
    while (ep && wh_endpoint_status(ep) == WH_OK && proc_now_ms() < end)
        proc_wait(&w, 5);
    CHECK_STATUS(ep ? wh_endpoint_status(ep) : WH_EPEER, WH_EPEER);
    wh_endpoint_abort(ep);
    wh_listener_close(listener);
    proc_close(&w);
}

// ---- the initiator

// start starts an access; an error means that the owner is gone.
static wh_status start(trial *t, wh_rkey *rkey, op *o) {
    static const size_t sizes[] = {8, 8, 4000, 100000, 3 << 20};
    size_t size = sizes[proc_below(&t->rng, 5)];
    uint64_t at = proc_below(&t->rng, MEMORY - size) & ~UINT64_C(7);
    const wh_op_opts *opts = WH_OP_OPTS(.done = on_done, .arg = o);
    char *buf = o->buf;
    *o = (op){.used = true, .buf = buf};
    wh_status st;
    switch (proc_below(&t->rng, 4)) {
    case 0: st = wh_get(rkey, at, buf, size, opts, &o->req); break;
    case 1: st = wh_atomic(rkey, at, WH_ATOMIC_ADD, 8, 1, 0, &o->old, opts, &o->req); break;
    default: st = wh_put(rkey, at, buf, size, opts, &o->req);
    }
    if (st != WH_PENDING) {
        o->ended = 1;
        o->status = st;
    }
    return st;
}

static bool reap(trial *t, op *ops) {
    bool busy = false;
    for (int i = 0; i < OPS; i++) {
        op *o = &ops[i];
        busy |= o->used && !o->ended;
        if (!o->used || !o->ended)
            continue;
        CHECK_INT(o->ended, 1);
        if (o->status != WH_OK)
            CHECK_STATUS(o->status, WH_EPEER);
        wh_request_free(o->req);
        o->used = false;
        atomic_fetch_add(&t->shared->done, 1);
    }
    return busy;
}

static void access_memory(trial *t) {
    static op ops[OPS];
    proc_worker w;
    wh_endpoint *ep;
    wh_rkey *rkey;
    char address[64];
    proc_open(&w, t->lane, "wait", NULL);
    while (!atomic_load(&t->shared->port))
        usleep(1000);
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&t->shared->port));
    CHECK_STATUS(wh_endpoint_connect_wait(w.worker, address, NULL, &ep), WH_OK);
    CHECK_STATUS(wh_rkey_open(ep, t->shared->key, t->shared->key_size, &rkey), WH_OK);
    for (int i = 0; i < OPS; i++) {
        ops[i].buf = calloc(1, MEMORY);
        CHECK(ops[i].buf);
    }
    wh_status st = WH_OK;
    uint64_t end = 0;
    while (st >= WH_OK && (!end || proc_now_ms() < end)) {
        for (int i = 0; i < OPS && st >= WH_OK; i++)
            if (!ops[i].used)
                st = start(t, rkey, &ops[i]);
        if (st >= WH_OK && proc_below(&t->rng, 4) == 0)
            st = wh_endpoint_fence(ep);
        proc_wait(&w, 0);
        (void)reap(t, ops);
        if (!end && atomic_load(&t->shared->struck))
            end = proc_now_ms() + LATE_MS;
    }
    CHECK_STATUS(st, WH_EPEER);
    end = proc_now_ms() + LATE_MS;
    while (reap(t, ops) && proc_now_ms() < end)
        proc_wait(&w, 5);
    CHECK(!reap(t, ops));
    for (int i = 0; i < OPS; i++)
        free(ops[i].buf);
    wh_rkey_close(rkey);
    wh_endpoint_abort(ep);
    proc_close(&w);
}

// ---- a trial

static pid_t child(trial *t, void (*fn)(trial *t)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid)
        return pid;
    proc_alarm(120);
    fn(t);
    _exit(0);
}

static bool run(const char *lane, uint64_t seed) {
    trial t = {.seed = seed, .rng = seed, .lane = lane};
    t.ours = seed % 2;
    t.kills_owner = seed / 2 % 2;
    t.strike_at = 1 + (unsigned)proc_below(&t.rng, 400);
    t.shared = proc_map(sizeof(common));
    proc_context("over %s, %s memory, the %s is killed, WHERRY_SEED=%llu", lane,
                 t.ours ? "the library's" : "the user's", t.kills_owner ? "owner" : "initiator",
                 (unsigned long long)seed);
    pid_t owner = child(&t, own), initiator = child(&t, access_memory);
    uint64_t end = proc_now_ms() + LATE_MS;
    while (atomic_load(&t.shared->done) < t.strike_at && proc_now_ms() < end)
        usleep(100);
    kill(t.kills_owner ? owner : initiator, SIGKILL);
    atomic_store(&t.shared->struck, true);
    int of_owner = 0, of_initiator = 0;
    CHECK(waitpid(owner, &of_owner, 0) == owner);
    CHECK(waitpid(initiator, &of_initiator, 0) == initiator);
    return (t.kills_owner ? of_initiator : of_owner) == 0 &&
           WIFSIGNALED(t.kills_owner ? of_owner : of_initiator);
}

int main(int argc, char **argv) {
    static const char *const lanes[] = {"shm", "stream", "ucx"};
    const char *lane = NULL;
    uint64_t trials = 8, failed = 0, ran = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--trials") == 0)
            trials = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--lane") == 0)
            lane = argv[i + 1];
        else
            return 2;
    }
    setenv("UCX_TLS", "tcp", 0);
    bool given;
    uint64_t first = proc_seed(0, &given);
    for (uint64_t seed = first; seed < first + (given ? 1 : trials); seed++)
        for (int i = 0; i < 3; i++)
            if (lane ? strcmp(lane, lanes[i]) == 0 : i < 2) {
                ran++;
                if (!run(lanes[i], seed)) {
                    failed++;
                    printf("FAILED: over %s, WHERRY_SEED=%llu\n", lanes[i],
                           (unsigned long long)seed);
                }
            }
    printf("%llu trials, %llu failed\n", (unsigned long long)ran, (unsigned long long)failed);
    return failed ? 1 : 0;
}
