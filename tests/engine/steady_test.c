// SPDX-License-Identifier: BSD-3-Clause
//
// In the steady state messages allocate nothing: ten times as many need no more allocations.
//
// Two workers exchange the same message over and over, each of another kind, size and order of send and receive.  The
// library's allocations are counted after a warm-up.  Exceptions: a received object and each of its large frames, which
// the user keeps; and what a send that has to wait for its peer copies so that the user need not keep it (the header of an
// active message, the array of an object's frames).
#include "base/alloc.h"
#include "engine/test_kit.h"

enum { FEW = 1000, LARGE = 100000 };

static duo d;
static uint8_t source[2 * LARGE], into[2 * LARGE];
static unsigned handled;

static const char *const shm[] = {"lanes=shm", NULL};
static const char *const stream[] = {"lanes=stream", NULL};

typedef void (*exchange_fn)(size_t size);

static void end_one(wh_request *req) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
}

static void tag_expected(size_t size) {
    wh_request *recv = NULL, *send = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, into, size, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK(wh_tag_send(d.to, source, size, 1, NULL, &send) >= 0);
    end_one(recv);
    end_one(send);
}

static void tag_unexpected(size_t size) {
    wh_request *recv = NULL, *send = NULL;
    CHECK(wh_tag_send(d.to, source, size, 1, NULL, &send) >= 0);
    for (wh_result found; wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, &found) != WH_OK;)
        duo_pass(&d);
    CHECK(wh_worker_tag_recv(d.server, into, size, 1, WH_TAG_MASK_ALL, NULL, &recv) >= 0);
    end_one(recv);
    end_one(send);
}

static void object(size_t size) {
    wh_request *recv = NULL, *send = NULL;
    wh_result result;
    wh_frame frame = {source, size, WH_MEM_HOST, 0, NULL};
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK(wh_object_send(d.to, "head", 4, &frame, 1, sizeof(wh_frame), 1, NULL, &send) >= 0);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    wh_object_free(result.object);
    wh_request_free(recv);
    end_one(send);
}

// layout_of makes a layout of `size` bytes in pieces of 8.
static wh_type *layout_of(size_t size) {
    wh_type *type = NULL;
    CHECK_EQ_INT(
        wh_type_create_vector((int64_t)(size / 8), 8, 16, wh_type_basic(WH_TYPE_BYTE), &type),
        WH_OK);
    return type;
}

// type_of keeps the last layout of a size.
static const wh_type *type_of(size_t size) {
    static wh_type *type;
    static size_t size_of_type = SIZE_MAX;
    if (size != size_of_type) {
        wh_type_release(type);
        type = layout_of(size_of_type = size);
    }
    return type;
}

static void laid_out(size_t size) {
    wh_request *recv = NULL, *send = NULL;
    const wh_op_opts *opts = WH_OP_OPTS(.type = type_of(size));
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 1, 1, WH_TAG_MASK_ALL, opts, &recv), WH_PENDING);
    CHECK(wh_tag_send(d.to, source, 1, 1, opts, &send) >= 0);
    end_one(recv);
    end_one(send);
    CHECK(memcmp(into, source, size ? 8 : 0) == 0);
}

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    handled++;
    if (!am->data && am->size)
        CHECK(wh_am_recv(am, into, sizeof(into), NULL, NULL) >= 0);
    return WH_OK;
}

static void active_laid_out(size_t size) {
    wh_request *send = NULL;
    unsigned before = handled;
    const wh_op_opts *opts = WH_OP_OPTS(.type = type_of(size));
    CHECK(wh_am_send(d.to, 2, "head", 4, source, 1, opts, &send) >= 0);
    UNTIL(&d, handled > before);
    end_one(send);
}

static void active(size_t size) {
    wh_request *send = NULL;
    unsigned before = handled;
    CHECK(wh_am_send(d.to, 1, "head", 4, source, size, NULL, &send) >= 0);
    UNTIL(&d, handled > before);
    end_one(send);
}

// on_laid_out receives into the layout that was sent.
static wh_status on_laid_out(wh_am *am, void *arg) {
    (void)arg;
    handled++;
    CHECK(wh_am_recv(am, into, 1, WH_OP_OPTS(.type = type_of((size_t)am->size)), NULL) >= 0);
    return WH_OK;
}

static uint64_t count(exchange_fn exchange, size_t size, unsigned messages) {
    whi_alloc_fail_at(UINT64_MAX);
    for (unsigned i = 0; i < messages; i++)
        exchange(size);
    uint64_t allocations = whi_alloc_count();
    whi_alloc_fail_at(0);
    return allocations;
}

// exchange_often requires that MANY messages need no more than so many allocations each, and otherwise no more than FEW.
static void exchange_often(const char *name, exchange_fn exchange, unsigned small, unsigned large) {
    static const size_t sizes[] = {0, 8, 4000, LARGE};
    for (int lane = 0; lane < 2; lane++) {
        duo_begin(&d, lane ? stream : shm, lane ? stream : shm);
        CHECK_EQ_INT(wh_worker_set_am(d.server, 1, on_am, NULL), WH_OK);
        CHECK_EQ_INT(wh_worker_set_am(d.server, 2, on_laid_out, NULL), WH_OK);
        duo_connect(&d);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            unsigned each = sizes[i] < LARGE ? small : large;
            unsigned few = sizes[i] < LARGE ? FEW : FEW / 10, many = 10 * few;
            (void)count(exchange, sizes[i], 2 * few);
            uint64_t of_few = count(exchange, sizes[i], few);
            uint64_t of_many = count(exchange, sizes[i], many);
            printf("%s of %zu bytes over %s: %u need %llu allocations, %u need %llu\n", name,
                   sizes[i], lane ? "stream" : "shm", few, (unsigned long long)of_few, many,
                   (unsigned long long)of_many);
            CHECK(of_many <= of_few + each * (many - few));
        }
        duo_end(&d);
    }
}

TEST(expected_messages_allocate_nothing) {
    exchange_often("a message", tag_expected, 0, 0);
}

TEST(small_layouts_allocate_nothing) {
    memset(source, 5, sizeof(source));
    exchange_often("a layout", laid_out, 0, 2);  // a cursor at each end
    exchange_often("an active layout", active_laid_out, 0, 3);
}

TEST(unexpected_messages_allocate_nothing) {
    exchange_often("an unexpected message", tag_unexpected, 0, 0);
}

TEST(active_messages_allocate_at_most_a_header) {
    exchange_often("an active message", active, 0, 1);
}

TEST(objects_allocate_what_their_receiver_keeps) {
    exchange_often("an object", object, 1, 3);
}

TEST_MAIN()
