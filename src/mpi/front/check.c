// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/front/check.h"

#include <string.h>
#include <wherry/log.h>

#include "mpi/comm/topology.h"

int whm_call_fail(whm_kind kind, void *object, int code) {
    whm_comm *blamed = whm_self->blame;
    whm_self->blame = NULL;
    if (!blamed)
        return whm_raise(kind, object, code);
    code = whm_raise(WHM_COMM, blamed, code);
    whm_comm_release(blamed);
    return code;
}

void whm_tell_missing(bool *told) {
    if (!*told)
        (void)!(wh_log_write("warn", "W-MPI-01", "%s is not implemented", whm_self->call) == WH_OK);
    *told = true;
}

int whm_missing(bool *told) {
    whm_tell_missing(told);
    return whm_fail(MPI_ERR_UNSUPPORTED_OPERATION, "it is not implemented");
}

int whm_refuse_phase(void) {
    return whm_fail(MPI_ERR_OTHER, "%s",
                    whm_self->phase == WHM_BEFORE ? "call MPI_Init before it"
                                                  : "MPI_Finalize has been called before");
}

static const struct kind {
    const char *text;
    uintptr_t none;  // its null handle
    const char *name;
    int error;
} kinds[WHM_KINDS] = {
    [WHM_COMM] = {"communicator", (uintptr_t)MPI_COMM_NULL, "MPI_COMM_NULL", MPI_ERR_COMM},
    [WHM_GROUP] = {"group", (uintptr_t)MPI_GROUP_NULL, "MPI_GROUP_NULL", MPI_ERR_GROUP},
    [WHM_TYPE] = {"datatype", (uintptr_t)MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL", MPI_ERR_TYPE},
    [WHM_OP] = {"operation", (uintptr_t)MPI_OP_NULL, "MPI_OP_NULL", MPI_ERR_OP},
    [WHM_REQUEST] = {"request", (uintptr_t)MPI_REQUEST_NULL, "MPI_REQUEST_NULL", MPI_ERR_REQUEST},
    [WHM_MESSAGE] = {"message", (uintptr_t)MPI_MESSAGE_NULL, "MPI_MESSAGE_NULL", MPI_ERR_ARG},
    [WHM_INFO] = {"info", (uintptr_t)MPI_INFO_NULL, "MPI_INFO_NULL", MPI_ERR_INFO},
    [WHM_ERRHANDLER] = {"error handler", (uintptr_t)MPI_ERRHANDLER_NULL, "MPI_ERRHANDLER_NULL",
                        MPI_ERR_ERRHANDLER},
    [WHM_WIN] = {"window", (uintptr_t)MPI_WIN_NULL, "MPI_WIN_NULL", MPI_ERR_WIN},
    [WHM_FILE] = {"file", (uintptr_t)MPI_FILE_NULL, "MPI_FILE_NULL", MPI_ERR_FILE},
    [WHM_SESSION] = {"session", (uintptr_t)MPI_SESSION_NULL, "MPI_SESSION_NULL", MPI_ERR_SESSION},
};

int whm_refuse_handle(whm_kind kind, const char *name, const void *handle) {
    const struct kind *k = &kinds[kind];
    if ((uintptr_t)handle == k->none)
        return whm_fail(k->error, "%s is %s", name, k->name);
    return whm_fail(
        k->error, "%s, %p, is no %s: it was freed, or never written, or is another kind of handle",
        name, handle, k->text);
}

int whm_refuse_number(int error, const char *name, MPI_Count value, const char *why) {
    return whm_fail(error, "%s is %lld: %s", name, (long long)value, why);
}

int whm_refuse_pointer(int error, const char *name) {
    return whm_fail(error, "%s is NULL", name);
}

int whm_refuse_place(const char *name) {
    return whm_fail(MPI_ERR_BUFFER, "%s is MPI_IN_PLACE, which has no meaning there", name);
}

int whm_refuse_rank(const whm_comm *comm, const char *name, int rank) {
    if (rank == MPI_ANY_SOURCE)
        return whm_fail(MPI_ERR_RANK, "%s is MPI_ANY_SOURCE, which only receives take", name);
    return whm_fail(MPI_ERR_RANK, "%s is %d, and the communicator has ranks 0 to %d", name, rank,
                    whm_peers(comm) - 1);
}

int whm_refuse_root(const whm_comm *comm, int root) {
    return whm_fail(MPI_ERR_ROOT, "root is %d, and the communicator has ranks 0 to %d%s", root,
                    whm_peers(comm) - 1,
                    comm->remote ? " in the other group: this one gives MPI_ROOT or MPI_PROC_NULL"
                                 : "");
}

int whm_refuse_uncommitted(const char *name) {
    return whm_fail(MPI_ERR_TYPE, "%s is not committed: call MPI_Type_commit once it is made",
                    name);
}

int whm_check_topology(const whm_comm *comm) {
    return comm->topo ? MPI_SUCCESS
                      : whm_fail(MPI_ERR_TOPOLOGY, "the communicator has no virtual topology");
}

int whm_sources(const whm_comm *comm) {
    return comm->topo->in;
}

int whm_destinations(const whm_comm *comm) {
    return comm->topo->out;
}

int whm_check_key(const char *name, const char *key) {
    if (!key)
        return whm_refuse_pointer(MPI_ERR_INFO_KEY, name);
    size_t length = strnlen(key, MPI_MAX_INFO_KEY);
    if (length == 0 || length == MPI_MAX_INFO_KEY)
        return whm_fail(MPI_ERR_INFO_KEY, "%s has %s%d characters; it has 1 to %d", name,
                        length ? "more than " : "", length ? MPI_MAX_INFO_KEY - 1 : 0,
                        MPI_MAX_INFO_KEY - 1);
    return MPI_SUCCESS;
}
