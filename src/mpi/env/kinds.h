// SPDX-License-Identifier: BSD-3-Clause
//
// The kinds of memory that buffers may be in: the info mpi_memory_alloc_kinds.
#ifndef WHM_ENV_KINDS_H
#define WHM_ENV_KINDS_H

#include "mpi/env/info.h"

// whm_alloc_kinds_asked returns the kinds of memory that the user has asked for at the start of the program; NULL: none.
const char *whm_alloc_kinds_asked(void);

// whm_alloc_kinds_ask asks for more of them, as MPI_Session_init can; `kinds` may be NULL.
void whm_alloc_kinds_ask(const char *kinds);

// whm_hints_used makes a copy of an object's hints (NULL: it has none), with the kinds of memory that buffers may be in, named as in
// the standard's side document on them.
int whm_hints_used(const whm_info *hints, whm_info **used);

#endif
