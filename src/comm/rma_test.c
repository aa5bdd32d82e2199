// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access, what the conformance suite cannot see: peers that break its rules, keys that were made up, memory
// that goes while it is accessed, and allocations that fail.
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "comm/raw_peer.h"
#include "comm/rma.h"
#include "net/shm/shm.h"

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
    (void)raw_open(&d, &foe);
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
    return raw_hear(&d, &foe, cls, bytes, sizeof(bytes));
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
    // Without an answer it is told when the initiator flushes, and once.
    for (int i = 0; i < 2; i++) {
        say((whi_hdr){.cls = WHI_CLASS_PUT, .size = 8, .tag = mr->id, .arg = SIZE - 4}, bytes);
        ask(WHI_CLASS_ATOMIC, mr->id + 1, 0, 0, 1);
        for (int flushes = 0; flushes < 2; flushes++) {
            say((whi_hdr){.cls = WHI_CLASS_FLUSH, .tag = 3}, NULL);
            CHECK_EQ_INT((int64_t)hear(WHI_CLASS_FLUSH_ACK).arg, flushes ? WH_OK : WH_EBOUNDS);
        }
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
            say((whi_hdr){.cls = WHI_CLASS_RMA_ANSWER, .aux = WHI_ANSWER_FAILED, .arg = 5}, NULL);
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

// A put that was granted and never comes keeps the user's memory no longer than its owner progresses; what comes for it after
// that is thrown away, and told.
TEST(a_put_that_never_comes) {
    begin_with(options);
    static char bytes[8192], evil[8192];
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
    CHECK_EQ_INT(wh_mr_destroy(users), WH_OK);
    memset(evil, 'X', sizeof(evil));
    whi_hdr chunk = {
        .cls = WHI_CLASS_CHUNK, .ep = (uint32_t)(grant.tag >> 32), .size = sizeof(evil)};
    CHECK(raw_send(&d, &foe, &chunk, evil));
    answered(WHI_ANSWER_FAILED, WH_EKEY);
    for (size_t i = 0; i < sizeof(bytes); i++)
        CHECK(bytes[i] == 0);
    leave();
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

// ---- a foe that owns the memory

enum { LARGE_PUT, SOME_GET, FETCHING_ADD, ASKS };

// ask_foe starts an access to memory that the foe says it has, and returns the record that asks for it.
static whi_hdr ask_foe(int what, uint8_t *buf, wh_request **req, whi_access *access) {
    whi_key key = {.magic = {'W', 'H', 'K', '1'}, .access = WH_MR_ALL, .kind = WH_MEM_HOST};
    key.id = 4711;
    key.size = SIZE;
    wh_rkey *rkey = NULL;
    wh_endpoint *ep = d.accepted[d.accepted_count - 1];
    CHECK_EQ_INT(wh_rkey_open(ep, &key, sizeof(key), &rkey), WH_OK);
    switch (what) {
    case LARGE_PUT: CHECK_EQ_INT(wh_put(rkey, 0, buf, SIZE, NULL, req), WH_PENDING); break;
    case SOME_GET: CHECK_EQ_INT(wh_get(rkey, 0, buf, 100, NULL, req), WH_PENDING); break;
    default: CHECK_EQ_INT(wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, buf, NULL, req), WH_PENDING);
    }
    wh_rkey_close(rkey);
    static const uint8_t classes[] = {WHI_CLASS_PUT, WHI_CLASS_GET, WHI_CLASS_ATOMIC};
    whi_hdr hdr;
    do
        CHECK(raw_read(&d, foe.fd, &hdr, sizeof(hdr)) &&
              raw_read(&d, foe.fd, access, hdr.size <= sizeof(*access) ? hdr.size : 0));
    while (hdr.cls != classes[what]);
    CHECK_EQ_INT(hdr.size, sizeof(*access));
    return hdr;
}

static whi_hdr tell(unsigned what, uint64_t arg) {
    return (whi_hdr){.cls = WHI_CLASS_RMA_ANSWER, .aux = (uint16_t)what, .arg = arg};
}

static whi_hdr grant(uint64_t bytes) {
    return (whi_hdr){.cls = WHI_CLASS_GRANT, .tag = UINT64_C(5) << 32, .arg = bytes};
}

// An answer that does not fit its question costs the link, and the operation ends once, with that.
TEST(answers_that_do_not_fit) {
    static uint8_t buf[SIZE];
    const uint64_t ekey = (uint64_t)(int64_t)WH_EKEY;
    const struct {
        int what;
        whi_hdr hdr;  // the id of the question is added to its tag
    } lies[] = {
        {LARGE_PUT, tell(WHI_ANSWER_VALUE, 5)},
        {LARGE_PUT, tell(WHI_ANSWER_DONE, 0)},  // nothing has moved
        {LARGE_PUT, tell(WHI_ANSWER_FAILED, 0)},
        {LARGE_PUT, tell(WHI_ANSWER_FAILED, 5)},
        {LARGE_PUT, tell(WHI_ANSWER_FAILED, (uint64_t)(int64_t)(WHI_STATUS_LAST - 1))},
        {LARGE_PUT, tell(9, ekey)},
        {LARGE_PUT, grant(SIZE - 1)},
        {LARGE_PUT, grant(SIZE + 1)},
        {LARGE_PUT, {.cls = WHI_CLASS_FLUSH_ACK}},
        {SOME_GET, tell(WHI_ANSWER_GET_FAILED, 0)},
        {SOME_GET, {.cls = WHI_CLASS_CHUNK, .arg = 90, .size = 20}},
        {SOME_GET, {.cls = WHI_CLASS_CHUNK, .seq = 1, .size = 20}},
        {FETCHING_ADD, tell(WHI_ANSWER_DONE, 0)},
        {FETCHING_ADD, tell(WHI_ANSWER_FAILED, UINT64_MAX << 40)},
        {FETCHING_ADD, grant(8)},
        {FETCHING_ADD, {.cls = WHI_CLASS_ACK}},
        {FETCHING_ADD, {.cls = WHI_CLASS_FLUSH_ACK, .arg = 1}},
    };
    begin_with(options);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        attack();
        wh_request *req = NULL;
        whi_access access;
        (void)ask_foe(lies[i].what, buf, &req, &access);
        whi_hdr hdr = lies[i].hdr;
        hdr.ep = hdr.cls == WHI_CLASS_CHUNK ? access.id : 1;
        hdr.tag |= hdr.cls == WHI_CLASS_CHUNK ? 0 : access.id;
        CHECK(raw_send(&d, &foe, &hdr, buf));
        PUMP_UNTIL(&d, raw_hung_up(foe.fd));
        CHECK_EQ_INT(done_as(&d, req), WH_EPROTOCOL);
        leave();
    }
    end();
}

