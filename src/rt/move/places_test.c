// SPDX-License-Identifier: BSD-3-Clause
//
// What a table answers to its owner and to foreign PEs, one table at a time; what comes of many is model_test.c's.
#include "rt/move/table.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/test.h"

enum { PES = 4, SELF = 1, SEEN = 64 };

// What the table has said.
static struct {
    whi_places *t;
    whi_place_message *forwarded[SEEN], *delivered[SEEN];
    uint32_t forwarded_to[SEEN];
    int forwards, delivers, rejects;
    whi_place_control controls[SEEN];
    uint32_t control_to[SEEN];
    int control_count;
    bool awaits;
} seen;

static uint32_t home(void *arg, const whi_place_key *key) {
    (void)arg;
    return (uint32_t)key->index[0] % PES;
}

static void forward(void *arg, uint32_t pe, whi_place_message *message) {
    (void)arg;
    seen.forwarded[seen.forwards % SEEN] = message;
    seen.forwarded_to[seen.forwards++ % SEEN] = pe;
}

static void control(void *arg, uint32_t pe, const whi_place_control *c) {
    (void)arg;
    seen.controls[seen.control_count % SEEN] = *c;
    seen.control_to[seen.control_count++ % SEEN] = pe;
}

static void deliver(void *arg, void *element, whi_place_message *message) {
    (void)arg;
    CHECK(element);
    seen.delivered[seen.delivers++ % SEEN] = message;
}

static void reject(void *arg, whi_place_message *message) {
    (void)arg, (void)message;
    seen.rejects++;
}

static bool awaited(void *arg, const whi_place_key *key) {
    (void)arg, (void)key;
    return seen.awaits;
}

static const whi_place_ops ops = {home, forward, control, deliver, reject, awaited};
static int anything;

static void begin(void) {
    memset(&seen, 0, sizeof(seen));
    whi_log_set_level(WHI_LOG_OFF);
    whi_places_opts opts = {.self = SELF, .pes = PES, .routes_max = 4, .told_max = 2};
    CHECK_EQ_INT(whi_places_create(&opts, &ops, NULL, &seen.t), WH_OK);
}

static void end(void) {
    whi_places_destroy(seen.t);
}

static whi_place_key key_of(int number) {
    whi_place_key key;
    CHECK_EQ_INT(whi_place_key_make(3, (int32_t[]){number, 1}, 2, &key), WH_OK);
    return key;
}

static whi_place_message message_to(int number) {
    return (whi_place_message){.key = key_of(number)};
}

static whi_places_stats stats(void) {
    whi_places_stats s;
    whi_places_stats_get(seen.t, &s);
    return s;
}

TEST(options_have_bounds) {
    const whi_places_opts bad[] = {
        {.self = 4, .pes = 4, .routes_max = 1, .told_max = 1},
        {.self = 0, .pes = 4, .routes_max = 0, .told_max = 1},
        {.self = 0, .pes = 4, .routes_max = UINT32_MAX, .told_max = 1},
        {.self = 0, .pes = 4, .routes_max = 1, .told_max = 0},
        {.self = 0, .pes = 4, .routes_max = 1, .told_max = WHI_PLACE_TOLD_MAX + 1},
    };
    whi_places *t = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ_INT(whi_places_create(&bad[i], &ops, NULL, &t), WH_EINVAL);
    for (uint64_t n = 1; n <= 2; n++) {
        whi_places_opts opts = {.self = 0, .pes = 4, .routes_max = 1, .told_max = 1};
        whi_alloc_fail_at(n);
        CHECK_EQ_INT(whi_places_create(&opts, &ops, NULL, &t), WH_ENOMEM);
        whi_alloc_fail_at(0);
    }
    CHECK(!t);
}

TEST(the_short_way_allocates_nothing) {
    begin();
    whi_place_key key = key_of(SELF);
    CHECK_EQ_INT(whi_places_insert(seen.t, &key, &anything), WH_OK);
    CHECK(whi_places_find(seen.t, &key) == &anything);
    whi_place_message sent = message_to(SELF), come = message_to(SELF), away = message_to(2);
    come.stamp.source = 3;
    whi_alloc_fail_at(1);
    CHECK_EQ_INT(whi_places_send(seen.t, &sent), WH_OK);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &come), WH_OK);
    CHECK_EQ_INT(whi_alloc_count(), 0);
    whi_alloc_fail_at(0);
    CHECK(seen.delivered[0] == &sent && seen.delivered[1] == &come);
    CHECK_EQ_INT(whi_places_send(seen.t, &away), WH_OK);
    CHECK(seen.forwarded[0] == &away && seen.forwarded_to[0] == 2 && !away.stamp.at);
    CHECK_EQ_INT(stats().rows, 1);
    end();
}

