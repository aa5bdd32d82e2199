// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory that the receiver copies out of the sender's, between two workers of one process, over the simulated device,
// whose copies are as late as the test wants.
#include <pthread.h>

#include "engine/sim_kit.h"
#include "mem/sim.h"

enum { SIZE = 3 << 20, TAG = 5, LATE_US = 20 * 1000 };

static duo d;
static unsigned char pattern[SIZE], zeros[SIZE], host[SIZE];
static const char *const shm[] = {"lanes=shm,stream", NULL};
static const char *const staged[] = {"lanes=shm,stream", "device_path=staged", NULL};

static void begin(const char *const *server, const char *const *client, unsigned delay_us) {
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 256 + i / 65536 * 3);
    duo_begin(&d, server, client);
    duo_connect(&d);
    whi_sim_set_delay(delay_us * 1000);
}

static const whi_message_room *room_of(const wh_worker *worker) {
    return whi_messages_of(worker);
}

static wh_counters counters_of(const wh_worker *worker) {
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_worker_counters(worker, &counters), WH_OK);
    return counters;
}

static void end(void) {
    CHECK_EQ_INT(d.client->counters.pending, 0);
    CHECK_EQ_INT(d.server->counters.pending, 0);
    whi_sim_set_delay(0);
    duo_end(&d);
}

static wh_request *send(const void *from, size_t size, uint64_t tag) {
    return send_tagged(&d, from, size, tag, NULL);
}

static wh_request *receive(void *into, size_t size, uint64_t tag) {
    return recv_tagged(&d, into, size, tag, NULL);
}

// pass sends one message from device to device.
static void pass(size_t size, wh_status expected, size_t space) {
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received = receive(into, space, TAG), *sent = send(from, size, TAG);
    CHECK_EQ_INT(done_as(&d, received), expected);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    check_device(into, pattern, size < space ? size : space);
    check_device(into + space, zeros, SIZE - space);
    give(from);
    give(into);
}

TEST(one_copy) {
    static const size_t sizes[] = {20000, 65536, 1 << 20, SIZE};
    for (unsigned delay_us = 0; delay_us <= 300; delay_us += 300) {
        begin(shm, shm, delay_us);
        for (size_t i = 0; i < 4; i++) {
            pass(sizes[i], WH_OK, SIZE);
            pass(sizes[i], WH_ETRUNCATED, sizes[i] - 1000);
        }
        CHECK_EQ_INT(counters_of(d.server).device_received, 8);
        CHECK_EQ_INT(counters_of(d.client).device_sent, 8);
        CHECK_EQ_INT(room_of(d.server)->stage.count + room_of(d.client)->stage.count, 0);
        end();
    }
}

TEST(either_side_may_want_it_staged) {
    for (int way = 0; way < 3; way++) {
        begin(way != 1 ? staged : shm, way != 0 ? staged : shm, 0);
        pass(SIZE, WH_OK, SIZE);
        CHECK_EQ_INT(counters_of(d.server).device_received, 0);
        CHECK(room_of(d.server)->stage.count && room_of(d.client)->stage.count);
        end();
    }
}

