// SPDX-License-Identifier: BSD-3-Clause
//
// Contexts: small numbers that keep the messages of communicators apart.
//
// Two communicators may have the same one only if no rank is in both.  Each rank knows which are taken by its own communicators; the
// members of a new one agree on the lowest that is free with all of them (comm/agree.h).  A number is free again when the last operation
// on its communicator has ended.
#ifndef WHM_COMM_CONTEXT_H
#define WHM_COMM_CONTEXT_H

#include <stdint.h>

#include "mpi/base/rank.h"

enum {
    WHM_CONTEXT_WORLD,
    WHM_CONTEXT_SELF,
    WHM_CONTEXTS_MAX = 1 << 20,  // communicators of a rank at a time: 128 KiB of bits
};

int whm_contexts_begin(whm_rank *rank);
void whm_contexts_end(whm_rank *rank);

// whm_context_take takes the lowest free one from `from` on, of the rank that runs; WHM_CONTEXTS_MAX: none is left, or no memory.
uint32_t whm_context_take(uint32_t from);

// whm_context_claim takes this one: false when it is taken already.
bool whm_context_claim(uint32_t context);
void whm_context_free(whm_rank *rank, uint32_t context);

// whm_context_end notes that nobody waits for collectives with this one any more, until it is free; whm_context_ended asks.
void whm_context_end(whm_rank *rank, uint32_t context);
bool whm_context_ended(const whm_rank *rank, uint32_t context);

#endif
