// SPDX-License-Identifier: BSD-3-Clause
//
// What is no handle: numbers that were never given out, handles that were freed, addresses, and infos
// where types belong.  Every function answers UCD_ERR__INTERNAL and leaves its results alone.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <ucd.h>

#include "check.h"

#define NO(call) CHECK((call) == UCD_ERR__INTERNAL)

static const int ones[] = {1, 1}, sizes[] = {2}, starts[] = {0};
static const intptr_t places[] = {0, 64};

static void constructors_refuse(ucd_type_t bad, ucd_info_t info) {
    ucd_type_t made = 4711;
    const ucd_type_t types[] = {UCD_TYPE__INT, bad};
    NO(ucd_type_create_vector(1, 1, 1, bad, info, &made));
    NO(ucd_type_create_hvector(1, 1, 1, bad, info, &made));
    NO(ucd_type_create_contig(1, bad, info, &made));
    NO(ucd_type_create_dup(bad, info, &made));
    NO(ucd_type_create_indexed_block(1, 1, starts, bad, info, &made));
    NO(ucd_type_create_hindexed_block(1, 1, places, bad, info, &made));
    NO(ucd_type_create_indexed(1, ones, starts, bad, info, &made));
    NO(ucd_type_create_hindexed(1, ones, places, bad, info, &made));
    NO(ucd_type_create_resized(bad, 0, 8, info, &made));
    NO(ucd_type_create_struct(2, ones, places, types, info, &made));
    NO(ucd_type_create_subarray(1, sizes, ones, starts, UCD_SUBARRAY_ORDER__C, bad, info, &made));
    CHECK(made == 4711);
}

static void uses_refuse(ucd_type_t bad) {
    uintptr_t size = 4711;
    intptr_t lb = 4711, extent = 4711;
    ucd_request_t request = 4711;
    char memory[64] = {0}, packed[64];
    struct iovec iov[1];
    NO(ucd_type_get_size(bad, &size));
    NO(ucd_type_get_extent(bad, &lb, &extent));
    NO(ucd_type_get_true_extent(bad, &lb, &extent));
    NO(ucd_ipack(memory, 1, bad, 0, packed, 64, &size, NULL, &request));
    NO(ucd_iunpack(packed, 64, memory, 1, bad, 0, &size, NULL, &request));
    NO(ucd_iov_len(1, bad, &size));
    NO(ucd_iov(memory, 1, bad, 0, iov, 1, &size));
    NO(ucd_flatten_size(bad, &size));
    NO(ucd_flatten(bad, packed));
    CHECK(size == 4711 && lb == 4711 && extent == 4711 && request == 4711);
}

static void refused(ucd_type_t bad) {
    constructors_refuse(bad, NULL);
    uses_refuse(bad);
    if (bad != UCD_TYPE__NULL)
        NO(ucd_type_free(bad));
}

static void garbage(void) {
    static const ucd_type_t numbers[] = {
        UCD_TYPE__NULL,    UCD_TYPE__PREDEFINED,      1000,      0xdeadbeef, UINT32_MAX,
        (uint64_t)1 << 32, ((uint64_t)7 << 32) + 100, INT64_MAX, UINT64_MAX, UINT64_MAX - 63};
    int here = 0;
    CHECK(UCD_TYPE__PREDEFINED == 57);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        refused(numbers[i]);
    refused((uintptr_t)&here);
    refused((uintptr_t)numbers);
    OK(ucd_type_free(UCD_TYPE__NULL));
    OK(ucd_type_free(UCD_TYPE__INT));
}

// A freed handle stays dead, also when another type has come to its place.
static void freed(void) {
    enum { MANY = 300 };
    ucd_type_t old[MANY], now[MANY];
    uintptr_t size = 0;
    for (int i = 0; i < MANY; i++)
        OK(ucd_type_create_contig(i + 1, UCD_TYPE__CHAR, NULL, &old[i]));
    for (int i = 0; i < MANY; i++)
        OK(ucd_type_free(old[i]));
    refused(old[0]);
    refused(old[MANY - 1]);
    for (int i = 0; i < MANY; i++)
        OK(ucd_type_create_contig(1000, UCD_TYPE__CHAR, NULL, &now[i]));
    for (int i = 0; i < MANY; i++)
        refused(old[i]);
    for (int i = 0; i < MANY; i++) {
        OK(ucd_type_get_size(now[i], &size));
        CHECK(size == 1000);
        OK(ucd_type_free(now[i]));
        NO(ucd_type_free(now[i]));
    }
}

// A type that is freed while another is made of it lives on in that one.
static void freed_child(void) {
    ucd_type_t child, parent;
    uintptr_t size = 0;
    OK(ucd_type_create_contig(3, UCD_TYPE__INT, NULL, &child));
    OK(ucd_type_create_contig(2, child, NULL, &parent));
    OK(ucd_type_free(child));
    refused(child);
    OK(ucd_type_get_size(parent, &size));
    CHECK(size == 24);
    OK(ucd_type_free(parent));
}

