// SPDX-License-Identifier: BSD-3-Clause
//
// Making an intercommunicator, however the leaders reach each other.
#ifndef WHM_COMM_INTER_H
#define WHM_COMM_INTER_H

#include "mpi/comm/comm.h"

typedef struct whm_meeting {  // looked at by the leader only
    whm_comm *bridge;         // where both leaders are
    int peer;                 // the other one there
    int tag;                  // of WHM_COLL, WHM_TAG_CREATE or above
    int error;                // an error class: the leader cannot meet the other
} whm_meeting;

// whm_intercomm is collective over `local`, and over that of the other group.
int whm_intercomm(whm_comm *local, int leader, const whm_meeting *with, whm_comm **made);

#endif
