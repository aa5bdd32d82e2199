// SPDX-License-Identifier: BSD-3-Clause
//
// Large payloads over the bulk lane, beside shm and beside the socket: what goes by it and what does not, its loss in the middle,
// and peers that nobody trusts with UCX.
#include "engine/test_kit.h"
#include "message/bulk_lane.h"
#include "net/ucx/ucx_lane.h"

// The largest is more than all chunks that the lane has out at a time.
enum { SIZE = 72 << 20, LARGE = 1 << 20, TAG = 5, SMALL = 100 };

// Host memory would be read by its receiver, were it not for the bulk lane.
static const char *const shm[] = {"lanes=shm,stream", "bulk_lane=ucx", "shm_read=always", NULL};
static const char *const sock[] = {"lanes=stream", "bulk_lane=ucx", NULL};
static const char *const *const ways[] = {shm, sock};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
static const char *const plain[] = {"lanes=shm,stream", "bulk_lane=none", NULL};
static const char *const by_default[] = {"lanes=shm,stream", "log_level=info", NULL};
static const char *const secret[] = {"lanes=shm,stream", "secret=known to both", "log_level=info",
                                     NULL};
static const char *const named[] = {"lanes=shm,stream", "secret=known to both", "bulk_lane=ucx",
                                    NULL};
static const char *const impatient[] = {"lanes=shm,stream", "bulk_lane=ucx", "grace=200ms", NULL};

static duo d;
static unsigned char out[SIZE], in[SIZE];

static void begin(const char *const *server, const char *const *client) {
    const char *why;
    if (whi_ucx_load("", &why) != WH_OK)
        SKIP(why);
    for (size_t i = 0; i < SIZE; i++)
        out[i] = (unsigned char)(i * 7 + i / 256 + i / 65536 * 3);
    memset(in, 0, SIZE);
    duo_begin(&d, server, client);
    duo_connect(&d);
}

static uint64_t by_bulk(const wh_endpoint *ep) {
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_endpoint_counters(ep, &counters), WH_OK);
    return counters.bulk_lane;
}

static wh_request *send_one(size_t size) {
    wh_request *req = NULL;
    CHECK(wh_tag_send(d.to, out, size, TAG, NULL, &req) >= 0);
    return req;
}

static wh_request *receive(size_t size) {
    wh_request *req = NULL;
    CHECK(wh_tag_recv(d.from, in, size, TAG, WH_TAG_MASK_ALL, NULL, &req) >= 0);
    return req;
}

static void ends_as(wh_request *req, wh_status expected) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), expected);
}

static void pass(size_t size) {
    memset(in, 0, size);
    wh_request *received = receive(size), *sent = send_one(size);
    ends_as(received, WH_OK);
    ends_as(sent, WH_OK);
    CHECK_MEM(in, out, size);
}

static whi_lane *lane_of(const wh_endpoint *ep) {
    return ep->link->bulk.lane;
}

static void lose(const wh_endpoint *ep) {
    (void)whi_ucx_fail(whi_ucx_lane_of(lane_of(ep)), WH_EPEER);
}

// is_moving says whether a part of a payload has moved.  `moved` means something from the grant on.
static bool is_moving(const wh_request *req) {
    return req->stage == WHI_STAGE_MOVING && req->moved;
}

// begin_moving starts a message that is too large to arrive at once, and leaves it in the middle.
static void begin_moving(wh_request **sent, wh_request **received) {
    *received = receive(SIZE);
    *sent = send_one(SIZE);
    UNTIL(&d, is_moving(*sent));
    CHECK(whi_bulk_granted(*sent));
    CHECK(whi_bulk_granted(*received));
    CHECK((*received)->moved < SIZE);
}

TEST(large_payloads_from_the_first_on) {
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], ways[way]);
        char text[256];
        CHECK_EQ_INT(wh_endpoint_lanes(d.to, text, sizeof(text)), WH_OK);
        CHECK(!strstr(text, "large payloads"));
        pass(LARGE);
        CHECK_EQ_INT(by_bulk(d.to), 1);
        CHECK_EQ_INT(wh_endpoint_lanes(d.to, text, sizeof(text)), WH_OK);
        CHECK(strstr(text, "; large payloads: ucx (UCX "));
        pass(SIZE);
        pass(SMALL);
        CHECK_EQ_INT(by_bulk(d.to), 2);
        // A message that waits for its receive.
        wh_request *sent = send_one(LARGE);
        duo_for(&d, 20);
        memset(in, 0, LARGE);
        ends_as(receive(LARGE), WH_OK);
        ends_as(sent, WH_OK);
        CHECK_MEM(in, out, LARGE);
        CHECK_EQ_INT(by_bulk(d.to), 3);
        duo_end(&d);
    }
}

