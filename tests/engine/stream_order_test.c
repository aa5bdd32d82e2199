// SPDX-License-Identifier: BSD-3-Clause
//
// Operations behind a stream of the caller's (opts.stream): over the simulated device, whose copies come when the test
// says so.  What the library does is checked in the bytes: a send that does not wait takes what was there before, a receive that
// does not wait is read too early by the copy that was submitted before it.
#include "engine/sim_kit.h"
#include "mem/sim.h"

enum {
    SIZE = 1 << 20,
    SMALL = 100,
    MIDDLE = 30000,
    LATE_MS = 300,
    NEVER_MS = 3600 * 1000,
    TAG = 5
};

static duo d;
static char word;  // its address is the stream
static void *const stream = &word;
static unsigned char now[SIZE], before[SIZE], seen[SIZE], back[SIZE];
static const char *const shm[] = {"lanes=shm,stream", NULL};
static const char *const sock[] = {"lanes=stream", NULL};
static const char *const wait_shm[] = {"lanes=shm,stream", "progress=wait", NULL};
static const size_t sizes[] = {SMALL, MIDDLE, SIZE};

static void begin(const char *const *options) {
    for (size_t i = 0; i < SIZE; i++) {
        now[i] = (unsigned char)(i * 7 + i / 256);
        before[i] = (unsigned char)~now[i];
    }
    memset(seen, 0, SIZE);
    memset(back, 0, SIZE);
    duo_begin(&d, options, options);
    duo_connect(&d);
}

static void end(void) {
    CHECK_EQ_INT(d.server->counters.pending + d.client->counters.pending, 0);
    CHECK(whi_list_empty(&whi_messages_of(d.server)->behind.awaited));
    CHECK(whi_list_empty(&whi_messages_of(d.client)->behind.awaited));
    whi_sim_set_delay(0);
    whi_sim_drain();
    duo_end(&d);
}

// later_by submits a copy to the stream that happens so much later; later one that happens when the test says so: come.
static void later_by(unsigned ms, whi_mem_direction direction, void *dst, const void *src) {
    whi_sim_set_delay(ms * WHI_NS_PER_MS);
    CHECK_EQ_INT(whi_mem_sim.copy_async(direction, dst, src, SIZE, stream), WH_OK);
    whi_sim_set_delay(0);
}

static void later(whi_mem_direction direction, void *dst, const void *src) {
    later_by(NEVER_MS, direction, dst, src);
}

static void come(void) {
    whi_sim_drain();
}

static wh_request *send(const void *from, size_t size, void *behind) {
    wh_request *req = NULL;
    CHECK(wh_tag_send(d.to, from, size, TAG, WH_OP_OPTS(.stream = behind), &req) >= 0);
    return req;
}

static wh_request *receive(void *into, size_t size, void *behind) {
    wh_request *req = NULL;
    CHECK(wh_tag_recv(d.from, into, size, TAG, WH_TAG_MASK_ALL, WH_OP_OPTS(.stream = behind),
                      &req) >= 0);
    return req;
}

static void ends_well(wh_request *req) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
}

static void send_behind(const char *const *options) {
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        begin(options);
        unsigned char *from = device(before, SIZE);
        later(WHI_MEM_FROM_HOST, from, now);
        wh_request *received = receive(back, SIZE, NULL), *sent = send(from, sizes[i], stream);
        duo_for(&d, 5);
        CHECK(still(sent) && still(received));
        come();
        ends_well(sent);
        ends_well(received);
        CHECK_MEM(back, now, sizes[i]);
        end();
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    }
}

TEST(a_send_takes_what_the_stream_has_written) {
    send_behind(shm);
    send_behind(sock);
}

// `first`: the message is there before its receive is.
static void receive_behind(const char *const *options, bool first) {
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        begin(options);
        unsigned char *into = device(before, SIZE);
        wh_request *sent = first ? send(now, sizes[i], NULL) : NULL;
        duo_for(&d, first ? 5 : 0);
        later(WHI_MEM_TO_HOST, seen, into);
        wh_request *received = receive(into, SIZE, stream);
        sent = first ? sent : send(now, sizes[i], NULL);
        duo_for(&d, 5);
        CHECK(still(received));
        check_device(into, before, SIZE);
        come();
        ends_well(received);
        ends_well(sent);
        CHECK_MEM(seen, before, SIZE);
        check_device(into, now, sizes[i]);
        end();
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
    }
}

