// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access, what the conformance suite cannot see: peers that break its rules, keys that were made up, memory
// that goes while it is accessed, and allocations that fail.
#include <stdlib.h>

#include "base/alloc.h"
#include "comm/raw_peer.h"
#include "comm/rma.h"

enum { ANNOUNCE_MAX = 50, SIZE = 1 << 20 };

static const char *const options[] = {"announce_max=50", "grace=1s", NULL};
static const char *const stream_options[] = {"announce_max=50", "lanes=stream", NULL};

static duo d;
static raw foe;
static uint32_t seq;
static wh_mr *mr;
static unsigned char *memory;

static void begin_with(const char *const *opts) {
    whi_rng_init(&raw_rng, 5);
    duo_begin(&d, opts, opts);
    duo_connect(&d);
    CHECK_EQ_INT(wh_mem_alloc(d.ctx[0], SIZE, WH_MR_READ | WH_MR_WRITE | WH_MR_ATOMIC, &mr), WH_OK);
    memory = wh_mr_address(mr);
}

static void end(void) {
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    duo_end(&d);
}

static wh_rkey *open_key(void) {
    char key[WH_MR_KEY_MAX];
    size_t size;
    wh_rkey *rkey = NULL;
    CHECK_EQ_INT(wh_mr_key(mr, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &rkey), WH_OK);
    return rkey;
}

// ---- a foe with a socket and a link

static void attack(void) {
    raw_link(&d, &foe, wh_listener_port(d.listener));
    unsigned before = d.accepted_count;
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 1, .seq = 100, .tag = foe.peer.listener, .arg = 1 << 20};
    CHECK(raw_send(&d, &foe, &open, NULL));
    PUMP_UNTIL(&d, d.accepted_count > before);
    seq = 0;
}

static void say(whi_hdr hdr, const void *payload) {
    hdr.ep = 1;
    if (hdr.cls < WHI_CLASS_UNORDERED)
        hdr.seq = seq++;
    CHECK(raw_send(&d, &foe, &hdr, payload));
}

static void ask(uint8_t cls, uint64_t id, uint64_t offset, uint32_t op, uint64_t value) {
    whi_access access = {.id = op, .value = value};
    say((whi_hdr){.cls = cls,
                  .flags = cls == WHI_CLASS_PUT ? WHI_FLAG_ANNOUNCED : 0,
                  .aux = cls == WHI_CLASS_ATOMIC ? 8 << 8 : 0,
                  .size = sizeof(access),
                  .tag = id,
                  .arg = offset},
        &access);
}

static whi_hdr hear(uint8_t cls) {
    static uint8_t bytes[1 << 16];
    for (;;) {
        whi_hdr hdr;
        CHECK(raw_read(&d, foe.fd, &hdr, sizeof(hdr)));
        CHECK(hdr.size <= sizeof(bytes) && raw_read(&d, foe.fd, bytes, hdr.size));
        if (hdr.cls == cls)
            return hdr;
    }
}

static void answered(unsigned what, wh_status status) {
    whi_hdr hdr = hear(WHI_CLASS_RMA_ANSWER);
    CHECK_EQ_INT(hdr.aux, what);
    CHECK_EQ_INT((int64_t)hdr.arg, status);
}

static void leave(void) {
    close(foe.fd);
    wh_endpoint_abort(d.accepted[--d.accepted_count]);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
}

static void refused(void) {
    PUMP_UNTIL(&d, raw_hung_up(foe.fd));
    leave();
}

