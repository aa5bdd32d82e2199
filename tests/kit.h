// SPDX-License-Identifier: BSD-3-Clause
//
// The frame of the conformance suite: one case, run by two roles that talk to each other over any lane.
//
// A case is one function that both roles run at the same time: role 0 has connected, role 1 has accepted.  Where
// they run is the configuration's affair: in two processes, in two threads with a worker each, or, over the lanes within a
// worker (self, loop), in two threads that hand one worker to and fro.  A case waits with UNTIL and SYNC only,
// so that the same text works everywhere.  Values pass between the roles through `me->shared`.
//
// Nothing here depends on speed: a wait fails only after kit_hang_ms without an end, and then prints the worker.
#ifndef WHERRY_TESTS_KIT_H
#define WHERRY_TESTS_KIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

enum {
    KIT_VALUES = 16,
    KIT_EPS_MAX = 600,
};

// The thread sanitizer now and then takes every access of a large copy for a possible race, and looks for a stack in vain:
// tens of seconds.
#if defined(__SANITIZE_THREAD__)
#define KIT_SLOWER 3
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KIT_SLOWER 3
#endif
#endif
#ifndef KIT_SLOWER
#define KIT_SLOWER 1
#endif

// So long may a wait take: 20 s, and much longer in a soak, where one message is more than 4 GiB.
extern int kit_hang_ms;

// The device memory of the cases that use some.
extern wh_mem_kind kit_device;

typedef enum kit_lane { KIT_SHM, KIT_STREAM, KIT_UCX, KIT_LOOP, KIT_SELF, KIT_LANES } kit_lane;
typedef enum kit_mode { KIT_WAIT, KIT_SPIN, KIT_ADAPTIVE, KIT_THREAD, KIT_MODES } kit_mode;
typedef enum kit_place { KIT_PROCESSES, KIT_THREADS, KIT_ONE, KIT_PLACES } kit_place;

extern const char *const kit_lane_options[];  // "lanes=...", for a context
extern const char *const kit_lane_names[], *const kit_mode_names[], *const kit_place_names[];

typedef struct kit_config {
    kit_lane lane;
    kit_mode mode;
    kit_place place;
} kit_config;

// A line of a test, and what it waits for there.  All processes are forks of one: the strings are where they were.
typedef struct kit_spot {
    const char *_Atomic file, *_Atomic what;
    _Atomic int line;
} kit_spot;

// What both roles see, whatever divides them.
typedef struct kit_shared {
    _Atomic uint64_t arrived[2];  // at how many SYNCs
    _Atomic uint64_t values[KIT_VALUES];
    _Atomic int port;
    char blob[2][WH_ADDRESS_MAX];
    size_t blob_size[2];
    kit_spot waits[2];  // where each role waits, or waited last
} kit_shared;

typedef struct kit_side {
    int role;
    const kit_config *config;
    const char *case_name;
    kit_shared *shared;
    struct kit_side *other;  // in this process too, else NULL
    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *ep;  // of this case; a case that gives it up sets it to NULL
    wh_listener *listener;
    wh_endpoint *accepted[KIT_EPS_MAX];  // since the case began, in order
    _Atomic unsigned accepted_count;
    unsigned taken;
    struct kit_baton *baton;      // of two roles on one worker
    struct kit_loop *loop;        // of the loop lane
    unsigned anchors;             // endpoints that hold its links
    uint64_t wait_start, looked;  // of its last wait: when it began, and was last looked at
    int waited_ms;
    uint64_t rng;
} kit_side;

typedef void (*kit_fn)(kit_side *me);

enum {
    KIT_TWO = 1 << 0,      // needs a worker per role
    KIT_LISTENS = 1 << 1,  // needs addresses: not over loop
    KIT_SOAK = 1 << 2,     // takes long: only when asked for
    KIT_SYNCED = 1 << 3,   // needs a worker without a progress thread
    KIT_FORKS = 1 << 4,    // only between processes
    KIT_CUDA = 1 << 5,     // only over CUDA's memory
};

typedef struct kit_case {
    const char *name;
    kit_fn fn;
    unsigned flags;
    struct kit_case *next;
} kit_case;

void kit_add(kit_case *c);

// CASE(name, flags) { ... } defines a case; `me` is the role that runs it.
#define CASE(case_name, case_flags)                                                                \
    static void kit_case_##case_name(kit_side *me);                                                \
    __attribute__((constructor)) static void kit_add_##case_name(void) {                           \
        static kit_case c = {#case_name, kit_case_##case_name, case_flags, NULL};                  \
        kit_add(&c);                                                                               \
    }                                                                                              \
    static void kit_case_##case_name(kit_side *me)

