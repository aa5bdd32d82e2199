// SPDX-License-Identifier: BSD-3-Clause
//
// Elements that move with the ends of their channels.
#include <wherry/balance.h>
#include <wherry/channel.h>

#include "rt/channel/channels.h"
#include "rt/chare/element_kit.h"

enum { MOVERS = 6, PES = 3, PULLS = 64, LARGE = 200 << 10 };

static struct {
    int sent, got, ended, resumed;
    wh_status went, last;
    int where[MOVERS];
    int next, pushes;  // pulls
    int value[PULLS], pushed[PULLS];
    uint8_t large[2][LARGE];
} seen;

typedef struct mover {
    wh_channel *to;
    bool opened;
} mover;

#define MOVER_ENTRIES(ENTRY)                                                                       \
    ENTRY(mover, meet, 0)                                                                          \
    ENTRY(mover, push, 0)                                                                          \
    ENTRY(mover, push_large, 0)                                                                    \
    ENTRY(mover, pull, 0)                                                                          \
    ENTRY(mover, pull_large, 0)                                                                    \
    ENTRY(mover, go, 0)                                                                            \
    ENTRY(mover, shut, 0)                                                                          \
    ENTRY(mover, reach, 0)                                                                         \
    ENTRY(mover, resume, 0)

static size_t mover_pack(wh_chare *self, void *to) {
    if (to)
        memcpy(to, self->state, sizeof(mover));
    return sizeof(mover);
}

static wh_status mover_unpack(wh_chare *self, const void *data, size_t size) {
    mover *m = self->state;
    wh_channel *none;
    CHECK_EQ_INT(size, sizeof(*m));
    memcpy(m, data, size);
    m->to = NULL;
    CHECK_EQ_INT(wh_channel_find(self, 9, &none), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_channel_find(self, 1, &m->to), m->opened ? WH_OK : WH_ENOTFOUND);
    return WH_OK;
}

// destruct closes the end, of an element that ends, and has no effect on one that has moved.
static void mover_destruct(wh_chare *self) {
    const mover *m = self->state;
    wh_channel_close(m->to);
}

WH_CLASS(mover, MOVER_ENTRIES, .state = sizeof(mover), .destruct = mover_destruct,
         .pack = mover_pack, .unpack = mover_unpack);

// meet opens a channel to the next one, or, with a reference number, one that does not move.
static void mover_meet(wh_chare *self, const wh_call *call) {
    mover *m = self->state;
    wh_channel *second;
    int32_t peer = self->proxy.index[0] ^ 1;
    wh_proxy to = wh_proxy_at(self->proxy, 1, &peer);
    const wh_channel_opts opts = {.size = sizeof(opts), .id = call->ref ? 0 : 1};
    CHECK_EQ_INT(wh_channel_open(self, to, &opts, &m->to), WH_OK);
    if (opts.id)
        CHECK_EQ_INT(wh_channel_open(self, to, &opts, &second), WH_EINVAL);
    CHECK_EQ_INT(wh_channel_find(self, 0, &second), WH_EINVAL);
    m->opened = opts.id;
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)arg;
    CHECK_EQ_INT(result->status, WH_OK);
    seen.sent++;
}

static void on_got(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)arg;
    seen.last = result->status;
    seen.got++;
}

static void sends(const mover *m, const void *data, size_t size) {
    wh_result done = {.status =
                          wh_channel_send(m->to, data, size, WH_OP_OPTS(.done = on_sent), NULL)};
    if (done.status != WH_PENDING)
        on_sent(NULL, &done, NULL);
}

static void receives(const mover *m, void *data, size_t size) {
    wh_result done = {.status =
                          wh_channel_recv(m->to, data, size, WH_OP_OPTS(.done = on_got), NULL)};
    if (done.status != WH_PENDING)
        on_got(NULL, &done, NULL);
}

static void mover_push(wh_chare *self, const wh_call *call) {
    int *value = &seen.pushed[seen.pushes++];
    *value = (int)call->ref;
    sends(self->state, value, sizeof(*value));
}

