// SPDX-License-Identifier: BSD-3-Clause
//
// Staging: device memory that passes through chunks of pinned memory, over the simulated device, whose copies are as late as
// the test wants.  After each case all chunks are free, and no copy is under way.
#include "engine/sim_kit.h"
#include "mem/sim.h"
#include "message/stage.h"

enum { SIZE = 3 << 20, SMALL = 100, TAG = 5, PENDING_MOST = 8 };

static duo d;
static unsigned char pattern[SIZE], back[SIZE], zeros[SIZE];
#define STAGED "device_path=staged"
static const char *const shm[] = {"lanes=shm,stream", "stage_chunk=256K", STAGED, NULL};
static const char *const sock[] = {"lanes=stream", "stage_chunk=256K", "stream_chunk=256K", STAGED,
                                   NULL};
static const char *const scarce[] = {"lanes=shm,stream", "stage_chunk=64K", "stage_max=128K",
                                     STAGED, NULL};
static const char *const never[] = {"lanes=shm,stream", "stage_max=0", STAGED, NULL};
static const char *const wide[] = {"lanes=stream", "stage_chunk=64K", "stream_chunk=1M", STAGED,
                                   NULL};
static const char *const few[] = {
    "lanes=stream", "stage_chunk=64K", "stage_max=64K", "stream_chunk=1M", STAGED, NULL};
static const char *const *const ways[] = {shm, sock, scarce, never, wide, few};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void *blank(size_t size) {
    void *ptr = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 1, size, &ptr), WH_OK);
    return ptr;
}

static void begin(const char *const *options, unsigned delay_us) {
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 256 + i / 65536 * 3);
    memset(back, 0, SIZE);
    duo_begin(&d, options, options);
    duo_connect(&d);
    whi_sim_set_delay(delay_us * 1000);
}

static const whi_stage_room *stage_of(const wh_worker *worker) {
    return &whi_messages_of(worker)->stage;
}

static unsigned free_chunks(const whi_stage_room *room) {
    unsigned count = 0;
    for (const whi_list *node = room->free.next; node != &room->free; node = node->next)
        count++;
    return count;
}

static void all_free(const wh_worker *worker) {
    const whi_stage_room *room = stage_of(worker);
    CHECK(whi_list_empty(&room->under_way));
    CHECK(room->count <= room->limit);
    CHECK_EQ_INT(free_chunks(room), room->count);
    CHECK_EQ_INT(worker->counters.pending, 0);
}

static void end(void) {
    all_free(d.server);
    all_free(d.client);
    whi_sim_set_delay(0);
    duo_end(&d);
}

static wh_request *send(const void *from, size_t size, uint64_t tag) {
    return send_tagged(&d, from, size, tag, NULL);
}

static wh_request *receive(void *into, size_t size, uint64_t tag) {
    return recv_tagged(&d, into, size, tag, NULL);
}

static void ends_as(wh_request *req, wh_status expected) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), expected);
}

// pass sends from one side's memory to the other's, either of them a device's.
static void pass(size_t size, bool from_device, bool to_device) {
    unsigned char *from = from_device ? device(pattern, SIZE) : pattern;
    unsigned char *into = to_device ? device(zeros, SIZE) : back;
    memset(back, 0, SIZE);
    wh_request *received = receive(into, SIZE, TAG), *sent = send(from, size, TAG);
    ends_as(sent, WH_OK);
    ends_as(received, WH_OK);
    if (to_device)
        check_device(into, pattern, size);
    else
        CHECK_MEM(back, pattern, size);
    if (from_device)
        give(from);
    if (to_device)
        give(into);
}

TEST(bytes) {
    static const size_t sizes[] = {20000, 65536, 70000, 1 << 20, SIZE};
    for (int way = 0; way < WAYS; way++) {
        for (unsigned delay_us = 0; delay_us <= 300; delay_us += 300) {
            begin(ways[way], delay_us);
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                for (int devices = 1; devices < 4; devices++)
                    pass(sizes[i], devices & 1, devices & 2);
            CHECK(ways[way] == never || stage_of(d.client)->count);
            CHECK(ways[way] == never || stage_of(d.server)->count);
            end();
        }
    }
}

