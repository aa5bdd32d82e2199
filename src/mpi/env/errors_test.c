// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/errors.h"

#include "base/test.h"
#include "mpi/bodies.h"

TEST(every_class_has_name_and_text) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    for (int code = MPI_SUCCESS; code <= MPI_ERR_ABI; code++) {
        CHECK_EQ_INT(mpi_error_class(code, &class), MPI_SUCCESS);
        CHECK_EQ_INT(class, code);
        CHECK_EQ_INT(mpi_error_string(code, text, &length), MPI_SUCCESS);
        CHECK_EQ_INT(strlen(text), length);
        CHECK(strncmp(text, whm_error_name(code), strlen(whm_error_name(code))) == 0);
        CHECK(strlen(text) > strlen(whm_error_name(code)) + 2);
    }
    CHECK_EQ_STR(whm_error_name(MPI_ERR_VALUE_TOO_LARGE), "MPI_ERR_VALUE_TOO_LARGE");
    CHECK_EQ_INT(mpi_error_class(-1, &class), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_error_string(MPI_ERR_ABI + 1, text, &length), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_error_string(MPI_ERR_LASTCODE + 1, text, &length), MPI_ERR_ARG);
}

TEST(classes_and_codes_of_the_program) {
    char text[MPI_MAX_ERROR_STRING];
    int class, code, more, found, length;
    CHECK_EQ_INT(whm_error_last(), MPI_ERR_LASTCODE);
    CHECK_EQ_INT(mpi_add_error_class(&class), MPI_SUCCESS);
    CHECK(class > MPI_ERR_LASTCODE);
    CHECK_EQ_INT(mpi_add_error_code(class, &code), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_add_error_code(MPI_ERR_TAG, &more), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_add_error_code(code, &found), MPI_ERR_ARG);
    CHECK_EQ_INT(whm_error_last(), more);
    CHECK_EQ_INT(mpi_error_class(code, &found), MPI_SUCCESS);
    CHECK_EQ_INT(found, class);
    CHECK_EQ_INT(mpi_error_class(more, &found), MPI_SUCCESS);
    CHECK_EQ_INT(found, MPI_ERR_TAG);
    CHECK_EQ_INT(mpi_error_string(code, text, &length), MPI_SUCCESS);
    CHECK_EQ_STR(text, "");
    CHECK_EQ_INT(mpi_add_error_string(code, "the moon is full"), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_error_string(code, text, &length), MPI_SUCCESS);
    CHECK_EQ_STR(text, "the moon is full");
    CHECK_EQ_INT(length, 16);
    CHECK_EQ_INT(mpi_add_error_string(MPI_ERR_TAG, "no"), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_remove_error_class(class), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_remove_error_class(code), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_remove_error_code(code), MPI_ERR_ARG);  // it has a text
    CHECK_EQ_INT(mpi_remove_error_string(code), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_remove_error_code(code), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_remove_error_code(code), MPI_ERR_ARG);
    CHECK_EQ_INT(mpi_remove_error_class(class), MPI_SUCCESS);
    CHECK_EQ_INT(whm_error_last(), more);
    CHECK_EQ_INT(mpi_remove_error_code(more), MPI_SUCCESS);
    CHECK_EQ_INT(whm_error_last(), MPI_ERR_LASTCODE);
    whm_errors_end(whm_self);
}

TEST_MAIN()
