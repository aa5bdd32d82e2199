// SPDX-License-Identifier: BSD-3-Clause
//
// What goes through channels: order, layouts, the window, cancels, and any program.
#include <wherry/mem.h>
#include <wherry/type.h>

#include "base/rng.h"
#include "rt/channel/channel_kit.h"

// ---- Messages.

// Of each order of opening, sending and receiving all must come, once, in order.
static void stream(int pes, int ppn, int from, int to, unsigned order) {
    begin(pes, ppn);
    wh_channel *a = NULL, *b = NULL;
    for (int step = 0; step < 2; step++) {
        if ((step == 0) == (order & 1)) {
            a = open_end(from, to);
            for (int i = 0; i < COUNT; i++)
                send(a, &sends[i], i, i % 2);
        } else {
            b = open_end(to, from);
            for (int i = 0; order & 2 && i < COUNT; i++)
                receive(b, &receives[i], i % 3 == 0);
        }
        kit_turns(5);
    }
    for (int i = 0; !(order & 2) && i < COUNT; i++) {
        receive(b, &receives[i], i % 3 == 0);
        if (i % 7 == 0)
            kit_turn();
    }
    UNTIL(all_ended(sends, COUNT) && all_ended(receives, COUNT));
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ_INT(sends[i].status, WH_OK);
        CHECK_EQ_INT(receives[i].status, WH_OK);
        CHECK_EQ_INT(receives[i].size, sizeof(receives[i].data));
        CHECK_EQ_INT(receives[i].data[3], i);
    }
    free_all(sends, COUNT);
    free_all(receives, COUNT);
    wh_channel_close(order & 4 ? a : b);
    kit_turns(order & 8 ? 10 : 0);
    wh_channel_close(order & 4 ? b : a);
    end(true);
}

TEST(messages_in_order) {
    for (unsigned order = 0; order < 16; order++) {
        stream(2, 1, 0, 1, order);
        stream(2, 2, 1, 0, order);
        stream(1, 1, 0, 1, order);
        stream(3, 1, 7, 2, order);
    }
}

// Both directions at once, and several channels between the same two elements, of one PE.
TEST(ends_do_not_mix) {
    enum { CHANNELS = 8 };
    wh_channel *a[CHANNELS], *b[CHANNELS];
    static op ops[CHANNELS][4];
    begin(1, 1);
    for (int i = 0; i < CHANNELS; i++)
        a[i] = open_end(0, 1);
    for (int i = 0; i < CHANNELS; i++)
        b[i] = open_end(1, 0);
    for (int i = CHANNELS; i--;) {
        send(a[i], &ops[i][0], i, false);
        receive(a[i], &ops[i][1], false);
        receive(b[i], &ops[i][2], false);
        send(b[i], &ops[i][3], 100 + i, false);
    }
    UNTIL(all_ended(&ops[0][0], 4 * CHANNELS));
    for (int i = 0; i < CHANNELS; i++) {
        CHECK_EQ_INT(ops[i][2].data[0], i);
        CHECK_EQ_INT(ops[i][1].data[0], 100 + i);
        wh_channel_close(a[i]);
        wh_channel_close(b[i]);
    }
    end(true);
}

TEST(large_messages_of_layouts) {
    enum { ROWS = 300, COLS = 200 };
    static double from[ROWS][COLS], to[COLS][ROWS];
    wh_type *column;
    CHECK_EQ_INT(wh_type_create_vector(COLS, 1, ROWS, wh_type_basic(WH_TYPE_DOUBLE), &column),
                 WH_OK);
    wh_type *one;
    CHECK_EQ_INT(wh_type_create_resized(column, 0, sizeof(double), &one), WH_OK);
    CHECK_EQ_INT(wh_type_commit(one), WH_OK);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            from[i][j] = i * COLS + j;
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_end(1, 0);
    op sent = {.ends = 0}, received = {.ends = 0};
    began(&received,
          wh_channel_recv(b, to, ROWS, WH_OP_OPTS(.type = one, .done = on_op, .arg = &received),
                          NULL));
    // The type is the channel's until the receive has ended.
    wh_type_release(column);
    wh_type_release(one);
    began(&sent,
          wh_channel_send(a, from, sizeof(from), WH_OP_OPTS(.done = on_op, .arg = &sent), NULL));
    UNTIL(sent.ends && received.ends);
    CHECK_EQ_INT(sent.status, WH_OK);
    CHECK_EQ_INT(received.status, WH_OK);
    CHECK_EQ_INT(received.size, sizeof(from));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            CHECK(to[j][i] == from[i][j]);
    wh_channel_close(a);
    wh_channel_close(b);
    end(true);
}

