// SPDX-License-Identifier: BSD-3-Clause
//
// What is the same for all kinds: names, detection, allocation by kind, and copies between any two.
#include "mem/mem.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/test.h"

static void discard(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text, (void)arg;
}

// Errors are expected here, and their log lines are not wanted in the output.
static void be_quiet(void) {
    whi_log_set_sink(discard, NULL);
}

TEST(names) {
    CHECK_EQ_STR(wh_mem_kind_name(WH_MEM_AUTO), "auto");
    CHECK_EQ_STR(wh_mem_kind_name(WH_MEM_HOST), "host");
    CHECK_EQ_STR(wh_mem_kind_name(WH_MEM_CUDA), "cuda");
    CHECK_EQ_STR(wh_mem_kind_name(WH_MEM_SIM), "sim");
    CHECK_EQ_STR(wh_mem_kind_name((wh_mem_kind)4), "unknown");
    CHECK_EQ_STR(wh_mem_kind_name((wh_mem_kind)-1), "unknown");
    for (int i = WH_MEM_AUTO; i <= WH_MEM_SIM; i++) {
        wh_mem_kind kind = (wh_mem_kind)99;
        CHECK_EQ_INT(wh_mem_kind_parse(wh_mem_kind_name((wh_mem_kind)i), &kind), WH_OK);
        CHECK_EQ_INT(kind, i);
    }
    wh_mem_kind kind = WH_MEM_SIM;
    CHECK_EQ_INT(wh_mem_kind_parse("Host", &kind), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_kind_parse("unknown", &kind), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_kind_parse(NULL, &kind), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_kind_parse("host", NULL), WH_EINVAL);
    CHECK_EQ_INT(kind, WH_MEM_SIM);
}

TEST(kinds_that_exist) {
    unsigned kinds = wh_mem_kinds();
    CHECK(kinds & 1u << WH_MEM_HOST);
    CHECK(kinds & 1u << WH_MEM_SIM);
    CHECK(!(kinds & 1u << WH_MEM_AUTO));
    CHECK(whi_mem_ops_of(WH_MEM_HOST) == &whi_mem_host);
    CHECK(whi_mem_ops_of(WH_MEM_SIM) == &whi_mem_sim);
    CHECK(!whi_mem_ops_of(WH_MEM_AUTO));
    CHECK(!whi_mem_ops_of((wh_mem_kind)99));
    CHECK(!whi_mem_ops_of((wh_mem_kind)-1));
}

TEST(reasons) {
    for (int i = WH_MEM_HOST; i <= WH_MEM_SIM; i++)
        CHECK(*wh_mem_kind_reason((wh_mem_kind)i));
    CHECK_EQ_STR(wh_mem_kind_reason(WH_MEM_AUTO), "no such kind of memory");
    CHECK_EQ_STR(wh_mem_kind_reason((wh_mem_kind)99), "no such kind of memory");
    CHECK_EQ_STR(wh_mem_kind_reason((wh_mem_kind)-1), "no such kind of memory");
}

