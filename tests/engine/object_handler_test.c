// SPDX-License-Identifier: BSD-3-Clause
//
// The worker's handler of objects: each object that nobody else receives comes to it once, whole, in
// the order of the sends, whatever its size; and how it ends with its endpoint, peer and worker.
#include "engine/allocator_kit.h"

enum { TAG = 3, LARGE = 300000, MANY = 100 };

static duo d;
static char bytes[LARGE];
static unsigned came, lost;
static uint64_t next_number;
static void (*inside)(void);  // what the handler does beside

static void on_object(wh_endpoint *ep, wh_object *object, void *arg) {
    CHECK(arg == &d);
    CHECK(ep == d.from);
    CHECK_EQ_INT(wh_object_tag(object), TAG);
    size_t size;
    uint64_t number;
    memcpy(&number, wh_object_header(object, &size), sizeof(number));
    CHECK_EQ_INT(size, sizeof(number));
    CHECK_EQ_INT(number, next_number);
    next_number = number + 1;
    came++;
    for (size_t i = 0; i < wh_object_count(object); i++) {
        const wh_frame *frame = wh_object_frame(object, i);
        CHECK(memcmp(frame->data, bytes, frame->size) == 0);
    }
    CHECK_EQ_INT(lost, 0);  // what was sent before the end comes before it is told
    wh_object_free(object);
    if (inside)
        inside();
}

static void set(wh_object_fn fn) {
    CHECK_EQ_INT(wh_worker_set_object(d.server, fn, &d), WH_OK);
}

static void must_be_ours(const wh_object *object) {
    CHECK(wh_object_arg(object) == &d);
}

static void begin(const char *lane) {
    const char *options[] = {lane, NULL};
    duo_begin(&d, options, options);
    duo_connect(&d);
    memset(bytes, 7, sizeof(bytes));
    came = asked = given = freed = lost = 0;
    next_number = 0;
    inside = NULL;
    parked = NULL;
    while_asked = must_be_ours;
}

static wh_request *send_one(uint64_t number, size_t size) {
    wh_frame frame = {.data = bytes, .size = size};
    wh_request *req = NULL;
    CHECK(wh_object_send(d.to, &number, sizeof(number), &frame, 1, sizeof(wh_frame), TAG, NULL,
                         &req) >= 0);
    return req;
}

// send_many sends small and large ones by turns, more of either than are asked for at a time.
static void send_many(void) {
    for (uint64_t i = 0; i < MANY; i++)
        wh_request_free(send_one(i, i % 3 ? 10 : LARGE));
}

static void end(void) {
    CHECK_EQ_INT(d.server->counters.pending, 0);
    duo_end(&d);
    CHECK_EQ_INT(freed, given);
}

static const char *const lanes[] = {"lanes=shm", "lanes=stream"};

TEST(objects_come_in_order) {
    for (int lane = 0; lane < 2; lane++) {
        for (int before = 0; before < 2; before++) {
            begin(lanes[lane]);
            if (before)
                set(on_object);
            send_many();
            duo_for(&d, 2);
            if (!before)
                set(on_object);
            UNTIL(&d, came == MANY);
            end();
        }
    }
}

// What comes in the pass in which a handler gets those that were kept does not pass them.
TEST(new_ones_wait_for_kept_ones) {
    begin(lanes[0]);
    for (uint64_t i = 0; i < 3; i++)
        wh_request_free(send_one(i, 10));
    UNTIL(&d, d.from->counters.unexpected == 3);
    for (uint64_t i = 3; i < 6; i++)
        wh_request_free(send_one(i, 10));
    set(on_object);
    KIT_UNTIL((void)wh_worker_progress(d.server), "all", came == 6);
    end();
}

