// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers beside the arguments of calls: of all sizes, layouts and memories, to elements that stay, move, end, or are none.
#include <wherry/chare.h>

#include "base/rng.h"
#include "rt/chare/element_kit.h"

enum { BIG = 300 << 10, PER_CALL = 3, PES = 4 };

typedef struct box {
    int64_t next[PES];
    int posts;
    char place[PER_CALL][BIG];  // where posts say
} box;

static struct { int runs, posts, done, refused, small; } seen;

static char filler(size_t i, int64_t ref, size_t buffer) {
    return (char)(i * 7 + i / 251 + (size_t)ref * 13 + buffer);
}

static size_t size_of(int64_t ref, size_t buffer) {
    static const size_t sizes[] = {0, 8, 500, 513, 9000, 70000, BIG};
    return sizes[((size_t)ref + buffer * 2) % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void check_call(const wh_call *call) {
    CHECK_EQ_INT(call->size, 5);
    CHECK_MEM(call->args, "bytes", 5);
    CHECK_EQ_INT(call->count, PER_CALL);
    for (size_t b = 0; b < PER_CALL; b++) {
        CHECK_EQ_INT(call->buffers[b].size, size_of(call->ref, b));
        for (size_t i = 0; i < call->buffers[b].size; i++)
            CHECK(((const char *)call->buffers[b].data)[i] == filler(i, call->ref, b));
    }
}

static size_t box_pack(wh_chare *self, void *to) {
    if (to)
        memcpy(to, self->state, offsetof(box, place));
    return offsetof(box, place);
}

static wh_status box_unpack(wh_chare *self, const void *data, size_t size) {
    CHECK_EQ_INT(size, offsetof(box, place));
    memcpy(self->state, data, size);
    return WH_OK;
}

static void given(wh_chare *self, const wh_call *call) {
    box *b = self->state;
    CHECK_EQ_INT(call->ref, b->next[call->source]++);
    check_call(call);
    seen.runs++;
}

static void posted(wh_chare *self, const wh_call *call) {
    box *b = self->state;
    for (size_t i = 0; i < call->count; i++)
        CHECK(!call->buffers[i].size || call->buffers[i].data == b->place[i]);
    CHECK_EQ_INT(b->posts, 1);
    b->posts = 0;
    given(self, call);
}

// One call's buffers at a time: each sender of these tests waits.
static void post_place(wh_chare *self, const wh_call *call, wh_frame *buffers) {
    box *b = self->state;
    CHECK_EQ_INT(call->size, 5);
    for (size_t i = 0; i < PER_CALL; i++) {
        CHECK_EQ_INT(buffers[i].size, size_of(call->ref, i));
        buffers[i].data = b->place[i];
        buffers[i].mem = WH_MEM_HOST;
    }
    b->posts++;
    seen.posts++;
}

static void post_small(wh_chare *self, const wh_call *call, wh_frame *buffers) {
    box *b = self->state;
    (void)call;
    for (size_t i = 0; i < PER_CALL; i++)
        buffers[i].data = b->place[i];
    buffers[0].size = 4;
}

// Every second int of 1000, in memory of a kind.
static wh_type *every_second;
static int *columns;
static wh_mem_kind column_kind;

static void post_columns(wh_chare *self, const wh_call *call, wh_frame *buffers) {
    (void)self;
    (void)call;
    CHECK_EQ_INT(buffers[0].size, 500 * sizeof(int));
    buffers[0] = (wh_frame){.data = columns, .size = 1, .mem = column_kind, .type = every_second};
}

static void columns_are_there(wh_chare *self, const wh_call *call) {
    static int host[1000];
    (void)self;
    CHECK(call->buffers[0].data == columns);
    CHECK_EQ_INT(wh_mem_copy(host, WH_MEM_HOST, columns, column_kind, sizeof(host)), WH_OK);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ_INT(host[i], i % 2 ? -1 : 3 * i);
    seen.runs++;
}

static void plain(wh_chare *self, const wh_call *call) {
    box *b = self->state;
    CHECK_EQ_INT(call->ref, b->next[call->source]++);
    CHECK_EQ_INT(call->count, 0);
    seen.runs++;
}

static void go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

static void never(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
    seen.small++;
}

enum { GIVEN, POSTED, COLUMNS, SMALL, PLAIN, GO, ASKED };
static const wh_entry entries[] = {
    [GIVEN] = {.name = "given", .fn = given},
    [POSTED] = {.name = "posted", .fn = posted, .post = post_place},
    [COLUMNS] = {.name = "columns", .fn = columns_are_there, .post = post_columns},
    [SMALL] = {.name = "small", .fn = never, .post = post_small},
    [PLAIN] = {.name = "plain", .fn = plain},
    [GO] = {.name = "go", .fn = go},
    [ASKED] = {.name = "asked", .fn = given, .flags = WH_ENTRY_WHEN},
};
static const wh_class box_class = {.size = sizeof(wh_class),
                                   .name = "box",
                                   .state = sizeof(box),
                                   .entries = entries,
                                   .entry_count = sizeof(entries) / sizeof(entries[0]),
                                   .entry_size = sizeof(entries[0]),
                                   .pack = box_pack,
                                   .unpack = box_unpack};

static wh_proxy begin(int pes, int ppn, int where) {
    memset(&seen, 0, sizeof(seen));
    kit_begin(pes, ppn);
    wh_proxy one;
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(wh_class_register(job.pe[i], &box_class), WH_OK);
    kit_count_errors();
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "box", where, NULL, 0, &one), WH_OK);
    return one;
}

