// SPDX-License-Identifier: BSD-3-Clause
//
// What fronts do around the bodies of functions: a call begins, its arguments are checked by their kinds, it ends or fails.
//
// A check returns MPI_SUCCESS or an error class.  What is right costs a comparison each; what is wrong is said out of line, with the
// argument's name and value.
#ifndef WHM_FRONT_CHECK_H
#define WHM_FRONT_CHECK_H

// The functions of MPI are what the library exports; all else is hidden.
#pragma GCC visibility push(default)
#include <mpi.h>
#pragma GCC visibility pop

#include "mpi/base/lock.h"
#include "mpi/base/process.h"
#include "mpi/base/raise.h"
#include "mpi/comm/comm.h"
#include "mpi/comm/compare.h"
#include "mpi/env/errhandler.h"
#include "mpi/type/type.h"

#define WHM_LIKELY(x) __builtin_expect(!!(x), 1)
#define WHM_COLD __attribute__((cold, noinline))

// whm_call_begin begins a call, and returns the one that it is within: of a function of the program that the library calls.
static inline const char *whm_call_begin(const char *name) {
    whm_enter();
    whm_rank *self = whm_self;
    const char *outer = self->call;
    self->call = name;
    self->sentence[0] = 0;
    self->waits_since_ms = 0;
    return outer;
}
static inline void whm_call_end(const char *outer) {
    whm_self->call = outer;
    whm_leave();
}

// whm_call_fail asks the error handler: of who is to blame, of `object`, or of none.
WHM_COLD int whm_call_fail(whm_kind kind, void *object, int code);

// whm_missing is the body of a function that is not there; whm_tell_missing logs its name the first time.
WHM_COLD int whm_missing(bool *told);
WHM_COLD void whm_tell_missing(bool *told);

WHM_COLD int whm_refuse_phase(void);
WHM_COLD int whm_refuse_handle(whm_kind kind, const char *name, const void *handle);
WHM_COLD int whm_refuse_number(int error, const char *name, MPI_Count value, const char *why);
WHM_COLD int whm_refuse_pointer(int error, const char *name);
WHM_COLD int whm_refuse_place(const char *name);
WHM_COLD int whm_refuse_rank(const whm_comm *comm, const char *name, int rank);
WHM_COLD int whm_refuse_root(const whm_comm *comm, int root);
WHM_COLD int whm_refuse_uncommitted(const char *name);

static inline int whm_check_running(void) {
    return WHM_LIKELY(whm_self->phase == WHM_RUNNING) ? MPI_SUCCESS : whm_refuse_phase();
}

// An object that must be there.
#define WHM_GET(object, handle, kind, name)                                                        \
    (WHM_LIKELY((object) = whm_object_of(handle, kind)) ? MPI_SUCCESS                              \
                                                        : whm_refuse_handle(kind, name, handle))
// One that need not: the null handle gives NULL.
#define WHM_GET_OR_NULL(object, handle, none, kind, name)                                          \
    ((handle) == (none) ? MPI_SUCCESS : WHM_GET(object, handle, kind, name))
#define WHM_GET_COMMITTED(object, handle, name)                                                    \
    (!WHM_LIKELY((object) = whm_object_of(handle, WHM_TYPE))                                       \
         ? whm_refuse_handle(WHM_TYPE, name, handle)                                               \
     : WHM_LIKELY((object)->committed) ? MPI_SUCCESS                                               \
                                       : whm_refuse_uncommitted(name))

static inline int whm_check_least(int error, const char *name, MPI_Count value, MPI_Count least,
                                  const char *why) {
    return WHM_LIKELY(value >= least) ? MPI_SUCCESS : whm_refuse_number(error, name, value, why);
}
static inline int whm_check_pointer(const char *name, const void *pointer) {
    return WHM_LIKELY(pointer) ? MPI_SUCCESS : whm_refuse_pointer(MPI_ERR_ARG, name);
}
// An array of that many elements.
static inline int whm_check_array(const char *name, const void *array, MPI_Count length) {
    return WHM_LIKELY(array || length <= 0) ? MPI_SUCCESS : whm_refuse_pointer(MPI_ERR_ARG, name);
}
// MPI_IN_PLACE, where it means nothing.
static inline int whm_check_place(const char *name, const void *buf) {
    return WHM_LIKELY(buf != MPI_IN_PLACE) ? MPI_SUCCESS : whm_refuse_place(name);
}
// Only a type of the program's own may begin at MPI_BOTTOM, which is NULL.
static inline int whm_check_buffer(const char *name, const void *buf, MPI_Count count,
                                   const whm_type *type) {
    return WHM_LIKELY(buf || count <= 0 || !type->basic) ? MPI_SUCCESS
                                                         : whm_refuse_pointer(MPI_ERR_BUFFER, name);
}
// A rank that messages go to or come from: `least` is MPI_PROC_NULL, or MPI_ANY_SOURCE, which may be -1 in addition.
static inline int whm_peers(const whm_comm *comm) {
    return comm->remote ? comm->remote->size : comm->size;
}
static inline int whm_check_dest(const whm_comm *comm, const char *name, int rank) {
    return WHM_LIKELY((unsigned)rank < (unsigned)whm_peers(comm)) || rank == MPI_PROC_NULL
               ? MPI_SUCCESS
               : whm_refuse_rank(comm, name, rank);
}
static inline int whm_check_source(const whm_comm *comm, const char *name, int rank) {
    return rank == MPI_ANY_SOURCE ? MPI_SUCCESS : whm_check_dest(comm, name, rank);
}
static inline int whm_check_tag(const char *name, int tag) {
    return whm_check_least(MPI_ERR_TAG, name, tag, 0, "a tag is not negative");
}
static inline int whm_check_rtag(const char *name, int tag) {
    return tag == MPI_ANY_TAG ? MPI_SUCCESS : whm_check_tag(name, tag);
}
static inline int whm_check_assertion(const char *name, int assertion) {
    const int known = MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE |
                      MPI_MODE_NOSUCCEED;
    return WHM_LIKELY(!(assertion & ~known))
               ? MPI_SUCCESS
               : whm_refuse_number(MPI_ERR_ASSERT, name, assertion, "it has bits of no assertion");
}
static inline int whm_check_root(const whm_comm *comm, int root) {
    bool known = (unsigned)root < (unsigned)whm_peers(comm);
    if (comm->remote)
        known = known || root == MPI_ROOT || root == MPI_PROC_NULL;
    return WHM_LIKELY(known) ? MPI_SUCCESS : whm_refuse_root(comm, root);
}
// Neighbours in the virtual topology, which there must be.
int whm_check_topology(const whm_comm *comm);
int whm_sources(const whm_comm *comm);
int whm_destinations(const whm_comm *comm);

int whm_check_key(const char *name, const char *key);

// What a count becomes where only an int has room.
static inline int whm_narrow(MPI_Count count) {
    return count == (int)count ? (int)count : MPI_UNDEFINED;
}

// The handle that the program gets.
#define WHM_GIVE(object, none)                                                                     \
    ((object) ? (__typeof__(none))((const whm_object *)(object))->handle : (none))

// Makes MPI_X the weak name of PMPI_X, so that a profiler's is taken instead.
#define WHM_WEAK(name) extern __typeof__(P##name) name __attribute__((weak, alias("P" #name)))

#endif
