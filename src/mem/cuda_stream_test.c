// SPDX-License-Identifier: BSD-3-Clause
//
// Streams of CUDA: order within, events between, and the default stream's meaning, over streams that
// take a random time for each piece of work.
#include "base/clock.h"
#include "base/rng.h"
#include "mem/cuda_kit.h"
#include "mem/stream_kit.h"

enum { SIZE = 64, SLOW_US = 2000 };

static void set_delay(uint64_t seed, unsigned most_us) {
    ENTRY(void, "cutest_delay", (uint64_t, unsigned), seed, most_us);
}

static void wait_for(whi_mem_event *event) {
    uint64_t deadline = whi_clock_ns() + 20 * WHI_NS_PER_S;
    wh_status status;
    while ((status = whi_mem_event_query(event)) == WH_PENDING) {
        CHECK(whi_clock_ns() < deadline);
        usleep(100);
    }
    CHECK_EQ_INT(status, WH_OK);
    whi_mem_event_release(event);
}

static long events(void) {
    return ENTRY(long, "cutest_events", (void));
}

TEST(an_event_covers_what_came_before_it) {
    static gate first = GATE, second = GATE;
    char *ptr = make(0, SIZE);
    void *stream = make_stream(0, 1);
    put(ptr, 'a');
    put(ptr + 1, 0);
    put(ptr + 2, 0);
    launch(0, stream, pass_gate, &first);
    within(ptr + 1, ptr, stream);
    whi_mem_event one = record(stream);
    launch(0, stream, pass_gate, &second);
    within(ptr + 2, ptr, stream);
    whi_mem_event two = record(stream);
    CHECK_EQ_INT(whi_mem_event_query(&one), WH_PENDING);
    CHECK_EQ_INT(look(ptr + 1), 0);
    open_gate(&first);
    wait_for(&one);
    CHECK_EQ_INT(look(ptr + 1), 'a');
    CHECK_EQ_INT(whi_mem_event_query(&two), WH_PENDING);
    CHECK_EQ_INT(look(ptr + 2), 0);
    open_gate(&second);
    wait_for(&two);
    CHECK_EQ_INT(look(ptr + 2), 'a');
    CHECK_EQ_INT(events(), 0);
    unmake(ptr);
}

TEST(the_host_side_is_read_and_written_later) {
    static gate g = GATE;
    char src = 'a', dst = 0, *ptr = make(1, SIZE);
    void *stream = make_stream(1, 1);
    launch(1, stream, pass_gate, &g);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_FROM_HOST, ptr, &src, 1, stream), WH_OK);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_TO_HOST, &dst, ptr, 1, stream), WH_OK);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_TO_HOST, NULL, ptr, 0, stream), WH_OK);
    whi_mem_event event = record(stream);
    CHECK_EQ_INT(dst, 0);
    open_gate(&g);
    wait_for(&event);
    CHECK_EQ_INT(dst, 'a');
    unmake(ptr);
}

TEST(streams_do_not_wait_for_each_other) {
    static gate g = GATE;
    char *ptr = make(0, SIZE);
    void *slow = make_stream(0, 1), *fast = make_stream(0, 1);
    put(ptr, 'a');
    launch(0, slow, pass_gate, &g);
    whi_mem_event held = record(slow);
    within(ptr + 1, ptr, fast);
    whi_mem_event event = record(fast);
    wait_for(&event);
    CHECK_EQ_INT(look(ptr + 1), 'a');
    CHECK_EQ_INT(whi_mem_event_query(&held), WH_PENDING);
    open_gate(&g);
    wait_for(&held);
    unmake(ptr);
}

TEST(one_stream_waits_for_an_event_of_another_device) {
    static gate g = GATE;
    char *there = make(1, SIZE), *here = make(0, SIZE);
    void *producer = make_stream(1, 1), *consumer = make_stream(0, 1);
    put(there, 'a');
    put(there + 1, 0);
    launch(1, producer, pass_gate, &g);
    within(there + 1, there, producer);
    whi_mem_event produced = record(producer);
    CHECK_EQ_INT(ops->wait(consumer, &produced), WH_OK);
    whi_mem_event_release(&produced);  // at once
    within(here, there + 1, consumer);
    whi_mem_event consumed = record(consumer);
    usleep(SLOW_US);
    CHECK_EQ_INT(whi_mem_event_query(&consumed), WH_PENDING);
    open_gate(&g);
    wait_for(&consumed);
    CHECK_EQ_INT(look(here), 'a');
    unmake(there);
    unmake(here);
}

