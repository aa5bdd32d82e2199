// SPDX-License-Identifier: BSD-3-Clause
//
// Access through UCX between two workers of this process: when it is used, that memory comes back only when nobody reaches
// it, that fences, flushes and closes wait for what UCX has, and records that no honest peer sends.
//
// WHERRY_UCX_DIR names another UCX than the system's; without any, all is skipped.
#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/test_kit.h"
#include "message/deliver.h"
#include "net/ucx/ucx.h"
#include "rma/native.h"
#include "rma/rma.h"

enum { SIZE = 1 << 20, SMALL = 64 };

static const char *const native[] = {"lanes=ucx", "ucx_rma=native", NULL};
static const char *const automatic[] = {"lanes=ucx", NULL};
static const char *const served[] = {"lanes=ucx", "ucx_rma=served", NULL};

static duo d;
static wh_mr *mr;  // of the server's
static unsigned char *memory;

static void begin_with(const char *const *server_options, const char *const *client_options) {
    const char *why = NULL;
    if (whi_ucx_load(getenv("WHERRY_UCX_DIR"), &why) != WH_OK)
        SKIP(why);
    duo_begin(&d, server_options, client_options);
    duo_connect(&d);
    CHECK_EQ_INT(wh_mr_alloc(d.ctx[0], SIZE, WH_MR_ALL, &mr), WH_OK);
    memory = wh_mr_address(mr);
}

static void begin(void) {
    begin_with(native, native);
}

// taken_back destroys a registration: WH_EBUSY until its peers have answered.
static wh_status taken_back(wh_mr *which) {
    wh_status st;
    UNTIL(&d, (st = wh_mr_destroy(which)) != WH_EBUSY);
    return st;
}

static void end(void) {
    CHECK_EQ_INT(taken_back(mr), WH_OK);
    duo_end(&d);
}

static whi_key key_of(const wh_mr *which) {
    char bytes[WH_MR_KEY_MAX];
    size_t size;
    whi_key key;
    CHECK_EQ_INT(wh_mr_key(which, bytes, &size), WH_OK);
    CHECK_EQ_INT(size, sizeof(key));
    memcpy(&key, bytes, sizeof(key));
    return key;
}

static wh_rkey *open_bytes(whi_key key) {
    wh_rkey *rkey = NULL;
    CHECK_EQ_INT(wh_rkey_open(d.to, &key, sizeof(key), &rkey), WH_OK);
    return rkey;
}

static wh_rkey *open_native(const wh_mr *which) {
    wh_rkey *rkey = open_bytes(key_of(which));
    UNTIL(&d, wh_rkey_direct(rkey));
    return rkey;
}

// UNTIL_CLIENT waits while the server does nothing, UNTIL_SERVER while the client does nothing.
#define UNTIL_ONE(worker, cond)                                                                    \
    do {                                                                                           \
        uint64_t late = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;                            \
        while (!(cond)) {                                                                          \
            (void)wh_worker_progress(worker);                                                      \
            CHECK(whi_clock_ns() < late);                                                          \
        }                                                                                          \
    } while (0)
#define UNTIL_CLIENT(cond) UNTIL_ONE(d.client, cond)
#define UNTIL_SERVER(cond) UNTIL_ONE(d.server, cond)

static wh_status ended(wh_status st, wh_request *req) {
    return st == WH_PENDING ? done_as(&d, req) : st;
}

static wh_status put(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size) {
    wh_request *req = NULL;
    wh_status st = wh_put(rkey, offset, buf, size, NULL, &req);
    return ended(st, req);
}

static wh_status get(wh_rkey *rkey, uint64_t offset, void *buf, size_t size) {
    wh_request *req = NULL;
    wh_status st = wh_get(rkey, offset, buf, size, NULL, &req);
    return ended(st, req);
}

static wh_status flush(void) {
    wh_request *req = NULL;
    wh_status st = wh_endpoint_flush(d.to, NULL, &req);
    return ended(st, req);
}