// kit_fail ends the configuration's processes with a sentence and the state of the worker.
void kit_fail(kit_side *me, const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

#define REQUIRE(cond)                                                                              \
    do {                                                                                           \
        if (!(cond))                                                                               \
            kit_fail(me, __FILE__, __LINE__, "%s", #cond);                                         \
    } while (0)
#define REQUIRE_INT(a, b)                                                                          \
    do {                                                                                           \
        long long kit_a = (long long)(a), kit_b = (long long)(b);                                  \
        if (kit_a != kit_b)                                                                        \
            kit_fail(me, __FILE__, __LINE__, "%s is %lld, not %s (%lld)", #a, kit_a, #b, kit_b);   \
    } while (0)
#define REQUIRE_STATUS(a, b)                                                                       \
    do {                                                                                           \
        wh_status kit_a = (a), kit_b = (b);                                                        \
        if (kit_a != kit_b)                                                                        \
            kit_fail(me, __FILE__, __LINE__, "%s is %s, not %s", #a, wh_status_name(kit_a),        \
                     wh_status_name(kit_b));                                                       \
    } while (0)

// UNTIL progresses (or lets the progress thread do it) until `cond` holds.  The worker must come back by itself when
// it does: nothing wakes it from time to time.
#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        uint64_t kit_start = kit_now_ms();                                                         \
        while (!(cond))                                                                            \
            kit_step(me, kit_start, __FILE__, __LINE__, #cond);                                    \
    } while (0)

// UNTIL_POLLED is for what the other role changes without a message.
#define UNTIL_POLLED(cond)                                                                         \
    do {                                                                                           \
        uint64_t kit_start = kit_now_ms();                                                         \
        while (!(cond))                                                                            \
            kit_poll(me, kit_start, __FILE__, __LINE__, #cond);                                    \
    } while (0)

// SYNC waits until both roles have come here.
#define SYNC() kit_sync(me, __FILE__, __LINE__)

uint64_t kit_now_ms(void);
void kit_step(kit_side *me, uint64_t start, const char *file, int line, const char *what);
void kit_poll(kit_side *me, uint64_t start, const char *file, int line, const char *what);
void kit_sync(kit_side *me, const char *file, int line);

// kit_idle progresses for `ms` milliseconds: for cases that show that something does not happen.
void kit_idle(kit_side *me, unsigned ms);

// kit_owned runs `fn` where the worker's owner runs, and waits for it.
void kit_owned(kit_side *me, void (*fn)(void *arg), void *arg);

// kit_threaded says whether this role's worker has a progress thread; kit_may_block whether the blocking calls can be used:
// not where the other role needs the same worker.
bool kit_threaded(const kit_side *me);
bool kit_may_block(const kit_side *me);

// kit_flip returns each of 0 .. n-1 in a sequence that repeats with the seed.
unsigned kit_flip(kit_side *me, unsigned n);

// kit_data returns the connect data that a role gives when it connects or accepts.
const void *kit_data(int role, size_t *size);

// kit_connect and kit_accept make one more endpoint between the roles: role 0 calls the first, role 1 the other.
wh_endpoint *kit_connect(kit_side *me);
wh_endpoint *kit_accept(kit_side *me);
wh_endpoint *kit_pair(kit_side *me);  // whichever is this role's part

// An operation: what it was started with, how often it has ended, and how.
typedef struct kit_op {
    wh_request *req;
    _Atomic int ended;
    wh_result result;
    wh_op_opts opts;
} kit_op;

// kit_opts makes the options of an operation that `op` follows.
const wh_op_opts *kit_opts(kit_op *op);
const wh_op_opts *kit_opts_with(kit_op *op, uint32_t flags, uint32_t timeout_ms);

// BEGIN makes the call that starts `op` and requires that it was accepted.  From another thread the queue to the owner may
// be full for a moment.
#define BEGIN(op, call)                                                                            \
    do {                                                                                           \
        wh_status kit_st;                                                                          \
        UNTIL_POLLED((kit_st = (call)) != WH_EAGAIN || !kit_threaded(me));                         \
        kit_begun(me, op, kit_st, __FILE__, __LINE__);                                             \
    } while (0)
void kit_begun(kit_side *me, kit_op *op, wh_status st, const char *file, int line);

// END waits for the operation and requires its status.  The handle is freed.
#define END(op, status)                                                                            \
    do {                                                                                           \
        kit_op *kit_o = (op);                                                                      \
        UNTIL(atomic_load(&kit_o->ended));                                                         \
        kit_ended(me, kit_o, status, __FILE__, __LINE__);                                          \
    } while (0)
void kit_ended(kit_side *me, kit_op *op, wh_status status, const char *file, int line);

// A whole operation that must end with success, by one of the ways to do it (callback, handle, blocking call).
void kit_send(kit_side *me, wh_endpoint *ep, const void *buf, size_t size, uint64_t tag);
void kit_recv(kit_side *me, wh_endpoint *ep, void *buf, size_t size, uint64_t tag);
void kit_close(kit_side *me, wh_endpoint *ep);

// Content that follows from a seed.
void kit_fill(void *buf, size_t size, uint64_t seed);
bool kit_same(const void *buf, size_t size, uint64_t seed);
#define SAME(buf, size, seed) REQUIRE(kit_same(buf, size, seed))

void *kit_alloc(kit_side *me, size_t size);

// The sizes that cross every border between ways of sending: inline, eager, announced, one chunk, several.
extern const size_t kit_sizes[];
extern const size_t kit_size_count;

// kit_main runs what the arguments select; see kit_main.c.
int kit_main(int argc, char **argv);

#endif
