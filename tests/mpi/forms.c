// SPDX-License-Identifier: BSD-3-Clause
//
// What fronts do beside checking: counts that do not fit, arrays longer than those on the stack, arguments that do not matter, handles as
// integers, calls before MPI_Init.  A job of one process.
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            printf("forms.c:%d: %s\n", __LINE__, #x);                                              \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
static int failures;

enum { MANY = 1000 };  // elements of an array: more than a front keeps on its stack
static const MPI_Count LARGE = (MPI_Count)INT_MAX + 10;

static void before_init(void) {
    MPI_Info info = MPI_INFO_NULL;
    int flag = 1, major = 0, minor = -1;
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS && flag == 0);
    CHECK(MPI_Abi_get_version(&major, &minor) == MPI_SUCCESS && major == 1 && minor == 0);
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS &&
          MPI_Info_set(info, "key", "value") == MPI_SUCCESS);
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS && info == MPI_INFO_NULL);
    CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == 0x101 && MPI_Comm_fromint(0x101) == MPI_COMM_WORLD);
}

static void results_that_do_not_fit(void) {
    MPI_Datatype type;
    MPI_Status status;
    MPI_Count size = 0, count = 0;
    int small = 0;
    CHECK(MPI_Type_contiguous_c(LARGE, MPI_BYTE, &type) == MPI_SUCCESS);
    CHECK(MPI_Type_size_c(type, &size) == MPI_SUCCESS && size == LARGE);
    CHECK(MPI_Type_size(type, &small) == MPI_SUCCESS && small == MPI_UNDEFINED);
    memset(&status, 0, sizeof(status));
    CHECK(MPI_Status_set_elements_c(&status, MPI_BYTE, LARGE) == MPI_SUCCESS);
    CHECK(MPI_Get_count_c(&status, MPI_BYTE, &count) == MPI_SUCCESS && count == LARGE);
    CHECK(MPI_Get_count(&status, MPI_BYTE, &small) == MPI_SUCCESS && small == MPI_UNDEFINED);
    MPI_Type_free(&type);
}

// The same type by arrays of both forms.
static void long_arrays(void) {
    static int lengths[MANY], places[MANY];
    static MPI_Count lengths_c[MANY], places_c[MANY];
    static MPI_Datatype types[MANY];
    static MPI_Aint addresses[MANY];
    MPI_Datatype small, large, mixed;
    MPI_Aint lb, extent, extent_c;
    for (int i = 0; i < MANY; i++) {
        lengths_c[i] = lengths[i] = i % 3;
        places_c[i] = places[i] = i * 4;
        addresses[i] = i * 16;
        types[i] = i % 2 ? MPI_INT : MPI_CHAR;
    }
    CHECK(MPI_Type_indexed(MANY, lengths, places, MPI_INT, &small) == MPI_SUCCESS);
    CHECK(MPI_Type_indexed_c(MANY, lengths_c, places_c, MPI_INT, &large) == MPI_SUCCESS);
    CHECK(MPI_Type_create_struct(MANY, lengths, addresses, types, &mixed) == MPI_SUCCESS);
    MPI_Type_get_extent(small, &lb, &extent);
    MPI_Type_get_extent(large, &lb, &extent_c);
    CHECK(extent == extent_c && extent > 4 * 4 * (MANY - 3));
    MPI_Type_free(&small);
    MPI_Type_free(&large);
    MPI_Type_free(&mixed);
    lengths[MANY - 1] = -1;
    CHECK(MPI_Type_indexed(MANY, lengths, places, MPI_INT, &small) == MPI_ERR_COUNT);
    types[MANY - 1] = MPI_DATATYPE_NULL;
    lengths[MANY - 1] = 1;
    CHECK(MPI_Type_create_struct(MANY, lengths, addresses, types, &mixed) == MPI_ERR_TYPE);
}

// What is not significant is not looked at.
static void in_place(void) {
    int here = 5, counts[] = {1}, places[] = {0};
    CHECK(MPI_Gather(MPI_IN_PLACE, -7, MPI_DATATYPE_NULL, &here, 1, MPI_INT, 0, MPI_COMM_SELF) ==
          MPI_SUCCESS);
    CHECK(MPI_Scatter(&here, 1, MPI_INT, MPI_IN_PLACE, -7, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF) ==
          MPI_SUCCESS);
    CHECK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, &here, counts, places, MPI_INT,
                        MPI_COMM_SELF) == MPI_SUCCESS);
    CHECK(here == 5);
}

static void integers(void) {
    enum { COMMS = 200 };
    static MPI_Comm comms[COMMS];
    for (int i = 0; i < COMMS; i++)
        CHECK(MPI_Comm_dup(MPI_COMM_SELF, &comms[i]) == MPI_SUCCESS);
    for (int i = 0; i < COMMS; i++) {
        int number = MPI_Comm_toint(comms[i]);
        CHECK(MPI_Comm_fromint(number) == comms[i] && MPI_Comm_toint(comms[i]) == number);
        CHECK(number >= 4096 && (i == 0 || number != MPI_Comm_toint(comms[i - 1])));
    }
    CHECK(MPI_Comm_fromint(INT_MAX) == MPI_COMM_NULL);
    for (int i = 0; i < COMMS; i++)
        CHECK(MPI_Comm_free(&comms[i]) == MPI_SUCCESS && comms[i] == MPI_COMM_NULL);
}

static void freed_handle(void) {
    MPI_Comm comm, copy;
    int rank;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    copy = comm;
    MPI_Comm_free(&comm);
    CHECK(MPI_Comm_rank(copy, &rank) == MPI_ERR_COMM);
}

int main(int argc, char **argv) {
    before_init();
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    results_that_do_not_fit();
    long_arrays();
    in_place();
    integers();
    freed_handle();
    CHECK(MPI_Aint_diff(MPI_Aint_add(100, 28), 100) == 28 && MPI_Wtime() > 0);
    MPI_Finalize();
    return failures != 0;
}
