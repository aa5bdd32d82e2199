// SPDX-License-Identifier: BSD-3-Clause
//
// Helper threads: the same bytes with any number of them, from several callers at once, with requests
// that are tested, waited for or simply freed, while the number changes, and in a forked child.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/pack.h>

#include "base/alloc.h"
#include "type/crew.h"

#include "base/test.h"

// The thread sanitizer does not let a forked child start threads.
#if defined(__SANITIZE_THREAD__)
#define THREAD_CHECKED true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_CHECKED true
#endif
#endif
#ifndef THREAD_CHECKED
#define THREAD_CHECKED false
#endif

enum { SIDE = 1088, TOTAL = SIDE * SIDE * 8, CALLERS = 3 };  // 9.5 MB: enough to be shared

typedef struct sample {
    wh_type *type;
    int64_t count;
    size_t skip;  // packed bytes left out at both ends
    unsigned char *memory, *back, *packed, *wanted;
    size_t span, size;
} sample;

static unsigned char *take(size_t size) {
    unsigned char *at = malloc(size);
    CHECK(at != NULL);
    for (size_t i = 0; i < size; i++)
        at[i] = (unsigned char)(i * 151 + (i >> 8) * 7);
    return at;
}

// A transpose, or a vector; the bytes that they move are computed here by a single thread.
static void open_sample(sample *s, bool transposed, size_t skip) {
    wh_type *column;
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    *s = (sample){.count = transposed ? SIDE : 1, .skip = skip, .size = TOTAL - 2 * skip};
    if (transposed) {
        CHECK_EQ_INT(wh_type_create_vector(SIDE, 1, SIDE, d, &column), WH_OK);
        CHECK_EQ_INT(wh_type_create_resized(column, 0, 8, &s->type), WH_OK);
        wh_type_release(column);
    } else {
        CHECK_EQ_INT(wh_type_create_vector(SIDE * SIDE / 4, 4, 6, d, &s->type), WH_OK);
    }
    s->span = transposed ? TOTAL : TOTAL / 4 * 6;
    s->memory = take(s->span);
    s->back = take(s->span);
    s->packed = take(s->size);
    s->wanted = take(s->size);
    CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
    size_t actual;
    CHECK_EQ_INT(wh_pack(s->memory, s->count, s->type, skip, s->wanted, s->size, 0, &actual),
                 WH_OK);
}

static void close_sample(sample *s) {
    wh_type_release(s->type);
    free(s->memory);
    free(s->back);
    free(s->packed);
    free(s->wanted);
}

static void check_packed(sample *s) {
    CHECK_MEM(s->packed, s->wanted, s->size);
    memset(s->packed, 0, s->size);
}

// What was unpacked packs to the same.
static void check_unpacked(sample *s) {
    size_t actual;
    CHECK_EQ_INT(wh_pack(s->back, s->count, s->type, s->skip, s->packed, s->size, 0, &actual),
                 WH_OK);
    check_packed(s);
    memset(s->back, 0, s->span);
}

