// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/comm/claim.h"

#include "mpi/base/process.h"
#include "mpi/comm/context.h"

static void give_back(whm_claim *claim) {
    if (claim->mine < WHM_CONTEXTS_MAX)
        whm_context_free(whm_self, claim->mine);
    claim->mine = WHM_CONTEXTS_MAX;
}

static void end(whm_claim *claim, int error) {
    if (error != MPI_SUCCESS)
        give_back(claim);
    claim->context = claim->mine;
    claim->error = error;
    if (claim->done)
        claim->done(claim);
    else
        whm_wake(whm_self);
}

static void propose(whm_claim *claim) {
    claim->agree.value[0] = claim->mine;
    claim->agree.value[1] = -(int64_t)claim->mine;
    claim->agree.value[2] = claim->failed;
    claim->rounds++;
    whm_agree(&claim->agree);
}

// seed_of depends on the communicator and the tag that a claim is made over.  Two groups have no communicator in common, so they agree on one of
// their seeds.
static int64_t seed_of(const whm_agreement *agree) {
    return agree->comm->context * 2654435761u + (uint32_t)agree->tag * 40503u;
}

// distance is by how much the next proposal goes beyond the largest: nothing at first.  Two claims that take numbers from each other round
// after round get out of step by this.  It is the same for all of a claim, or they would never meet.
static uint32_t distance(const whm_claim *claim) {
    if (claim->rounds < 3)
        return 0;
    uint32_t seed = (uint32_t)claim->agree.value[3] + claim->rounds * 2246822519u;
    return (seed >> 16) % (claim->rounds * 2);
}

static void on_agreed(whm_agreement *agree) {
    whm_claim *claim = (whm_claim *)agree;
    int64_t most = agree->value[0], least = -agree->value[1];
    if (agree->error != MPI_SUCCESS || agree->value[2] != MPI_SUCCESS) {
        end(claim, agree->error != MPI_SUCCESS    ? agree->error
                   : claim->failed != MPI_SUCCESS ? claim->failed
                                                  : (int)agree->value[2]);
        return;
    }
    if (most >= WHM_CONTEXTS_MAX) {
        end(claim, MPI_ERR_OTHER);
        return;
    }
    if (most == least) {
        end(claim, MPI_SUCCESS);
        return;
    }
    uint32_t from = (uint32_t)most + distance(claim);
    if (claim->mine != from) {
        give_back(claim);
        claim->mine = whm_context_take(from);
    }
    propose(claim);
}

void whm_claim_start(whm_claim *claim) {
    claim->agree.done = on_agreed;
    claim->error = -1;
    claim->rounds = 0;
    claim->mine = whm_context_take(0);
    claim->agree.value[3] = seed_of(&claim->agree);
    propose(claim);
}

int whm_claim_fail(const whm_claim *claim) {
    if (claim->error == MPI_SUCCESS || claim->failed != MPI_SUCCESS)
        return claim->error;
    if (claim->agree.error != MPI_SUCCESS)
        return whm_agree_fail(&claim->agree, "a process of the new communicator does not answer");
    if (claim->agree.value[2] != MPI_SUCCESS)
        return whm_fail(claim->error, "another process that takes part has failed in this call");
    return whm_fail(claim->error,
                    "a process has %d communicators already, as many as there can be: free some",
                    WHM_CONTEXTS_MAX);
}

int whm_claim_wait(whm_claim *claim) {
    claim->done = NULL;
    whm_claim_start(claim);
    while (claim->error < 0)
        whm_block();
    return whm_claim_fail(claim);
}

int whm_claim_all(whm_comm *over, int failed, uint32_t *context) {
    whm_claim claim = {.failed = failed};
    whm_agree_all(&claim.agree, over);
    int rc = whm_claim_wait(&claim);
    if (rc == MPI_SUCCESS)
        *context = claim.context;
    return rc;
}
