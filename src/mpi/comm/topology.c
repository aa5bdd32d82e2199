// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/topology.h"

#include <stdlib.h>

#include "mpi/base/memory.h"

whm_topo *whm_topo_new(int kind) {
    whm_topo *topo = whm_calloc(1, sizeof(*topo));
    if (topo)
        *topo = (whm_topo){.refs = 1, .kind = kind};
    return topo;
}

void whm_topo_release(whm_topo *topo) {
    if (!topo || --topo->refs > 0)
        return;
    int *arrays[] = {topo->extent, topo->period, topo->coords,      topo->index,    topo->edge,
                     topo->from,   topo->to,     topo->from_weight, topo->to_weight};
    for (unsigned i = 0; i < sizeof(arrays) / sizeof(*arrays); i++)
        free(arrays[i]);
    free(topo);
}