TEST(shorter_receives) {
    begin(shm, shm);
    wh_request *received = receive(LARGE / 2), *sent = send_one(LARGE);
    ends_as(received, WH_ETRUNCATED);
    ends_as(sent, WH_OK);
    CHECK_MEM(in, out, LARGE / 2);
    CHECK_EQ_INT(in[LARGE / 2], 0);
    CHECK_EQ_INT(by_bulk(d.to), 1);
    duo_end(&d);
}

TEST(objects) {
    begin(sock, sock);
    wh_frame frames[] = {{.data = out, .size = LARGE}, {.data = out + LARGE, .size = SIZE / 2}};
    wh_request *sent = NULL, *received = NULL;
    CHECK(wh_object_send(d.to, "head", 4, frames, 2, sizeof(frames[0]), TAG, NULL, &sent) >= 0);
    CHECK(wh_object_recv(d.from, NULL, 0, sizeof(frames[0]), TAG, WH_TAG_MASK_ALL, NULL,
                         &received) >= 0);
    UNTIL(&d, wh_request_status(received) != WH_PENDING);
    wh_result result;
    CHECK_EQ_INT(wh_request_result(received, &result), WH_OK);
    CHECK_MEM(wh_object_frame(result.object, 0)->data, out, LARGE);
    CHECK_MEM(wh_object_frame(result.object, 1)->data, out + LARGE, SIZE / 2);
    wh_object_free(result.object);
    wh_request_free(received);
    ends_as(sent, WH_OK);
    CHECK_EQ_INT(by_bulk(d.to), 1);
    duo_end(&d);
}

// UCX knows no simulated memory: it must see host memory only.
TEST(memory_that_ucx_does_not_know) {
    begin(shm, shm);
    d.to->link->peer.features &=
        ~(uint64_t)WHI_FEATURE_DEVICE;  // which has another way in one process
    d.from->link->peer.features &= ~(uint64_t)WHI_FEATURE_DEVICE;
    void *from, *into;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, LARGE, &from), WH_OK);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, LARGE, &into), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_SIM, out, WH_MEM_HOST, LARGE), WH_OK);
    wh_request *sent = NULL, *received = NULL;
    CHECK(wh_tag_recv(d.from, into, LARGE, TAG, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    CHECK(wh_tag_send(d.to, from, LARGE, TAG, NULL, &sent) >= 0);
    ends_as(received, WH_OK);
    ends_as(sent, WH_OK);
    CHECK_EQ_INT(wh_mem_copy(in, WH_MEM_HOST, into, WH_MEM_SIM, LARGE), WH_OK);
    CHECK_MEM(in, out, LARGE);
    CHECK_EQ_INT(by_bulk(d.to), 1);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, from), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, into), WH_OK);
    duo_end(&d);
}

TEST(not_where_one_side_has_it_off) {
    for (int side = 0; side < 2; side++) {
        begin(side ? plain : shm, side ? shm : plain);
        pass(LARGE);
        CHECK_EQ_INT(by_bulk(d.to), 0);
        CHECK(!whi_links_of(d.server)->ucx && !whi_links_of(d.client)->ucx);
        duo_end(&d);
    }
}

// A peer that has proven no secret gets no UCX, whatever it says: its address is not even looked at.
TEST(not_for_a_peer_without_a_secret) {
    begin(by_default, shm);
    pass(LARGE);
    pass(LARGE);
    CHECK_EQ_INT(by_bulk(d.to), 0);
    CHECK(!whi_links_of(d.server)->ucx);
    CHECK(logged("proven a secret"));
    UNTIL(&d, d.to->link->bulk.state == WHI_BULK_NONE && !lane_of(d.to));
    duo_end(&d);
}

// With the default setting it is for device memory, which the system's UCX may not know: then it opens no port.
TEST(not_for_host_memory_by_default) {
    begin(secret, secret);
    pass(LARGE);
    CHECK_EQ_INT(d.to->link->bulk.state, WHI_BULK_UNTRIED);
    CHECK(!whi_links_of(d.server)->ucx && !whi_links_of(d.client)->ucx);
    duo_end(&d);
    begin(secret, named);
    pass(LARGE);
    if (whi_ucx_knows(WH_MEM_CUDA)) {
        CHECK_EQ_INT(by_bulk(d.to), 1);
    } else {
        CHECK(!whi_links_of(d.server)->ucx && logged("no CUDA"));
        CHECK_EQ_INT(by_bulk(d.to), 0);
    }
    duo_end(&d);
}