static void mover_push_large(wh_chare *self, const wh_call *call) {
    (void)call;
    memset(seen.large[0], 0x5A, LARGE);
    sends(self->state, seen.large[0], LARGE);
}

static void mover_pull(wh_chare *self, const wh_call *call) {
    (void)call;
    receives(self->state, &seen.value[seen.next++], sizeof(int));
}

static void mover_pull_large(wh_chare *self, const wh_call *call) {
    (void)call;
    receives(self->state, seen.large[1], LARGE);
}

static void mover_go(wh_chare *self, const wh_call *call) {
    mover *m = self->state;
    seen.went = wh_chare_move(self, (int)call->ref);
    if (seen.went == WH_OK && m->to && call->ref != wh_pe_number(self->pe)) {
        CHECK_EQ_INT(wh_channel_recv(m->to, &seen.value[0], sizeof(int), NULL, NULL), WH_EBUSY);
        wh_status st = wh_channel_send(m->to, &seen.value[0], sizeof(int), NULL, NULL);
        CHECK(st == WH_EBUSY || st == WH_ECLOSED);
    }
}

static void mover_shut(wh_chare *self, const wh_call *call) {
    mover *m = self->state;
    (void)call;
    m->opened = false;
    wh_channel_close(m->to);
    m->to = NULL;
}

static void mover_reach(wh_chare *self, const wh_call *call) {
    (void)call;
    CHECK_EQ_INT(wh_chare_sync(self), WH_OK);
}

static void mover_resume(wh_chare *self, const wh_call *call) {
    (void)call;
    seen.where[self->proxy.index[0]] = wh_pe_number(self->pe);
    seen.resumed++;
}

static int on_0(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg) {
    (void)index;
    (void)dims;
    (void)shape;
    (void)pes;
    (void)arg;
    return 0;
}

static wh_proxy movers;

static void tell(int32_t to, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(movers, 1, &to), entry, NULL, 0,
                               WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

static void begin(bool moves) {
    kit_begin(PES, 1);
    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < PES; i++) {
        whi_channels_attach(job.pe[i]);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &mover_class), WH_OK);
        CHECK_EQ_INT(wh_map_register(job.pe[i], "on-0", on_0, NULL), WH_OK);
    }
    CHECK_EQ_INT(wh_array_create(job.pe[0], "mover",
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {MOVERS}, .map = "on-0",
                                               .balance = "greedy", .resume = mover_resume_entry),
                                 NULL, 0, &movers),
                 WH_OK);
    for (int32_t i = 0; i < 4; i++)
        tell(i, mover_meet_entry, i >= 2 && !moves);
    kit_settle();
    kit_turns(20);  // notes are not counted
}

static size_t left(void) {
    size_t n = 0;
    for (int i = 0; i < job.pes; i++) {
        whi_channels *channels = job.pe[i]->floors[WHI_FLOOR_CHANNEL].state;
        if (channels)
            n += whi_hash_count(&channels->ends) + whi_hash_count(&channels->elements);
    }
    return n;
}

static void end(void) {
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], movers), WH_OK);
    UNTIL(!left());
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

static int pe_of(int32_t index) {
    whi_place_key key = {.collection = movers.collection, .dims = 1, .index = {index}};
    for (int i = 0; i < job.pes; i++) {
        whi_chares *c = job.pe[i]->floors[WHI_FLOOR_CHARE].state;
        if (whi_places_find(c->places, &key))
            return i;
    }
    return -1;
}

static void go(int32_t index, int to) {
    tell(index, mover_go_entry, to);
    kit_settle();
    CHECK_EQ_INT(seen.went, WH_OK);
    CHECK_EQ_INT(pe_of(index), to);
}

static void pull(int32_t index, int count, int first) {
    int from = seen.next, had = seen.got;
    for (int i = 0; i < count; i++)
        tell(index, mover_pull_entry, 0);
    UNTIL(seen.got == had + count);
    for (int i = 0; i < count; i++)
        CHECK_EQ_INT(seen.value[from + i], first + i);
}

