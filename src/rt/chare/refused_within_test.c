// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of elements that are refused, and contributions that do not go together: the log names who, what and why.
#include <wherry/channel.h>
#include <wherry/section.h>

#include "rt/chare/refused_kit.h"

// ---- What elements ask for.

static void try_entries(wh_chare *self) {
    const wh_call *call;
    REFUSED(WH_EINVAL, wh_chare_when(self, tried_resume_entry, 0),
            "E-CHARE-07|wh_chare_when: element (1, 1) of the array of class tried asks for entry "
            "resume|WH_ENTRY_WHEN");
    REFUSED(WH_EINVAL, wh_chare_when(self, 8, 0), "asks for entry 8, and class tried has 3: 0 run");
    REFUSED(
        WH_EINVAL, wh_chare_wait(self, tried_resume_entry, 0, &call),
        "E-CHARE-07|wh_chare_wait: what runs now, an entry of element (1, 1) of the array of class tried cannot wait|WH_ENTRY_THREADED");
    REFUSED(WH_EINVAL, wh_pe_wait(self->pe, &(wh_wait){.thread = NULL}),
            "E-RT-09|wh_pe_wait: what runs now on PE 3 is no user-level thread");
    REFUSED(WH_EINVAL, wh_chare_move(self, 4), "E-RT-10|wh_chare_move: to is PE 4");
    REFUSED(WH_ENOTSUP, wh_chare_move(self, 1),
            "E-CHARE-09|element (1, 1) of the array of class tried cannot move|no pack");
}

static void try_waits(wh_chare *self) {
    const wh_call *call;
    REFUSED(WH_EINVAL, wh_chare_wait(self, tried_resume_entry, 0, &call),
            "E-CHARE-07|entry resume");
}

static void try_group(wh_chare *self) {
    REFUSED(WH_ENOTSUP, wh_chare_move(self, 0), "E-CHARE-09|elements of groups stay");
}

static void try_thread(wh_chare *self) {
    REFUSED(
        WH_EBUSY, wh_chare_move(self, 0),
        "E-CHARE-09|element (2) of the array of class mover cannot move while a threaded entry");
}

TEST(what_entries_ask_for) {
    start();
    wh_proxy movers;
    CHECK_EQ_INT(wh_array_create(job.pe[0], "mover", WH_ARRAY_OPTS(.dims = 1, .shape = {3}), NULL,
                                 0, &movers),
                 WH_OK);
    within(wh_proxy_at(movers, 1, (int32_t[1]){2}), mover_run_threaded_entry, try_thread);
    within(at(1, 1), tried_run_entry, try_entries);
    within(at(1, 1), tried_run_threaded_entry, try_waits);
    within(wh_proxy_at(group, 1, &(int32_t){2}), mover_run_entry, try_group);
    finish();
}

static void try_balance(wh_chare *self) {
    wh_balance_step step = {.size = sizeof(step)};
    const char *words = "E-CHARE-15|element (1, 1) of the array of class tried is not balanced";
    REFUSED(WH_ENOTSUP, wh_chare_sync(self), words);
    REFUSED(WH_ENOTSUP, wh_chare_set_load(self, 1), words);
    REFUSED(WH_EINVAL, wh_chare_set_load(self, -2), "E-CHARE-15|tried is -2, and is to be finite");
    REFUSED(WH_EINVAL, wh_chare_sync(NULL), "E-CHARE-15|wh_chare_sync: self is NULL");
    REFUSED(WH_EINVAL, wh_chare_set_load(NULL, 1), "E-CHARE-15|wh_chare_set_load: self is NULL");
    REFUSED(WH_ENOTFOUND, wh_balance_last(self->pe, array, &step),
            "E-CHARE-15|wh_balance_last: the array of class tried is not balanced");
    REFUSED(WH_EINVAL, wh_balance_last(self->pe, array, NULL), "E-CHARE-15|step is NULL");
}

static void try_sync(wh_chare *self) {
    CHECK_EQ_INT(wh_chare_sync(self), WH_OK);
    REFUSED(WH_EBUSY, wh_chare_sync(self),
            "E-CHARE-15|element (0) of the array of class mover waits at sync point 1 already");
}

