// SPDX-License-Identifier: BSD-3-Clause
//
// Fetches of more than one turn: others are served in between, and whatever ends the message, its receive or its sender may
// come there.
//
// Both workers are this thread's (offer_kit.h).  A receive that has begun has read one turn; each pass of the server's reads
// another.
#include "engine/offer_kit.h"

enum { TURNS = 4, LARGE = (TURNS - 1) * WHI_LANE_TURN + 5000 };

static duo d;
static uint8_t out[LARGE], in[LARGE];
static wh_request *sent;

static uint8_t byte_at(uint8_t seed, int i) {
    return (uint8_t)(seed + i * 7 + i / 256);
}

static void fill(uint8_t seed) {
    for (int i = 0; i < LARGE; i++)
        out[i] = byte_at(seed, i);
}

static bool is_filled(uint8_t seed) {
    for (int i = 0; i < LARGE; i++)
        if (in[i] != byte_at(seed, i))
            return false;
    return true;
}

static void begin_with(const char *const *options) {
    if (!kit_can_read())
        SKIP("process_vm_readv is not to be had here");
    kit_reads = 0;
    kit_errno = 0;
    kit_read_end = NULL;
    duo_begin(&d, options, options);
    duo_connect(&d);
    if (options == kit_reading)
        kit_join(&d);
}

static wh_request *send_large(uint8_t seed, const wh_op_opts *opts) {
    wh_request *req = NULL;
    fill(seed);
    CHECK_EQ_INT(wh_tag_send(d.to, out, LARGE, 1, opts, &req), WH_PENDING);
    return req;
}

static wh_request *recv_large(wh_endpoint *from) {
    wh_request *req = NULL;
    memset(in, 0, LARGE);
    wh_status st = from ? wh_tag_recv(from, in, LARGE, 1, WH_TAG_MASK_ALL, NULL, &req)
                        : wh_worker_tag_recv(d.server, in, LARGE, 1, WH_TAG_MASK_ALL, NULL, &req);
    CHECK_EQ_INT(st, WH_PENDING);
    return req;
}

// half_read begins a transfer and returns its receive, of which two turns of four are here.
static wh_request *half_read(uint8_t seed, const wh_op_opts *opts, bool any) {
    begin_with(kit_reading);
    sent = send_large(seed, opts);
    KIT_UNTIL((void)wh_worker_progress(d.server), "hear",
              wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
    wh_request *recv = recv_large(any ? NULL : d.from);
    CHECK_EQ_INT(kit_reads, 0);  // not in the call
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, 1);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, 2);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    return recv;
}

static void transfer(uint8_t seed) {
    wh_request *send = send_large(seed, NULL), *recv = recv_large(d.from);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(seed));
}

// goes_on checks that nothing is left behind.
static void goes_on(void) {
    kit_reads = 0;
    transfer(100);
    CHECK_EQ_INT(kit_reads, TURNS);
    CHECK_EQ_INT(d.to->announced, 0);
    CHECK_EQ_INT(d.from->rx_announced, 0);
    CHECK_EQ_INT(d.client->counters.pending + d.server->counters.pending, 0);
    duo_end(&d);
}

// A worker that reads makes progress in each pass, and does not sleep.
TEST(a_turn_of_each_pass) {
    wh_request *recv = half_read(1, NULL, false);
    for (unsigned reads = 3; reads <= TURNS; reads++) {
        CHECK_EQ_INT(wh_worker_arm(d.server), WH_EBUSY);
        CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
        CHECK(wh_worker_progress(d.server) > 0);
        CHECK_EQ_INT(kit_reads, reads);
    }
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    CHECK(is_filled(1));
    goes_on();
}