static void push(int32_t index, int count, int first) {
    int had = seen.sent;
    for (int i = 0; i < count; i++)
        tell(index, mover_push_entry, first + i);
    UNTIL(seen.sent == had + count);
}

// What has come and nobody has received moves along, as often as it is left, in front of what comes then.
TEST(messages_move_along) {
    begin(true);
    push(0, 6, 100);
    go(1, 2);
    push(0, 2, 106);
    pull(1, 2, 100);
    go(1, 1);
    go(1, 0);
    push(0, 1, 108);
    pull(1, 3, 102);
    go(0, 2);
    push(0, 3, 109);
    go(1, 1);
    pull(1, 7, 105);
    push(1, 2, 7);
    pull(0, 2, 7);
    CHECK_EQ_INT(seen.last, WH_OK);
    end();
}

TEST(large_messages_move_along) {
    begin(true);
    push(0, 1, 5);
    tell(0, mover_push_large_entry, 0);
    kit_turns(20);
    push(0, 1, 6);
    go(1, 2);
    pull(1, 1, 5);
    tell(1, mover_pull_large_entry, 0);
    UNTIL(seen.got == 2);
    CHECK_EQ_INT(seen.large[1][0], 0x5A);
    CHECK_EQ_INT(seen.large[1][LARGE - 1], 0x5A);
    pull(1, 1, 6);
    UNTIL(seen.sent == 3);
    end();
}

// Receives of the other end get what was sent before the move, then what is sent behind it, in their order.
TEST(receives_of_the_other_end) {
    begin(true);
    for (int i = 0; i < 5; i++)
        tell(0, mover_pull_entry, 0);
    push(1, 2, 40);
    go(1, 2);
    push(1, 1, 42);
    go(1, 1);
    for (int i = 0; i < 2; i++)
        tell(0, mover_pull_entry, 0);
    push(1, 4, 43);
    UNTIL(seen.got == 7);
    for (int i = 0; i < 7; i++)
        CHECK_EQ_INT(seen.value[i], 40 + i);
    CHECK_EQ_INT(seen.last, WH_OK);
    end();
}

// Both ends leave at a time, and one of them moves first.
TEST(both_ends_move) {
    begin(true);
    for (int round = 0; round < 9; round++) {
        push(0, 2, 2 * round);
        push(1, 1, round);
        tell(0, mover_go_entry, (round + 1) % PES);
        tell(1, mover_go_entry, (round * 2 + 2) % PES);
        kit_settle();
        CHECK_EQ_INT(pe_of(0), (round + 1) % PES);
        CHECK_EQ_INT(pe_of(1), (round * 2 + 2) % PES);
        pull(1, 2, 2 * round);
        pull(0, 1, round);
    }
    end();
}

// One that has been closed by the other end moves with what it has still to receive.
TEST(closed_by_the_other_end) {
    begin(true);
    push(0, 3, 1);
    tell(0, mover_shut_entry, 0);
    kit_settle();
    go(1, 2);
    pull(1, 3, 1);
    tell(1, mover_pull_entry, 0);
    UNTIL(seen.got == 4);
    CHECK_EQ_INT(seen.last, WH_ECLOSED);
    go(0, 1);  // without an end that is in use
    end();
}

// One that is closed while the other end is on its way.
static void closes_after(int turns) {
    begin(true);
    go(1, 1);
    push(1, 1, 3);
    push(0, 1, 4);
    tell(1, mover_go_entry, 2);
    kit_turns(turns);
    tell(0, mover_shut_entry, 0);
    kit_settle();
    CHECK_EQ_INT(pe_of(1), 2);
    pull(1, 1, 4);
    tell(1, mover_pull_entry, 0);
    UNTIL(seen.got == 2);
    CHECK_EQ_INT(seen.last, WH_ECLOSED);
    tell(1, mover_shut_entry, 0);
    UNTIL(left() == 4);  // of the other pair: two ends, and their elements
    end();
}