TEST(a_receive_leaves_what_the_stream_still_reads) {
    receive_behind(shm, false);
    receive_behind(shm, true);
    receive_behind(sock, false);
    receive_behind(sock, true);
}

TEST(others_pass_what_waits) {
    begin(shm);
    unsigned char *from = device(before, SIZE), *into = device(before, SIZE);
    later(WHI_MEM_FROM_HOST, from, now);
    wh_request *late[4] = {receive(back, SIZE, NULL), send(from, SIZE, stream)};
    later(WHI_MEM_TO_HOST, seen, into);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, SIZE, TAG + 1, WH_TAG_MASK_ALL,
                             WH_OP_OPTS(.stream = stream), &late[2]),
                 WH_PENDING);
    CHECK(wh_tag_send(d.to, now, SIZE, TAG + 1, NULL, &late[3]) >= 0);
    duo_for(&d, 2);
    static unsigned char other[SIZE];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        wh_request *received = NULL, *sent = NULL;
        CHECK(wh_tag_recv(d.from, other, SIZE, TAG + 2, WH_TAG_MASK_ALL, NULL, &received) >= 0);
        CHECK(wh_tag_send(d.to, now, sizes[i], TAG + 2, NULL, &sent) >= 0);
        ends_well(received);
        ends_well(sent);
    }
    CHECK(still(late[0]) && still(late[1]) && still(late[2]) && still(late[3]));
    come();
    for (int i = 0; i < 4; i++)
        ends_well(late[i]);
    CHECK_MEM(back, now, SIZE);
    CHECK_MEM(seen, before, SIZE);
    check_device(into, now, SIZE);
    end();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
}

TEST(objects) {
    begin(shm);
    unsigned char *from = device(before, SIZE), *into = device(before, SIZE);
    later(WHI_MEM_FROM_HOST, from, now);
    later(WHI_MEM_TO_HOST, seen, into);
    wh_frame out[] = {{.data = now, .size = SMALL}, {.data = from, .size = SIZE}};
    wh_frame in[] = {{.data = back, .size = SMALL}, {.data = into, .size = SIZE}};
    wh_request *sent = NULL, *received = NULL;
    CHECK(wh_object_recv(d.from, in, 2, sizeof(*in), TAG, WH_TAG_MASK_ALL,
                         WH_OP_OPTS(.stream = stream), &received) >= 0);
    CHECK(wh_object_send(d.to, NULL, 0, out, 2, sizeof(*out), TAG, WH_OP_OPTS(.stream = stream),
                         &sent) >= 0);
    duo_for(&d, 5);
    CHECK(still(sent) && still(received));
    check_device(into, before, SIZE);
    come();
    object_done(&d, received);
    ends_well(sent);
    CHECK_MEM(seen, before, SIZE);
    CHECK_MEM(back, now, SMALL);
    check_device(into, now, SIZE);
    end();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
}

TEST(put_and_get) {
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i / 2];
        begin(i % 2 ? shm : sock);
        unsigned char *local = device(before, SIZE);
        wh_mr *mr = NULL;
        CHECK_EQ_INT(wh_mr_alloc(d.ctx[0], SIZE, WH_MR_READ | WH_MR_WRITE, &mr), WH_OK);
        char key[WH_MR_KEY_MAX];
        size_t key_size;
        wh_rkey *rkey = NULL;
        CHECK_EQ_INT(wh_mr_key(mr, key, &key_size), WH_OK);
        CHECK_EQ_INT(wh_rkey_open(d.to, key, key_size, &rkey), WH_OK);
        if (i % 2)
            UNTIL(&d, wh_rkey_direct(rkey));
        wh_request *req = NULL;
        later(WHI_MEM_FROM_HOST, local, now);
        CHECK(wh_put(rkey, 0, local, size, WH_OP_OPTS(.stream = stream), &req) >= 0);
        duo_for(&d, 2);
        CHECK(still(req));
        come();
        ends_well(req);
        req = NULL;
        CHECK(wh_endpoint_flush(d.to, NULL, &req) >= 0);
        ends_well(req);
        CHECK_MEM((unsigned char *)wh_mr_address(mr), now, size);
        memcpy(wh_mr_address(mr), before, SIZE);
        later(WHI_MEM_TO_HOST, seen, local);
        CHECK(wh_get(rkey, 0, local, size, WH_OP_OPTS(.stream = stream), &req) >= 0);
        duo_for(&d, 2);
        CHECK(still(req));
        come();
        ends_well(req);
        CHECK_MEM(seen, now, SIZE);
        check_device(local, before, size);
        wh_rkey_close(rkey);
        duo_for(&d, 2);
        CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
        end();
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, local), WH_OK);
    }
}

