// SPDX-License-Identifier: BSD-3-Clause
//
// Threads, event loops and forked children: who may call what, and what happens then.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

// ---- operations that other threads start

typedef struct submitter {
    kit_side *me;
    uint64_t index;
    pthread_t thread;
    _Atomic bool done;
    unsigned full;  // times that the queue was full
} submitter;

enum { SUBMITTERS = 4, SUBMITTED = 300 };

static void retry_pause(submitter *s) {
    s->full++;
    usleep(200);
}

// wait_other waits for a request as a thread that does not own the worker.
static void wait_other(kit_side *me, wh_request *req) {
    wh_status st;
    do
        st = wh_request_wait(req, 1000);
    while (st == WH_ETIMEDOUT && wh_request_status(req) == WH_PENDING);
    REQUIRE_STATUS(st, WH_OK);
    wh_request_free(req);
}

static void *submit_messages(void *arg) {
    submitter *s = arg;
    kit_side *me = s->me;
    static char large[100000];
    for (uint64_t i = 0; i < SUBMITTED; i++) {
        uint64_t value = s->index << 32 | i, got = 0;
        bool big = i % 16 == 0;
        size_t size = big ? sizeof(large) : 8;
        wh_request *req = NULL;
        wh_status st;
        if (me->role == 0) {
            while ((st = wh_tag_send(me->ep, big ? (void *)large : &value, size, value, NULL,
                                     &req)) == WH_EAGAIN)
                retry_pause(s);
        } else {
            char *to = big ? malloc(sizeof(large)) : NULL;
            while ((st = wh_tag_recv(me->ep, big ? (void *)to : &got, size, value, WH_TAG_MASK_ALL,
                                     NULL, &req)) == WH_EAGAIN)
                retry_pause(s);
            REQUIRE_STATUS(st, WH_PENDING);
            wait_other(me, req);
            REQUIRE(big || got == value);
            free(to);
            continue;
        }
        REQUIRE_STATUS(st, WH_PENDING);
        wait_other(me, req);
    }
    atomic_store(&s->done, true);
    return NULL;
}

CASE(thread_operations_from_several_threads, 0) {
    static submitter all[2][SUBMITTERS];
    submitter *mine = all[me->role];
    for (uint64_t i = 0; i < SUBMITTERS; i++) {
        mine[i] = (submitter){.me = me, .index = i};
        REQUIRE(pthread_create(&mine[i].thread, NULL, submit_messages, &mine[i]) == 0);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        UNTIL_POLLED(atomic_load(&mine[i].done));
        pthread_join(mine[i].thread, NULL);
    }
}

static void count_call(void *arg) {
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

typedef struct filler {
    kit_side *me;
    _Atomic unsigned accepted, ran;
    _Atomic bool done;
    wh_status last;
    bool ended;
} filler;

static void *fill_queue(void *arg) {
    filler *f = arg;
    while ((f->last = wh_worker_call(f->me->worker, count_call, &f->ran)) == WH_OK)
        atomic_fetch_add(&f->accepted, 1);
    wh_status other = wh_worker_progress(f->me->worker) ? WH_OK : WH_ETHREAD;
    f->ended = other == WH_ETHREAD && wh_worker_wait(f->me->worker, 0) == WH_ETHREAD &&
               wh_worker_arm(f->me->worker) == WH_ETHREAD;
    atomic_store(&f->done, true);
    return NULL;
}

CASE(thread_full_queue_refuses, KIT_SYNCED) {
    static filler fillers[2];
    filler *f = &fillers[me->role];
    *f = (filler){.me = me};
    pthread_t thread;
    SYNC();  // one worker may have two roles: one of them fills at a time
    for (int turn = 0; turn < 2; turn++) {
        if (turn == me->role) {
            REQUIRE(pthread_create(&thread, NULL, fill_queue, f) == 0);
            pthread_join(thread, NULL);  // nobody takes anything out meanwhile
            REQUIRE_STATUS(f->last, WH_EAGAIN);
            REQUIRE(f->ended);
            REQUIRE(atomic_load(&f->accepted) >= 1000);
            UNTIL(atomic_load(&f->ran) == atomic_load(&f->accepted));
        }
        SYNC();
    }
}

static void *wake_from_outside(void *arg) {
    usleep(20000);
    wh_worker_wake(arg);
    return NULL;
}

CASE(thread_wake, KIT_SYNCED | KIT_TWO) {
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        while (wh_worker_progress(me->worker) > 0) {
        }
        REQUIRE(pthread_create(&thread, NULL, wake_from_outside, me->worker) == 0);
        REQUIRE_STATUS(wh_worker_wait(me->worker, kit_hang_ms), WH_OK);
        pthread_join(thread, NULL);
        wh_worker_wake(me->worker);  // the next wait returns at once, too
        REQUIRE_STATUS(wh_worker_wait(me->worker, kit_hang_ms), WH_OK);
    }
}

