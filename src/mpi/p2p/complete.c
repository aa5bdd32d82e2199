// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting for requests, and asking about them.
//
// A request that is complete is taken once: its status is copied, it is freed, or is inactive again if it is persistent.  Null handles and
// inactive requests count as complete, with an empty status.
#include "mpi/base/process.h"
#include "mpi/base/raise.h"
#include "mpi/bodies.h"
#include "mpi/comm/comm.h"
#include "mpi/p2p/request.h"

static void empty_status(MPI_Status *status) {
    if (status == MPI_STATUS_IGNORE)
        return;
    whm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
    status->MPI_ERROR = MPI_SUCCESS;
}

// find resolves a handle: *request is NULL for the null handle.
static int find(MPI_Request handle, whm_request **request) {
    *request = NULL;
    if (handle == MPI_REQUEST_NULL)
        return MPI_SUCCESS;
    *request = whm_request_of(handle);
    return *request ? MPI_SUCCESS
                    : whm_fail(MPI_ERR_REQUEST,
                               "there is no request %p: it was never begun, or has been freed",
                               (void *)handle);
}

static int check(int count, const MPI_Request *handles) {
    whm_request *request;
    for (int i = 0; i < count; i++)
        if (find(handles[i], &request) != MPI_SUCCESS)
            return MPI_ERR_REQUEST;
    return MPI_SUCCESS;
}

static bool active(MPI_Request handle) {
    const whm_request *request = handle == MPI_REQUEST_NULL ? NULL : whm_request_of(handle);
    return request && request->active;
}

static bool complete(MPI_Request handle) {
    return ((volatile const whm_request *)whm_request_of(handle))->complete;
}

static bool is_under_way(MPI_Request handle) {
    return active(handle) && !complete(handle);
}

// report copies the status of one that is complete, and returns how it ended.
static int report(whm_request *request, MPI_Status *status) {
    int error = request->status.MPI_ERROR;
    if (request->ops->query)
        error = request->ops->query(request, &request->status);
    if (status != MPI_STATUS_IGNORE) {
        int before = status->MPI_ERROR;
        *status = request->status;
        status->MPI_ERROR = before;
    }
    if (error != MPI_SUCCESS && request->ops->fail)
        error = request->ops->fail(request);
    return error == MPI_SUCCESS ? error : whm_blame(request->comm, error);
}

// drop frees one; an error: that of the program's own function.
static int drop(whm_request *request) {
    int rc = request->ops->release ? request->ops->release(request) : MPI_SUCCESS;
    whm_request_drop(request);
    return rc;
}

// take ends one that is complete, or is none.
static int take(MPI_Request *handle, MPI_Status *status) {
    whm_request *request = *handle == MPI_REQUEST_NULL ? NULL : whm_request_of(*handle);
    if (!request || !request->active) {
        empty_status(status);
        return MPI_SUCCESS;
    }
    int error = report(request, status);
    if (request->persistent) {
        request->active = request->complete = false;
        return error;
    }
    *handle = MPI_REQUEST_NULL;
    if (request == whm_self->sent)
        return error;
    int released = drop(request);
    return error == MPI_SUCCESS ? released : error;
}

// The requests of a call that waits, for a dump.
typedef struct awaited {
    whm_awaited o;
    int count;
    const MPI_Request *handles;
} awaited;

static bool print_awaited(const whm_awaited *o, FILE *file) {
    enum { LINES = 8 };
    const awaited *a = (const awaited *)o;
    int lines = 0;
    for (int i = 0; i < a->count; i++) {
        if (!is_under_way(a->handles[i]))
            continue;
        const whm_request *request = whm_request_of(a->handles[i]);
        if (!request->ops->print)
            continue;
        if (lines == LINES) {
            fputs("    and more requests\n", file);
            break;
        }
        lines += request->ops->print(request, file);
    }
    return lines > 0;
}

static awaited await(int count, const MPI_Request *handles) {
    return (awaited){{.print = print_awaited}, count, handles};
}

