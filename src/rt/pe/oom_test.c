// SPDX-License-Identifier: BSD-3-Clause
//
// Out of memory: the n-th allocation of a job fails, for each n.  What was accepted happens, or a loss or a failure is told; nothing
// is lost in silence, touched after its end or left behind.
#include "base/alloc.h"
#include "rt/pe/pe_kit.h"

enum { PES = 3, BIG = 150 << 10 };

static struct {
    int accepted, handled;  // messages
    int begun, ended;       // buffers
    int asked, called;      // timers, idle functions, threads, calls, quiescence
    char data[BIG], to[BIG];
} work;

static void on_message(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)pe;
    (void)arg;
    CHECK(!msg->size || ((char *)msg->data)[msg->size - 1] == 'x');
    work.handled++;
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)arg;
    CHECK(result->status <= WH_OK);
    work.ended++;
}

static void on_call(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
    work.called++;
}

static bool on_idle(wh_pe *pe, void *arg) {
    on_call(pe, arg);
    return false;
}

static void counted(int *count, wh_status st, wh_status good) {
    CHECK(st == good || (st < 0 && st != WH_EINVAL));
    *count += st == good;
}

static void do_work(wh_pe *pe) {
    for (int to = 0; to < PES; to++) {
        static const size_t sizes[] = {0, 100, 5000, BIG};
        for (int i = 0; i < 4; i++)
            counted(&work.accepted, wh_pe_send(pe, to, 1, "head", 4, work.data, sizes[i], i - 2),
                    WH_OK);
        uint64_t tag;
        if (wh_pe_next_tag(pe, to, &tag) != WH_OK)
            continue;
        counted(&work.begun,
                wh_pe_recv_buffer(job.pe[to], pe->number, work.to, BIG, tag,
                                  WH_OP_OPTS(.done = on_done), NULL),
                WH_PENDING);
        counted(&work.begun,
                wh_pe_send_buffer(pe, to, work.data, BIG, tag, WH_OP_OPTS(.done = on_done), NULL),
                WH_PENDING);
    }
    counted(&work.asked, wh_pe_after(pe, 10, on_call, NULL, NULL), WH_OK);
    counted(&work.asked, wh_pe_on_idle(pe, on_idle, NULL, NULL), WH_OK);
    counted(&work.asked, wh_pe_call(pe, on_call, NULL), WH_OK);
    counted(&work.asked, wh_pe_spawn(pe, on_call, NULL), WH_OK);
    counted(&work.asked, wh_pe_on_quiescence(pe, on_call, NULL), WH_OK);
}

static bool all_done(void) {
    return work.handled == work.accepted && work.called == work.asked;
}

// run does the work while the n-th allocation fails; false: there are not so many.
static bool run(uint64_t n) {
    work.accepted = work.handled = work.begun = work.ended = work.asked = work.called = 0;
    memset(work.data, 'x', BIG);
    kit_begin(PES, 1);
    for (int i = 0; i < PES; i++)
        CHECK_EQ_INT(wh_pe_set_handler(job.pe[i], 1, on_message, NULL), WH_OK);
    whi_alloc_fail_at(n);
    for (int i = 0; i < PES; i++)
        do_work(job.pe[i]);
    // With a loss or a failure told, what is missing is no surprise.
    UNTIL(all_done() || job.failures || job.lost);
    bool reached = whi_alloc_count() >= n;
    whi_alloc_fail_at(0);
    wh_pe_exit(job.pe[0], 0);
    for (int i = 0; i < 100; i++)
        kit_turn();
    kit_end();
    CHECK_EQ_INT(work.ended, work.begun);
    return reached;
}

TEST(each_allocation_fails_once) {
    uint64_t n = 1;
    while (run(n))
        n++;
    CHECK(n > 50);
}

static wh_status create(void) {
    whi_pe_opts opts = {.wire = {.ctx = job.ctx, .pes = 4, .ticket = kit_ticket, .inbox_max = 1},
                        .stack = 1};
    wh_pe *pe;
    wh_status st = whi_pe_create(&opts, &pe);
    if (st == WH_OK)
        whi_pe_destroy(pe);
    return st;
}

TEST(a_pe_that_cannot_be_made) {
    kit_begin(1, 1);
    bool reached = true;
    for (uint64_t n = 1; reached; n++) {
        whi_alloc_fail_at(n);
        wh_status st = create();
        reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        CHECK(st == (reached ? WH_ENOMEM : WH_OK) || (reached && st == WH_OK));
    }
    kit_end();
}

TEST_MAIN()