// The owner checks what the initiator's library would have: key, rights, range.
TEST(the_owner_checks) {
    begin_with(options);
    wh_mr *readable;
    static char bytes[64];
    CHECK_EQ_INT(
        wh_mem_register(d.ctx[0], bytes, sizeof(bytes), WH_MEM_HOST, WH_MR_READ, &readable), WH_OK);
    attack();
    ask(WHI_CLASS_GET, mr->id + 1, 0, 7, 8);
    answered(WHI_ANSWER_GET_FAILED, WH_EKEY);
    ask(WHI_CLASS_GET, mr->id, SIZE - 7, 7, 8);
    answered(WHI_ANSWER_GET_FAILED, WH_EBOUNDS);
    ask(WHI_CLASS_GET, mr->id, UINT64_MAX - 3, 7, 8);
    answered(WHI_ANSWER_GET_FAILED, WH_EBOUNDS);
    ask(WHI_CLASS_GET, mr->id, 0, 7, UINT64_MAX);
    answered(WHI_ANSWER_GET_FAILED, WH_EBOUNDS);
    ask(WHI_CLASS_PUT, mr->id, 1, 7, SIZE);
    answered(WHI_ANSWER_FAILED, WH_EBOUNDS);
    ask(WHI_CLASS_PUT, readable->id, 0, 7, 8);
    answered(WHI_ANSWER_FAILED, WH_EPERM);
    ask(WHI_CLASS_ATOMIC, readable->id, 0, 7, 1);
    answered(WHI_ANSWER_FAILED, WH_EPERM);
    ask(WHI_CLASS_ATOMIC, mr->id, 4, 7, 1);
    answered(WHI_ANSWER_FAILED, WH_EINVAL);
    // Without an answer it is told late, and once per flush.
    for (int i = 0; i < 2; i++) {
        say((whi_hdr){.cls = WHI_CLASS_PUT, .size = 8, .tag = mr->id, .arg = SIZE - 4}, bytes);
        ask(WHI_CLASS_ATOMIC, mr->id + 1, 0, 0, 1);
        answered(WHI_ANSWER_LATE, WH_EBOUNDS);
        say((whi_hdr){.cls = WHI_CLASS_FLUSH, .tag = 3}, NULL);
        (void)hear(WHI_CLASS_FLUSH_ACK);
    }
    leave();
    for (size_t i = 0; i < SIZE; i++)
        CHECK(memory[i] == 0);
    CHECK_EQ_INT(wh_mr_destroy(readable), WH_OK);
    end();
}

// Records that no Wherry sends cost the link.
TEST(accesses_that_make_no_sense) {
    begin_with(options);
    for (int i = 0; i < 8; i++) {
        attack();
        switch (i) {
        case 0: say((whi_hdr){.cls = WHI_CLASS_GET, .tag = mr->id, .size = 8}, memory); break;
        case 1: ask(WHI_CLASS_GET, mr->id, 0, 0, 8); break;
        case 2: ask(WHI_CLASS_GET, mr->id, 0, 7, 0); break;
        case 3: ask(WHI_CLASS_PUT, mr->id, 0, 0, 8); break;
        case 4: say((whi_hdr){.cls = WHI_CLASS_ATOMIC, .tag = mr->id, .aux = 3 << 8}, NULL); break;
        case 5: {
            whi_access access = {.id = 1};
            say((whi_hdr){.cls = WHI_CLASS_ATOMIC,
                          .tag = mr->id,
                          .aux = 99 | 8 << 8,
                          .size = sizeof(access)},
                &access);
            break;
        }
        case 6: say((whi_hdr){.cls = WHI_CLASS_MAPPED, .tag = mr->id}, NULL); break;
        default:
            say((whi_hdr){.cls = WHI_CLASS_RMA_ANSWER, .aux = WHI_ANSWER_LATE, .arg = 5}, NULL);
        }
        refused();
    }
    end();
}

