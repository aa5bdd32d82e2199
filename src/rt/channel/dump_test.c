// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE says that it waits for: each line of it, in the names of the program, and no change by it.
#include <wherry/channel.h>
#include <wherry/section.h>

#include "rt/channel/channels.h"
#include "rt/chare/element_kit.h"

enum { ACTORS = 12, MANY = 100 };

typedef struct actor {
    wh_channel *channel;
    char data[8];
} actor;

#define ACTOR_ENTRIES(ENTRY)                                                                       \
    ENTRY(actor, tell, 0)                                                                          \
    ENTRY(actor, asked, WH_ENTRY_WHEN)                                                             \
    ENTRY(actor, ask, 0)                                                                           \
    ENTRY(actor, collect, WH_ENTRY_THREADED)                                                       \
    ENTRY(actor, meet, WH_ENTRY_THREADED)                                                          \
    ENTRY(actor, receive, WH_ENTRY_THREADED)                                                       \
    ENTRY(actor, flood, 0)                                                                         \
    ENTRY(actor, add, 0)                                                                           \
    ENTRY(actor, look, 0)
WH_CLASS(actor, ACTOR_ENTRIES, .state = sizeof(actor));

#define EXTRA_ENTRIES(ENTRY) ENTRY(extra, nothing, 0)
static const char *extra_alias(const wh_chare *self) {
    return self->proxy.index[2] % 2 ? "Odd" : "Even";
}
WH_CLASS(extra, EXTRA_ENTRIES, .alias = extra_alias);

static char text[1 << 16];

static const char *dumped(int pe) {
    FILE *file = fmemopen(text, sizeof(text), "w");
    CHECK(file);
    wh_pe_dump(job.pe[pe], file);
    fclose(file);
    return text;
}

static bool says(int pe, const char *line) {
    return strstr(dumped(pe), line) != NULL;
}

static int lines_with(const char *words) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        count++;
    return count;
}

static void extra_nothing(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void actor_tell(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void actor_asked(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

static void actor_ask(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_when(self, actor_asked_entry, call->ref), WH_OK);
}

static void actor_collect(wh_chare *self, const wh_call *call) {
    const wh_call *got;
    CHECK_EQ_INT(wh_chare_wait(self, actor_asked_entry, call->ref, &got), WH_OK);
}

static wh_proxy peer_of(const wh_chare *self, const wh_call *call) {
    int32_t index = (int32_t)call->ref;
    return wh_proxy_at(self->proxy, 1, &index);
}

// meet opens a channel and waits for what comes; receive opens one only.
static void actor_meet(wh_chare *self, const wh_call *call) {
    actor *a = self->state;
    wh_wait wait = {0};
    CHECK_EQ_INT(wh_channel_open(self, peer_of(self, call), NULL, &a->channel), WH_OK);
    CHECK_EQ_INT(wh_channel_recv(a->channel, a->data, sizeof(a->data),
                                 WH_OP_OPTS(.done = wh_wait_done, .arg = &wait), NULL),
                 WH_PENDING);
    CHECK_EQ_INT(wh_pe_wait(self->pe, &wait), WH_OK);
}

static void actor_receive(wh_chare *self, const wh_call *call) {
    actor *a = self->state;
    CHECK_EQ_INT(wh_channel_open(self, peer_of(self, call), NULL, &a->channel), WH_OK);
}

// flood sends more than its window has space for.
static void actor_flood(wh_chare *self, const wh_call *call) {
    actor *a = self->state;
    CHECK_EQ_INT(wh_channel_open(self, peer_of(self, call), NULL, &a->channel), WH_OK);
    for (int i = 0; i < MANY; i++)
        CHECK(wh_channel_send(a->channel, a->data, sizeof(a->data), NULL, NULL) >= 0);
}

static wh_callback added;

static void actor_add(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_contribute(self, NULL, 0, 0, &added), WH_OK);
}

// look prints while an entry runs.
static void actor_look(wh_chare *self, const wh_call *call) {
    (void)call;
    dumped(wh_pe_number(self->pe));
}

static wh_proxy begin(int pes) {
    wh_proxy array;
    kit_begin(pes, 1);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &actor_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &extra_class), WH_OK);
        whi_channels_attach(job.pe[i]);
    }
    CHECK_EQ_INT(wh_array_create(job.pe[0], "actor", WH_ARRAY_OPTS(.dims = 1, .shape = {ACTORS}),
                                 NULL, 0, &array),
                 WH_OK);
    kit_settle();
    return array;
}

