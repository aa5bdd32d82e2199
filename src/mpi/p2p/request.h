// SPDX-License-Identifier: BSD-3-Clause
//
// Requests: operations that the program waits for by a handle, whatever part of the library carries them out.
#ifndef WHM_P2P_REQUEST_H
#define WHM_P2P_REQUEST_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"
#include "mpi/base/status.h"

typedef struct whm_request whm_request;

// What a part of the library does with requests of its own.  Each may be NULL: nothing to do.
typedef struct whm_request_ops {
    const char *text;                     // for people: "receive", "allreduce"
    int (*start)(whm_request *request);   // of a persistent one; an error: it stays inactive
    int (*cancel)(whm_request *request);  // MPI_Cancel
    void (*end)(whm_request *request);    // the request is freed: release what it holds
    // Of a generalized request: asks the program for the status, and calls its function that frees, once, before the end.
    int (*query)(whm_request *request, MPI_Status *status);
    int (*release)(whm_request *request);
    int (*fail)(const whm_request *request);  // whm_fail with what its error was
    // For a dump: prints, in one line, what it waits for beside receives; false: there is nothing else to say.
    bool (*print)(const whm_request *request, FILE *file);
} whm_request_ops;

struct whm_request {  // the first member of what a part of the library keeps of its own
    whm_object o;
    const whm_request_ops *ops;
    size_t size;  // of all of it
    whm_rank *rank;
    struct whm_comm *comm;  // whose error handler is asked; held; NULL: none
    bool persistent;
    bool active;        // begun, and not yet waited for: always, unless it is persistent
    bool complete;      // what it waits for has happened
    bool freed;         // MPI_Request_free came before: nobody will wait for it
    MPI_Status status;  // once it is complete: MPI_ERROR is an error class
};

// whm_request_new makes one of `size` bytes, active unless it is persistent; NULL: no memory.
whm_request *whm_request_new(const whm_request_ops *ops, size_t size, struct whm_comm *comm,
                             bool persistent);

// whm_request_done completes it, once for each time that it was begun; it frees one that the program has freed before.
void whm_request_done(whm_request *request);

// whm_request_end completes one that received no message: an empty status, with this error class.
void whm_request_end(whm_request *request, int error);

// whm_request_drop frees one that the program has not been told of.
void whm_request_drop(whm_request *request);

static inline whm_request *whm_request_of(MPI_Request handle) {
    return whm_object_of(handle, WHM_REQUEST);
}

// whm_request_sent returns the request of a send that was done in the call: one for all of them, which nobody frees.  NULL: no memory.
whm_request *whm_request_sent(void);

#endif
