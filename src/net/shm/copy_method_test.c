// SPDX-License-Identifier: BSD-3-Clause
//
// How bytes are copied into shared memory, given what each has cost.
#include "net/shm/copy_method.h"

#include <string.h>

#include "base/test.h"

enum { KIB = 1024 };

// copies notes `count` copies of a KiB that would cost this much, and returns how many of them were
// nontemporal.
static int copies(whi_copy_method *method, int count, unsigned plain, unsigned around) {
    int taken = 0;
    for (int i = 0; i < count; i++) {
        bool nontemporal = whi_copy_method_choose(method);
        whi_copy_method_note(method, nontemporal, nontemporal ? around : plain, KIB);
        taken += nontemporal;
    }
    return taken;
}

TEST(a_common_cache_is_used) {
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    CHECK(copies(&method, 10000, 100, 90) < 20);
    CHECK(!method.nontemporal);
}

TEST(nontemporal_where_plain_stores_are_slow) {
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    CHECK(copies(&method, 10000, 1500, 120) > 9980);
    CHECK(method.nontemporal);
}

TEST(a_change_is_seen) {
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    (void)copies(&method, 100000, 100, 90);
    CHECK(copies(&method, 100, 1500, 120) > 90);    // it hurts: at once
    CHECK(copies(&method, 10000, 100, 90) < 5000);  // it only could be better: at the next trial
    CHECK(!method.nontemporal);
}

TEST(the_gain_that_is_asked_for) {
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_WEIGHT);
    CHECK(copies(&method, 10000, 300, 100) < 20);
    CHECK(!method.nontemporal);
    CHECK(copies(&method, 100000, 600, 100) > 80000);
}

// What its receiver pays for it is not seen by its sender.
TEST(a_nontemporal_copy_has_its_weight) {
    enum { SIZE = 1 << 20 };
    static char from[SIZE], to[SIZE];
    whi_span src = {.ptr = from};
    for (int nontemporal = 0; nontemporal < 2; nontemporal++) {
        whi_copy_method method;
        whi_copy_method_init(&method, WHI_COPY_GAIN);
        method.nontemporal = nontemporal;
        uint64_t cost =
            whi_copy_method_copy(&method, to, &src, SIZE) / (nontemporal ? WHI_COPY_WEIGHT : 1);
        // It is noted for each KiB, rounded up.
        uint64_t noted = (uint64_t)method.cost[nontemporal] * (SIZE / KIB);
        CHECK(cost <= noted && cost >= noted - SIZE / KIB);
    }
}

TEST(one_lost_time_slice_changes_nothing) {
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    (void)copies(&method, 1000, 100, 90);
    for (int i = 0; i < 50; i++) {
        (void)copies(&method, 1, 10000000, 10000000);
        CHECK(copies(&method, 100, 100, 90) < 10);
    }
    CHECK(!method.nontemporal);
}

TEST(figures_of_any_size) {
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    for (int i = 0; i < 1000; i++) {
        bool nontemporal = whi_copy_method_choose(&method);
        whi_copy_method_note(&method, nontemporal, i % 3 ? 0 : UINT64_MAX / 2048,
                             i % 5 ? KIB : (size_t)1 << 40);
    }
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    CHECK(copies(&method, 1000, 0, 0) < 20);
}

static void count_up(void *ctx, uint64_t offset, void *host, size_t size) {
    *(uint64_t *)ctx += size;
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)host)[i] = (unsigned char)(offset + i);
}

TEST(both_methods_copy_the_same) {
    enum { N = 3 * KIB * KIB };
    static unsigned char from[N + 64], to[N + 64];
    for (int i = 0; i < N; i++)
        from[i] = (unsigned char)(i * 7 + i / 251);
    whi_copy_method method;
    whi_copy_method_init(&method, WHI_COPY_GAIN);
    for (size_t size = 1; size < N; size = size * 3 + 5) {
        for (int round = 0; round < 4; round++) {
            memset(to, 0xee, sizeof(to));
            (void)whi_copy_method_copy(&method, to + 8, &(whi_span){.ptr = from + round}, size);
            CHECK_MEM(to + 8, from + round, size);
            CHECK(to[7] == 0xee && to[8 + size] == 0xee);
        }
    }
    uint64_t moved = 0;
    (void)whi_copy_method_copy(&method, to, &(whi_span){.move = count_up, .ctx = &moved, .base = 3},
                               9);
    CHECK(moved == 9 && to[0] == 3 && to[8] == 11);
}

TEST_MAIN()