// What moves when the lane is lost fails at both ends, and what follows goes another way.
TEST(the_lane_is_lost) {
    for (int loser = 0; loser < 2; loser++) {
        for (int way = 0; way < WAYS; way++) {
            begin(ways[way], ways[way]);
            wh_request *sent, *received;
            begin_moving(&sent, &received);
            lose(loser ? d.to : d.from);
            UNTIL(&d, wh_request_status(sent) != WH_PENDING);
            UNTIL(&d, wh_request_status(received) != WH_PENDING);
            CHECK(strstr(wh_request_error(sent), "bulk lane"));
            CHECK(strstr(wh_request_error(received), "bulk lane"));
            ends_as(sent, WH_EPEER);
            ends_as(received, WH_EPEER);
            CHECK_EQ_INT(by_bulk(d.to), 1);
            pass(LARGE);
            pass(SIZE);
            CHECK_EQ_INT(by_bulk(d.to), 1);
            CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
            UNTIL(&d, !lane_of(d.to) && !lane_of(d.from));
            CHECK(!whi_messages_on(d.to->link)->held && !whi_messages_on(d.from->link)->held);
            duo_end(&d);
        }
    }
}

// A grant that was given before its giver heard of the loss.
TEST(a_grant_for_a_lane_that_is_lost) {
    begin(shm, shm);
    pass(LARGE);
    wh_request *sent = send_one(LARGE);
    duo_for(&d, 5);
    wh_request *received = receive(LARGE);  // grants at once
    CHECK(whi_bulk_granted(received));
    lose(d.to);
    ends_as(sent, WH_EPEER);
    ends_as(received, WH_EPEER);
    pass(LARGE);
    duo_end(&d);
}

// A receive from any source does not wait on when its message is lost with the lane.
TEST(any_source) {
    begin(shm, shm);
    wh_request *received = NULL, *sent;
    CHECK(wh_worker_tag_recv(d.server, in, SIZE, TAG, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    sent = send_one(SIZE);
    UNTIL(&d, is_moving(received));
    lose(d.from);
    ends_as(received, WH_EPEER);
    ends_as(sent, WH_EPEER);
    duo_end(&d);
}

static ucs_status_ptr_t endless_recv(ucp_worker_h worker, void *what, void *buf, size_t size,
                                     const ucp_request_param_t *param) {
    static char request[256];
    (void)buf, (void)size, (void)param;
    whi_ucp.ucp_am_data_release(worker, what);
    return &request;
}

// UCX keeps some receives for good when a peer of this host dies.  Its memory is ours then, and the caller has its own back.
TEST(a_chunk_that_ucx_keeps) {
    begin(sock, sock);
    pass(LARGE);
    const whi_ucp_calls calls = whi_ucp;
    whi_ucp.ucp_am_recv_data_nbx = endless_recv;
    wh_request *received = receive(LARGE), *sent = send_one(LARGE);
    UNTIL(&d, received->held);
    lose(d.from);
    ends_as(received, WH_EPEER);
    whi_ucp = calls;
    ends_as(sent, WH_EPEER);
    pass(LARGE);
    duo_end(&d);
}

// A cancel in the middle comes too late, as it does on other lanes: the peer has its time to finish.
TEST(cancelled_in_the_middle) {
    begin(shm, shm);
    wh_request *sent, *received;
    begin_moving(&sent, &received);
    wh_request_cancel(sent);
    wh_request_cancel(received);
    ends_as(sent, WH_OK);
    ends_as(received, WH_OK);
    CHECK_MEM(in, out, SIZE);
    pass(LARGE);
    CHECK_EQ_INT(by_bulk(d.to), 2);
    duo_end(&d);
}

// A peer that does not go on: the timeout, then the grace time, then the link's end, and each operation ends once.
TEST(timed_out_in_the_middle) {
    begin(shm, impatient);
    wh_request *sent = NULL, *received = receive(SIZE);
    CHECK(wh_tag_send(d.to, out, SIZE, TAG, WH_OP_OPTS(.timeout_ms = 100), &sent) >= 0);
    UNTIL(&d, is_moving(received));
    KIT_UNTIL(wh_worker_progress(d.client), "the timeout", wh_request_status(sent) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(sent), WH_ETIMEDOUT);
    memset(out, 0, SIZE);  // it is the caller's again
    wh_request_free(sent);
    UNTIL(&d, wh_request_status(received) != WH_PENDING);
    CHECK(wh_request_status(received) < 0);
    unsigned char before = in[SIZE / 2];
    duo_for(&d, 50);
    CHECK_EQ_INT(in[SIZE / 2], before);
    wh_request_free(received);
    duo_end(&d);
}

// Both workers end while a payload moves.
TEST(destroyed_in_the_middle) {
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], ways[way]);
        wh_request *sent, *received;
        begin_moving(&sent, &received);
        duo ended = d;
        wh_endpoint_abort(d.to);
        wh_endpoint_abort(d.from);
        wh_listener_close(d.listener);
        wh_worker_destroy(ended.client);
        wh_worker_destroy(ended.server);
        CHECK(wh_request_status(sent) < 0 && wh_request_status(received) < 0);
        wh_request_free(sent);
        wh_request_free(received);
        wh_context_destroy(d.ctx[0]);
        wh_context_destroy(d.ctx[1]);
    }
}

