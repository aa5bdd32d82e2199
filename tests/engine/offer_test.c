// SPDX-License-Identifier: BSD-3-Clause
//
// Offers: a large message that its receiver reads out of the sender's memory, and what takes it back before, during and
// after that.
//
// Both workers are this thread's, so that each step is the test's.  What happens between the read and the
// look at the offer's word happens in the place of process_vm_readv (offer_kit.h).
#include "engine/offer_kit.h"
#include "net/shm/shm_lane.h"

enum { LARGE = 300000 };

static duo d;
static uint8_t out[LARGE], in[LARGE];
static wh_request *sent;

static void fill(uint8_t *bytes, uint8_t seed) {
    for (int i = 0; i < LARGE; i++)
        bytes[i] = (uint8_t)(seed + i * 7 + i / 256);
}

static bool is_filled(const uint8_t *bytes, uint8_t seed, int size) {
    for (int i = 0; i < size; i++)
        if (bytes[i] != (uint8_t)(seed + i * 7 + i / 256))
            return false;
    return true;
}

static void begin_with(const char *const *server, const char *const *client) {
    if (!kit_can_read())
        SKIP("process_vm_readv is not to be had here");
    kit_reads = 0;
    kit_errno = 0;
    kit_read_end = NULL;
    duo_begin(&d, server, client);
    duo_connect(&d);
    if (server == client)
        kit_join(&d);
    else
        UNTIL(&d, kit_sends_by_ring(d.to->link) && kit_sends_by_ring(d.from->link));
}

static void begin(void) {
    begin_with(kit_reading, kit_reading);
}

static wh_request *send_large(uint8_t seed, uint64_t tag) {
    wh_request *req = NULL;
    fill(out, seed);
    CHECK_EQ_INT(wh_tag_send(d.to, out, LARGE, tag, NULL, &req), WH_PENDING);
    return req;
}

static wh_request *recv_large(uint64_t tag) {
    wh_request *req = NULL;
    memset(in, 0, LARGE);
    CHECK_EQ_INT(wh_tag_recv(d.from, in, LARGE, tag, WH_TAG_MASK_ALL, NULL, &req), WH_PENDING);
    return req;
}

static void transfer(uint8_t seed) {
    wh_request *send = send_large(seed, 1), *recv = recv_large(1);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(in, seed, LARGE));
}

// hear lets the server alone go on until it has the announcement.
static void hear(uint64_t tag) {
    KIT_UNTIL((void)wh_worker_progress(d.server), "hear",
              wh_tag_probe(d.from, tag, WH_TAG_MASK_ALL, NULL) == WH_OK);
}

// goes_on checks that nothing of the offers is left behind.
static void goes_on(void) {
    for (int i = 0; i < 3; i++)
        transfer((uint8_t)(100 + i));
    CHECK_EQ_INT(d.to->announced, 0);
    CHECK_EQ_INT(d.from->rx_announced, 0);
    CHECK_EQ_INT(d.client->counters.pending + d.server->counters.pending, 0);
    duo_end(&d);
}

TEST(a_large_message_is_read) {
    begin();
    for (int i = 0; i < 1000; i++)
        transfer((uint8_t)i);
    CHECK_EQ_INT(kit_reads, 1000);
    goes_on();
}

TEST(a_short_buffer_is_filled) {
    begin();
    wh_request *recv = NULL, *send = send_large(4, 1);
    memset(in, 0, LARGE);
    CHECK_EQ_INT(wh_tag_recv(d.from, in, 20000, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_ETRUNCATED);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(in, 4, 20000) && in[20000] == 0);
    CHECK_EQ_INT(kit_reads, 1);
    goes_on();
}

// announce sends a message that is short enough to go unasked, but for its flag.
static wh_status announce(const void *from, size_t size, uint64_t tag, wh_request **req) {
    return wh_tag_send(d.to, from, size, tag, WH_OP_OPTS(.flags = WH_OP_SYNC), req);
}

