// SPDX-License-Identifier: BSD-3-Clause
//
// The hosts of a communicator's ranks, for its blocking collectives: the ranks of each are a group, whose first one is its leader.  A collective goes
// on within each group, through shared memory where that can be had, and among the leaders, so that few messages leave a host.
//
// More ranks of a host than shared memory is for are several groups.  The leaders' communicator may have leaders of its own.
#ifndef WHM_COLL_LEADERS_H
#define WHM_COLL_LEADERS_H

#include "mpi/comm/comm.h"

typedef struct whm_leaders {
    whm_comm *inside;  // this rank's group, in the order of ranks; NULL: there are no leaders
    whm_comm *across;  // the leaders, in the order of groups; NULL: this rank is none
    bool in_order;     // each group is a run of ranks, and so are the groups
    bool even;         // all groups have the same size
    int groups;
    int *group, *place;  // by rank: the group, and the rank within that
    int *first, *size;   // by group: its leader, and how many ranks
} whm_leaders;

// whm_leaders_of returns those of a communicator, or NULL: all ranks are one group, or each is one, or it has had few collectives so far.  They are found
// in here, blocking; all ranks call it at the same place in the order of collectives, and get the same answer, unless a process was lost.
whm_leaders *whm_leaders_of(whm_comm *comm);

// whm_leaders_give_up has this rank wait for no collective on the communicator any more, nor on those of its leaders: a process was lost.  It is
// whm_fail for that.
int whm_leaders_give_up(whm_comm *comm);

#endif
