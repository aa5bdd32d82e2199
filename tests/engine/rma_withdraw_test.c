// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory accesses that end before they are done: withdrawn, revoked, or because a device's memory fails.
#include "engine/rma_kit.h"

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
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], from, BIG, WH_MEM_HOST, WH_MR_ALL, &users), WH_OK);
    CHECK_EQ_INT(wh_mr_key(users, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &rkey), WH_OK);
    CHECK_EQ_INT(wh_get(rkey, 0, to, BIG, NULL, req), WH_PENDING);
    wh_rkey_close(rkey);
    (void)wh_worker_progress(d.client);
    uint64_t start = whi_clock_ns();
    while (!whi_messages_on(d.from->link)->mid || whi_clock_ns() - start < 100 * WHI_NS_PER_MS)
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
    static const char *const small_chunks[] = {"announce_max=50", "grace=1s", "bulk_chunk=16K",
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
        CHECK_EQ_INT(wh_mr_register(d.ctx[0], device, LONG, WH_MEM_SIM, 3, &served), WH_OK);
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
            CHECK_EQ_INT(wh_object_recv(d.from, into ? &frame : &good, 1, sizeof(wh_frame), 3,
                                        WH_TAG_MASK_ALL, NULL, &recv),
                         WH_PENDING);
            CHECK_EQ_INT(wh_object_send(d.to, "h", 1, into ? &good : &frame, 1, sizeof(wh_frame), 3,
                                        NULL, &req),
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

TEST_MAIN()
