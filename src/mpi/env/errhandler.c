// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/errhandler.h"

#include "mpi/base/lock.h"
#include "mpi/bodies.h"

// They never change, so all ranks of a process share them.
static whm_errhandler predefined[] = {
    {{WHM_MARK | WHM_ERRHANDLER, 1, MPI_ERRORS_ARE_FATAL}, WHM_ENDS_JOB, 0, NULL},
    {{WHM_MARK | WHM_ERRHANDLER, 1, MPI_ERRORS_ABORT}, WHM_ENDS_GROUP, 0, NULL},
    {{WHM_MARK | WHM_ERRHANDLER, 1, MPI_ERRORS_RETURN}, WHM_RETURNS, 0, NULL},
};

void whm_errhandlers_begin(whm_rank *rank) {
    for (size_t i = 0; i < sizeof(predefined) / sizeof(*predefined); i++)
        rank->named[(uintptr_t)predefined[i].o.handle] = &predefined[i].o;
    rank->file_errhandler = (whm_errhandler *)rank->named[(uintptr_t)MPI_ERRORS_RETURN];
}

whm_errhandler *whm_errhandler_hold(whm_errhandler *handler) {
    return handler->reaction == WHM_CALLS ? whm_retain(handler) : handler;
}

void whm_errhandler_release(whm_errhandler *handler) {
    if (handler && handler->reaction == WHM_CALLS && whm_released(handler))
        whm_object_free(handler, sizeof(*handler));
}

int whm_errhandler_set(whm_errhandler **place, whm_errhandler *handler, whm_kind kind) {
    static const char *const text[WHM_KINDS] = {[WHM_COMM] = "communicators",
                                                [WHM_WIN] = "windows",
                                                [WHM_FILE] = "files",
                                                [WHM_SESSION] = "sessions"};
    if (handler->reaction == WHM_CALLS && handler->kind != kind)
        return whm_fail(MPI_ERR_ERRHANDLER, "the error handler was made for %s, not for %s",
                        text[handler->kind], text[kind]);
    whm_errhandler *before = *place;
    *place = whm_errhandler_hold(handler);
    whm_errhandler_release(before);
    return MPI_SUCCESS;
}

void whm_errhandler_call(const whm_errhandler *handler, void *handle, int code) {
    whm_go_out();
    switch (handler->kind) {
    case WHM_WIN: {
        MPI_Win win = handle;
        ((MPI_Win_errhandler_function *)handler->fn)(&win, &code);
        break;
    }
    case WHM_FILE: {
        MPI_File file = handle;
        ((MPI_File_errhandler_function *)handler->fn)(&file, &code);
        break;
    }
    case WHM_SESSION: {
        MPI_Session session = handle;
        ((MPI_Session_errhandler_function *)handler->fn)(&session, &code);
        break;
    }
    default: {
        MPI_Comm comm = handle;
        ((MPI_Comm_errhandler_function *)handler->fn)(&comm, &code);
        break;
    }
    }
    whm_come_back();
}

static int make(whm_kind kind, void (*fn)(void), whm_errhandler **handler) {
    whm_errhandler *made = whm_object_new(WHM_ERRHANDLER, sizeof(*made));
    if (!made)
        return whm_no_memory();
    made->reaction = WHM_CALLS;
    made->kind = kind;
    made->fn = fn;
    *handler = made;
    return MPI_SUCCESS;
}

int mpi_comm_create_errhandler(MPI_Comm_errhandler_function *fn, whm_errhandler **errhandler) {
    return make(WHM_COMM, (void (*)(void))fn, errhandler);
}

int mpi_win_create_errhandler(MPI_Win_errhandler_function *fn, whm_errhandler **errhandler) {
    return make(WHM_WIN, (void (*)(void))fn, errhandler);
}

int mpi_file_create_errhandler(MPI_File_errhandler_function *fn, whm_errhandler **errhandler) {
    return make(WHM_FILE, (void (*)(void))fn, errhandler);
}

int mpi_session_create_errhandler(MPI_Session_errhandler_function *fn,
                                  whm_errhandler **errhandler) {
    return make(WHM_SESSION, (void (*)(void))fn, errhandler);
}

int mpi_errhandler_free(whm_errhandler *errhandler) {
    whm_errhandler_release(errhandler);
    return MPI_SUCCESS;
}
