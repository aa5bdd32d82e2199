// SPDX-License-Identifier: BSD-3-Clause
//
// Each function of MPI with each argument wrong once (wrong_make.py): it returns an error of the right class, the error handler
// has heard of it, and the program goes on.  Then each function that is not there.  A job of one process.
#include "wrong.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct right right;
struct wrong wrong;
static struct right kept;
static _Alignas(16) char room[MPI_MAX_LIBRARY_VERSION_STRING];
static const char *call = "";
static int calls, failures, heard_of, heard_code;

void right_op(void *in, void *inout, int *len, MPI_Datatype *datatype) {
    (void)in, (void)inout, (void)len, (void)datatype;
}
void right_op_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *datatype) {
    (void)in, (void)inout, (void)len, (void)datatype;
}

static void hear(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    heard_of++;
    heard_code = *code;
}
static void hear_win(MPI_Win *win, int *code, ...) {
    (void)win;
    heard_of++;
    heard_code = *code;
}

static void hear_session(MPI_Session *session, int *code, ...) {
    (void)session;
    heard_of++;
    heard_code = *code;
}

static void died(int number) {
    const char *words[] = {call, number == SIGALRM ? ": hangs\n" : ": crashes\n"};
    for (int i = 0; i < 2; i++)
        if (write(STDOUT_FILENO, words[i], strlen(words[i])) < 0)
            break;
    _exit(1);
}

static void fail(const char *why, const char *what) {
    printf("%s: %s%s\n", call, why, what);
    failures++;
}

void wrong_begin(const char *what) {
    call = what;
    right = kept;
    memset(room, 0, sizeof(room));
    heard_of = heard_code = 0;
    alarm(10);
}

void wrong_end(int code, int error, const char *name, int heard) {
    static char text[MPI_MAX_ERROR_STRING];
    int class = -1, length = 0;
    calls++;
    if (code == MPI_SUCCESS) {
        fail("succeeds, and is no ", name);
        return;
    }
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    if (class != error) {
        fail("is no ", name);
        printf("    but %s\n", text);
    }
    if (length == 0 || (int)strlen(text) != length)
        fail("has no text", "");
    if (heard_of != heard || (heard && heard_code != code))
        fail("the error handler has not heard of it once, or of another error", "");
}

// ---- Functions that are not there.  Standard error is a file meanwhile.

static FILE *errors;

void missing_end(int code, int error, int heard) {
    calls++;
    // Codes of the tools interface have no classes.
    int class = code;
    if (heard)
        MPI_Error_class(code, &class);
    if (class != error)
        fail("answers another error than that of a function that is not there", "");
    if (heard_of != heard || (heard && heard_code != code))
        fail("the error handler has not heard of it once, or of another error", "");
}

// missing_named reads what was printed since it was called last.
void missing_named(void) {
    char line[256], wanted[256];
    int lines = 0, right_ones = 0;
    snprintf(wanted, sizeof(wanted), "%s is not implemented\n", call);
    while (fgets(line, sizeof(line), errors)) {
        const char *at = strstr(line, wanted);
        lines++;
        right_ones += at && strstr(line, "W-MPI-01") && !at[strlen(wanted)];
    }
    clearerr(errors);
    if (lines != 1 || right_ones != 1)
        fail("has not named itself once", "");
}

static void try_missing(void) {
    char path[] = "/tmp/mpi-wrong-XXXXXX";
    int kept_fd = dup(STDERR_FILENO), fd = mkstemp(path);
    errors = fd < 0 ? NULL : fopen(path, "r");
    if (!errors || kept_fd < 0 || dup2(fd, STDERR_FILENO) < 0) {
        fail("there is no file for standard error", "");
        return;
    }
    unlink(path);
    close(fd);
    missing_calls();
    fclose(errors);
    dup2(kept_fd, STDERR_FILENO);
    close(kept_fd);
}

static void make_comms(void) {
    int one = 1, zero = 0;
    right.comm = MPI_COMM_WORLD;
    MPI_Comm_group(MPI_COMM_WORLD, &right.group);
    right.cart = right.graph = right.distributed = MPI_COMM_WORLD;
    if (!have_topologies)
        return;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &one, 0, &right.cart);
    MPI_Graph_create(MPI_COMM_WORLD, 1, &one, &zero, 0, &right.graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &zero, MPI_UNWEIGHTED, 1, &zero,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &right.distributed);
}