TEST(bytes_go_there_and_back) {
    begin();
    static unsigned char users[SIZE], from[SIZE], to[SIZE];
    wh_mr *theirs;
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], users, SIZE, WH_MEM_HOST, WH_MR_ALL, &theirs), WH_OK);
    for (int ours = 0; ours < 2; ours++) {
        wh_rkey *rkey = open_native(ours ? mr : theirs);
        uint64_t records = whi_memory_at(d.to)->accesses, old = 0;
        const unsigned char *there = ours ? memory : users;
        const size_t sizes[] = {1, 8, 5000, SIZE - 3};
        for (int i = 0; i < 4; i++) {
            memset(from, 10 + i, sizes[i]);
            CHECK_EQ_INT(put(rkey, 3, from, sizes[i]), WH_OK);
            CHECK_EQ_INT(flush(), WH_OK);
            CHECK(memcmp(there + 3, from, sizes[i]) == 0);
            CHECK_EQ_INT(get(rkey, 3, to, sizes[i]), WH_OK);
            CHECK(memcmp(to, from, sizes[i]) == 0);
        }
        CHECK_EQ_INT(whi_memory_at(d.to)->accesses, records);  // no record has said a word of it
        CHECK_EQ_INT(wh_put(rkey, SIZE - 7, from, 8, NULL, NULL), WH_EBOUNDS);
        // Atomics are served, whatever else is not.
        wh_request *req = NULL;
        CHECK_EQ_INT(wh_atomic(rkey, 8, WH_ATOMIC_SWAP, 8, 7, 0, &old, NULL, &req), WH_PENDING);
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
        CHECK_EQ_INT(whi_memory_at(d.to)->accesses, records + 1);
        CHECK(old == 0x0d0d0d0d0d0d0d0du && there[8] == 7);
        wh_rkey_close(rkey);
    }
    CHECK_EQ_INT(taken_back(theirs), WH_OK);
    end();
}

// Either side can say no, and on this machine no hardware guards the memory.
TEST(served_where_it_must_be) {
    const char *const *const pairs[][2] = {
        {served, native}, {native, served}, {automatic, automatic}};
    for (int i = 0; i < 3; i++) {
        begin_with(pairs[i][0], pairs[i][1]);
        char bytes[SMALL] = {5};
        wh_rkey *rkey = open_bytes(key_of(mr));
        for (int k = 0; k < 3; k++)
            CHECK_EQ_INT(put(rkey, 0, bytes, sizeof(bytes)), WH_OK);
        duo_for(&d, 20);
        CHECK(!wh_rkey_direct(rkey));
        CHECK_EQ_INT(flush(), WH_OK);
        CHECK_EQ_INT(memory[0], 5);
        wh_rkey_close(rkey);
        CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);  // nobody has to be asked
        duo_end(&d);
    }
}

// UCX is not lent memory of the user's for what the owner serves, since it may not give that back.
TEST(served_puts_are_copied) {
    static unsigned char users[SIZE], from[SIZE];
    for (int ours = 0; ours < 2; ours++) {
        begin_with(served, served);
        wh_mr *theirs;
        CHECK_EQ_INT(wh_mr_register(d.ctx[0], users, SIZE, WH_MEM_HOST, WH_MR_ALL, &theirs), WH_OK);
        wh_rkey *rkey = open_bytes(key_of(ours ? mr : theirs));
        wh_request *req = NULL;
        whi_span span;
        memset(from, ours + 3, SIZE);
        CHECK_EQ_INT(wh_put(rkey, 0, from, SIZE, NULL, &req), WH_PENDING);
        (void)wh_worker_progress(d.client);
        UNTIL_SERVER(d.from->rx_announced);
        const wh_request *serve =
            whi_container_of(whi_list_first(&d.from->ops), wh_request, op_link);
        whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = serve->grant_id, .size = 100};
        CHECK_EQ_INT(whi_chunk_sink(d.from->link, &hdr, &span), WH_OK);
        CHECK(ours ? span.ptr == memory : span.ptr == NULL);
        whi_chunk_lost(d.from->link, &hdr);
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
        CHECK(memcmp(ours ? memory : users, from, SIZE) == 0);
        wh_rkey_close(rkey);
        CHECK_EQ_INT(wh_mr_destroy(theirs), WH_OK);
        end();
    }
}

// One release of UCX does not read the keys of another, whichever side finds out.
TEST(served_between_releases) {
    for (int i = 0; i < 2; i++) {
        begin();
        (i ? d.to : d.from)->link->peer.ucx_version ^= 1 << 8;
        char bytes[SMALL] = {5};
        wh_rkey *rkey = open_bytes(key_of(mr));
        CHECK_EQ_INT(put(rkey, 0, bytes, sizeof(bytes)), WH_OK);
        duo_for(&d, 20);
        CHECK(!wh_rkey_direct(rkey));
        wh_rkey_close(rkey);
        CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
        duo_end(&d);
    }
}

