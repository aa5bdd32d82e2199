// SPDX-License-Identifier: BSD-3-Clause
//
// Values for wrong_calls.c: arguments that are right, and some that are wrong.
#ifndef WRONG_H
#define WRONG_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern struct right {  // reset before each call
    MPI_Comm comm, cart, graph, distributed;
    MPI_Group group;
    MPI_Datatype type, datatype;
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler errhandler;
    MPI_Win win;
    MPI_File file;
    MPI_Session session;
    MPI_Request request, requests[4];
    MPI_Message message;
    MPI_Datatype types[4];
    int comm_keyval, type_keyval, win_keyval, keyval_to_free;
    int ints[4], zeros[4], ranges[1][3];
    MPI_Count large[4];
    MPI_Aint aints[4];
    void *room;  // for any result
    char file_name[64];
} right;

extern struct wrong {
    MPI_Datatype loose;  // not committed
    MPI_Comm null_comm;
    MPI_Group null_group;
    MPI_Datatype null_datatype, null_type;
    MPI_Op null_op;
    MPI_Info null_info, freed_info;
    MPI_Errhandler null_errhandler;
    MPI_Win null_win;
    MPI_File null_file;
    MPI_Session null_session;
    MPI_Request null_request, kind_of_request, freed_request;
    int keyval, rank, minus;
    int ints[4];
    MPI_Count large[4];
    char long_key[MPI_MAX_INFO_KEY + 2];
} wrong;

MPI_User_function right_op;
MPI_User_function_c right_op_c;

// WRONG makes a call that must fail with an error of that class, and be heard of by the error handler so often: once, or not at all.
#define WRONG(what, error, heard, call)                                                            \
    do {                                                                                           \
        wrong_begin(what);                                                                         \
        wrong_end(call, error, #error, heard);                                                     \
    } while (0)
void wrong_begin(const char *what);
void wrong_end(int code, int error, const char *name, int heard);

// MISSING makes a call of a function that is not there, twice: it answers so each time, and names itself on standard error once.
#define MISSING(what, error, heard, call)                                                          \
    do {                                                                                           \
        wrong_begin(what);                                                                         \
        missing_end(call, error, heard);                                                           \
        wrong_begin(what);                                                                         \
        missing_end(call, error, heard);                                                           \
        missing_named();                                                                           \
    } while (0)
void missing_end(int code, int error, int heard);
void missing_named(void);

void wrong_calls(void);
void missing_calls(void);
extern const bool have_topologies, have_keyvals, have_win, have_sessions, have_files;

#endif
