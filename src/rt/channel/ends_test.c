// SPDX-License-Identifier: BSD-3-Clause
//
// How channels end: closed, with their elements, with their PEs; and notes that cannot be.
#include "rt/channel/channel_kit.h"

// ---- Ends of ends.

// What was sent before a close is received, and no more.
static void close_sender(int count, uint32_t window, bool receive_first) {
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_window(1, 0, window);
    for (int i = 0; receive_first && i < count + 3; i++)
        receive(b, &receives[i], i & 1);
    for (int i = 0; i < count; i++)
        send(a, &sends[i], i, i & 1);
    wh_channel_close(a);
    kit_turns(receive_first ? 0 : 30);
    for (int i = 0; !receive_first && i < count + 3; i++)
        receive(b, &receives[i], i & 1);
    UNTIL(all_ended(receives, count + 3) && all_ended(sends, count));
    for (int i = 0; i < count + 3; i++) {
        CHECK_EQ_INT(receives[i].status, i < count ? WH_OK : WH_ECLOSED);
        if (i < count)
            CHECK_EQ_INT(receives[i].data[0], i);
    }
    free_all(receives, count + 3);
    free_all(sends, count);
    CHECK_EQ_INT(wh_channel_recv(b, NULL, 0, NULL, NULL), WH_ECLOSED);
    CHECK_EQ_INT(wh_channel_send(b, NULL, 0, NULL, NULL), WH_ECLOSED);
    wh_channel_close(b);
    end(true);
}

TEST(what_was_sent_before_a_close_is_received) {
    for (int first = 0; first < 2; first++) {
        close_sender(0, 64, first);
        close_sender(5, 64, first);
        close_sender(100, 3, first);
    }
}

// What the other end has closed without receiving fails, and what nobody receives goes.
TEST(sends_to_a_closed_end) {
    static char big[BIG];
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_window(1, 0, 8);
    op large = {.ends = 0};
    send(a, &sends[0], 0, false);
    began(&large, wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &large), NULL));
    for (int i = 1; i < 100; i++)
        send(a, &sends[i], i, i & 1);
    kit_turns(30);
    receive(b, &receives[0], false);
    UNTIL(receives[0].ends);
    wh_channel_close(b);
    UNTIL(all_ended(sends, 100) && large.ends);
    CHECK_EQ_INT(large.status, WH_ECLOSED);
    CHECK_EQ_INT(sends[0].status, WH_OK);
    CHECK_EQ_INT(sends[99].status, WH_ECLOSED);
    free_all(sends, 100);
    CHECK_EQ_INT(wh_channel_send(a, NULL, 0, NULL, NULL), WH_ECLOSED);
    wh_channel_close(a);
    end(true);
}

// Both ends close with a full window each.
TEST(both_close_at_once) {
    for (int turns = 0; turns < 40; turns++) {
        begin(2, 1);
        wh_channel *a = open_window(0, 1, 4), *b = open_window(1, 0, 4);
        kit_turns(turns);
        for (int i = 0; i < 20; i++) {
            send(a, &sends[i], i, i & 1);
            send(b, &sends[20 + i], i, i & 1);
        }
        receive(a, &receives[0], true);
        wh_channel_close(a);
        kit_turns(turns / 4);
        wh_channel_close(b);
        UNTIL(all_ended(sends, 40) && receives[0].ends);
        free_all(sends, 40);
        free_all(receives, 1);
        end(true);
    }
}

// The k-th end meets the k-th, closed or not.
TEST(an_end_that_is_closed_before_it_is_met) {
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *second = open_end(0, 1);
    send(a, &sends[0], 7, false);
    send(second, &sends[1], 8, false);
    wh_channel_close(a);
    kit_turns(20);
    wh_channel *b = open_end(1, 0), *d = open_end(1, 0);
    receive(b, &receives[0], false);
    receive(b, &receives[1], false);
    receive(d, &receives[2], false);
    UNTIL(all_ended(receives, 3));
    CHECK_EQ_INT(receives[0].data[0], 7);
    CHECK_EQ_INT(receives[1].status, WH_ECLOSED);
    CHECK_EQ_INT(receives[2].data[0], 8);
    wh_channel_close(b);
    wh_channel_close(d);
    wh_channel_close(second);
    end(true);
}

// ---- Elements that end.

