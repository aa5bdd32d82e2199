// SPDX-License-Identifier: BSD-3-Clause
//
// Teams and ports: made, asked, released.
#include "rt/coll/team.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

void whi_coll_port_init(whi_coll_port *port, const whi_coll_port_ops *ops, wh_worker *worker,
                        uint32_t self, uint32_t count, unsigned tag_type) {
    assert(self < count && tag_type < 16);
    *port = (whi_coll_port){.ops = ops,
                            .worker = worker,
                            .self = self,
                            .count = count,
                            .tag_type = tag_type,
                            .message_bytes = WHI_COLL_MESSAGE_BYTES};
}

// maybe_gone frees a port that nobody needs any more.
static void maybe_gone(whi_coll_port *port) {
    if (!port->worker && !port->teams && port->ops->gone)
        port->ops->gone(port);
}

void whi_coll_port_close(whi_coll_port *port) {
    port->worker = NULL;
    maybe_gone(port);
}

static bool id_used(const whi_coll_port *port, uint32_t id) {
    return port->team_ids[id / 64] >> id % 64 & 1;
}

static void flip_id(whi_coll_port *port, uint32_t id) {
    port->team_ids[id / 64] ^= (uint64_t)1 << id % 64;
}

static wh_status make(whi_coll_port *port, uint32_t count, uint32_t id, bool all, wh_team **out) {
    wh_team *team = whi_calloc(1, sizeof(*team));
    if (!team)
        return WH_ENOMEM;
    *team = (wh_team){
        .port = port, .count = count, .id = id, .message_bytes = port->message_bytes, .holds = 1};
    whi_list_init(&team->ops);
    if (!all) {
        team->members = whi_calloc(count, sizeof(*team->members));
        if (!team->members) {
            whi_free(team);
            return WH_ENOMEM;
        }
    }
    flip_id(port, id);
    port->teams++;
    *out = team;
    return WH_OK;
}

// fill_in takes the list over if it is one: each PE at most once, and the own one among them.
static wh_status fill_in(wh_team *team, const uint32_t *members) {
    const whi_coll_port *port = team->port;
    uint64_t *seen = whi_calloc(port->count / 64 + 1, sizeof(*seen));
    if (!seen)
        return WH_ENOMEM;
    bool found = false, good = true;
    for (uint32_t rank = 0; good && rank < team->count; rank++) {
        uint32_t pe = members[rank];
        good = pe < port->count && !(seen[pe / 64] >> pe % 64 & 1);
        if (!good)
            break;
        seen[pe / 64] |= (uint64_t)1 << pe % 64;
        team->members[rank] = pe;
        if (pe == port->self) {
            found = true;
            team->rank = rank;
        }
    }
    whi_free(seen);
    if (good && found)
        return WH_OK;
    whi_log(
        WHI_ERROR, "E-COLL-01",
        "whi_team_new: the list of %u members is none: each PE below %u at most once, and PE %u among them",
        team->count, port->count, port->self);
    return WH_EINVAL;
}

wh_status whi_team_new(whi_coll_port *port, const uint32_t *members, uint32_t count, uint32_t id,
                       wh_team **out) {
    if (!count || count > port->count || (!members && count != port->count) || id >= WHI_COLL_TEAMS)
        return WH_EINVAL;
    if (id_used(port, id))
        return WH_EBUSY;
    wh_team *team;
    wh_status st = make(port, count, id, !members, &team);
    if (st != WH_OK)
        return st;
    team->rank = port->self;
    if (members)
        st = fill_in(team, members);
    if (st != WH_OK) {
        wh_team_free(team);
        return st;
    }
    *out = team;
    return WH_OK;
}

wh_status whi_team_alloc(whi_coll_port *port, uint32_t count, wh_team **out) {
    uint32_t id = 0;
    while (id < WHI_COLL_TEAMS && id_used(port, id))
        id++;
    if (id == WHI_COLL_TEAMS) {
        whi_log(WHI_ERROR, "E-COLL-02", "PE %u is in %d teams, more it cannot be in; free some",
                port->self, WHI_COLL_TEAMS);
        return WH_ELIMIT;
    }
    wh_team *team;
    wh_status st = make(port, count, id, false, &team);
    if (st != WH_OK)
        return st;
    team->ids = whi_calloc(count, sizeof(*team->ids));
    if (!team->ids) {
        wh_team_free(team);
        return WH_ENOMEM;
    }
    *out = team;
    return WH_OK;
}

void whi_team_release(wh_team *team) {
    if (--team->holds)
        return;
    assert(whi_list_empty(&team->ops));
    if (!team->lost)
        flip_id(team->port, team->id);
    whi_coll_port *port = team->port;
    whi_free(team->members);
    whi_free(team->ids);
    whi_free(team);
    port->teams--;
    maybe_gone(port);
}

void wh_team_free(wh_team *team) {
    if (team)
        whi_team_release(team);
}

uint32_t wh_team_size(const wh_team *team) {
    return team->count;
}

uint32_t wh_team_rank(const wh_team *team) {
    return team->rank;
}

wh_status wh_team_pe(const wh_team *team, uint32_t rank, uint32_t *pe) {
    if (!team || !pe || rank >= team->count)
        return WH_EINVAL;
    *pe = whi_team_pe(team, rank);
    return WH_OK;
}
