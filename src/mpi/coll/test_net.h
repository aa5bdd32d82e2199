// SPDX-License-Identifier: BSD-3-Clause
//
// A network of ranks within one test, instead of src/mpi/p2p: the linker puts it in place of whm_send and whm_recv (--wrap).
//
// Messages of a rank to a rank keep their order; all else happens in the order of a seed: which message arrives next, which sends are over in
// their call, which wait for their receiver.
#ifndef WHM_COLL_TEST_NET_H
#define WHM_COLL_TEST_NET_H

#include "mpi/p2p/transfer.h"

enum { NET_RANKS = 20 };

void net_seed(uint64_t seed);
uint64_t net_random(void);
int net_below(int n);

// net_step lets one message arrive; false: none is under way.
bool net_step(void);

// net_lose has what arrives at a rank from now on, -1: at none, end with MPI_ERR_PROC_ABORTED.
void net_lose(int rank);

// net_left counts messages that nobody received and receives that nothing matched, and forgets them.
int net_left(void);

#endif