// Of two the one that was begun first is read to its end first.
TEST(the_oldest_first) {
    static uint8_t second[LARGE];
    begin_with(kit_reading);
    wh_request *sends[2] = {send_large(3, NULL), send_large(3, NULL)}, *recvs[2] = {NULL};
    KIT_UNTIL((void)wh_worker_progress(d.server), "hear",
              wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
    recvs[0] = recv_large(d.from);
    CHECK_EQ_INT(wh_tag_recv(d.from, second, LARGE, 1, WH_TAG_MASK_ALL, NULL, &recvs[1]),
                 WH_PENDING);
    while (wh_request_status(recvs[0]) == WH_PENDING)
        CHECK(wh_worker_progress(d.server) > 0);
    // The last part of a payload leaves something of its turn.
    CHECK(kit_reads <= TURNS + 1);
    CHECK_EQ_INT(wh_request_status(recvs[1]), WH_PENDING);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(done_as(&d, recvs[i]), WH_OK);
        CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
    }
    CHECK(is_filled(3));
    CHECK_MEM(second, in, LARGE);
    goes_on();
}

TEST(a_small_message_overtakes) {
    wh_request *recv = half_read(2, NULL, false), *small = NULL;
    uint64_t word = 42, got = 0;
    CHECK_EQ_INT(wh_tag_recv(d.from, &got, 8, 2, WH_TAG_MASK_ALL, NULL, &small), WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, &word, 8, 2, NULL, NULL), WH_OK);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(wh_request_status(small), WH_OK);
    CHECK_EQ_INT(got, 42);
    wh_request_free(small);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    CHECK(is_filled(2));
    goes_on();
}

// Many that arrive at once are no reason to read them all in one pass.
TEST(many_take_many_passes) {
    enum { MANY = 8, SIZE = 200000 };
    static uint8_t to[MANY][SIZE];
    wh_request *recvs[MANY], *sends[MANY];
    begin_with(kit_reading);
    fill(3);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ_INT(wh_tag_recv(d.from, to[i], SIZE, 1, WH_TAG_MASK_ALL, NULL, &recvs[i]),
                     WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, out, SIZE, 1, NULL, &sends[i]), WH_PENDING);
    }
    for (unsigned reads = 1; reads <= MANY; reads++) {
        CHECK(wh_worker_progress(d.server) > 0);
        CHECK_EQ_INT(kit_reads, reads);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ_INT(done_as(&d, recvs[i]), WH_OK);
        CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
        CHECK(memcmp(to[i], out, SIZE) == 0);
    }
    goes_on();
}

// Nor is one that is short a reason to read the next, long one in its pass.
TEST(a_short_one_ends_its_pass) {
    enum { SHORT = 64 << 10, LONG = 1 << 20 };
    static uint8_t to[2][LONG];
    wh_request *recvs[2], *sends[2];
    begin_with(kit_reading);
    fill(3);
    for (int i = 0; i < 2; i++) {
        size_t size = i ? LONG : SHORT;
        CHECK_EQ_INT(wh_tag_recv(d.from, to[i], size, 1, WH_TAG_MASK_ALL, NULL, &recvs[i]),
                     WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, out, size, 1, WH_OP_OPTS(.flags = WH_OP_SYNC), &sends[i]),
                     WH_PENDING);
    }
    for (unsigned reads = 1; reads <= 2; reads++) {
        CHECK(wh_worker_progress(d.server) > 0);
        CHECK_EQ_INT(kit_reads, reads);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(done_as(&d, recvs[i]), WH_OK);
        CHECK_EQ_INT(done_as(&d, sends[i]), WH_OK);
        CHECK(memcmp(to[i], out, i ? LONG : SHORT) == 0);
    }
    goes_on();
}

// It is the same for payloads that come as chunks, over either lane.
static void by_chunks(const char *const *options) {
    begin_with(options);
    UNTIL(&d, !d.to->link->fast ||
                  (d.to->link->tx == d.to->link->fast && d.from->link->rx == d.from->link->fast));
    wh_request *send = send_large(4, NULL), *recv = recv_large(d.from);
    uint64_t before = 0, most = 0;
    while (wh_request_status(recv) == WH_PENDING) {
        for (int i = 0; i < 20; i++)
            (void)wh_worker_progress(d.client);
        (void)wh_worker_progress(d.server);
        uint64_t moved = wh_request_status(recv) == WH_PENDING ? recv->moved : LARGE;
        most = moved - before > most ? moved - before : most;
        before = moved;
    }
    printf("at most %llu bytes in a pass\n", (unsigned long long)most);
    CHECK(most <= 2 * WHI_LANE_TURN);  // a turn, and the chunk that it ends with
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(4));
    CHECK_EQ_INT(kit_reads, 0);
    duo_end(&d);
}

