// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of this folder share, and what the start of a process calls.
#ifndef WHM_P2P_P2P_H
#define WHM_P2P_P2P_H

#include "mpi/p2p/match.h"
#include "mpi/p2p/transfer.h"

// whm_p2p_begin takes messages in from now on; once for a process that has joined its job.
int whm_p2p_begin(void);

// whm_take gives a message that was taken out of the queues to a receive: complete when it returns, or later; `done` is not called within.
void whm_take(whm_transfer *transfer, whm_arrival *arrival);

// whm_transfer_fail returns the error that a transfer has ended with, and says why in whm_self's sentence.
int whm_transfer_fail(const whm_transfer *transfer);

// whm_transfer_status writes the status of a receive that has ended.
void whm_transfer_status(const whm_transfer *transfer, MPI_Status *status);

// whm_plain says whether the CPU may touch memory at this address.
static inline bool whm_plain(const void *ptr) {
    wh_mem_info info = {.size = sizeof(info)};
    return wh_mem_query(ptr, &info) == WH_OK && info.kind == WH_MEM_HOST;
}

#endif