TEST(detection) {
    int here = 0;
    wh_mem_info info = {.size = sizeof(info)};
    void *device;
    CHECK_EQ_INT(wh_mem_query(&here, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
    CHECK_EQ_INT(info.device, -1);
    CHECK(!info.base && !info.length);
    size_t others = whi_mem_device_allocations;  // what CUDA counts where it exists
    CHECK_EQ_INT(whi_mem_devices(), others != 0);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 2, 100, &device), WH_OK);
    CHECK(whi_mem_devices());
    CHECK_EQ_INT(wh_mem_query(&here, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
    CHECK_EQ_INT(wh_mem_query((char *)device + 99, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_SIM);
    CHECK_EQ_INT(info.device, 2);
    CHECK(info.base == device);
    CHECK_EQ_INT(info.length, 100);
    CHECK_EQ_INT(wh_mem_query(NULL, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
    CHECK_EQ_INT(wh_mem_query(&here, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, device), WH_OK);
    CHECK_EQ_INT(whi_mem_device_allocations, others);
    CHECK_EQ_INT(wh_mem_query(device, &info), WH_OK);
    CHECK_EQ_INT(info.kind, WH_MEM_HOST);
}

TEST(allocation_arguments) {
    be_quiet();
    void *ptr = &ptr;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_AUTO, 0, 1, &ptr), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_HOST, 0, 1, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_alloc_kind((wh_mem_kind)99, 0, 1, &ptr), WH_ENOTSUP);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 99, 1, &ptr), WH_ENOTFOUND);
    whi_alloc_fail_at(1);
    wh_status status = wh_mem_alloc_kind(WH_MEM_HOST, 0, 1, &ptr);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
    CHECK(ptr == &ptr);  // written on success only
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_AUTO, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_free_kind((wh_mem_kind)99, NULL), WH_ENOTSUP);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_HOST, NULL), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, NULL), WH_OK);
}

enum { SIZE = 1000 };

static unsigned char pattern[SIZE];

static void fill_pattern(void) {
    for (int i = 0; i < SIZE; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 256);
}

TEST(copies_between_all_kinds) {
    static const wh_mem_kind kinds[] = {WH_MEM_HOST, WH_MEM_SIM};
    fill_pattern();
    for (int given = 0; given < 2; given++)  // the kinds are given, or detected
        for (int s = 0; s < 2; s++)
            for (int d = 0; d < 2; d++) {
                void *src, *dst;
                CHECK_EQ_INT(wh_mem_alloc_kind(kinds[s], 0, SIZE, &src), WH_OK);
                CHECK_EQ_INT(wh_mem_alloc_kind(kinds[d], 1, SIZE, &dst), WH_OK);
                wh_mem_kind from = given ? kinds[s] : WH_MEM_AUTO;
                wh_mem_kind to = given ? kinds[d] : WH_MEM_AUTO;
                unsigned char back[SIZE] = {0};
                CHECK_EQ_INT(wh_mem_copy(src, from, pattern, WH_MEM_HOST, SIZE), WH_OK);
                CHECK_EQ_INT(wh_mem_copy(dst, to, src, from, SIZE), WH_OK);
                CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, dst, to, SIZE), WH_OK);
                CHECK_MEM(back, pattern, SIZE);
                CHECK_EQ_INT(wh_mem_free_kind(kinds[s], src), WH_OK);
                CHECK_EQ_INT(wh_mem_free_kind(kinds[d], dst), WH_OK);
            }
}

TEST(overlapping_copies_of_one_kind) {
    static const wh_mem_kind kinds[] = {WH_MEM_HOST, WH_MEM_SIM};
    fill_pattern();
    for (int k = 0; k < 2; k++) {
        char *ptr;
        void *memory;
        CHECK_EQ_INT(wh_mem_alloc_kind(kinds[k], 0, SIZE + 1, &memory), WH_OK);
        ptr = memory;
        unsigned char back[SIZE] = {0};
        CHECK_EQ_INT(wh_mem_copy(ptr, kinds[k], pattern, WH_MEM_HOST, SIZE), WH_OK);
        CHECK_EQ_INT(wh_mem_copy(ptr + 1, kinds[k], ptr, kinds[k], SIZE), WH_OK);
        CHECK_EQ_INT(wh_mem_copy(back, WH_MEM_HOST, ptr + 1, kinds[k], SIZE), WH_OK);
        CHECK_MEM(back, pattern, SIZE);
        CHECK_EQ_INT(wh_mem_free_kind(kinds[k], memory), WH_OK);
    }
}