typedef struct canceller {
    wh_request *req;
    wh_endpoint *ep;
    unsigned delay_us;
} canceller;

static void *cancel_from_outside(void *arg) {
    canceller *c = arg;
    usleep(c->delay_us);
    if (c->req)
        wh_request_cancel(c->req);
    if (c->ep)
        wh_endpoint_abort(c->ep);
    return NULL;
}

CASE(thread_cancel_and_abort_from_outside, 0) {
    if (me->role == 0) {
        for (unsigned i = 0; i < 10; i++) {
            char buf[8];
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            if (i % 2)
                BEGIN(&op, wh_tag_recv(me->ep, buf, 8, 1, WH_TAG_MASK_ALL, opts, &op.req));
            else
                BEGIN(&op,
                      wh_worker_tag_recv(me->worker, buf, 8, 1, WH_TAG_MASK_ALL, opts, &op.req));
            canceller c = {.req = op.req, .delay_us = i * 300};
            pthread_t thread;
            REQUIRE(pthread_create(&thread, NULL, cancel_from_outside, &c) == 0);
            UNTIL(atomic_load(&op.ended));
            pthread_join(thread, NULL);
            END(&op, WH_ECANCELLED);
        }
    }
    SYNC();
    wh_endpoint *ep = kit_pair(me);
    SYNC();
    if (me->role == 0) {
        canceller c = {.ep = ep, .delay_us = 5000};
        char buf[8];
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        BEGIN(&op, wh_tag_recv(ep, buf, 8, 1, WH_TAG_MASK_ALL, opts, &op.req));
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, cancel_from_outside, &c) == 0);
        END(&op, WH_ECANCELLED);
        pthread_join(thread, NULL);
    } else {
        UNTIL(wh_endpoint_status(ep) == WH_EPEER);
        wh_endpoint_abort(ep);
    }
}

// A thread that submits and then aborts: what it has submitted is done with before the endpoint is gone.
static void *submit_and_abort(void *arg) {
    submitter *s = arg;
    kit_side *me = s->me;
    for (int i = 0; i < 20; i++) {
        wh_status st = wh_tag_send(me->ep, "x", 1, 1, NULL, NULL);
        REQUIRE(st == WH_PENDING || st == WH_EAGAIN);
    }
    if (s->index)
        (void)!wh_endpoint_close(me->ep, NULL, NULL);
    else
        wh_endpoint_abort(me->ep);
    atomic_store(&s->done, true);
    return NULL;
}

CASE(thread_submits_and_gives_up_the_endpoint, 0) {
    if (me->role == 0) {
        for (uint64_t i = 0; i < 40; i++) {
            if (i)
                me->ep = kit_connect(me);
            submitter s = {.me = me, .index = i % 2};
            REQUIRE(pthread_create(&s.thread, NULL, submit_and_abort, &s) == 0);
            UNTIL_POLLED(atomic_load(&s.done));
            pthread_join(s.thread, NULL);
        }
        me->ep = NULL;
        SYNC();
    } else {
        for (uint64_t i = 0; i < 40; i++) {
            wh_endpoint *ep = i ? kit_accept(me) : me->ep;
            UNTIL(wh_endpoint_status(ep) != WH_OK);
            wh_endpoint_abort(ep);
        }
        me->ep = NULL;
        SYNC();
    }
}

// ---- a foreign event loop

static bool loop_once(kit_side *me, int epoll_fd) {
    for (;;) {
        unsigned events = wh_worker_progress(me->worker);
        if (events > 0)
            return true;
        wh_status st = wh_worker_arm(me->worker);
        REQUIRE(st == WH_OK || st == WH_EBUSY);
        if (st == WH_OK)
            break;
    }
    struct epoll_event event;
    int n = epoll_wait(epoll_fd, &event, 1, kit_hang_ms);
    return n > 0;
}