static void infos(void) {
    ucd_info_t info = NULL, dead = NULL;
    ucd_type_t type;
    ucd_request_t request = 0;
    uintptr_t size = 0;
    char memory[8] = {0}, packed[8];
    int here = 0, completed = 4711;
    OK(ucd_info_create(&info));
    OK(ucd_info_create(&dead));
    OK(ucd_info_free(dead));
    OK(ucd_type_create_contig(1, UCD_TYPE__INT, info, &type));
    const ucd_info_t bad[] = {dead, (ucd_info_t)(uintptr_t)57, (ucd_info_t)(void *)&here,
                              (ucd_info_t)(uintptr_t)type};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        constructors_refuse(UCD_TYPE__INT, bad[i]);
        NO(ucd_info_keyval_append(bad[i], "key", "value", 5));
        NO(ucd_init(bad[i]));
        NO(ucd_ipack(memory, 1, UCD_TYPE__INT, 0, packed, 8, &size, bad[i], &request));
        NO(ucd_iunpack(packed, 4, memory, 1, UCD_TYPE__INT, 0, &size, bad[i], &request));
        NO(ucd_info_free(bad[i]));
    }
    refused((ucd_type_t)(uintptr_t)info);  // an info is no type
    NO(ucd_info_create(NULL));
    NO(ucd_info_keyval_append(NULL, "key", "value", 5));
    NO(ucd_info_keyval_append(info, NULL, "value", 5));
    NO(ucd_info_keyval_append(info, "key", NULL, 5));
    OK(ucd_info_keyval_append(info, "key", NULL, 0));
    OK(ucd_info_free(info));
    OK(ucd_info_free(NULL));
    NO(ucd_request_test(57, &completed));
    NO(ucd_request_wait(57));
    CHECK(completed == 4711);
    OK(ucd_type_free(type));
}

static void missing_results(void) {
    ucd_type_t type = 0;
    ucd_request_t request;
    uintptr_t size;
    char memory[8] = {0}, packed[8];
    intptr_t lb;
    NO(ucd_type_create_subarray(1, sizes, ones, starts, (ucd_subarray_order_e)7, UCD_TYPE__INT,
                                NULL, &type));
    NO(ucd_type_create_struct(1, ones, places, NULL, NULL, &type));
    NO(ucd_type_get_size(UCD_TYPE__INT, NULL));
    NO(ucd_type_get_extent(UCD_TYPE__INT, NULL, &lb));
    NO(ucd_type_get_extent(UCD_TYPE__INT, &lb, NULL));
    NO(ucd_ipack(memory, 1, UCD_TYPE__INT, 0, packed, 8, NULL, NULL, &request));
    NO(ucd_ipack(memory, 1, UCD_TYPE__INT, 0, packed, 8, &size, NULL, NULL));
    NO(ucd_ipack(memory, UINT64_MAX, UCD_TYPE__INT, 0, packed, 8, &size, NULL, &request));
    NO(ucd_iunpack(packed, 4, memory, 1, UCD_TYPE__INT, 0, NULL, NULL, &request));
    NO(ucd_request_test(UCD_REQUEST__NULL, NULL));
    NO(ucd_iov_len(1, UCD_TYPE__INT, NULL));
    NO(ucd_flatten_size(UCD_TYPE__INT, NULL));
    NO(ucd_flatten(UCD_TYPE__INT, NULL));
    NO(ucd_unflatten(NULL, memory));
    NO(ucd_unflatten(&type, NULL));
    NO(ucd_unflatten(&type, memory));
    CHECK(type == 0);
}

// Threads that make, use and free the same few handles: each is freed once, none crashes.
enum { SHARED = 8, ROUNDS = 20000, THREADS = 4 };
static _Atomic ucd_type_t shared[SHARED];
static _Atomic int created, ended;

static void *use(void *arg) {
    unsigned random = *(unsigned *)arg;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525 + 1013904223;
        _Atomic ucd_type_t *at = &shared[random >> 8 & (SHARED - 1)];
        ucd_type_t type = *at, made;
        uintptr_t size = 12;
        if (random >> 30 == 0) {
            ended += type && ucd_type_free(type) == UCD_SUCCESS;
        } else if (random >> 30 == 1) {
            OK(ucd_type_create_contig(3, UCD_TYPE__INT, NULL, &made));
            created++;
            type = atomic_exchange(at, made);
            ended += type && ucd_type_free(type) == UCD_SUCCESS;
        } else {
            (void)ucd_type_get_size(type, &size);
            CHECK(size == 12);
        }
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    unsigned seed[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        seed[i] = 77 * i + 1;
        CHECK(pthread_create(&thread[i], NULL, use, &seed[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    for (int i = 0; i < SHARED; i++)
        ended += shared[i] && ucd_type_free(shared[i]) == UCD_SUCCESS;
    CHECK(created == ended);
}

int main(void) {
    garbage();
    freed();
    freed_child();
    infos();
    missing_results();
    threads();
    return failures != 0;
}
