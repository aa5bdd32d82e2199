// SPDX-License-Identifier: BSD-3-Clause
//
// Structs that grow: what is taken of shorter and longer ones, what is refused, and what is written.
#include "base/opts.h"

#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/test.h"

// Three versions of one struct; the library of this test knows the middle one.
typedef struct opts_old {
    size_t size;
    uint64_t first;
} opts_old;

typedef struct opts_mine {
    size_t size;
    uint64_t first, second;
} opts_mine;

typedef struct opts_new {
    size_t size;
    uint64_t first, second, third, fourth;
} opts_new;

static char heard[1024];

static void hear(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)arg;
    snprintf(heard, sizeof(heard), "%s %s", id, text);
}

static void listen(void) {
    heard[0] = 0;
    whi_log_set_level(WHI_WARN);
    whi_log_set_sink(hear, NULL);
}

TEST(a_shorter_struct_has_defaults) {
    opts_old from = {sizeof(from), 7};
    opts_mine to;
    memset(&to, 0xa5, sizeof(to));
    CHECK_EQ_INT(whi_opts_take(&to, sizeof(to), &from, "opts"), WH_OK);
    CHECK_EQ_INT(to.first, 7);
    CHECK_EQ_INT(to.second, 0);
}

TEST(a_longer_struct_is_taken_when_the_rest_is_zero) {
    opts_new from = {.size = sizeof(from), .first = 7, .second = 8};
    opts_mine to;
    CHECK_EQ_INT(whi_opts_take(&to, sizeof(to), &from, "opts"), WH_OK);
    CHECK_EQ_INT(to.first, 7);
    CHECK_EQ_INT(to.second, 8);
}

TEST(a_longer_struct_is_refused_when_it_asks_for_more) {
    listen();
    opts_new from = {.size = sizeof(from), .fourth = 1};
    opts_mine to = {.first = 9};
    CHECK_EQ_INT(whi_opts_take(&to, sizeof(to), &from, "wh_some_opts"), WH_ENOTSUP);
    CHECK_EQ_INT(to.first, 9);
    CHECK(strstr(heard, "E-OPTS-02 wh_some_opts has 40 bytes"));
    CHECK(strstr(heard, "knows 24"));
    CHECK(strstr(heard, "byte 32 is not zero"));
    // The very last byte counts, and the first one behind what is known.
    from = (opts_new){.size = sizeof(from), .fourth = UINT64_C(1) << 56};
    CHECK_EQ_INT(whi_opts_take(&to, sizeof(to), &from, "wh_some_opts"), WH_ENOTSUP);
    from = (opts_new){.size = sizeof(from), .third = 1};
    CHECK_EQ_INT(whi_opts_take(&to, sizeof(to), &from, "wh_some_opts"), WH_ENOTSUP);
    CHECK(strstr(heard, "byte 24 is not zero"));
}

TEST(a_size_that_is_none_is_refused) {
    static const size_t bad[] = {0,  1,    8,    15,       17,       23,
                                 25, 1025, 1032, 1u << 20, SIZE_MAX, 0xa5a5a5a5};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        listen();
        opts_mine from = {bad[i], 1, 2}, to = {.first = 9};
        CHECK_EQ_INT(whi_opts_take(&to, sizeof(to), &from, "wh_some_opts"), WH_EINVAL);
        CHECK_EQ_INT(to.first, 9);
        CHECK(strstr(heard, "E-OPTS-01 wh_some_opts begins with the size"));
        CHECK_EQ_INT(whi_opts_give(&from, &to, sizeof(to), "wh_some_opts"), WH_EINVAL);
        CHECK_EQ_INT(from.first, 1);
    }
}

typedef struct item_mine {
    uint64_t a, b, c;
} item_mine;

TEST(elements_of_another_size) {
    listen();
    static const uint64_t shorter[] = {1, 2, 3, 4};
    static const uint64_t longer[] = {1, 2, 3, 0, 4, 5, 6, 0};
    static const uint64_t asking[] = {1, 2, 3, 0, 4, 5, 6, 7};
    item_mine to[2];
    CHECK_EQ_INT(whi_opts_take_array(to, sizeof(*to), shorter, 16, 2, "item"), WH_OK);
    CHECK(to[0].a == 1 && to[0].b == 2 && !to[0].c && to[1].a == 3 && to[1].b == 4 && !to[1].c);
    CHECK_EQ_INT(whi_opts_take_array(to, sizeof(*to), longer, 32, 2, "item"), WH_OK);
    CHECK(to[0].a == 1 && to[0].c == 3 && to[1].a == 4 && to[1].c == 6);
    CHECK_EQ_INT(whi_opts_take_array(to, sizeof(*to), asking, 32, 2, "item"), WH_ENOTSUP);
    CHECK(strstr(heard, "E-OPTS-02 item has 32 bytes"));
    CHECK_EQ_INT(whi_opts_take_array(to, sizeof(*to), longer, 0, 2, "item"), WH_EINVAL);
    CHECK_EQ_INT(whi_opts_take_array(to, sizeof(*to), longer, 15, 2, "item"), WH_EINVAL);
    CHECK_EQ_INT(whi_opts_take_array(to, sizeof(*to), longer, SIZE_MAX, 2, "item"), WH_EINVAL);
    CHECK(strstr(heard, "give sizeof(item)"));
}

TEST(what_is_given_ends_where_the_caller_says) {
    const opts_mine from = {sizeof(from), 7, 8};
    opts_mine shorter = {sizeof(opts_old), 1, 2};
    CHECK_EQ_INT(whi_opts_give(&shorter, &from, sizeof(from), "opts"), WH_OK);
    CHECK_EQ_INT(shorter.size, sizeof(opts_old));
    CHECK_EQ_INT(shorter.first, 7);
    CHECK_EQ_INT(shorter.second, 2);
    opts_new longer = {sizeof(longer), 1, 2, 3, 4};
    CHECK_EQ_INT(whi_opts_give(&longer, &from, sizeof(from), "opts"), WH_OK);
    CHECK_EQ_INT(longer.size, sizeof(longer));
    CHECK(longer.first == 7 && longer.second == 8 && longer.third == 0 && longer.fourth == 0);
}

static wh_status sum(const opts_mine *opts, uint64_t *total) {
    WHI_OPTS(opts_mine, opts);
    *total = opts ? opts->first + opts->second : 0;
    return WH_OK;
}

TEST(the_macro) {
    listen();
    uint64_t total = 9;
    CHECK_EQ_INT(sum(NULL, &total), WH_OK);
    CHECK_EQ_INT(total, 0);
    CHECK_EQ_INT(sum(&(opts_mine){sizeof(opts_mine), 1, 2}, &total), WH_OK);
    CHECK_EQ_INT(total, 3);
    CHECK_EQ_INT(sum(&(opts_mine){sizeof(opts_old), 1, 2}, &total), WH_OK);
    CHECK_EQ_INT(total, 1);
    CHECK_EQ_INT(sum(&(opts_mine){0, 1, 2}, &total), WH_EINVAL);
    CHECK(strstr(heard, "sizeof(opts_mine)"));
}

TEST_MAIN()