// Memory of devices goes as it is, and nobody has to say that it is.
TEST(memory_of_a_device) {
    enum { SIZE = 100 << 10 };
    static char host[SIZE], back[SIZE];
    void *from, *to;
    op sent = {.ends = 0}, received = {.ends = 0};
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, SIZE, &from), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, SIZE, &to), WH_OK);
    for (int i = 0; i < SIZE; i++)
        host[i] = (char)(i * 7);
    CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_SIM, host, WH_MEM_HOST, SIZE), WH_OK);
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_end(1, 0);
    began(&received,
          wh_channel_recv(b, to, SIZE, WH_OP_OPTS(.done = on_op, .arg = &received), NULL));
    began(&sent, wh_channel_send(a, from, SIZE, WH_OP_OPTS(.done = on_op, .arg = &sent), NULL));
    UNTIL(sent.ends && received.ends);
    CHECK_EQ_INT(sent.status, WH_OK);
    CHECK_EQ_INT(received.status, WH_OK);
    CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, to, WH_MEM_SIM, SIZE), WH_OK);
    CHECK_MEM(back, host, SIZE);
    wh_channel_close(a);
    wh_channel_close(b);
    end(true);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, to), WH_OK);
}

// ---- The window.

static int count_ended(const op *ops, int count) {
    int n = 0;
    for (int i = 0; i < count; i++)
        n += ops[i].ends;
    return n;
}

TEST(sends_wait_for_the_window) {
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_window(1, 0, 10);
    for (int i = 0; i < COUNT; i++)
        send(a, &sends[i], i, i & 1);
    kit_turns(200);
    CHECK_EQ_INT(count_ended(sends, COUNT), 10);
    CHECK_EQ_INT(a->sent, 10);
    // Another channel between the two PEs is not stopped by it.
    wh_channel *c = open_end(0, 3), *d = open_end(3, 0);
    op another;
    send(c, &another, 1, false);
    receive(d, &receives[0], false);
    UNTIL(receives[0].ends);
    wh_channel_close(c);
    wh_channel_close(d);
    kit_turns(20);
    for (int i = 0; i < COUNT; i++) {
        receive(b, &receives[i], false);
        UNTIL(receives[i].ends == 1);
        CHECK_EQ_INT(receives[i].data[0], i);
        CHECK(a->sent - b->matched <= 10);
    }
    UNTIL(all_ended(sends, COUNT));
    free_all(sends, COUNT);
    wh_channel_close(a);
    wh_channel_close(b);
    end(true);
}

// ---- Cancel and time.

