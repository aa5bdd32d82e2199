// SPDX-License-Identifier: BSD-3-Clause
//
// What a program may ask of the ABI, and what a Fortran binding may tell it.
//
// Fortran's types are fixed here (src/mpi/type/predefined.c): those of the usual compilers, with 1 and 0 as .TRUE. and .FALSE.  A binding that
// says the same is heard; one for a compiler that has others is refused, as its data would be misread.
#include <stdio.h>
#include <string.h>

#include "mpi/bodies.h"
#include "mpi/env/info.h"

static const struct fact {
    const char *key, *value;
} abi[] =
    {
        {"mpi_aint_size", "8"},
        {"mpi_count_size", "8"},
        {"mpi_offset_size", "8"},
},
  fortran[] = {
      {"mpi_logical_size", "4"},
      {"mpi_integer_size", "4"},
      {"mpi_real_size", "4"},
      {"mpi_double_precision_size", "8"},
      {"mpi_logical1_supported", "true"},
      {"mpi_logical2_supported", "true"},
      {"mpi_logical4_supported", "true"},
      {"mpi_logical8_supported", "true"},
      {"mpi_logical16_supported", "true"},
      {"mpi_integer1_supported", "true"},
      {"mpi_integer2_supported", "true"},
      {"mpi_integer4_supported", "true"},
      {"mpi_integer8_supported", "true"},
      {"mpi_integer16_supported", "true"},
      {"mpi_real2_supported", "true"},
      {"mpi_real4_supported", "true"},
      {"mpi_real8_supported", "true"},
      {"mpi_real16_supported", "true"},
      {"mpi_complex4_supported", "true"},
      {"mpi_complex8_supported", "true"},
      {"mpi_complex16_supported", "true"},
      {"mpi_complex32_supported", "true"},
      {"mpi_double_complex_supported", "true"},
};
_Static_assert(sizeof(MPI_Aint) == 8 && sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8, "abi[]");

static int tell(const struct fact *facts, size_t count, whm_info **info) {
    whm_info *made = whm_info_new();
    int rc = made ? MPI_SUCCESS : whm_no_memory();
    for (size_t i = 0; rc == MPI_SUCCESS && i < count; i++)
        rc = whm_info_put(made, facts[i].key, facts[i].value);
    if (rc == MPI_SUCCESS)
        *info = made;
    else if (made)
        whm_info_release(made);
    return rc;
}

int mpi_abi_get_version(int *abi_major, int *abi_minor) {
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return MPI_SUCCESS;
}

int mpi_abi_get_info(whm_info **info) {
    return tell(abi, sizeof(abi) / sizeof(*abi), info);
}

int mpi_abi_get_fortran_info(whm_info **info) {
    return tell(fortran, sizeof(fortran) / sizeof(*fortran), info);
}

int mpi_abi_set_fortran_info(whm_info *info) {
    for (size_t i = 0; i < sizeof(fortran) / sizeof(*fortran); i++) {
        const char *value = whm_info_value(info, fortran[i].key);
        if (value && strcmp(value, fortran[i].value) != 0)
            return whm_fail(MPI_ERR_ABI, "%s is %s here, and not %s", fortran[i].key,
                            fortran[i].value, value);
    }
    return MPI_SUCCESS;
}

// booleans writes both values of a LOGICAL of that many bytes.
static int booleans(int size, unsigned char yes[16], unsigned char no[16]) {
    if (size < 1 || size > 16 || (size & (size - 1)))
        return whm_fail(MPI_ERR_ARG, "logical_size is %d; there are LOGICALs of 1, 2, 4, 8 and 16",
                        size);
    const uint32_t one = 1;
    memset(yes, 0, 16);
    memset(no, 0, 16);
    // The byte that is 1 in a number of that size.
    yes[*(const unsigned char *)&one ? 0 : size - 1] = 1;
    return MPI_SUCCESS;
}

int mpi_abi_get_fortran_booleans(int logical_size, void *logical_true, void *logical_false,
                                 int *is_set) {
    unsigned char yes[16], no[16];
    int rc = booleans(logical_size, yes, no);
    if (rc != MPI_SUCCESS)
        return rc;
    memcpy(logical_true, yes, (size_t)logical_size);
    memcpy(logical_false, no, (size_t)logical_size);
    *is_set = 1;
    return MPI_SUCCESS;
}

int mpi_abi_set_fortran_booleans(int logical_size, void *logical_true, void *logical_false) {
    unsigned char yes[16], no[16];
    int rc = booleans(logical_size, yes, no);
    if (rc != MPI_SUCCESS)
        return rc;
    if (memcmp(logical_true, yes, (size_t)logical_size) != 0 ||
        memcmp(logical_false, no, (size_t)logical_size) != 0)
        return whm_fail(MPI_ERR_ABI, ".TRUE. and .FALSE. are 1 and 0 here");
    return MPI_SUCCESS;
}
