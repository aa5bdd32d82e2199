// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/context.h"

#include "base/test.h"

TEST(lowest_free_first) {
    CHECK_EQ_INT(whm_contexts_begin(whm_self), MPI_SUCCESS);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK_EQ_INT(whm_context_take(0), i);
    whm_context_free(whm_self, 70);
    whm_context_free(whm_self, 3);
    whm_context_free(whm_self, 64);
    CHECK_EQ_INT(whm_context_take(4), 64);
    CHECK_EQ_INT(whm_context_take(0), 3);
    CHECK_EQ_INT(whm_context_take(65), 70);
    CHECK_EQ_INT(whm_context_take(0), 1000);
    CHECK(!whm_context_claim(500));
    whm_context_free(whm_self, 500);
    CHECK(whm_context_claim(500));
    CHECK(whm_context_claim(123456));
    CHECK_EQ_INT(whm_context_take(123456), 123457);
    CHECK_EQ_INT(whm_context_take(0), 1001);
    whm_contexts_end(whm_self);
}

TEST(all_of_them) {
    CHECK_EQ_INT(whm_contexts_begin(whm_self), MPI_SUCCESS);
    for (uint32_t i = 0; i < WHM_CONTEXTS_MAX; i++)
        CHECK(whm_context_take(0) == i);
    CHECK_EQ_INT(whm_context_take(0), WHM_CONTEXTS_MAX);
    CHECK_EQ_INT(whm_context_take(WHM_CONTEXTS_MAX), WHM_CONTEXTS_MAX);
    whm_context_free(whm_self, 77);
    CHECK_EQ_INT(whm_context_take(100), WHM_CONTEXTS_MAX);
    CHECK_EQ_INT(whm_context_take(0), 77);
    whm_contexts_end(whm_self);
}

TEST(one_is_given_up_until_it_is_free) {
    CHECK_EQ_INT(whm_contexts_begin(whm_self), MPI_SUCCESS);
    CHECK(whm_context_claim(300));
    whm_context_end(whm_self, 300);
    whm_context_end(whm_self, WHM_CONTEXTS_MAX - 1);  // of no communicator here
    CHECK(whm_context_ended(whm_self, 300) && !whm_context_ended(whm_self, 301));
    CHECK(!whm_context_ended(whm_self, WHM_CONTEXTS_MAX - 1));
    whm_context_free(whm_self, 300);
    CHECK(whm_context_claim(300));
    CHECK(!whm_context_ended(whm_self, 300));
    whm_contexts_end(whm_self);
}

TEST_MAIN()
