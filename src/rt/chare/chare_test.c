// SPDX-License-Identifier: BSD-3-Clause
//
// Collections of chares, and their entries: ordinary, expedited, inline, threaded, when.
#include "rt/chare/chare_kit.h"

// ---- Collections.

BOTH(groups) {
    begin(pes, ppn);
    wh_proxy group, nodes;
    CHECK_EQ_INT(wh_group_create(job.pe[pes - 1], "cell", NULL, 0, &group), WH_OK);
    CHECK_EQ_INT(wh_node_group_create(job.pe[0], "cell", NULL, 0, &nodes), WH_OK);
    for (int i = 0; i < pes; i++)
        send(i, group, cell_tell_entry, "all", i);
    send(0, nodes, cell_tell_entry, "nodes", 0);
    UNTIL(seen.count == pes * pes + pes / ppn);
    kit_settle();
    CHECK_EQ_INT(seen.count, pes * pes + pes / ppn);
    CHECK_EQ_INT(seen.made, pes + pes / ppn);
    for (int i = 0; i < seen.count; i++) {
        const note *n = &seen.notes[i];
        bool node = !strcmp(n->text, "nodes");
        CHECK_EQ_INT(n->element.index[0], node ? n->pe / ppn : n->pe);
        CHECK(!node || n->pe % ppn == 0);
    }
    kit_finish();
}

static void array_of(int pes, int ppn, const char *map) {
    enum { X = 3, Y = 2, Z = 4, ALL = X * Y * Z };
    begin(pes, ppn);
    wh_proxy array;
    int seven = 7;
    CHECK_EQ_INT(wh_array_create(job.pe[pes / 2], "cell",
                                 WH_ARRAY_OPTS(.dims = 3, .shape = {X, Y, Z}, .map = map), &seven,
                                 sizeof(seven), &array),
                 WH_OK);
    for (int round = 0; round < 3; round++)
        for (int from = 0; from < pes; from++)
            for (int i = 0; i < ALL; i++) {
                const int32_t index[3] = {i / (Y * Z), i / Z % Y, i % Z};
                send(from, wh_proxy_at(array, 3, index), cell_tell_entry, "one", round);
            }
    UNTIL(seen.count == 3 * pes * ALL);
    kit_settle();
    CHECK_EQ_INT(seen.count, 3 * pes * ALL);
    CHECK_EQ_INT(seen.made, ALL);
    static int64_t next[PES_MAX][ALL];
    memset(next, 0, sizeof(next));
    for (int i = 0; i < seen.count; i++) {
        const note *n = &seen.notes[i];
        int number = (n->element.index[0] * Y + n->element.index[1]) * Z + n->element.index[2];
        CHECK_EQ_INT(n->ref, next[n->source][number]++);
        CHECK_EQ_INT(n->pe, !strcmp(map, "round-robin") ? number % pes
                            : !strcmp(map, "backwards") ? pes - 1 - n->element.index[0] % pes
                                                        : number * pes / ALL);
    }
    int found = seen.count;
    send(0, array, cell_tell_entry, "all", 0);
    UNTIL(seen.count == found + ALL);
    kit_finish();
}

BOTH(arrays) {
    array_of(pes, ppn, "block");
    array_of(pes, ppn, "round-robin");
    array_of(pes, ppn, "backwards");
}

BOTH(single_chares) {
    begin(pes, ppn);
    wh_proxy all[64];
    int count = 0;
    for (int i = 0; i < 64; i++) {
        int from = i % pes, where = i % 3 ? i % pes : -1;
        CHECK_EQ_INT(wh_chare_create(job.pe[from], "cell", where, &i, sizeof(i), &all[count++]),
                     WH_OK);
    }
    // Its creator's PE has not told that of the element yet.
    for (int i = 0; i < count; i++)
        send((i + 1) % pes, all[i], cell_tell_entry, "one", i);
    UNTIL(seen.count == count);
    CHECK_EQ_INT(seen.made, count);
    for (int i = 0; i < count; i++) {
        const wh_callback callback = {
            .kind = WH_CALLBACK_FUNCTION, .pe = pes - 1, .function = wh_function_id("sum")};
        char bytes[WH_CALLBACK_SIZE];
        wh_callback_encode(&callback, bytes);
        CHECK_EQ_INT(wh_chare_send(job.pe[0], all[i], cell_value_entry, bytes, sizeof(bytes), NULL),
                     WH_OK);
    }
    kit_settle();
    CHECK_EQ_INT(summed, 64 * 63 / 2 + 64 * 1000 * (pes - 1));
    for (int i = 0; i < count; i++)
        CHECK_EQ_INT(wh_chare_destroy(job.pe[i % pes], all[i]), WH_OK);
    kit_settle();
    CHECK_EQ_INT(seen.ended, count);
    CHECK_EQ_INT(kit_errors.count, 0);
    send(0, all[5], cell_tell_entry, "gone", 0);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "does not exist"));
    kit_finish();
}