TEST(a_posted_receive_comes_first) {
    begin(lanes[0]);
    set(on_object);
    wh_request *recv = NULL;
    wh_result result;
    CHECK_EQ_INT(
        wh_object_recv(d.from, NULL, 0, sizeof(wh_frame), TAG, WH_TAG_MASK_ALL, NULL, &recv),
        WH_PENDING);
    wh_request_free(send_one(99, 10));
    wh_request_free(send_one(0, 10));
    UNTIL(&d, came == 1);
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    wh_object_free(result.object);
    wh_request_free(recv);
    end();
}

// ---- unset

static void unset(void) {
    set(NULL);
}

TEST(unset_and_set_again) {
    for (int lane = 0; lane < 2; lane++) {
        begin(lanes[lane]);
        inside = unset;
        set(on_object);
        send_many();
        for (unsigned i = 1; i <= MANY; i++) {
            UNTIL(&d, came == i);
            duo_for(&d, i < 5 ? 3 : 0);
            CHECK_EQ_INT(came, i);
            set(on_object);
        }
        end();
    }
}

// What waits for a handler goes with its endpoint, and with its worker.
TEST(unset_and_closed) {
    for (int how = 0; how < 3; how++) {
        begin(lanes[0]);
        answer = WH_OK;
        CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                             WH_ALLOCATOR(.alloc = allocate, .free_fn = release)),
                     WH_OK);
        inside = unset;
        set(on_object);
        send_many();
        UNTIL(&d, came == 1);
        duo_for(&d, 3);
        if (how == 0)
            wh_endpoint_abort(d.from);
        else if (how == 1)
            CHECK(wh_endpoint_close(d.from, NULL, NULL) >= 0);
        if (how < 2)
            d.from = NULL;
        duo_for(&d, 3);
        CHECK_EQ_INT(came, 1);
        CHECK(how == 2 || freed == given);
        if (how == 2)
            duo_end(&d);
        else
            end();
        CHECK(given > 1);
        CHECK_EQ_INT(freed, given);
    }
}

// ---- ends

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)ep, (void)arg;
    CHECK(why < 0);
    lost++;
}

TEST(an_orderly_close_comes_last) {
    for (int lane = 0; lane < 2; lane++) {
        for (int late = 0; late < 2; late++) {
            begin(lanes[lane]);
            CHECK_EQ_INT(wh_endpoint_on_lost(d.from, on_lost, NULL), WH_OK);
            if (!late)
                set(on_object);
            for (uint64_t i = 0; i < MANY; i++)
                wh_request_free(send_one(i, late || i % 3 || i > MANY / 2 ? 10 : LARGE));
            CHECK(wh_endpoint_close(d.to, NULL, NULL) >= 0);
            d.to = NULL;
            if (late) {
                duo_for(&d, 3);
                lost = 0;  // it was told before there was a handler
                set(on_object);
            }
            UNTIL(&d, came == MANY);
            if (!late)
                UNTIL(&d, lost == 1);
            end();
        }
    }
}

static void unset_at_first(void) {
    if (came == 1)
        set(NULL);
}

static void on_tag(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    CHECK_EQ_INT(result->status, WH_OK);
    set(on_object);
}

// What waits whole for a handler that is set again in the very pass in which the close comes is handed over before.
TEST(set_again_as_the_close_comes) {
    for (int lane = 0; lane < 2; lane++) {
        begin(lanes[lane]);
        CHECK_EQ_INT(wh_endpoint_on_lost(d.from, on_lost, NULL), WH_OK);
        set(on_object);
        inside = unset_at_first;
        for (uint64_t i = 0; i < 3; i++)
            wh_request_free(send_one(i, 10));
        UNTIL(&d, came == 1);
        char word[8];
        wh_op_opts opts = {.size = sizeof(opts), .done = on_tag};
        CHECK_EQ_INT(wh_tag_recv(d.from, word, 8, 1, WH_TAG_MASK_ALL, &opts, NULL), WH_PENDING);
        CHECK_EQ_INT(wh_tag_send(d.to, "go on ..", 8, 1, NULL, NULL), WH_OK);
        CHECK(wh_endpoint_close(d.to, NULL, NULL) >= 0);
        d.to = NULL;
        for (int i = 0; i < 1000; i++)
            (void)wh_worker_progress(d.client);
        UNTIL(&d, came == 3 && lost == 1);
        end();
    }
}