// An orderly close behind large sends: all of them are received, though their lane knows nothing of the close.
TEST(closed_behind_large_sends) {
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], ways[way]);
        enum { COUNT = 8 };
        wh_request *received[COUNT], *sent[COUNT], *close = NULL;
        for (int i = 0; i < COUNT; i++) {
            CHECK(wh_tag_recv(d.from, in + (size_t)i * LARGE, LARGE, TAG, WH_TAG_MASK_ALL, NULL,
                              &received[i]) >= 0);
            CHECK(wh_tag_send(d.to, out + (size_t)i * LARGE, LARGE, TAG, NULL, &sent[i]) >= 0);
        }
        CHECK(wh_endpoint_close(d.to, NULL, &close) >= 0);
        d.to = NULL;
        for (int i = 0; i < COUNT; i++) {
            ends_as(sent[i], WH_OK);
            ends_as(received[i], WH_OK);
        }
        CHECK_MEM(in, out, (size_t)COUNT * LARGE);
        ends_as(close, WH_OK);
        duo_end(&d);
    }
}

static ucs_status_t (*make_ep)(ucp_worker_h, const ucp_ep_params_t *, ucp_ep_h *);
static unsigned made;

static ucs_status_t no_second(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep) {
    return made++ ? UCS_ERR_UNREACHABLE : make_ep(worker, params, ep);
}

// The receiver has connected and granted, and then the sender cannot connect: the payload goes the other way.
TEST(one_side_cannot_connect) {
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], ways[way]);
        make_ep = whi_ucp.ucp_ep_create;
        made = 0;
        whi_ucp.ucp_ep_create = no_second;
        pass(LARGE);
        whi_ucp.ucp_ep_create = make_ep;
        CHECK_EQ_INT(made, 2);
        CHECK_EQ_INT(by_bulk(d.to), 0);
        pass(LARGE);
        UNTIL(&d, d.from->link->bulk.state == WHI_BULK_NONE && !lane_of(d.from));
        duo_end(&d);
    }
}

// A receiver that closes or drops its endpoint in the middle leaves nobody waiting for its word.
TEST(closed_by_the_receiver) {
    for (int drop = 0; drop < 2; drop++) {
        begin(shm, shm);
        wh_request *sent, *received, *close = NULL;
        begin_moving(&sent, &received);
        if (drop)
            wh_endpoint_abort(d.from);
        else
            CHECK(wh_endpoint_close(d.from, NULL, &close) >= 0);
        d.from = NULL;
        UNTIL(&d, wh_request_status(received) != WH_PENDING);
        UNTIL(&d, wh_request_status(sent) != WH_PENDING);
        CHECK(wh_request_status(received) < 0 && wh_request_status(sent) < 0);
        wh_request_free(sent);
        wh_request_free(received);
        if (close) {
            wh_endpoint_abort(d.to);
            d.to = NULL;
            UNTIL(&d, wh_request_status(close) != WH_PENDING);
            wh_request_free(close);
        }
        duo_end(&d);
    }
}

// ---- Peers that break the rules, by our own lane.

static void is_broken(const char *word) {
    UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_EPROTOCOL);
    if (!logged(word))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "no \"%s\" in: %s", word, kit_log.text);
    duo_end(&d);
}

TEST(a_record_over_the_bulk_lane) {
    begin(shm, shm);
    pass(LARGE);
    UNTIL(&d, whi_link_bulk(d.from->link));
    whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = d.from->number, .size = 4};
    CHECK_EQ_INT(lane_of(d.from)->ops->send(lane_of(d.from), &hdr, "tag!"), WH_OK);
    is_broken("chunks only");
}

static void produce(void *ctx, uint64_t offset, void *to, size_t size) {
    (void)ctx, (void)offset;
    memset(to, 'X', size);
}