TEST(balancing) {
    start();
    wh_proxy balanced;
    within(at(1, 1), tried_run_entry, try_balance);
    CHECK_EQ_INT(wh_array_create(job.pe[0], "mover",
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {2}, .balance = "greedy",
                                               .resume = mover_resume_entry),
                                 NULL, 0, &balanced),
                 WH_OK);
    within(wh_proxy_at(balanced, 1, &(int32_t){0}), mover_run_entry, try_sync);
    finish();
}

static void sync_only(wh_chare *self) {
    CHECK_EQ_INT(wh_chare_sync(self), WH_OK);
}

static void balance(const char *strategy, const char *words) {
    wh_proxy stones;
    CHECK_EQ_INT(wh_array_create(job.pe[0], "tried",
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {3}, .balance = strategy,
                                               .resume = tried_resume_entry),
                                 NULL, 0, &stones),
                 WH_OK);
    said.lines = 0;
    inside = sync_only;
    for (int step = 1; step <= 2; step++) {
        wh_balance_step last = {.size = sizeof(last)};
        send(0, stones, tried_run_entry, "", 0);
        kit_settle();
        CHECK_EQ_INT(wh_balance_last(job.pe[3], stones, &last), WH_OK);
        CHECK_EQ_INT(last.number, step);
    }
    if (words)
        check_words(__LINE__, words);
    else
        CHECK_EQ_INT(said.lines, 0);
}

// Once for each class, however many arrays and steps there are.
TEST(a_class_that_cannot_be_balanced) {
    start();
    balance("none", NULL);
    balance("greedy",
            "warn W-CHARE-02 the array of class tried is balanced, but all of its elements "
            "stay|no pack");
    balance("refine", NULL);
    finish();
}

// ---- Reductions and sections.

static const wh_callback to_sum = {.kind = WH_CALLBACK_FUNCTION};