TEST(cancelled_operations_leave_no_gap) {
    static char big[BIG], to[BIG];
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_window(1, 0, 2);
    op first = {.ends = 0};
    kit_turns(20);
    // One that is announced, and one that waits for the window.
    began(&first,
          wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &first), &first.req));
    send(a, &sends[0], 1, true);
    send(a, &sends[1], 2, true);
    send(a, &sends[2], 3, true);
    kit_turns(20);
    wh_request_cancel(first.req);
    wh_request_cancel(sends[1].req);
    UNTIL(first.ends && sends[1].ends);
    CHECK_EQ_INT(first.status, WH_ECANCELLED);
    CHECK_EQ_INT(sends[1].status, WH_ECANCELLED);
    for (int i = 0; i < 4; i++)
        receive(b, &receives[i], true);
    UNTIL(receives[1].ends);
    CHECK_EQ_INT(receives[0].data[0], 1);
    CHECK_EQ_INT(receives[1].data[0], 3);
    wh_request_cancel(receives[2].req);
    UNTIL(receives[2].ends);
    CHECK_EQ_INT(receives[2].status, WH_ECANCELLED);
    send(a, &sends[3], 4, true);
    UNTIL(receives[3].ends);
    CHECK_EQ_INT(receives[3].data[0], 4);
    // A receive that runs out of time.
    op late = {.ends = 0};
    began(&late, wh_channel_recv(b, to, BIG,
                                 WH_OP_OPTS(.done = on_op, .arg = &late, .timeout_ms = 20), NULL));
    UNTIL(late.ends);
    CHECK_EQ_INT(late.status, WH_ETIMEDOUT);
    wh_request_free(first.req);
    free_all(sends, 4);
    free_all(receives, 4);
    wh_channel_close(b);
    wh_channel_close(a);
    end(true);
}

TEST(cancelled_before_the_other_end_has_opened) {
    begin(2, 1);
    wh_channel *a = open_end(0, 1);
    op late = {.ends = 0};
    receive(a, &receives[0], true);
    receive(a, &receives[1], true);
    began(&late, wh_channel_send(a, "x", 1,
                                 WH_OP_OPTS(.done = on_op, .arg = &late, .timeout_ms = 20), NULL));
    wh_request_cancel(receives[0].req);
    UNTIL(receives[0].ends && late.ends);
    CHECK_EQ_INT(receives[0].status, WH_ECANCELLED);
    CHECK_EQ_INT(late.status, WH_ETIMEDOUT);
    wh_channel *b = open_end(1, 0);
    send(b, &sends[0], 9, false);
    UNTIL(receives[1].ends);
    CHECK_EQ_INT(receives[1].data[0], 9);
    free_all(receives, 2);
    wh_channel_close(a);
    wh_channel_close(b);
    end(true);
}

// A message that is longer than its receive is counted, whichever came first.
TEST(truncated_messages) {
    for (int first = 0; first < 2; first++) {
        char one;
        op small = {.ends = 0};
        begin(2, 1);
        wh_channel *a = open_end(0, 1), *b = open_window(1, 0, 1);
        kit_turns(20);
        if (!first) {
            send(a, &sends[0], 1, false);
            kit_turns(20);
        }
        began(&small, wh_channel_recv(b, &one, 1, WH_OP_OPTS(.done = on_op, .arg = &small), NULL));
        if (first)
            send(a, &sends[0], 1, false);
        UNTIL(small.ends);
        CHECK_EQ_INT(small.status, WH_ETRUNCATED);
        send(a, &sends[1], 2, false);
        receive(b, &receives[0], false);
        UNTIL(receives[0].ends);
        CHECK_EQ_INT(receives[0].data[0], 2);
        wh_channel_close(a);
        wh_channel_close(b);
        end(true);
    }
}

// ---- Any program.

enum { RANDOM_PES = 4, RANDOM_CHANNELS = 12, RANDOM_OPS = 40 };

typedef struct half {
    wh_channel *ch;
    op sent[RANDOM_OPS], got[RANDOM_OPS];
    int sends, gets;
    bool closed;
} half;

static half halves[RANDOM_CHANNELS][2];

