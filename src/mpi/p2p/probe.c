// SPDX-License-Identifier: BSD-3-Clause
//
// Probes, and messages that were taken out of the queues by one.
#include <stdlib.h>

#include "mpi/base/process.h"
#include "mpi/bodies.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

typedef struct whm_message {
    whm_object o;
    whm_arrival *arrival;
    whm_comm *comm;  // held
} whm_message;

static void describe(const whm_arrival *a, MPI_Status *status) {
    if (status != MPI_STATUS_IGNORE)
        whm_status_set(status, a->env.source, a->env.tag, (MPI_Count)a->bytes, false);
}

static void describe_nobody(MPI_Status *status) {
    if (status != MPI_STATUS_IGNORE)
        whm_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
}

static whm_arrival *look(const whm_comm *comm, int source, int tag) {
    return whm_match_find(whm_self->match, whm_context_of(comm, WHM_POINT), source, tag);
}

// look_twice takes in what has come, if there is none yet; *found is NULL if there is none then.
static int look_twice(whm_comm *comm, int source, int tag, whm_arrival **found) {
    *found = look(comm, source, tag);
    if (*found)
        return MPI_SUCCESS;
    whm_progress();
    *found = look(comm, source, tag);
    return *found ? MPI_SUCCESS : whm_may_still_come(comm, false, source);
}

static int wait_for(whm_comm *comm, int source, int tag, whm_arrival **found) {
    int rc = MPI_SUCCESS;
    while (!(*found = look(comm, source, tag)) &&
           (rc = whm_may_still_come(comm, false, source)) == MPI_SUCCESS)
        whm_block();
    return rc;
}

int mpi_probe(int source, int tag, whm_comm *comm, MPI_Status *status) {
    whm_arrival *a = NULL;
    if (source == MPI_PROC_NULL) {
        describe_nobody(status);
        return MPI_SUCCESS;
    }
    int rc = wait_for(comm, source, tag, &a);
    if (a)
        describe(a, status);
    return rc;
}

int mpi_iprobe(int source, int tag, whm_comm *comm, int *flag, MPI_Status *status) {
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        describe_nobody(status);
        return MPI_SUCCESS;
    }
    whm_arrival *a = NULL;
    int rc = look_twice(comm, source, tag, &a);
    *flag = a != NULL;
    if (a)
        describe(a, status);
    return rc;
}

static int take_out(whm_comm *comm, whm_arrival *a, MPI_Message *handle, MPI_Status *status) {
    whm_message *message = whm_object_new(WHM_MESSAGE, sizeof(*message));
    if (!message)
        return whm_no_memory();
    describe(a, status);
    whm_match_remove(whm_self->match, a);
    if (whm_process_here.home) {  // the rank may move before it receives it
        whm_store(whm_self, a);
        while (a->am)
            whm_block();
    }
    message->arrival = a;
    message->comm = whm_retain(comm);
    *handle = (MPI_Message)message->o.handle;
    return MPI_SUCCESS;
}

int mpi_mprobe(int source, int tag, whm_comm *comm, MPI_Message *message, MPI_Status *status) {
    if (source != MPI_PROC_NULL) {
        whm_arrival *a = NULL;
        int rc = wait_for(comm, source, tag, &a);
        return a ? take_out(comm, a, message, status) : rc;
    }
    *message = MPI_MESSAGE_NO_PROC;
    describe_nobody(status);
    return MPI_SUCCESS;
}

int mpi_improbe(int source, int tag, whm_comm *comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    *flag = 1;
    if (source == MPI_PROC_NULL) {
        *message = MPI_MESSAGE_NO_PROC;
        describe_nobody(status);
        return MPI_SUCCESS;
    }
    whm_arrival *a = NULL;
    int rc = look_twice(comm, source, tag, &a);
    *flag = a != NULL;
    if (a)
        return take_out(comm, a, message, status);
    *message = MPI_MESSAGE_NULL;
    return rc;
}

// ---- Receiving one that was taken out.

static int find(MPI_Message handle, whm_message **message) {
    *message = whm_object_of(handle, WHM_MESSAGE);
    if (*message || handle == MPI_MESSAGE_NO_PROC)
        return MPI_SUCCESS;
    return whm_fail(MPI_ERR_REQUEST,
                    "there is no message %p: it was never probed, or has been received",
                    (void *)handle);
}

static void receive(whm_transfer *t, whm_message *message, void *buf, MPI_Count count,
                    whm_type *type) {
    whm_transfer_begin(t, message->comm, buf, count, type, 0);
    whm_take(t, message->arrival);
    whm_comm *comm = message->comm;
    whm_object_free(message, sizeof(*message));
    whm_comm_release(comm);
}

int mpi_mrecv(void *buf, MPI_Count count, whm_type *type, MPI_Message *handle, MPI_Status *status) {
    whm_message *message = NULL;
    int rc = find(*handle, &message);
    if (rc != MPI_SUCCESS)
        return rc;
    *handle = MPI_MESSAGE_NULL;
    if (!message) {
        describe_nobody(status);
        return MPI_SUCCESS;
    }
    whm_transfer t;
    whm_transfer_own(&t, NULL, false);
    receive(&t, message, buf, count, type);
    whm_block_until(&t.complete);
    whm_transfer_status(&t, status);
    return t.error == MPI_SUCCESS ? t.error : whm_transfer_fail(&t);
}

typedef struct late {
    whm_request r;
    whm_transfer t;
    whm_type *type;  // held
} late;

static void on_done(whm_transfer *t) {
    late *l = (late *)((char *)t - offsetof(late, t));
    whm_transfer_status(t, &l->r.status);
    l->r.status.MPI_ERROR = t->error;
    whm_request_done(&l->r);
}

static int fail(const whm_request *request) {
    return whm_transfer_fail(&((const late *)request)->t);
}

static void end(whm_request *request) {
    whm_type_release(((late *)request)->type);
}

static const whm_request_ops late_ops = {.text = "receive", .end = end, .fail = fail};

int mpi_imrecv(void *buf, MPI_Count count, whm_type *type, MPI_Message *handle,
               whm_request **request) {
    whm_message *message = NULL;
    int rc = find(*handle, &message);
    if (rc != MPI_SUCCESS)
        return rc;
    late *l = (late *)whm_request_new(&late_ops, sizeof(*l), message ? message->comm : NULL, false);
    if (!l)
        return whm_no_memory();
    *handle = MPI_MESSAGE_NULL;
    *request = &l->r;
    l->type = whm_retain(type);
    whm_transfer_own(&l->t, on_done, true);
    if (message) {
        receive(&l->t, message, buf, count, type);
        if (l->t.complete)
            on_done(&l->t);
    } else {
        describe_nobody(&l->r.status);
        whm_request_done(&l->r);
    }
    return MPI_SUCCESS;
}