// An owner may say no, and the operation ends with its reason; what comes for it later finds nothing.
TEST(an_owner_that_says_no) {
    static uint8_t buf[SIZE];
    begin_with(options);
    attack();
    for (int what = 0; what < ASKS; what++) {
        wh_request *req = NULL;
        whi_access access;
        (void)ask_foe(what, buf, &req, &access);
        unsigned no = what == SOME_GET ? WHI_ANSWER_GET_FAILED : WHI_ANSWER_FAILED;
        whi_hdr hdr = tell(no, (uint64_t)(int64_t)WH_EBOUNDS);
        hdr.tag = access.id;
        say(hdr, NULL);
        say(hdr, NULL);
        CHECK_EQ_INT(done_as(&d, req), WH_EBOUNDS);
    }
    whi_hdr value = tell(WHI_ANSWER_VALUE, 42);
    wh_request *req = NULL;
    whi_access access;
    (void)ask_foe(FETCHING_ADD, buf, &req, &access);
    value.tag = access.id;
    say(value, NULL);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(buf[0], 42);
    CHECK(wh_endpoint_status(d.accepted[d.accepted_count - 1]) == WH_OK);
    leave();
    end();
}

// Who asks for memory that cannot be passed is told so, whatever has become of the endpoint.
TEST(memory_that_cannot_be_passed) {
    begin_with(options);
    attack();
    say((whi_hdr){.cls = WHI_CLASS_MAP, .tag = mr->id}, NULL);
    whi_hdr hdr = hear(WHI_CLASS_MAPPED);
    CHECK(hdr.aux == 1 && (int64_t)hdr.arg == WH_ENOTSUP && hdr.tag == mr->id);
    say((whi_hdr){.cls = WHI_CLASS_MAP, .tag = mr->id + 1}, NULL);
    CHECK_EQ_INT((int64_t)hear(WHI_CLASS_MAPPED).arg, WH_EKEY);
    wh_endpoint_abort(d.accepted[d.accepted_count - 1]);
    say((whi_hdr){.cls = WHI_CLASS_MAP, .tag = mr->id}, NULL);
    // The link goes with its last endpoint, but not without an answer to what came before.
    PUMP_UNTIL(&d, raw_hung_up(foe.fd));
    close(foe.fd);
    d.accepted_count--;
    end();
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
    CHECK_EQ_INT(*(uint64_t *)(void *)(memory + 8), 42);           // without any progress
    CHECK_EQ_INT(wh_put(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);  // nothing, and from nowhere
    CHECK_EQ_INT(wh_get(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);
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
    CHECK_EQ_INT(wh_put(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_get(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);
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

// A record from before a fence is not overtaken by what goes directly after it.
TEST(a_fence_holds_behind_records) {
    begin_with(options);
    static char users[64], from[64];
    wh_mr *served;
    char key[WH_MR_KEY_MAX];
    size_t size;
    CHECK_EQ_INT(wh_mem_register(d.ctx[0], users, sizeof(users), WH_MEM_HOST, WH_MR_ALL, &served),
                 WH_OK);
    CHECK_EQ_INT(wh_mr_key(served, key, &size), WH_OK);
    wh_rkey *rkey = open_key(), *slow;
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &slow), WH_OK);
    UNTIL(&d, wh_rkey_direct(rkey));
    memset(users, 0, sizeof(users));
    memset(from, 7, sizeof(from));
    CHECK_EQ_INT(wh_put(slow, 0, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 0, from, 8, NULL, NULL), WH_OK);
    CHECK(memory[0] == 7 && users[0] == 0);  // without a fence there is no order
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 8, from, 8, NULL, NULL), WH_OK);
    CHECK(memory[8] == 0);
    UNTIL(&d, memory[8]);
    CHECK_EQ_INT(users[0], 7);
    // Whoever has heard of it goes directly again.
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 16, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[16], 7);
    // So does whoever has got an answer to something later.
    CHECK_EQ_INT(wh_put(slow, 8, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_get(slow, 8, from + 32, 8, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 24, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[24], 7);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &req), WH_OK);  // nothing since
    wh_rkey_close(rkey);
    wh_rkey_close(slow);
    CHECK_EQ_INT(wh_mr_destroy(served), WH_OK);
    end();
}

