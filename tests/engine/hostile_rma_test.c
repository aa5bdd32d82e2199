// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access between peers of which one breaks the rules: as the one that asks, and as the owner.
#include "engine/rma_kit.h"

static raw hostile;
static uint32_t seq;  // of its endpoint

// ---- a hostile with a socket and a link

static void attack(void) {
    raw_link(&d, &hostile, wh_listener_port(d.listener));
    (void)raw_open(&d, &hostile);
    seq = 0;
}

static void say(whi_hdr hdr, const void *payload) {
    hdr.ep = 1;
    if (hdr.cls < WHI_CLASS_UNORDERED)
        hdr.seq = seq++;
    CHECK(raw_send(&d, &hostile, &hdr, payload));
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
    return raw_hear(&d, &hostile, cls, bytes, sizeof(bytes));
}

static void answered(unsigned what, wh_status status) {
    whi_hdr hdr = hear(WHI_CLASS_RMA_ANSWER);
    CHECK_EQ_INT(hdr.aux, what);
    CHECK_EQ_INT((int64_t)hdr.arg, status);
}

static void leave(void) {
    close(hostile.fd);
    wh_endpoint_abort(d.accepted[--d.accepted_count]);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
}

static void refused(void) {
    PUMP_UNTIL(&d, raw_hung_up(hostile.fd));
    leave();
}

// The owner checks what the initiator's library would have: key, rights, range.
TEST(the_owner_checks) {
    begin_with(options);
    wh_mr *readable;
    static char bytes[64];
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], bytes, sizeof(bytes), WH_MEM_HOST, WH_MR_READ, &readable),
                 WH_OK);
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
            if (!raw_send(&d, &hostile, &hdr, &access))
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
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], bytes, sizeof(bytes), WH_MEM_HOST, WH_MR_ALL, &users),
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
    CHECK(raw_send(&d, &hostile, &chunk, evil));
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
    CHECK(raw_send(&d, &hostile, &chunk, bytes));
    duo_for(&d, 20);
    leave();
    duo_for(&d, 20);
    duo_end(&d);
}

// ---- a hostile that owns the memory

enum { LARGE_PUT, SOME_GET, FETCHING_ADD, ASKS };

// ask_foe starts an access to memory that the hostile peer says it has, and returns the record that asks for it.
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
        CHECK(raw_read(&d, hostile.fd, &hdr, sizeof(hdr)) &&
              raw_read(&d, hostile.fd, access, hdr.size <= sizeof(*access) ? hdr.size : 0));
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
        CHECK(raw_send(&d, &hostile, &hdr, buf));
        PUMP_UNTIL(&d, raw_hung_up(hostile.fd));
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
    PUMP_UNTIL(&d, raw_hung_up(hostile.fd));
    close(hostile.fd);
    d.accepted_count--;
    end();
}

TEST_MAIN()
