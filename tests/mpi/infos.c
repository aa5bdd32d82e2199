// SPDX-License-Identifier: BSD-3-Clause
//
// infos FILE [WORDS]: rank 0 prints what MPI_INFO_ENV says of its start, and which kinds of memory each object says that buffers may be in.
// With "session" among the WORDS a session asks for those of CUDA.  infos_test.py compares.
#include "comm/check.h"

static void print(const char *what, MPI_Info info, const char *key) {
    char value[MPI_MAX_INFO_VAL];
    int length = sizeof(value), there;
    OK(MPI_Info_get_string(info, key, &length, value, &there));
    printf("%s %s\n", what, there ? value : "-");
}

static void print_kinds(const char *what, MPI_Info info) {
    print(what, info, "mpi_memory_alloc_kinds");
    OK(MPI_Info_free(&info));
}

static void print_session(int asks) {
    MPI_Session session;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    if (asks)
        OK(MPI_Info_set(info, "mpi_memory_alloc_kinds", "system,cuda:device"));
    OK(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Info_free(&info));
    OK(MPI_Session_get_info(session, &info));
    print_kinds("session", info);
    OK(MPI_Session_finalize(&session));
}

int main(int argc, char **argv) {
    int asks = 0;
    MPI_Info info;
    MPI_Win win;
    MPI_File file;
    for (int i = 2; i < argc; i++)
        asks |= strcmp(argv[i], "session") == 0;
    print("command", MPI_INFO_ENV, "command");  // it is there before MPI_Init
    print("argv", MPI_INFO_ENV, "argv");
    print("asked", MPI_INFO_ENV, "mpi_memory_alloc_kinds");
    OK(MPI_Init(&argc, &argv));
    print_session(asks);
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    print_kinds("communicator", info);
    OK(MPI_Win_create(&asks, sizeof(asks), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_get_info(win, &info));
    print_kinds("window", info);
    OK(MPI_Win_free(&win));
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_get_info(file, &info));
    print_kinds("file", info);
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
