// SPDX-License-Identifier: BSD-3-Clause
//
// Error handlers: what is done when a function fails on an object of their kind.  The predefined ones do for objects of all kinds, are
// there before MPI_Init, and are not counted.
#ifndef WHM_ENV_ERRHANDLER_H
#define WHM_ENV_ERRHANDLER_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

typedef enum whm_reaction {
    WHM_ENDS_JOB,    // MPI_ERRORS_ARE_FATAL: all processes that are connected
    WHM_ENDS_GROUP,  // MPI_ERRORS_ABORT: those of the communicator, which is the whole job here
    WHM_RETURNS,
    WHM_CALLS
} whm_reaction;

typedef struct whm_errhandler {
    whm_object o;
    whm_reaction reaction;
    whm_kind kind;     // of the objects that it is for, if it calls
    void (*fn)(void);  // MPI_Comm_errhandler_function *, or that of another kind
} whm_errhandler;

typedef struct whm_guarded {  // what windows, files and sessions begin with
    whm_object o;
    whm_errhandler *errhandler;
} whm_guarded;

typedef struct whm_joint {  // what files begin with
    whm_guarded guarded;
    struct whm_comm *comm;  // of its own
} whm_joint;

static inline whm_errhandler *whm_errhandler_of(MPI_Errhandler handle) {
    return whm_object_of(handle, WHM_ERRHANDLER);
}
void whm_errhandler_release(whm_errhandler *handler);

// whm_errhandler_hold adds a reference, unless it is a predefined one, and returns it.
whm_errhandler *whm_errhandler_hold(whm_errhandler *handler);

// whm_errhandler_set replaces the error handler of an object of this kind, which *place holds.  MPI_ERR_ERRHANDLER: it is for objects of another one.
int whm_errhandler_set(whm_errhandler **place, whm_errhandler *handler, whm_kind kind);

// whm_errhandler_call calls the program's function of an object with this handle.
void whm_errhandler_call(const whm_errhandler *handler, void *handle, int code);

// whm_errhandlers_begin gives a rank the predefined ones.
void whm_errhandlers_begin(whm_rank *rank);

#endif