// The memory of a call on its way: it is filled with other bytes as soon as it may be.
typedef struct cargo {
    char *data[PER_CALL];
    int64_t ref;
} cargo;

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    cargo *c = arg;
    CHECK(!req);
    seen.done++;
    seen.refused += result->status != WH_OK;
    for (size_t b = 0; b < PER_CALL; b++) {
        memset(c->data[b], 'x', size_of(c->ref, b));
        free(c->data[b]);
    }
    free(c);
}

static void send(int from, wh_proxy to, unsigned entry, int64_t ref) {
    cargo *c = malloc(sizeof(*c));
    wh_frame frames[PER_CALL];
    CHECK(c);
    c->ref = ref;
    for (size_t b = 0; b < PER_CALL; b++) {
        size_t size = size_of(ref, b);
        c->data[b] = malloc(size + 1);
        CHECK(c->data[b]);
        for (size_t i = 0; i < size; i++)
            c->data[b][i] = filler(i, ref, b);
        frames[b] = (wh_frame){.data = c->data[b], .size = size};
    }
    CHECK_EQ_INT(
        wh_chare_send(job.pe[from], to, entry, "bytes", 5,
                      WH_SEND_OPTS(.ref = ref, .buffers = frames, .count = PER_CALL,
                                   .frame_size = sizeof(wh_frame), .done = on_done, .done_arg = c)),
        WH_OK);
}

static void all_sizes(int pes, int ppn, int where, unsigned entry) {
    enum { COUNT = 21 };
    wh_proxy one = begin(pes, ppn, where);
    for (int i = 0; i < COUNT; i++) {
        send(0, one, entry, i);
        if (entry == POSTED)
            UNTIL(seen.runs == i + 1);
    }
    kit_settle();
    CHECK_EQ_INT(seen.runs, COUNT);  // quiescence waits for them
    UNTIL(seen.done == COUNT);
    CHECK_EQ_INT(seen.refused, 0);
    CHECK_EQ_INT(seen.posts, entry == POSTED ? COUNT : 0);
    CHECK_EQ_INT(kit_errors.count, 0);
    kit_finish();
}

TEST(to_another_process) {
    all_sizes(2, 1, 1, GIVEN);
    all_sizes(2, 1, 1, POSTED);
}

TEST(within_a_process) {
    all_sizes(2, 2, 1, GIVEN);
    all_sizes(2, 2, 1, POSTED);
}

TEST(on_the_same_pe) {
    all_sizes(2, 1, 0, GIVEN);
    all_sizes(1, 1, 0, POSTED);
}

// What a PE has sent behind buffers waits for them; other PEs' calls need not.
TEST(calls_keep_their_order_behind_buffers) {
    wh_proxy one = begin(3, 1, 1);
    for (int i = 0; i < 30; i++) {
        if (i % 3)
            CHECK_EQ_INT(wh_chare_send(job.pe[0], one, PLAIN, NULL, 0, WH_SEND_OPTS(.ref = i)),
                         WH_OK);
        else
            send(0, one, GIVEN, i);
        CHECK_EQ_INT(wh_chare_send(job.pe[2], one, PLAIN, NULL, 0, WH_SEND_OPTS(.ref = i)), WH_OK);
    }
    kit_settle();
    CHECK_EQ_INT(seen.runs, 60);
    kit_finish();
}

static void layouts(int where, wh_mem_kind kind) {
    static int from[1000], blank[1000];
    wh_proxy one = begin(2, 1, where);
    void *memory, *source;
    column_kind = kind;
    CHECK_EQ_INT(wh_mem_alloc_kind(kind, 0, sizeof(from), &memory), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(kind, 0, sizeof(from), &source), WH_OK);
    columns = memory;
    memset(blank, -1, sizeof(blank));
    for (int i = 0; i < 1000; i++)
        from[i] = 3 * i;
    CHECK_EQ_INT(wh_mem_copy(memory, kind, blank, WH_MEM_HOST, sizeof(blank)), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(source, kind, from, WH_MEM_HOST, sizeof(from)), WH_OK);
    CHECK_EQ_INT(wh_type_create_vector(500, 1, 2, wh_type_basic(WH_TYPE_INT32), &every_second),
                 WH_OK);
    CHECK_EQ_INT(wh_type_commit(every_second), WH_OK);
    const wh_frame frame = {.data = source, .size = 1, .type = every_second};
    CHECK_EQ_INT(
        wh_chare_send(job.pe[0], one, COLUMNS, NULL, 0,
                      WH_SEND_OPTS(.buffers = &frame, .count = 1, .frame_size = sizeof(frame))),
        WH_OK);
    kit_settle();
    CHECK_EQ_INT(seen.runs, 1);
    kit_finish();
    wh_type_release(every_second);
    CHECK_EQ_INT(wh_mem_free_kind(kind, memory), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(kind, source), WH_OK);
}