// More are announced at a time than there are offers.
TEST(many_at_a_time) {
    enum { MANY = 1000, SIZE = 33000 };
    static uint8_t from[MANY][SIZE], to[MANY][SIZE];
    static wh_request *sends[MANY], *recvs[MANY];
    begin();
    for (int i = 0; i < MANY; i++) {
        memset(from[i], i, SIZE);
        CHECK_EQ_INT(announce(from[i], SIZE, (uint64_t)i, &sends[i]), WH_PENDING);
        if (i % 100 == 0)
            duo_pass(&d);
    }
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(
            wh_tag_recv(d.from, to[i], SIZE, (uint64_t)i, WH_TAG_MASK_ALL, NULL, &recvs[i]),
            WH_PENDING);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ_INT(done_as(&d, recvs[i]), WH_OK);
        CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
        CHECK(memcmp(from[i], to[i], SIZE) == 0);
    }
    uint64_t fetched = ((const whi_shm *)(const void *)d.from->link->fast)->fetcher.fetched;
    CHECK(fetched >= 400 && fetched < MANY);
    CHECK(kit_reads >= fetched / 8 && kit_reads < fetched / 2);  // several at a time
    goes_on();
}

// ---- taken back

// What takes the announcement back comes in the same poll: nothing is read, and the receive waits for the next message.
TEST(cancelled_before_the_read) {
    begin();
    wh_request *recv = recv_large(1);
    wh_request *send = send_large(1, 1);
    wh_request_cancel(send);
    CHECK_EQ_INT(wh_request_status(send), WH_ECANCELLED);
    wh_request_free(send);
    fill(out, 77);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, 0);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    UNTIL(&d, recv->stage == WHI_STAGE_QUEUED);
    send = send_large(2, 1);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(in, 2, LARGE));
    goes_on();
}

static void cancel_and_change(void) {
    wh_request_cancel(sent);
    CHECK_EQ_INT(wh_request_status(sent), WH_ECANCELLED);
    fill(out, 77);
}

TEST(cancelled_during_the_read) {
    begin();
    sent = send_large(1, 1);
    hear(1);
    kit_read_end = cancel_and_change;
    wh_request *recv = recv_large(1);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK(!kit_read_end);
    CHECK_EQ_INT(done_as(&d, sent), WH_ECANCELLED);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    UNTIL(&d, recv->stage == WHI_STAGE_QUEUED);
    wh_request *send = send_large(2, 1);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(in, 2, LARGE));
    goes_on();
}

// The message is with its receiver, so the send has done what it should, whether or not it knows.
TEST(cancelled_after_the_read) {
    begin();
    wh_request *send = send_large(1, 1);
    hear(1);
    wh_request *recv = recv_large(1);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(wh_request_status(recv), WH_OK);
    CHECK_EQ_INT(wh_request_status(send), WH_PENDING);
    wh_request_cancel(send);
    CHECK_EQ_INT(wh_request_status(send), WH_OK);
    CHECK_EQ_INT(d.to->announced, 0);
    wh_request_free(send);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK(is_filled(in, 1, LARGE));
    goes_on();
}

static void abort_and_change(void) {
    wh_endpoint_abort(d.to);
    d.to = NULL;
    CHECK_EQ_INT(wh_request_status(sent), WH_ECANCELLED);
    fill(out, 77);
}

TEST(aborted_during_the_read) {
    begin();
    sent = send_large(1, 1);
    hear(1);
    kit_read_end = abort_and_change;
    wh_request *recv = recv_large(1);
    CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
    CHECK_EQ_INT(done_as(&d, sent), WH_ECANCELLED);
    duo_end(&d);
}

static void fail_and_change(void) {
    whi_link_fail(d.to->link, WH_EPEER, "%s", "the test says so");
    CHECK_EQ_INT(wh_request_status(sent), WH_EPEER);
    fill(out, 77);
}

TEST(link_failed_during_the_read) {
    begin();
    sent = send_large(1, 1);
    hear(1);
    kit_read_end = fail_and_change;
    wh_request *recv = recv_large(1);
    CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
    CHECK_EQ_INT(done_as(&d, sent), WH_EPEER);
    duo_end(&d);
}