// An element of a program with millions of them: its row, and its share of a hash table that is at least 3/8 full.
TEST(an_element_costs_little) {
    begin();
    enum { MANY = 200000 };
    for (int i = 0; i < MANY; i++) {
        whi_place_key key = key_of(SELF + i * PES);
        CHECK_EQ_INT(whi_places_insert(seen.t, &key, &anything), WH_OK);
    }
    size_t hash = (seen.t->table.mask + 1) * sizeof(whi_hash_entry);
    CHECK(sizeof(whi_row) <= 72 && sizeof(whi_row) + hash / MANY <= 120);
    CHECK_EQ_INT(stats().elements, MANY);
    const whi_place_key *key;
    size_t cursor = 0, found = 0;
    while (whi_places_next(seen.t, &cursor, &key))
        found++;
    CHECK_EQ_INT(found, MANY);
    for (int i = 0; i < MANY; i++) {
        whi_place_key old = key_of(SELF + i * PES);
        void *state;
        size_t size;
        CHECK_EQ_INT(whi_places_remove(seen.t, &old, &state, &size), WH_OK);
        CHECK(!state);
    }
    CHECK_EQ_INT(stats().rows, 0);
    end();
}

TEST(keys_that_share_a_hash_are_told_apart) {
    begin();
    seen.t->hash_mask = 0;
    static int elements[8];
    for (int i = 0; i < 8; i++) {
        whi_place_key key = key_of(SELF + i * PES);
        CHECK_EQ_INT(whi_places_insert(seen.t, &key, &elements[i]), WH_OK);
    }
    const int order[] = {3, 7, 0, 1, 6, 5, 2, 4};
    for (int i = 0; i < 8; i++) {
        for (int j = i; j < 8; j++) {
            whi_place_key key = key_of(SELF + order[j] * PES);
            CHECK(whi_places_find(seen.t, &key) == &elements[order[j]]);
        }
        const whi_place_key *any;
        size_t cursor = 0;
        CHECK(whi_places_next(seen.t, &cursor, &any));
        whi_place_key key = key_of(SELF + order[i] * PES);
        void *state;
        size_t size;
        CHECK_EQ_INT(whi_places_remove(seen.t, &key, &state, &size), WH_OK);
        CHECK(!whi_places_find(seen.t, &key));
        CHECK_EQ_INT(stats().rows, 7 - i);
    }
    end();
}

TEST(wrong_calls_are_refused) {
    begin();
    whi_place_key here = key_of(SELF), other = key_of(2);
    void *state;
    size_t size;
    whi_place_message message = message_to(SELF);
    CHECK_EQ_INT(whi_places_insert(seen.t, &other, &anything), WH_EINVAL);
    CHECK_EQ_INT(whi_places_insert(seen.t, &here, NULL), WH_EINVAL);
    CHECK_EQ_INT(whi_places_insert(seen.t, &here, &anything), WH_OK);
    CHECK_EQ_INT(whi_places_insert(seen.t, &here, &anything), WH_EINVAL);
    CHECK_EQ_INT(whi_places_begin_move(seen.t, &other, 0, NULL, &state, &size), WH_EINVAL);
    CHECK_EQ_INT(whi_places_begin_move(seen.t, &here, SELF, NULL, &state, &size), WH_EINVAL);
    CHECK_EQ_INT(whi_places_begin_move(seen.t, &here, PES, NULL, &state, &size), WH_EINVAL);
    CHECK_EQ_INT(whi_places_end_move(seen.t, &here), WH_EINVAL);
    CHECK_EQ_INT(whi_places_install(seen.t, &here, &anything), WH_EINVAL);
    CHECK_EQ_INT(whi_places_remove(seen.t, &other, &state, &size), WH_EINVAL);
    CHECK_EQ_INT(whi_places_complete(seen.t, &message), WH_EINVAL);
    CHECK_EQ_INT(whi_places_begin_move(seen.t, &here, 2, NULL, &state, &size), WH_OK);
    whi_free(state);
    CHECK_EQ_INT(whi_places_begin_move(seen.t, &here, 2, NULL, &state, &size), WH_EINVAL);
    CHECK_EQ_INT(whi_places_remove(seen.t, &here, &state, &size), WH_EINVAL);
    CHECK_EQ_INT(whi_places_insert(seen.t, &here, &anything), WH_EINVAL);
    CHECK(!whi_places_find(seen.t, &here));
    CHECK_EQ_INT(whi_places_end_move(seen.t, &here), WH_OK);
    end();
}

