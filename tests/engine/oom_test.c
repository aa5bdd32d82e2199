// SPDX-License-Identifier: BSD-3-Clause
//
// Whole scenarios with the n-th allocation failing, for every n until a run needs fewer.
//
// A run makes two workers, connects them and exchanges something.  With a failure in it anything may be refused, and any
// operation may fail; but nothing crashes, hangs, leaks or completes twice, and what was received is what was sent.  The
// workers themselves are made first, in a test of their own.
#include "base/alloc.h"
#include "engine/test_kit.h"

enum { PATIENCE_MS = 20000, ALLOCATIONS_MAX = 20000, DATA = 500 };

static duo d;
static uint64_t armed;  // the allocation that fails
static unsigned started, ended;
static uint8_t source[300000], into[8][300000];

// in_time progresses until `cond`, and says whether it came.
#define IN_TIME(cond)                                                                              \
    ({                                                                                             \
        uint64_t end_ns = whi_clock_ns() + PATIENCE_MS * WHI_NS_PER_MS;                            \
        while (!(cond)) {                                                                          \
            duo_pass(&d);                                                                          \
            if (whi_clock_ns() > end_ns)                                                           \
                whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "allocation %llu: hangs in %s",  \
                             (unsigned long long)armed, #cond);                                    \
        }                                                                                          \
    })

// on_done checks what a receive got; `arg` is its buffer, NULL for sends.
static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    ended++;
    if (arg && result->status == WH_OK)
        CHECK_MEM(arg, source, result->size);
    if (result->object)
        wh_object_free(result->object);
}

// on_place checks what came into a destination that was given for an object.
static void on_place(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    ended++;
    if (result->status == WH_OK)
        CHECK_MEM(arg, source, result->size);
    wh_object_free(result->object);
}

// noted counts an operation that was accepted and will tell of its end.
static wh_status noted(wh_status st) {
    CHECK(st == WH_OK || st == WH_PENDING || st < 0);
    started += st == WH_PENDING;
    return st;
}

#define TELL WH_OP_OPTS(.done = on_done)
#define TELL_OF(buffer) WH_OP_OPTS(.done = on_done, .arg = (buffer))

static void accept_one(wh_endpoint *ep, void *arg) {
    (void)arg;
    if (d.from)
        wh_endpoint_abort(ep);  // an earlier attempt got further than its dial knew
    else
        d.from = ep;
}

// Connect data is there whole, or the endpoint is not.
static void check_data(const wh_endpoint *ep) {
    size_t size;
    const void *data = wh_endpoint_peer_data(ep, &size);
    CHECK_EQ_INT(size, DATA);
    CHECK_MEM(data, source, DATA);
}

static bool connect_both(void) {
    if (wh_listener_open(d.server, "127.0.0.1:0",
                         WH_LISTENER_OPTS(.data = source, .data_size = DATA), accept_one, NULL,
                         &d.listener) != WH_OK)
        return false;
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", wh_listener_port(d.listener));
    if (wh_endpoint_connect(d.client, address,
                            WH_ENDPOINT_OPTS(.timeout_ms = 300, .data = source, .data_size = DATA),
                            &d.to) != WH_OK)
        return false;
    IN_TIME(wh_endpoint_status(d.to) != WH_PENDING);
    if (wh_endpoint_status(d.to) == WH_OK)
        check_data(d.to);
    if (d.from)
        check_data(d.from);
    return wh_endpoint_status(d.to) == WH_OK && d.from;
}

// settle lets everything that was started end; a partner that failed may leave the other waiting, so that is cancelled.
static void settle(wh_request **waiting, unsigned count) {
    uint64_t soon = whi_clock_ns() + 30 * WHI_NS_PER_MS;
    while (ended < started && whi_clock_ns() < soon)
        duo_pass(&d);
    for (unsigned i = 0; i < count; i++)
        if (waiting[i])
            wh_request_cancel(waiting[i]);
    IN_TIME(ended == started || wh_endpoint_status(d.to) < 0);
    for (unsigned i = 0; i < count; i++)
        wh_request_free(waiting[i]);
}

