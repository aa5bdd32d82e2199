// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages: handlers that use, keep, receive, receive later, or drop what has come.
#include "kit.h"

enum { AM_ID = 7, AM_MAX = 64 };

typedef enum am_way { AM_INLINE, AM_RECV, AM_LATER, AM_DROP_LATER, AM_IGNORE } am_way;

typedef struct am_log {
    kit_side *me;
    am_way way;
    _Atomic unsigned count;
    wh_am *kept[AM_MAX];
    bool here[AM_MAX];  // its payload was there in the handler
    char *bufs[AM_MAX];
    size_t sizes[AM_MAX];
    kit_op ops[AM_MAX];
    uint64_t numbers[AM_MAX];
} am_log;

static void receive(am_log *log, unsigned i, wh_am *am) {
    kit_side *me = log->me;
    log->bufs[i] = kit_alloc(me, log->sizes[i]);
    const wh_op_opts *opts = kit_opts(&log->ops[i]);
    BEGIN(&log->ops[i], wh_am_recv(am, log->bufs[i], log->sizes[i], opts, &log->ops[i].req));
}

static wh_status on_am(wh_am *am, void *arg) {
    am_log *log = arg;
    kit_side *me = log->me;
    unsigned i = atomic_load(&log->count);
    REQUIRE(i < AM_MAX);
    REQUIRE_INT(am->id, AM_ID);
    REQUIRE(am->ep == me->ep);
    REQUIRE(am->header_size >= 8);
    memcpy(&log->numbers[i], am->header, 8);
    SAME((const char *)am->header + 8, am->header_size - 8, 5);
    log->sizes[i] = am->size;
    log->ops[i] = (kit_op){.req = NULL};
    log->bufs[i] = NULL;
    log->kept[i] = am;
    log->here[i] = am->data != NULL;
    wh_status answer = WH_OK;
    if (log->way == AM_INLINE && am->data) {
        SAME(am->data, am->size, log->numbers[i]);
    } else if (log->way == AM_INLINE || log->way == AM_RECV) {
        receive(log, i, am);
        answer = kit_flip(me, 2) ? WH_OK : WH_PENDING;
    } else if (log->way != AM_IGNORE) {
        answer = WH_PENDING;
    }
    atomic_store(&log->count, i + 1);
    return answer;
}

static const size_t am_sizes[] = {0, 1, 100, 7000, 8190, 20000, 700000, 3, 8200, 64};
enum { AM_SIZES = sizeof(am_sizes) / sizeof(am_sizes[0]) };

static void send_ams(kit_side *me, uint32_t flags, wh_status expected) {
    static kit_op ops[AM_SIZES];
    static char header[WH_AM_HEADER_MAX];
    char *bufs[AM_SIZES];
    for (uint64_t i = 0; i < AM_SIZES; i++) {
        size_t header_size = i % 3 == 0 ? 8 : i % 3 == 1 ? 100 : WH_AM_HEADER_MAX;
        bufs[i] = kit_alloc(me, am_sizes[i]);
        kit_fill(bufs[i], am_sizes[i], i);
        memcpy(header, &i, 8);
        kit_fill(header + 8, header_size - 8, 5);
        const wh_op_opts *opts = kit_opts_with(&ops[i], flags, 0);
        BEGIN(&ops[i], wh_am_send(me->ep, AM_ID, header, header_size, bufs[i], am_sizes[i], opts,
                                  &ops[i].req));
        memset(header, 0xee, sizeof(header));  // copied before the call returned
    }
    for (int i = 0; i < AM_SIZES; i++) {
        END(&ops[i], expected);
        free(bufs[i]);
    }
}

typedef struct later {
    am_log *log;
    unsigned i;
} later;

// check_kept finds header and payload with the library, as the handler has seen them.
static void check_kept(const later *l) {
    kit_side *me = l->log->me;
    const wh_am *am = l->log->kept[l->i];
    REQUIRE_INT(am->id, AM_ID);
    REQUIRE_INT(am->mem, WH_MEM_HOST);
    REQUIRE(am->header_size >= 8 && memcmp(am->header, &l->log->numbers[l->i], 8) == 0);
    SAME((const char *)am->header + 8, am->header_size - 8, 5);
    REQUIRE_INT(am->size, l->log->sizes[l->i]);
    REQUIRE_INT(am->data != NULL, l->log->here[l->i]);
    if (am->data)
        SAME(am->data, am->size, l->log->numbers[l->i]);
}

static void receive_later(void *arg) {
    later *l = arg;
    check_kept(l);
    receive(l->log, l->i, l->log->kept[l->i]);
}

