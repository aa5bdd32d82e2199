// SPDX-License-Identifier: BSD-3-Clause
//
// An object that has arrived whole is its receiver's, however its endpoint ends and whatever the allocator says: the receive
// gets it, or an error that says what was wrong with the memory.
#include "engine/allocator_kit.h"

enum { FRAME = 1000, TAG = 3 };

typedef enum ending {
    PEER_CLOSES,
    PEER_ABORTS,
    PEER_IS_DESTROYED,
    LINK_FAILS,
    WE_CLOSE,  // after the peer has
    ENDINGS
} ending;

static duo d;

// ---- an allocator that answers at once, puts off, or refuses

static void use_allocator(wh_status says) {
    answer = says;
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                         WH_ALLOCATOR(.alloc = allocate, .free_fn = release)),
                 WH_OK);
}

static void accept_frame(void) {
    void *memory = malloc(FRAME);
    given++;
    CHECK_EQ_INT(wh_object_accept(parked, 0, memory), WH_OK);
}

// ---- the two sides

static void begin(const char *lane) {
    const char *options[] = {lane, NULL};
    duo_begin(&d, options, options);
    duo_connect(&d);
    asked = given = freed = 0;
    parked = NULL;
    while_asked = NULL;
}

static void send_object(void) {
    static char frame[FRAME];
    memset(frame, 7, sizeof(frame));
    wh_frame frames[1] = {{.data = frame, .size = sizeof(frame)}};
    CHECK_EQ_INT(wh_object_send(d.to, "head", 4, frames, 1, sizeof(wh_frame), TAG, NULL, NULL),
                 WH_OK);
}

static wh_request *post(bool any, const wh_frame *into, const wh_op_opts *opts) {
    wh_request *recv = NULL;
    wh_status st = any ? wh_worker_object_recv(d.server, into, into != NULL, sizeof(wh_frame), TAG,
                                               WH_TAG_MASK_ALL, opts, &recv)
                       : wh_object_recv(d.from, into, into != NULL, sizeof(wh_frame), TAG,
                                        WH_TAG_MASK_ALL, opts, &recv);
    CHECK_EQ_INT(st, WH_PENDING);
    return recv;
}

// end_by ends the server's endpoint, and returns when no link is left.
static void end_by(ending how) {
    switch (how) {
    case PEER_CLOSES:
    case WE_CLOSE: CHECK(wh_endpoint_close(d.to, NULL, NULL) >= 0); break;
    case PEER_ABORTS: wh_endpoint_abort(d.to); break;
    case PEER_IS_DESTROYED:
        wh_endpoint_abort(d.to);
        wh_worker_destroy(d.client);
        d.client = kit_worker(d.ctx[1]);
        break;
    default: whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so"); break;
    }
    if (how != LINK_FAILS)
        d.to = NULL;
    if (how == WE_CLOSE) {
        UNTIL(&d, wh_endpoint_status(d.from) == WH_ECLOSED);
        CHECK(wh_endpoint_close(d.from, NULL, NULL) >= 0);
        d.from = NULL;
    }
    UNTIL(&d, whi_hash_count(&whi_links_of(d.server)->links) == 0);
}

// must_hold requires that a receive has ended with the whole object, and frees both.
static void must_hold(wh_request *recv) {
    wh_result result;
    UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    CHECK(result.object);
    size_t size;
    CHECK(memcmp(wh_object_header(result.object, &size), "head", 4) == 0 && size == 4);
    const wh_frame *frame = wh_object_frame(result.object, 0);
    CHECK_EQ_INT(frame->size, FRAME);
    for (size_t i = 0; i < FRAME; i++)
        CHECK_EQ_INT(((const char *)frame->data)[i], 7);
    wh_object_free(result.object);
    wh_request_free(recv);
}

static void end(void) {
    CHECK_EQ_INT(d.server->counters.pending, 0);
    duo_end(&d);
    CHECK_EQ_INT(freed, given);
}

static const char *const lanes[] = {"lanes=shm", "lanes=stream"};

#define EACH(how, any, lane)                                                                       \
    for (int how = 0; how < ENDINGS; how++)                                                        \
        for (int any = 0; any < 2; any++)                                                          \
            for (int lane = 0; lane < 2; lane++)

// ---- the object was there before its receive, and the end as well

// keep_one has an object that nobody has asked for at an endpoint that has ended.
static void keep_one(int how, int lane) {
    begin(lanes[lane]);
    send_object();
    UNTIL(&d, d.from->counters.unexpected == 1);
    end_by((ending)how);
}

TEST(kept_and_no_allocator) {
    EACH(how, any, lane) {
        if (how == WE_CLOSE)
            continue;  // what our own close finds is dropped
        keep_one(how, lane);
        must_hold(post(any, NULL, NULL));
        end();
    }
}