// A worker's endpoint to itself, and memory of the host at one end.
TEST(the_worker_itself_and_the_host) {
    begin(shm, shm, 100);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    static unsigned char back[SIZE];
    wh_request *received = receive(back, SIZE, TAG), *sent = send(from, SIZE, TAG);
    CHECK_EQ_INT(done_as(&d, received), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    CHECK_MEM(back, pattern, SIZE);
    CHECK_EQ_INT(counters_of(d.server).device_received, 0);

    wh_endpoint *self = NULL;
    unsigned before = d.accepted_count;
    CHECK_EQ_INT(wh_endpoint_connect(d.server, d.address, NULL, &self), WH_OK);
    UNTIL(&d, wh_endpoint_status(self) == WH_OK && d.accepted_count > before);
    received = NULL, sent = NULL;
    CHECK(wh_tag_recv(d.accepted[before], into, SIZE, TAG, WH_TAG_MASK_ALL, NULL, &received) >= 0);
    CHECK(wh_tag_send(self, from, SIZE, TAG, NULL, &sent) >= 0);
    CHECK_EQ_INT(done_as(&d, received), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    check_device(into, pattern, SIZE);
    CHECK_EQ_INT(counters_of(d.server).device_received, 1);
    wh_endpoint_abort(self);
    wh_endpoint_abort(d.accepted[before]);
    give(from);
    give(into);
    end();
}

// Each call of progress is short although the copy takes long, and the send is not done before it.
TEST(nothing_blocks_and_the_sender_waits) {
    enum { LATER_US = 5 * LATE_US };
    begin(shm, shm, LATER_US);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received = receive(into, SIZE, TAG), *sent = send(from, SIZE, TAG);
    uint64_t start = whi_clock_ns(), longest = 0;
    while (whi_clock_ns() < start + LATER_US / 2 * 1000) {
        uint64_t begun = whi_clock_ns();
        duo_pass(&d);
        uint64_t took = whi_clock_ns() - begun;
        longest = took > longest ? took : longest;
        CHECK((still(received) && still(sent)) || whi_clock_ns() > start + LATER_US * 1000);
    }
    CHECK(longest < LATER_US / 2 * 1000);
    CHECK_EQ_INT(done_as(&d, received), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    check_device(into, pattern, SIZE);
    give(from);
    give(into);
    end();
}

// Frames on devices and of the host, some into memory of the other kind.
TEST(frames_of_an_object) {
    enum { FRAMES = 4, EACH = SIZE / 4 };
    for (int swap = 0; swap < 2; swap++) {
        begin(shm, shm, 100);
        static unsigned char back[FRAMES][EACH];
        unsigned char *from[FRAMES], *into[FRAMES];
        wh_frame out[FRAMES], in[FRAMES];
        for (int i = 0; i < FRAMES; i++) {
            from[i] = i == 1 ? pattern + i : device(pattern + i, EACH);
            into[i] = i == 1 + swap ? back[i] : device(zeros, EACH);
            out[i] = (wh_frame){.data = from[i], .size = EACH};
            in[i] = (wh_frame){.data = into[i], .size = EACH};
        }
        wh_request *sent = NULL, *received = NULL;
        CHECK(wh_object_recv(d.from, in, FRAMES, sizeof(*in), TAG, WH_TAG_MASK_ALL, NULL,
                             &received) >= 0);
        CHECK(wh_object_send(d.to, NULL, 0, out, FRAMES, sizeof(*out), TAG, NULL, &sent) >= 0);
        object_done(&d, received);
        CHECK_EQ_INT(done_as(&d, sent), WH_OK);
        for (int i = 0; i < FRAMES; i++) {
            if (i == 1 + swap)
                CHECK_MEM(into[i], pattern + i, EACH);
            else
                check_device(into[i], pattern + i, EACH);
            if (i != 1)
                give(from[i]);
            if (i != 1 + swap)
                give(into[i]);
        }
        // One that the receiver refuses has the rest of its object sent.
        CHECK_EQ_INT(counters_of(d.server).device_received, swap ? 1 : 3);
        end();
    }
}

// Memory that ends before the buffer does is the error that it is when it is staged, and the link goes on.
TEST(memory_that_is_too_short) {
    for (int bad = 0; bad < 2; bad++) {
        begin(shm, shm, 100);
        unsigned char *from = device(pattern, bad ? SIZE : SIZE / 2);
        unsigned char *into = device(zeros, bad ? SIZE / 2 : SIZE);
        wh_request *received = receive(into, SIZE, TAG), *sent = send(from, SIZE, TAG);
        UNTIL(&d, !still(received) && !still(sent));
        CHECK_EQ_INT(wh_request_status(received), bad ? WH_EINVAL : WH_ECANCELLED);
        CHECK_EQ_INT(wh_request_status(sent), bad ? WH_OK : WH_EINVAL);
        wh_request_free(received);
        wh_request_free(sent);
        give(from);
        give(into);
        pass(SIZE, WH_OK, SIZE);
        end();
    }
}

// A sender that has its memory back without an answer has hung up: from then on nothing counts that is copied from there.
static bool was_hung_up, was_done;

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    was_done = true;
    was_hung_up = result->status < 0 && whi_link_hung_up(arg);
}

TEST(a_sender_that_goes_hangs_up_first) {
    begin(shm, shm, LATE_US);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received = receive(into, SIZE, TAG);
    CHECK_EQ_INT(
        wh_tag_send(d.to, from, SIZE, TAG, WH_OP_OPTS(.done = on_done, .arg = d.from->link), NULL),
        WH_PENDING);
    UNTIL(&d, !whi_list_empty(&room_of(d.server)->stage.under_way));
    whi_link_fail(d.to->link, WH_ESYSTEM, "the test says so");
    while (!was_done)
        wh_worker_progress(d.client);
    CHECK(was_hung_up);
    CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_SIM, zeros, WH_MEM_HOST, SIZE), WH_OK);
    give(from);
    CHECK_EQ_INT(done_as(&d, received), WH_EPEER);
    give(into);
    end();
}

// The two workers are two threads'.  The sender's gives its memory back when the receiver's is about to copy: it waits for that.
static unsigned char *offered, *destination;
static pthread_t sender;
static _Atomic bool has_memory_back;
static bool had_it_before_the_copy;

static void on_done_here(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)result, (void)arg;
    was_done = true;
}

static void *goes(void *arg) {
    (void)arg;
    CHECK_EQ_INT(wh_worker_adopt(d.client), WH_OK);
    whi_link_fail(d.to->link, WH_ESYSTEM, "the test says so");
    while (!was_done)
        wh_worker_progress(d.client);
    atomic_store(&has_memory_back, true);
    check_device(destination, pattern, SIZE);  // it has passed
    CHECK_EQ_INT(wh_mem_copy(offered, WH_MEM_SIM, zeros, WH_MEM_HOST, SIZE), WH_OK);
    give(offered);
    return NULL;
}