TEST(messages_wait_for_an_element_or_are_rejected) {
    begin();
    whi_place_key key = key_of(SELF), late = key_of(SELF + PES);
    whi_place_message first = message_to(SELF), second = message_to(SELF), none = message_to(SELF),
                      never = message_to(SELF + PES);
    CHECK_EQ_INT(whi_places_send(seen.t, &none), WH_OK);
    CHECK_EQ_INT(seen.rejects, 1);
    CHECK_EQ_INT(stats().rows, 0);
    seen.awaits = true;
    CHECK_EQ_INT(whi_places_arrive(seen.t, &first), WH_OK);
    CHECK_EQ_INT(whi_places_send(seen.t, &never), WH_OK);
    seen.awaits = false;  // those behind one that waits do, too
    CHECK_EQ_INT(whi_places_send(seen.t, &second), WH_OK);
    CHECK_EQ_INT(stats().held, 3);
    CHECK_EQ_INT(whi_places_insert(seen.t, &key, &anything), WH_OK);
    CHECK_EQ_INT(seen.delivers, 2);
    CHECK(seen.delivered[0] == &first && seen.delivered[1] == &second);
    whi_places_reject_awaited(seen.t, late.collection + 1);
    CHECK_EQ_INT(seen.rejects, 1);
    whi_places_reject_awaited(seen.t, late.collection);
    CHECK_EQ_INT(seen.rejects, 2);
    CHECK_EQ_INT(stats().rows, 1);
    end();
}

TEST(those_behind_an_incomplete_message_wait_and_others_do_not) {
    begin();
    whi_place_key key = key_of(SELF), other = key_of(SELF + PES);
    CHECK_EQ_INT(whi_places_insert(seen.t, &key, &anything), WH_OK);
    CHECK_EQ_INT(whi_places_insert(seen.t, &other, &anything), WH_OK);
    whi_place_message large = message_to(SELF), behind = message_to(SELF),
                      beside = message_to(SELF + PES);
    large.incomplete = true;
    CHECK_EQ_INT(whi_places_arrive(seen.t, &large), WH_OK);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &behind), WH_OK);
    CHECK_EQ_INT(seen.delivers, 0);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &beside), WH_OK);
    CHECK(seen.delivers == 1 && seen.delivered[0] == &beside);
    CHECK_EQ_INT(whi_places_complete(seen.t, &large), WH_OK);
    CHECK(seen.delivers == 3 && seen.delivered[1] == &large && seen.delivered[2] == &behind);
    CHECK_EQ_INT(whi_places_complete(seen.t, &large), WH_EINVAL);
    // Nothing is left of it in the table.
    CHECK(!whi_row_find(seen.t, &key)->places);
    whi_place_message again = message_to(SELF);
    whi_alloc_fail_at(1);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &again), WH_OK);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(seen.delivers, 4);
    end();
}

TEST(what_waits_for_an_element_is_rejected_with_it) {
    begin();
    whi_place_key key = key_of(SELF);
    CHECK_EQ_INT(whi_places_insert(seen.t, &key, &anything), WH_OK);
    whi_place_message large = message_to(SELF), behind = message_to(SELF);
    large.incomplete = true;
    CHECK_EQ_INT(whi_places_arrive(seen.t, &large), WH_OK);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &behind), WH_OK);
    void *state;
    size_t size;
    CHECK_EQ_INT(whi_places_remove(seen.t, &key, &state, &size), WH_OK);
    CHECK(!state && seen.rejects == 2 && !seen.delivers);
    CHECK_EQ_INT(stats().rows, 0);
    end();
}