// A message that was granted after one flush is waited for by the next.
TEST(a_flush_after_a_grant) {
    begin_with(options);
    static char from[SIZE], to[SIZE];
    wh_request *send = NULL, *recv = NULL, *flush = NULL;
    memset(from, 9, SIZE);
    CHECK_EQ_INT(wh_tag_send(d.to, from, 100000, 5, NULL, &send), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);  // nobody has asked for it
    CHECK_EQ_INT(wh_tag_recv(d.from, to, SIZE, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    UNTIL(&d, wh_request_status(send) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);
    CHECK_EQ_INT(wh_request_status(recv), WH_OK);
    CHECK_EQ_INT(to[99999], 9);
    wh_request_free(recv);
    wh_request_free(send);
    end();
}

// An endpoint that ends while it waits for a mapping does not keep the others of its link from theirs.
TEST(a_mapping_for_an_endpoint_that_ends) {
    begin_with(options);
    wh_endpoint *theirs, *ep = duo_open(&d, &theirs);
    char key[WH_MR_KEY_MAX];
    size_t size;
    wh_rkey *lost, *rkey;
    CHECK_EQ_INT(wh_mr_key(mr, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(ep, key, size, &lost), WH_OK);
    wh_endpoint_abort(theirs);  // before it sees the question
    duo_for(&d, 20);
    rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK(!wh_rkey_direct(lost));
    wh_rkey_close(lost);
    wh_rkey_close(rkey);
    wh_endpoint_abort(ep);
    end();
}

// The memory may come when the endpoint that has asked for it is gone, and its link goes on.
TEST(a_mapping_that_comes_too_late) {
    begin_with(options);
    wh_endpoint *other, *second = duo_open(&d, &other);
    wh_rkey *rkey = open_key();
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(d.server);  // which answers
    CHECK(d.to->link->mapping);
    wh_endpoint_abort(d.to);
    d.to = second;
    duo_for(&d, 20);
    CHECK_EQ_INT(wh_put(rkey, 0, "x", 1, NULL, NULL), WH_ECLOSED);
    wh_rkey_close(rkey);
    rkey = open_key();  // the second one gets its own
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK_EQ_INT(wh_put(rkey, 0, "x", 1, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[0], 'x');
    wh_rkey_close(rkey);
    wh_endpoint_abort(other);
    end();
}

// What an owner passes instead of its memory may be a socket that keeps whoever closes it waiting.
TEST(a_mapping_that_is_no_memory) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    struct linger linger = {.l_onoff = 1, .l_linger = 60};
    socklen_t size = sizeof(linger);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, size) == 0);
    whi_hdr hdr = {.cls = WHI_CLASS_MAPPED, .ep = d.from->number, .tag = mr->id};
    CHECK_EQ_INT(whi_shm_pass(d.from->link->shm, &hdr, fd), WH_OK);
    while (d.to->link->mapping)
        (void)wh_worker_progress(d.client);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && !linger.l_onoff);
    CHECK(!wh_rkey_direct(rkey));
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    close(fd);
    wh_rkey_close(rkey);
    end();
}