// The default stream is that of the context that is current, as in CUDA itself.
TEST(the_default_stream_of_the_current_context) {
    static gate g = GATE;
    char *ptr = make(1, SIZE);
    put(ptr, 'a');
    put(ptr + 1, 0);
    launch(1, NULL, pass_gate, &g);
    enter(1);
    within(ptr + 1, ptr, NULL);
    whi_mem_event held = record(NULL);
    CHECK_EQ_INT(whi_mem_event_query(&held), WH_PENDING);
    whi_cuda_leave();
    CHECK_EQ_INT(whi_mem_event_query(&held), WH_PENDING);  // an event knows where it is
    // Without one it is the first device's, which nothing holds up, also of memory elsewhere.
    within(ptr + 2, ptr, NULL);
    whi_mem_event free_one = record(NULL);
    wait_for(&free_one);
    CHECK_EQ_INT(look(ptr + 2), 'a');
    CHECK_EQ_INT(look(ptr + 1), 0);
    open_gate(&g);
    wait_for(&held);
    CHECK_EQ_INT(look(ptr + 1), 'a');
    CHECK_EQ_INT(depth(), 0);
    unmake(ptr);
}

TEST(the_default_stream_of_a_thread) {
    void *const per_thread = (void *)2;
    char *ptr = make(0, SIZE);
    put(ptr, 'a');
    enter(0);
    within(ptr + 1, ptr, per_thread);
    whi_mem_event event = record(per_thread);
    wait_for(&event);
    whi_cuda_leave();
    CHECK_EQ_INT(look(ptr + 1), 'a');
    unmake(ptr);
}

TEST(overlapping_ranges_are_refused) {
    listen();
    char *ptr = make(0, SIZE);
    void *stream = make_stream(0, 1);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_WITHIN, ptr + 1, ptr, 2, stream), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-CUDA-08");
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_WITHIN, ptr, ptr + 1, 2, stream), WH_EINVAL);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_WITHIN, ptr + 2, ptr, 2, stream), WH_OK);
    whi_mem_event event = record(stream);
    wait_for(&event);
    unmake(ptr);
}

// A chain of copies through random streams of two devices, each of which waits for the one before:
// whatever the delays, the byte must arrive at the end.
TEST(random_chains) {
    enum { STREAMS = 4 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        set_delay(seed, 300);
        void *streams[STREAMS];
        for (int i = 0; i < STREAMS; i++)
            streams[i] = make_stream(i % 2, 1);
        char *ptr = make(0, SIZE), zeros[SIZE] = {0};
        CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr, zeros, SIZE), WH_OK);
        put(ptr, (char)seed);
        whi_rng rng;
        whi_rng_init(&rng, seed);
        whi_mem_event last = {.ops = NULL};
        for (int i = 1; i < SIZE; i++) {
            void *stream = streams[whi_rng_below(&rng, STREAMS)];
            if (last.ops)
                CHECK_EQ_INT(ops->wait(stream, &last), WH_OK);
            within(ptr + i, ptr + i - 1, stream);
            whi_mem_event_release(&last);
            last = record(stream);
            if (whi_rng_chance(&rng, 10))
                (void)whi_mem_event_query(&last);
        }
        wait_for(&last);
        CHECK_EQ_INT(look(ptr + SIZE - 1), (char)seed);
        unmake(ptr);
    }
    set_delay(1, 0);
    CHECK_EQ_INT(events(), 0);
}

static void *chain(void *arg) {
    int device = (int)(uintptr_t)arg % 2;
    void *ptr, *stream = make_stream(device, 1);
    char here[SIZE] = {(char)(uintptr_t)arg}, back = 0;
    if (ops->alloc(device, SIZE, &ptr) != WH_OK)
        return arg;
    bool good = ops->copy_async(WHI_MEM_FROM_HOST, ptr, here, SIZE, stream) == WH_OK;
    for (int i = 1; i < SIZE && good; i++)
        good = ops->copy_async(WHI_MEM_WITHIN, (char *)ptr + i, (char *)ptr + i - 1, 1, stream) ==
               WH_OK;
    good &= ops->copy_async(WHI_MEM_TO_HOST, &back, (char *)ptr + SIZE - 1, 1, stream) == WH_OK;
    whi_mem_event event = record(stream);
    wait_for(&event);
    return good && back == here[0] && ops->free(ptr) == WH_OK ? NULL : arg;
}

TEST(many_threads) {
    pthread_t threads[4];
    set_delay(7, 50);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, chain, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
    set_delay(1, 0);
}

TEST_MAIN()