// NEVER_US is later than any test waits: such copies are made by whi_sim_drain, at a moment that the test chooses.
enum { NEVER_US = 3 * KIT_PATIENCE_S * 1000 * 1000 };

// let_all_come ends that.
static void let_all_come(void) {
    whi_sim_set_delay(0);
    whi_sim_drain();
}

// No call of progress waits for a copy, and a message passes those that wait for theirs.
TEST(nothing_blocks) {
    enum { PASSING = 20 };
    begin(shm, NEVER_US);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received[2] = {receive(back, SIZE, TAG), receive(into, SIZE, TAG + 1)};
    wh_request *sent[2] = {send(from, 300000, TAG), send(pattern, SIZE, TAG + 1)};
    UNTIL(&d, !whi_list_empty(&stage_of(d.client)->under_way) &&
                  !whi_list_empty(&stage_of(d.server)->under_way));
    for (int i = 0; i < PASSING; i++) {
        char word[SMALL];
        wh_request *small = receive(word, SMALL, TAG + 2), *out = send(pattern, SMALL, TAG + 2);
        ends_as(small, WH_OK);
        ends_as(out, WH_OK);
    }
    CHECK(still(received[0]) && still(received[1]) && still(sent[0]));
    let_all_come();
    for (int i = 0; i < 2; i++) {
        ends_as(received[i], WH_OK);
        ends_as(sent[i], WH_OK);
    }
    CHECK_MEM(back, pattern, 300000);
    check_device(into, pattern, SIZE);
    give(from);
    give(into);
    end();
}

// The copies of a send overlap: the device has several of its 12 pieces to copy each time that it comes to it.
TEST(several_copies_at_one_time) {
    enum { TIMES_MOST = 6, PASSES = 1000 };
    begin(shm, NEVER_US);
    unsigned char *from = device(pattern, SIZE);
    wh_request *received = receive(back, SIZE, TAG), *sent = send(from, SIZE, TAG);
    UNTIL(&d, sent->staged);
    unsigned times = 0;
    for (; still(received); times++) {
        CHECK(times < TIMES_MOST);
        whi_sim_drain();
        for (int i = 0; i < PASSES; i++)
            duo_pass(&d);
    }
    CHECK(times > 1);  // and not all at once
    ends_as(received, WH_OK);
    CHECK_EQ_INT(stage_of(d.client)->without, 0);
    ends_as(sent, WH_OK);
    CHECK_MEM(back, pattern, SIZE);
    give(from);
    end();
}

TEST(many_at_one_time_with_few_chunks) {
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], 100);
        unsigned char *from = device(pattern, SIZE), *into[PENDING_MOST];
        wh_request *sent[PENDING_MOST], *received[PENDING_MOST];
        for (int i = 0; i < PENDING_MOST; i++) {
            into[i] = device(zeros, SIZE / 4);
            received[i] = receive(into[i], SIZE / 4, TAG + (unsigned)i);
            sent[i] = send(from + i * 1000, SIZE / 4, TAG + (unsigned)i);
        }
        for (int i = 0; i < PENDING_MOST; i++) {
            ends_as(sent[i], WH_OK);
            ends_as(received[i], WH_OK);
            check_device(into[i], pattern + i * 1000, SIZE / 4);
            give(into[i]);
        }
        CHECK(stage_of(d.client)->count <= stage_of(d.client)->limit);
        if (ways[way] == scarce || ways[way] == few)
            CHECK(stage_of(d.client)->without + stage_of(d.server)->without > 0);
        give(from);
        end();
    }
}