// What a peer can make us keep for it is bounded: gets that it does not read, puts that it does not send.
TEST(no_more_accesses_than_announcements) {
    begin_with(options);
    for (int puts = 0; puts < 2; puts++) {
        attack();
        // Some gets end before the socket is full.
        for (uint32_t i = 1; i <= 4 * ANNOUNCE_MAX; i++) {
            whi_access access = {.id = i, .value = SIZE};
            whi_hdr hdr = {.cls = puts ? WHI_CLASS_PUT : WHI_CLASS_GET,
                           .flags = puts ? WHI_FLAG_ANNOUNCED : 0,
                           .size = sizeof(access),
                           .ep = 1,
                           .seq = seq++,
                           .tag = mr->id};
            if (!raw_send(&d, &foe, &hdr, &access))
                break;
        }
        refused();
    }
    end();
}

// A put that was granted and never comes keeps the user's memory busy, and that alone.
TEST(a_put_that_never_comes) {
    begin_with(options);
    static char bytes[100000];
    wh_mr *users;
    CHECK_EQ_INT(wh_mem_register(d.ctx[0], bytes, sizeof(bytes), WH_MEM_HOST, WH_MR_ALL, &users),
                 WH_OK);
    attack();
    ask(WHI_CLASS_PUT, users->id, 0, 9, sizeof(bytes));
    whi_hdr grant = hear(WHI_CLASS_GRANT);
    CHECK_EQ_INT((uint32_t)grant.tag, 9);
    CHECK_EQ_INT(wh_mr_destroy(users), WH_EBUSY);
    ask(WHI_CLASS_GET, users->id, 0, 7, 8);  // revoked all the same
    answered(WHI_ANSWER_GET_FAILED, WH_EKEY);
    leave();
    UNTIL(&d, wh_mr_destroy(users) == WH_OK);
    end();
}

// Memory of ours goes with its last access, not before.
TEST(memory_outlives_its_handle) {
    begin_with(options);
    attack();
    ask(WHI_CLASS_PUT, mr->id, 0, 9, SIZE);
    whi_hdr grant = hear(WHI_CLASS_GRANT);
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    static char bytes[4096];
    say((whi_hdr){.cls = WHI_CLASS_CHUNK, .size = sizeof(bytes)}, bytes);  // grant 1 is not ours
    whi_hdr chunk = {
        .cls = WHI_CLASS_CHUNK, .ep = (uint32_t)(grant.tag >> 32), .size = sizeof(bytes)};
    CHECK(raw_send(&d, &foe, &chunk, bytes));
    duo_for(&d, 20);
    leave();
    duo_for(&d, 20);
    duo_end(&d);
}

// ---- between honest peers

static bool direct_after(wh_rkey *rkey, unsigned ms) {
    duo_for(&d, ms);
    return wh_rkey_direct(rkey);
}

TEST(mapped_where_it_can_be) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    uint64_t word = 42;
    CHECK_EQ_INT(wh_put(rkey, 8, &word, sizeof(word), NULL, NULL), WH_OK);
    CHECK_EQ_INT(*(uint64_t *)(void *)(memory + 8), 42);  // without any progress
    // Several keys of one memory, each asked for when the one before it has come.
    wh_rkey *more[6];
    for (int i = 0; i < 6; i++)
        more[i] = open_key();
    for (int i = 0; i < 6; i++) {
        UNTIL(&d, wh_get(more[i], 8, &word, 8, NULL, NULL) != WH_EAGAIN && duo_pass(&d) + 1 &&
                      wh_rkey_direct(more[i]));
        wh_rkey_close(more[i]);
    }
    duo_for(&d, 20);
    wh_rkey_close(rkey);
    end();
    begin_with(stream_options);
    rkey = open_key();
    CHECK(!direct_after(rkey, 50));
    wh_rkey_close(rkey);
    end();
}

// The first word of the memory says that it is gone, before anybody has said so.
TEST(a_mapping_that_was_revoked) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    char bytes[8] = {0};
    uint64_t old;
    CHECK_EQ_INT(wh_put(rkey, 0, bytes, 8, NULL, NULL), WH_EKEY);
    CHECK_EQ_INT(wh_get(rkey, 0, bytes, 8, NULL, NULL), WH_EKEY);
    CHECK_EQ_INT(wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, NULL), WH_EKEY);
    wh_rkey_close(rkey);
    duo_end(&d);
}