static void try_reductions(wh_chare *self) {
    int one = 1;
    const struct {
        wh_contribution part;
        wh_status status;
        const char *words;
    } all[] = {
        {{.reducer = WH_REDUCER_OP, .op = WH_REDUCE_BAND, .type = WH_TYPE_DOUBLE, .count = 0},
         WH_ENOTSUP,
         "value 0: BAND of DOUBLE is not defined"},
        {{.reducer = WH_REDUCER_NOTHING, .count = 3}, WH_EINVAL, "has count 3, and its reducer"},
        {{.reducer = WH_REDUCER_CONCAT, .count = 3}, WH_EINVAL, "concatenation: data is NULL"},
        {{.reducer = WH_REDUCER_CUSTOM, .data = &one, .count = 1}, WH_EINVAL, "wh_reducer_id"},
        {{.reducer = (wh_reducer)9}, WH_EINVAL, "reducer is 9"},
        {{.reducer = WH_REDUCER_CONCAT, .op = WH_REDUCE_MIN},
         WH_EINVAL,
         "names MIN of BYTE, and its reducer is concatenation"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        REFUSED(all[i].status, wh_contribute(self, &all[i].part, 1, sizeof(all[i].part), &to_sum),
                "E-CHARE-10|wh_contribute: element (0, 0) of the array of class tried");
        check_words(__LINE__, all[i].words);
    }
    REFUSED(WH_EINVAL, wh_contribute(self, NULL, 0, 0, NULL), "E-CHARE-10|there is no callback");
    REFUSED(WH_EINVAL, wh_contribute(self, NULL, 2, 0, &to_sum), "parts is NULL, and count is 2");
    REFUSED(WH_ELIMIT, wh_contribute(self, &all[0].part, 65, sizeof(wh_contribution), &to_sum),
            "E-CHARE-10|65 values are too many: at most 64");
    REFUSED(WH_EINVAL, wh_contribute(NULL, NULL, 0, 0, &to_sum), "E-CHARE-10|self is NULL");
}

static void try_late(wh_chare *self) {
    REFUSED(
        WH_ENOTSUP, wh_contribute(self, NULL, 0, 0, &to_sum),
        "E-CHARE-10|element (5, 5) of the array of class tried takes no part in reductions: it was "
        "inserted");
}

static void try_sections(wh_chare *self) {
    wh_section of = {.collection = group.collection, .number = 1}, far = of;
    far.pe = 8;
    REFUSED(
        WH_EINVAL, wh_section_contribute(self, of, NULL, 0, 0, &to_sum),
        "E-CHARE-17|element (0, 0) of the array of class tried is not of the section, which is one "
        "of the group of class mover");
    REFUSED(WH_EINVAL, wh_section_contribute(self, far, NULL, 0, 0, &to_sum),
            "E-CHARE-17|wh_section_contribute: the section is none (made by PE 8");
    REFUSED(WH_EINVAL, wh_section_contribute(NULL, of, NULL, 0, 0, &to_sum), "self is NULL");
    of.collection = array.collection;
    REFUSED(WH_EINVAL, wh_section_contribute(self, of, NULL, 0, 0, NULL),
            "E-CHARE-10|wh_section_contribute: element (0, 0)|there is no callback");
}

TEST(reductions_and_sections) {
    start();
    wh_pe *pe = job.pe[0];
    wh_section s = {.pe = 0};
    int32_t index[2] = {0, 0};
    within(at(0, 0), tried_run_entry, try_reductions);
    CHECK_EQ_INT(wh_array_insert(pe, at(5, 5), NULL, 0), WH_OK);
    kit_settle();
    within(at(5, 5), tried_run_entry, try_late);
    within(at(0, 0), tried_run_entry, try_sections);
    REFUSED(WH_EINVAL, wh_section_create(pe, array, 1, index, 1, &s),
            "E-CHARE-17|dims is 1, and an index of the array of class tried has 2 dimensions");
    REFUSED(WH_EINVAL, wh_section_create(pe, array, 2, index, 0, &s),
            "array of class tried has 0 elements");
    REFUSED(WH_EINVAL, wh_section_create(pe, array, 2, NULL, 3, &s), "indices is NULL");
    REFUSED(WH_EINVAL, wh_section_create(pe, single, 3, index, 1, &s),
            "the single chares: sections");
    REFUSED(WH_EINVAL, wh_section_send(pe, (wh_section){.pe = -1}, 0, NULL, 0, 0),
            "E-CHARE-17|wh_section_send: the section is none");
    REFUSED(WH_EINVAL, wh_section_send(pe, s, 0xFFFF, NULL, 0, 0), "E-CHARE-17|entry 65535");
    REFUSED(WH_EINVAL, wh_section_send(pe, s, 0, NULL, 7, 0), "E-RT-12|wh_section_send: args");
    CHECK_EQ_INT(wh_chare_destroy(pe, array), WH_OK);
    kit_settle();
    REFUSED(WH_ENOTFOUND, wh_section_create(pe, array, 2, index, 1, &s),
            "E-CHARE-06|wh_section_create: the array of class tried has been destroyed");
    finish();
}

static void try_channels(wh_chare *self) {
    wh_channel *channel;
    REFUSED(WH_EINVAL, wh_channel_open(self, self->proxy, NULL, &channel),
            "E-CHAN-01|element (1, 0) of the array of class tried opens a channel to itself");
    wh_channel_opts moving = {.size = sizeof(moving), .id = 7, .flags = WH_CHANNEL_WITHDRAW};
    REFUSED(WH_EINVAL, wh_channel_open(self, self->proxy, &moving, &channel),
            "E-CHAN-01|element (1, 0) of the array of class tried opens a channel to itself");
    REFUSED(WH_EINVAL, wh_channel_open(self, array, NULL, &channel),
            "E-CHAN-01|its peer: the array of class tried: a channel leads to one element");
    REFUSED(WH_EINVAL,
            wh_channel_open(self, wh_proxy_at(array, 1, (int32_t[1]){0}), NULL, &channel),
            "E-CHAN-01|the index has 1 dimensions");
    REFUSED(WH_EINVAL, wh_channel_open(self, (wh_proxy){.collection = 0}, NULL, &channel),
            "E-CHAN-01|the proxy is zero");
    REFUSED(WH_EINVAL,
            wh_channel_open(self, at(0, 0), WH_CHANNEL_OPTS(.window = 1 << 17), &channel),
            "E-CHAN-01|window is 131072, at most 65536");
    REFUSED(WH_EINVAL, wh_channel_find(self, 0, &channel), "E-CHAN-01|id is 0");
    REFUSED(WH_EINVAL, wh_channel_open(NULL, at(0, 0), NULL, &channel), "E-CHAN-01|self is NULL");
    CHECK_EQ_INT(wh_channel_open(self, at(0, 0), NULL, &channel), WH_OK);
    wh_op_opts *sync = WH_OP_OPTS(.flags = WH_OP_SYNC), *done = WH_OP_OPTS(.done = wh_wait_done);
    char byte = 0;
    REFUSED(WH_ENOTSUP, wh_channel_send(channel, &byte, 1, sync, NULL),
            "E-CHAN-02|wh_channel_send");
    REFUSED(WH_ENOTSUP, wh_channel_recv(channel, &byte, 1, sync, NULL),
            "E-CHAN-02|wh_channel_recv");
    REFUSED(WH_EINVAL, wh_channel_send_then(channel, &byte, 1, NULL, NULL),
            "E-CHAN-02|wh_channel_send_then: callback is NULL");
    REFUSED(WH_EINVAL, wh_channel_recv_then(channel, &byte, 1, done, &to_sum),
            "E-CHAN-02|wh_channel_recv_then: opts has `done` or `result`");
}

TEST(channels) {
    start();
    within(at(1, 0), tried_run_entry, try_channels);
    finish();
}

// ---- Contributions that do not go together.

static wh_contribution differing;
static wh_callback differing_to;

static void contribute(wh_chare *self) {
    static const double values[2] = {1, 2};
    bool other = self->proxy.index[0];
    wh_contribution part = {.reducer = WH_REDUCER_OP,
                            .op = WH_REDUCE_SUM,
                            .type = WH_TYPE_INT32,
                            .data = values,
                            .count = 1};
    CHECK_EQ_INT(wh_contribute(self, other ? &differing : &part, 1, sizeof(part),
                               other ? &differing_to : &to_sum),
                 WH_OK);
}

static void disagree(wh_contribution part, wh_callback to, const char *words) {
    start();
    wh_proxy pair;
    CHECK_EQ_INT(
        wh_array_create(job.pe[0], "tried", WH_ARRAY_OPTS(.dims = 1, .shape = {2}), NULL, 0, &pair),
        WH_OK);
    static const double values[2] = {1, 2};
    differing = part;
    differing.data = values;
    differing_to = to;
    inside = contribute;
    send(0, pair, tried_run_entry, "", 0);
    UNTIL(kit_errors.count == 1);
    CHECK(strstr(kit_errors.last, "a reduction over the array of class tried cannot go on: its "
                                  "elements disagree in contribution 1: "));
    if (!strstr(kit_errors.last, words))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "no %s: %s", words, kit_errors.last);
    finish();
}