// Who has the memory gives it back before it is gone, and hears from then on that the key is of no use.
TEST(memory_that_is_recalled) {
    begin();
    static unsigned char bytes[SIZE];
    wh_rkey *rkey = open_native(mr), *second = open_native(mr);
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_EBUSY);
    UNTIL(&d, !whi_hash_count(&whi_memory_on(d.from->link)->leases));
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    CHECK(!wh_rkey_direct(rkey) && !wh_rkey_direct(second));
    CHECK_EQ_INT(get(rkey, 0, bytes, SIZE), WH_EKEY);
    CHECK_EQ_INT(put(second, 0, bytes, SIZE), WH_EKEY);
    CHECK_EQ_INT(put(rkey, 0, bytes, 8), WH_OK);
    CHECK_EQ_INT(flush(), WH_EKEY);
    wh_rkey_close(second);
    wh_rkey_close(rkey);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    duo_end(&d);
}

// It is not given back before what was written has come, which only the owner's side can say.
TEST(memory_that_is_recalled_behind_a_put) {
    begin();
    uint64_t word = 5, id = mr->id;
    wh_rkey *rkey = open_native(mr);
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_EBUSY);
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(d.server);
    wh_request *req = NULL;
    wh_status st = wh_put(rkey, 0, &word, sizeof(word), NULL, &req);
    UNTIL_CLIENT(!wh_rkey_direct(rkey));
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(d.client);
    CHECK(whi_hash_get(&whi_memory_on(d.to->link)->natives, id));
    CHECK_EQ_INT(ended(st, req), WH_OK);
    UNTIL(&d, !whi_hash_get(&whi_memory_on(d.to->link)->natives, id));
    CHECK_EQ_INT(memory[0], 5);
    wh_rkey_close(rkey);
    end();
}

// Memory that is recalled with accesses under way comes back when they have ended, all of them.
TEST(memory_that_is_recalled_while_it_is_used) {
    enum { OPS = 200 };
    begin();
    static unsigned char users[SIZE], from[SIZE], to[SIZE];
    wh_mr *theirs;
    wh_request *reqs[OPS];
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], users, SIZE, WH_MEM_HOST, WH_MR_ALL, &theirs), WH_OK);
    wh_rkey *rkey = open_native(theirs);
    memset(from, 3, SIZE);
    for (int i = 0; i < OPS; i++) {
        reqs[i] = NULL;
        size_t size = i % 5 ? 4000 : SIZE;
        wh_status st = i % 2 ? wh_put(rkey, 0, from, size, NULL, &reqs[i])
                             : wh_get(rkey, 0, to, size, NULL, &reqs[i]);
        CHECK(st == WH_OK || st == WH_PENDING);
    }
    CHECK_EQ_INT(wh_mr_destroy(theirs), WH_EBUSY);
    wh_rkey_close(rkey);
    CHECK_EQ_INT(taken_back(theirs), WH_OK);
    memset(users, 0, SIZE);
    for (int i = 0; i < OPS; i++) {
        wh_status st = reqs[i] ? done_as(&d, reqs[i]) : WH_OK;
        CHECK(st == WH_OK || st == WH_EKEY);
    }
    wh_status st = flush();
    CHECK(st == WH_OK || st == WH_EKEY);
    for (int i = 0; i < SIZE; i++)
        CHECK(users[i] == 0);  // nothing has come since
    end();
}

// A peer that has gone reaches nothing any more: its lease ends with its lane.
TEST(memory_of_a_link_that_ends) {
    for (int both = 0; both < 2; both++) {
        begin();
        static unsigned char bytes[SIZE];
        wh_rkey *rkey = open_native(mr);
        wh_request *reqs[20] = {NULL};
        for (int i = 0; i < 20; i++)
            CHECK(wh_put(rkey, 0, bytes, SIZE, NULL, &reqs[i]) >= WH_OK);
        wh_endpoint_abort(d.to);
        d.to = NULL;
        if (both) {
            wh_endpoint_abort(d.from);
            d.from = NULL;
        }
        for (int i = 0; i < 20; i++)
            if (reqs[i])
                (void)done_as(&d, reqs[i]);
        char byte;
        CHECK_EQ_INT(wh_get(rkey, 0, &byte, 1, NULL, NULL), WH_ECLOSED);
        wh_rkey_close(rkey);
        end();
    }
}