// That a descriptor finds no place here is not the owner's fault.
TEST(a_mapping_without_a_descriptor) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    struct rlimit usual;
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    int next = dup(0);
    close(next);
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(d.server);  // which answers
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = usual.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_ELIMIT);
    wh_rkey_close(rkey);
    end();
}

// A key that was tampered with opens nothing, and costs neither the link nor a crash.
TEST(keys_that_were_tampered_with) {
    begin_with(options);
    whi_key key;
    size_t size;
    wh_rkey *rkey = NULL;
    char bytes[WH_MR_KEY_MAX];
    CHECK_EQ_INT(wh_mr_key(mr, bytes, &size), WH_OK);
    memcpy(&key, bytes, sizeof(key));
    whi_key wrong[6] = {key, key, key, key, key, key};
    wrong[0].magic[3] = '2';
    wrong[1].size = 0;
    wrong[2].access = WH_MR_ALL + 1;
    wrong[3].access = 0;
    wrong[4].align = 1;  // shared memory begins at a page
    wrong[5].kind = WH_MEM_SIM;
    for (int i = 0; i < 6; i++)
        CHECK_EQ_INT(wh_rkey_open(d.to, &wrong[i], sizeof(key), &rkey), WH_EKEY);
    // One that lies about the size is found out by the owner, or when the memory comes.
    const uint64_t sizes[] = {SIZE + 4096, UINT64_MAX, 4096};
    for (int i = 0; i < 3; i++) {
        uint64_t word = 0;
        wh_request *req = NULL;
        wrong[0] = key;
        wrong[0].size = sizes[i];
        CHECK_EQ_INT(wh_rkey_open(d.to, &wrong[0], sizeof(key), &rkey), WH_OK);
        CHECK(!direct_after(rkey, 20));
        CHECK_EQ_INT(wh_get(rkey, sizes[i] - 8, &word, 8, NULL, &req), WH_PENDING);
        CHECK_EQ_INT(done_as(&d, req), sizes[i] > SIZE ? WH_EBOUNDS : WH_OK);
        wh_rkey_close(rkey);
    }
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    end();
}