static void random_step(whi_rng *rng, half *h, int value) {
    int what = (int)(whi_rng_u64(rng) % 16);
    if (what < 6 && h->sends < RANDOM_OPS && !h->closed) {
        send(h->ch, &h->sent[h->sends], value + h->sends, whi_rng_u64(rng) & 1);
        h->sends++;
    } else if (what < 12 && h->gets < RANDOM_OPS && !h->closed) {
        receive(h->ch, &h->got[h->gets], whi_rng_u64(rng) & 1);
        h->gets++;
    } else if (what == 12 && h->gets && h->got[h->gets - 1].req) {
        wh_request_cancel(h->got[h->gets - 1].req);
    } else if (what == 13 && h->sends && h->sent[h->sends - 1].req) {
        wh_request_cancel(h->sent[h->sends - 1].req);
    } else if (what == 14 && whi_rng_u64(rng) % 8 == 0 && !h->closed) {
        h->closed = true;
        wh_channel_close(h->ch);
    }
}

// What was received is what was sent and not taken back, in order; all of it, unless the receiver has closed.
static void check_halves(half *from, half *to, int value) {
    int next = 0;
    for (int i = 0; i < to->gets; i++) {
        CHECK_EQ_INT(to->got[i].ends, 1);
        if (to->got[i].status != WH_OK)
            continue;
        while (next < from->sends && to->got[i].data[0] != value + next) {
            CHECK(from->sent[next].status != WH_OK);
            next++;
        }
        CHECK(next < from->sends);
        CHECK(from->sent[next].status == WH_OK);
        next++;
    }
    for (int i = 0; i < from->sends; i++)
        CHECK_EQ_INT(from->sent[i].ends, 1);
}

static void random_program(uint64_t seed) {
    whi_rng rng;
    whi_rng_init(&rng, seed);
    int ppn = 1 << whi_rng_u64(&rng) % 3;
    begin(RANDOM_PES, ppn);
    memset(halves, 0, sizeof(halves));
    for (int i = 0; i < RANDOM_CHANNELS; i++) {
        int a = (int)(whi_rng_u64(&rng) % RANDOM_PES), b = (int)(whi_rng_u64(&rng) % RANDOM_PES);
        uint32_t window = 1 + (uint32_t)(whi_rng_u64(&rng) % 6);
        halves[i][0].ch = open_window(2 * i * RANDOM_PES + a, (2 * i + 1) * RANDOM_PES + b, window);
        kit_turns((int)(whi_rng_u64(&rng) % 3));
        halves[i][1].ch = open_window((2 * i + 1) * RANDOM_PES + b, 2 * i * RANDOM_PES + a, window);
    }
    for (int step = 0; step < 1500; step++) {
        int i = (int)(whi_rng_u64(&rng) % RANDOM_CHANNELS), side = (int)(whi_rng_u64(&rng) % 2);
        random_step(&rng, &halves[i][side], (2 * i + side) * 1000);
        if (whi_rng_u64(&rng) % 4 == 0)
            wh_pe_turn(job.pe[whi_rng_u64(&rng) % RANDOM_PES]);
    }
    for (int i = 0; i < RANDOM_CHANNELS; i++)
        for (int side = 0; side < 2; side++)
            if (!halves[i][side].closed)
                wh_channel_close(halves[i][side].ch);
    for (int i = 0; i < RANDOM_CHANNELS; i++)
        for (int side = 0; side < 2; side++)
            UNTIL(all_ended(halves[i][side].sent, halves[i][side].sends) &&
                  all_ended(halves[i][side].got, halves[i][side].gets));
    for (int i = 0; i < RANDOM_CHANNELS; i++)
        for (int side = 0; side < 2; side++) {
            check_halves(&halves[i][side], &halves[i][!side], (2 * i + side) * 1000);
            free_all(halves[i][side].sent, halves[i][side].sends);
            free_all(halves[i][side].got, halves[i][side].gets);
        }
    end(true);
}

TEST(random_programs) {
    const char *seed = getenv("WHERRY_SEED");
    for (uint64_t i = 1; i <= (seed ? 1 : 60); i++) {
        uint64_t used = seed ? strtoull(seed, NULL, 10) : i;
        fprintf(stderr, "WHERRY_SEED=%llu\n", (unsigned long long)used);
        random_program(used);
    }
}

TEST_MAIN()