// A peer that does nothing any more has the grace time, also when it was an abort that has ended the access.
TEST(aborted_beside_a_peer_that_has_stopped) {
    static const char *const hasty[] = {"lanes=ucx", "ucx_rma=native", "grace=100ms", NULL};
    static unsigned char bytes[SIZE];
    begin_with(native, hasty);
    wh_endpoint *other, *second = duo_open(&d, &other);
    wh_rkey *rkey = open_native(mr);
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_get(rkey, 0, bytes, SIZE, NULL, &req), WH_PENDING);
    wh_endpoint_abort(d.to);
    d.to = second;
    UNTIL_CLIENT(wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_ECANCELLED);
    CHECK_EQ_INT(wh_endpoint_status(second), WH_ETIMEDOUT);
    wh_rkey_close(rkey);
    wh_endpoint_abort(other);
    end();
}

// The memory may come when the endpoint that has asked for it is gone, and its link goes on.
TEST(memory_that_comes_too_late) {
    begin();
    wh_endpoint *other, *second = duo_open(&d, &other);
    wh_rkey *rkey = open_bytes(key_of(mr));
    UNTIL_SERVER(whi_hash_count(&whi_memory_on(d.from->link)->leases));
    wh_endpoint_abort(d.to);
    d.to = second;
    duo_for(&d, 20);
    wh_rkey *later = open_native(mr);
    char byte = 'x';
    CHECK_EQ_INT(put(rkey, 0, &byte, 1), WH_ECLOSED);
    CHECK_EQ_INT(put(later, 0, &byte, 1), WH_OK);
    CHECK_EQ_INT(flush(), WH_OK);
    CHECK_EQ_INT(memory[0], 'x');
    wh_rkey_close(rkey);
    wh_rkey_close(later);
    wh_endpoint_abort(other);
    end();
}

// The worker that had registered the memory goes first, then its peer: keys and registrations outlive UCX.
TEST(workers_that_go) {
    for (int server_first = 0; server_first < 2; server_first++) {
        begin();
        wh_rkey *rkey = open_native(mr);
        wh_endpoint_abort(d.to);
        wh_endpoint_abort(d.from);
        d.to = d.from = NULL;
        wh_listener_close(d.listener);
        d.listener = NULL;
        wh_worker **workers[] = {&d.client, &d.server};
        for (int i = 0; i < 2; i++) {
            wh_worker_destroy(*workers[i ^ server_first]);
            *workers[i ^ server_first] = NULL;
        }
        wh_rkey_close(rkey);
        CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
        duo_end(&d);
    }
}

// What is behind a fence, and a close, find what was put before.
TEST(fences_and_closes_wait) {
    begin();
    static unsigned char bytes[SIZE];
    wh_rkey *rkey = open_native(mr);
    for (unsigned char i = 1; i < 20; i++) {
        wh_request *recv = NULL, *reqs[2] = {NULL};
        uint64_t mark = 0, sent = i;
        memset(bytes, i, SIZE);
        CHECK_EQ_INT(wh_tag_recv(d.from, &mark, sizeof(mark), 5, WH_TAG_MASK_ALL, NULL, &recv),
                     WH_PENDING);
        CHECK(wh_put(rkey, 0, bytes, SIZE, NULL, &reqs[0]) >= WH_OK);
        CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
        CHECK(wh_tag_send(d.to, &sent, sizeof(sent), 5, NULL, &reqs[1]) >= WH_OK);
        UNTIL(&d, wh_request_status(recv) != WH_PENDING);
        CHECK(memory[0] == i && memory[SIZE - 1] == i);
        CHECK_EQ_INT(whi_memory_at(d.to)->native_settled,
                     whi_memory_at(d.to)->native);  // not by chance: UCX has said so
        CHECK_EQ_INT(done_as(&d, recv), WH_OK);
        for (int k = 0; k < 2; k++)
            if (reqs[k])
                CHECK_EQ_INT(done_as(&d, reqs[k]), WH_OK);
    }
    wh_request *reqs[2] = {NULL};
    memset(bytes, 77, SIZE);
    CHECK(wh_put(rkey, 0, bytes, SIZE, NULL, &reqs[0]) >= WH_OK);
    wh_status st = wh_endpoint_close(d.to, NULL, &reqs[1]);
    d.to = NULL;
    UNTIL(&d, wh_endpoint_status(d.from) != WH_OK);
    CHECK(memory[0] == 77 && memory[SIZE - 1] == 77);
    CHECK_EQ_INT(whi_memory_at(rkey->ep)->native_settled, whi_memory_at(rkey->ep)->native);
    CHECK_EQ_INT(ended(st, reqs[1]), WH_OK);
    if (reqs[0])
        CHECK_EQ_INT(done_as(&d, reqs[0]), WH_OK);
    wh_rkey_close(rkey);
    end();
}