CASE(thread_foreign_event_loop, KIT_SYNCED | KIT_TWO) {
    enum { ROUNDS = 300 };
    int epoll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    REQUIRE(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wh_worker_fd(me->worker), &event) == 0);
    char *large = kit_alloc(me, 700000);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        bool big = i % 20 == 0;
        void *buf = big ? (void *)large : (void *)&(uint64_t){i};
        size_t size = big ? 700000 : 8;
        for (int half = 0; half < 2; half++) {
            kit_op op;
            const wh_op_opts *opts = kit_opts(&op);
            if (half == me->role)
                BEGIN(&op, wh_tag_send(me->ep, buf, size, i, opts, NULL));
            else
                BEGIN(&op, wh_tag_recv(me->ep, buf, size, i, WH_TAG_MASK_ALL, opts, NULL));
            while (!atomic_load(&op.ended))
                REQUIRE(loop_once(me, epoll_fd));
            kit_ended(me, &op, WH_OK, __FILE__, __LINE__);
        }
    }
    // A timer, too, makes the descriptor readable.
    kit_op op;
    const wh_op_opts *opts = kit_opts_with(&op, 0, 40);
    BEGIN(&op, wh_tag_recv(me->ep, large, 8, 9999, WH_TAG_MASK_ALL, opts, NULL));
    while (!atomic_load(&op.ended))
        REQUIRE(loop_once(me, epoll_fd));
    kit_ended(me, &op, WH_ETIMEDOUT, __FILE__, __LINE__);
    free(large);
    close(epoll_fd);
}

// ---- adopting

typedef struct adopter {
    kit_side *me;
    bool ok;
} adopter;

static void *adopt_and_use(void *arg) {
    adopter *a = arg;
    kit_side *me = a->me;
    uint64_t value = 5;
    a->ok = wh_worker_adopt(me->worker) == WH_OK;
    if (me->role == 0)
        kit_send(me, me->ep, &value, 8, 1);
    else
        kit_recv(me, me->ep, &value, 8, 1);
    return NULL;
}

CASE(thread_adopts_the_worker, KIT_SYNCED | KIT_TWO) {
    adopter a = {.me = me};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, adopt_and_use, &a) == 0);
    pthread_join(thread, NULL);
    REQUIRE(a.ok);
    REQUIRE_STATUS(wh_worker_wait(me->worker, 0), WH_ETHREAD);
    REQUIRE_STATUS(wh_worker_adopt(me->worker), WH_OK);
}

// ---- fork

#define IN_CHILD(cond)                                                                             \
    do {                                                                                           \
        if (!(cond))                                                                               \
            _exit(__LINE__ % 200 + 1);                                                             \
    } while (0)

CASE(thread_forked_child_is_refused, KIT_FORKS) {
    kit_op op;
    char buf[8], blob[WH_ADDRESS_MAX];
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op, wh_tag_recv(me->ep, buf, 8, 1, WH_TAG_MASK_ALL, opts, &op.req));
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(20);
        size_t size;
        wh_endpoint *ep = NULL;
        wh_counters counters = {.size = sizeof(counters)};
        IN_CHILD(wh_tag_send(me->ep, "x", 1, 1, NULL, NULL) == WH_EFORKED);
        IN_CHILD(wh_tag_recv(me->ep, buf, 8, 1, 0, NULL, NULL) == WH_EFORKED);
        IN_CHILD(wh_worker_wait(me->worker, 0) == WH_EFORKED);
        IN_CHILD(wh_worker_arm(me->worker) == WH_EFORKED);
        IN_CHILD(wh_worker_adopt(me->worker) == WH_EFORKED);
        IN_CHILD(wh_worker_progress(me->worker) == 0);
        IN_CHILD(wh_worker_address(me->worker, blob, &size) == WH_EFORKED);
        IN_CHILD(wh_worker_counters(me->worker, &counters) == WH_EFORKED);
        IN_CHILD(wh_endpoint_connect(me->worker, "127.0.0.1:1", NULL, &ep) == WH_EFORKED);
        IN_CHILD(wh_endpoint_flush(me->ep, NULL, NULL) == WH_EFORKED);
        IN_CHILD(wh_endpoint_close(me->ep, NULL, NULL) == WH_EFORKED);
        wh_worker_destroy(me->worker);
        _exit(0);
    }
    int status;
    UNTIL_POLLED(waitpid(pid, &status, WNOHANG) == pid);
    REQUIRE_INT(status, 0);
    SYNC();
    if (me->role == 0) {  // the parent's conversation goes on as if nothing had been
        kit_send(me, me->ep, "for role1", 8, 1);
        SYNC();
        wh_request_cancel(op.req);
        END(&op, WH_ECANCELLED);
    } else {
        END(&op, WH_OK);
        SYNC();
    }
}