TEST(frames_of_an_object) {
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], 100);
        unsigned char *from[3], *into[3];
        wh_frame out[4], in[4];
        for (int i = 0; i < 3; i++) {
            from[i] = device(pattern + i, SIZE / 3);
            into[i] = device(zeros, SIZE / 3);
            out[i] = (wh_frame){.data = from[i], .size = SIZE / 3 - 1000};
            in[i] = (wh_frame){.data = into[i], .size = SIZE / 3};
        }
        out[3] = (wh_frame){.data = pattern, .size = SIZE};
        in[3] = (wh_frame){.data = back, .size = SIZE};
        wh_request *sent = NULL, *received = NULL;
        CHECK(wh_object_recv(d.from, in, 4, sizeof(*in), TAG, WH_TAG_MASK_ALL, NULL, &received) >=
              0);
        CHECK(wh_object_send(d.to, NULL, 0, out, 4, sizeof(*out), TAG, NULL, &sent) >= 0);
        object_done(&d, received);
        ends_as(sent, WH_OK);
        CHECK_MEM(back, pattern, SIZE);
        for (int i = 0; i < 3; i++) {
            check_device(into[i], pattern + i, SIZE / 3 - 1000);
            give(from[i]);
            give(into[i]);
        }
        end();
    }
}

// As many chunks are filled ahead at the end of a frame as in the middle of one, over a short frame of the host's, too.
TEST(frames_are_filled_ahead) {
    enum { FRAMES = 8, EACH = 64 << 10, AHEAD = 4, HOST = 2 };
    begin(shm, NEVER_US);
    unsigned char *from = device(pattern, FRAMES * EACH);
    wh_frame out[FRAMES], in[FRAMES];
    for (int i = 0; i < FRAMES; i++) {
        out[i] = (wh_frame){.data = (i == HOST ? pattern : from) + i * EACH, .size = EACH};
        in[i] = (wh_frame){.data = back + i * EACH, .size = EACH};
    }
    wh_request *sent = NULL, *received = NULL;
    CHECK(wh_object_recv(d.from, in, FRAMES, sizeof(*in), TAG, WH_TAG_MASK_ALL, NULL, &received) >=
          0);
    CHECK(wh_object_send(d.to, NULL, 0, out, FRAMES, sizeof(*out), TAG, NULL, &sent) >= 0);
    UNTIL(&d, sent->staged);
    CHECK_EQ_INT(sent->segment, 1);
    CHECK_EQ_INT(sent->staged->ahead, AHEAD);
    CHECK_EQ_INT(sent->staged->segment, AHEAD + 1);  // and frame 3 is the host's
    let_all_come();
    object_done(&d, received);
    ends_as(sent, WH_OK);
    CHECK_MEM(back, pattern, FRAMES * EACH);
    give(from);
    end();
}

// Memory that is SHORT of half of what is said ends within a part that is copied, so that it does not matter whose the bytes
// behind it are.
enum { SHORT = 100 };

// The third frame's memory ends early, which is found while the first is being copied.
TEST(a_frame_ahead_that_cannot_be_read) {
    enum { EACH = 64 << 10 };
    for (int way = 0; way < WAYS; way++) {
        begin(ways[way], 300);
        unsigned char *from = device(pattern, 2 * EACH), *bad = device(pattern, EACH / 2 - SHORT);
        const wh_frame out[] = {{.data = from, .size = EACH},
                                {.data = from + EACH, .size = EACH},
                                {.data = bad, .size = EACH}};
        wh_frame in[3];
        for (int i = 0; i < 3; i++)
            in[i] = (wh_frame){.data = back + i * EACH, .size = EACH};
        wh_request *sent = NULL, *received = NULL;
        CHECK(wh_object_recv(d.from, in, 3, sizeof(*in), TAG, WH_TAG_MASK_ALL, NULL, &received) >=
              0);
        CHECK(wh_object_send(d.to, NULL, 0, out, 3, sizeof(*out), TAG, NULL, &sent) >= 0);
        ends_as(sent, WH_EINVAL);
        ends_as(received, WH_ECANCELLED);
        CHECK(logged("E-MEM-01"));
        give(from);
        give(bad);
        pass(SIZE, true, true);  // the link goes on
        end();
    }
}

