// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated device's memory: the CPU dies on touching it, copies reach it, and every misuse is
// an error that says what it was.
#include "mem/sim.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/test_child.h"

static const whi_mem_ops *const ops = &whi_mem_sim;
static char heard_id[32], heard_text[512];

static void hear(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)arg;
    snprintf(heard_id, sizeof(heard_id), "%s", id);
    snprintf(heard_text, sizeof(heard_text), "%s", text);
}

static void listen(void) {
    heard_id[0] = heard_text[0] = 0;
    whi_log_set_sink(hear, NULL);
}

static char *make(size_t size) {
    void *ptr = NULL;
    CHECK_EQ_INT(ops->alloc(0, size, &ptr), WH_OK);
    return ptr;
}

static void unmake(char *ptr) {
    CHECK_EQ_INT(ops->free(ptr), WH_OK);
}

TEST(the_cpu_cannot_touch_it) {
    char *ptr = make(10000);
    char here = 0;
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr, "abc", 3), WH_OK);
    CHECK_EQ_INT(signal_of(touch_read, ptr), SIGSEGV);
    CHECK_EQ_INT(signal_of(touch_write, ptr), SIGSEGV);
    CHECK_EQ_INT(signal_of(touch_read, ptr + 9999), SIGSEGV);
    CHECK_EQ_INT(signal_of(touch_write, ptr + 9999), SIGSEGV);
    CHECK_EQ_INT(signal_of(touch_read, &here), 0);
    CHECK_EQ_INT(signal_of(touch_write, whi_sim_engine(ptr, 1)), 0);  // the device can
    unmake(ptr);
}

TEST(fresh_memory_copies_out_as_zeros) {
    char *ptr = make(100), back[100];
    memset(back, 1, sizeof(back));
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, back, ptr, 100), WH_OK);
    for (int i = 0; i < 100; i++)
        CHECK_EQ_INT(back[i], 0);
    unmake(ptr);
}

TEST(size_zero) {
    char *ptr = make(0);
    CHECK(ptr);
    wh_mem_info info;
    CHECK(ops->query(ptr, &info));
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, NULL, ptr, 0), WH_OK);
    unmake(ptr);
}

TEST(alloc_arguments) {
    listen();
    void *ptr = &ptr;
    CHECK_EQ_INT(ops->alloc(-1, 1, &ptr), WH_ENOTFOUND);
    CHECK_EQ_INT(ops->alloc(WHI_SIM_DEVICES, 1, &ptr), WH_ENOTFOUND);
    CHECK_EQ_STR(heard_text, "sim has devices 0 to 3, and no device 4");
    CHECK_EQ_INT(ops->alloc(0, SIZE_MAX, &ptr), WH_ENOMEM);
    CHECK_EQ_INT(ops->alloc(0, PTRDIFF_MAX - 4096, &ptr), WH_ENOMEM);
    CHECK(ptr == &ptr);
}

TEST(query_knows_exactly_its_ranges) {
    enum { COUNT = 200 };
    char *ptrs[COUNT];
    size_t sizes[COUNT];
    whi_rng rng;
    whi_rng_init(&rng, 5);
    for (int i = 0; i < COUNT; i++) {
        sizes[i] = 1 + whi_rng_below(&rng, 20000);
        void *ptr;
        CHECK_EQ_INT(ops->alloc(i % WHI_SIM_DEVICES, sizes[i], &ptr), WH_OK);
        ptrs[i] = ptr;
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            wh_mem_info info;
            size_t offset = whi_rng_below(&rng, sizes[i]);
            bool gone = round == 1 && i % 3 == 0;
            CHECK_EQ_INT(ops->query(ptrs[i] + offset, &info), !gone);
            if (gone)
                continue;
            CHECK(info.base == ptrs[i]);
            CHECK_EQ_INT(info.length, sizes[i]);
            CHECK_EQ_INT(info.device, i % WHI_SIM_DEVICES);
            CHECK(ops->query(ptrs[i] + sizes[i] - 1, &info) && info.base == ptrs[i]);
            // The rest of the last page is nobody's.
            if (sizes[i] % 4096)
                CHECK(!ops->query(ptrs[i] + sizes[i], &info));
        }
        for (int i = 0; i < COUNT && !round; i += 3)
            unmake(ptrs[i]);
    }
    for (int i = 0; i < COUNT; i++)
        if (i % 3)
            unmake(ptrs[i]);
    wh_mem_info info;
    CHECK(!ops->query(ptrs[1], &info));
}