// What has arrived as a whole is received, although its sender has gone before the stream has come.
TEST(the_sender_closes_meanwhile) {
    begin(shm);
    unsigned char *into = device(before, SIZE);
    later(WHI_MEM_TO_HOST, seen, into);
    wh_request *received = receive(into, SIZE, stream), *closed = NULL;
    CHECK_EQ_INT(wh_tag_send(d.to, now, SMALL, TAG, NULL, NULL), WH_OK);
    CHECK(wh_endpoint_close(d.to, NULL, &closed) >= 0);
    d.to = NULL;
    ends_well(closed);
    UNTIL(&d, d.from->state == WHI_EP_CLOSED);
    CHECK(still(received));
    come();
    ends_well(received);
    CHECK_MEM(seen, before, SIZE);
    check_device(into, now, SMALL);
    end();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
}

TEST(the_endpoint_ends_meanwhile) {
    for (int side = 0; side < 2; side++) {
        begin(shm);
        unsigned char *from = device(before, SIZE), *into = device(before, SIZE);
        later(WHI_MEM_FROM_HOST, from, now);
        wh_request *sent = send(from, SIZE, side ? NULL : stream);
        wh_request *received = receive(into, SIZE, side ? stream : NULL);
        if (!side)
            duo_for(&d, 5);
        wh_request_cancel(side ? received : sent);
        wh_endpoint_abort(d.to);
        d.to = NULL;
        duo_for(&d, 2);
        come();
        CHECK(done_as(&d, sent) < 0 || side);
        wh_status st = done_as(&d, received);
        CHECK(st < 0 || side);
        end();
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
    }
}

// A cancel that comes after the match comes too late, and is no reason to give up the peer.
TEST(cancelled_while_it_waits) {
    static const char *const hasty[] = {"lanes=shm,stream", "grace=200ms", NULL};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        begin(hasty);
        unsigned char *into = device(before, SIZE);
        later(WHI_MEM_TO_HOST, seen, into);
        wh_request *received = receive(into, SIZE, stream), *sent = send(now, sizes[i], NULL);
        duo_for(&d, 5);
        wh_request_cancel(received);
        duo_for(&d, 300);
        CHECK(still(received));
        come();
        ends_well(received);
        ends_well(sent);
        CHECK_MEM(seen, before, SIZE);
        check_device(into, now, sizes[i]);
        end();
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
    }
}

// A worker that sleeps looks now and then.
TEST(seen_by_a_worker_that_sleeps) {
    begin(wait_shm);
    unsigned char *from = device(before, SIZE);
    later_by(LATE_MS, WHI_MEM_FROM_HOST, from, now);
    wh_request *received = receive(back, SIZE, NULL), *sent = send(from, SMALL, stream);
    duo_for(&d, 5);
    uint64_t start = whi_clock_ns(), sleeps = d.client->counters.sleeps;
    while (still(sent) && whi_clock_ns() < start + 5 * WHI_NS_PER_S) {
        (void)!wh_worker_wait(d.client, 5000);
        wh_worker_progress(d.server);
    }
    CHECK(!still(sent));
    CHECK(whi_clock_ns() - start < 4000 * WHI_NS_PER_MS);
    CHECK(d.client->counters.sleeps > sleeps);
    ends_well(sent);
    ends_well(received);
    CHECK_MEM(back, now, SMALL);
    end();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
}

// A program that was built before there was such a field.
TEST(options_without_the_field) {
    begin(shm);
    wh_op_opts old = {.size = offsetof(wh_op_opts, stream), .stream = stream};
    wh_request *received = receive(back, SIZE, NULL), *sent = NULL;
    unsigned char *from = device(before, SIZE);
    later(WHI_MEM_FROM_HOST, from, now);
    CHECK(wh_tag_send(d.to, from, SMALL, TAG, &old, &sent) >= 0);
    ends_well(sent);
    ends_well(received);
    CHECK_MEM(back, before, SMALL);  // what lies behind the struct's size is not read
    end();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
}

TEST_MAIN()