// Behind a fence UCX would overtake records, so that a record does what it would have done.
TEST(a_fence_behind_records) {
    begin();
    uint64_t word = 5;
    whi_key larger = key_of(mr);
    larger.size = SIZE + 4096;  // and so never reached through UCX
    wh_rkey *rkey = open_native(mr), *slow = open_bytes(larger);
    uint64_t records = whi_memory_at(d.to)->accesses;
    CHECK_EQ_INT(wh_put(slow, 0, &word, sizeof(word), NULL, NULL), WH_OK);
    CHECK_EQ_INT(put(rkey, 8, &word, sizeof(word)), WH_OK);
    CHECK_EQ_INT(whi_memory_at(d.to)->accesses, records + 1);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(put(rkey, 16, &word, sizeof(word)), WH_OK);
    CHECK_EQ_INT(whi_memory_at(d.to)->accesses, records + 2);
    CHECK_EQ_INT(flush(), WH_OK);
    CHECK_EQ_INT(put(rkey, 24, &word, sizeof(word)), WH_OK);
    CHECK_EQ_INT(whi_memory_at(d.to)->accesses, records + 2);
    wh_rkey_close(slow);
    wh_rkey_close(rkey);
    end();
}

// The owner says what there is: a key that claims more is served, and found out.
TEST(keys_that_claim_more) {
    begin();
    static char bytes[SMALL];
    wh_mr *readable;
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], bytes, SMALL, WH_MEM_HOST, WH_MR_READ, &readable), WH_OK);
    whi_key larger = key_of(mr), stronger = key_of(readable), crooked = key_of(readable);
    larger.size = SIZE + 4096;
    stronger.access = WH_MR_ALL;
    crooked.align ^= 1;
    char word[8] = {1};
    wh_rkey *rkey = open_bytes(larger);
    duo_for(&d, 20);
    CHECK(!wh_rkey_direct(rkey));
    CHECK_EQ_INT(get(rkey, SIZE, word, 8), WH_EBOUNDS);
    wh_rkey_close(rkey);
    rkey = open_bytes(stronger);
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK_EQ_INT(put(rkey, 0, word, 8), WH_OK);
    CHECK_EQ_INT(flush(), WH_EPERM);
    CHECK_EQ_INT(bytes[0], 0);
    wh_rkey_close(rkey);
    rkey = open_bytes(crooked);
    CHECK(!wh_rkey_direct(rkey));
    wh_rkey_close(rkey);
    CHECK_EQ_INT(taken_back(readable), WH_OK);
    end();
}

// ---- records that no honest peer sends; the link would end with what they are answered here

static wh_status tell(wh_endpoint *ep, whi_hdr hdr, const void *payload) {
    return whi_deliver(ep->link, &hdr, payload);
}

static whi_hdr mapped(uint64_t id, size_t size) {
    return (whi_hdr){.cls = WHI_CLASS_MAPPED, .ep = 1, .tag = id, .size = (uint32_t)size};
}

