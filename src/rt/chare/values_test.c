// SPDX-License-Identifier: BSD-3-Clause
//
// Chares that are inserted and that end; readonly data, callbacks; mistakes; the end of the job.
#include "base/alloc.h"
#include "rt/chare/chare_kit.h"

// ---- Insertion and the end.

BOTH(inserted_elements) {
    begin(pes, ppn);
    wh_proxy array;
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell",
                                 WH_ARRAY_OPTS(.dims = 2, .flags = WH_ARRAY_INSERTING), NULL, 0,
                                 &array),
                 WH_OK);
    for (int i = 0; i < 30; i++) {
        const int32_t index[2] = {i, -i};
        send(i % pes, wh_proxy_at(array, 2, index), cell_tell_entry, "early", i);
    }
    kit_turns(50);
    CHECK_EQ_INT(seen.count, 0);
    for (int i = 0; i < 29; i++) {
        const int32_t index[2] = {i, -i};
        CHECK_EQ_INT(
            wh_array_insert(job.pe[(i + 1) % pes], wh_proxy_at(array, 2, index), &i, sizeof(i)),
            WH_OK);
    }
    UNTIL(seen.count == 29);
    CHECK_EQ_INT(seen.made, 29);
    CHECK_EQ_INT(kit_errors.count, 0);
    CHECK_EQ_INT(wh_array_done(job.pe[pes - 1], array), WH_OK);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "element (29, -29) of the array of class cell"));
    kit_settle();
    send(0, wh_proxy_at(array, 2, (const int32_t[]){100, 0}), cell_tell_entry, "none", 0);
    UNTIL(kit_errors.count == 2);
    const int32_t twice[2] = {3, -3};
    CHECK_EQ_INT(wh_array_insert(job.pe[0], wh_proxy_at(array, 2, twice), NULL, 0), WH_OK);
    UNTIL(kit_errors.count == 3);
    CHECK(strstr(kit_errors.last, "there already"));
    kit_finish();
}

BOTH(elements_on_demand) {
    begin(pes, ppn);
    wh_proxy array;
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell",
                                 WH_ARRAY_OPTS(.dims = 1, .flags = WH_ARRAY_ON_DEMAND), NULL, 0,
                                 &array),
                 WH_OK);
    for (int i = 0; i < 60; i++)
        send(i % pes, wh_proxy_at(array, 1, (const int32_t[]){i % 20}), cell_tell_entry, "x", i);
    UNTIL(seen.count == 60);
    kit_settle();
    CHECK_EQ_INT(seen.made, 20);
    CHECK_EQ_INT(kit_errors.count, 0);
    kit_finish();
}

BOTH(ends) {
    begin(pes, ppn);
    wh_proxy array;
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell", WH_ARRAY_OPTS(.dims = 1, .shape = {20}), NULL,
                                 0, &array),
                 WH_OK);
    // Each of them ends in the first call; the second finds nobody.
    for (int i = 0; i < 10; i++) {
        wh_proxy one = wh_proxy_at(array, 1, &i);
        send(pes - 1, one, cell_end_entry, "end", i);
        send(pes - 1, one, cell_tell_entry, "late", i);
    }
    UNTIL(seen.count == 10 && kit_errors.count == 10);
    kit_settle();
    CHECK_EQ_INT(seen.ended, 10);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[pes - 1], array), WH_OK);
    UNTIL(seen.ended == 20);
    kit_settle();
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(wh_chare_send(job.pe[i], array, cell_tell_entry, "", 0, NULL), WH_ENOTFOUND);
    CHECK_EQ_INT(kit_errors.count, 10);
    kit_finish();
}

// ---- Values.

static const char *shared[PES_MAX][2];

static void share(wh_pe *pe, void *arg) {
    (void)arg;
    const char *first = wh_pe_number(pe) ? NULL : "first", *second = wh_pe_number(pe) ? NULL : "2";
    const void *out;
    CHECK_EQ_INT(wh_readonly(pe, first, 6, &out), WH_OK);
    shared[wh_pe_number(pe)][0] = out;
    CHECK_EQ_INT(wh_readonly(pe, second, 2, &out), WH_OK);
    shared[wh_pe_number(pe)][1] = out;
}

BOTH(readonly_data) {
    begin(pes, ppn);
    memset(shared, 0, sizeof(shared));
    for (int i = pes - 1; i >= 0; i--) {
        CHECK_EQ_INT(wh_pe_spawn(job.pe[i], share, NULL), WH_OK);
        kit_turns(3);
        CHECK(!i || !shared[i][0]);
    }
    for (int i = 0; i < pes; i++) {
        UNTIL(shared[i][1]);
        CHECK_EQ_STR(shared[i][0], "first");
        CHECK_EQ_STR(shared[i][1], "2");
    }
    kit_finish();
}