BOTH(broadcasts_come_in_one_order) {
    enum { EACH = 20 };
    begin(pes, ppn);
    wh_proxy array;
    CHECK_EQ_INT(
        wh_array_create(job.pe[0], "cell", WH_ARRAY_OPTS(.dims = 1, .shape = {9}), NULL, 0, &array),
        WH_OK);
    for (int i = 0; i < EACH; i++)
        for (int from = 0; from < pes; from++)
            send(from, array, cell_tell_entry, "x", i);
    UNTIL(seen.count == 9 * EACH * pes);
    kit_settle();
    CHECK_EQ_INT(seen.count, 9 * EACH * pes);
    static int order[9][MOST];
    int count[9] = {0};
    int64_t next[9][PES_MAX] = {0};
    for (int i = 0; i < seen.count; i++) {
        const note *n = &seen.notes[i];
        int e = n->element.index[0];
        CHECK_EQ_INT(n->ref, next[e][n->source]++);
        order[e][count[e]++] = n->source;
    }
    for (int e = 1; e < 9; e++)
        CHECK_MEM(order[e], order[0], (size_t)count[0] * sizeof(int));
    kit_finish();
}

// ---- Entries.

BOTH(when_runs_what_is_asked_for) {
    begin(pes, ppn);
    wh_proxy one;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", pes - 1, NULL, 0, &one), WH_OK);
    for (int i = 0; i < 5; i++)
        send(0, one, cell_asked_entry, "asked", 4 - i);
    kit_settle();
    CHECK_EQ_INT(seen.count, 0);
    for (int i = 0; i < 7; i++)
        send(0, one, cell_ask_entry, "", i);
    kit_settle();
    CHECK_EQ_INT(seen.count, 5);
    for (int i = 0; i < 5; i++)
        CHECK_EQ_INT(seen.notes[i].ref, i);
    send(0, one, cell_asked_entry, "asked", 6);
    send(0, one, cell_asked_entry, "asked", 6);
    send(0, one, cell_ask_entry, "", WH_REF_ANY);
    kit_settle();
    CHECK_EQ_INT(seen.count, 7);
    kit_finish();
}

static void wait_for_sum(wh_pe *pe, void *arg) {
    wh_future *future = arg;
    const void *value;
    size_t size;
    int64_t sum;
    CHECK_EQ_INT(wh_future_get(pe, *future, &value, &size), WH_PENDING);
    CHECK_EQ_INT(wh_future_wait(pe, *future, &value, &size), WH_OK);
    CHECK_EQ_INT(size, sizeof(sum));
    memcpy(&sum, value, sizeof(sum));
    summed = (int)sum;
    wh_future_free(pe, *future);
    CHECK_EQ_INT(wh_future_get(pe, *future, &value, &size), WH_ENOTFOUND);
}

BOTH(threaded_entries_wait_for_messages_and_futures) {
    begin(pes, ppn);
    wh_proxy one;
    wh_future future;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", pes - 1, NULL, 0, &one), WH_OK);
    CHECK_EQ_INT(wh_future_create(job.pe[0], &future), WH_OK);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[0], wait_for_sum, &future), WH_OK);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], one, cell_collect_entry, &future, sizeof(future),
                               WH_SEND_OPTS(.ref = 4)),
                 WH_OK);
    for (int i = 3; i >= 0; i--) {
        kit_settle();
        CHECK_EQ_INT(summed, 0);
        int value = 10 + i;
        CHECK_EQ_INT(wh_chare_send(job.pe[i % pes], one, cell_asked_entry, &value, sizeof(value),
                                   WH_SEND_OPTS(.ref = i)),
                     WH_OK);
    }
    UNTIL(summed == 10 + 11 + 12 + 13);
    CHECK_EQ_INT(wh_future_set(job.pe[0], future, "late", 4), WH_OK);
    kit_settle();
    kit_finish();
}

BOTH(an_element_that_ends_wakes_its_threads) {
    begin(pes, ppn);
    wh_proxy one;
    wh_future future = {0};
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", pes - 1, NULL, 0, &one), WH_OK);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], one, cell_collect_entry, &future, sizeof(future),
                               WH_SEND_OPTS(.ref = 2)),
                 WH_OK);
    kit_settle();
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], one), WH_OK);
    UNTIL(kit_errors.count == 1000);
    UNTIL(seen.ended == 1);
    kit_finish();
}

