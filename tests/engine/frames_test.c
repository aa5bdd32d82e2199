// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of received frames: which allocator is asked for which of them and what it is told, and
// what the library allocates and keeps where none is.
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "engine/test_kit.h"
#include "mem/host_pool.h"

enum { LARGE = 3 << 20, SMALL = 100, TAG = 77 };

static duo d;
static char source[LARGE];

// ---- an allocator that notes what it was told

typedef struct witness {
    unsigned asked, freed, mask;  // mask: of the frames asked for
    wh_endpoint *ep;
    void *receive;
    bool later;
    wh_object *object;
} witness;

static wh_status allocate(wh_object *object, size_t index, void **data, void *arg) {
    witness *w = arg;
    const wh_frame *frame = wh_object_frame(object, index);
    CHECK(!frame->data && frame->mem == WH_MEM_HOST);
    CHECK_EQ_INT(wh_object_tag(object), TAG);
    w->asked++;
    w->mask |= 1u << index;
    w->ep = wh_object_endpoint(object);
    w->receive = wh_object_arg(object);
    w->object = object;
    if (w->later)
        return WH_PENDING;
    *data = malloc(frame->size + 1);
    return WH_OK;
}

static void release(void *data, size_t size, wh_mem_kind mem, int device, void *arg) {
    (void)size, (void)mem, (void)device;
    ((witness *)arg)->freed++;
    free(data);
}

#define BY(w) WH_ALLOCATOR(.alloc = allocate, .free_fn = release, .arg = &(w))
#define FROM(w, least)                                                                             \
    WH_ALLOCATOR(.alloc = allocate, .free_fn = release, .arg = &(w), .threshold = (least))

// begin_send starts to send frames of these sizes; the receive comes before or after it.
static wh_request *begin_send(const size_t *sizes, size_t count) {
    wh_frame frames[8];
    wh_request *req = NULL;
    for (size_t i = 0; i < count; i++)
        frames[i] = (wh_frame){source, sizes[i], WH_MEM_HOST, 0, NULL};
    CHECK(wh_object_send(d.to, "head", 4, frames, count, sizeof(wh_frame), TAG, NULL, &req) >= 0);
    return req;
}

static wh_object *end_receive(wh_request *req) {
    wh_result result;
    UNTIL(&d, wh_request_status(req) != WH_PENDING);
    CHECK_EQ_INT(wh_request_result(req, &result), WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    wh_request_free(req);
    return result.object;
}

static void end_send(wh_request *req) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
}

// exchange sends frames and receives them; `first`: the receive comes before the object.
static wh_object *exchange(const size_t *sizes, size_t count, const wh_op_opts *opts, bool first) {
    wh_request *recv = NULL, *send = first ? NULL : begin_send(sizes, count);
    CHECK(wh_object_recv(d.from, NULL, 0, 0, TAG, WH_TAG_MASK_ALL, opts, &recv) >= 0);
    if (first)
        send = begin_send(sizes, count);
    wh_object *object = end_receive(recv);
    end_send(send);
    CHECK_EQ_INT(wh_object_count(object), count);
    for (size_t i = 0; i < count; i++)
        CHECK(!memcmp(wh_object_frame(object, i)->data, source, sizes[i]));
    return object;
}

static void begin(const char *const *options) {
    duo_begin(&d, options, NULL);
    duo_connect(&d);
    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (char)(i * 7 + i / 4096);
}

TEST(the_nearest_allocator_is_asked) {
    begin(NULL);
    witness worker = {0}, endpoint = {0}, receive = {0};
    static const size_t sizes[] = {SMALL, LARGE};
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, BY(worker)), WH_OK);
    for (int i = 0; i < 2; i++)
        wh_object_free(exchange(sizes, 1 + (size_t)i, NULL, i));
    CHECK_EQ_INT(worker.asked, 3);
    CHECK_EQ_INT(worker.freed, 3);
    CHECK(worker.ep == d.from && worker.mask == 3);

    CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_HOST, BY(endpoint)), WH_OK);
    CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_SIM, BY(worker)), WH_OK);
    wh_object_free(exchange(sizes, 2, NULL, true));
    CHECK(endpoint.asked == 2 && endpoint.freed == 2 && endpoint.ep == d.from);

    int mine;
    const wh_op_opts *opts = WH_OP_OPTS(.arg = &mine, .allocator = BY(receive));
    for (int first = 0; first < 2; first++)
        for (size_t count = 1; count < 3; count++)
            wh_object_free(exchange(sizes, count, opts, first));
    CHECK(receive.asked == 6 && receive.freed == 6 && receive.receive == &mine);

    // A level may also say that nobody is asked.
    wh_object_free(exchange(sizes, 2, WH_OP_OPTS(.allocator = WH_ALLOCATOR(.alloc = NULL)), true));
    CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_HOST, WH_ALLOCATOR(.alloc = NULL)),
                 WH_OK);
    wh_object_free(exchange(sizes, 2, NULL, true));
    CHECK(endpoint.asked == 2 && worker.asked == 3);
    CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_HOST, NULL), WH_OK);
    wh_object_free(exchange(sizes, 2, NULL, true));
    CHECK_EQ_INT(worker.asked, 5);
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, NULL), WH_OK);
    wh_object_free(exchange(sizes, 2, NULL, true));
    CHECK(worker.asked == 5 && worker.freed == 5 && endpoint.asked == 2 && receive.asked == 6);
    duo_end(&d);
}

