// SPDX-License-Identifier: BSD-3-Clause
//
// The functions that programs call.  The MPI library has filled in all of them where ranks move, of other virtual ranks what tells their process, and else
// nothing: then each process has one rank.
#include "mpi/mpix/wherry_mpix.h"

#include <mpi.h>

#include "mpi/mpix/keeps.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC int MPIX_Process(int *process, int *processes) {
    if (whm_joint.process)
        return whm_joint.process(process, processes);
    if (process)
        MPI_Comm_rank(MPI_COMM_WORLD, process);
    if (processes)
        MPI_Comm_size(MPI_COMM_WORLD, processes);
    return MPI_SUCCESS;
}

PUBLIC int MPIX_Migrate(int process) {
    int here;
    if (whm_joint.migrate)
        return whm_joint.migrate(process);
    MPIX_Process(&here, NULL);
    return process == MPIX_STAY || process == here ? MPI_SUCCESS : MPI_ERR_UNSUPPORTED_OPERATION;
}

PUBLIC int MPIX_Balance(int *moved) {
    if (moved)
        *moved = 0;
    return whm_joint.balance ? whm_joint.balance(moved) : MPI_SUCCESS;
}

PUBLIC int MPIX_Checkpoint(const char *folder, int *restarted) {
    if (restarted)
        *restarted = 0;
    return whm_joint.checkpoint ? whm_joint.checkpoint(folder, restarted)
                                : MPI_ERR_UNSUPPORTED_OPERATION;
}

PUBLIC int MPIX_Get_load(double *load) {
    *load = 0;
    return whm_joint.get_load ? whm_joint.get_load(load) : MPI_SUCCESS;
}

PUBLIC int MPIX_Set_load(double load) {
    return whm_joint.set_load ? whm_joint.set_load(load) : MPI_SUCCESS;
}
