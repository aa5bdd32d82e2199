// SPDX-License-Identifier: BSD-3-Clause
//
// A trial: one collective on all ranks of a test network, with buffers in random layouts, and what each buffer must hold at the end.
#ifndef WHM_COLL_TEST_TRIAL_H
#define WHM_COLL_TEST_TRIAL_H

#include "mpi/coll/choose.h"
#include "mpi/coll/test_net.h"

typedef struct buffer {
    whm_blocks blocks;
    int n;        // blocks
    char *bytes;  // with room before and behind
    char *wanted;
    size_t size;
    MPI_Count counts[NET_RANKS];
    MPI_Aint displs[NET_RANKS];
    whm_type *types[NET_RANKS];
    int per;  // elements of the type for each unit of data
} buffer;

typedef struct trial_rank {
    whm_schedule schedule;
    int ended;
} trial_rank;

typedef struct trial {
    whm_coll_kind kind;
    const whm_algorithm *algorithm;
    int size, first;  // ranks; of the first group: all of them, unless there are two
    int root;
    bool in_place;
    int units;  // a unit is two numbers, or one for sums
    int numbers;
    whm_op *op;
    uint32_t salt;
    whm_comm *comms;
    whm_coll coll[NET_RANKS];
    buffer send[NET_RANKS], recv[NET_RANKS];
    trial_rank *ranks[NET_RANKS];
} trial;

// trial_ready makes the types and operations; once.
void trial_ready(void);

// trial_comms makes the communicators of `size` ranks in one group, or of two if first < size.
void trial_comms(whm_comm *comms, int size, int first, uint32_t context);
void trial_comms_end(whm_comm *comms, int size, int first);

// trial_draw chooses all that is not set: kind, size, first and comms are.
void trial_draw(trial *t);

// trial_fill writes operands and what is wanted, for this salt.
void trial_fill(trial *t, uint32_t salt);

// trial_build makes the schedules, with any algorithm that works for it; trial_check counts the ranks that did not end once, without an error and
// with the right bytes, and takes the next start.
void trial_build(trial *t);
int trial_check(trial *t);
void trial_end(trial *t);

// The parts, for tests that have cases of their own.
void buffer_make(buffer *b, int n, const int *units, bool spread, int layout, int per);
void buffer_put(const buffer *b, char *bytes, int block, const uint32_t *data, int units,
                int numbers);
void buffer_free(buffer *b);
int trial_layout(void);            // one of the layouts of two numbers
void trial_reset(buffer *b);       // the background
bool trial_same(const buffer *b);  // whether it holds what is wanted
uint32_t trial_datum(uint32_t salt, int rank, int block, int i);

#endif
