// SPDX-License-Identifier: BSD-3-Clause
//
// Split: an allgather of what members want to be in, from which each makes its own list of the new team.  Before that they may
// measure, and send that along too: all compute the same of it.
//
// A member has its id for the new team before it starts, and sends it along; so nothing has to be agreed on, and nothing
// that could fail is left when all know of each other.  Where it fails all the same, other members may have made the team,
// and send to that id: it is never used again.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rt/coll/allgather.h"
#include "rt/coll/call.h"

// What travels, in the byte order of all machines that Wherry runs on.
typedef struct wish {
    int32_t color, key;
    uint32_t id;
    uint32_t small_ns,
        large_ns;  // what an exchange of a byte, and of PROBE bytes, has taken; 0: not measured
} wish;
static_assert(sizeof(wish) == 20, "a wish travels");

enum {
    PROBE = 256 << 10,
    WARM = 8,  // exchanges before those that count
    SMALL = 32,
    LARGE = 6,
    MESSAGE_BYTES_MIN = 256,
    MESSAGE_BYTES_MAX = 4 << 20,
};

typedef struct wisher {
    wish wish;
    uint32_t rank;
} wisher;

typedef struct split {
    whi_coll_bruck bruck;  // first
    wh_team *made;         // NULL: no team is wanted
    wh_team **out;
    wisher *wishers;
    char *probe;  // to send and to receive; NULL: nothing is measured, or it is done
    uint32_t i;
    uint64_t begin;
} split;

static int by_key(const void *a, const void *b) {
    const wisher *x = a, *y = b;
    if (x->wish.key != y->wish.key)
        return x->wish.key < y->wish.key ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

// choose lists the members that want the same, in their order, and returns how many there are; 0: their wishes are none.
static uint32_t choose(whi_coll_op *op) {
    split *s = op->state;
    const wh_team *parent = op->team;
    const wish *wishes = (const wish *)(const void *)s->bruck.blocks;  // ours first
    uint32_t count = 0;
    for (uint32_t i = 0; i < parent->count; i++) {
        if (wishes[i].id >= WHI_COLL_TEAMS)
            return 0;
        uint32_t rank = (uint32_t)(((uint64_t)parent->rank + i) % parent->count);
        if (wishes[i].color == wishes[0].color)
            s->wishers[count++] = (wisher){.wish = wishes[i], .rank = rank};
    }
    qsort(s->wishers, count, sizeof(*s->wishers), by_key);
    return count;
}

// measured returns the message_bytes of a team of these members: a message of s bytes takes a + b s, and that is a / b.
static uint64_t measured(const wh_team *parent, const wisher *wishers, uint32_t count) {
    uint64_t small = 0, large = 0;
    for (uint32_t i = 0; i < count; i++) {
        small += wishers[i].wish.small_ns;
        large += wishers[i].wish.large_ns;
    }
    if (large <= small)
        return parent->message_bytes;
    uint64_t bytes = small * PROBE / (large - small);
    if (bytes < MESSAGE_BYTES_MIN)
        return MESSAGE_BYTES_MIN;
    return bytes > MESSAGE_BYTES_MAX ? MESSAGE_BYTES_MAX : bytes;
}

static wh_status done(whi_coll_op *op) {
    split *s = op->state;
    wh_team *team = s->made;
    uint32_t count = team ? choose(op) : 0;
    if (team && !count)
        return WH_EPROTOCOL;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = s->wishers[i].rank;
        team->members[i] = whi_team_pe(op->team, rank);
        team->ids[i] = (uint16_t)s->wishers[i].wish.id;
        if (rank == op->team->rank)
            team->rank = i;
    }
    if (team) {
        team->count = count;
        team->message_bytes = measured(op->team, s->wishers, count);
    }
    *s->out = team;
    s->made = NULL;
    return WH_OK;
}

static void fini(whi_coll_op *op) {
    wh_team *team = ((split *)op->state)->made;
    if (team)
        team->lost = op->failed != WH_OK;
    wh_team_free(team);
}