// What comes in pieces is not handed over, and nothing that was sent behind it.
TEST(the_peer_goes_in_the_middle) {
    for (int lane = 0; lane < 2; lane++) {
        begin(lanes[lane]);
        CHECK_EQ_INT(wh_endpoint_on_lost(d.from, on_lost, NULL), WH_OK);
        set(on_object);
        wh_request_free(send_one(0, 10));
        wh_request *large = send_one(50, LARGE);
        wh_request_free(send_one(1, 10));
        wh_request_free(send_one(2, 10));
        KIT_UNTIL((void)wh_worker_progress(d.server), "all", d.from->handling == 3);
        CHECK_EQ_INT(came, 1);
        whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so");
        UNTIL(&d, lost == 1);
        CHECK_EQ_INT(came, 1);
        CHECK_EQ_INT(d.from->handling, 0);
        (void)done_as(&d, large);
        end();
    }
}

// Nor what was not asked for so far.
TEST(the_peer_goes_and_more_was_kept) {
    for (int lane = 0; lane < 2; lane++) {
        begin(lanes[lane]);
        set(on_object);
        wh_request_free(send_one(50, LARGE));
        for (uint64_t i = 0; i < MANY; i++)
            wh_request_free(send_one(i, 10));
        KIT_UNTIL((void)wh_worker_progress(d.server), "kept", d.from->counters.unexpected > 0);
        whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so");
        CHECK(whi_list_empty(&d.from->match[WHI_MATCH_OBJECT].messages));
        duo_for(&d, 5);
        CHECK_EQ_INT(came, 0);
        end();
    }
}

static void abort_ours(void) {
    wh_endpoint_abort(d.from);
    d.from = NULL;
}

static void close_ours(void) {
    CHECK(wh_endpoint_close(d.from, NULL, NULL) >= 0);
    d.from = NULL;
}

static void fail_link(void) {
    if (came == 1)
        whi_link_fail(d.from->link, WH_EPEER, "%s", "the handler wants it so");
}

TEST(the_handler_ends_its_endpoint) {
    static void (*const acts[])(void) = {abort_ours, close_ours, fail_link};
    for (int i = 0; i < 6; i++) {
        begin(lanes[i & 1]);
        inside = acts[i / 2];
        set(on_object);
        send_many();
        UNTIL(&d, came);
        duo_for(&d, 5);
        if (inside != fail_link)
            CHECK_EQ_INT(came, 1);
        end();
    }
}

TEST(its_worker_is_destroyed) {
    for (int i = 0; i < 4; i++) {
        begin(lanes[i & 1]);
        if (i & 2)
            set(on_object);
        send_many();
        for (int pass = 0; pass < i; pass++)
            duo_pass(&d);
        duo_end(&d);
    }
}

TEST(a_withdrawn_object_does_not_come) {
    begin(lanes[0]);
    wh_request *large = send_one(50, LARGE);
    wh_request_free(send_one(0, 10));
    UNTIL(&d, d.from->counters.unexpected == 2);
    wh_request_cancel(large);
    CHECK_EQ_INT(done_as(&d, large), WH_ECANCELLED);
    set(on_object);
    UNTIL(&d, came == 1);
    // Nor when it is asked for already.
    large = send_one(50, LARGE);
    KIT_UNTIL((void)wh_worker_progress(d.server), "asked for", d.from->handling == 1);
    wh_request_cancel(large);
    CHECK_EQ_INT(done_as(&d, large), WH_ECANCELLED);
    UNTIL(&d, d.from->handling == 0);
    wh_request_free(send_one(1, 10));
    UNTIL(&d, came == 2);
    end();
}