// ---- the scenarios

static void small_tags(void) {
    wh_request *reqs[8] = {NULL};
    for (unsigned i = 0; i < 4; i++) {
        (void)noted(wh_tag_send(d.to, source, 8 << i, i, TELL, &reqs[i]));
        (void)noted(wh_tag_recv(d.from, into[i], 8 << i, i, WH_TAG_MASK_ALL, TELL_OF(into[i]),
                                &reqs[4 + i]));
    }
    settle(reqs, 8);
}

static void kept_tags(void) {
    wh_request *reqs[8] = {NULL};
    for (unsigned i = 0; i < 4; i++)
        (void)noted(wh_tag_send(d.to, source, 10 << (2 * i), i, TELL, &reqs[i]));
    duo_for(&d, 2);
    for (unsigned i = 0; i < 4; i++)
        (void)noted(
            wh_tag_recv(d.from, into[i], sizeof(into[i]), i, 0, TELL_OF(into[i]), &reqs[4 + i]));
    settle(reqs, 8);
}

static void large_tags(void) {
    wh_request *reqs[4] = {NULL};
    (void)noted(wh_tag_send(d.to, source, sizeof(source), 1, TELL, &reqs[0]));
    (void)noted(wh_tag_send(d.to, source, 20000, 2,
                            WH_OP_OPTS(.done = on_done, .flags = WH_OP_SYNC), &reqs[1]));
    (void)noted(wh_tag_recv(d.from, into[0], sizeof(into[0]), 1, WH_TAG_MASK_ALL, TELL_OF(into[0]),
                            &reqs[2]));
    (void)noted(wh_worker_tag_recv(d.server, into[1], 20000, 2, WH_TAG_MASK_ALL, TELL_OF(into[1]),
                                   &reqs[3]));
    settle(reqs, 4);
}

static void objects(void) {
    wh_request *reqs[6] = {NULL};
    wh_frame small[2] = {{.data = source, .size = 100}, {.data = source, .size = 0}};
    wh_frame large[2] = {{.data = source, .size = 200000}, {.data = source, .size = 10}};
    (void)noted(wh_object_send(d.to, "head", 4, small, 2, sizeof(wh_frame), 1, TELL, &reqs[0]));
    (void)noted(wh_object_send(d.to, "head", 4, large, 2, sizeof(wh_frame), 2, TELL, &reqs[1]));
    (void)noted(
        wh_object_send(d.to, source, 100000, large, 1, sizeof(wh_frame), 3, TELL, &reqs[2]));
    for (unsigned i = 0; i < 3; i++)
        (void)noted(wh_object_recv(d.from, NULL, 0, 0, i + 1, WH_TAG_MASK_ALL, TELL, &reqs[3 + i]));
    settle(reqs, 6);
}

static wh_status handler(wh_am *am, void *arg) {
    (void)arg;
    if (am->id == 1)
        return WH_OK;
    if (am->id == 2) {
        wh_status st = noted(wh_am_recv(am, into[0], sizeof(into[0]), TELL_OF(into[0]), NULL));
        return st == WH_PENDING ? WH_PENDING : WH_OK;
    }
    wh_am **kept = arg;
    if (*kept)
        return WH_OK;
    *kept = am;
    return WH_PENDING;
}

static void active_messages(void) {
    wh_request *reqs[4] = {NULL};
    wh_am *kept = NULL;
    for (uint16_t id = 1; id <= 3; id++)
        if (wh_worker_set_am(d.server, id, handler, &kept) != WH_OK)
            return;
    (void)noted(wh_am_send(d.to, 1, "h", 1, source, 10, TELL, &reqs[0]));
    (void)noted(wh_am_send(d.to, 2, "h", 1, source, 100000, TELL, &reqs[1]));
    (void)noted(wh_am_send(d.to, 3, "h", 1, source, 100, TELL, &reqs[2]));
    (void)noted(wh_am_send(d.to, 2, NULL, 0, source, 10, TELL, &reqs[3]));
    duo_for(&d, 3);
    settle(reqs, 4);
    if (kept)
        wh_am_drop(kept);
}

