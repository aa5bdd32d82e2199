// SPDX-License-Identifier: BSD-3-Clause
//
// Staging: device memory that passes through chunks of pinned memory, over the simulated device, whose copies are as late as
// the test wants.  After each case all chunks are free, and no copy is under way.
#include "engine/test_kit.h"
#include "mem/sim.h"

enum { SIZE = 3 << 20, SMALL = 100, TAG = 5, PENDING_MOST = 8 };

static duo d;
static unsigned char pattern[SIZE], back[SIZE], zeros[SIZE];
static const char *const shm[] = {"lanes=shm,stream", "stage_chunk=256K", NULL};
static const char *const sock[] = {"lanes=stream", "stage_chunk=256K", "stream_chunk=256K", NULL};
static const char *const scarce[] = {"lanes=shm,stream", "stage_chunk=64K", "stage_max=128K", NULL};
static const char *const never[] = {"lanes=shm,stream", "stage_max=0", NULL};
static const char *const wide[] = {"lanes=stream", "stage_chunk=64K", "stream_chunk=1M", NULL};
static const char *const few[] = {"lanes=stream", "stage_chunk=64K", "stage_max=64K",
                                  "stream_chunk=1M", NULL};
static const char *const *const ways[] = {shm, sock, scarce, never, wide, few};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static unsigned char *device(const void *content, size_t size) {
    void *ptr = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 1, size, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_SIM, content, WH_MEM_HOST, size), WH_OK);
    return ptr;
}

static void give(void *ptr) {
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, ptr), WH_OK);
}

static void check_device(const void *ptr, const void *expected, size_t size) {
    static unsigned char copy[SIZE];
    CHECK_EQ_INT(wh_mem_copy(copy, WH_MEM_HOST, ptr, WH_MEM_SIM, size), WH_OK);
    CHECK_MEM(copy, expected, size);
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
    wh_request *req = NULL;
    CHECK(wh_tag_send(d.to, from, size, tag, NULL, &req) >= 0);
    return req;
}

static wh_request *receive(void *into, size_t size, uint64_t tag) {
    wh_request *req = NULL;
    CHECK(wh_tag_recv(d.from, into, size, tag, WH_TAG_MASK_ALL, NULL, &req) >= 0);
    return req;
}

static void ends_as(wh_request *req, wh_status expected) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), expected);
}

static bool still(const wh_request *req) {
    return req && wh_request_status(req) == WH_PENDING;
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

// Each call of progress is short although each copy takes long, and a message passes those that wait for theirs.
TEST(nothing_blocks) {
    enum { LATE_US = 100 * 1000 };
    begin(shm, LATE_US);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received[2] = {receive(back, SIZE, TAG), receive(into, SIZE, TAG + 1)};
    wh_request *sent[2] = {send(from, 300000, TAG), send(pattern, SIZE, TAG + 1)};
    uint64_t longest = 0, start = whi_clock_ns();
    unsigned passed = 0;
    while (whi_clock_ns() < start + LATE_US / 2 * 1000) {
        char word[SMALL];
        wh_request *small = receive(word, SMALL, TAG + 2), *out = send(pattern, SMALL, TAG + 2);
        while (still(small) || still(out)) {
            uint64_t begun = whi_clock_ns();
            duo_pass(&d);
            uint64_t took = whi_clock_ns() - begun;
            longest = took > longest ? took : longest;
        }
        ends_as(small, WH_OK);
        ends_as(out, WH_OK);
        passed++;
    }
    CHECK(still(received[0]) && still(received[1]) && still(sent[0]));
    CHECK(passed > 10);
    CHECK(longest < LATE_US / 2 * 1000);
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

// The copies of a send overlap: 12 pieces that come 5 ms after they were asked for take far less than 60 ms.
TEST(several_copies_at_one_time) {
    enum { LATE_US = 10 * 1000 };
    begin(shm, LATE_US);
    unsigned char *from = device(pattern, SIZE);
    uint64_t start = whi_clock_ns();
    wh_request *received = receive(back, SIZE, TAG), *sent = send(from, SIZE, TAG);
    ends_as(received, WH_OK);
    CHECK(whi_clock_ns() - start < 7ull * LATE_US * 1000);
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
        UNTIL(&d, !still(received));
        wh_result result;
        CHECK_EQ_INT(wh_request_result(received, &result), WH_OK);
        CHECK_EQ_INT(result.status, WH_OK);
        wh_object_free(result.object);
        wh_request_free(received);
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

// Memory that ends before the buffer does: some copies were made, others cannot be.
TEST(copies_that_cannot_be_made) {
    for (int way = 0; way < WAYS; way++) {
        for (int bad = 0; bad < 2; bad++) {
            begin(ways[way], 200);
            unsigned char *from = device(pattern, bad ? SIZE : SIZE / 2);
            unsigned char *into = device(zeros, bad ? SIZE / 2 : SIZE);
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

TEST_MAIN()
