// SPDX-License-Identifier: BSD-3-Clause
//
// The frame of the conformance suite, see kit.h: waiting, connecting and whole operations for a role.
//
// The one hard part is two roles on one worker.  They are threads, so that a case reads like two programs, but only the
// holder of the baton runs, and it adopts the worker when it gets it: the library never sees two threads at once.
#include "kit.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "kit_baton.h"
#include "kit_loop.h"

const char *const kit_lane_names[] = {"shm", "stream", "ucx", "loop", "self"};
const char *const kit_lane_options[] = {"lanes=shm", "lanes=stream", "lanes=ucx", "lanes=stream",
                                        "lanes=stream"};
const char *const kit_mode_names[] = {"wait", "spin", "adaptive", "thread"};
const char *const kit_place_names[] = {"processes", "threads", "one"};

const size_t kit_sizes[] = {0,     1,     8,      63,      4096,    8191,    8192,   8193,
                            16384, 65536, 262144, 1000003, 1 << 20, 5000011, 1 << 26};
const size_t kit_size_count = sizeof(kit_sizes) / sizeof(kit_sizes[0]);

int kit_hang_ms = 20000 * KIT_SLOWER;

enum { STEP_MS = 1000 };  // how long one step of a wait sleeps, at most

uint64_t kit_now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void kit_fail(kit_side *me, const char *file, int line, const char *format, ...) {
    const kit_config *config = me->config;
    const char *name = strrchr(file, '/');
    fprintf(stderr, "\nFAILED %s %s %s, case %s, role %d, %s:%d: ", kit_lane_names[config->lane],
            kit_mode_names[config->mode], kit_place_names[config->place],
            me->case_name ? me->case_name : "(setup)", me->role, name ? name + 1 : file, line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    alarm(5);  // printing a worker needs its progress thread, which may be what hangs
    if (me->worker)
        wh_worker_dump(me->worker, stderr);
    const kit_spot *spot = &me->shared->waits[!me->role];
    if (atomic_load(&spot->file))
        fprintf(stderr, "role %d waits, or waited last, at %s:%d: %s\n", !me->role,
                atomic_load(&spot->file), atomic_load(&spot->line), atomic_load(&spot->what));
    if (me->other && me->other->worker != me->worker && kit_threaded(me))
        wh_worker_dump(me->other->worker, stderr);
    _exit(1);
}

static void note_spot(kit_side *me, const char *file, int line, const char *what) {
    kit_spot *spot = &me->shared->waits[me->role];
    atomic_store(&spot->line, line);
    atomic_store(&spot->what, what);
    atomic_store(&spot->file, file);
}

// check_hang counts the time between two looks as a second at most: a machine that stood still meanwhile is no hang.
static void check_hang(kit_side *me, uint64_t start, const char *file, int line, const char *what) {
    note_spot(me, file, line, what);
    uint64_t now = kit_now_ms();
    if (me->wait_start != start) {
        me->wait_start = me->looked = start;
        me->waited_ms = 0;
    }
    uint64_t passed = now - me->looked;
    me->waited_ms += (int)(passed < STEP_MS ? passed : STEP_MS);
    me->looked = now;
    if (me->waited_ms > kit_hang_ms)
        kit_fail(me, file, line, "%s: not within %d s", what, kit_hang_ms / 1000);
}

bool kit_threaded(const kit_side *me) {
    return me->config->mode == KIT_THREAD;
}

bool kit_may_block(const kit_side *me) {
    return me->config->place != KIT_ONE || kit_threaded(me);
}

unsigned kit_flip(kit_side *me, unsigned n) {
    me->rng = me->rng * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(me->rng >> 33) % n;
}

// ---- waiting

static void nap(unsigned us) {
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

// share_worker progresses the common worker once, then lets the other role run.  When neither had anything to do, only the
// worker can bring something new: then it waits as its mode says.
static void share_worker(kit_side *me, uint64_t start, int wait_ms) {
    kit_baton *baton = me->baton;
    if (baton->waits[me->role] != start) {
        baton->waits[me->role] = start;
        baton->idle = 0;
    }
    baton->wait_ms[me->role] = wait_ms;
    if (baton->wait_ms[!me->role] < wait_ms && !baton->finished[!me->role])
        wait_ms = baton->wait_ms[!me->role];
    if (wh_worker_progress(me->worker) > 0)
        baton->idle = 0;
    else if (++baton->idle > 4 && wh_worker_wait(me->worker, wait_ms) == WH_OK)
        baton->idle = 0;
    kit_baton_pass(me);
}

void kit_step(kit_side *me, uint64_t start, const char *file, int line, const char *what) {
    if (kit_threaded(me))
        nap(50);
    else if (me->baton)
        share_worker(me, start, STEP_MS);
    else if (wh_worker_wait(me->worker, STEP_MS) == WH_ETHREAD)
        kit_fail(me, file, line, "the role does not own its worker");
    check_hang(me, start, file, line, what);
}

static void poll_once(kit_side *me, uint64_t start) {
    if (kit_threaded(me))
        nap(100);
    else if (me->baton)
        share_worker(me, start, 1);
    else
        (void)!wh_worker_wait(me->worker, 1);
}

void kit_poll(kit_side *me, uint64_t start, const char *file, int line, const char *what) {
    poll_once(me, start);
    check_hang(me, start, file, line, what);
}

void kit_sync(kit_side *me, const char *file, int line) {
    uint64_t start = kit_now_ms();
    uint64_t mine = atomic_fetch_add(&me->shared->arrived[me->role], 1) + 1;
    note_spot(me, file, line, "the other role comes to the same point");
    // No limit but the case's: the other role may be computing, and if it waits in vain it says for what.
    while (atomic_load(&me->shared->arrived[!me->role]) < mine)
        poll_once(me, start);
}

void kit_idle(kit_side *me, unsigned ms) {
    uint64_t end = kit_now_ms() + ms;
    UNTIL_POLLED(kit_now_ms() >= end);
}

typedef struct owned_call {
    void (*fn)(void *arg);
    void *arg;
    _Atomic bool done;
} owned_call;

static void run_owned(void *arg) {
    owned_call *call = arg;
    call->fn(call->arg);
    atomic_store(&call->done, true);
}

void kit_owned(kit_side *me, void (*fn)(void *arg), void *arg) {
    if (!kit_threaded(me)) {
        fn(arg);
        return;
    }
    owned_call call = {.fn = fn, .arg = arg};
    REQUIRE_STATUS(wh_worker_call(me->worker, run_owned, &call), WH_OK);
    UNTIL(atomic_load(&call.done));
}

// ---- endpoints

typedef struct loop_work {
    kit_side *me;
    wh_endpoint *ep;
    wh_status st;
} loop_work;

static void open_over_loop(void *arg) {
    loop_work *work = arg;
    kit_side *me = work->me;
    // Small windows and pieces: what is refused, split and resumed is then seen by every case.
    static const kit_loop_opts opts = {.seed = 1, .window = 8, .eager_limit = 8192, .split = true};
    if (!me->loop)
        me->loop = kit_loop_join(me->worker, me->worker, &opts);
    size_t size;
    const void *data = kit_data(0, &size);
    work->st = kit_loop_open_with(me->loop, 0, data, size, &work->ep);
}

static void op_done(wh_request *req, const wh_result *result, void *arg);

const void *kit_data(int role, size_t *size) {
    static _Thread_local uint8_t data[2][WH_CONNECT_DATA_MAX];
    for (size_t i = 0; i < sizeof(data[role]); i++)
        data[role][i] = (uint8_t)(i * 7 + i / 251 + (size_t)role + 1);
    *size = role ? 300 : WH_CONNECT_DATA_MAX;
    return data[role];
}

wh_endpoint *kit_connect(kit_side *me) {
    wh_endpoint *ep = NULL;
    kit_op op;
    (void)kit_opts(&op);
    if (me->config->lane == KIT_LOOP) {
        loop_work work = {.me = me};
        kit_owned(me, open_over_loop, &work);
        REQUIRE_STATUS(work.st, WH_OK);
        ep = work.ep;
    } else {
        char address[32];
        size_t size;
        const void *data = kit_data(0, &size);
        snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&me->shared->port));
        REQUIRE_STATUS(
            wh_endpoint_connect(me->worker, address,
                                WH_ENDPOINT_OPTS(.timeout_ms = 15000, .done = op_done, .arg = &op,
                                                 .data = data, .data_size = size),
                                &ep),
            WH_OK);
        END(&op, WH_OK);
    }
    UNTIL(wh_endpoint_status(ep) != WH_PENDING);
    wh_status st = wh_endpoint_status(ep);
    REQUIRE(st == WH_OK || st == WH_ECLOSED);  // the other role may have closed it already
    return ep;
}