TEST(records_that_no_peer_sends) {
    begin();
    struct {
        whi_native_head head;
        char key[16];
    } said = {.head = {.address = 4096, .size = SIZE, .access = WH_MR_ALL}};
    CHECK_EQ_INT(tell(d.to, mapped(mr->id, sizeof(said)), &said), WH_EPROTOCOL);  // nobody asked
    wh_rkey *rkey = open_bytes(key_of(mr));
    CHECK_EQ_INT(tell(d.to, mapped(mr->id + 1, sizeof(said)), &said), WH_EPROTOCOL);
    CHECK_EQ_INT(tell(d.to, mapped(mr->id, 0), &said), WH_EPROTOCOL);
    CHECK_EQ_INT(tell(d.to, mapped(mr->id, sizeof(said.head)), &said), WH_EPROTOCOL);
    said.head.size = 0;
    CHECK_EQ_INT(tell(d.to, mapped(mr->id, sizeof(said)), &said), WH_EPROTOCOL);
    said.head.size = UINT64_MAX - 5;
    CHECK_EQ_INT(tell(d.to, mapped(mr->id, sizeof(said)), &said), WH_EPROTOCOL);
    UNTIL(&d, wh_rkey_direct(rkey));
    whi_hdr recall = {.cls = WHI_CLASS_RECALL, .tag = mr->id + 1},
            recalled = {.cls = WHI_CLASS_RECALLED, .tag = mr->id + 1};
    CHECK_EQ_INT(tell(d.to, recall, NULL), WH_OK);  // it may have been given back
    CHECK_EQ_INT(tell(d.from, recalled, NULL), WH_EPROTOCOL);
    // An initiator may give back what nobody has asked for; the owner forgets it.
    recalled.tag = mr->id;
    CHECK_EQ_INT(tell(d.from, recalled, NULL), WH_OK);
    CHECK_EQ_INT(tell(d.from, recalled, NULL), WH_EPROTOCOL);
    wh_rkey_close(rkey);
    end();
}

// None of it is for another lane.
TEST(records_of_another_lane) {
    static const char *const streams[] = {"lanes=stream", NULL};
    begin_with(streams, streams);
    char bytes[64] = {0};
    wh_rkey *rkey = open_bytes(key_of(mr));
    CHECK_EQ_INT(tell(d.to, mapped(mr->id, sizeof(bytes)), bytes), WH_EPROTOCOL);
    CHECK_EQ_INT(tell(d.to, (whi_hdr){.cls = WHI_CLASS_RECALL, .tag = mr->id}, NULL), WH_EPROTOCOL);
    CHECK_EQ_INT(tell(d.to, (whi_hdr){.cls = WHI_CLASS_RECALLED, .tag = mr->id}, NULL),
                 WH_EPROTOCOL);
    wh_rkey_close(rkey);
    end();
}

// ---- threads, and allocations that fail

static void *destroy_elsewhere(void *arg) {
    *(wh_status *)arg = wh_mr_destroy(mr);
    return NULL;
}

TEST(memory_that_another_thread_destroys) {
    begin();
    wh_rkey *rkey = open_native(mr);
    wh_status st = WH_EBUSY;
    for (int i = 0; i < 1000 && st == WH_EBUSY; i++) {
        pthread_t thread;
        CHECK_EQ_INT(pthread_create(&thread, NULL, destroy_elsewhere, &st), 0);
        CHECK_EQ_INT(pthread_join(thread, NULL), 0);
        duo_for(&d, 1);
    }
    CHECK_EQ_INT(st, WH_OK);
    wh_rkey_close(rkey);
    duo_end(&d);
}

static void one_life(void) {
    static char bytes[100000];
    wh_mr *mine = NULL;
    wh_rkey *rkey = NULL;
    wh_request *reqs[3] = {NULL};
    if (wh_mr_alloc(d.ctx[0], sizeof(bytes), WH_MR_ALL, &mine) != WH_OK)
        return;
    whi_key key = key_of(mine);
    if (wh_rkey_open(d.to, &key, sizeof(key), &rkey) == WH_OK) {
        duo_for(&d, 5);
        (void)!wh_put(rkey, 0, bytes, 8, NULL, &reqs[0]);
        (void)!wh_endpoint_fence(d.to);
        (void)!wh_put(rkey, 0, bytes, sizeof(bytes), NULL, &reqs[1]);
        (void)!wh_get(rkey, 0, bytes, sizeof(bytes), NULL, &reqs[2]);
        for (int i = 0; i < 3; i++)
            if (reqs[i])
                (void)done_as(&d, reqs[i]);
        wh_rkey_close(rkey);
    }
    CHECK_EQ_INT(taken_back(mine), WH_OK);
}

// Each allocation of a life fails in turn: an error, or a link that ends, never a crash, and all of it can be given back.
TEST(each_allocation_fails) {
    begin();
    for (uint64_t n = 1; n < 40; n++) {
        whi_alloc_fail_at(n);
        one_life();
        whi_alloc_fail_at(0);
        if (wh_endpoint_status(d.to) == WH_OK)
            continue;
        end();
        begin();
    }
    end();
}

TEST_MAIN()