TEST(chunks_of_memory_take_turns) {
    by_chunks((const char *const[]){"lanes=shm", "shm_read=never", "bulk_chunk=1M", NULL});
}

TEST(chunks_of_a_socket_take_turns) {
    by_chunks((const char *const[]){"lanes=stream", NULL});
}

// ---- What ends it in the middle.

static void next_is_received(wh_request *recv) {
    UNTIL(&d, recv->stage == WHI_STAGE_QUEUED);
    unsigned reads = kit_reads;
    wh_request *send = send_large(6, NULL);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(6));
    CHECK_EQ_INT(kit_reads, reads + TURNS);
}

TEST(cancelled_by_the_sender) {
    wh_request *recv = half_read(5, NULL, false);
    wh_request_cancel(sent);
    CHECK_EQ_INT(wh_request_status(sent), WH_ECANCELLED);
    wh_request_free(sent);
    fill(77);
    next_is_received(recv);
    goes_on();
}

TEST(cancelled_by_the_sender_of_a_receive_from_any) {
    wh_request *recv = half_read(5, NULL, true);
    wh_request_cancel(sent);
    wh_request_free(sent);
    fill(77);
    next_is_received(recv);
    goes_on();
}

static void cancel_and_change(void) {
    wh_request_cancel(sent);
    CHECK_EQ_INT(wh_request_status(sent), WH_ECANCELLED);
    fill(77);
}

// The last turn finds the offer revoked, and all four are thrown away.
TEST(cancelled_during_the_last_turn) {
    wh_request *recv = half_read(5, NULL, false);
    (void)wh_worker_progress(d.server);
    kit_read_end = cancel_and_change;
    (void)wh_worker_progress(d.server);
    CHECK_EQ_INT(kit_reads, TURNS);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    wh_request_free(sent);
    next_is_received(recv);
    goes_on();
}

TEST(timed_out_at_the_sender) {
    wh_request *recv = half_read(5, WH_OP_OPTS(.timeout_ms = 300), false);
    KIT_UNTIL((void)wh_worker_progress(d.client), "timeout",
              wh_request_status(sent) == WH_ETIMEDOUT);
    wh_request_free(sent);
    fill(77);
    next_is_received(recv);
    goes_on();
}

// What has matched completes: the message is on its way.
TEST(cancelled_by_the_receiver) {
    wh_request *recv = half_read(5, NULL, false);
    wh_request_cancel(recv);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    CHECK(is_filled(5));
    goes_on();
}

// No byte is written after the end.
static void left_alone(void) {
    unsigned reads = kit_reads;
    memset(in, 9, LARGE);
    duo_for(&d, 5);
    CHECK_EQ_INT(kit_reads, reads);
    for (int i = 0; i < LARGE; i++)
        CHECK(in[i] == 9);
}

TEST(aborted_by_the_receiver) {
    wh_request *recv = half_read(5, NULL, false);
    wh_endpoint_abort(d.from);
    d.from = NULL;
    CHECK_EQ_INT(wh_request_status(recv), WH_ECANCELLED);
    left_alone();
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    CHECK_EQ_INT(done_as(&d, sent), WH_EPEER);
    duo_end(&d);
}

TEST(aborted_by_the_sender) {
    wh_request *recv = half_read(5, NULL, false);
    wh_endpoint_abort(d.to);
    d.to = NULL;
    CHECK_EQ_INT(done_as(&d, sent), WH_ECANCELLED);
    fill(77);
    CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
    left_alone();
    duo_end(&d);
}

TEST(the_link_fails) {
    wh_request *recv = half_read(5, NULL, false);
    whi_link_fail(d.from->link, WH_EPEER, "%s", "the test says so");
    CHECK_EQ_INT(wh_request_status(recv), WH_EPEER);
    left_alone();
    CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
    CHECK_EQ_INT(done_as(&d, sent), WH_EPEER);
    duo_end(&d);
}