wh_endpoint *kit_accept(kit_side *me) {
    UNTIL(atomic_load(&me->accepted_count) > me->taken);
    return me->accepted[me->taken++];
}

wh_endpoint *kit_pair(kit_side *me) {
    return me->role == 0 ? kit_connect(me) : kit_accept(me);
}

// ---- operations

static void op_done(wh_request *req, const wh_result *result, void *arg) {
    kit_op *op = arg;
    (void)req;
    op->result = *result;
    atomic_fetch_add(&op->ended, 1);
}

const wh_op_opts *kit_opts_with(kit_op *op, uint32_t flags, uint32_t timeout_ms) {
    op->req = NULL;
    op->result = (wh_result){.status = WH_PENDING};
    atomic_store(&op->ended, 0);
    op->opts = (wh_op_opts){.size = sizeof(op->opts),
                            .flags = flags,
                            .timeout_ms = timeout_ms,
                            .done = op_done,
                            .arg = op,
                            .result = &op->result};
    return &op->opts;
}

const wh_op_opts *kit_opts(kit_op *op) {
    return kit_opts_with(op, 0, 0);
}

void kit_begun(kit_side *me, kit_op *op, wh_status st, const char *file, int line) {
    if (st == WH_OK) {
        if (op->req || atomic_load(&op->ended))
            kit_fail(me, file, line, "done at once, and yet there is a handle or a callback");
        if (op->result.status != WH_OK)
            kit_fail(me, file, line, "done at once, and the result says %s",
                     wh_status_name(op->result.status));
        atomic_store(&op->ended, 1);
    } else if (st != WH_PENDING) {
        kit_fail(me, file, line, "the operation was not accepted: %s", wh_status_name(st));
    }
}