static void expect_gone(wh_channel *ch, int from) {
    UNTIL(all_ended(&receives[from], 1) && all_ended(&sends[from], 1));
    CHECK_EQ_INT(receives[from].status, WH_EPEER);
    CHECK_EQ_INT(sends[from].status, WH_EPEER);
    CHECK_EQ_INT(wh_channel_send(ch, NULL, 0, NULL, NULL), WH_EPEER);
    CHECK_EQ_INT(wh_channel_recv(ch, NULL, 0, NULL, NULL), WH_EPEER);
    CHECK(strstr(wh_request_error(receives[from].req), "destroyed"));
    free_all(&receives[from], 1);
    free_all(&sends[from], 1);
    wh_channel_close(ch);
}

TEST(a_peer_that_never_was) {
    begin(2, 1);
    ended[1] = true;
    wh_channel *a = open_end(0, 1);
    receive(a, &receives[0], true);
    send(a, &sends[0], 1, true);
    expect_gone(a, 0);
    end(true);
}

TEST(a_peer_that_ends_without_having_opened) {
    begin(2, 1);
    wh_channel *a = open_end(0, 1);
    receive(a, &receives[0], true);
    send(a, &sends[0], 1, true);
    kit_turns(20);
    end_element(1);
    expect_gone(a, 0);
    end(true);
}

// The element that ends has opened, and the other one meets it later.
TEST(a_peer_that_ends_before_it_is_met) {
    begin(2, 1);
    wh_channel *b = open_end(1, 0);
    send(b, &sends[1], 5, false);
    kit_turns(20);
    end_element(1);
    wh_channel *a = open_end(0, 1);
    receive(a, &receives[1], false);
    receive(a, &receives[0], true);
    UNTIL(receives[0].ends);
    CHECK_EQ_INT(receives[1].data[0], 5);
    send(a, &sends[0], 1, true);
    expect_gone(a, 0);
    end(true);
}

TEST(a_peer_that_ends) {
    static char big[BIG];
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_end(1, 0), *c = open_end(1, 2);
    op large = {.ends = 0};
    (void)c;
    kit_turns(20);
    send(b, &sends[1], 6, false);
    began(&large, wh_channel_send(a, big, BIG, WH_OP_OPTS(.done = on_op, .arg = &large), NULL));
    kit_turns(20);
    end_element(1);
    UNTIL(large.ends);
    CHECK_EQ_INT(large.status, WH_EPEER);
    receive(a, &receives[1], false);
    UNTIL(receives[1].ends);
    CHECK_EQ_INT(receives[1].data[0], 6);
    receive(a, &receives[0], true);
    send(a, &sends[0], 1, true);
    CHECK_EQ_INT(receives[0].status, WH_EPEER);
    CHECK_EQ_INT(sends[0].status, WH_EPEER);
    wh_channel_close(a);
    end_element(2);
    kit_turns(20);
    end(true);
}

// ---- Lost PEs.

TEST(a_lost_pe_ends_its_channels) {
    begin(3, 1);
    wh_channel *a = open_end(0, 1), *b = open_end(1, 0), *never = open_end(0, 4),
               *other = open_end(0, 2), *others = open_end(2, 0);
    (void)b;
    kit_turns(20);
    receive(a, &receives[0], true);
    for (int i = 0; i < 80; i++)
        send(a, &sends[i], i, true);
    receive(never, &receives[1], true);
    receive(other, &receives[2], true);
    kit_turns(20);
    whi_pe_destroy(job.pe[1]);
    job.pe[1] = NULL;
    UNTIL(job.lost >= 1);
    whi_channels_lost(channels[0], 1);
    whi_channels_lost(channels[2], 1);
    UNTIL(receives[0].ends && receives[1].ends && all_ended(sends, 80));
    CHECK(receives[0].status < 0);
    CHECK_EQ_INT(receives[1].status, WH_EPEER);
    CHECK_EQ_INT(sends[79].status, WH_EPEER);
    CHECK_EQ_INT(wh_channel_send(a, NULL, 0, NULL, NULL), WH_EPEER);
    CHECK_EQ_INT(receives[2].ends, 0);
    send(others, &sends[0], 3, false);
    UNTIL(receives[2].ends);
    CHECK_EQ_INT(receives[2].data[0], 3);
    free_all(receives, 3);
    for (int i = 1; i < 80; i++)
        wh_request_free(sends[i].req);
    wh_channel_close(a);
    wh_channel_close(never);
    wh_channel_close(other);
    wh_channel_close(others);
    UNTIL(!whi_hash_count(&channels[0]->ends) && !whi_hash_count(&channels[2]->ends));
    end(false);
}