int mpi_wait(MPI_Request *handle, MPI_Status *status) {
    whm_request *request;
    int rc = find(*handle, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    if (request && is_under_way(*handle)) {
        awaited a = await(1, handle);
        whm_awaits(&a.o);
        whm_block_until(&request->complete);
        whm_awaits_no_more(&a.o);
    }
    whm_settle_notes();
    return take(handle, status);
}

int mpi_test(MPI_Request *handle, int *flag, MPI_Status *status) {
    whm_request *request;
    int rc = find(*handle, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    if (request && request->active && !complete(*handle))
        whm_progress();
    *flag = !request || !request->active || complete(*handle);
    return *flag ? take(handle, status) : MPI_SUCCESS;
}

static MPI_Status *status_at(MPI_Status *statuses, int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

// take_each takes those at `indices`, or the first `count` when that is NULL.
static int take_each(int count, MPI_Request *handles, const int *indices, MPI_Status *statuses) {
    int rc = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        MPI_Status *status = status_at(statuses, i);
        int error = take(&handles[indices ? indices[i] : i], status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
        if (error != MPI_SUCCESS)
            rc = MPI_ERR_IN_STATUS;
    }
    return rc;
}

int mpi_waitall(int count, MPI_Request *handles, MPI_Status *statuses) {
    int rc = check(count, handles);
    if (rc != MPI_SUCCESS)
        return rc;
    int i = 0;
    while (i < count && !is_under_way(handles[i]))
        i++;
    if (i < count) {
        awaited a = await(count, handles);
        whm_awaits(&a.o);
        for (; i < count; i++)
            if (is_under_way(handles[i]))
                whm_block_until(&whm_request_of(handles[i])->complete);
        whm_awaits_no_more(&a.o);
    }
    whm_settle_notes();
    return take_each(count, handles, NULL, statuses);
}

// first_complete returns the index of one that is active and complete; -1: none yet, MPI_UNDEFINED: none is active.
static int first_complete(int count, const MPI_Request *handles) {
    int found = MPI_UNDEFINED;
    for (int i = 0; i < count; i++)
        if (active(handles[i])) {
            if (complete(handles[i]))
                return i;
            found = -1;
        }
    return found;
}

int mpi_waitany(int count, MPI_Request *handles, int *index, MPI_Status *status) {
    int rc = check(count, handles), found;
    if (rc != MPI_SUCCESS)
        return rc;
    if ((found = first_complete(count, handles)) == -1) {
        awaited a = await(count, handles);
        whm_awaits(&a.o);
        do
            whm_block();
        while ((found = first_complete(count, handles)) == -1);
        whm_awaits_no_more(&a.o);
    }
    whm_settle_notes();
    *index = found;
    if (found != MPI_UNDEFINED)
        return take(&handles[found], status);
    empty_status(status);
    return MPI_SUCCESS;
}

int mpi_testany(int count, MPI_Request *handles, int *index, int *flag, MPI_Status *status) {
    int rc = check(count, handles);
    if (rc != MPI_SUCCESS)
        return rc;
    int found = first_complete(count, handles);
    if (found == -1) {
        whm_progress();
        found = first_complete(count, handles);
    }
    *flag = found != -1;
    *index = found == -1 ? MPI_UNDEFINED : found;
    if (found >= 0)
        return take(&handles[found], status);
    if (*flag)
        empty_status(status);
    return MPI_SUCCESS;
}

int mpi_testall(int count, MPI_Request *handles, int *flag, MPI_Status *statuses) {
    int rc = check(count, handles);
    if (rc != MPI_SUCCESS)
        return rc;
    for (int looks = 0; looks < 2; looks++) {
        int open = 0;
        for (int i = 0; i < count; i++)
            open += is_under_way(handles[i]);
        *flag = !open;
        if (*flag)
            return take_each(count, handles, NULL, statuses);
        if (!looks)
            whm_progress();
    }
    return MPI_SUCCESS;
}

// collect writes the indices of those that are complete; MPI_UNDEFINED: none is active.
static int collect(int count, const MPI_Request *handles, int *indices) {
    int n = 0, some = 0;
    for (int i = 0; i < count; i++)
        if (active(handles[i])) {
            some++;
            if (complete(handles[i]))
                indices[n++] = i;
        }
    return some ? n : MPI_UNDEFINED;
}

static int take_some(MPI_Request *handles, int n, int *outcount, const int *indices,
                     MPI_Status *statuses) {
    *outcount = n;
    return n == MPI_UNDEFINED ? MPI_SUCCESS : take_each(n, handles, indices, statuses);
}

int mpi_waitsome(int count, MPI_Request *handles, int *outcount, int *indices,
                 MPI_Status *statuses) {
    int rc = check(count, handles), n;
    if (rc != MPI_SUCCESS)
        return rc;
    if (!(n = collect(count, handles, indices))) {
        awaited a = await(count, handles);
        whm_awaits(&a.o);
        do
            whm_block();
        while (!(n = collect(count, handles, indices)));
        whm_awaits_no_more(&a.o);
    }
    whm_settle_notes();
    return take_some(handles, n, outcount, indices, statuses);
}

int mpi_testsome(int count, MPI_Request *handles, int *outcount, int *indices,
                 MPI_Status *statuses) {
    int rc = check(count, handles);
    if (rc != MPI_SUCCESS)
        return rc;
    int n = collect(count, handles, indices);
    if (!n) {
        whm_progress();
        n = collect(count, handles, indices);
    }
    return take_some(handles, n, outcount, indices, statuses);
}

// ---- Asking without taking.

int mpi_request_get_status(MPI_Request handle, int *flag, MPI_Status *status) {
    whm_request *request;
    int rc = find(handle, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!request || !request->active) {
        *flag = 1;
        empty_status(status);
        return MPI_SUCCESS;
    }
    if (!complete(handle))
        whm_progress();
    *flag = complete(handle);
    return *flag ? report(request, status) : MPI_SUCCESS;
}

int mpi_request_get_status_all(int count, const MPI_Request *handles, int *flag,
                               MPI_Status *statuses) {
    int rc = check(count, handles), got = MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        return rc;
    whm_progress();
    *flag = 1;
    for (int i = 0; i < count; i++)
        *flag = *flag && (!active(handles[i]) || complete(handles[i]));
    for (int i = 0; *flag && i < count; i++) {
        MPI_Status *status = status_at(statuses, i);
        int error = MPI_SUCCESS;
        if (active(handles[i]))
            error = report(whm_request_of(handles[i]), status);
        else
            empty_status(status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
        got = error == MPI_SUCCESS ? got : MPI_ERR_IN_STATUS;
    }
    return got;
}

int mpi_request_get_status_any(int count, const MPI_Request *handles, int *index, int *flag,
                               MPI_Status *status) {
    int rc = check(count, handles);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_progress();
    int found = first_complete(count, handles);
    *flag = found != -1;
    *index = found == -1 ? MPI_UNDEFINED : found;
    if (found >= 0)
        return report(whm_request_of(handles[found]), status);
    if (*flag)
        empty_status(status);
    return MPI_SUCCESS;
}

int mpi_request_get_status_some(int count, const MPI_Request *handles, int *outcount, int *indices,
                                MPI_Status *statuses) {
    int rc = check(count, handles), got = MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        return rc;
    whm_progress();
    *outcount = collect(count, handles, indices);
    for (int i = 0; *outcount != MPI_UNDEFINED && i < *outcount; i++) {
        MPI_Status *status = status_at(statuses, i);
        int error = report(whm_request_of(handles[indices[i]]), status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
        got = error == MPI_SUCCESS ? got : MPI_ERR_IN_STATUS;
    }
    return got;
}

// ---- Ending early.

int mpi_request_free(MPI_Request *handle) {
    whm_request *request;
    int rc = find(*handle, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!request)
        return whm_fail(MPI_ERR_REQUEST, "MPI_REQUEST_NULL cannot be freed");
    *handle = MPI_REQUEST_NULL;
    if (request == whm_self->sent)
        return MPI_SUCCESS;
    if (!request->active || request->complete)
        return drop(request);
    request->rank->requests -= !request->freed;
    request->freed = true;  // it frees itself when it completes
    return MPI_SUCCESS;
}

int mpi_cancel(MPI_Request *handle) {
    whm_request *request;
    int rc = find(*handle, &request);
    if (rc != MPI_SUCCESS)
        return rc;
    if (!request)
        return whm_fail(MPI_ERR_REQUEST, "MPI_REQUEST_NULL cannot be cancelled");
    // A program's own operation is asked in any case: it is told whether it has completed.
    if (request->active && request->ops->cancel && (!request->complete || request->ops->query))
        return request->ops->cancel(request);
    return MPI_SUCCESS;
}

int mpi_test_cancelled(const MPI_Status *status, int *flag) {
    *flag = status->MPI_internal[2] != 0;
    return MPI_SUCCESS;
}

int mpi_status_set_cancelled(MPI_Status *status, int flag) {
    status->MPI_internal[2] = flag != 0;
    return MPI_SUCCESS;
}