// With 3 PEs, elements 0 to 3 are on PE 0, 4 to 7 on PE 1, 8 to 11 on PE 2.
static void call(wh_proxy array, int element, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(array, 1, &element), entry, NULL, 0,
                               WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

static void nothing(wh_pe *pe, void *arg) {
    (void)pe;
    (void)arg;
}

// ---- Nothing to do.

static const char forgotten[] =
    "  nothing to do, nothing is under way here and nothing waits: if all "
    "PEs say so, was wh_pe_exit forgotten, which ends the job?\n";
static const char for_ever[] =
    "  nothing to do, and nothing is under way here: what waits above waits";

TEST(a_forgotten_end) {
    wh_proxy array = begin(3);
    char line[100];
    uint32_t id;
    CHECK(says(0, forgotten) && !says(0, for_ever));
    snprintf(line, sizeof(line), "\n  elements: 4 of actor (array %u)\n", array.collection);
    CHECK(says(1, line));
    CHECK_EQ_INT(wh_pe_after(job.pe[0], 1000000000, nothing, NULL, &id), WH_OK);
    CHECK(!says(0, "nothing to do") && says(1, forgotten));
    CHECK_EQ_INT(wh_pe_cancel(job.pe[0], id), WH_OK);
    CHECK_EQ_INT(wh_pe_on_quiescence(job.pe[1], nothing, NULL), WH_OK);
    CHECK(!says(1, "nothing to do"));
    kit_settle();
    CHECK_EQ_INT(wh_pe_send(job.pe[0], 0, 9, NULL, 0, NULL, 0, 0), WH_OK);
    CHECK(says(0, "messages to handle: 1 (1 for handler 9)") && !says(0, "nothing to do"));
    kit_finish();
}

static wh_dump_found found;

static wh_dump_found on_dump(const wh_pe *pe, FILE *file, void *arg) {
    CHECK(arg == &found && wh_pe_number(pe) == 1);
    fprintf(file, "  words of the program\n");
    return found;
}

TEST(what_the_program_adds) {
    wh_proxy array = begin(3);
    found = WH_DUMP_NOTHING;
    wh_pe_on_dump(job.pe[1], on_dump, &found, NULL);
    CHECK(says(1, "  words of the program\n") && strstr(text, forgotten));
    wh_pe_on_dump(job.pe[1], on_dump, &found, "finish()");
    CHECK(says(1, "so, was finish() forgotten, which"));
    found = WH_DUMP_WAITS;
    CHECK(says(1, "  words of the program\n") && strstr(text, for_ever));
    found = WH_DUMP_GOES_ON;
    CHECK(says(1, "  words of the program\n") && !strstr(text, "nothing to do"));
    wh_pe_on_dump(job.pe[1], NULL, NULL, NULL);
    CHECK(!says(1, "words of the program") && strstr(text, forgotten));
    call(array, 4, actor_look_entry, 0);
    kit_settle();
    CHECK(strstr(text, "an entry runs of actor[4]") && !strstr(text, "nothing to do"));
    kit_finish();
}

// What the program receives itself is told of by the worker.
TEST(operations_of_the_program) {
    begin(3);
    wh_request *req;
    char data[8];
    CHECK_EQ_INT(wh_pe_recv_buffer(job.pe[1], 0, data, sizeof(data), 1, NULL, &req), WH_PENDING);
    kit_turns(50);
    CHECK(says(1, for_ever) && says(2, forgotten));
    wh_request_cancel(req);
    UNTIL(wh_request_status(req) != WH_PENDING);
    wh_request_free(req);
    kit_settle();
    CHECK(says(1, forgotten));
    kit_finish();
}

TEST(messages_to_handle) {
    wh_proxy array = begin(3);
    for (int i = 0; i < 3; i++)
        call(array, i, actor_tell_entry, 0);
    call(array, 3, actor_ask_entry, 0);
    CHECK(says(0, "messages to handle: 4 (3 for actor.tell, 1 for actor.ask)\n"));
    kit_finish();
}

// ---- Messages and threads.

TEST(messages_that_are_kept) {
    wh_proxy array = begin(3);
    for (int i = 0; i < 3; i++)
        call(array, 5, actor_asked_entry, 7);
    call(array, 5, actor_asked_entry, 8);
    call(array, 5, actor_ask_entry, 6);
    kit_settle();
    CHECK(says(
        1, "  actor[5] keeps 3 messages for asked with reference 7, which it has not asked for\n"));
    CHECK(strstr(text, "  actor[5] keeps 1 messages for asked with reference 8,"));
    CHECK(strstr(
        text,
        "  actor[5] has asked for a message for asked with reference 6, and it has not come\n"));
    CHECK(strstr(text, for_ever) && !strstr(text, forgotten) && says(0, forgotten));
    for (int i = 0; i < MANY; i++)
        call(array, 5, actor_asked_entry, 100 + i);
    kit_settle();
    dumped(1);
    CHECK_EQ_INT(lines_with("actor[5] keeps"), WHI_DUMP_LINES);
    CHECK(strstr(text, "  and 94 more kinds of messages that are kept\n"));
    call(array, 5, actor_asked_entry, 6);
    call(array, 5, actor_ask_entry, 7);
    kit_settle();
    CHECK(!says(1, "has asked") && says(1, "keeps 2 messages for asked with reference 7"));
    kit_finish();
}

static void await(wh_pe *pe, void *arg) {
    const void *value;
    size_t size;
    CHECK_EQ_INT(wh_future_wait(pe, *(wh_future *)arg, &value, &size), WH_OK);
}

static void await_nobody(wh_pe *pe, void *arg) {
    CHECK_EQ_INT(wh_pe_wait(pe, arg), WH_OK);
}

TEST(threads_that_wait) {
    wh_proxy array = begin(3);
    wh_future future;
    wh_wait wait = {0};
    char line[100];
    CHECK_EQ_INT(wh_future_create(job.pe[1], &future), WH_OK);
    CHECK_EQ_INT(whi_pe_start(job.pe[1], await, &future), WH_OK);
    CHECK_EQ_INT(wh_pe_spawn(job.pe[1], await_nobody, &wait), WH_OK);
    call(array, 6, actor_collect_entry, 3);
    call(array, 7, actor_collect_entry, WH_REF_ANY);
    kit_settle();
    snprintf(line, sizeof(line),
             "    main waits for future %u of this PE, which has no value yet\n", future.id);
    CHECK(says(1, line));
    CHECK(strstr(text, "  threads that wait: 4, ready to run: 0\n"));
    CHECK(strstr(text, "    thread waits for an operation, or a wh_pe_resume of the program's\n"));
    CHECK(strstr(text, "    actor[6].collect waits for a message for asked with reference 3\n"));
    CHECK(strstr(text, "    actor[7].collect waits for a message for asked with any reference\n"));
    CHECK(!strstr(text, "has asked for") && strstr(text, for_ever));
    call(array, 6, actor_asked_entry, 3);
    wh_pe_resume(job.pe[1], &wait);
    CHECK(!says(1, "nothing to do"));  // a thread is ready
    kit_settle();
    CHECK(says(1, "threads that wait: 2,") && !strstr(text, "actor[6]"));
    CHECK_EQ_INT(wh_future_set(job.pe[0], future, NULL, 0), WH_OK);
    kit_settle();
    CHECK(says(1, "threads that wait: 1,") && !strstr(text, "main waits"));
    wh_future_free(job.pe[1], future);
    kit_finish();
}

TEST(no_more_threads_than_can_be_read) {
    begin(1);
    wh_wait waits[MANY] = {{0}};
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(wh_pe_spawn(job.pe[0], await_nobody, &waits[i]), WH_OK);
    dumped(0);
    CHECK_EQ_INT(lines_with("thread waits for"), WHI_DUMP_LINES);
    CHECK(strstr(text, "  and 92 more threads that wait\n"));
    for (int i = 0; i < MANY; i++)
        wh_pe_resume(job.pe[0], &waits[i]);
    kit_settle();
    kit_finish();
}

// ---- Channels.

TEST(channels_that_are_not_met) {
    wh_proxy array = begin(3);
    call(array, 1, actor_meet_entry, 6);
    call(array, 6, actor_receive_entry, 9);
    kit_settle();
    CHECK(says(0, "  actor[1] waits for 1 channels: actor[6] has not opened its end\n"));
    CHECK(strstr(text,
                 "    actor[1].meet waits for a message on the channel of actor[1] to actor[6]\n"));
    CHECK(strstr(text, for_ever));
    CHECK(says(1, "  actor[6] has not opened its end of 1 channels, which actor[1] has opened\n"));
    CHECK(strstr(text, "  actor[6] waits for 1 channels: actor[9] has not opened its end\n"));
    call(array, 6, actor_receive_entry, 1);
    kit_settle();
    CHECK(!says(0, "has not opened") && !says(1, "which actor[1] has opened"));
    CHECK(says(
        0,
        "  1 receives of actor[1] wait for actor[6] to send, behind 0 messages that have come\n"));
    CHECK(strstr(text,
                 "    actor[1].meet waits for a message on the channel of actor[1] to actor[6]\n"));
    kit_finish();
}

TEST(channels_that_nobody_reads) {
    wh_proxy array = begin(3);
    call(array, 2, actor_flood_entry, 8);
    call(array, 8, actor_receive_entry, 2);
    kit_settle();
    kit_turns(100);
    CHECK(
        says(0, "  36 sends of actor[2] wait for actor[8] to receive, of 100 that it has begun\n"));
    for (int i = 0; i < MANY; i++)
        call(array, i % 4, actor_receive_entry, 4 + i % 8);
    kit_settle();
    dumped(0);
    CHECK(lines_with("has not opened its end\n") <= WHI_DUMP_LINES);
    kit_finish();
}

// ---- Reductions and elements.

TEST(reductions_that_lack_contributions) {
    wh_proxy array = begin(3);
    char line[200];
    added = (wh_callback){.kind = WH_CALLBACK_FUNCTION, .pe = 0};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < ACTORS; i++)
            if (i != 5 && i < ACTORS - 2)
                call(array, i, actor_add_entry, 0);
    kit_settle();
    snprintf(line, sizeof(line),
             "  reduction 1 of actor (array %u): 9 of 12 contributions are here, where it ends\n",
             array.collection);
    CHECK(says(array.collection % 3, line));
    snprintf(line, sizeof(line),
             "  reduction 2 of actor (array %u): 3 of its 4 elements here have "
             "contributed; not yet: actor[5]\n",
             array.collection);
    CHECK(says(1, line) && strstr(text, for_ever));
    CHECK(says(2, "2 of its 4 elements here have contributed; not yet: actor[10], actor[11]\n"));
    CHECK(says(0, ", each has contributed to 2 reductions\n"));
    kit_finish();
}