static void flush_and_close(void) {
    wh_request *reqs[3] = {NULL};
    (void)noted(wh_tag_send(d.to, source, 100, 1, TELL, &reqs[0]));
    (void)noted(wh_endpoint_flush(d.to, TELL, &reqs[1]));
    settle(reqs, 2);
    // The handle is given up whatever the call returns.
    wh_endpoint *to = d.to;
    (void)noted(wh_endpoint_close(to, TELL, NULL));
    d.to = NULL;
    IN_TIME(ended == started);
}

// taken_messages receives, and drops, messages that were taken out of the queue first.
static void taken_messages(void) {
    wh_request *reqs[8] = {NULL};
    for (unsigned i = 0; i < 4; i++)
        (void)noted(wh_tag_send(d.to, source, 10 << (4 * i), i, TELL, &reqs[i]));
    duo_for(&d, 2);
    for (unsigned i = 0; i < 4; i++) {
        wh_message *msg = NULL;
        if (wh_tag_take(d.from, i, WH_TAG_MASK_ALL, NULL, &msg) != WH_OK)
            continue;
        // An error leaves the message with its holder.
        if (i == 0 || noted(wh_message_recv(msg, into[i], sizeof(into[i]), TELL_OF(into[i]),
                                            &reqs[4 + i])) < 0)
            wh_message_drop(msg);
    }
    settle(reqs, 8);
}

static wh_object *parked;
static size_t parked_index;

static wh_status allocate(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)arg;
    if (index == 0 && !parked) {
        parked = object;
        parked_index = index;
        return WH_PENDING;
    }
    *ptr = malloc(wh_object_frame(object, index)->size + 1);
    return *ptr ? WH_OK : WH_ENOMEM;
}

static void free_memory(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    free(ptr);
}

// objects_with_places receives objects into memory that was given with the receive, or is given later.
static void objects_with_places(void) {
    wh_request *reqs[4] = {NULL};
    wh_frame out[2] = {{.data = source, .size = 200000}, {.data = source, .size = 100}};
    wh_frame in[2] = {{.data = into[0], .size = sizeof(into[0])},
                      {.data = into[1], .size = sizeof(into[1])}};
    parked = NULL;
    if (wh_worker_set_allocator(d.server, WH_MEM_HOST,
                                WH_ALLOCATOR(.alloc = allocate, .free_fn = free_memory)) != WH_OK)
        return;
    (void)noted(wh_object_send(d.to, "head", 4, out, 2, sizeof(wh_frame), 1, TELL, &reqs[0]));
    (void)noted(wh_object_send(d.to, "head", 4, out, 2, sizeof(wh_frame), 2, TELL, &reqs[1]));
    (void)noted(
        wh_object_recv(d.from, in, 2, sizeof(wh_frame), 1, WH_TAG_MASK_ALL, TELL, &reqs[2]));
    (void)noted(wh_worker_object_recv(d.server, NULL, 0, 0, 2, WH_TAG_MASK_ALL, TELL, &reqs[3]));
    duo_for(&d, 2);
    // The second object may be the only one that asks, and asks when its receive is there.
    void *memory = parked && reqs[3] && wh_request_status(reqs[3]) == WH_PENDING
                       ? malloc(sizeof(into[0]))
                       : NULL;
    if (memory && wh_object_accept(parked, parked_index, memory) != WH_OK)
        free(memory);
    settle(reqs, 4);
}

static void take_object(wh_endpoint *ep, wh_object *object, void *arg) {
    (void)ep, (void)arg;
    const wh_frame *frame = wh_object_frame(object, 0);
    CHECK_MEM(frame->data, source, frame->size);
    wh_object_free(object);
}