BOTH(callbacks) {
    begin(pes, ppn);
    wh_proxy group;
    wh_future future;
    const void *value;
    size_t size;
    int five = 5;
    CHECK_EQ_INT(wh_group_create(job.pe[0], "cell", NULL, 0, &group), WH_OK);
    CHECK_EQ_INT(wh_future_create(job.pe[pes - 1], &future), WH_OK);
    wh_callback all[] = {
        {.kind = WH_CALLBACK_NONE},
        {.kind = WH_CALLBACK_SEND, .proxy = group, .entry = cell_tell_entry, .ref = 8},
        {.kind = WH_CALLBACK_SEND,
         .proxy = wh_proxy_at(group, 1, &(int32_t){pes - 1}),
         .entry = cell_tell_entry},
        {.kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("sum"), .pe = pes - 1},
        {.kind = WH_CALLBACK_FUTURE, .future = future},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char bytes[WH_CALLBACK_SIZE], again[WH_CALLBACK_SIZE];
        wh_callback copy;
        wh_callback_encode(&all[i], bytes);
        CHECK_EQ_INT(wh_callback_decode(bytes, sizeof(bytes), &copy), WH_OK);
        wh_callback_encode(&copy, again);
        CHECK_MEM(again, bytes, sizeof(again));
        CHECK_EQ_INT(wh_callback_decode(bytes, sizeof(bytes) - 1, &copy), WH_EPROTOCOL);
        CHECK_EQ_INT(wh_callback_fire(job.pe[0], &copy, &five, sizeof(five)), WH_OK);
        bytes[0] = 77;
        CHECK_EQ_INT(wh_callback_decode(bytes, sizeof(bytes), &copy), WH_EPROTOCOL);
    }
    kit_settle();
    CHECK_EQ_INT(seen.count, pes + 1);
    CHECK_EQ_INT(summed, 5 + 1000 * (pes - 1));
    CHECK_EQ_INT(wh_future_get(job.pe[pes - 1], future, &value, &size), WH_OK);
    CHECK_EQ_INT(*(const int *)value, 5);
    all[3].function++;
    CHECK_EQ_INT(wh_callback_fire(job.pe[0], &all[3], &five, sizeof(five)), WH_OK);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "not registered"));
    five = 3;
    CHECK_EQ_INT(wh_callback_fire(job.pe[pes - 1], &(wh_callback){.kind = WH_CALLBACK_EXIT}, &five,
                                  sizeof(five)),
                 WH_OK);
    for (int i = 0; i < pes; i++)
        UNTIL(wh_pe_ended(job.pe[i]));
    CHECK_EQ_INT(job.pe[0]->exit.status, 3);
    kit_finish();
}

// ---- Mistakes.

TEST(mistakes_are_refused) {
    begin(2, 1);
    wh_proxy group, array, none;
    CHECK_EQ_INT(wh_class_register(job.pe[0], &cell_class), WH_EINVAL);
    CHECK_EQ_INT(wh_class_register(job.pe[0], &(wh_class){.size = sizeof(wh_class)}), WH_EINVAL);
    CHECK_EQ_INT(wh_group_create(job.pe[0], "nobody", NULL, 0, &group), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "nobody", 0, NULL, 0, &group), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", 2, NULL, 0, &group), WH_EINVAL);
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell", WH_ARRAY_OPTS(.dims = 7), NULL, 0, &array),
                 WH_EINVAL);
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell", WH_ARRAY_OPTS(.dims = 1, .shape = {-1}), NULL,
                                 0, &array),
                 WH_EINVAL);
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell", WH_ARRAY_OPTS(.dims = 1, .map = "none"), NULL,
                                 0, &array),
                 WH_ENOTFOUND);
    CHECK_EQ_INT(wh_group_create(job.pe[0], "cell", NULL, 0, &group), WH_OK);
    kit_settle();
    none = wh_proxy_at(group, 2, (const int32_t[]){0, 0});
    CHECK_EQ_INT(wh_chare_send(job.pe[0], none, 0, NULL, 0, NULL), WH_EINVAL);
    none = wh_proxy_at(group, 1, (const int32_t[]){0});
    CHECK_EQ_INT(wh_chare_send(job.pe[0], none, 0, NULL, 8, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], (wh_proxy){.collection = 1}, 0, NULL, 0, NULL),
                 WH_EINVAL);
    CHECK_EQ_INT(wh_chare_send(job.pe[1], none, 99, NULL, 0, NULL), WH_OK);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "entry 99 of class cell"));
    send(1, wh_proxy_at(group, 1, (const int32_t[]){5}), cell_tell_entry, "x", 0);
    UNTIL(kit_errors.count == 2);
    const void *value;
    size_t size;
    CHECK_EQ_INT(wh_future_get(job.pe[0], (wh_future){.pe = 1}, &value, &size), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_future_set(job.pe[0], (wh_future){.pe = 9}, NULL, 0), WH_EINVAL);
    char bytes[WH_PROXY_SIZE];
    wh_proxy copy;
    wh_proxy_encode(&none, bytes);
    CHECK_EQ_INT(wh_proxy_decode(bytes, sizeof(bytes), &copy), WH_OK);
    CHECK_MEM(&copy, &none, sizeof(copy));
    CHECK_EQ_INT(wh_proxy_decode(bytes, sizeof(bytes) - 1, &copy), WH_EPROTOCOL);
    bytes[8] = 1;
    CHECK_EQ_INT(wh_proxy_decode(bytes, sizeof(bytes), &copy), WH_EPROTOCOL);
    kit_finish();
}