// The object has its own copy of the allocator that it was matched with.
TEST(an_allocator_may_be_replaced_while_it_is_asked) {
    begin(NULL);
    witness before = {.later = true}, after = {0};
    static const size_t sizes[] = {LARGE};
    for (int level = 0; level < 2; level++) {
        wh_request *recv = NULL;
        const wh_allocator *first = BY(before);
        if (level)
            CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_HOST, first), WH_OK);
        else
            CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, first), WH_OK);
        CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, TAG, WH_TAG_MASK_ALL, NULL, &recv),
                     WH_PENDING);
        wh_request *send = begin_send(sizes, 1);
        before.object = NULL;
        UNTIL(&d, before.object);
        if (level)
            CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_HOST, BY(after)), WH_OK);
        else
            CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, BY(after)), WH_OK);
        CHECK_EQ_INT(wh_object_accept(before.object, 0, malloc(LARGE)), WH_OK);
        wh_object_free(end_receive(recv));
        end_send(send);
        CHECK_EQ_INT(before.freed, level + 1);
    }
    CHECK_EQ_INT(after.asked, 0);
    duo_end(&d);
}

TEST(below_the_threshold_nobody_is_asked) {
    begin(NULL);
    witness w = {0};
    static const size_t sizes[] = {0, SMALL, 4097, 5000, LARGE}, few[] = {SMALL - 1, SMALL};
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, FROM(w, 5000)), WH_OK);
    for (int first = 0; first < 2; first++) {
        w.mask = 0;
        wh_object *object = exchange(sizes, 5, NULL, first);
        CHECK_EQ_INT(w.mask, 1 << 3 | 1 << 4);
        CHECK(!wh_object_take_frame(object, 1));  // it lies in the object
        void *taken = wh_object_take_frame(object, 2);
        wh_object_free(object);
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, taken), WH_OK);
    }
    CHECK_EQ_INT(w.freed, 4);
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, FROM(w, SMALL)), WH_OK);
    w.mask = 0;
    wh_object_free(exchange(few, 2, NULL, true));
    CHECK_EQ_INT(w.mask, 2);
    duo_end(&d);
}

// count_allocations returns those of the library for a small object that is received.
static uint64_t count_allocations(void) {
    static const size_t sizes[] = {SMALL, 8};
    for (int i = 0; i < 3; i++)
        wh_object_free(exchange(sizes, 2, NULL, true));
    whi_alloc_fail_at(UINT64_MAX);
    wh_object_free(exchange(sizes, 2, NULL, true));
    uint64_t count = whi_alloc_count();
    whi_alloc_fail_at(0);
    return count;
}

TEST(below_the_threshold_nothing_is_allocated) {
    begin(NULL);
    witness w = {0};
    uint64_t without = count_allocations();
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, FROM(w, SMALL + 1)), WH_OK);
    CHECK_EQ_INT(count_allocations(), without);
    CHECK_EQ_INT(w.asked, 0);
    duo_end(&d);
}