void kit_ended(kit_side *me, kit_op *op, wh_status status, const char *file, int line) {
    if (atomic_load(&op->ended) != 1)
        kit_fail(me, file, line, "the operation has ended %d times", atomic_load(&op->ended));
    if (op->result.status != status)
        kit_fail(me, file, line, "the operation ended with %s, not %s (%s)",
                 wh_status_name(op->result.status), wh_status_name(status),
                 op->req ? wh_request_error(op->req) : "no handle");
    wh_request_free(op->req);
    op->req = NULL;
}

static void with_callback_send(kit_side *me, wh_endpoint *ep, const void *buf, size_t size,
                               uint64_t tag) {
    kit_op op;
    wh_request **handle = kit_flip(me, 2) ? &op.req : NULL;
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op, wh_tag_send(ep, buf, size, tag, opts, handle));
    END(&op, WH_OK);
}

void kit_send(kit_side *me, wh_endpoint *ep, const void *buf, size_t size, uint64_t tag) {
    unsigned way = kit_flip(me, kit_may_block(me) ? 3 : 2);
    if (way == 0) {
        with_callback_send(me, ep, buf, size, tag);
    } else if (way == 1) {
        wh_request *req = NULL;
        wh_status st = wh_tag_send(ep, buf, size, tag, NULL, &req);
        if (st == WH_PENDING) {
            UNTIL(wh_request_status(req) != WH_PENDING);
            st = wh_request_status(req);
            wh_request_free(req);
        }
        REQUIRE_STATUS(st, WH_OK);
    } else {
        REQUIRE_STATUS(wh_tag_send_wait(ep, buf, size, tag, kit_hang_ms), WH_OK);
    }
}

void kit_recv(kit_side *me, wh_endpoint *ep, void *buf, size_t size, uint64_t tag) {
    unsigned way = kit_flip(me, kit_may_block(me) ? 3 : 2);
    if (way == 2) {
        wh_result result;
        REQUIRE_STATUS(wh_tag_recv_wait(ep, buf, size, tag, WH_TAG_MASK_ALL, kit_hang_ms, &result),
                       WH_OK);
        REQUIRE_INT(result.size, size);
        REQUIRE_INT(result.tag, tag);
        REQUIRE(result.source == ep);
        return;
    }
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op, wh_tag_recv(ep, buf, size, tag, WH_TAG_MASK_ALL, opts, way ? &op.req : NULL));
    END(&op, WH_OK);
    REQUIRE_INT(op.result.size, size);
    REQUIRE_INT(op.result.tag, tag);
    REQUIRE(op.result.source == ep);
}

void kit_close(kit_side *me, wh_endpoint *ep) {
    kit_op op;
    const wh_op_opts *opts = kit_opts_with(&op, 0, (uint32_t)kit_hang_ms);
    BEGIN(&op, wh_endpoint_close(ep, opts, &op.req));
    END(&op, WH_OK);
}

// ---- content

// Eight bytes at a time from a counter that is mixed, so that any shift, repetition or hole shows.
static uint64_t word_at(uint64_t seed, size_t index) {
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 29);
}

// A block at a time: the thread sanitizer may take microseconds for each range that is touched.
enum { BLOCK = 4096 };

static size_t block_at(char *block, size_t at, size_t size, uint64_t seed) {
    for (size_t i = 0; i < BLOCK / 8; i++) {
        uint64_t word = word_at(seed, at / 8 + i);
        memcpy(block + i * 8, &word, 8);
    }
    return size - at < BLOCK ? size - at : BLOCK;
}

void kit_fill(void *buf, size_t size, uint64_t seed) {
    char block[BLOCK];
    for (size_t at = 0; at < size; at += BLOCK) {
        size_t some = block_at(block, at, size, seed);
        memcpy((char *)buf + at, block, some);
    }
}

bool kit_same(const void *buf, size_t size, uint64_t seed) {
    char block[BLOCK];
    for (size_t at = 0; at < size; at += BLOCK) {
        size_t some = block_at(block, at, size, seed), i = 0;
        const char *found = (const char *)buf + at;
        if (memcmp(found, block, some) == 0)
            continue;
        while (i < some && found[i] == block[i])
            i++;
        fprintf(stderr, "byte %zu of %zu differs from content %llu\n", at + i, size,
                (unsigned long long)seed);
        return false;
    }
    return true;
}

void *kit_alloc(kit_side *me, size_t size) {
    void *ptr = malloc(size ? size : 1);
    REQUIRE(ptr);
    memset(ptr, 0xa5, size);
    return ptr;
}