static void make_keyvals(void) {
    if (!have_keyvals)
        return;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &right.comm_keyval,
                           NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &right.type_keyval,
                           NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, right.comm_keyval, room);
}

static void make_win(MPI_Errhandler *handler) {
    static int memory[64];
    if (!have_win)
        return;
    MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &right.win);
    MPI_Win_create_errhandler(hear_win, handler);
    MPI_Win_set_errhandler(right.win, *handler);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &right.win_keyval, NULL);
}

static void make_session(void) {
    MPI_Errhandler handler;
    right.session = MPI_SESSION_NULL;
    if (!have_sessions)
        return;
    MPI_Session_create_errhandler(hear_session, &handler);
    MPI_Session_init(MPI_INFO_NULL, handler, &right.session);
}

static void make_file(void) {
    right.file = MPI_FILE_NULL;
    strcpy(right.file_name, "/tmp/mpi-wrong-XXXXXX");
    int fd = have_files ? mkstemp(right.file_name) : -1;
    if (fd < 0)
        return;
    close(fd);
    MPI_File_open(MPI_COMM_SELF, right.file_name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &right.file);
}

static void make_right(void) {
    right.type = right.datatype = MPI_INT;
    right.op = MPI_SUM;
    right.errhandler = MPI_ERRORS_RETURN;
    right.request = MPI_REQUEST_NULL;
    right.message = MPI_MESSAGE_NO_PROC;
    right.room = room;
    MPI_Info_create(&right.info);
    for (int i = 0; i < 4; i++) {
        right.requests[i] = MPI_REQUEST_NULL;
        right.types[i] = MPI_INT;
        right.large[i] = 1;
        wrong.ints[i] = -1;
        wrong.large[i] = -1;
    }
    right.ints[0] = 0;
}

static void make_wrong(void) {
    wrong.null_comm = MPI_COMM_NULL;
    wrong.null_group = MPI_GROUP_NULL;
    wrong.null_datatype = wrong.null_type = MPI_DATATYPE_NULL;
    wrong.null_op = MPI_OP_NULL;
    wrong.null_info = MPI_INFO_NULL;
    wrong.null_errhandler = MPI_ERRHANDLER_NULL;
    wrong.null_win = MPI_WIN_NULL;
    wrong.null_file = MPI_FILE_NULL;
    wrong.null_session = MPI_SESSION_NULL;
    wrong.null_request = MPI_REQUEST_NULL;
    wrong.kind_of_request = (MPI_Request)right.info;
    wrong.keyval = 0x7fffffff;
    wrong.rank = 77;
    wrong.minus = -1;
    memset(wrong.long_key, 'k', sizeof(wrong.long_key) - 1);
    MPI_Type_contiguous(2, MPI_INT, &wrong.loose);
    MPI_Info_create(&wrong.freed_info);
    MPI_Info copy = wrong.freed_info;
    MPI_Info_free(&copy);
    MPI_Send_init(room, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &wrong.freed_request);
    MPI_Request gone = wrong.freed_request;
    MPI_Request_free(&gone);
}

static void set_handlers(MPI_Errhandler handler) {
    MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, right.cart, right.graph, right.distributed};
    for (size_t i = 0; i < sizeof(comms) / sizeof(MPI_Comm); i++)
        MPI_Comm_set_errhandler(comms[i], handler);
}

int main(int argc, char **argv) {
    MPI_Errhandler handler, win_handler;
    signal(SIGALRM, died);
    signal(SIGSEGV, died);
    signal(SIGABRT, died);
    alarm(10);
    MPI_Init(&argc, &argv);
    make_comms();
    make_keyvals();
    make_right();
    make_win(&win_handler);
    make_session();
    make_file();
    make_wrong();
    MPI_Comm_create_errhandler(hear, &handler);
    set_handlers(handler);
    kept = right;
    wrong_calls();
    try_missing();
    if (kept.file != MPI_FILE_NULL)
        MPI_File_close(&kept.file);
    printf("%d wrong calls, %d failures\n", calls, failures);
    fflush(stdout);
    return failures != 0;
}