TEST(sections_that_lack_contributions) {
    wh_proxy array = begin(3);
    wh_section section;
    const int32_t members[] = {0, 1, 2};
    char line[100];
    CHECK_EQ_INT(wh_section_create(job.pe[0], array, 1, members, 3, &section), WH_OK);
    kit_settle();
    CHECK(!says(0, "reduction 1 of a section of"));
    whi_place_key key;
    CHECK_EQ_INT(whi_place_key_make(array.collection, members + 1, 1, &key), WH_OK);
    const whi_chares *c = whi_chares_get(job.pe[0]);
    whi_element *element = whi_places_find(c->places, &key);
    added = (wh_callback){.kind = WH_CALLBACK_FUNCTION, .pe = 0};
    CHECK_EQ_INT(wh_section_contribute(&element->pub, section, NULL, 0, 0, &added), WH_OK);
    kit_settle();
    snprintf(line, sizeof(line),
             "  reduction 1 of a section of actor (array %u): ", array.collection);
    CHECK(says(0, line));
    CHECK(strstr(text, "1 of 3 contributions are here, where it ends\n"));
    kit_finish();
}

// Each PE says of its own members how far they are.
TEST(sections_on_each_pe) {
    wh_proxy array = begin(3);
    wh_section section;
    const int32_t members[] = {0, 1, 4, 5, 8, 9};
    char line[120];
    CHECK_EQ_INT(wh_section_create(job.pe[0], array, 1, members, 6, &section), WH_OK);
    kit_settle();
    added = (wh_callback){.kind = WH_CALLBACK_FUNCTION, .pe = 0};
    for (int i = 1; i < 6; i++) {
        whi_place_key key;
        CHECK_EQ_INT(whi_place_key_make(array.collection, members + i, 1, &key), WH_OK);
        const whi_chares *c = whi_chares_get(job.pe[members[i] / 4]);
        whi_element *element = whi_places_find(c->places, &key);
        if (members[i] != 8 && members[i] != 9)
            CHECK_EQ_INT(wh_section_contribute(&element->pub, section, NULL, 0, 0, &added), WH_OK);
    }
    kit_settle();
    CHECK(says(0, "3 of 6 contributions are here, where it ends\n"));
    CHECK(strstr(text, ": 1 of its 2 members here have contributed; not yet: actor[0]\n"));
    snprintf(
        line, sizeof(line),
        "  members: 2 of a section of actor (array %u), each has contributed to 1 reductions\n",
        array.collection);
    CHECK(says(1, line));
    CHECK(says(2, ", each has contributed to 0 reductions\n") && !strstr(text, "not yet: actor"));
    kit_finish();
}

