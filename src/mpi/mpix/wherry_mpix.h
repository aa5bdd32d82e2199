// SPDX-License-Identifier: BSD-3-Clause
//
// What Wherry has beside the standard: virtual ranks that move from one process to another.  A library of its own, libwherry_mpix.so; `mpicc -movable` links
// programs with it, and `mpiexec -vp N -movable` starts them.
//
// The functions return MPI error classes.  They may be called in any job: where ranks do not move, each stays in its process.
#ifndef WHERRY_MPIX_H
#define WHERRY_MPIX_H

#ifdef __cplusplus
extern "C" {
#endif

enum { MPIX_STAY = -1 };

// MPIX_Process tells in which process of the job this rank is, and how many processes there are.  Either may be NULL.
int MPIX_Process(int *process, int *processes);

// MPIX_Migrate moves ranks.  All ranks of MPI_COMM_WORLD call it; each says in which process it wants to be when it returns, or MPIX_STAY.
//
// Receives may be posted, sends and nonblocking collectives under way, and messages that nobody has received yet come along.  A rank with windows,
// files of MPI or the C library, locales, handlers of signals, or with threads in its process, cannot move, and gets MPI_ERR_OTHER; the others move.
// So does one whose process has a global locale of C++ other than the classic one, or wide standard streams.  Descriptors of open(2), pointers into
// the environment, handles of dlopen, keys of pthread_key_create, what std::set_terminate and std::set_new_handler were given, and what setjmp has
// written stay behind.
//
// The process's, of all its ranks, are the environment, the folder, setlocale's locale, what strtok, rand and localtime remember, and the variables
// of shared libraries, which stay as they are in each process: compile what is a rank's into the program.  Threads of a rank have its thread-local
// variables in common.
//
// In a job whose ranks do not move, another process than its own gives MPI_ERR_UNSUPPORTED_OPERATION.
int MPIX_Migrate(int process);

// MPIX_Balance moves ranks so that processes have about the same load, by what MPIX_Get_load says.  All ranks of MPI_COMM_WORLD call it.  `moved`, which may
// be NULL, tells how many ranks have moved.
int MPIX_Balance(int *moved);

// MPIX_Checkpoint writes the job into a folder, from which `mpiexec -vp N -movable -restart FOLDER` starts it again, in any number of processes: it
// goes on behind this call. All ranks of MPI_COMM_WORLD call it, with the same folder, which is made if it is not there; where hosts have file
// systems of their own, each process has to find its ranks there again.  *restarted, if it is not NULL, says whether this is such a start.  What
// keeps a rank from moving keeps it from being saved.  If one cannot be, none is, and a checkpoint that was in the folder before stays.
//
// MPI_ERR_IO: a file cannot be written.  MPI_ERR_UNSUPPORTED_OPERATION: ranks do not move in this job.
int MPIX_Checkpoint(const char *folder, int *restarted);

// MPIX_Get_load tells for how many seconds this rank has computed since the last MPIX_Balance, or its begin: not waiting for messages.  MPIX_Set_load
// says what to take instead at the next MPIX_Balance, in any unit, the same for all ranks.
int MPIX_Get_load(double *load);
int MPIX_Set_load(double load);

#ifdef __cplusplus
}
#endif
#endif