TEST(without_an_error_function_the_job_ends) {
    begin(2, 1);
    CHECK_EQ_INT(wh_chare_on_error(job.pe[1], NULL, NULL), WH_OK);
    wh_proxy one;
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", 1, NULL, 0, &one), WH_OK);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], one), WH_OK);
    send(0, one, cell_tell_entry, "late", 0);
    UNTIL(job.failures == 1);
    CHECK(strstr(job.failure, "does not exist"));
    kit_end();
}

static int given_back;

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    (void)arg;
    given_back++;
}

// What was refused for lack of memory has not happened, and what was accepted does.
TEST(without_memory_calls_are_refused) {
    static char data[2000];
    begin(1, 1);
    const wh_frame frames[] = {{.data = data, .size = 100}, {.data = data, .size = sizeof(data)}};
    int sent = 0, with = 0;
    for (uint64_t n = 1;; n++) {
        wh_proxy group, one;
        wh_future future;
        wh_callback callback = {.kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("sum")};
        int value = 1;
        whi_alloc_fail_at(n);
        wh_status st = wh_group_create(job.pe[0], "cell", NULL, 0, &group);
        if (st == WH_OK)
            st = wh_chare_create(job.pe[0], "cell", 0, NULL, 0, &one);
        if (st == WH_OK)
            st = wh_future_create(job.pe[0], &future);
        if (st == WH_OK)
            st = wh_callback_fire(job.pe[0], &callback, &value, sizeof(value));
        if (st == WH_OK)
            st = wh_chare_send(job.pe[0], one, cell_tell_entry, "x", 1, NULL);
        sent += st == WH_OK;
        if (st == WH_OK)
            st = wh_chare_send(job.pe[0], one, cell_nest_entry, "", 0,
                               WH_SEND_OPTS(.buffers = frames, .count = 2,
                                            .frame_size = sizeof(frames[0]), .done = on_done));
        with += st == WH_OK;
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        CHECK(st == WH_OK || (reached && st == WH_ENOMEM));
        kit_settle();
        CHECK_EQ_INT(seen.count, sent + with);
        UNTIL(given_back == with);
        if (!reached)
            break;
    }
    CHECK(with >= 1);
    kit_finish();
}

// A job ends wherever its calls are.
TEST(the_end_frees_what_is_under_way) {
    for (int turns = 0; turns < 12; turns++) {
        begin(4, 1 + turns % 2);
        wh_proxy array, one;
        wh_future future = {0};
        CHECK_EQ_INT(
            wh_array_create(job.pe[0], "cell",
                            WH_ARRAY_OPTS(.dims = 1, .shape = {8}, .flags = WH_ARRAY_INSERTING),
                            NULL, 0, &array),
            WH_OK);
        CHECK_EQ_INT(wh_chare_create(job.pe[0], "cell", 3, NULL, 0, &one), WH_OK);
        static char data[100 << 10];
        for (int i = 0; i < 12; i++) {
            wh_proxy to = wh_proxy_at(array, 1, &i);
            send(i % 4, to, cell_asked_entry, "parked", i);
            send(i % 4, to, cell_tell_entry, "x", i);
            CHECK_EQ_INT(
                wh_chare_send(job.pe[i % 4], to, cell_asked_entry, data, sizeof(data), NULL),
                WH_OK);
            send(i % 4, array, cell_tell_entry, "all", 0);
        }
        CHECK_EQ_INT(wh_chare_send(job.pe[0], one, cell_collect_entry, &future, sizeof(future),
                                   WH_SEND_OPTS(.ref = 2)),
                     WH_OK);
        kit_turns(turns * turns);
        kit_finish();
    }
}

TEST_MAIN()