TEST(layouts_and_memories) {
    for (int where = 0; where < 2; where++) {
        layouts(where, WH_MEM_HOST);
        layouts(where, WH_MEM_SIM);
    }
}

// Wherever the element is by then, and whatever of its calls has come.
TEST(elements_that_move_get_their_buffers) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        whi_rng rng;
        whi_rng_init(&rng, seed);
        wh_proxy one = begin(PES, seed % 2 ? 1 : 2, 1);
        int64_t refs[PES] = {0};
        int count = 0;
        for (int i = 0; i < 120; i++) {
            int from = (int)whi_rng_below(&rng, PES);
            unsigned kind = (unsigned)whi_rng_below(&rng, 10);
            if (kind < 3) {
                send(from, one, GIVEN, refs[from]++);
                count++;
            } else if (kind < 5) {
                CHECK_EQ_INT(wh_chare_send(job.pe[from], one, PLAIN, NULL, 0,
                                           WH_SEND_OPTS(.ref = refs[from]++)),
                             WH_OK);
                count++;
            } else if (kind < 7) {
                CHECK_EQ_INT(wh_chare_send(job.pe[from], one, GO, NULL, 0,
                                           WH_SEND_OPTS(.ref = (int64_t)whi_rng_below(&rng, PES))),
                             WH_OK);
            } else {
                (void)wh_pe_turn(job.pe[from]);
            }
        }
        kit_settle();
        CHECK_EQ_INT(seen.runs, count);
        CHECK_EQ_INT(kit_errors.count, 0);
        kit_finish();
    }
}

TEST(too_little_memory_is_said) {
    for (int where = 0; where < 2; where++) {
        wh_proxy one = begin(2, 1, where);
        send(0, one, SMALL, 4);
        send(0, one, SMALL, 1);  // it comes within the message
        UNTIL(kit_errors.count == 2 && seen.done == 2);
        CHECK(strstr(kit_errors.last, "small of class box has posted less memory"));
        CHECK_EQ_INT(seen.small, 0);
        kit_settle();
        kit_finish();
    }
}

// The sender gets its buffers back from whom there is none, too.
TEST(buffers_for_nobody_come_back) {
    for (int where = 0; where < 2; where++) {
        wh_proxy one = begin(2, 1, where);
        CHECK_EQ_INT(wh_chare_destroy(job.pe[0], one), WH_OK);
        for (int i = 0; i < 7; i++)
            send(0, one, GIVEN, i);
        UNTIL(kit_errors.count == 7 && seen.done == 7);
        kit_settle();
        one.index[2]++;
        CHECK_EQ_INT(wh_chare_create(job.pe[0], "box", where, NULL, 0, &one), WH_OK);
        send(0, one, 99, 6);
        UNTIL(kit_errors.count == 8 && seen.done == 8);
        CHECK_EQ_INT(wh_chare_send(job.pe[0], one, GIVEN, NULL, 0, WH_SEND_OPTS(.done = on_done)),
                     WH_EINVAL);
        kit_finish();
    }
}

// A PE is lost: its senders get their buffers back, what it has sent and not finished is dropped, and others go on.
TEST(a_lost_pe) {
    for (int turns = 0; turns < 12; turns++) {
        wh_proxy there = begin(3, 1, 1), here;
        CHECK_EQ_INT(wh_chare_create(job.pe[0], "box", 0, NULL, 0, &here), WH_OK);
        kit_settle();
        for (int i = 0; i < 6; i++) {
            send(0, there, GIVEN, i);
            send(1, here, GIVEN, i);
            send(2, here, GIVEN, i);
        }
        kit_turns(turns);
        whi_pe_destroy(job.pe[1]);
        job.pe[1] = NULL;
        UNTIL(seen.done == 18);
        for (int i = 0; i < 3; i++)
            send(0, there, GIVEN, i);
        for (int i = 6; i < 9; i++)
            send(2, here, GIVEN, i);
        UNTIL(seen.done == 24 && job.lost);
        UNTIL(seen.runs >= 9);
        kit_turns(100);
        CHECK_EQ_INT(kit_errors.count, 0);
        kit_finish();
    }
}

TEST(the_end_comes_amid_buffers) {
    for (int turns = 0; turns < 10; turns++) {
        wh_proxy one = begin(3, 1 + 2 * (turns % 2), 1);
        for (int i = 0; i < 12; i++) {
            send(i % 3, one, i % 4 ? GIVEN : ASKED, i / 3);
            if (i % 5 == 4)
                CHECK_EQ_INT(wh_chare_send(job.pe[0], one, GO, NULL, 0, WH_SEND_OPTS(.ref = i % 3)),
                             WH_OK);
        }
        for (int i = 0; i < turns * turns; i++)
            for (int pe = 0; pe < 3; pe++)
                wh_worker_progress(job.pe[pe]->worker);
        kit_end();
        CHECK_EQ_INT(seen.done, 12);
    }
}

TEST_MAIN()