static const char *const hasty_options[] = {"announce_max=50", "lanes=stream", "grace=0", NULL};

// cancelled has the client cancel an operation while the owner of the memory does nothing.
static void cancelled(wh_request *req) {
    for (int i = 0; i < 10; i++)
        (void)wh_worker_progress(d.client);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    wh_request_cancel(req);
    CHECK_EQ_INT(wh_request_status(req), WH_ECANCELLED);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    wh_request_free(req);
}

// all_served waits until neither side counts an access any more.
static void all_served(void) {
    UNTIL(&d, !d.to->announced && !d.to->rma_active && !d.from->rx_announced);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
}

// An access that was withdrawn ends at once, and the link goes on, when the owner is only busy: its grace time is 0 here.
TEST(withdrawn_while_its_owner_is_busy) {
    begin_with(hasty_options);
    static uint8_t buf[20000];
    uint64_t old = 77;
    wh_request *req = NULL;
    wh_rkey *rkey = open_key();
    memset(memory, 'm', SIZE);
    CHECK_EQ_INT(wh_atomic(rkey, 0, WH_ATOMIC_SWAP, 8, 1, 0, &old, NULL, &req), WH_PENDING);
    cancelled(req);
    UNTIL(&d, memory[0] == 1);  // it has taken effect all the same
    duo_for(&d, 10);
    CHECK_EQ_INT(old, 77);
    CHECK_EQ_INT(wh_get(rkey, 0, buf, sizeof(buf), NULL, &req), WH_PENDING);
    cancelled(req);
    CHECK_EQ_INT(d.to->announced, 1);
    all_served();
    for (size_t i = 0; i < sizeof(buf); i++)
        CHECK(buf[i] == 0);
    CHECK_EQ_INT(wh_put(rkey, 0, buf, sizeof(buf), NULL, &req), WH_PENDING);
    while (req->stage == WHI_STAGE_ANNOUNCED)
        (void)duo_pass(&d);
    while (req->moved < req->accept)
        (void)wh_worker_progress(d.client);
    cancelled(req);
    CHECK_EQ_INT(d.to->announced, 1);
    all_served();
    CHECK_EQ_INT(memory[sizeof(buf) - 1], 0);
    wh_rkey_close(rkey);
    end();
}

// What has been withdrawn counts until it is served: its owner bounds what it serves at a time.
TEST(withdrawn_gets_are_counted) {
    begin_with(hasty_options);
    static uint8_t buf[20000];
    wh_rkey *rkey = open_key();
    for (int i = 0; i < 3 * ANNOUNCE_MAX; i++) {
        wh_request *req = NULL;
        CHECK_EQ_INT(wh_get(rkey, 0, buf, sizeof(buf), NULL, &req), WH_PENDING);
        cancelled(req);
        CHECK(d.to->announced <= ANNOUNCE_MAX);
    }
    CHECK_EQ_INT(d.to->announced, ANNOUNCE_MAX);
    all_served();
    wh_rkey_close(rkey);
    end();
}

// The end of an endpoint, or of its owner, ends what nobody waits for any more.
TEST(withdrawn_and_closed) {
    for (int theirs = 0; theirs < 2; theirs++) {
        begin_with(hasty_options);
        static uint8_t buf[20000];
        wh_request *req = NULL;
        wh_rkey *rkey = open_key();
        CHECK_EQ_INT(wh_get(rkey, 0, buf, sizeof(buf), NULL, &req), WH_PENDING);
        cancelled(req);
        wh_rkey_close(rkey);
        wh_endpoint **ep = theirs ? &d.from : &d.to;
        wh_endpoint_abort(*ep);
        *ep = NULL;
        duo_for(&d, 10);
        end();
    }
}

enum { BIG = 32 << 20 };  // more than sockets hold

