// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between two ends of one PE: when they go, in which order, and what becomes of them when something ends.
#include <wherry/mem.h>

#include "rt/channel/channel_kit.h"

TEST(only_ends_of_one_pe_that_stay) {
    for (int pes = 1; pes <= 2; pes++) {
        wh_channel *a, *b;
        begin(pes, pes);
        open_pair(&a, &b);
        CHECK(a->direct == (pes == 1) && b->direct == (pes == 1));
        close_pair(a, b);
        end(true);
    }
    begin(1, 1);
    whi_channel_name own = name_of(0), other = name_of(1);
    const whi_channel_kind moves = {.window = 64, .id = 1};
    wh_channel *a, *b = open_end(1, 0);
    CHECK_EQ_INT(whi_channels_open(channels[0], &own, &other, &moves, &a), WH_OK);
    kit_turns(5);
    CHECK(!a->direct && !b->direct);
    works_on(a, b);
    close_pair(a, b);
    end(true);
}

// The message is there when the send returns; the receiver's callback runs in progress.
TEST(a_receive_that_waits) {
    wh_channel *a, *b;
    begin(1, 1);
    open_pair(&a, &b);
    for (int i = 0; i < 200; i++) {
        receive(b, &receives[i], i % 2);
        CHECK_EQ_INT(receives[i].status, WH_PENDING);
        send(a, &sends[i], i, i % 3 == 0);
        CHECK_EQ_INT(sends[i].status, WH_OK);
        CHECK_EQ_INT(receives[i].data[3], i);
        CHECK_EQ_INT(receives[i].ends, 0);
        CHECK(whi_list_empty(&b->receives));
        UNTIL(receives[i].ends);
        CHECK_EQ_INT(receives[i].status, WH_OK);
        CHECK_EQ_INT(receives[i].size, sizeof(receives[i].data));
    }
    free_all(sends, 200);
    free_all(receives, 200);
    close_pair(a, b);
    end(true);
}

// A large message stays where it is until it is received, and is copied from there.
TEST(a_send_that_waits) {
    static char big[BIG], to[BIG];
    wh_channel *a, *b;
    op sent = {.ends = 0};
    wh_result result = {.status = WH_OK};
    begin(1, 1);
    open_pair(&a, &b);
    began(&sent, wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &sent), NULL));
    kit_turns(20);
    CHECK_EQ_INT(sent.status, WH_PENDING);
    memset(big, 3, BIG);
    CHECK_EQ_INT(wh_channel_recv(b, to, BIG, WH_OP_OPTS(.result = &result), NULL), WH_OK);
    CHECK_EQ_INT(result.size, BIG);
    CHECK(to[0] == 3 && to[BIG - 1] == 3);
    UNTIL(sent.ends);
    CHECK_EQ_INT(sent.status, WH_OK);
    close_pair(a, b);
    end(true);
}

// Many ends send, wait for that, and only then receive: nobody's messages are in another one's way.
TEST(a_thousand_channels_send_before_they_receive) {
    enum { ELEMENTS_USED = 200, EACH = 10, CHANNELS = ELEMENTS_USED / 2 * EACH };
    static wh_channel *ends[CHANNELS][2];
    static op sent[CHANNELS][2], got[CHANNELS][2];
    begin(1, 1);
    for (int i = 0; i < CHANNELS; i++)
        for (int side = 0; side < 2; side++)
            ends[i][side] = open_end(2 * (i / EACH) + side, 2 * (i / EACH) + !side);
    for (int i = 0; i < CHANNELS; i++)
        UNTIL(ends[i][0]->twin);
    for (int i = 0; i < CHANNELS; i++)
        for (int side = 0; side < 2; side++)
            send(ends[i][side], &sent[i][side], 2 * i + side, false);
    CHECK(all_ended(sent[0], 2 * CHANNELS));
    for (int i = 0; i < CHANNELS; i++)
        for (int side = 0; side < 2; side++) {
            receive(ends[i][side], &got[i][side], i % 2);
            CHECK_EQ_INT(got[i][side].status, WH_OK);
            CHECK_EQ_INT(got[i][side].data[0], 2 * i + !side);
            CHECK_EQ_INT(got[i][side].size, sizeof(got[i][side].data));
        }
    for (int i = 0; i < CHANNELS; i++)
        close_pair(ends[i][0], ends[i][1]);
    end(true);
}