TEST(contributions_that_disagree) {
    wh_contribution part = {
        .reducer = WH_REDUCER_OP, .op = WH_REDUCE_MAX, .type = WH_TYPE_INT32, .count = 1};
    wh_callback function = {
        .kind = WH_CALLBACK_FUNCTION, .pe = 2, .function = wh_function_id("sum")};
    disagree(part, to_sum, "MAX of INT32");
    disagree(part, to_sum, "SUM of INT32");
    part.op = WH_REDUCE_SUM;
    part.type = WH_TYPE_DOUBLE;
    disagree(part, to_sum, "SUM of DOUBLE");
    part.type = WH_TYPE_INT32;
    disagree(part, function, "function sum on PE 2");
    part.count = 2;
    disagree(part, to_sum, "bytes of SUM of INT32");
}

// A callback that cannot be carried out is told by the element that is in its way.
TEST(a_reduction_to_nobody) {
    start();
    wh_proxy one;
    CHECK_EQ_INT(
        wh_array_create(job.pe[0], "tried", WH_ARRAY_OPTS(.dims = 1, .shape = {2}), NULL, 0, &one),
        WH_OK);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], wh_proxy_at(one, 1, &(int32_t){0})), WH_OK);
    kit_settle();
    differing = (wh_contribution){.reducer = WH_REDUCER_NOTHING};
    differing_to =
        (wh_callback){.kind = WH_CALLBACK_SEND, .proxy = wh_proxy_at(array, 1, (int32_t[1]){0})};
    inside = contribute;
    said.lines = 0;
    send(0, wh_proxy_at(one, 1, &(int32_t){1}), tried_run_entry, "", 0);
    UNTIL(kit_errors.count == 1);
    CHECK_EQ_INT(said.lines, 0);
    CHECK(strstr(kit_errors.last,
                 "its callback cannot be carried out: the index has 1 dimensions, and "
                 "the array of class tried has 2"));
    finish();
}

TEST_MAIN()
