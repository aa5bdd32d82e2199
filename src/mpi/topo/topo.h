// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of this folder share.  What a topology is, and the neighbors of a rank in it: mpi/comm/topology.h.
#ifndef WHM_TOPO_TOPO_H
#define WHM_TOPO_TOPO_H

#include "mpi/comm/comm.h"
#include "mpi/comm/topology.h"

// whm_topo_born makes the communicator of the first `count` ranks and gives it the topology, whose reference it takes over (NULL: `failed` says
// why there is none).  Collective.
int whm_topo_born(whm_comm *comm, int failed, int count, whm_topo *topo, whm_comm **newcomm);

// whm_topo_of returns the communicator's topology of this kind; NULL, with a sentence: it has none.
whm_topo *whm_topo_of(const whm_comm *comm, int kind);

// whm_topo_ints copies an array, as a new one of at least one int; NULL: no memory.
int *whm_topo_ints(const int *from, int count);

// whm_topo_check_intra: only communicators of one group have topologies.
int whm_topo_check_intra(const whm_comm *comm);

#endif
