// SPDX-License-Identifier: BSD-3-Clause
//
// See topology.h.
#include "cli/topology.h"

#include <unistd.h>

void topology_read(topology *self) {
    *self = (topology){.source = "sysconf", .threads = (int)sysconf(_SC_NPROCESSORS_ONLN)};
}