TEST(ranges_that_cross_the_end) {
    listen();
    char *ptr = make(100), here[200] = {0};
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr, here, 100), WH_OK);
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr + 99, here, 1), WH_OK);
    CHECK_EQ_STR(heard_id, "");
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, ptr, here, 101), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-MEM-07");
    CHECK(strstr(heard_text, "101 bytes") && strstr(heard_text, "by 1"));
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, here, ptr + 60, 50), WH_EINVAL);
    CHECK(strstr(heard_text, "by 10"));
    CHECK_EQ_INT(ops->copy(WHI_MEM_WITHIN, ptr + 90, ptr, 20), WH_EINVAL);
    CHECK_EQ_INT(ops->copy(WHI_MEM_WITHIN, ptr, ptr + 90, 20), WH_EINVAL);
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, here, ptr + 1, SIZE_MAX), WH_EINVAL);
    CHECK_EQ_INT(ops->copy_async(WHI_MEM_TO_HOST, here, ptr + 60, 50, NULL), WH_EINVAL);
    unmake(ptr);
}

TEST(foreign_and_freed_pointers) {
    listen();
    char here[8] = {0};
    CHECK_EQ_INT(ops->copy(WHI_MEM_FROM_HOST, here, here, 1), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-MEM-06");
    CHECK(strstr(heard_text, "no sim memory"));
    CHECK_EQ_INT(ops->free(here), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-MEM-05");
    char *ptr = make(100);
    CHECK_EQ_INT(ops->free(ptr + 10), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-MEM-03");
    CHECK(strstr(heard_text, "10 bytes into"));
    unmake(ptr);
    CHECK_EQ_INT(ops->free(ptr), WH_EINVAL);
    CHECK_EQ_STR(heard_id, "E-MEM-04");
    CHECK_EQ_INT(ops->copy(WHI_MEM_TO_HOST, here, ptr, 1), WH_EINVAL);
    CHECK(strstr(heard_text, "freed memory"));
}

TEST(every_allocation_may_fail) {
    for (uint64_t n = 1; n <= 2; n++) {  // a table of 16, and one of 32
        void *ptrs[20];
        int refused = 0;
        whi_alloc_fail_at(n);
        for (int i = 0; i < 20; i++)
            while (ops->alloc(0, 1, &ptrs[i]) == WH_ENOMEM)
                refused++;
        whi_alloc_fail_at(0);
        CHECK_EQ_INT(refused, 1);
        for (int i = 0; i < 20; i++)
            unmake(ptrs[i]);
    }
}

// Returns the number of lines of a file of /proc.
static int count_lines(const char *path) {
    FILE *file = fopen(path, "r");
    CHECK(file);
    int lines = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    return lines;
}

TEST(nothing_is_left_mapped_or_open) {
    unmake(make(100));  // whatever is made once is made
    int before = count_lines("/proc/self/maps");
    int fd = dup(0);
    for (int i = 0; i < 100; i++)
        unmake(make(5000));
    int same = dup(0);
    CHECK_EQ_INT(same, fd + 1);
    close(same);
    close(fd);
    int after = count_lines("/proc/self/maps");
    CHECK(after < before + 20);
}

// Threads allocate, copy, query and free at once; each finds only its own.
static void *use_much(void *arg) {
    unsigned char mark = (unsigned char)(uintptr_t)arg, here[64], back[64];
    memset(here, mark, sizeof(here));
    for (int i = 0; i < 300; i++) {
        void *ptr;
        wh_mem_info info;
        if (ops->alloc(mark % WHI_SIM_DEVICES, 64, &ptr) != WH_OK ||
            ops->copy(WHI_MEM_FROM_HOST, ptr, here, 64) != WH_OK ||
            ops->copy(WHI_MEM_TO_HOST, back, ptr, 64) != WH_OK || memcmp(here, back, 64) != 0 ||
            !ops->query(ptr, &info) || info.device != mark % WHI_SIM_DEVICES || info.base != ptr ||
            ops->free(ptr) != WH_OK)
            return arg;
    }
    return NULL;
}

TEST(many_threads) {
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, use_much, (void *)(i + 1));
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
}

TEST_MAIN()