// begin_big_get has the client ask for memory of the user's, which the owner begins to send.
static wh_mr *begin_big_get(const char *const *opts, char *from, char *to, wh_request **req) {
    wh_mr *users;
    wh_rkey *rkey;
    char key[WH_MR_KEY_MAX];
    size_t size;
    begin_with(opts);
    CHECK_EQ_INT(wh_mem_register(d.ctx[0], from, BIG, WH_MEM_HOST, WH_MR_ALL, &users), WH_OK);
    CHECK_EQ_INT(wh_mr_key(users, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &rkey), WH_OK);
    CHECK_EQ_INT(wh_get(rkey, 0, to, BIG, NULL, req), WH_PENDING);
    wh_rkey_close(rkey);
    (void)wh_worker_progress(d.client);
    uint64_t start = whi_clock_ns();
    while (!d.from->link->mid || whi_clock_ns() - start < 100 * WHI_NS_PER_MS)
        (void)wh_worker_progress(d.server);
    CHECK_EQ_INT(wh_mr_destroy(users), WH_EBUSY);
    return users;
}

// Memory that a peer is about to get is the user's again when the chunk that has begun is whole.
TEST(a_get_from_memory_that_goes) {
    static char from[BIG], to[BIG];
    wh_request *req = NULL;
    wh_mr *users = begin_big_get(stream_options, from, to, &req);
    UNTIL(&d, wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_EKEY);
    CHECK_EQ_INT(wh_mr_destroy(users), WH_OK);
    all_served();
    end();
}

// Or, when the peer takes nothing, after the grace time, which costs its link.
TEST(a_get_that_is_never_taken) {
    static char from[BIG], to[BIG];
    static const char *const opts[] = {"lanes=stream", "grace=100ms", NULL};
    wh_request *req = NULL;
    wh_mr *users = begin_big_get(opts, from, to, &req);
    uint64_t start = whi_clock_ns();
    while (wh_mr_destroy(users) == WH_EBUSY && whi_clock_ns() - start < 5 * WHI_NS_PER_S)
        (void)wh_worker_progress(d.server);
    CHECK(whi_clock_ns() - start < 5 * WHI_NS_PER_S);
    CHECK_EQ_INT(wh_endpoint_status(d.from), WH_ETIMEDOUT);
    CHECK(done_as(&d, req) != WH_OK);
    end();
}

enum { DEVICE = 40000, LONG = 100000 };  // what a device has, and more, which the CPU does not see

// failed waits for an operation, which must end with the error of a copy.
static void failed(wh_request *req) {
    wh_status st = done_as(&d, req);
    CHECK(st == WH_EINVAL || st == WH_ESYSTEM);
}

// A copy from or to a device that fails is an error of the operation, on the sending side also of its peer: nobody gets zeros
// for data.  Some chunks have moved before.
TEST(device_memory_that_fails) {
    static const char *const small_chunks[] = {"announce_max=50", "grace=1s", "bulk_slot=16K",
                                               NULL};
    static char here[LONG];
    for (int lanes = 0; lanes < 2; lanes++) {
        begin_with(lanes ? stream_options : small_chunks);
        void *device;
        char key[WH_MR_KEY_MAX];
        size_t size;
        wh_mr *served;
        wh_rkey *rkey, *host = open_key();
        wh_request *req = NULL, *recv = NULL;
        const wh_op_opts *sim = WH_OP_OPTS(.mem = WH_MEM_SIM);
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, DEVICE, &device), WH_OK);
        CHECK_EQ_INT(wh_mem_register(d.ctx[0], device, LONG, WH_MEM_SIM, 3, &served), WH_OK);
        CHECK_EQ_INT(wh_mr_key(served, key, &size), WH_OK);
        CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &rkey), WH_OK);
        CHECK_EQ_INT(wh_get(rkey, 0, here, LONG, NULL, &req), WH_PENDING);
        failed(req);
        CHECK_EQ_INT(wh_put(rkey, 0, here, LONG, NULL, &req), WH_PENDING);
        failed(req);
        // Message from a device; the one behind it is not hurt.
        CHECK_EQ_INT(wh_tag_recv(d.from, here, LONG, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, device, LONG, 1, sim, &req), WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, "x", 1, 1, NULL, NULL), WH_OK);
        failed(req);
        CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
        CHECK_EQ_INT(wh_tag_recv(d.from, here, LONG, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_OK);
        // And into one.
        CHECK_EQ_INT(wh_tag_recv(d.from, device, LONG, 2, WH_TAG_MASK_ALL, sim, &recv), WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, here, LONG, 2, NULL, &req), WH_PENDING);
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
        failed(recv);
        wh_frame frame = {.data = device, .size = LONG, .mem = WH_MEM_SIM};
        wh_frame good = {.data = here, .size = LONG, .mem = WH_MEM_HOST};
        for (int into = 0; into < 2; into++) {
            CHECK_EQ_INT(
                wh_object_recv(d.from, into ? &frame : &good, 1, 3, WH_TAG_MASK_ALL, NULL, &recv),
                WH_PENDING);
            CHECK_EQ_INT(wh_object_send(d.to, "h", 1, into ? &good : &frame, 1, 3, NULL, &req),
                         WH_PENDING);
            failed(into ? recv : req);
            CHECK_EQ_INT(done_as(&d, into ? req : recv), into ? WH_OK : WH_ECANCELLED);
        }
        if (lanes) {  // else the memory is mapped
            CHECK_EQ_INT(wh_put(host, 0, device, LONG, sim, &req), WH_PENDING);
            failed(req);
            CHECK_EQ_INT(wh_get(host, 0, device, LONG, sim, &req), WH_PENDING);
            failed(req);
        }
        all_served();
        CHECK_EQ_INT(wh_mr_destroy(served), WH_OK);
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
        wh_rkey_close(rkey);
        wh_rkey_close(host);
        end();
    }
}

