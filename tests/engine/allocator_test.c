// SPDX-License-Identifier: BSD-3-Clause
//
// An allocator that rejects a frame which it has put off, while it is asked for another one: whatever it then answers, the
// receive ends once, and no memory is left.  And what a sender is told whose lane still has the object.
#include <stdlib.h>

#include "engine/test_kit.h"
#include "message/send.h"

enum { SIZE = 100000 };

typedef enum receiver { BY_CALLBACK, BY_REQUEST, NOBODY } receiver;

static duo d;
static wh_status answer;  // for the second frame
static unsigned allocated, freed, told;
static wh_status told_status;
static void *asked_for;  // the receive, by its arg

// Puts the first frame off, and rejects it when asked for the second.
static wh_status reject_first(wh_object *object, size_t index, void **data, void *arg) {
    (void)arg;
    asked_for = wh_object_arg(object);
    if (index == 0)
        return WH_PENDING;
    CHECK_EQ_INT(wh_object_accept(object, 0, NULL), WH_OK);
    if (answer == WH_OK) {
        *data = malloc(SIZE);
        allocated++;
    }
    return answer;
}

static void free_frame(void *data, size_t size, wh_mem_kind mem, int device, void *arg) {
    (void)size, (void)mem, (void)device, (void)arg;
    free(data);
    freed++;
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)arg;
    told++;
    told_status = result->status;
    CHECK(!result->object);
}

static void receive(receiver who, wh_status expected) {
    static char frame[SIZE];
    const wh_frame frames[] = {{.data = frame, .size = SIZE}, {.data = frame, .size = SIZE}};
    wh_request *sent = NULL, *received = NULL;
    allocated = freed = told = 0;
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    CHECK_EQ_INT(
        wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = reject_first, .free_fn = free_frame)),
        WH_OK);
    CHECK_EQ_INT(
        wh_object_recv(d.from, NULL, 0, 0, 1, WH_TAG_MASK_ALL,
                       who == BY_CALLBACK ? WH_OP_OPTS(.done = on_done, .arg = &told) : NULL,
                       who == BY_REQUEST ? &received : NULL),
        WH_PENDING);
    CHECK_EQ_INT(wh_object_send(d.to, "h", 1, frames, 2, sizeof(wh_frame), 1, NULL, &sent),
                 WH_PENDING);
    CHECK_EQ_INT(done_as(&d, sent), WH_EREJECTED);
    if (who == BY_REQUEST)
        CHECK_EQ_INT(done_as(&d, received), expected);
    duo_for(&d, 5);
    if (who == BY_CALLBACK)
        CHECK(told == 1 && told_status == expected && asked_for == &told);
    CHECK_EQ_INT(freed, allocated);
    CHECK_EQ_INT(d.server->counters.pending, 0);
    duo_end(&d);
}

static void each_receiver(wh_status says, wh_status expected) {
    answer = says;
    receive(BY_CALLBACK, expected);
    receive(BY_REQUEST, expected);
    receive(NOBODY, expected);
}

TEST(rejects_another_and_accepts) {
    each_receiver(WH_OK, WH_EREJECTED);
}

TEST(rejects_another_and_puts_off) {
    each_receiver(WH_PENDING, WH_EREJECTED);
}

TEST(rejects_another_and_fails) {
    each_receiver(WH_ENOMEM, WH_EREJECTED);
}

// ---- on a lane that lends, the end of a send may be known before the lane has returned it

enum { HEAD = 4 << 20 };
static const char *const by_socket[] = {"lanes=stream", NULL};

static wh_status give_nothing(wh_object *object, size_t index, void **data, void *arg) {
    (void)object, (void)index, (void)data, (void)arg;
    return answer;
}

// send_held sends an object whose head is fetched, and which the lane is said to hold from then on.
static wh_request *send_held(wh_status says) {
    static char head[HEAD], frame[SIZE];
    const wh_frame frames[] = {{.data = frame, .size = SIZE}};
    wh_request *send = NULL;
    answer = says;
    duo_begin(&d, by_socket, by_socket);
    duo_connect(&d);
    CHECK_EQ_INT(
        wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = give_nothing, .free_fn = free_frame)),
        WH_OK);
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, 1, WH_TAG_MASK_ALL, NULL, NULL), WH_PENDING);
    CHECK_EQ_INT(wh_object_send(d.to, head, HEAD, frames, 1, sizeof(wh_frame), 1, NULL, &send),
                 WH_PENDING);
    UNTIL(&d, send->stage == WHI_STAGE_MOVING);
    send->held = 1;
    UNTIL(&d, send->moved == send->accept);
    return send;
}

static void returned(wh_request *send, wh_status expected, const char *why) {
    UNTIL(&d, send->fate == WHI_FATE_RETURNED);
    CHECK_EQ_INT(wh_request_status(send), WH_PENDING);
    send->held = 0;
    whi_send_back(d.to->link, send);
    CHECK_EQ_INT(wh_request_status(send), expected);
    if (!strstr(wh_request_error(send), why))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "no \"%s\" in: %s", why,
                     wh_request_error(send));
    wh_request_free(send);
    duo_end(&d);
}

TEST(sentence_of_a_rejected_send_that_is_held) {
    returned(send_held(WH_ENOMEM), WH_EREJECTED, "object send to");
}

TEST(sentence_of_a_held_send_whose_endpoint_ends) {
    wh_request *send = send_held(WH_PENDING);
    wh_endpoint_abort(d.from);
    d.from = NULL;
    returned(send, WH_EPEER, "the peer has aborted the endpoint");
}

TEST_MAIN()