// Ends that are closed already are freed while all are gone through, which passes over none of the others.
TEST(a_lost_pe_ends_its_channels_while_some_go) {
    enum { ENDS = 200 };
    static wh_channel *ends[ENDS];
    begin(2, 1);
    for (int i = 0; i < ENDS; i++)
        ends[i] = open_end(0, 1);
    kit_turns(5);
    kit_kill(1);
    for (int i = 0; i < ENDS; i += 2)
        wh_channel_close(ends[i]);
    UNTIL(job.lost == 1);
    whi_channels_lost(channels[0], 1);
    CHECK_EQ_INT(whi_hash_count(&channels[0]->ends), ENDS / 2);
    for (int i = 1; i < ENDS; i += 2) {
        CHECK_EQ_INT(wh_channel_send(ends[i], NULL, 0, NULL, NULL), WH_EPEER);
        wh_channel_close(ends[i]);
    }
    CHECK_EQ_INT(whi_hash_count(&channels[0]->ends), 0);
    end(false);
}

// ---- Numbers.

TEST(numbers_in_use_are_passed_over) {
    begin(2, 1);
    wh_channel *a = open_end(0, 1), *b = open_end(1, 0);
    channels[0]->next = a->number + WHI_CHANNEL_NUMBERS;
    wh_channel *c = open_end(0, 1), *d = open_end(1, 0);
    CHECK(c->number != a->number && c->number < WHI_CHANNEL_NUMBERS);
    wh_channel *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        wh_channel_close(all[i]);
    end(true);
}

TEST(arguments_that_are_none) {
    begin(1, 1);
    whi_channel_name name = name_of(0), other = name_of(1);
    wh_channel *ch;
    const whi_channel_kind none = {0}, small = {.window = 1},
                           large = {.window = WHI_CHANNEL_WINDOW_MAX + 1};
    CHECK_EQ_INT(whi_channels_open(channels[0], &name, &other, &none, &ch), WH_EINVAL);
    CHECK_EQ_INT(whi_channels_open(channels[0], &name, &other, &large, &ch), WH_EINVAL);
    CHECK_EQ_INT(whi_channels_open(channels[0], &name, &name, &small, &ch), WH_EINVAL);
    wh_channel *a = open_end(0, 1), *b = open_end(1, 0);
    CHECK_EQ_INT(wh_channel_send(a, NULL, 0, WH_OP_OPTS(.flags = WH_OP_SYNC), NULL), WH_ENOTSUP);
    wh_channel_close(a);
    wh_channel_close(b);
    wh_channel_close(NULL);
    end(true);
}

// ---- Notes of others.

static void note_fails(whi_channel_note note, bool met) {
    uint8_t bytes[WHI_CHANNEL_NOTE_SIZE];
    begin(2, 1);
    wh_channel *a = open_end(0, 1);
    if (met) {
        (void)open_end(1, 0);
        kit_turns(20);
        CHECK_EQ_INT(a->peer, 1);
    }
    note.number += a->number;
    whi_channel_note_write(&note, WHI_CONTROL_CHANNEL, bytes);
    CHECK_EQ_INT(whi_wire_control(job.pe[1]->wire, 0, bytes, sizeof(bytes)), WH_OK);
    UNTIL(job.failures == 1);
    CHECK(strstr(job.failure, "PE 1 has sent a note about a channel"));
    job.failures = 0;
    end(false);
}

TEST(notes_that_cannot_be) {
    note_fails((whi_channel_note){.what = WHI_CHANNEL_CREDIT, .count = 1}, true);
    note_fails((whi_channel_note){.what = WHI_CHANNEL_CREDIT, .count = 0}, true);
    note_fails((whi_channel_note){.what = WHI_CHANNEL_GONE}, true);
    note_fails((whi_channel_note){.what = WHI_CHANNEL_REFUSE}, true);
    note_fails((whi_channel_note){.what = WHI_CHANNEL_STOP, .number = 1}, true);
    note_fails((whi_channel_note){.what = WHI_CHANNEL_CREDIT, .count = 1}, false);
    note_fails((whi_channel_note){.what = WHI_CHANNEL_WHATS}, true);
}

TEST_MAIN()