static void check_calls(sample *s) {
    size_t actual = 0;
    CHECK_EQ_INT(wh_pack(s->memory, s->count, s->type, s->skip, s->packed, s->size, 0, &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, s->size);
    check_packed(s);
    CHECK_EQ_INT(wh_unpack(s->wanted, s->size, s->back, s->count, s->type, s->skip, 0, &actual),
                 WH_OK);
    check_unpacked(s);
}

static wh_pack_request *start(sample *s) {
    wh_pack_request *req;
    CHECK_EQ_INT(wh_pack_start(s->memory, s->count, s->type, s->skip, s->packed, s->size, 0, &req),
                 WH_OK);
    return req;
}

static void check_requests(sample *s) {
    size_t actual = 0;
    wh_pack_request *req = start(s);
    wh_status status;
    while ((status = wh_pack_request_test(req, &actual)) == WH_PENDING)
        continue;
    CHECK_EQ_INT(status, WH_OK);
    CHECK_EQ_INT(actual, s->size);
    check_packed(s);
    CHECK_EQ_INT(wh_pack_request_test(req, &actual), WH_OK);
    CHECK_EQ_INT(wh_pack_request_wait(req, &actual), WH_OK);
    wh_pack_request_free(req);
    req = start(s);
    CHECK_EQ_INT(wh_pack_request_wait(req, &actual), WH_OK);
    check_packed(s);
    wh_pack_request_free(req);
    wh_pack_request_free(start(s));
    check_packed(s);
    CHECK_EQ_INT(wh_unpack_start(s->wanted, s->size, s->back, s->count, s->type, s->skip, 0, &req),
                 WH_OK);
    wh_pack_request_free(req);
    check_unpacked(s);
}

TEST(any_number_of_threads) {
    for (int i = 0; i < 4; i++) {
        sample s;
        open_sample(&s, i % 2, i < 2 ? 0 : 4321);
        for (unsigned n = 0; n < 5; n++) {
            CHECK_EQ_INT(wh_pack_set_threads(n), WH_OK);
            CHECK_EQ_INT(atomic_load(&whi_crew_size), n);
            check_calls(&s);
            check_requests(&s);
        }
        CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
        close_sample(&s);
    }
}

TEST(cursors_are_helped) {
    sample s;
    size_t actual;
    wh_cursor *cursor;
    open_sample(&s, true, 0);
    CHECK_EQ_INT(wh_pack_set_threads(2), WH_OK);
    CHECK_EQ_INT(wh_cursor_create(s.memory, s.count, s.type, 0, &cursor), WH_OK);
    CHECK_EQ_INT(wh_cursor_pack(cursor, 0, s.packed, s.size, &actual), WH_OK);
    check_packed(&s);
    wh_cursor_destroy(cursor);
    CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
    close_sample(&s);
}

// Several requests at once, more than there are helpers; and what is too small is over at once.
TEST(many_requests) {
    sample s[CALLERS];
    wh_pack_request *req[CALLERS], *small;
    size_t actual = 0;
    for (int i = 0; i < CALLERS; i++)
        open_sample(&s[i], i % 2, 0);
    CHECK_EQ_INT(wh_pack_set_threads(1), WH_OK);
    for (int i = 0; i < CALLERS; i++)
        req[i] = start(&s[i]);
    CHECK_EQ_INT(
        wh_pack_start(s[0].memory, 1, wh_type_basic(WH_TYPE_INT), 0, s[0].back, 4, 0, &small),
        WH_OK);
    CHECK_EQ_INT(wh_pack_request_test(small, &actual), WH_OK);
    CHECK_EQ_INT(actual, 4);
    wh_pack_request_free(small);
    // The last first; and the helper goes while work is left.
    CHECK_EQ_INT(wh_pack_request_wait(req[CALLERS - 1], &actual), WH_OK);
    CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
    for (int i = 0; i < CALLERS; i++) {
        CHECK_EQ_INT(wh_pack_request_test(req[i], &actual), WH_OK);
        check_packed(&s[i]);
        wh_pack_request_free(req[i]);
        close_sample(&s[i]);
    }
}

static _Atomic int failures;

static void *call(void *arg) {
    sample *s = arg;
    for (int i = 0; i < 8; i++) {
        size_t actual;
        memset(s->packed, 0, s->size);
        if (wh_pack(s->memory, s->count, s->type, s->skip, s->packed, s->size, 0, &actual) !=
                WH_OK ||
            memcmp(s->packed, s->wanted, s->size) != 0)
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

TEST(several_callers_while_the_number_changes) {
    sample s[CALLERS];
    pthread_t thread[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        open_sample(&s[i], i % 2, (size_t)i * 999);
    for (int i = 0; i < CALLERS; i++)
        CHECK_EQ_INT(pthread_create(&thread[i], NULL, call, &s[i]), 0);
    for (unsigned n = 0; n < 12; n++)
        CHECK_EQ_INT(wh_pack_set_threads(n % 4), WH_OK);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
    for (int i = 0; i < CALLERS; i++)
        close_sample(&s[i]);
    CHECK_EQ_INT(atomic_load(&failures), 0);
}

TEST(a_forked_child_begins_with_none) {
    sample s;
    size_t actual;
    open_sample(&s, true, 0);
    CHECK_EQ_INT(wh_pack_set_threads(2), WH_OK);
    wh_pack_request *req = start(&s);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_EQ_INT(atomic_load(&whi_crew_size), 0);
        wh_status status = wh_pack_request_test(req, &actual);
        CHECK_EQ_INT(status, WH_EFORKED);
        wh_pack_request_free(req);
        check_calls(&s);
        if (!THREAD_CHECKED) {
            CHECK_EQ_INT(wh_pack_set_threads(2), WH_OK);
            check_calls(&s);
            CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
        }
        _exit(0);
    }
    int status;
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    wh_pack_request_free(req);
    check_packed(&s);
    check_calls(&s);
    CHECK_EQ_INT(wh_pack_set_threads(0), WH_OK);
    close_sample(&s);
}

TEST(errors) {
    char memory[8] = {0}, packed[8];
    size_t actual = 99;
    wh_pack_request *req = NULL;
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    CHECK_EQ_INT(wh_pack_set_threads(100000), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "count is 100000"));
    CHECK_EQ_INT(wh_pack_start(memory, 1, d, 9, packed, 8, 0, &req), WH_EINVAL);
    CHECK_EQ_INT(wh_pack_start(memory, 1, d, 0, packed, 8, 0, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_unpack_start(NULL, 8, memory, 1, d, 0, 0, &req), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "wh_unpack_start: packed is NULL"));
    CHECK_EQ_INT(wh_pack_request_test(NULL, &actual), WH_EINVAL);
    CHECK_EQ_INT(wh_pack_request_wait(NULL, &actual), WH_EINVAL);
    wh_pack_request_free(NULL);
    CHECK(!req && actual == 99);
    CHECK_EQ_INT(wh_type_commit(d), WH_OK);
    whi_alloc_fail_at(1);
    CHECK_EQ_INT(wh_pack_start(memory, 1, d, 0, packed, 8, 0, &req), WH_ENOMEM);
    whi_alloc_fail_at(0);
    CHECK(!req);
}

TEST_MAIN()
