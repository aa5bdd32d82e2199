// SPDX-License-Identifier: BSD-3-Clause
//
// What becomes of an error: the error handler of the object concerned is asked, and may end the job, with one line that says why.
#include "mpi/base/raise.h"

#include <stdio.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/comm/comm.h"
#include "mpi/env/errhandler.h"
#include "mpi/env/errors.h"

// place writes where an object keeps its error handler; NULL: it has none of its own.
static whm_errhandler **place_of(whm_kind kind, void *object) {
    if (!object)
        return kind == WHM_FILE && whm_self->file_errhandler ? &whm_self->file_errhandler : NULL;
    return kind == WHM_COMM ? &((whm_comm *)object)->errhandler
                            : &((whm_guarded *)object)->errhandler;
}

// The handler of calls that concern no object.
static whm_errhandler *common(whm_kind kind) {
    if (kind == WHM_FILE)
        return whm_errhandler_of(MPI_ERRORS_RETURN);
    return whm_self->comm_self ? whm_self->comm_self->errhandler
                               : whm_errhandler_of(MPI_ERRORS_ARE_FATAL);
}

// describe writes what the object is, for the line below.
static void describe(char *text, size_t size, whm_kind kind, const void *object) {
    const whm_comm *comm = object;
    *text = 0;
    if (kind != WHM_COMM || !object)
        return;
    if (*comm->name)
        snprintf(text, size, " on %s", comm->name);
    else
        snprintf(text, size, " on a communicator of %d ranks", comm->size);
}

static _Noreturn void end_job(whm_kind kind, const void *object, int code) {
    char where[MPI_MAX_OBJECT_NAME + 8];
    const char *text = whm_error_text(code), *call = whm_self->call;
    whm_process_give_way();
    describe(where, sizeof(where), kind, object);
    fflush(stdout);
    fprintf(stderr, "MPI rank %d: %s%s: %s%s%s\n", whm_self->world, call ? call : "MPI", where,
            text ? text : "an error without a text", *whm_self->sentence ? ": " : "",
            whm_self->sentence);
    fflush(stderr);
    whm_process_abort(code);
}

static void ask(const whm_errhandler *handler, whm_kind kind, void *object, int code) {
    switch (handler->reaction) {
    case WHM_ENDS_JOB:
    case WHM_ENDS_GROUP: end_job(kind, object, code);
    case WHM_CALLS: {
        // The function may replace the handler, and with that end it.
        whm_errhandler *held = whm_errhandler_hold((whm_errhandler *)handler);
        // Only of files there is a handler without an object.
        whm_errhandler_call(held, object ? ((whm_object *)object)->handle : MPI_FILE_NULL, code);
        whm_errhandler_release(held);
        break;
    }
    case WHM_RETURNS: break;
    }
}

int whm_raise(whm_kind kind, void *object, int code) {
    whm_errhandler **place = place_of(kind, object);
    whm_errhandler *handler = place ? *place : common(kind);
    if (!place && handler->reaction == WHM_CALLS && kind != WHM_FILE)
        object = whm_self->comm_self;
    ask(handler, kind, object, code);
    return code;
}

// ---- The functions of MPI, for each kind of object.

static int get(whm_errhandler *const *place, whm_errhandler **errhandler) {
    *errhandler = whm_errhandler_hold(*place);
    return MPI_SUCCESS;
}

static int call(whm_kind kind, void *object, int code) {
    ask(*place_of(kind, object), kind, object, code);
    return MPI_SUCCESS;
}

int mpi_comm_set_errhandler(whm_comm *comm, whm_errhandler *errhandler) {
    return whm_errhandler_set(&comm->errhandler, errhandler, WHM_COMM);
}

int mpi_comm_get_errhandler(whm_comm *comm, whm_errhandler **errhandler) {
    return get(&comm->errhandler, errhandler);
}

int mpi_comm_call_errhandler(whm_comm *comm, int errorcode) {
    return call(WHM_COMM, comm, errorcode);
}

int mpi_win_set_errhandler(whm_win *win, whm_errhandler *errhandler) {
    return whm_errhandler_set(place_of(WHM_WIN, win), errhandler, WHM_WIN);
}

int mpi_win_get_errhandler(whm_win *win, whm_errhandler **errhandler) {
    return get(place_of(WHM_WIN, win), errhandler);
}

int mpi_win_call_errhandler(whm_win *win, int errorcode) {
    return call(WHM_WIN, win, errorcode);
}

int mpi_file_set_errhandler(whm_file *file, whm_errhandler *errhandler) {
    return whm_errhandler_set(place_of(WHM_FILE, file), errhandler, WHM_FILE);
}

int mpi_file_get_errhandler(whm_file *file, whm_errhandler **errhandler) {
    return get(place_of(WHM_FILE, file), errhandler);
}

int mpi_file_call_errhandler(whm_file *file, int errorcode) {
    return call(WHM_FILE, file, errorcode);
}

int mpi_session_set_errhandler(whm_session *session, whm_errhandler *errhandler) {
    return whm_errhandler_set(place_of(WHM_SESSION, session), errhandler, WHM_SESSION);
}

int mpi_session_get_errhandler(whm_session *session, whm_errhandler **errhandler) {
    return get(place_of(WHM_SESSION, session), errhandler);
}

int mpi_session_call_errhandler(whm_session *session, int errorcode) {
    return call(WHM_SESSION, session, errorcode);
}
