// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of a rank: what the library keeps for it, and what goes where it goes when it moves to another process.  free() frees it.
#ifndef WHM_BASE_MEMORY_H
#define WHM_BASE_MEMORY_H

#include "mpi/base/rank.h"

// For the rank that runs; as malloc and the rest, whose memory it is where ranks do not move.
void *whm_malloc(size_t size);
void *whm_calloc(size_t count, size_t size);
void *whm_realloc(void *block, size_t size);
char *whm_strdup(const char *text);

// whm_malloc_for is whm_malloc for a rank that may not be the one that runs.
void *whm_malloc_for(const whm_rank *rank, size_t size);

#endif
