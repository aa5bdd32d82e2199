// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that the ranks of a communicator share, if they are on one host.
#ifndef WHM_COMM_MAP_H
#define WHM_COMM_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "mpi/comm/comm.h"

// whm_map_begin makes memory that all ranks of the communicator map; bytes of rank i lie at offsets[i].  MPI_ERR_RMA_SHARED: they are not
// all on one host.  The same on all ranks.  `spread`: each begins on a page of its own.
int whm_map_begin(whm_comm *comm, MPI_Aint size, bool spread, void **map, size_t *map_size,
                  size_t *offsets);
void whm_map_end(void *map, size_t map_size);

#endif
