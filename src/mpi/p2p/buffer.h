// SPDX-License-Identifier: BSD-3-Clause
//
// Buffered sends: messages that complete at once, within the space that the program has attached for them.
//
// The space is counted, not used: each message is copied into memory of its own, and fails where it would not have fitted.
#ifndef WHM_P2P_BUFFER_H
#define WHM_P2P_BUFFER_H

#include "mpi/p2p/transfer.h"

// What a communicator, or the rank, has attached.
typedef struct whm_buffer {
    void *address;  // MPI_BUFFER_AUTOMATIC: there is always space
    MPI_Count size, used;
} whm_buffer;

int whm_buffer_send(whm_comm *comm, const void *buf, MPI_Count count, whm_type *type, int dest,
                    int tag);

// whm_buffer_flush waits until all of it has been sent; NULL: there is nothing.
void whm_buffer_flush(const whm_buffer *buffer);

#endif