// What is kept for an end is bounded by its window; a receive makes room for the next one that waits.
TEST(the_window) {
    enum { WINDOW = 4, SENT = 20 };
    begin(1, 1);
    wh_channel *a = open_end(0, 1), *b = open_window(1, 0, WINDOW);
    kit_turns(5);
    for (int i = 0; i < SENT; i++) {
        send(a, &sends[i], i, i % 2);
        CHECK_EQ_INT(sends[i].status, i < WINDOW ? WH_OK : WH_PENDING);
    }
    kit_turns(20);
    CHECK_EQ_INT(sends[WINDOW].ends, 0);
    for (int i = 0; i < SENT; i++) {
        receive(b, &receives[i], false);
        CHECK_EQ_INT(receives[i].data[3], i);
        CHECK(b->kept_count <= WINDOW);
        if (i + WINDOW < SENT)
            UNTIL(sends[i + WINDOW].ends);
        if (i + WINDOW + 1 < SENT)
            CHECK_EQ_INT(sends[i + WINDOW + 1].ends, 0);
    }
    free_all(sends, SENT);
    close_pair(a, b);
    end(true);
}

// A kept message is the sender's no more, and a long one is not kept.
TEST(what_is_kept) {
    enum { SMALL = 8 << 10 };
    static char from[SMALL + 1], to[SMALL + 1];
    wh_channel *a, *b;
    op late = {.ends = 0};
    begin(1, 1);
    open_pair(&a, &b);
    memset(from, 5, sizeof(from));
    CHECK_EQ_INT(wh_channel_send(a, from, SMALL, NULL, NULL), WH_OK);
    memset(from, 6, sizeof(from));
    began(&late,
          wh_channel_send(a, from, SMALL + 1, WH_OP_OPTS(.done = on_op, .arg = &late), NULL));
    CHECK_EQ_INT(late.status, WH_PENDING);
    CHECK_EQ_INT(wh_channel_recv(b, to, SMALL, NULL, NULL), WH_OK);
    CHECK(to[0] == 5 && to[SMALL - 1] == 5 && to[SMALL] == 0);
    CHECK_EQ_INT(wh_channel_recv(b, to, sizeof(to), NULL, NULL), WH_OK);
    CHECK(to[0] == 6 && to[SMALL] == 6);
    UNTIL(late.ends);
    close_pair(a, b);
    end(true);
}

// Kept ones, one that waits, what follows it, memory of a device: all in the order of the sends.
TEST(order) {
    enum { SENT = 60, LARGE = 20 << 10 };
    static int from[SENT][LARGE / sizeof(int)], to[SENT][LARGE / sizeof(int)];
    static op sent[SENT], got[SENT];
    int *device[2];
    wh_channel *a, *b;
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, LARGE, (void **)&device[i]), WH_OK);
    for (int round = 0; round < 6; round++) {
        begin(1, 1);
        open_pair(&a, &b);
        memset(to, 0, sizeof(to));
        memset(sent, 0, sizeof(sent));
        memset(got, 0, sizeof(got));
        int ahead = round % 3 * 10;
        for (int i = 0; i < SENT + ahead; i++) {
            if (i < SENT) {
                bool large = i % 7 == 3, on_device = i == 12;
                int *buf = on_device ? device[0] : from[i];
                from[i][0] = i;
                CHECK_EQ_INT(wh_mem_copy(buf, WH_MEM_AUTO, from[i], WH_MEM_HOST, sizeof(int)),
                             WH_OK);
                began(&sent[i], wh_channel_send(a, buf, large ? LARGE : sizeof(int),
                                                WH_OP_OPTS(.done = on_op, .arg = &sent[i]), NULL));
            }
            int k = i - ahead;
            if (k >= 0)
                began(&got[k], wh_channel_recv(b, k == 20 ? device[1] : to[k], LARGE,
                                               WH_OP_OPTS(.done = on_op, .arg = &got[k]), NULL));
            if (round >= 3)
                kit_turns(i % 3);
        }
        UNTIL(all_ended(sent, SENT) && all_ended(got, SENT));
        CHECK_EQ_INT(wh_mem_copy(to[20], WH_MEM_HOST, device[1], WH_MEM_SIM, sizeof(int)), WH_OK);
        for (int i = 0; i < SENT; i++) {
            CHECK_EQ_INT(sent[i].status, WH_OK);
            CHECK_EQ_INT(got[i].status, WH_OK);
            CHECK_EQ_INT(to[i][0], i);
        }
        close_pair(a, b);
        end(true);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device[i]), WH_OK);
}

