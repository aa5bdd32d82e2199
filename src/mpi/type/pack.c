// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Pack and its relatives.  Packed bytes are the elements in the order of the type map, without anything between or before them; so
// what MPI_Pack has made can be received as the type, and the other way round.
#include <string.h>

#include <wherry/pack.h>

#include "mpi/bodies.h"
#include "mpi/type/make.h"
#include "mpi/type/predefined.h"

static int packed_size(MPI_Count count, const whm_type *type, MPI_Count *size) {
    if (__builtin_mul_overflow(count, type->size, size))
        return whm_fail(MPI_ERR_COUNT, "count is %lld, too many elements of %lld bytes",
                        (long long)count, (long long)type->size);
    return MPI_SUCCESS;
}

int mpi_pack_size(MPI_Count count, whm_type *type, whm_comm *comm, MPI_Count *size) {
    (void)comm;
    return packed_size(count, type, size);
}

// What both directions check: `size` bytes from `position` on lie in a buffer of `room`.
static int check_room(MPI_Count room, MPI_Count position, MPI_Count size, const void *packed,
                      const char *what) {
    if (position < 0 || position > room)
        return whm_fail(MPI_ERR_ARG, "position is %lld, and %s has %lld bytes", (long long)position,
                        what, (long long)room);
    if (size > room - position)
        return whm_fail(MPI_ERR_TRUNCATE,
                        "%lld bytes do not fit: %s has %lld from position %lld on", (long long)size,
                        what, (long long)(room - position), (long long)position);
    return size && !packed ? whm_fail(MPI_ERR_BUFFER, "%s is NULL", what) : MPI_SUCCESS;
}

// begin checks a call that packs or unpacks: *size bytes move.
static int begin(MPI_Count count, const whm_type *type, MPI_Count room, MPI_Count position,
                 const void *packed, const char *what, MPI_Count *size) {
    int error = whm_type_check_committed(type);
    if (error == MPI_SUCCESS)
        error = packed_size(count, type, size);
    return error == MPI_SUCCESS ? check_room(room, position, *size, packed, what) : error;
}

// end moves the position on, if the engine has done its part.
static int end(wh_status status, MPI_Count size, MPI_Count *position) {
    if (status != WH_OK)
        return whm_type_fail_buffer(status);
    *position += size;
    return MPI_SUCCESS;
}

int mpi_pack(const void *in, MPI_Count count, whm_type *type, void *out, MPI_Count room,
             MPI_Count *position, whm_comm *comm) {
    (void)comm;
    MPI_Count size = 0;
    int error = begin(count, type, room, *position, out, "outbuf", &size);
    if (error != MPI_SUCCESS || !size)
        return error;
    return end(whm_pack(in, count, type, 0, (char *)out + *position, (size_t)size, WH_PACK_CACHED),
               size, position);
}

int mpi_unpack(const void *in, MPI_Count room, MPI_Count *position, void *out, MPI_Count count,
               whm_type *type, whm_comm *comm) {
    (void)comm;
    MPI_Count size = 0;
    int error = begin(count, type, room, *position, in, "inbuf", &size);
    if (error != MPI_SUCCESS || !size)
        return error;
    return end(
        whm_unpack((const char *)in + *position, (size_t)size, out, count, type, 0, WH_PACK_CACHED),
        size, position);
}

// ---- The external32 representation.

static int check_external(const char *datarep, const whm_type *type) {
    if (strcmp(datarep, "external32") != 0)
        return whm_fail(MPI_ERR_UNSUPPORTED_DATAREP,
                        "datarep is \"%.60s\", only \"external32\" is known", datarep);
    if (type->foreign)
        return whm_fail(MPI_ERR_CONVERSION,
                        "the type has 16-byte Fortran elements, which are not converted to "
                        "external32 on this machine");
    return whm_type_check_committed(type);
}

static int external_size(MPI_Count count, const whm_type *type, MPI_Count *size) {
    *size = wh_external_size(count, type->layout);
    return *size >= 0 ? MPI_SUCCESS : whm_type_fail(WH_EINVAL);
}

int mpi_pack_external_size(const char *datarep, MPI_Count count, whm_type *type, MPI_Count *size) {
    int error = check_external(datarep, type);
    return error == MPI_SUCCESS ? external_size(count, type, size) : error;
}

static int begin_external(const char *datarep, MPI_Count count, const whm_type *type,
                          MPI_Count room, MPI_Count position, const void *packed, const char *what,
                          MPI_Count *size) {
    int error = check_external(datarep, type);
    if (error == MPI_SUCCESS)
        error = external_size(count, type, size);
    return error == MPI_SUCCESS ? check_room(room, position, *size, packed, what) : error;
}

// The engine converts what the CPU may touch.  host_of returns the address of such memory for `count` elements at `buf`: that address, or room for a
// copy, which *made is then; NULL: no memory.
static void *host_of(const void *buf, MPI_Count count, const whm_type *type, void **made) {
    *made = NULL;
    return whm_plain(buf) ? (void *)(uintptr_t)buf : (*made = whm_space_new(count, type));
}

int mpi_pack_external(const char *datarep, const void *in, MPI_Count count, whm_type *type,
                      void *out, MPI_Count room, MPI_Count *position) {
    MPI_Count size = 0;
    int error = begin_external(datarep, count, type, room, *position, out, "outbuf", &size);
    if (error != MPI_SUCCESS || !size)
        return error;
    whm_type *byte = whm_type_named(MPI_BYTE);
    size_t moved;
    char *to = (char *)out + *position;
    void *copy, *packed, *from = host_of(in, count, type, &copy);
    void *at = host_of(to, size, byte, &packed);
    error = from && at ? MPI_SUCCESS : whm_no_memory();
    if (error == MPI_SUCCESS && copy)
        error = whm_copy(copy, count, type, in, count, type);
    if (error == MPI_SUCCESS)
        error = end(wh_external_pack(from, count, type->layout, at, (size_t)size, &moved), size,
                    position);
    if (error == MPI_SUCCESS && packed)
        error = whm_copy(to, size, byte, packed, size, byte);
    whm_space_free(copy, type);
    whm_space_free(packed, byte);
    return error;
}

int mpi_unpack_external(const char *datarep, const void *in, MPI_Count room, MPI_Count *position,
                        void *out, MPI_Count count, whm_type *type) {
    MPI_Count size = 0;
    int error = begin_external(datarep, count, type, room, *position, in, "inbuf", &size);
    if (error != MPI_SUCCESS || !size)
        return error;
    whm_type *byte = whm_type_named(MPI_BYTE);
    size_t moved;
    const char *from = (const char *)in + *position;
    void *copy, *packed, *at = host_of(from, size, byte, &packed);
    void *to = host_of(out, count, type, &copy);
    error = at && to ? MPI_SUCCESS : whm_no_memory();
    if (error == MPI_SUCCESS && packed)
        error = whm_copy(packed, size, byte, from, size, byte);
    if (error == MPI_SUCCESS)
        error = end(wh_external_unpack(at, (size_t)size, to, count, type->layout, &moved), size,
                    position);
    if (error == MPI_SUCCESS && copy)
        error = whm_copy(out, count, type, copy, count, type);
    whm_space_free(copy, type);
    whm_space_free(packed, byte);
    return error;
}

// ---- Addresses.

int mpi_get_address(const void *location, MPI_Aint *address) {
    *address = (MPI_Aint)location;
    return MPI_SUCCESS;
}