TEST(the_allocator_is_asked) {
    static const wh_status answers[] = {WH_OK, WH_PENDING, WH_ENOMEM};
    for (int i = 0; i < 6; i++) {
        begin(lanes[0]);
        answer = answers[i / 2];
        CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                             WH_ALLOCATOR(.alloc = allocate, .free_fn = release)),
                     WH_OK);
        set(on_object);
        wh_request *req = send_one(0, i & 1 ? LARGE : 10);
        UNTIL(&d, asked == 1);
        duo_for(&d, 2);
        if (answer == WH_PENDING) {
            CHECK_EQ_INT(came, 0);
            void *memory = malloc(LARGE);
            given++;
            CHECK_EQ_INT(wh_object_accept(parked, 0, memory), WH_OK);
        }
        if (answer == WH_ENOMEM) {
            CHECK(i & 1 || logged("W-OBJ-02"));  // the second time is not logged
            if (req)
                CHECK_EQ_INT(done_as(&d, req), WH_EREJECTED);
        } else {
            UNTIL(&d, came == 1);
            if (req)
                CHECK_EQ_INT(done_as(&d, req), WH_OK);
        }
        end();
    }
}

static wh_object *put_off[2];

static wh_status put_all_off(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)ptr, (void)arg;
    put_off[index] = object;
    return WH_PENDING;
}

static void end_it(int how, wh_request *send) {
    switch (how) {
    case 0: wh_request_cancel(send); break;
    case 1:
        wh_endpoint_abort(d.from);
        d.from = NULL;
        break;
    case 2:
        wh_endpoint_abort(d.to);
        d.to = NULL;
        break;
    default:  // half of the answers, and the peer goes: the memory is freed with the object
        CHECK_EQ_INT(wh_object_accept(put_off[0], 0, malloc(LARGE)), WH_OK);
        given++;
        whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so");
    }
}

// Nobody hears of the end of an object that waits for memory: it stays until the last answer, or its worker goes.
TEST(it_ends_while_memory_is_awaited) {
    for (int how = 0; how < 4; how++) {
        begin(lanes[0]);
        CHECK_EQ_INT(
            wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                    WH_ALLOCATOR(.alloc = put_all_off, .free_fn = release)),
            WH_OK);
        set(on_object);
        wh_frame frames[2] = {{.data = bytes, .size = LARGE}, {.data = bytes, .size = LARGE}};
        wh_request *req = NULL;
        put_off[0] = put_off[1] = NULL;
        CHECK(wh_object_send(d.to, "head", 4, frames, 2, sizeof(wh_frame), TAG, NULL, &req) ==
              WH_PENDING);
        UNTIL(&d, put_off[1]);
        end_it(how, req);
        (void)done_as(&d, req);
        duo_for(&d, 3);
        wh_object_free(put_off[1]);  // it is not the user's
        CHECK_EQ_INT(wh_object_count(put_off[1]), 2);
        void *memory = malloc(LARGE);
        CHECK_EQ_INT(wh_object_accept(put_off[1], 1, memory), WH_ECANCELLED);
        free(memory);
        if (how == 1)
            CHECK_EQ_INT(wh_object_accept(put_off[0], 0, NULL), WH_ECANCELLED);
        CHECK_EQ_INT(came, 0);
        end();  // where an answer is missing, the worker takes the object with it
    }
}

// What had to stay a message for want of memory is handed over later, also by a worker that sleeps.
TEST(it_goes_on_when_there_is_memory_again) {
    begin(lanes[0]);
    set(on_object);
    duo_for(&d, 1);
    d.from->handling = 1000;  // as if no receive could be made
    wh_request_free(send_one(0, 10));
    UNTIL(&d, d.from->counters.unexpected == 1);
    d.from->handling = 0;
    whi_messages_of(d.server)->object_starved = true;
    for (int i = 0; i < 1000 && !came; i++)
        CHECK(wh_worker_wait(d.server, 20) <= 0);
    CHECK_EQ_INT(came, 1);
    end();
}

TEST(only_the_owner_sets_it) {
    CHECK_EQ_INT(wh_worker_set_object(NULL, on_object, NULL), WH_EINVAL);
}

TEST_MAIN()