static void about_to_copy(void) {
    whi_sim_on_copy(NULL);
    CHECK_EQ_INT(pthread_create(&sender, NULL, goes, NULL), 0);
    for (int ms = 0; ms < 200 && !atomic_load(&has_memory_back); ms++)
        usleep(1000);
    had_it_before_the_copy = atomic_load(&has_memory_back);
}

TEST(a_sender_of_another_thread_goes_when_the_copy_begins) {
    begin(shm, shm, LATE_US);
    was_done = false;
    offered = device(pattern, SIZE);
    destination = device(zeros, SIZE);
    whi_sim_on_copy(about_to_copy);
    wh_request *received = receive(destination, SIZE, TAG);
    CHECK_EQ_INT(wh_tag_send(d.to, offered, SIZE, TAG, WH_OP_OPTS(.done = on_done_here), NULL),
                 WH_PENDING);
    UNTIL(&d, sender);
    KIT_UNTIL(wh_worker_progress(d.server), "the receive", !still(received));
    CHECK_EQ_INT(pthread_join(sender, NULL), 0);
    CHECK_EQ_INT(wh_worker_adopt(d.client), WH_OK);
    CHECK(!had_it_before_the_copy);
    CHECK_EQ_INT(wh_request_status(received), WH_EPEER);
    wh_request_free(received);
    give(destination);
    end();
}

typedef enum fate {
    CANCELS_SEND,
    CANCELS_RECEIVE,
    ABORTS_SEND,
    ABORTS_RECEIVE,
    SENDER_GOES,
    RECEIVER_GOES,
    FATES
} fate;

static void meet(fate how) {
    if (how == ABORTS_SEND) {
        wh_endpoint_abort(d.to);
        d.to = NULL;
    } else if (how == ABORTS_RECEIVE) {
        wh_endpoint_abort(d.from);
        d.from = NULL;
    } else if (how == SENDER_GOES) {
        wh_worker_destroy(d.client);
        wh_endpoint_abort(d.to);
        d.client = NULL;
        d.to = NULL;
    } else if (how == RECEIVER_GOES) {
        wh_listener_close(d.listener);
        wh_worker_destroy(d.server);
        wh_endpoint_abort(d.from);
        d.server = NULL;
        d.from = NULL;
    }
}

// ends_after has something end at any moment.  As soon as a side has its memory back it changes and frees it: a receive that
// says so has the right bytes, and nothing is written or read afterwards.
static void ends_after(fate how, unsigned steps) {
    begin(shm, shm, 500);
    unsigned char *from = device(pattern, SIZE), *into = device(zeros, SIZE);
    wh_request *received = receive(into, SIZE, TAG), *sent = send(from, SIZE, TAG);
    for (unsigned i = 0; i < steps && (still(received) || still(sent)); i++)
        duo_pass(&d);
    if (how == CANCELS_SEND)
        wh_request_cancel(sent);
    else if (how == CANCELS_RECEIVE)
        wh_request_cancel(received);
    else
        meet(how);
    uint64_t limit = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
    wh_request *later = NULL;  // which may get what a cancelled receive has left
    bool given = false, seen = false;
    while (!given || !seen) {
        if (!given && !still(sent)) {
            CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_SIM, zeros, WH_MEM_HOST, SIZE), WH_OK);
            give(from);
            given = true;
        }
        if (!seen && !still(received)) {
            if (wh_request_status(received) == WH_OK)
                check_device(into, pattern, SIZE);
            CHECK_EQ_INT(wh_mem_copy(into, WH_MEM_SIM, pattern, WH_MEM_HOST, SIZE), WH_OK);
            seen = true;
            if (how == CANCELS_RECEIVE && !given)
                later = receive(host, SIZE, TAG);
        }
        if (seen && !given && how == CANCELS_SEND && !still(sent))
            continue;
        if (given && !seen && how == CANCELS_SEND && wh_request_status(sent) == WH_ECANCELLED) {
            wh_request_cancel(received);  // it has its place again
        }
        if (d.client)
            wh_worker_progress(d.client);
        if (d.server)
            wh_worker_progress(d.server);
        CHECK(whi_clock_ns() < limit);
    }
    whi_sim_drain();
    check_device(into, pattern, SIZE);
    give(into);
    wh_request_free(received);
    wh_request_free(sent);
    wh_request_free(later);
    whi_sim_set_delay(0);
    if (!d.server) {
        wh_endpoint_abort(d.to);
        wh_worker_destroy(d.client);
        wh_context_destroy(d.ctx[0]);
        wh_context_destroy(d.ctx[1]);
        d = (duo){.server = NULL};
        wh_log_set_sink(NULL, NULL);
    } else {
        duo_end(&d);
    }
}

TEST(the_end_in_the_middle) {
    for (unsigned steps = 0; steps < 3000; steps = steps * 3 / 2 + 1)
        for (int how = 0; how < FATES; how++)
            ends_after((fate)how, steps);
}

TEST_MAIN()