TEST(closed_while_the_other_end_moves) {
    for (int turns = 0; turns < 12; turns++)
        closes_after(turns);
}

// ---- The other end loses the PE from which an element comes, while it is on its way.

static whi_channels *channels_of(int pe) {
    return job.pe[pe]->floors[WHI_FLOOR_CHANNEL].state;
}

static wh_channel *only_end(int pe) {
    size_t cursor = 0;
    uint64_t number;
    CHECK_EQ_INT(whi_hash_count(&channels_of(pe)->ends), 1);
    return whi_hash_next(&channels_of(pe)->ends, &cursor, &number);
}

// refused has element 1, which goes to PE 2, come to an end that has none, and do something at once.
static void refused(bool freed, unsigned does, int64_t ref) {
    begin(true);
    go(0, 1);
    push(0, 1, 4);
    tell(1, mover_go_entry, 2);
    UNTIL(only_end(1)->held);
    whi_channels_lost(channels_of(1), 0);
    CHECK(only_end(1)->lost);
    if (freed) {
        tell(0, mover_shut_entry, 0);
        UNTIL(!whi_hash_count(&channels_of(1)->ends));
    }
    tell(1, does, ref);
    kit_settle();
    kit_turns(20);  // notes are not counted
    CHECK_EQ_INT(job.failures, 0);
    CHECK_EQ_INT(pe_of(1), does == mover_go_entry ? (int)ref : 2);
}

TEST(an_end_that_comes_to_none_is_refused) {
    for (int freed = 0; freed < 2; freed++) {
        refused(freed, mover_pull_entry, 0);
        UNTIL(seen.got == 1);
        if (seen.last == WH_OK) {  // what had moved along
            tell(1, mover_pull_entry, 0);
            UNTIL(seen.got == 2);
        }
        CHECK_EQ_INT(seen.last, WH_EPEER);
        end();
    }
}

TEST(an_end_that_comes_to_none_goes_on) {
    for (int freed = 0; freed < 2; freed++) {
        refused(freed, mover_go_entry, 0);
        end();
    }
}

TEST(an_end_that_comes_to_none_is_closed) {
    for (int freed = 0; freed < 2; freed++) {
        refused(freed, mover_shut_entry, 0);
        end();
    }
}

TEST(what_keeps_an_element) {
    begin(false);
    tell(2, mover_go_entry, 1);  // its channel has no id
    kit_settle();
    CHECK_EQ_INT(seen.went, WH_EBUSY);
    tell(0, mover_pull_entry, 0);
    tell(0, mover_go_entry, 1);
    kit_settle();
    CHECK_EQ_INT(seen.went, WH_EBUSY);
    push(1, 1, 3);
    UNTIL(seen.got == 1);
    tell(1, mover_push_large_entry, 0);
    tell(1, mover_go_entry, 1);
    kit_settle();
    CHECK_EQ_INT(seen.went, WH_EBUSY);
    tell(0, mover_pull_large_entry, 0);
    UNTIL(seen.sent == 2);
    go(0, 1);
    go(0, 1);  // where it is
    go(1, 1);
    push(0, 1, 8);
    pull(1, 1, 8);
    end();
}

// Balancing moves elements with their channels, and leaves those that cannot move.
TEST(balancing_moves_channels) {
    begin(false);
    push(0, 2, 1);
    for (int32_t i = 0; i < MOVERS; i++)
        tell(i, mover_reach_entry, 0);
    UNTIL(seen.resumed == MOVERS);
    wh_balance_step last = {.size = sizeof(last)};
    CHECK_EQ_INT(wh_balance_last(job.pe[0], movers, &last), WH_OK);
    CHECK_EQ_INT(last.fixed, 2);
    CHECK(last.moved > 0);
    CHECK(seen.where[0] || seen.where[1]);
    CHECK(!seen.where[2] && !seen.where[3]);
    pull(1, 2, 1);
    push(1, 1, 9);
    pull(0, 1, 9);
    end();
}

TEST_MAIN()