TEST(kept_and_an_allocator) {
    EACH(how, any, lane) {
        if (how == WE_CLOSE)
            continue;
        keep_one(how, lane);
        use_allocator(WH_OK);
        must_hold(post(any, NULL, NULL));
        CHECK_EQ_INT(asked, 1);
        end();
    }
}

TEST(kept_and_an_allocator_that_answers_later) {
    EACH(how, any, lane) {
        if (how == WE_CLOSE)
            continue;
        keep_one(how, lane);
        use_allocator(WH_PENDING);
        wh_request *recv = post(any, NULL, NULL);
        duo_for(&d, 1);
        CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
        accept_frame();
        must_hold(recv);
        end();
    }
}

TEST(kept_and_an_allocator_that_refuses) {
    EACH(how, any, lane) {
        if (how == WE_CLOSE)
            continue;
        keep_one(how, lane);
        use_allocator(WH_ENOMEM);
        CHECK_EQ_INT(done_as(&d, post(any, NULL, NULL)), WH_ENOMEM);
        end();
    }
}

TEST(kept_and_a_destination) {
    static char room[FRAME];
    EACH(how, any, lane) {
        if (how == WE_CLOSE)
            continue;
        for (int fits = 0; fits < 2; fits++) {
            keep_one(how, lane);
            wh_frame into = {.data = room, .size = fits ? FRAME : FRAME - 1};
            wh_request *recv = post(any, &into, NULL);
            if (fits)
                must_hold(recv);
            else
                CHECK_EQ_INT(done_as(&d, recv), WH_ETRUNCATED);
            end();
        }
    }
}

// ---- the receive waits for memory when the end comes

static wh_request *park_one(int any, int lane, const wh_op_opts *opts) {
    begin(lanes[lane]);
    use_allocator(WH_PENDING);
    wh_request *recv = post(any, NULL, opts);
    send_object();
    UNTIL(&d, asked);
    return recv;
}

TEST(parked_and_accepted_after_the_end) {
    EACH(how, any, lane) {
        wh_request *recv = park_one(any, lane, NULL);
        end_by((ending)how);
        duo_for(&d, 1);
        CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
        accept_frame();
        must_hold(recv);
        end();
    }
}

// Its other ends are those that it has on an endpoint that lives.
TEST(parked_and_given_up_after_the_end) {
    EACH(how, any, lane) {
        for (int way = 0; way < 3; way++) {
            wh_request *recv = park_one(
                any, lane,
                way == 2 ? WH_OP_OPTS(.timeout_ms = how == PEER_IS_DESTROYED ? 300 : 100) : NULL);
            end_by((ending)how);
            if (way == 0)
                CHECK_EQ_INT(wh_object_accept(parked, 0, NULL), WH_OK);
            else if (way == 1)
                wh_request_cancel(recv);
            CHECK_EQ_INT(done_as(&d, recv), way == 0   ? WH_EREJECTED
                                            : way == 1 ? WH_ECANCELLED
                                                       : WH_ETIMEDOUT);
            end();
        }
    }
}

// A receive that is cancelled leaves its object, which costs its sender no more than any other, to the next.
TEST(parked_and_left_to_another) {
    for (int later = 0; later < 2; later++) {
        wh_request *recv = park_one(0, 0, NULL), *next = NULL;
        use_allocator(WH_OK);
        if (!later)
            next = post(true, NULL, NULL);
        wh_request_cancel(recv);
        CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
        if (later)
            next = post(true, NULL, NULL);
        must_hold(next);
        CHECK_EQ_INT(d.from->rx_window + (int64_t)d.from->rx_owed,
                     (int64_t)d.server->ctx->config.credit);
        end();
    }
}

// What the user ends himself, he ends with what it has got.
TEST(parked_and_aborted_here) {
    for (int any = 0; any < 2; any++) {
        wh_request *recv = park_one(any, 0, NULL);
        wh_endpoint_abort(d.from);
        d.from = NULL;
        CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
        end();
    }
}

TEST(parked_and_its_worker_destroyed) {
    EACH(how, any, lane) {
        wh_request *recv = park_one(any, lane, NULL);
        end_by((ending)how);
        wh_listener_close(d.listener);
        wh_worker_destroy(d.server);
        CHECK_EQ_INT(wh_request_status(recv), WH_ECLOSED);
        wh_request_free(recv);
        if (d.from)
            wh_endpoint_abort(d.from);
        d.from = NULL;
        d.server = kit_worker(d.ctx[0]);
        duo_listen(&d, NULL);
        end();
    }
}

// ---- the end comes inside the allocator

static void close_ours(const wh_object *object) {
    (void)object;
    CHECK(wh_endpoint_close(d.from, NULL, NULL) >= 0);
    d.from = NULL;
    while_asked = NULL;
}

