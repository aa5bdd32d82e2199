// SPDX-License-Identifier: BSD-3-Clause
//
// Files: each rank of a communicator has opened the same one, and sees it through a view.
//
// Ranks read and write by themselves, in all calls; collective ones differ in what they promise, and in that they agree on errors where
// the file as a whole is concerned.  What the operating system does at once (pread, pwrite) is done in the call: nonblocking operations
// are complete when they return.
#ifndef WHM_IO_FILE_H
#define WHM_IO_FILE_H

#include "mpi/comm/comm.h"
#include "mpi/env/errhandler.h"
#include "mpi/type/type.h"

// What of the file a rank sees: copies of `filetype`, one behind the other from byte `disp` on, hold its data.
typedef struct whm_view {
    MPI_Offset disp;
    whm_type *etype, *filetype;  // held
    char rep[MPI_MAX_DATAREP_STRING];
    bool external;   // it is external32; all others leave the bytes as they are
    MPI_Count unit;  // bytes of an etype in the file
    bool stream;     // its data lie one behind the other
} whm_view;

typedef struct whm_file {
    whm_object o;
    struct whm_errhandler *errhandler;  // as in whm_guarded
    whm_comm *comm;                     // of its own
    char *name;
    int fd, amode;
    bool delete_on_close;
    whm_view view;
    MPI_Offset at;  // the individual pointer, in etypes
    bool atomic;
    struct whm_info *info;
    char *pointer_name;  // of the file that holds the shared pointer
    int pointer_fd;      // -1: it was not needed so far
    // A split collective operation that was begun.
    const char *begun;  // its name; NULL: none
    const void *buf;
    MPI_Status status;
} whm_file;
_Static_assert(offsetof(whm_file, errhandler) == offsetof(whm_guarded, errhandler),
               "a file begins as all that have error handlers");
_Static_assert(offsetof(whm_file, comm) == offsetof(whm_joint, comm), "its communicator follows");

// whm_io_fail is whm_fail for an error of the operating system.  `what` was tried with the file `name`.
int whm_io_fail(int error, const char *what, const char *name);

// whm_io_together agrees on an error that any rank may have met: MPI_SUCCESS only if none has.
int whm_io_together(const whm_file *file, int code);

// whm_io_same checks that all ranks have given rank 0's value.  Collective, as whm_io_together is, which it leaves to the caller.
int whm_io_same(const whm_file *file, const char *what, MPI_Offset value);

// Whether the file was opened for this: writing; offsets and pointers of the ranks' own.
int whm_io_check_writable(const whm_file *file);
int whm_io_check_random(const whm_file *file);

// whm_io_lock locks all of a file, F_RDLCK or F_WRLCK, when nobody else has it, or unlocks it, F_UNLCK.  It answers as fcntl does.
int whm_io_lock(int fd, short how);

// whm_io_hints takes over those of an info that are known, or NULL.
int whm_io_hints(whm_file *file, const struct whm_info *info);

// whm_view_init is the view of a file that was just opened, whm_view_drop releases what a view holds.
void whm_view_init(whm_view *view);
void whm_view_drop(whm_view *view);

// whm_view_reach checks that a file can have `etypes` etypes of the view from etype `at` on: their offsets are numbers.
int whm_view_reach(const whm_view *view, MPI_Offset at, MPI_Offset etypes);

// whm_view_byte returns the offset in the file of etype `at` of the view.
int whm_view_byte(const whm_view *view, MPI_Offset at, MPI_Offset *byte);

// whm_view_end returns the number of etypes of the view that begin before the end of the file.
int whm_view_end(const whm_file *file, MPI_Offset *at);

// An access.
typedef struct whm_io {
    whm_file *file;
    bool write;
    char *buf;
    MPI_Count count;
    whm_type *type;
} whm_io;

// whm_io_check checks an access: *etypes is how many it covers.
int whm_io_check(const whm_io *io, MPI_Offset *etypes);

// whm_io_run carries it out from etype `at` of the view on.  *moved is in bytes of memory: less than asked for only at the end of the file.
int whm_io_run(const whm_io *io, MPI_Offset at, MPI_Count *moved);

// whm_pointer_add moves the shared pointer on by `etypes`, and returns where it was; whm_pointer_set sets it.  Any rank, at any time.
int whm_pointer_add(whm_file *file, MPI_Offset etypes, MPI_Offset *was);
int whm_pointer_set(whm_file *file, MPI_Offset at);

#endif