// ---- Cancel and time.

// A receive that has not got a message leaves it to the next one; so does a send that waits leave no gap.
TEST(cancelled) {
    static char big[BIG];
    wh_channel *a, *b;
    op large = {.ends = 0}, late = {.ends = 0};
    begin(1, 1);
    open_pair(&a, &b);
    receive(b, &receives[0], true);
    wh_request_cancel(receives[0].req);
    began(&late, wh_channel_recv(b, big, BIG,
                                 WH_OP_OPTS(.done = on_op, .arg = &late, .timeout_ms = 10), NULL));
    UNTIL(receives[0].ends && late.ends);
    CHECK_EQ_INT(receives[0].status, WH_ECANCELLED);
    CHECK_EQ_INT(late.status, WH_ETIMEDOUT);
    send(a, &sends[0], 1, true);  // kept, and not to be had back
    wh_request_cancel(sends[0].req);
    CHECK_EQ_INT(sends[0].status, WH_OK);
    began(&large,
          wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &large, .timeout_ms = 10),
                          NULL));
    send(a, &sends[1], 2, false);
    CHECK_EQ_INT(sends[1].status, WH_PENDING);
    UNTIL(large.ends);
    CHECK_EQ_INT(large.status, WH_ETIMEDOUT);
    UNTIL(sends[1].ends);  // which was behind it
    receive(b, &receives[1], false);
    receive(b, &receives[2], false);
    CHECK_EQ_INT(receives[1].data[0], 1);
    CHECK_EQ_INT(receives[2].data[0], 2);
    free_all(receives, 1);
    close_pair(a, b);
    end(true);
}

// What has met its other side has matched: a cancel comes too late, also where the engine moves it.
TEST(cancelled_when_it_has_matched) {
    enum { SIZE = 64 << 10 };
    static char host[SIZE], back[SIZE];
    void *device;
    wh_channel *a, *b;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, SIZE, &device), WH_OK);
    memset(host, 4, SIZE);
    for (int which = 0; which < 3; which++) {
        op sent = {.ends = 0}, got = {.ends = 0};
        begin(1, 1);
        open_pair(&a, &b);
        began(&got,
              wh_channel_recv(b, device, SIZE, WH_OP_OPTS(.done = on_op, .arg = &got), &got.req));
        began(&sent, wh_channel_send(a, host, which == 2 ? 16 : SIZE,
                                     WH_OP_OPTS(.done = on_op, .arg = &sent), &sent.req));
        CHECK_EQ_INT(got.status, WH_PENDING);
        wh_request_cancel(which ? got.req : sent.req);
        receive(b, &receives[0], false);
        send(a, &sends[0], 7, false);
        UNTIL(sent.ends && got.ends && receives[0].ends);
        CHECK_EQ_INT(sent.status, WH_OK);
        CHECK_EQ_INT(got.status, WH_OK);
        CHECK_EQ_INT(receives[0].data[0], 7);
        free_all(&got, 1);
        free_all(&sent, 1);
        CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, device, WH_MEM_SIM, SIZE), WH_OK);
        CHECK_EQ_INT(back[15], 4);
        close_pair(a, b);
        end(true);
    }
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
}