// handled_objects come to the worker's handler, some before it is set.
static void handled_objects(void) {
    wh_request *reqs[6] = {NULL};
    wh_frame frames[2] = {{.data = source, .size = 200000}, {.data = source, .size = 100}};
    for (unsigned i = 0; i < 6; i++) {
        (void)noted(wh_object_send(d.to, "head", 4, &frames[i & 1], 1 + !(i & 1), sizeof(wh_frame),
                                   1, TELL, &reqs[i]));
        duo_for(&d, 1);
        if (i == 2 && wh_worker_set_object(d.server, take_object, NULL) != WH_OK)
            break;
    }
    settle(reqs, 6);
}

static void *device[2];  // memory that the CPU may not touch, made once

static void device_memory(void) {
    wh_request *reqs[6] = {NULL};
    static const size_t sizes[] = {100, 100000};
    for (unsigned i = 0; i < 2; i++) {
        (void)noted(wh_tag_send(d.to, device[0], sizes[i], i, TELL, &reqs[i]));
        (void)noted(
            wh_tag_recv(d.from, device[1], sizes[i], i, WH_TAG_MASK_ALL, TELL, &reqs[2 + i]));
    }
    wh_frame frame = {.data = device[0], .size = 100000};
    (void)noted(wh_object_send(d.to, "h", 1, &frame, 1, sizeof(wh_frame), 5, TELL, &reqs[4]));
    (void)noted(wh_object_recv(d.from, NULL, 0, 0, 5, WH_TAG_MASK_ALL, TELL, &reqs[5]));
    settle(reqs, 6);
}

// columns_of makes the type of a matrix with rows of 8 words, column by column: all bytes of it, in another order.  NULL: no
// memory.
static wh_type *columns_of(int64_t rows) {
    const int64_t shape[] = {8, rows}, strides[] = {8, 64};
    wh_type *made = NULL;
    wh_status st = wh_type_create_strided(2, shape, strides, wh_type_basic(WH_TYPE_INT64), &made);
    CHECK(st == WH_OK || st == WH_ENOMEM);
    return made;
}

#define TELL_LAID(buffer, laid) WH_OP_OPTS(.done = on_done, .arg = (buffer), .type = (laid))

static wh_status receive_laid(wh_am *am, void *arg) {
    wh_status st = noted(wh_am_recv(am, into[6], 1, TELL_LAID(into[6], arg), NULL));
    return st == WH_PENDING ? WH_PENDING : WH_OK;
}

static void layouts(void) {
    enum { SIZES = 3 };
    static const int64_t rows[SIZES] = {8, 250, 4000};
    wh_request *reqs[4 * SIZES] = {NULL};
    wh_type *types[SIZES];
    for (unsigned i = 0; i < SIZES; i++)
        types[i] = columns_of(rows[i]);
    for (unsigned i = 0; i < SIZES && types[i]; i++) {
        wh_frame from = {.data = source, .size = 1, .type = types[i]}, to = from;
        to.data = into[3 + i];
        (void)noted(wh_tag_send(d.to, source, 1, i, TELL_LAID(NULL, types[i]), &reqs[i]));
        (void)noted(wh_object_send(d.to, NULL, 0, &from, 1, sizeof(from), i, TELL, &reqs[3 + i]));
        duo_for(&d, i % 2);  // some come before their receives
        (void)noted(wh_tag_recv(d.from, into[i], 1, i, WH_TAG_MASK_ALL,
                                TELL_LAID(into[i], types[i]), &reqs[6 + i]));
        (void)noted(wh_object_recv(d.from, &to, 1, sizeof(to), i, WH_TAG_MASK_ALL,
                                   WH_OP_OPTS(.done = on_place, .arg = into[3 + i]), &reqs[9 + i]));
    }
    if (types[1] && wh_worker_set_am(d.server, 1, receive_laid, types[1]) == WH_OK)
        (void)noted(wh_am_send(d.to, 1, NULL, 0, source, 1, TELL_LAID(NULL, types[1]), NULL));
    duo_for(&d, 2);
    settle(reqs, 4 * SIZES);
    if (types[1])
        CHECK_EQ_INT(wh_worker_set_am(d.server, 1, NULL, NULL), WH_OK);
    for (unsigned i = 0; i < SIZES; i++)
        wh_type_release(types[i]);
}