TEST(timed_out_before_the_read) {
    begin();
    fill(out, 1);
    CHECK_EQ_INT(wh_tag_send(d.to, out, LARGE, 1, WH_OP_OPTS(.timeout_ms = 30), &sent), WH_PENDING);
    hear(1);
    KIT_UNTIL((void)wh_worker_progress(d.client), "timeout",
              wh_request_status(sent) == WH_ETIMEDOUT);
    wh_request_free(sent);
    fill(out, 77);
    wh_request *recv = recv_large(1);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    wh_request_cancel(recv);
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    goes_on();
}

// ---- several that are read at once

enum { FEW = 3, SHORT = 40000 };
static wh_request *sends[FEW], *recvs[FEW];
static uint8_t few_in[FEW][SHORT];

// read_few has a few messages read by one call, and `end` called when it has their bytes.
static void read_few(void (*end)(void)) {
    begin();
    kit_read_end = end;
    fill(out, 1);
    memset(few_in, 0, sizeof(few_in));
    for (int i = 0; i < FEW; i++) {
        CHECK_EQ_INT(
            wh_tag_recv(d.from, few_in[i], SHORT, (uint64_t)i, WH_TAG_MASK_ALL, NULL, &recvs[i]),
            WH_PENDING);
        CHECK_EQ_INT(announce(out, SHORT, (uint64_t)i, &sends[i]), WH_PENDING);
    }
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, 1);
}

static void is_received(int i) {
    CHECK_EQ_INT(done_as(&d, recvs[i]), WH_OK);
    CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
    CHECK_MEM(few_in[i], out, SHORT);
}

TEST(a_few_at_once) {
    read_few(NULL);
    for (int i = 0; i < FEW; i++)
        is_received(i);
    goes_on();
}

// One of them goes to so many places that it is not read: it comes by chunks.
TEST(a_layout_of_short_runs_among_them) {
    enum { RUN = 8, RUNS = SHORT / RUN };
    static uint8_t spread[RUNS][2 * RUN];
    wh_type *type = NULL;
    begin();
    fill(out, 1);
    memset(few_in, 0, sizeof(few_in));
    memset(spread, 0, sizeof(spread));
    CHECK_EQ_INT(wh_type_create_vector(RUNS, RUN, 2 * RUN, wh_type_basic(WH_TYPE_BYTE), &type),
                 WH_OK);
    for (int i = 0; i < FEW; i++) {
        wh_op_opts opts = {.size = sizeof(opts), .type = i == 1 ? type : NULL};
        void *to = i == 1 ? (void *)spread : few_in[i];
        CHECK_EQ_INT(wh_tag_recv(d.from, to, i == 1 ? 1 : SHORT, (uint64_t)i, WH_TAG_MASK_ALL,
                                 &opts, &recvs[i]),
                     WH_PENDING);
        CHECK_EQ_INT(announce(out, SHORT, (uint64_t)i, &sends[i]), WH_PENDING);
    }
    is_received(0);
    is_received(2);
    CHECK_EQ_INT(done_as(&d, recvs[1]), WH_OK);
    CHECK_EQ_INT(done_as(&d, sends[1]), WH_OK);
    for (int i = 0; i < RUNS; i++)
        CHECK_MEM(spread[i], out + i * RUN, RUN);
    wh_type_release(type);
    goes_on();
}

static void cancel_second_send(void) {
    wh_request_cancel(sends[1]);
    CHECK_EQ_INT(wh_request_status(sends[1]), WH_ECANCELLED);
}

TEST(one_cancelled_during_the_read) {
    read_few(cancel_second_send);
    is_received(0);
    is_received(2);
    CHECK_EQ_INT(done_as(&d, sends[1]), WH_ECANCELLED);
    UNTIL(&d, recvs[1]->stage == WHI_STAGE_QUEUED);
    CHECK_EQ_INT(announce(out, SHORT, 1, &sends[1]), WH_PENDING);
    is_received(1);
    goes_on();
}

// ---- what cannot be read