TEST(what_is_no_allocator) {
    begin(NULL);
    witness w = {0};
    const wh_allocator *wrong[] = {WH_ALLOCATOR(.alloc = allocate),
                                   WH_ALLOCATOR(.free_fn = release),
                                   &(wh_allocator){.alloc = allocate, .free_fn = release}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        wh_request *req = NULL;
        CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_HOST, wrong[i]), WH_EINVAL);
        CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, WH_MEM_HOST, wrong[i]), WH_EINVAL);
        CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, TAG, WH_TAG_MASK_ALL,
                                    WH_OP_OPTS(.allocator = wrong[i]), &req),
                     WH_EINVAL);
        CHECK(!req);
    }
    CHECK_EQ_INT(wh_worker_set_allocator(d.server, WH_MEM_AUTO, BY(w)), WH_EINVAL);
    CHECK_EQ_INT(wh_endpoint_set_allocator(d.from, (wh_mem_kind)WHI_MEM_KINDS, BY(w)), WH_EINVAL);
    CHECK_EQ_INT(wh_worker_set_allocator(NULL, WH_MEM_HOST, BY(w)), WH_EINVAL);
    CHECK_EQ_INT(wh_endpoint_set_allocator(NULL, WH_MEM_HOST, BY(w)), WH_EINVAL);
    // Without memory for it nothing has happened.
    wh_request *req = NULL;
    wh_status st = WH_PENDING;
    for (uint64_t n = 1; st != WH_OK; n++) {
        whi_alloc_fail_at(n);
        st = wh_endpoint_set_allocator(d.from, WH_MEM_HOST, BY(w));
        whi_alloc_fail_at(0);
        CHECK(st == WH_OK || (st == WH_ENOMEM && n == 1));
    }
    for (uint64_t n = 1; !req; n++) {
        CHECK(n < 10);
        whi_alloc_fail_at(n);
        st = wh_object_recv(d.from, NULL, 0, 0, TAG, WH_TAG_MASK_ALL,
                            WH_OP_OPTS(.allocator = BY(w)), &req);
        whi_alloc_fail_at(0);
        CHECK(st == (req ? WH_PENDING : WH_ENOMEM));
    }
    wh_request_cancel(req);
    CHECK_EQ_INT(done_as(&d, req), WH_ECANCELLED);
    duo_end(&d);
}

// A receive frees its own allocator, also when it has a destination and never an object.
TEST(receives_leave_nothing) {
    begin(NULL);
    witness w = {0};
    char place[8];
    const wh_frame into = {place, sizeof(place), WH_MEM_HOST, 0, NULL};
    size_t before = 0;
    for (int i = 0; i < 1100; i++) {
        wh_request *req = NULL;
        if (i == 100)
            before = mallinfo2().uordblks;
        CHECK_EQ_INT(wh_object_recv(d.from, &into, 1, sizeof(into), TAG, WH_TAG_MASK_ALL,
                                    WH_OP_OPTS(.allocator = BY(w)), &req),
                     WH_PENDING);
        wh_request_cancel(req);
        CHECK_EQ_INT(done_as(&d, req), WH_ECANCELLED);
    }
    CHECK(mallinfo2().uordblks < before + 10000);
    duo_end(&d);
}

// ---- the library's own memory

static size_t kept(void) {
    return whi_host_trim(0);
}

static void *receive_large(void) {
    static const size_t sizes[] = {LARGE};
    wh_object *object = exchange(sizes, 1, NULL, true);
    void *taken = wh_object_take_frame(object, 0);
    wh_object_free(object);
    CHECK((uintptr_t)taken % WHI_HOST_HUGE == 0);
    return taken;
}

TEST(memory_is_used_again) {
    begin(NULL);
    void *first = receive_large();
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, first), WH_OK);
    CHECK(kept() >= LARGE);
    for (int i = 0; i < 3; i++) {
        void *again = receive_large();
        CHECK(again == first);
        CHECK_EQ_INT(kept(), 0);
        CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, again), WH_OK);
    }
    CHECK(kept() >= LARGE);
    wh_listener_close(d.listener);
    d.listener = NULL;
    wh_worker_destroy(d.server);
    d.server = NULL;
    CHECK_EQ_INT(kept(),
                 0);  // it goes with the last worker that has it, though that has a handle left
    duo_end(&d);
}

static void sleep_a_little(void) {
    wh_status st = wh_worker_wait(d.server, 5);
    CHECK(st == WH_OK || st == WH_ETIMEDOUT);
}

TEST(memory_is_given_back_when_idle) {
    static const char *const options[] = {"pool_idle=20ms", NULL};
    begin(options);
    size_t timers = whi_timers_count(&d.server->timers);
    void *data = receive_large();
    UNTIL(&d, whi_timers_count(&d.server->timers) <= timers);  // nothing comes back so soon
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, data), WH_OK);
    CHECK_EQ_INT(kept(), 0);  // and nobody would look after it now
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, receive_large()), WH_OK);
    CHECK(kept() >= LARGE || whi_timers_count(&d.server->timers) <= timers);
    // A sleeping worker gives it back, too.
    KIT_UNTIL(sleep_a_little(), "the end of the watch",
              whi_timers_count(&d.server->timers) <= timers);
    CHECK_EQ_INT(kept(), 0);
    duo_end(&d);
}

