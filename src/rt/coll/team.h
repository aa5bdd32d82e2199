// SPDX-License-Identifier: BSD-3-Clause
//
// Team: an ordered list of PEs, and the operations of it that are under way at this one.
//
// Each PE has a number of its own for a team, the id, which it has told the other members: messages to it carry that one, so
// that nobody has to agree with anybody on which are free.  A team is held by its user and by its operations.
#ifndef WHI_RT_COLL_TEAM_H
#define WHI_RT_COLL_TEAM_H

#include <wherry/coll.h>

#include "base/list.h"
#include "rt/coll/port.h"

struct wh_team {
    whi_coll_port *port;
    uint32_t count, rank;
    uint32_t id;        // ours
    uint32_t *members;  // PEs by rank; NULL: all of them
    uint16_t *ids;      // what members call the team, by rank; NULL: as we do
    whi_list ops;       // under way, the oldest first
    uint32_t next;      // number of the next one
    // How many bytes take as long as a message does beside its bytes.  It chooses algorithms, so all members have the same.
    uint64_t message_bytes;
    size_t holds;
    bool lost;  // others may take us for a member, so our id is not used again
};

// whi_team_new makes a team of `count` different PEs, which the own one is one of, in the order of their ranks; NULL: of all.
//
// All members call it with the same list and the same `id`, which none of them uses for another team.  Team 0 is that of all
// PEs.  The list is copied.  WH_EINVAL, WH_EBUSY for an id in use, WH_ENOMEM.  The caller ends it with wh_team_free.
WH_CHECK wh_status whi_team_new(whi_coll_port *port, const uint32_t *members, uint32_t count,
                                uint32_t id, wh_team **team);

// whi_team_alloc makes a team with room for `count` members, which have yet to be filled in, and a free id.  WH_ELIMIT, WH_ENOMEM.
WH_CHECK wh_status whi_team_alloc(whi_coll_port *port, uint32_t count, wh_team **team);

void whi_team_release(wh_team *team);

static inline uint32_t whi_team_pe(const wh_team *team, uint32_t rank) {
    return team->members ? team->members[rank] : rank;
}

#endif