typedef struct foreign_put {
    wh_rkey *rkey;
    wh_request *put, *get;
    char byte, back;
} foreign_put;

static void *put_from_a_thread(void *arg) {
    foreign_put *p = arg;
    CHECK_EQ_INT(wh_put(p->rkey, 5, &p->byte, 1, NULL, &p->put), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_get(p->rkey, 5, &p->back, 1, NULL, &p->get), WH_PENDING);
    return NULL;
}

// What another thread has started goes on although its key is closed before the owner sees it.
TEST(a_key_that_another_thread_has_used) {
    for (int lanes = 0; lanes < 2; lanes++) {
        begin_with(lanes ? stream_options : options);
        foreign_put p = {.rkey = open_key(), .byte = 33};
        pthread_t thread;
        CHECK_EQ_INT(pthread_create(&thread, NULL, put_from_a_thread, &p), 0);
        CHECK_EQ_INT(pthread_join(thread, NULL), 0);
        wh_rkey_close(p.rkey);
        CHECK_EQ_INT(done_as(&d, p.put), WH_OK);
        CHECK_EQ_INT(done_as(&d, p.get), WH_OK);
        CHECK(p.back == 33 && memory[5] == 33);
        duo_for(&d, 20);
        end();
    }
}

// A forked child has none of it: each call says so, the descriptors are closed, and the parent goes on.
TEST(a_forked_child) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        char word[8];
        wh_rkey *other;
        char key[WH_MR_KEY_MAX];
        size_t size;
        bool ok = fcntl(mr->fd, F_GETFD) < 0 && wh_mr_destroy(mr) == WH_EFORKED &&
                  wh_put(rkey, 0, word, 8, NULL, NULL) == WH_EFORKED &&
                  wh_get(rkey, 0, word, 0, NULL, NULL) == WH_EFORKED &&
                  wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, word, NULL, NULL) == WH_EFORKED &&
                  wh_endpoint_fence(d.to) == WH_EFORKED && wh_mr_key(mr, key, &size) == WH_OK &&
                  wh_rkey_open(d.to, key, size, &other) == WH_EFORKED;
        wh_rkey_close(rkey);
        wh_worker_destroy(d.client);
        wh_worker_destroy(d.server);
        wh_context_destroy(d.ctx[0]);
        wh_context_destroy(d.ctx[1]);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ_INT(status, 0);
    uint64_t word = 6;
    CHECK_EQ_INT(wh_put(rkey, 0, &word, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[0], 6);
    wh_rkey_close(rkey);
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
