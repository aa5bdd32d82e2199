// SPDX-License-Identifier: BSD-3-Clause
//
// wh_am_send_copy: the payload is the caller's again when it returns, whatever has become of it by then: with the peer, on its way
// there in part, or waiting for it.
//
// The peer is this thread's too, so that it cannot answer within the call, or it has a thread of its own.
#include <pthread.h>
#include <stdatomic.h>

#include "engine/offer_kit.h"
#include "message/copied.h"

enum { ID = 3, LARGE = 1 << 20, HUGE = 24 << 20, TRIES = 200 };

static duo d;
static uint8_t *out, *in;
static wh_am *kept;
static wh_request *received;
static size_t expected;
static unsigned page_offset;

static uint8_t byte_at(size_t i, unsigned seed) {
    return (uint8_t)(i * 7 + i / 4096 + seed);
}

static void fill(size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        out[i] = byte_at(i, seed);
}

static bool is_here(size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        if (in[i] != byte_at(i, seed))
            return false;
    return true;
}

static wh_status receive(wh_am *am, void *arg) {
    (void)arg;
    kept = am;
    expected = am->size;
    page_offset = am->page_offset;
    CHECK_EQ_INT(wh_am_recv(am, in, HUGE, NULL, &received), WH_PENDING);
    return WH_PENDING;
}

static void begin(const char *const *options) {
    if (!kit_can_read())
        SKIP("process_vm_readv is not to be had here");
    out = malloc(HUGE);
    in = malloc(HUGE);
    CHECK(out && in);
    kept = NULL;
    received = NULL;
    duo_begin(&d, options, options);
    duo_connect(&d);
    UNTIL(&d, kit_sends_by_ring(d.to->link) && kit_sends_by_ring(d.from->link));
    if (options == kit_reading)
        kit_join(&d);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, receive, NULL), WH_OK);
}

static void end(void) {
    duo_end(&d);
    free(out);
    free(in);
}

// send sends out of `out`, which is something else when it returns.
static wh_request *send(size_t size, unsigned seed) {
    wh_request *req = NULL;
    fill(size, seed);
    CHECK_EQ_INT(wh_am_send_copy(d.to, ID, "head", 4, out, size, NULL, &req), WH_PENDING);
    memset(out, 0xee, size);
    return req;
}

static void check_received(wh_request *sent, size_t size, unsigned seed) {
    UNTIL(&d, received);
    CHECK_EQ_INT(done_as(&d, received), WH_OK);
    CHECK_EQ_INT(done_as(&d, sent), WH_OK);
    CHECK_EQ_INT(expected, size);
    CHECK(is_here(size, seed));
    received = NULL;
}

static const char *const chunks[] = {"lanes=shm", "shm_read=never", NULL};

// ---- a peer that does not answer

static void unanswered(const char *const *options) {
    begin(options);
    whi_link_messages *m = whi_messages_on(d.to->link);
    for (unsigned seed = 0; seed < 4; seed++) {
        bool waits = !m->copy_skips;
        wh_request *sent = send(LARGE, seed);
        if (waits)
            CHECK(m->copy_skips == m->copy_misses && m->copy_misses > 0);
        check_received(sent, LARGE, seed);
        if (waits && options == kit_reading)  // it was offered where it lay
            CHECK_EQ_INT(page_offset, (uintptr_t)out % WH_AM_PAGE);
    }
    CHECK_EQ_INT(m->copy_misses, 3);  // one waited, one did not, one did, one did not
    CHECK_EQ_INT(m->copy_skips, 2);
    end();
}

TEST(what_the_peer_does_not_take_is_copied) {
    unanswered(chunks);
    unanswered(kit_reading);
}

TEST(small_ones_and_other_memory) {
    begin(chunks);
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_am_send_copy(d.to, ID, NULL, 0, out, 100, NULL, &req), WH_OK);
    CHECK_EQ_INT(wh_am_send_copy(d.to, ID, NULL, 0, NULL, 100, NULL, &req), WH_EINVAL);
    CHECK_EQ_INT(wh_am_send_copy(d.to, ID, NULL, 0, out, 100, WH_OP_OPTS(.mem = WH_MEM_SIM), &req),
                 WH_ENOTSUP);
    UNTIL(&d, received);
    CHECK_EQ_INT(done_as(&d, received), WH_OK);
    end();
}

