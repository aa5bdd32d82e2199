// SPDX-License-Identifier: BSD-3-Clause
//
// Packages, cores and NUMA nodes of this machine: from hwloc (topology_hwloc.c) when the build has it,
// else what sysconf knows (topology_plain.c).  Any thread may call it.
#ifndef CLI_TOPOLOGY_H
#define CLI_TOPOLOGY_H

typedef struct topology {
    const char *source;                        // "hwloc 2.9.0", or "sysconf"
    int packages, numa_nodes, cores, threads;  // 0: not known
} topology;

void topology_read(topology *self);

#endif