// Makes the state of an element of PE 0 that leaves it for this PE, by another table.
static size_t make_state(int number, uint8_t *bytes, size_t most) {
    whi_places *mine = seen.t, *theirs;
    whi_places_opts opts = {.self = 0, .pes = PES, .routes_max = 4, .told_max = 2};
    CHECK_EQ_INT(whi_places_create(&opts, &ops, NULL, &theirs), WH_OK);
    whi_place_key key = key_of(number);
    CHECK_EQ_INT(whi_places_insert(theirs, &key, &anything), WH_OK);
    void *state;
    size_t size;
    CHECK_EQ_INT(whi_places_begin_move(theirs, &key, SELF, NULL, &state, &size), WH_OK);
    CHECK(size <= most);
    memcpy(bytes, state, size);
    whi_free(state);
    whi_places_destroy(theirs);
    seen.t = mine;
    return size;
}

TEST(an_element_comes) {
    begin();
    uint8_t bytes[256];
    size_t size = make_state(0, bytes, sizeof(bytes));
    whi_place_key key;
    whi_place_message message = message_to(0);
    message.stamp = (whi_place_stamp){.via = 1, .at = 2, .source = 3};
    CHECK_EQ_INT(whi_places_arrive(seen.t, &message), WH_EPROTOCOL);
    CHECK_EQ_INT(whi_places_expect(seen.t, bytes, size, &key), WH_OK);
    // Home is told, and what this PE has sent by home comes first.
    CHECK_EQ_INT(seen.control_count, 2);
    CHECK(seen.controls[0].kind == WHI_PLACE_NEW && seen.control_to[0] == 0 &&
          seen.controls[0].number == 2);
    CHECK(seen.controls[1].kind == WHI_PLACE_MARKER && seen.control_to[1] == 0 &&
          seen.controls[1].number == 2);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &message), WH_OK);
    CHECK(!whi_places_find(seen.t, &key) && !seen.delivers);
    CHECK_EQ_INT(whi_places_expect(seen.t, bytes, size, &key), WH_EPROTOCOL);
    CHECK_EQ_INT(whi_places_install(seen.t, &key, &anything), WH_OK);
    CHECK(whi_places_find(seen.t, &key) == &anything && seen.delivers == 1);
    // The sender, which sent by home, is told.
    CHECK(seen.control_count == 3 && seen.controls[2].kind == WHI_PLACE_NEW &&
          seen.control_to[2] == 3);
    // One more would be too many, and so is one of these where it goes.
    whi_place_message another = message_to(0);
    another.stamp = (whi_place_stamp){.via = 1, .at = 2, .source = 2};
    CHECK_EQ_INT(whi_places_arrive(seen.t, &another), WH_OK);
    CHECK_EQ_INT(seen.control_count, 3);
    void *state;
    CHECK_EQ_INT(whi_places_begin_move(seen.t, &key, 2, NULL, &state, &size), WH_OK);
    CHECK(seen.control_count == 4 && seen.controls[3].kind == WHI_PLACE_LEAVE);
    whi_free(state);
    end();
}

TEST(a_state_that_cannot_be_is_refused) {
    begin();
    uint8_t bytes[256];
    whi_place_key key;
    size_t size = make_state(0, bytes, sizeof(bytes));
    for (size_t less = 0; less < size; less++)
        CHECK_EQ_INT(whi_places_expect(seen.t, bytes, less, &key), WH_EPROTOCOL);
    bytes[size] = 0;
    CHECK_EQ_INT(whi_places_expect(seen.t, bytes, size + 1, &key), WH_EPROTOCOL);
    size_t after_key = 1 + 1 + 2;
    const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {
        {0, 0},               // dimensions
        {after_key, 1},       // vacant, but this is not its home
        {after_key, 2},       // neither
        {after_key + 1, 1},   // number: not behind home's stream
        {after_key + 9, 0},   // home's stream
        {after_key + 17, 3},  // PEs told
        {after_key + 21, 9},  // flows
        {2, SELF},            // the key of an element that home does not know
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t good = bytes[wrong[i].at];
        bytes[wrong[i].at] = wrong[i].value;
        CHECK_EQ_INT(whi_places_expect(seen.t, bytes, size, &key), WH_EPROTOCOL);
        bytes[wrong[i].at] = good;
    }
    CHECK_EQ_INT(stats().rows, 0);
    CHECK_EQ_INT(whi_places_expect(seen.t, bytes, size, &key), WH_OK);
    end();
}