TEST(expedited_entries_come_first) {
    begin(2, 1);
    wh_proxy one;
    CHECK_EQ_INT(wh_chare_create(job.pe[1], "cell", 1, NULL, 0, &one), WH_OK);
    kit_settle();
    for (int i = 0; i < 3; i++)
        send(1, one, cell_tell_entry, "usual", i);
    CHECK_EQ_INT(
        wh_chare_send(job.pe[1], one, cell_tell_entry, "low", 3, WH_SEND_OPTS(.priority = 1)),
        WH_OK);
    CHECK_EQ_INT(
        wh_chare_send(job.pe[1], one, cell_tell_entry, "high", 4, WH_SEND_OPTS(.priority = -1)),
        WH_OK);
    send(1, one, cell_urgent_entry, "urgent", 0);
    UNTIL(seen.count == 6);
    CHECK_EQ_STR(seen.notes[0].text, "urgent");
    CHECK_EQ_STR(seen.notes[1].text, "high");
    CHECK_EQ_STR(seen.notes[2].text, "usual");
    CHECK_EQ_STR(seen.notes[5].text, "low");
    kit_finish();
}

// Not where it is on another PE, has something waiting, or runs.
TEST(inline_entries_run_within_the_send) {
    begin(2, 1);
    wh_proxy here, there;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", 0, NULL, 0, &here), WH_OK);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", 1, NULL, 0, &there), WH_OK);
    kit_settle();
    wh_pe *outer = wh_pe_here();
    CHECK(!outer);
    send(0, there, cell_at_once_entry, "there", 0);
    CHECK_EQ_INT(seen.count, 0);
    UNTIL(seen.count == 1);
    send(0, here, cell_tell_entry, "first", 0);
    send(0, here, cell_at_once_entry, "second", 0);
    CHECK_EQ_INT(seen.count, 1);
    UNTIL(seen.count == 3);
    CHECK_EQ_STR(seen.notes[2].text, "second");
    send(0, here, cell_nest_entry, "", 1);
    UNTIL(seen.count == 5);
    CHECK_EQ_INT(seen.notes[3].ref, 1);
    kit_finish();
}

// What is large comes as it may, and in its turn; nothing that waits holds up its sender.
BOTH(large_arguments) {
    enum { COUNT = 40, BIG = 200 << 10 };
    static char data[BIG];
    begin(pes, ppn);
    wh_proxy one;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", pes - 1, NULL, 0, &one), WH_OK);
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 3 ? BIG - (size_t)i : (size_t)i;
        for (size_t b = 0; b < size; b++)
            data[b] = (char)(b * 7 + (size_t)i);
        CHECK_EQ_INT(
            wh_chare_send(job.pe[0], one, cell_big_entry, data, size, WH_SEND_OPTS(.ref = i)),
            WH_OK);
    }
    UNTIL(seen.count == COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ_INT(seen.notes[i].ref, i);
    kit_finish();
}

// Arguments are the program's again when the call returns, wherever the element is.
BOTH(large_arguments_change_behind_the_call) {
    enum { BIG = 100 << 10 };
    static char data[BIG];
    begin(pes, ppn);
    wh_proxy one[PES_MAX];
    for (int pe = 0; pe < pes; pe++)
        CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", pe, NULL, 0, &one[pe]), WH_OK);
    kit_settle();
    for (int i = 0; i < 3 * pes; i++) {
        for (size_t b = 0; b < BIG; b++)
            data[b] = (char)(b * 7 + (size_t)i);
        CHECK_EQ_INT(wh_chare_send(job.pe[0], one[i % pes], cell_big_entry, data, BIG,
                                   WH_SEND_OPTS(.ref = i)),
                     WH_OK);
        memset(data, -1, BIG);
    }
    UNTIL(seen.count == 3 * pes);
    kit_finish();
}

// Also where something is in front of the call that is still arriving here: a gate, which the test closes.
TEST(large_arguments_at_a_gate_are_copied) {
    enum { BIG = 100 << 10 };
    static char data[BIG];
    begin(2, 1);
    wh_proxy one;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", 1, NULL, 0, &one), WH_OK);
    kit_settle();
    whi_chares *c = whi_chares_get(job.pe[0]);
    whi_gate *gate = whi_gate_close(&c->gates, 1);
    for (size_t b = 0; b < BIG; b++)
        data[b] = (char)(b * 7);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], one, cell_big_entry, data, BIG, NULL), WH_OK);
    memset(data, -1, BIG);
    whi_queue_node *node = whi_queue_pop(&gate->queue);
    CHECK(node);
    whi_gate_open(&c->gates, 1);
    whi_call_post(c, 1, whi_container_of(node, whi_msg, link), true);
    UNTIL(seen.count == 1);
    kit_finish();
}

TEST_MAIN()
