// SPDX-License-Identifier: BSD-3-Clause
//
// Claims: those who make a communicator together agree on its context, the lowest that is free with all of them.
//
// Each takes its lowest free one and says so.  If they are the same, as they mostly are, that was it; else each gives its own back and takes
// the lowest from the largest of them on.  What is taken meanwhile nobody else gets, so several claims may be under way at a time, over the
// same processes, in any order.
#ifndef WHM_COMM_CLAIM_H
#define WHM_COMM_CLAIM_H

#include "mpi/comm/agree.h"
#include "mpi/comm/make.h"

typedef struct whm_claim whm_claim;
struct whm_claim {
    whm_agreement
        agree;  // who: filled in by the caller (whm_agree_all); from value[WHM_CLAIM_OWN] on the caller's
    int failed;  // an error class: this one cannot go on, and nobody shall
    void (*done)(whm_claim *claim);
    uint32_t context;  // taken, at the end, unless there was an error
    int error;         // an error class, the same for all but for who has `failed`
    uint32_t mine;
    unsigned rounds;
};
enum { WHM_CLAIM_OWN = 4 };

// whm_claim_start starts; `done` may be called within.  whm_claim_wait starts and waits, and returns the error, with a sentence.
void whm_claim_start(whm_claim *claim);
int whm_claim_wait(whm_claim *claim);

// whm_claim_all claims a context over all members of a communicator, and waits.  `failed`: as above.
int whm_claim_all(whm_comm *over, int failed, uint32_t *context);

// whm_claim_fail returns claim->error, and says why in a sentence.
int whm_claim_fail(const whm_claim *claim);

#endif