TEST(single_chares_by_class) {
    begin(2);
    wh_proxy one;
    for (int i = 0; i < 5; i++)
        CHECK_EQ_INT(wh_chare_create(job.pe[0], i < 3 ? "extra" : "actor", 1, NULL, 0, &one),
                     WH_OK);
    kit_settle();
    CHECK(says(1, "  single chares: 2 of Odd, 1 of Even, 2 of actor\n") ||
          strstr(text, "  single chares: 2 of actor, 2 of Odd, 1 of Even\n"));
    kit_finish();
}

TEST(messages_for_what_is_not_made) {
    begin(3);
    wh_proxy nowhere = {.collection = 3 << 22};
    int32_t index = 0;
    CHECK_EQ_INT(wh_chare_send(job.pe[1], wh_proxy_at(nowhere, 1, &index), 0, NULL, 0, NULL),
                 WH_OK);
    CHECK(says(1, "  1 messages wait for collection 12582912, which has not been made yet\n"));
    CHECK(strstr(text, for_ever));
    kit_finish();
}

// ---- Nothing changes.

TEST(a_dump_changes_nothing) {
    static char before[sizeof(text)];
    wh_proxy array = begin(3);
    call(array, 5, actor_asked_entry, 7);
    call(array, 5, actor_collect_entry, 1);
    call(array, 4, actor_meet_entry, 1);
    call(array, 6, actor_add_entry, 0);
    kit_settle();
    for (int pe = 0; pe < 3; pe++) {
        whi_chares *c = whi_chares_get(job.pe[pe]);
        size_t known = whi_hash_count(&c->collections);
        c->recent = NULL;
        whi_quiet quiet = job.pe[pe]->quiet;
        strcpy(before, dumped(pe));
        CHECK_EQ_STR(before, dumped(pe));
        CHECK(!c->recent && whi_hash_count(&c->collections) == known);
        CHECK(quiet.made == job.pe[pe]->quiet.made && quiet.consumed == job.pe[pe]->quiet.consumed);
    }
    kit_finish();
}

TEST_MAIN()