// A receive from any source goes on without that link, and nothing of what was read is left in its way.
TEST(the_link_fails_under_a_receive_from_any) {
    wh_request *recv = half_read(5, NULL, true);
    whi_link_fail(d.from->link, WH_EPEER, "%s", "the test says so");
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    CHECK_EQ_INT(recv->stage, WHI_STAGE_QUEUED);
    CHECK_EQ_INT(done_as(&d, sent), WH_EPEER);
    left_alone();
    wh_endpoint_abort(d.to);
    wh_endpoint_abort(d.from);
    duo_connect(&d);
    kit_join(&d);
    next_is_received(recv);
    goes_on();
}

TEST(the_worker_ends) {
    wh_request *recv = half_read(5, NULL, false);
    duo_end(&d);
    CHECK(wh_request_status(recv) != WH_PENDING && wh_request_status(recv) != WH_OK);
    wh_request_free(recv);
    wh_request_free(sent);
}

// ---- Other kinds.

TEST(frames_are_read_across_their_ends) {
    begin_with(kit_reading);
    wh_request *recv = NULL, *send = NULL;
    fill(7);
    enum { FIRST = WHI_LANE_TURN - 100, SECOND = 5000 };
    const wh_frame frames[] = {
        {.data = out, .size = FIRST},
        {.data = out + FIRST, .size = 10},
        {.data = out + FIRST + 10, .size = SECOND},
        {.data = out + FIRST + 10 + SECOND, .size = LARGE - FIRST - 10 - SECOND}};
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, sizeof(wh_frame), 1, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    CHECK_EQ_INT(wh_object_send(d.to, NULL, 0, frames, 4, sizeof(*frames), 1, NULL, &send),
                 WH_PENDING);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    wh_result result;
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    for (size_t i = 0; i < 4; i++) {
        const wh_frame *frame = wh_object_frame(result.object, i);
        CHECK_EQ_INT(frame->size, frames[i].size);
        CHECK(memcmp(frame->data, frames[i].data, frame->size) == 0);
    }
    wh_object_free(result.object);
    wh_request_free(recv);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK_EQ_INT(kit_reads, TURNS);
    goes_on();
}

TEST(an_object_is_withdrawn) {
    begin_with(kit_reading);
    wh_request *recv = NULL, *send = NULL;
    const wh_frame frame = {.data = out, .size = LARGE};
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, sizeof(wh_frame), 1, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    CHECK_EQ_INT(wh_object_send(d.to, NULL, 0, &frame, 1, sizeof(frame), 1, NULL, &send),
                 WH_PENDING);
    KIT_UNTIL((void)wh_worker_progress(d.server), "begin", kit_reads == 2);
    wh_request_cancel(send);
    CHECK_EQ_INT(done_as(&d, send), WH_ECANCELLED);
    UNTIL(&d, recv->stage == WHI_STAGE_QUEUED);
    wh_request_cancel(recv);
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    goes_on();
}

// A receive's layout of long runs is read into, run by run, and nothing beside it is touched.
static void into_layout(int64_t blocks, int64_t block, unsigned reads) {
    enum { GAP = 100 };
    size_t span = (size_t)(blocks * (block + GAP)), size = (size_t)(blocks * block);
    begin_with(kit_reading);
    CHECK(size <= LARGE);
    fill(9);
    uint8_t *into = calloc(1, span);
    wh_type *type = NULL;
    wh_request *recv = NULL, *send = NULL;
    CHECK(into);
    CHECK_EQ_INT(
        wh_type_create_vector(blocks, block, block + GAP, wh_type_basic(WH_TYPE_BYTE), &type),
        WH_OK);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 1, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.type = type), &recv),
                 WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, out, size, 1, NULL, &send), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK_EQ_INT(kit_reads, reads);
    for (int64_t i = 0; i < blocks; i++) {
        CHECK_MEM(into + i * (block + GAP), out + i * block, (size_t)block);
        for (int64_t k = block; k < block + GAP && i < blocks - 1; k++)
            CHECK(into[i * (block + GAP) + k] == 0);
    }
    wh_type_release(type);
    free(into);
    goes_on();
}

