// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/info.h"

#include "base/test.h"
#include "mpi/bodies.h"

static whm_info *three(void) {
    whm_info *info;
    CHECK_EQ_INT(mpi_info_create(&info), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_info_set(info, "first", "1"), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_info_set(info, "second", "two"), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_info_set(info, "third", ""), MPI_SUCCESS);
    return info;
}

TEST(set_get_delete) {
    whm_info *info = three();
    char text[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY];
    int flag, n, length;
    CHECK_EQ_INT(mpi_info_set(info, "first", "one"), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_info_get(info, "first", 2, text, &flag), MPI_SUCCESS);
    CHECK_EQ_INT(flag, 1);
    CHECK_EQ_STR(text, "on");
    CHECK_EQ_INT(mpi_info_get_valuelen(info, "first", &length, &flag), MPI_SUCCESS);
    CHECK_EQ_INT(length, 3);
    CHECK_EQ_INT(mpi_info_get_nkeys(info, &n), MPI_SUCCESS);
    CHECK_EQ_INT(n, 3);
    CHECK_EQ_INT(mpi_info_delete(info, "first"), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_info_delete(info, "first"), MPI_ERR_INFO_NOKEY);
    CHECK_EQ_INT(mpi_info_get_nthkey(info, 0, key), MPI_SUCCESS);
    CHECK_EQ_STR(key, "second");
    CHECK_EQ_INT(mpi_info_get_nthkey(info, 2, key), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_info_get(info, "nothing", 10, text, &flag), MPI_SUCCESS);
    CHECK_EQ_INT(flag, 0);
    CHECK_EQ_INT(mpi_info_free(info), MPI_SUCCESS);
}

TEST(get_string_says_what_it_needs) {
    whm_info *info = three();
    char text[10] = "untouched";
    int flag, length = 0;
    CHECK_EQ_INT(mpi_info_get_string(info, "second", &length, text, &flag), MPI_SUCCESS);
    CHECK_EQ_INT(length, 4);
    CHECK_EQ_STR(text, "untouched");
    length = 3;
    CHECK_EQ_INT(mpi_info_get_string(info, "second", &length, text, &flag), MPI_SUCCESS);
    CHECK_EQ_STR(text, "tw");
    CHECK_EQ_INT(length, 4);
    CHECK_EQ_INT(mpi_info_get_string(info, "second", &length, text, &flag), MPI_SUCCESS);
    CHECK_EQ_STR(text, "two");
    length = 7;
    CHECK_EQ_INT(mpi_info_get_string(info, "no", &length, text, &flag), MPI_SUCCESS);
    CHECK_EQ_INT(flag, 0);
    CHECK_EQ_INT(length, 7);
    mpi_info_free(info);
}

TEST(limits) {
    whm_info *info = three();
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    memset(key, 'k', sizeof(key));
    memset(value, 'v', sizeof(value));
    key[MPI_MAX_INFO_KEY] = value[MPI_MAX_INFO_VAL] = 0;
    CHECK_EQ_INT(mpi_info_set(info, key, "x"), MPI_ERR_INFO_KEY);
    CHECK_EQ_INT(mpi_info_set(info, "", "x"), MPI_ERR_INFO_KEY);
    CHECK_EQ_INT(mpi_info_set(info, "x", value), MPI_ERR_INFO_VALUE);
    CHECK_EQ_INT(mpi_info_set(info, key + 1, value + 1), MPI_SUCCESS);
    CHECK_EQ_STR(whm_info_value(info, key + 1), value + 1);
    mpi_info_free(info);
}

TEST(duplicate_and_hints) {
    whm_info *info = three(), *copy, *own = NULL;
    CHECK_EQ_INT(mpi_info_dup(info, &copy), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_info_set(info, "second", "changed"), MPI_SUCCESS);
    CHECK_EQ_STR(whm_info_value(copy, "second"), "two");
    static const char *const known[] = {"fourth", NULL};
    CHECK_EQ_INT(whm_info_hints(&own, info, known), MPI_SUCCESS);
    CHECK(!own);
    static const char *const more[] = {"second", "fourth", NULL};
    CHECK_EQ_INT(whm_info_hints(&own, info, more), MPI_SUCCESS);
    CHECK_EQ_INT(own->count, 1);
    CHECK_EQ_STR(whm_info_value(own, "second"), "changed");
    mpi_info_free(info);
    mpi_info_free(copy);
    whm_info_release(own);
}

TEST_MAIN()