// A key outlives its endpoint and its worker, and answers with why they ended.
TEST(a_key_after_the_end) {
    begin_with(options);
    wh_rkey *rkey = open_key(), *other = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    char bytes[8] = {0};
    wh_endpoint_abort(d.to);
    d.to = NULL;
    CHECK_EQ_INT(wh_put(rkey, 0, bytes, 8, NULL, NULL), WH_ECLOSED);
    wh_rkey_close(rkey);
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    duo_end(&d);
    wh_rkey_close(other);
}

// A put, a get or an atomic that waits for a fence goes when what is before it has ended.
TEST(a_fence_holds_what_is_mapped_too) {
    begin_with(options);
    static char from[SIZE], to[SIZE];
    static char users[SIZE];
    wh_mr *served;
    char key[WH_MR_KEY_MAX];
    size_t size;
    CHECK_EQ_INT(wh_mem_register(d.ctx[0], users, SIZE, WH_MEM_HOST, WH_MR_ALL, &served), WH_OK);
    CHECK_EQ_INT(wh_mr_key(served, key, &size), WH_OK);
    wh_rkey *rkey = open_key(), *slow;
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &slow), WH_OK);
    UNTIL(&d, wh_rkey_direct(rkey));
    wh_request *reqs[2] = {NULL};
    memset(from, 7, SIZE);
    CHECK_EQ_INT(wh_put(slow, 0, from, SIZE, NULL, &reqs[0]), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 0, from, 8, NULL, &reqs[1]), WH_PENDING);
    CHECK_EQ_INT(memory[0], 0);
    CHECK_EQ_INT(done_as(&d, reqs[1]), WH_OK);
    CHECK(users[SIZE - 1] == 7 && memory[0] == 7);
    CHECK_EQ_INT(done_as(&d, reqs[0]), WH_OK);
    CHECK_EQ_INT(wh_get(rkey, 0, to, 8, NULL, NULL), WH_OK);  // the fence is behind us
    wh_rkey_close(rkey);
    wh_rkey_close(slow);
    CHECK_EQ_INT(wh_mr_destroy(served), WH_OK);
    end();
}

// Each allocation of a life with remote memory fails in turn: an error, never a crash, and all of it can be given back.
static void one_life(void) {
    static char bytes[100000];
    wh_mr *mine = NULL;
    wh_rkey *rkey = NULL;
    wh_request *reqs[4] = {NULL};
    char key[WH_MR_KEY_MAX];
    size_t size;
    uint64_t old;
    if (wh_mem_alloc(d.ctx[0], sizeof(bytes), WH_MR_ALL, &mine) != WH_OK)
        return;
    CHECK_EQ_INT(wh_mr_key(mine, key, &size), WH_OK);
    if (wh_rkey_open(d.to, key, size, &rkey) == WH_OK) {
        (void)!wh_put(rkey, 0, bytes, 8, NULL, &reqs[0]);
        (void)!wh_put(rkey, 0, bytes, sizeof(bytes), NULL, &reqs[1]);
        (void)!wh_endpoint_fence(d.to);
        (void)!wh_get(rkey, 0, bytes, sizeof(bytes), NULL, &reqs[2]);
        (void)!wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, &reqs[3]);
        for (int i = 0; i < 4; i++)
            if (reqs[i])
                (void)done_as(&d, reqs[i]);
        wh_rkey_close(rkey);
    }
    UNTIL(&d, wh_mr_destroy(mine) == WH_OK);
}

TEST(each_allocation_fails) {
    for (int lanes = 0; lanes < 2; lanes++) {
        for (uint64_t n = 1; n < 60; n++) {
            begin_with(lanes ? stream_options : options);
            whi_alloc_fail_at(n);
            one_life();
            whi_alloc_fail_at(0);
            end();
        }
    }
}

TEST_MAIN()