// flood fills the ring until it grows, and the socket until it takes no more.
static void flood(void) {
    enum { MANY = 200, EACH = 2000 };
    wh_request *reqs[2 * MANY] = {NULL};
    for (unsigned i = 0; i < MANY; i++)
        (void)noted(wh_tag_send(d.to, source, EACH, 1, TELL, &reqs[i]));
    for (unsigned i = 0; i < MANY; i++)
        (void)noted(wh_tag_recv(d.from, into[0], EACH, 1, WH_TAG_MASK_ALL, TELL_OF(into[0]),
                                &reqs[MANY + i]));
    settle(reqs, 2 * MANY);
}

// given_up cancels, and lets time out, what is announced, granted and posted.
static void given_up(void) {
    wh_request *reqs[6] = {NULL};
    for (unsigned i = 0; i < 2; i++)
        (void)noted(wh_tag_send(d.to, source, sizeof(source), i,
                                WH_OP_OPTS(.done = on_done, .timeout_ms = i ? 2 : 0), &reqs[i]));
    duo_for(&d, 1);
    (void)noted(wh_tag_recv(d.from, into[0], sizeof(into[0]), 0, WH_TAG_MASK_ALL, TELL_OF(into[0]),
                            &reqs[2]));
    (void)noted(wh_tag_recv(d.from, into[1], 10, 9, WH_TAG_MASK_ALL,
                            WH_OP_OPTS(.done = on_done, .timeout_ms = 2), &reqs[3]));
    (void)noted(wh_object_send(d.to, source, 100000, NULL, 0, 0, 3, TELL, &reqs[4]));
    if (reqs[0])
        wh_request_cancel(reqs[0]);
    duo_for(&d, 3);
    settle(reqs, 6);
}

// by_name connects where a name must be looked up, and to oneself.
static void by_name(void) {
    char address[64];
    wh_endpoint *eps[2] = {NULL};
    snprintf(address, sizeof(address), "localhost:%u", wh_listener_port(d.listener));
    for (int i = 0; i < 2; i++)
        if (wh_endpoint_connect(i ? d.server : d.client, address,
                                WH_ENDPOINT_OPTS(.timeout_ms = 1000), &eps[i]) != WH_OK)
            eps[i] = NULL;
    for (int i = 0; i < 2; i++) {
        if (!eps[i])
            continue;
        IN_TIME(wh_endpoint_status(eps[i]) != WH_PENDING);
        wh_endpoint_abort(eps[i]);
    }
}

static void more_endpoints(void) {
    wh_endpoint *more[3] = {NULL};
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", wh_listener_port(d.listener));
    for (int i = 0; i < 3; i++)
        if (wh_endpoint_connect(i == 2 ? d.server : d.client, address,
                                WH_ENDPOINT_OPTS(.timeout_ms = 300), &more[i]) != WH_OK)
            more[i] = NULL;
    for (int i = 0; i < 3; i++)
        if (more[i])
            IN_TIME(wh_endpoint_status(more[i]) != WH_PENDING);
    for (int i = 0; i < 3; i++)
        if (more[i])
            wh_endpoint_abort(more[i]);
    uint8_t blob[WH_ADDRESS_MAX];
    size_t size;
    wh_endpoint *by_blob = NULL;
    if (wh_worker_address(d.server, blob, &size) == WH_OK &&
        wh_endpoint_connect_blob(d.client, blob, size, WH_ENDPOINT_OPTS(.timeout_ms = 300),
                                 &by_blob) == WH_OK) {
        IN_TIME(wh_endpoint_status(by_blob) != WH_PENDING);
        wh_endpoint_abort(by_blob);
    }
}