// Memory that ends before the buffer does: some copies were made, others cannot be.
TEST(copies_that_cannot_be_made) {
    for (int way = 0; way < WAYS; way++) {
        for (int bad = 0; bad < 2; bad++) {
            begin(ways[way], 200);
            unsigned char *from = device(pattern, bad ? SIZE : SIZE / 2 - SHORT);
            unsigned char *into = device(zeros, bad ? SIZE / 2 - SHORT : SIZE);
            wh_request *received = receive(into, SIZE, TAG), *sent = send(from, SIZE, TAG);
            UNTIL(&d, !still(received) && !still(sent));
            CHECK_EQ_INT(wh_request_status(received), bad ? WH_EINVAL : WH_ECANCELLED);
            CHECK_EQ_INT(wh_request_status(sent), bad ? WH_OK : WH_EINVAL);
            wh_request_free(received);
            wh_request_free(sent);
            CHECK(logged("E-MEM-01"));
            give(from);
            give(into);
            // The link goes on.
            pass(SIZE, true, true);
            end();
        }
    }
}

// sends_alone has the sender go on alone, until the socket takes no more in the middle of a chunk.  False: it has ended.
static bool sends_alone(const wh_request *sent) {
    UNTIL(&d, !still(sent) || sent->stage == WHI_STAGE_MOVING);
    KIT_UNTIL(wh_worker_progress(d.client), "a full socket",
              !still(sent) || whi_messages_on(d.to->link)->mid == sent);
    return still(sent);
}

// A chunk comes free, and would be filled with what cannot be read, while the lane is within the one before it: that one
// has to be finished first, or what comes next is taken for its rest.
TEST(a_frame_ahead_that_cannot_be_read_while_the_socket_is_full) {
    enum { CHUNK = 256 << 10, FULL = 16 << 20 };  // more than a socket takes that nobody reads
    static const char *const one[] = {
        "lanes=stream", "stage_chunk=256K", "stage_max=256K", "stream_chunk=256K", STAGED, NULL};
    bool met = false;
    for (size_t size = CHUNK; size <= FULL && !met; size += CHUNK / 2) {
        begin(one, 0);
        unsigned char *from = blank(size), *bad = device(pattern, CHUNK / 2 - SHORT);
        const wh_frame out[] = {{.data = from, .size = size}, {.data = bad, .size = CHUNK}};
        wh_request *received = NULL, *sent = NULL;
        CHECK(wh_object_recv(d.from, NULL, 0, 0, TAG, WH_TAG_MASK_ALL, NULL, &received) >= 0);
        CHECK(wh_object_send(d.to, NULL, 0, out, 2, sizeof(*out), TAG, NULL, &sent) >= 0);
        if (sends_alone(sent)) {
            met = sent->segment == 1 && size - sent->offset <= CHUNK;
            whi_messages_of(d.client)->stage.limit++;
            for (int i = 0; i < 10; i++)
                wh_worker_progress(d.client);
        }
        ends_as(sent, WH_EINVAL);
        ends_as(received, WH_ECANCELLED);
        give(from);
        give(bad);
        pass(SIZE, true, true);
        end();
    }
    CHECK(met);
}

// One that ends at any moment: afterwards nothing is copied to or from its memory.
static void ended_after(const char *const *options, unsigned steps, bool by_sender,
                        bool peer_dies) {
    begin(options, 500);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received = receive(into, SIZE, TAG), *sent = send(from, SIZE, TAG);
    for (unsigned i = 0; i < steps; i++)
        duo_pass(&d);
    if (peer_dies && by_sender) {
        wh_worker_destroy(d.client);
        wh_endpoint_abort(d.to);
        d.client = NULL;
        d.to = NULL;
    } else if (by_sender) {
        wh_endpoint_abort(d.to);
        d.to = NULL;
    } else {
        wh_endpoint_abort(d.from);
        d.from = NULL;
    }
    uint64_t limit = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
    while (still(received) || still(sent)) {
        if (d.client)
            wh_worker_progress(d.client);
        wh_worker_progress(d.server);
        CHECK(whi_clock_ns() < limit);
    }
    CHECK_EQ_INT(wh_mem_copy(into, WH_MEM_SIM, pattern, WH_MEM_HOST, SIZE), WH_OK);
    give(from);
    whi_sim_drain();
    check_device(into, pattern, SIZE);
    wh_request_free(received);
    wh_request_free(sent);
    all_free(d.server);
    if (d.client)
        all_free(d.client);
    whi_sim_set_delay(0);
    duo_end(&d);
    give(into);
}

