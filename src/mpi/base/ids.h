// SPDX-License-Identifier: BSD-3-Clause
//
// The active messages (wherry/am.h) that processes of an MPI job send each other; ids from 0xFF00 on are the runtime's.
#ifndef WHM_BASE_IDS_H
#define WHM_BASE_IDS_H

enum {
    WHM_AM_MESSAGE = 1,  // p2p: a message of the program's, or of a collective
    WHM_AM_MATCHED,      // p2p: a synchronous send has met its receive
    WHM_AM_ACCESS,       // rma: an access to a window
    WHM_AM_RESULT,       // rma: what it has given
    WHM_AM_NEWS,         // coll: there is news in memory that the ranks of a host share
};

#endif
