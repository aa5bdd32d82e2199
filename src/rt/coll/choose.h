// SPDX-License-Identifier: BSD-3-Clause
//
// Which algorithm: the one that should take the least time, counted in bytes that could be sent meanwhile.
//
// A message of s bytes costs m + s, m being the team's message_bytes.  All members have to come to the same answer, so it rests on
// what they agree on, and on whole numbers.
#ifndef WHI_RT_COLL_CHOOSE_H
#define WHI_RT_COLL_CHOOSE_H

#include <stdint.h>

#include "rt/coll/segments.h"
#include "rt/coll/team.h"
#include "rt/coll/tree.h"

enum { WHI_COLL_SEGMENT_MAX = 1 << 20 };

// whi_coll_cut finds the best segments for `size` bytes over `levels` levels with `sends` messages of each node one behind the other.
whi_coll_segments whi_coll_cut(const wh_team *team, uint64_t size, uint64_t levels, unsigned sends);

// whi_coll_tree_choice chooses a tree for `size` bytes, and the segments.
whi_coll_tree_shape whi_coll_tree_choice(const wh_team *team, uint64_t size,
                                         whi_coll_segments *segments);

// The rest: true for few rounds with more bytes, false for fewest bytes.
bool whi_coll_halve_allreduce(const wh_team *team, uint64_t size);  // false: recursive doubling
bool whi_coll_chain_scan(const wh_team *team, uint64_t size, whi_coll_segments *segments);
bool whi_coll_tree_gather(const wh_team *team, uint64_t size);
bool whi_coll_bruck_allgather(const wh_team *team, uint64_t size);
bool whi_coll_bruck_alltoall(const wh_team *team, uint64_t size);

#endif