// ---- The end of ends.

// What was kept, and what waits, is received after its sender has gone; then there is no more.
TEST(a_sender_that_goes) {
    static char big[BIG], to[BIG];
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        wh_channel *a, *b;
        op large = {.ends = 0};
        wh_status over = destroyed ? WH_EPEER : WH_ECLOSED;
        begin(1, 1);
        open_pair(&a, &b);
        send(a, &sends[0], 1, false);
        send(a, &sends[1], 2, false);
        memset(big, 8, BIG);
        began(&large, wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &large), NULL));
        if (destroyed)
            end_element(0);
        else
            wh_channel_close(a);
        kit_turns(20);
        for (int i = 0; i < 2; i++) {
            receive(b, &receives[i], false);
            CHECK_EQ_INT(receives[i].data[0], i + 1);
        }
        CHECK_EQ_INT(wh_channel_recv(b, to, BIG, NULL, NULL), WH_OK);
        CHECK_EQ_INT(to[BIG - 1], 8);
        receive(b, &receives[2], true);
        UNTIL(receives[2].ends && large.ends);
        CHECK_EQ_INT(receives[2].status, over);
        CHECK_EQ_INT(large.status, WH_OK);
        wh_request_free(receives[2].req);
        CHECK_EQ_INT(wh_channel_recv(b, to, BIG, NULL, NULL), over);
        wh_channel_close(b);
        end(true);
    }
}

// What nobody has received goes with its end, which keeps nothing more once it is closed.
TEST(a_receiver_that_goes) {
    static char big[BIG];
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        wh_channel *a, *b;
        op large = {.ends = 0};
        wh_status over = destroyed ? WH_EPEER : WH_ECLOSED;
        begin(1, 1);
        open_pair(&a, &b);
        for (int i = 0; i < 10; i++)
            send(a, &sends[i], i, false);
        began(&large, wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &large), NULL));
        if (destroyed)
            end_element(1);
        else
            wh_channel_close(b);
        UNTIL(large.ends);
        CHECK_EQ_INT(large.status, over);
        CHECK_EQ_INT(wh_channel_send(a, big, 1, NULL, NULL), over);
        wh_channel_close(a);
        end(true);
    }
    wh_channel *a, *b;
    begin(1, 1);
    open_pair(&a, &b);
    wh_channel_close(b);
    send(a, &sends[0], 1, true);
    UNTIL(sends[0].ends);
    CHECK_EQ_INT(sends[0].status, WH_ECLOSED);
    wh_request_free(sends[0].req);
    wh_channel_close(a);
    end(true);
}

// What is kept, waits or is with the engine when the job is over ends with it.
TEST(a_job_that_ends) {
    static char big[BIG];
    void *device;
    wh_channel *a, *b;
    op large = {.ends = 0}, to_device = {.ends = 0}, waits = {.ends = 0};
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, BIG, &device), WH_OK);
    begin(1, 1);
    open_pair(&a, &b);
    send(a, &sends[0], 1, false);
    began(&to_device,
          wh_channel_recv(b, device, BIG, WH_OP_OPTS(.done = on_op, .arg = &to_device), NULL));
    send(a, &sends[1], 2, false);
    send(a, &sends[2], 3, false);
    began(&large, wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &large), NULL));
    began(&waits, wh_channel_recv(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &waits), NULL));
    CHECK_EQ_INT(b->kept_count, 2);
    end(false);
    CHECK(large.ends == 1 && waits.ends == 1 && to_device.ends == 1);
    CHECK_EQ_INT(large.status, WH_ECLOSED);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
}

TEST_MAIN()
