// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Init to MPI_Finalize, and MPI_Abort.
#include <pthread.h>
#include <stdio.h>

#include "mpi/base/process.h"
#include "mpi/base/streams.h"
#include "mpi/bodies.h"
#include "mpi/comm/compare.h"
#include "mpi/comm/make.h"
#include "mpi/env/begin.h"
#include "mpi/p2p/buffer.h"

static pthread_t main_thread;  // of the process: the one that has called MPI_Init

static bool is_level(int level) {
    return level == MPI_THREAD_SINGLE || level == MPI_THREAD_FUNNELED ||
           level == MPI_THREAD_SERIALIZED || level == MPI_THREAD_MULTIPLE;
}

int mpi_init_thread(int *argc, char ***argv, int required, int *provided) {
    (void)argc;  // the launcher says what it has to say in the environment
    (void)argv;
    if (whm_self->init != WHM_BEFORE)
        return whm_fail(MPI_ERR_OTHER, "MPI_Init was called before; a program calls it once");
    if (!is_level(required))
        return whm_fail(MPI_ERR_ARG, "%d is no thread level", required);
    int rc = whm_job_begin(required);
    if (rc != MPI_SUCCESS)
        return rc;
    main_thread = pthread_self();
    whm_self->init = WHM_RUNNING;
    *provided = whm_process_here.level;
    return MPI_SUCCESS;
}

int mpi_init(int *argc, char ***argv) {
    int provided;
    return mpi_init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

// The program's attributes go first: on MPI_COMM_SELF it may keep what is to be done at the end, while all of MPI still works.
static int end_attributes(void) {
    int rc = whm_attrs_delete(whm_comm_holder(whm_self->comm_self));
    return rc == MPI_SUCCESS ? whm_attrs_delete(whm_comm_holder(whm_self->comm_world)) : rc;
}

int mpi_finalize(void) {
    if (whm_self->init != WHM_RUNNING)
        return whm_fail(MPI_ERR_OTHER, "MPI_Finalize ends what MPI_Init has begun, once");
    int rc = end_attributes();
    if (rc != MPI_SUCCESS)
        return rc;
    whm_buffer_flush(whm_self->buffer);
    whm_progress();
    whm_tell_leaks(whm_self);
    if (!whm_process_here.losses)
        rc = whm_compare_call(whm_self->comm_world);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = whm_job_end();
    if (rc == MPI_SUCCESS)
        whm_self->init = WHM_FINALIZED;
    return rc;
}

int mpi_initialized(int *flag) {
    *flag = whm_self->init != WHM_BEFORE;
    return MPI_SUCCESS;
}

int mpi_finalized(int *flag) {
    *flag = whm_self->init == WHM_FINALIZED;
    return MPI_SUCCESS;
}

int mpi_query_thread(int *provided) {
    *provided = whm_process_here.level;
    return MPI_SUCCESS;
}

int mpi_is_thread_main(int *flag) {
    // Virtual ranks have one thread, though another rank may have called MPI_Init, in another process.
    *flag = whm_process_here.virtual || pthread_equal(pthread_self(), main_thread) != 0;
    return MPI_SUCCESS;
}

int mpi_abort(whm_comm *comm, int errorcode) {
    whm_streams_flush();
    fprintf(stderr, "MPI rank %d: MPI_Abort on %s with error code %d: the job ends\n",
            whm_self->world, whm_comm_title(comm), errorcode);
    fflush(stderr);
    whm_job_abort(errorcode);
}
