// SPDX-License-Identifier: BSD-3-Clause
//
// Every status code has a name and a text of its own, and numbers that are none do not crash.
#include <wherry/status.h>

#include "base/test.h"

static const wh_status codes[] = {
#define CODE(name, number, text) WH_##name,
    WH_STATUS_LIST(CODE)
#undef CODE
};

enum { CODES = sizeof(codes) / sizeof(*codes) };

TEST(names_are_the_constants) {
    CHECK_EQ_STR(wh_status_name(WH_OK), "OK");
    CHECK_EQ_STR(wh_status_name(WH_PENDING), "PENDING");
    CHECK_EQ_STR(wh_status_name(WH_ETRUNCATED), "ETRUNCATED");
    CHECK_EQ_STR(wh_status_name(WH_EREJECTED), "EREJECTED");
}

TEST(numbers_never_change) {
    CHECK_EQ_INT(WH_OK, 0);
    CHECK_EQ_INT(WH_PENDING, 1);
    CHECK_EQ_INT(WH_EINVAL, -1);
    CHECK_EQ_INT(WH_EREJECTED, -24);
}

TEST(all_differ) {
    for (int i = 0; i < CODES; i++)
        for (int j = 0; j < i; j++) {
            CHECK(codes[i] != codes[j]);
            CHECK(strcmp(wh_status_name(codes[i]), wh_status_name(codes[j])) != 0);
            CHECK(strcmp(wh_status_text(codes[i]), wh_status_text(codes[j])) != 0);
        }
}

TEST(texts_are_sentence_fragments) {
    for (int i = 0; i < CODES; i++) {
        const char *text = wh_status_text(codes[i]);
        CHECK(strlen(text) >= 5);
        CHECK(text[0] >= 'a' && text[0] <= 'z');
        CHECK(text[strlen(text) - 1] != '.');
    }
}

TEST(foreign_numbers) {
    CHECK_EQ_STR(wh_status_name((wh_status)12345), "UNKNOWN");
    CHECK_EQ_STR(wh_status_name((wh_status)-12345), "UNKNOWN");
    CHECK(strstr(wh_status_text((wh_status)12345), "does not know"));
}

TEST_MAIN()