TEST(a_layout_of_long_runs) {
    into_layout(3, 1000000, 3);
    into_layout(300, 10000, 3);
    into_layout(700, 4096, 3);  // as many runs as one read takes
}

TEST(a_layout_of_short_runs_is_not_read) {
    into_layout(700, 4095, 0);
    into_layout(100000, 8, 0);
}

// The sender takes its message back between two turns: the layout is filled by the next one, and nothing beside it.
TEST(cancelled_by_the_sender_of_what_goes_into_a_layout) {
    enum { ROW = 10000, APART = 10100, ROWS = (LARGE + ROW - 1) / ROW };
    static uint8_t into[ROWS * APART];
    wh_type *type = NULL;
    wh_request *recv = NULL;
    begin_with(kit_reading);
    memset(into, 9, sizeof(into));
    CHECK_EQ_INT(wh_type_create_vector(ROWS, ROW, APART, wh_type_basic(WH_TYPE_BYTE), &type),
                 WH_OK);
    sent = send_large(5, NULL);
    KIT_UNTIL((void)wh_worker_progress(d.server), "hear",
              wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 1, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.type = type), &recv),
                 WH_PENDING);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, 2);
    wh_request_cancel(sent);
    CHECK_EQ_INT(done_as(&d, sent), WH_ECANCELLED);
    fill(77);
    UNTIL(&d, recv->stage == WHI_STAGE_QUEUED);
    wh_request *send = send_large(6, NULL);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    for (int i = 0; i < ROWS * APART; i++) {
        int at = i / APART * ROW + i % APART;
        CHECK(into[i] == (i % APART < ROW && at < LARGE ? byte_at(6, at) : 9));
    }
    wh_type_release(type);
    goes_on();
}

TEST(a_frame_that_is_laid_out) {
    enum { ROWS = 200, ROW = 8000, APART = 10000 };
    begin_with(kit_reading);
    fill(10);
    static uint8_t into[ROWS * APART];
    wh_type *type = NULL;
    wh_request *recv = NULL, *send = NULL;
    CHECK_EQ_INT(wh_type_create_vector(ROWS, ROW, APART, wh_type_basic(WH_TYPE_BYTE), &type),
                 WH_OK);
    const wh_frame from[] = {{.data = out, .size = ROWS * ROW}, {.data = out + 7, .size = 900000}};
    wh_frame to[] = {{.data = into, .size = 1, .type = type}, {.data = in, .size = 900000}};
    CHECK_EQ_INT(wh_object_recv(d.from, to, 2, sizeof(*to), 1, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    CHECK_EQ_INT(wh_object_send(d.to, NULL, 0, from, 2, sizeof(*from), 1, NULL, &send), WH_PENDING);
    object_done(&d, recv);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(kit_reads > 0);
    for (int i = 0; i < ROWS; i++)
        CHECK_MEM(into + i * APART, out + i * ROW, ROW);
    CHECK_MEM(in, out + 7, 900000);
    wh_type_release(type);
    goes_on();
}

static wh_request *am_recv;

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    CHECK_EQ_INT(wh_am_recv(am, in, LARGE, NULL, &am_recv), WH_PENDING);
    return WH_OK;
}

TEST(the_payload_of_an_active_message) {
    begin_with(kit_reading);
    CHECK_EQ_INT(wh_worker_set_am(d.server, 3, on_am, NULL), WH_OK);
    fill(8);
    memset(in, 0, LARGE);
    wh_request *send = NULL;
    CHECK_EQ_INT(wh_am_send(d.to, 3, NULL, 0, out, LARGE, NULL, &send), WH_PENDING);
    UNTIL(&d, am_recv);
    CHECK_EQ_INT(done_as(&d, am_recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK(is_filled(8));
    CHECK_EQ_INT(kit_reads, TURNS);
    goes_on();
}

TEST_MAIN()