TEST(copy_arguments) {
    be_quiet();
    char here[4] = {0};
    CHECK_EQ_INT(wh_mem_copy(here, (wh_mem_kind)99, here, WH_MEM_HOST, 1), WH_ENOTSUP);
    CHECK_EQ_INT(wh_mem_copy(here, WH_MEM_HOST, here, (wh_mem_kind)99, 1), WH_ENOTSUP);
    CHECK_EQ_INT(wh_mem_copy(NULL, WH_MEM_HOST, NULL, WH_MEM_HOST, 0), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(here, WH_MEM_SIM, here, WH_MEM_HOST, 1), WH_EINVAL);
    CHECK_EQ_INT(wh_mem_copy(here, WH_MEM_HOST, here, WH_MEM_SIM, 1), WH_EINVAL);
}

// A second device kind, whose memory is one array and which can be told to fail.
enum { OTHER_SIZE = 1 << 20 };

static char other_memory[OTHER_SIZE];
static int other_copies, other_fails_at;

static bool other_query(const void *ptr, wh_mem_info *info) {
    if ((size_t)((const char *)ptr - other_memory) >= OTHER_SIZE)
        return false;
    *info = (wh_mem_info){.kind = WH_MEM_CUDA, .base = other_memory, .length = OTHER_SIZE};
    return true;
}

static wh_status other_copy(whi_mem_direction direction, void *dst, const void *src, size_t size) {
    (void)direction;
    if (++other_copies == other_fails_at)
        return WH_ESYSTEM;
    memcpy(dst, src, size);
    return WH_OK;
}

static const whi_mem_ops other = {.kind = WH_MEM_CUDA, .query = other_query, .copy = other_copy};

TEST(copies_between_two_device_kinds) {
    void *sim;
    size_t size = OTHER_SIZE - 12345;  // several pieces and a rest
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 0, size, &sim), WH_OK);
    for (size_t i = 0; i < OTHER_SIZE; i++)
        other_memory[i] = (char)(i * 31 >> 3);
    char *expected = whi_memdup(other_memory, size);
    other_copies = other_fails_at = 0;
    CHECK_EQ_INT(whi_mem_copy(&whi_mem_sim, sim, &other, other_memory, size), WH_OK);
    CHECK(other_copies > 2);
    memset(other_memory, 0, OTHER_SIZE);
    CHECK_EQ_INT(whi_mem_copy(&other, other_memory, &whi_mem_sim, sim, size), WH_OK);
    CHECK_MEM(other_memory, expected, size);
    CHECK_EQ_INT(other_memory[size], 0);
    whi_free(expected);

    // A range that is too long on either side stops it before the first piece.
    other_copies = 0;
    CHECK_EQ_INT(whi_mem_copy(&other, other_memory, &whi_mem_sim, sim, size + 1), WH_EINVAL);
    CHECK_EQ_INT(whi_mem_copy(&whi_mem_sim, sim, &other, other_memory + 20000, size), WH_EINVAL);
    CHECK_EQ_INT(whi_mem_copy(&whi_mem_sim, sim, &other, other_memory, size + 1), WH_EINVAL);
    CHECK_EQ_INT(whi_mem_copy(&whi_mem_sim, sim, &other, &size, 1), WH_EINVAL);
    CHECK_EQ_INT(other_copies, 0);

    other_fails_at = 2;
    CHECK_EQ_INT(whi_mem_copy(&whi_mem_sim, sim, &other, other_memory, size), WH_ESYSTEM);
    CHECK_EQ_INT(other_copies, 2);

    whi_alloc_fail_at(1);
    wh_status status = whi_mem_copy(&whi_mem_sim, sim, &other, other_memory, size);
    whi_alloc_fail_at(0);
    CHECK_EQ_INT(status, WH_ENOMEM);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, sim), WH_OK);
}

TEST(an_event_that_never_was_has_passed) {
    whi_mem_event event = {.ops = NULL};
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_OK);
    whi_mem_event_release(&event);
    CHECK_EQ_INT(whi_mem_event_query(&event), WH_OK);
}

TEST_MAIN()