static void fail_link(const wh_object *object) {
    (void)object;
    whi_link_fail(d.from->link, WH_EPEER, "%s", "the allocator wants it so");
    while_asked = NULL;
}

TEST(ended_inside_the_allocator) {
    static void (*const acts[])(const wh_object *) = {close_ours, fail_link};
    for (int i = 0; i < 16; i++) {
        begin(lanes[i & 1]);
        while_asked = acts[i >> 1 & 1];
        use_allocator(i & 4 ? WH_PENDING : WH_OK);
        wh_request *recv = post(i & 8, NULL, NULL);
        send_object();
        UNTIL(&d, asked);
        duo_for(&d, 2);
        if (i & 4)
            accept_frame();
        must_hold(recv);
        end();
    }
}

// ---- a receive from any source that gets a whole object in the middle of the end of an endpoint

// The receive has met a large object, and what another endpoint has sent is there when it gets its place back.
TEST(regained_while_its_endpoint_ends) {
    static char frame[100000];
    for (int i = 0; i < 8; i++) {
        begin(lanes[i & 1]);
        use_allocator(WH_OK);
        wh_endpoint *first = d.to, *other, *second = duo_open(&d, &other);
        wh_request *recv = post(true, NULL, NULL), *large = NULL;
        wh_frame frames[1] = {{.data = frame, .size = sizeof(frame)}};
        CHECK_EQ_INT(wh_object_send(d.to, "h", 1, frames, 1, sizeof(wh_frame), TAG, NULL, &large),
                     WH_PENDING);
        send_object();  // which goes with the large one
        d.to = second;
        send_object();
        d.to = first;
        KIT_UNTIL(wh_worker_progress(d.server), "all",
                  d.from->counters.unexpected + other->counters.unexpected == 2 && asked);
        CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
        answer = i & 2 ? WH_PENDING : WH_OK;
        if (i & 4) {
            whi_link_fail(d.from->link, WH_EPEER, "%s", "the test wants it so");
        } else {
            wh_endpoint_abort(d.to);
            d.to = NULL;
        }
        UNTIL(&d, wh_endpoint_status(d.from) == WH_EPEER);
        if (i & 2)
            accept_frame();
        must_hold(recv);
        CHECK(whi_list_empty(&d.from->match[WHI_MATCH_OBJECT].messages));
        wh_endpoint_abort(second);
        wh_endpoint_abort(other);
        UNTIL(&d, whi_hash_count(&whi_links_of(d.server)->links) == 0);
        (void)done_as(&d, large);  // its last bytes may have gone into the void
        end();
    }
}

// ---- announced messages in the hands of a user who closes

static wh_am *kept[2];

static wh_status keep_am(wh_am *am, void *arg) {
    *(wh_am **)arg = am;
    return WH_PENDING;
}

// Each side holds a message of the other's back, and closes: neither close waits for what can be had no more.
TEST(closes_with_messages_taken) {
    static char large[100000], into[100000];
    for (int i = 0; i < 4; i++) {
        bool peeks = i & 1;
        begin(lanes[i / 2]);
        wh_worker *workers[2] = {d.client, d.server};
        wh_endpoint *eps[2] = {d.to, d.from};
        wh_message *msgs[2] = {NULL};
        wh_request *sends[2] = {NULL}, *closes[2] = {NULL};
        for (int s = 0; s < 2; s++) {
            CHECK_EQ_INT(wh_worker_set_am(workers[s], 7, keep_am, &kept[s]), WH_OK);
            wh_status st =
                peeks ? wh_tag_send(eps[s], large, sizeof(large), TAG, NULL, &sends[s])
                      : wh_am_send(eps[s], 7, NULL, 0, large, sizeof(large), NULL, &sends[s]);
            CHECK_EQ_INT(st, WH_PENDING);
        }
        kept[0] = kept[1] = NULL;
        for (int s = 0; s < 2; s++) {
            UNTIL(&d,
                  peeks ? wh_tag_take(eps[s], TAG, 0, NULL, &msgs[s]) == WH_OK : kept[s] != NULL);
        }
        for (int s = 0; s < 2; s++)
            CHECK_EQ_INT(wh_endpoint_close(eps[s], NULL, &closes[s]), WH_PENDING);
        d.to = d.from = NULL;
        for (int s = 0; s < 2; s++) {
            wh_status st = peeks ? wh_message_recv(msgs[s], into, sizeof(into), NULL, NULL)
                                 : wh_am_recv(kept[s], into, sizeof(into), NULL, NULL);
            CHECK_EQ_INT(st, WH_ECANCELLED);
            CHECK_EQ_INT(done_as(&d, closes[s]), WH_OK);
            (void)done_as(&d, sends[s]);
        }
        for (int s = 0; s < 2; s++) {
            if (peeks)
                wh_message_drop(msgs[s]);
            else
                wh_am_drop(kept[s]);
        }
        end();
    }
}

TEST_MAIN()