TEST(a_refusal_of_the_kernel_is_final) {
    begin();
    transfer(1);
    kit_errno = EPERM;
    transfer(2);
    CHECK_EQ_INT(kit_reads, 2);
    transfer(3);
    CHECK_EQ_INT(kit_reads, 2);
    goes_on();
}

TEST(an_address_that_cannot_be_read) {
    begin();
    kit_errno = EFAULT;
    transfer(1);
    kit_errno = ESRCH;
    transfer(2);
    kit_errno = 0;
    transfer(3);
    CHECK_EQ_INT(kit_reads, 3);
    goes_on();
}

static whi_fetcher *fetcher(void) {
    return &((whi_shm *)d.from->link->fast)->fetcher;
}

TEST(memory_of_another_process) {
    begin();
    fetcher()->peer.word.random[0] ^= 1;
    transfer(1);
    CHECK_EQ_INT(kit_reads, 1);
    CHECK_EQ_INT(fetcher()->fetched, 0);
    fetcher()->peer.word.random[0] ^= 1;
    transfer(2);
    CHECK_EQ_INT(fetcher()->fetched, 1);
    goes_on();
}

TEST(a_peer_that_does_not_want_it) {
    static const char *const never[] = {"lanes=shm", "shm_read=never", NULL};
    begin_with(never, kit_reading);
    transfer(1);
    CHECK_EQ_INT(kit_reads, 0);
    goes_on();
}

// ---- other kinds

TEST(frames_of_an_object_are_read) {
    begin();
    wh_object *object = NULL;
    wh_request *recv = NULL, *send = NULL;
    fill(out, 9);
    const wh_frame frames[] = {{.data = out, .size = 100000},
                               {.data = out, .size = 10},
                               {.data = out + 5, .size = 200000}};
    CHECK_EQ_INT(wh_object_send(d.to, "head", 4, frames, 3, sizeof(*frames), 1, NULL, &send),
                 WH_PENDING);
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, sizeof(wh_frame), 1, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    wh_result result;
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    object = result.object;
    wh_request_free(recv);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK_EQ_INT(kit_reads, 1);
    size_t size = 0;
    CHECK(memcmp(wh_object_header(object, &size), "head", 4) == 0 && size == 4);
    for (size_t i = 0; i < 3; i++) {
        const wh_frame *frame = wh_object_frame(object, i);
        CHECK_EQ_INT(frame->size, frames[i].size);
        CHECK(memcmp(frame->data, frames[i].data, frame->size) == 0);
    }
    wh_object_free(object);
    goes_on();
}

static bool keeps;
static wh_am *kept;
static wh_request *am_recv;

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    CHECK(am->header_size == 5 && memcmp(am->header, "hello", 5) == 0 && am->size == LARGE);
    kept = am;
    if (keeps)
        return WH_PENDING;
    CHECK_EQ_INT(wh_am_recv(am, in, LARGE, NULL, &am_recv), WH_PENDING);
    return WH_OK;
}

TEST(the_payload_of_an_active_message_is_read) {
    begin();
    CHECK_EQ_INT(wh_worker_set_am(d.server, 3, on_am, NULL), WH_OK);
    for (int i = 0; i < 2; i++) {
        keeps = i;
        kept = NULL;
        memset(in, 0, LARGE);
        fill(out, (uint8_t)(20 + i));
        wh_request *send = NULL;
        CHECK_EQ_INT(wh_am_send(d.to, 3, "hello", 5, out, LARGE, NULL, &send), WH_PENDING);
        UNTIL(&d, kept);
        if (keeps) {
            CHECK(memcmp(kept->header, "hello", 5) == 0);
            CHECK_EQ_INT(wh_am_recv(kept, in, LARGE, NULL, &am_recv), WH_PENDING);
        }
        CHECK_EQ_INT(done_as(&d, am_recv), WH_OK);
        CHECK_EQ_INT(done_as(&d, send), WH_OK);
        CHECK(is_filled(in, (uint8_t)(20 + i), LARGE));
        CHECK_EQ_INT(kit_reads, i + 1);
    }
    goes_on();
}

TEST_MAIN()