static unsigned heard;

static wh_status hear(wh_am *am, void *arg) {
    (void)am;
    (void)arg;
    heard++;
    return WH_OK;
}

// What the peer has sent before is for the next pass: no function of the user's runs within the call.
TEST(nothing_else_is_taken_in_within_the_call) {
    begin(chunks);
    heard = 0;
    CHECK_EQ_INT(wh_worker_set_am(d.client, ID, hear, NULL), WH_OK);
    CHECK_EQ_INT(wh_am_send(d.from, ID, NULL, 0, out, 8, NULL, NULL), WH_OK);
    wh_request *sent = send(LARGE, 1);
    CHECK_EQ_INT(heard, 0);
    check_received(sent, LARGE, 1);
    CHECK_EQ_INT(heard, 1);
    end();
}

// ---- one that does

static _Atomic bool serving, stop, granted, go_on;
static bool pauses;  // the peer stops when it has asked for the payload, until it is told to go on

static void *serve(void *arg) {
    (void)arg;
    wh_status adopted = wh_worker_adopt(d.server);
    atomic_store(&serving, true);
    if (adopted != WH_OK)
        return &d;
    while (!atomic_load(&stop)) {
        (void)wh_worker_progress(d.server);
        if (pauses && received && !atomic_load(&granted)) {
            atomic_store(&granted, true);
            while (!atomic_load(&go_on) && !atomic_load(&stop))
                continue;
        }
    }
    return NULL;
}

static pthread_t thread;

// It returns when the peer is at hand.
static void serve_begin(bool pausing) {
    atomic_store(&serving, false);
    atomic_store(&stop, false);
    atomic_store(&granted, false);
    atomic_store(&go_on, false);
    pauses = pausing;
    CHECK_EQ_INT(pthread_create(&thread, NULL, serve, NULL), 0);
    while (!atomic_load(&serving))
        continue;
}

static void serve_end(void) {
    void *failed;
    atomic_store(&stop, true);
    CHECK_EQ_INT(pthread_join(thread, &failed), 0);
    CHECK(!failed);
    CHECK_EQ_INT(wh_worker_adopt(d.server), WH_OK);
}

// A peer at hand gets the payload out of the caller's memory.
static void answered(const char *const *options) {
    begin(options);
    whi_link_messages *m = whi_messages_on(d.to->link);
    unsigned seed = 0;
    bool taken = false;
    for (; seed < TRIES && !taken; seed++) {
        m->copy_skips = 0;
        m->copy_misses = 1;
        serve_begin(false);
        wh_request *sent = send(LARGE, seed);
        serve_end();
        taken = m->copy_misses == 0;
        check_received(sent, LARGE, seed);
    }
    CHECK(taken);
    end();
}

TEST(a_peer_at_hand_gets_it_within_the_call) {
    uint64_t usual = whi_copied_patience;
    whi_copied_patience =
        UINT32_MAX;  // a second or two: the machine may be busy, or all of it be checked
    answered(chunks);
    answered(kit_reading);
    whi_copied_patience = usual;
}

// One that stops in the middle has a part of it: the rest is copied.
TEST(the_rest_of_what_has_begun_to_move_is_copied) {
    begin(chunks);
    whi_link_messages *m = whi_messages_on(d.to->link);
    bool begun = false;
    for (unsigned seed = 0; seed < TRIES && !begun; seed++) {
        m->copy_skips = 0;
        serve_begin(true);
        wh_request *sent = send(HUGE, seed);
        begun = sent->stage == WHI_STAGE_MOVING && sent->moved > 0 && sent->moved < HUGE;
        atomic_store(&go_on, true);
        serve_end();
        check_received(sent, HUGE, seed);
    }
    CHECK(begun);
    end();
}

TEST_MAIN()
