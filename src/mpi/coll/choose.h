// SPDX-License-Identifier: BSD-3-Clause
//
// Which algorithm carries out a collective: a table of rows, of which the first that fits is taken (choose.c).
#ifndef WHM_COLL_CHOOSE_H
#define WHM_COLL_CHOOSE_H

#include "mpi/coll/coll.h"

// What an algorithm needs; the limits of its row say when it is good.
enum {
    WHM_NEEDS_COMMUTE = 1,  // an operation that commutes
    WHM_NEEDS_POWER = 2,    // 2^k ranks
    WHM_NEEDS_INTER = 4,    // an intercommunicator; others need an ordinary one
    WHM_NEEDS_FEW = 8,      // a message of each rank to each other one
    WHM_FOR_CROWDS = 16,  // not a need: it is good where many ranks share a processor, in a process
};

typedef struct whm_algorithm {
    const char *name;
    whm_build *build;
    unsigned needs;
    int ranks;        // at least so many
    MPI_Count bytes;  // at most so many, as whm_coll_bytes counts; 0: any number
} whm_algorithm;

enum { WHM_ALGORITHMS = 8 };  // of a kind, and behind them one without `build`
extern const whm_algorithm whm_algorithms[WHM_COLL_KINDS][WHM_ALGORITHMS];

// whm_coll_bytes is the size by which all ranks choose alike: of the data of a broadcast or a reduction, of one block of a gather, a scatter and an
// exchange, of all blocks of an allgather and a reduce-scatter; 0 where ranks do not know each other's sizes.
MPI_Count whm_coll_bytes(const whm_coll *coll);

// whm_algorithm_works says whether the needs are met.
bool whm_algorithm_works(const whm_algorithm *algorithm, const whm_coll *coll);

// whm_coll_no_data says whether all ranks know that there are no data, and nobody sends anything.
bool whm_coll_no_data(const whm_coll *coll);

// whm_coll_build fills a schedule by the algorithm chosen, and closes it: an MPI error class.  `keep`: see whm_schedule_close.
int whm_coll_build(whm_schedule *schedule, const whm_coll *coll, bool keep);

// NULL: the standard does not have the collective on this kind of communicator.
const whm_algorithm *whm_choose(const whm_coll *coll);

#endif
