// SPDX-License-Identifier: BSD-3-Clause
//
// What a communicator knows of its virtual topology.  It never changes, so duplicates share it.
#ifndef WHM_COMM_TOPOLOGY_H
#define WHM_COMM_TOPOLOGY_H

#include <stdbool.h>

typedef struct whm_topo {
    int refs;
    int kind;  // MPI_CART, MPI_GRAPH or MPI_DIST_GRAPH

    int dims;     // cartesian: how many, and of each
    int *extent;  // how many ranks,
    int *period;  // whether it is a ring,
    int *coords;  // where this rank is

    int nodes, edges;  // graph: of all ranks, as the program gave them
    int *index, *edge;

    bool weighted;  // distributed graph
    int in, out;    // neighbours of this rank: those that it receives from, and sends to.  Of a
    int *from,
        *to;  // cartesian topology for each dimension the one before, the one behind; MPI_PROC_NULL
    int *from_weight;  // stands there too
    int *to_weight;
} whm_topo;

whm_topo *whm_topo_new(int kind);       // NULL: no memory
void whm_topo_release(whm_topo *topo);  // NULL too

static inline whm_topo *whm_topo_hold(whm_topo *topo) {
    if (topo)
        topo->refs++;
    return topo;
}

#endif
