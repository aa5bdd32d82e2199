// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/leaders.h"

#include <stdlib.h>

#include "mpi/base/memory.h"
#include "mpi/base/offered.h"
#include "mpi/base/process.h"
#include "mpi/coll/shared.h"
#include "mpi/comm/share.h"
#include "mpi/comm/split.h"
#include "mpi/p2p/transfer.h"

// Of a rank, while groups are made.
typedef struct guest {
    long long host;
    int like;   // the first rank of its host
    int nth;    // of the host's ranks this is
    int count;  // at the first rank of a host: its ranks,
    int group;  // and the group that is being filled
} guest;

static void find_hosts(guest *guests, int n) {
    for (int i = 0; i < n; i++) {
        int like = i > 0 && guests[i].host == guests[i - 1].host ? guests[i - 1].like : 0;
        while (guests[like].host != guests[i].host)
            like++;
        guests[i].like = like;
        guests[i].count = 0;
        guests[i].nth = guests[like].count++;
    }
}

// Virtual ranks share no memory beyond WHM_SHARED_RANKS either, but the messages of a process cost less than another level.
static int ranks_of_a_group(int count) {
    int parts = whm_process_here.virtual ? 1 : (count + WHM_SHARED_RANKS - 1) / WHM_SHARED_RANKS;
    return (count + parts - 1) / parts;
}

static void make_groups(whm_leaders *l, guest *guests, int n) {
    l->in_order = true;
    for (int i = 0; i < n; i++) {
        guest *host = &guests[guests[i].like];
        if (guests[i].nth % ranks_of_a_group(host->count) == 0) {
            host->group = l->groups++;
            l->first[host->group] = i;
        }
        l->group[i] = host->group;
        l->place[i] = l->size[host->group]++;
        l->in_order = l->in_order && (i == 0 || l->group[i] >= l->group[i - 1]);
    }
    l->even = true;
    for (int g = 1; g < l->groups; g++)
        l->even = l->even && l->size[g] == l->size[0];
}

static whm_comm *below(whm_comm *comm, int color, int key) {
    whm_comm *made = NULL;
    if (whm_split(comm, MPI_SUCCESS, color, key, &made) != MPI_SUCCESS || !made)
        return NULL;
    made->over = comm;
    made->collectives = WHM_CALLS_BEFORE;
    return made;
}

static bool all_on_one_host(void) {
    return whm_process_here.processes == 1 || whm_offered();
}

// hosts_of finds out which host each rank is on; false: a process was lost.
static bool hosts_of(whm_comm *comm, guest *guests) {
    size_t n = (size_t)comm->size;
    long long mine = whm_host_of(), *hosts = whm_calloc(n, sizeof(*hosts));
    if (!hosts)
        whm_process_no_memory();
    bool good = all_on_one_host() || whm_share(comm, &mine, sizeof(mine), hosts) == MPI_SUCCESS;
    for (size_t i = 0; i < n; i++)
        guests[i].host = hosts[i];
    free(hosts);
    return good;
}

static void find_leaders(whm_leaders *l, whm_comm *comm, guest *guests) {
    int n = comm->size, me = comm->rank;
    if (!hosts_of(comm, guests))
        return;
    find_hosts(guests, n);
    make_groups(l, guests, n);
    if (l->groups == 1 || l->groups == n)
        return;
    l->inside = below(comm, l->group[me], me);
    l->across = below(comm, l->place[me] == 0 ? 0 : MPI_UNDEFINED, me);
    if (l->inside && l->place[me] == 0 && !l->across)
        whm_process_abort(1);  // the others would wait for it
}

static void end(whm_comm *comm) {
    whm_leaders *l = comm->leaders;
    if (!l)
        return;
    whm_comm *both[] = {l->inside, l->across};
    for (int i = 0; i < 2; i++)
        if (both[i]) {
            both[i]->over = NULL;
            whm_comm_release(both[i]);
        }
    free(l);
    comm->leaders = NULL;
}

__attribute__((constructor)) static void begin(void) {
    whm_comm_ops.end_leaders = end;
}

whm_leaders *whm_leaders_of(whm_comm *comm) {
    whm_leaders *l = comm->leaders;
    if (l)
        return l->inside ? l : NULL;
    // Ranks that move change their host.
    if (whm_process_here.home || comm->remote || comm->size < 3 ||
        comm->collectives < WHM_CALLS_BEFORE)
        return NULL;
    // A group that is all of them needs no memory for each rank.
    bool alike = all_on_one_host() && ranks_of_a_group(comm->size) == comm->size;
    size_t n = alike ? 0 : (size_t)comm->size;
    l = calloc(1, sizeof(*l) + 4 * n * sizeof(int));
    guest *guests = calloc(n + 1, sizeof(*guests));
    if (!l || !guests)
        whm_process_no_memory();
    l->first = (int *)(l + 1);
    l->size = l->first + n;
    l->group = l->size + n;
    l->place = l->group + n;
    comm->leaders = l;
    if (!alike)
        find_leaders(l, comm, guests);
    free(guests);
    whm_self->sentence[0] = 0;
    return l->inside ? l : NULL;
}

int whm_leaders_give_up(whm_comm *comm) {
    const whm_leaders *l = comm->leaders;
    (void)whm_comm_give_up(l->inside);
    if (l->across)
        (void)whm_comm_give_up(l->across);
    return whm_comm_give_up(comm);
}