TEST(keeping_can_be_switched_off) {
    static const char *const options[] = {"pool_max=0", NULL};
    begin(options);
    size_t timers = whi_timers_count(&d.server->timers);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, receive_large()), WH_OK);
    CHECK_EQ_INT(kept(), 0);
    CHECK(whi_timers_count(&d.server->timers) <= timers);
    duo_end(&d);
}

static void *free_taken(void *data) {
    return (void *)(uintptr_t)(wh_mem_free_kind(WH_MEM_HOST, data) == WH_OK);
}

TEST(a_taken_frame_outlives_everything) {
    begin(NULL);
    void *data = receive_large(), *ok;
    duo_end(&d);
    CHECK(!memcmp(data, source, LARGE));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, free_taken, data));
    CHECK(!pthread_join(thread, &ok) && ok);
    CHECK_EQ_INT(kept(), 0);
}

// One part of an object can be kept without the others.
TEST(parts_are_apart) {
    static const char *const options[] = {"pool_max=0", NULL};
    static const size_t sizes[] = {LARGE, LARGE, LARGE, LARGE};
    begin(options);
    wh_object *object = exchange(sizes, 4, NULL, true);
    char *taken = wh_object_take_frame(object, 2), *other = wh_object_frame(object, 1)->data;
    wh_object_free(object);
    CHECK(!memcmp(taken, source, LARGE));
    CHECK(msync(other, 4096, MS_ASYNC) < 0);  // unmapped
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, taken), WH_OK);
    duo_end(&d);
}

// The frame of a destination is where its user said, whatever bytes of its layout begin there.
TEST(the_origin_of_a_layout) {
    enum { BEHIND = 1000, ROUNDS = 4 };
    static char into[3][2 * LARGE];
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    for (size_t i = 0; i < LARGE; i++)
        source[i] = (char)(i + i / 256);
    for (int i = 0; i < ROUNDS; i++) {
        const size_t count = i & 1 ? 3 : 1, size = i & 2 ? LARGE / 2 : SMALL;
        const wh_type *byte = wh_type_basic(WH_TYPE_BYTE);
        const int64_t behind = BEHIND;
        wh_type *run = NULL, *pairs = NULL;
        CHECK_EQ_INT(wh_type_create_hindexed_block(1, (int64_t)size, &behind, byte, &run), WH_OK);
        CHECK_EQ_INT(wh_type_create_vector((int64_t)size / 2, 2, 4, byte, &pairs), WH_OK);
        wh_frame from = {.data = source, .size = size}, sources[] = {from, from, from};
        wh_frame to[] = {{.data = into[0], .size = 1, .type = run},
                         {.data = into[1], .size = 1, .type = pairs},
                         {.data = into[2], .size = LARGE}};
        memset(into, 0, sizeof(into));
        wh_request *sent = NULL, *received = NULL;
        CHECK_EQ_INT(
            wh_object_recv(d.from, to, count, sizeof(*to), TAG, WH_TAG_MASK_ALL, NULL, &received),
            WH_PENDING);
        CHECK(wh_object_send(d.to, NULL, 0, sources, count, sizeof(*sources), TAG, NULL, &sent) >=
              0);
        wh_result result;
        UNTIL(&d, wh_request_result(received, &result) == WH_OK);
        CHECK_EQ_INT(result.status, WH_OK);
        for (size_t part = 0; part < count; part++) {
            const wh_frame *frame = wh_object_frame(result.object, part);
            CHECK(frame->data == into[part] && !frame->type);
            CHECK_EQ_INT(frame->size, size);
        }
        CHECK_MEM(into[0] + BEHIND, source, size);
        CHECK(count == 1 || memcmp(into[1] + 4, source + 2, 2) == 0);
        CHECK(count == 1 || memcmp(into[2], source, size) == 0);
        wh_request_free(received);
        wh_object_free(result.object);
        if (sent)
            CHECK_EQ_INT(done_as(&d, sent), WH_OK);
        wh_type_release(run);
        wh_type_release(pairs);
    }
    duo_end(&d);
}

TEST_MAIN()