static void drop_later(void *arg) {
    later *l = arg;
    check_kept(l);
    wh_am_drop(l->log->kept[l->i]);
}

static void run_way(kit_side *me, am_way way) {
    static am_log log;
    if (me->role == 0) {
        SYNC();
        send_ams(me, way == AM_RECV ? WH_OP_SYNC : 0, WH_OK);
        SYNC();
        return;
    }
    memset(&log, 0, sizeof(log));
    log.me = me;
    log.way = way;
    REQUIRE_STATUS(wh_worker_set_am(me->worker, AM_ID, on_am, &log), WH_OK);
    SYNC();
    UNTIL(atomic_load(&log.count) == AM_SIZES);  // what is kept lies there while others come
    for (unsigned i = 0; i < AM_SIZES; i++) {
        REQUIRE_INT(log.numbers[i], i);  // in the order of the sends
        REQUIRE_INT(log.sizes[i], am_sizes[i]);
        later l = {&log, i};
        if (way == AM_LATER)
            kit_owned(me, receive_later, &l);
        else if (way == AM_DROP_LATER)
            kit_owned(me, drop_later, &l);
    }
    for (unsigned i = 0; i < AM_SIZES; i++) {
        if (!log.bufs[i])
            continue;
        END(&log.ops[i], WH_OK);
        REQUIRE_INT(log.ops[i].result.size, am_sizes[i]);
        SAME(log.bufs[i], am_sizes[i], i);
        free(log.bufs[i]);
    }
    SYNC();
    REQUIRE_STATUS(wh_worker_set_am(me->worker, AM_ID, NULL, NULL), WH_OK);
}

CASE(am_used_in_the_handler, 0) {
    run_way(me, AM_INLINE);
}
CASE(am_received_in_the_handler, 0) {
    run_way(me, AM_RECV);
}
CASE(am_received_later, 0) {
    run_way(me, AM_LATER);
}
CASE(am_dropped_later, 0) {
    run_way(me, AM_DROP_LATER);
}
CASE(am_ignored, 0) {
    run_way(me, AM_IGNORE);
}

static void be_silent(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text, (void)arg;
}

CASE(am_without_a_handler, 0) {
    if (me->role == 0) {
        SYNC();
        send_ams(me, 0, WH_OK);
        kit_send(me, me->ep, "x", 1, 1);
        SYNC();
    } else {
        char x;
        wh_log_set_sink(be_silent, NULL);
        SYNC();
        kit_recv(me, me->ep, &x, 1, 1);
        SYNC();
        wh_log_set_sink(NULL, NULL);
    }
}

static wh_status count_am(wh_am *am, void *arg) {
    _Atomic unsigned *count = arg;
    uint64_t number;
    memcpy(&number, am->header, 8);
    if (number != atomic_load(count) || (am->data && memcmp(am->data, "payload", 7) != 0))
        abort();
    atomic_fetch_add(count, 1);
    return WH_OK;
}

// Far more than the credit, in handlers that keep nothing: credit comes back and nothing is announced for ever.
CASE(am_flood, 0) {
    enum { N = 20000 };
    static _Atomic unsigned count;
    if (me->role == 0) {
        static kit_op ops[N];
        SYNC();
        for (uint64_t i = 0; i < N; i++) {
            const wh_op_opts *opts = kit_opts(&ops[i]);
            BEGIN(&ops[i], wh_am_send(me->ep, 9, &i, 8, "payload", 7, opts, NULL));
        }
        for (int i = 0; i < N; i++)
            END(&ops[i], WH_OK);
        SYNC();
    } else {
        atomic_store(&count, 0);
        REQUIRE_STATUS(wh_worker_set_am(me->worker, 9, count_am, &count), WH_OK);
        SYNC();
        UNTIL(atomic_load(&count) == N);
        SYNC();
        REQUIRE_STATUS(wh_worker_set_am(me->worker, 9, NULL, NULL), WH_OK);
    }
}

CASE(am_invalid_arguments, 0) {
    char byte = 0;
    REQUIRE_STATUS(wh_am_send(NULL, 1, NULL, 0, NULL, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_am_send(me->ep, 1, &byte, WH_AM_HEADER_MAX + 1, NULL, 0, NULL, NULL),
                   WH_EINVAL);
    REQUIRE_STATUS(wh_am_send(me->ep, 1, NULL, 1, NULL, 0, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_am_recv(NULL, &byte, 1, NULL, NULL), WH_EINVAL);
    wh_am_drop(NULL);
}