TEST(the_end_in_the_middle) {
    for (unsigned steps = 1; steps < 20000; steps = steps * 3 / 2 + 1) {
        ended_after(shm, steps, true, false);
        ended_after(sock, steps, true, true);
        ended_after(sock, steps, false, false);
    }
}

// A peer that sends all and goes, in order or not: what has come is received.
static void goes(const char *const *options, bool in_order) {
    begin(options, 5000);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received = receive(into, SIZE, TAG), *sent = send(from, SIZE, TAG), *closed = NULL;
    ends_as(sent, WH_OK);
    if (in_order)
        CHECK(wh_endpoint_close(d.to, NULL, &closed) >= 0);
    else
        wh_endpoint_abort(d.to);
    d.to = NULL;
    ends_as(closed, WH_OK);
    ends_as(received, WH_OK);
    check_device(into, pattern, SIZE);
    give(from);
    give(into);
    end();
}

TEST(the_sender_goes_when_all_is_sent) {
    for (int way = 0; way < WAYS; way++) {
        goes(ways[way], true);
        goes(ways[way], false);
    }
}

// begun_with starts an operation that may end early: by its own time if that is not 0.
static wh_request *begun_with(bool sends, void *memory, const wh_type *type, int timeout_ms) {
    wh_request *req = NULL;
    size_t count = type ? 1 : SIZE / 2;
    const wh_op_opts *opts = WH_OP_OPTS(.timeout_ms = timeout_ms ? timeout_ms : -1, .type = type);
    CHECK((sends ? wh_tag_send(d.to, memory, count, TAG, opts, &req)
                 : wh_tag_recv(d.from, memory, count, TAG, WH_TAG_MASK_ALL, opts, &req)) >= 0);
    return req;
}

static wh_status ended(wh_request *req) {
    UNTIL(&d, !still(req));
    wh_status st = wh_request_status(req);
    wh_request_free(req);
    return st;
}

// One operation is cancelled, or its time ends, after so many passes: both end once, and the memory of one that has failed is
// left alone.  `type`: a layout, at the side that goes.
static void left_after(const char *const *options, unsigned passes, bool by_sender, bool by_time,
                       const wh_type *type) {
    begin(options, 500);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    const wh_type *sent_as = by_sender ? type : NULL, *received_as = by_sender ? NULL : type;
    wh_request *received =
        begun_with(false, into, received_as, !by_sender && by_time ? (int)passes + 1 : 0);
    wh_request *sent = begun_with(true, from, sent_as, by_sender && by_time ? (int)passes + 1 : 0);
    for (unsigned i = 0; i < passes; i++)
        duo_pass(&d);
    if (!by_time)
        wh_request_cancel(by_sender ? sent : received);
    if (by_sender) {
        wh_status st = ended(sent);
        CHECK(st == WH_OK || st == (by_time ? WH_ETIMEDOUT : WH_ECANCELLED));
        if (st != WH_OK)
            wh_request_cancel(received);  // which nothing else might end
        CHECK(ended(received) == WH_OK || st != WH_OK);
    } else {
        wh_status st = ended(received);
        CHECK(st == WH_OK || st == (by_time ? WH_ETIMEDOUT : WH_ECANCELLED));
        CHECK_EQ_INT(wh_mem_copy(into, WH_MEM_SIM, zeros, WH_MEM_HOST, SIZE), WH_OK);
        wh_request_cancel(sent);
        (void)ended(sent);
        duo_for(&d, 2);
        whi_sim_drain();
        check_device(into, zeros, SIZE);
    }
    give(from);
    give(into);
    end();
}

TEST(cancelled_or_out_of_time_in_the_middle) {
    wh_type *rows = NULL;
    CHECK_EQ_INT(
        wh_type_create_vector(16, SIZE / 32, SIZE / 16, wh_type_basic(WH_TYPE_BYTE), &rows), WH_OK);
    for (unsigned i = 0; i < 2 * 2 * 2 * 12; i++) {
        const char *const *way = i & 8 ? sock : shm;
        left_after(way, i / 8, i & 1, i & 2, i & 4 ? rows : NULL);
    }
    wh_type_release(rows);
}

TEST_MAIN()