// A state with lists: {PEs told}, {PE, entry}.
static wh_status expect_lists(const uint32_t *told, uint32_t told_count, const uint64_t *flows,
                              uint32_t flow_count) {
    begin();
    uint8_t bytes[512];
    whi_writer to;
    whi_writer_init(&to, bytes, sizeof(bytes));
    whi_place_key key = key_of(0);
    whi_place_key_write(&to, &key);
    whi_writer_u8(&to, 0);
    whi_writer_u64(&to, 6);
    whi_writer_u64(&to, 5);
    whi_writer_u32(&to, told_count);
    for (uint32_t i = 0; i < told_count; i++)
        whi_writer_u32(&to, told[i]);
    whi_writer_u32(&to, flow_count);
    for (uint32_t i = 0; i < flow_count; i++) {
        whi_writer_u32(&to, (uint32_t)flows[2 * i]);
        whi_writer_u64(&to, flows[2 * i + 1]);
    }
    wh_status status = whi_places_expect(seen.t, bytes, whi_writer_size(&to), &key);
    end();
    return status;
}

TEST(lists_in_a_state_are_sound) {
    CHECK_EQ_INT(expect_lists((uint32_t[]){1, 3}, 2, (uint64_t[]){0, 5, 3, 2}, 2), WH_OK);
    CHECK_EQ_INT(expect_lists((uint32_t[]){3, 1}, 2, NULL, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(expect_lists((uint32_t[]){3, 3}, 2, NULL, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(expect_lists((uint32_t[]){0}, 1, NULL, 0), WH_EPROTOCOL);  // home
    CHECK_EQ_INT(expect_lists((uint32_t[]){PES}, 1, NULL, 0), WH_EPROTOCOL);
    CHECK_EQ_INT(expect_lists(NULL, 0, (uint64_t[]){3, 2, 0, 5}, 2), WH_EPROTOCOL);
    CHECK_EQ_INT(expect_lists(NULL, 0, (uint64_t[]){3, 0}, 1), WH_EPROTOCOL);
    CHECK_EQ_INT(expect_lists(NULL, 0, (uint64_t[]){3, 6}, 1), WH_EPROTOCOL);
    CHECK_EQ_INT(expect_lists(NULL, 0, (uint64_t[]){PES, 5}, 1), WH_EPROTOCOL);
}

TEST(controls_that_cannot_be_change_nothing) {
    begin();
    whi_place_key here = key_of(SELF), other = key_of(2);
    CHECK_EQ_INT(whi_places_insert(seen.t, &here, &anything), WH_OK);
    const whi_place_stamp entry = {.entry = 1, .at = 1, .source = 2}, by_home = {.source = 2},
                          via = {.via = 1, .at = 1, .source = 2}, at = {.at = 9, .source = 2};
    const whi_place_control bad[] = {
        {.kind = WHI_PLACE_MARKER, .key = other, .stamp = entry, .number = 2},
        {.kind = WHI_PLACE_MARKER, .key = other, .stamp = by_home, .number = 2},
        {.kind = WHI_PLACE_MARKER, .key = key_of(SELF + PES), .stamp = by_home, .number = 2},
        {.kind = WHI_PLACE_HOME_MARKER, .key = other, .stamp = via, .number = 2},
        {.kind = WHI_PLACE_END, .key = other, .stamp = at},
        {.kind = WHI_PLACE_END, .key = here, .stamp = at},
        {.kind = WHI_PLACE_RELEASE, .key = other, .number = 2},
        {.kind = WHI_PLACE_RELEASE, .key = here, .number = 2},
        {.kind = WHI_PLACE_NEW, .key = here, .number = 2},
        {.kind = WHI_PLACE_NEW, .key = key_of(SELF + PES), .number = 2},
        {.kind = WHI_PLACE_KINDS},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_EQ_INT(whi_places_control(seen.t, 2, &bad[i]), WH_EPROTOCOL);
    whi_place_message message = message_to(2);
    CHECK_EQ_INT(whi_places_arrive(seen.t, &message), WH_EPROTOCOL);  // this is not its home
    CHECK_EQ_INT(seen.control_count, 0);
    CHECK_EQ_INT(stats().rows, 1);
    CHECK(whi_places_find(seen.t, &here));
    end();
}

TEST_MAIN()