// run does the scenario once, with allocation n failing, and says whether that was reached.
static bool run(void (*scenario)(void), const char *const *options, bool connect_first,
                uint64_t n) {
    armed = n;
    started = ended = 0;
    memset(into, 0, sizeof(into));
    d = (duo){.server = NULL};
    d.ctx[0] = kit_context(options);
    d.ctx[1] = kit_context(options);
    d.server = kit_worker(d.ctx[0]);
    d.client = kit_worker(d.ctx[1]);
    bool connected = connect_first && connect_both();
    CHECK(connected || !connect_first);
    if (connected)
        duo_for(&d, 1);
    whi_alloc_fail_at(n);
    if (connected || connect_both())
        scenario();
    bool reached = whi_alloc_count() >= n;
    whi_alloc_fail_at(0);
    wh_listener_close(d.listener);
    if (d.to)
        wh_endpoint_abort(d.to);
    if (d.from)
        wh_endpoint_abort(d.from);
    wh_worker_destroy(d.client);
    wh_worker_destroy(d.server);
    CHECK_EQ_INT(ended, started);  // the end of the workers has completed the rest, once
    wh_context_destroy(d.ctx[0]);
    wh_context_destroy(d.ctx[1]);
    return reached;
}

static void every_allocation(void (*scenario)(void), bool connect_first) {
    static const char *const lanes[][6] = {
        {"lanes=auto", "grace=500ms", "ring_size=16K", "ring_max=64K", "eager_max=4K", NULL},
        {"lanes=stream", "grace=500ms", "secret=one", NULL}};
    kit_log_begin();
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (uint8_t)(i * 7);
    for (int lane = 0; lane < 2; lane++) {
        uint64_t n = 1;
        while (run(scenario, lanes[lane], connect_first, n)) {
            CHECK(++n < ALLOCATIONS_MAX);
            kit_log.used = 0;
        }
        CHECK(n > 1);
    }
    d = (duo){.server = NULL};
    wh_log_set_sink(NULL, NULL);
}

static void nothing(void) {}

TEST(connecting) {
    every_allocation(nothing, false);
}

TEST(small_tag_messages) {
    every_allocation(small_tags, true);
}

TEST(messages_before_their_receives) {
    every_allocation(kept_tags, true);
}

TEST(large_tag_messages) {
    every_allocation(large_tags, true);
}

TEST(all_kinds_of_objects) {
    every_allocation(objects, true);
}

TEST(all_kinds_of_active_messages) {
    every_allocation(active_messages, true);
}

TEST(flushing_and_closing) {
    every_allocation(flush_and_close, true);
}

TEST(messages_that_were_taken) {
    every_allocation(taken_messages, true);
}

TEST(objects_into_given_memory) {
    every_allocation(objects_with_places, true);
}

TEST(handled_objects_without_memory) {
    every_allocation(handled_objects, true);
}

TEST(memory_of_a_device) {
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, 100000, &device[i]), WH_OK);
    every_allocation(device_memory, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device[i]), WH_OK);
}

TEST(memory_that_is_laid_out) {
    every_allocation(layouts, true);
}

TEST(more_than_the_lane_takes) {
    every_allocation(flood, true);
}

TEST(what_is_given_up) {
    every_allocation(given_up, true);
}

TEST(names_that_are_looked_up) {
    every_allocation(by_name, true);
}

TEST(more_endpoints_on_the_link) {
    every_allocation(more_endpoints, true);
}

TEST(contexts_and_workers) {
    kit_log_begin();
    for (uint64_t n = 1;; n++) {
        wh_context *ctx = NULL;
        wh_worker *worker = NULL;
        whi_alloc_fail_at(n);
        wh_status st = wh_context_create(NULL, &ctx);
        CHECK((st == WH_OK) == (ctx != NULL));
        if (ctx) {
            st = wh_worker_create(ctx, n % 2 ? NULL : WH_WORKER_OPTS(.progress_thread = true),
                                  &worker);
            CHECK((st == WH_OK) == (worker != NULL));
        }
        bool reached = whi_alloc_count() >= n;
        whi_alloc_fail_at(0);
        CHECK(worker || st == WH_ENOMEM);
        wh_worker_destroy(worker);
        wh_context_destroy(ctx);
        if (!reached && n % 2 == 0)
            break;
    }
    wh_log_set_sink(NULL, NULL);
}

TEST_MAIN()
