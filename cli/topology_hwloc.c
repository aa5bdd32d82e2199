// SPDX-License-Identifier: BSD-3-Clause
//
// See topology.h.
#include "cli/topology.h"

#include <hwloc.h>
#include <stdio.h>

static int count(hwloc_topology_t tree, hwloc_obj_type_t type) {
    int found = hwloc_get_nbobjs_by_type(tree, type);
    return found > 0 ? found : 0;
}

void topology_read(topology *self) {
    static char source[32];
    hwloc_topology_t tree;
    unsigned version = hwloc_get_api_version();
    snprintf(source, sizeof source, "hwloc %u.%u.%u", version >> 16, version >> 8 & 255,
             version & 255);
    *self = (topology){.source = source};
    if (hwloc_topology_init(&tree) != 0)
        return;
    if (hwloc_topology_load(tree) == 0) {
        self->packages = count(tree, HWLOC_OBJ_PACKAGE);
        self->numa_nodes = count(tree, HWLOC_OBJ_NUMANODE);
        self->cores = count(tree, HWLOC_OBJ_CORE);
        self->threads = count(tree, HWLOC_OBJ_PU);
    }
    hwloc_topology_destroy(tree);
}
