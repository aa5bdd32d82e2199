// SPDX-License-Identifier: BSD-3-Clause
//
// What becomes of an error: the error handler of the object concerned is asked, and may end the job, with one line that says why.
#include "mpi/base/raise.h"

#include <stdio.h>

#include "mpi/base/process.h"
#include "mpi/base/streams.h"
#include "mpi/bodies.h"
#include "mpi/comm/comm.h"
#include "mpi/env/errhandler.h"
#include "mpi/env/errors.h"

// place_of returns where an object keeps its error handler; of files NULL is MPI_FILE_NULL, which has one, too.
static whm_errhandler **place_of(whm_kind kind, void *object) {
    return kind == WHM_COMM ? &((whm_comm *)object)->errhandler
           : object         ? &((whm_guarded *)object)->errhandler
                            : &whm_self->file_errhandler;
}

// The handler of calls that concern no object.
static whm_errhandler *common(void) {
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
    char where[MPI_MAX_OBJECT_NAME + 8], rank[24] = "";
    const char *text = whm_error_text(code), *call = whm_self->call;
    whm_process_give_way();
    describe(where, sizeof(where), kind, object);
    if (whm_self->phase != WHM_BEFORE || whm_process_here.worker)  // else it has no number yet
        snprintf(rank, sizeof(rank), " rank %d", whm_self->world);
    whm_streams_flush();
    fprintf(stderr, "MPI%s: %s%s: %s%s%s\n", rank, call ? call : "MPI", where,
            text ? text : "an error without a text", *whm_self->sentence ? ": " : "",
            whm_self->sentence);
    fflush(stderr);
    whm_job_abort(code);
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
    bool concerned = object || kind == WHM_FILE;
    whm_errhandler *handler = concerned ? *place_of(kind, object) : common();
    if (!concerned && handler->reaction == WHM_CALLS)
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

#define FUNCTIONS(name, kind)                                                                      \
    int mpi_##name##_set_errhandler(whm_##name *name, whm_errhandler *errhandler) {                \
        return whm_errhandler_set(place_of(kind, name), errhandler, kind);                         \
    }                                                                                              \
    int mpi_##name##_get_errhandler(whm_##name *name, whm_errhandler **errhandler) {               \
        return get(place_of(kind, name), errhandler);                                              \
    }                                                                                              \
    int mpi_##name##_call_errhandler(whm_##name *name, int errorcode) {                            \
        return call(kind, name, errorcode);                                                        \
    }
FUNCTIONS(comm, WHM_COMM)
FUNCTIONS(win, WHM_WIN)
FUNCTIONS(file, WHM_FILE)
FUNCTIONS(session, WHM_SESSION)