TEST(a_chunk_over_the_wrong_lane) {
    begin(sock, sock);
    pass(LARGE);
    wh_request *received = NULL;  // by the client, of a message that comes by the first lane
    CHECK(wh_tag_recv(d.to, in, LARGE, TAG, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    d.to->link->bulk.state = WHI_BULK_NONE;
    wh_request *sent = NULL;
    CHECK(wh_tag_send(d.from, out, LARGE, TAG, NULL, &sent) >= 0);
    KIT_UNTIL(wh_worker_progress(d.client), "the grant", received->grant_id);
    d.to->link->bulk.state = WHI_BULK_OPEN;
    CHECK(!whi_bulk_granted(received));
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = received->grant_id};
    whi_span src = {.move = produce};  // nothing to give back
    size_t moved;
    CHECK_EQ_INT(lane_of(d.from)->ops->push(lane_of(d.from), &hdr, &src, SMALL, &moved), WH_OK);
    KIT_UNTIL(
        (void)(wh_worker_progress(d.client),
               whi_links_of(d.server)->ucx ? whi_ucx_progress(whi_links_of(d.server)->ucx) : 0),
        "the chunk", wh_request_status(received) != WH_PENDING);
    UNTIL(&d, wh_request_status(sent) != WH_PENDING);  // the socket may have taken all of it
    wh_request_free(sent);
    CHECK_EQ_INT(wh_request_status(received), WH_EPROTOCOL);
    wh_request_free(received);
    is_broken("another lane");
}

// say sends the client a control record, as its peer would.
static void say(whi_hdr hdr, const void *payload) {
    hdr.ep = hdr.ep ? hdr.ep : d.from->number;
    whi_link_control(d.from->link, &hdr, payload);
}

TEST(a_grant_for_a_lane_that_is_not_there) {
    begin(secret, secret);
    wh_request *sent = send_one(LARGE);
    say((whi_hdr){.cls = WHI_CLASS_GRANT,
                  .flags = WHI_FLAG_BULK_LANE,
                  .tag = sent->send_id | 77ULL << 32,
                  .arg = LARGE},
        NULL);
    UNTIL(&d, wh_request_status(sent) != WH_PENDING);
    wh_request_free(sent);
    is_broken("");
}

TEST(an_answer_before_the_payload) {
    begin(shm, shm);
    pass(LARGE);
    wh_request *sent = send_one(SIZE);
    duo_for(&d, 5);
    say((whi_hdr){.cls = WHI_CLASS_GRANT,
                  .flags = WHI_FLAG_BULK_LANE,
                  .tag = sent->send_id | 77ULL << 32,
                  .arg = SIZE},
        NULL);
    say((whi_hdr){.cls = WHI_CLASS_ACK, .tag = sent->send_id}, NULL);
    UNTIL(&d, wh_request_status(sent) != WH_PENDING);
    wh_request_free(sent);
    is_broken("");
}

TEST(addresses_that_do_not_fit) {
    static const whi_hdr bad[] = {
        {.size = 8, .aux = WHI_LANE_SHM, .tag = 8},                         // of another lane
        {.size = 8, .aux = WHI_LANE_UCX, .tag = 8, .arg = 8},               // not its beginning
        {.size = 8, .aux = WHI_LANE_UCX, .tag = 4},                         // beyond its end
        {.size = 0, .aux = WHI_LANE_UCX, .tag = 4},                         // nothing
        {.size = 8, .aux = WHI_LANE_UCX, .tag = WHI_LANE_ADDRESS_MAX + 1},  // endless
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        begin(secret, secret);
        whi_hdr hdr = bad[i];
        hdr.cls = WHI_CLASS_LANE_ADDRESS;
        hdr.flags = WHI_FLAG_BULK_LANE;
        hdr.ep = 0;
        whi_link_control(d.from->link, &hdr, "garbage!");
        is_broken("bulk lane");
    }
    // One that is open takes no other; one that is garbage opens none.
    const whi_hdr garbage = {.size = 8,
                             .cls = WHI_CLASS_LANE_ADDRESS,
                             .flags = WHI_FLAG_BULK_LANE,
                             .aux = WHI_LANE_UCX,
                             .tag = 8};
    begin(shm, shm);
    pass(LARGE);
    say(garbage, "garbage!");
    is_broken("bulk lane");
    begin(shm, shm);
    say(garbage, "garbage!");
    UNTIL(&d, d.to->link->bulk.state == WHI_BULK_NONE);
    pass(LARGE);
    CHECK_EQ_INT(by_bulk(d.to), 0);
    duo_end(&d);
}

TEST_MAIN()