static const whi_coll_kind split_kind = {
    .name = "split", .step = whi_coll_bruck_step, .done = done, .fini = fini};

// exchange sends and receives so many bytes.
static void exchange(whi_coll_op *op, uint32_t partner, uint64_t size) {
    split *s = op->state;
    if (s->i == WARM)
        s->begin = whi_clock_ns();
    whi_coll_recv(op, partner, s->probe + PROBE, size, NULL);
    whi_coll_send(op, partner, s->probe, size, NULL);
}

static uint32_t ns_each(const split *s, uint32_t count) {
    uint64_t ns = (whi_clock_ns() - s->begin) / count + 1;
    return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static bool probe_step(whi_coll_op *op) {
    split *s = op->state;
    wish *ours = (wish *)(void *)s->bruck.blocks;
    uint32_t partner = op->team->rank ^ 1;
    WHI_COLL_BEGIN(op)
    if (partner >= op->team->count)
        return false;
    for (s->i = 0; s->i < WARM + SMALL; s->i++) {
        exchange(op, partner, 1);
        WHI_COLL_WAIT(op);
    }
    ours->small_ns = ns_each(s, SMALL);
    for (s->i = 0; s->i < WARM + LARGE; s->i++) {
        exchange(op, partner, PROBE);
        WHI_COLL_WAIT(op);
    }
    ours->large_ns = ns_each(s, LARGE);
    WHI_COLL_END;
}

static bool measure_step(whi_coll_op *op) {
    split *s = op->state;
    if (s->probe) {
        if (probe_step(op))
            return true;
        s->probe = NULL;
        op->line = 0;
    }
    return whi_coll_bruck_step(op);
}

static const whi_coll_kind measure_kind = {
    .name = "measure", .step = measure_step, .done = done, .fini = fini};

static wh_status start(wh_team *team, const whi_coll_kind *kind, int32_t color, int32_t key,
                       wh_team **made, const wh_op_opts *opts, wh_request **req) {
    if (!team || !made)
        return WH_EINVAL;
    wh_team *mine = NULL;
    wh_status st = color < 0 ? WH_OK : whi_team_alloc(team->port, team->count, &mine);
    if (st != WH_OK)
        return st;
    uint64_t n = team->count, wishes = (n * sizeof(wish) + 15) / 16 * 16;
    uint64_t probe = kind == &measure_kind ? 2 * PROBE : 0;
    whi_coll_op *op =
        whi_coll_op_new(team, kind, NULL, 2, sizeof(split), wishes + n * sizeof(wisher) + probe);
    if (!op) {
        wh_team_free(mine);
        return WH_ENOMEM;
    }
    *(split *)op->state = (split){.bruck = {.size = sizeof(wish), .blocks = op->temp},
                                  .made = mine,
                                  .out = made,
                                  .wishers = (wisher *)(void *)(op->temp + wishes),
                                  .probe = probe ? op->temp + wishes + n * sizeof(wisher) : NULL};
    memset(op->temp + wishes + n * sizeof(wisher), 0, probe);
    *(wish *)(void *)op->temp = (wish){.color = color, .key = key, .id = mine ? mine->id : 0};
    return whi_coll_op_start(op, opts, req);
}

wh_status wh_team_split(wh_team *team, int32_t color, int32_t key, wh_team **made,
                        const wh_op_opts *opts, wh_request **req) {
    return start(team, &split_kind, color, key, made, opts, req);
}

wh_status wh_team_measure(wh_team *team, wh_team **made, const wh_op_opts *opts, wh_request **req) {
    return start(team, &measure_kind, 0, 0, made, opts, req);
}

wh_status wh_team_measure_wait(wh_team *team, wh_team **made, int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms, wh_team_measure(team, made, NULL, &waited));
}

wh_status wh_team_split_wait(wh_team *team, int32_t color, int32_t key, wh_team **made,
                             int timeout_ms) {
    return WHI_COLL_WAITED(team, timeout_ms, wh_team_split(team, color, key, made, NULL, &waited));
}
