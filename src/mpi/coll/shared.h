// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that the ranks of a communicator share, for its blocking collectives, where all of them are on one host.
//
// A collective is a number of rounds, the same for all ranks: in each, some ranks publish something, and others read it.  What a rank publishes begins with a line
// that says of which round it is, by a stamp, the number of the call and the round, and has room for few bytes.  More lie in a slot: each rank has two large
// ones, in turn, and many for calls of few bytes, as it has lines, so that a rank which only gives, as the root of a bcast, can be that many calls ahead of those
// that read.  Who waits looks at the line alone.  Two counters of each rank say how far it has come: what it has published, and which rounds it has done with.
// Both only grow, and each call ends by moving both to its end, so no rank waits for one that has made another call: it finds out by the stamp instead.
//
// The thread that progresses its rank owns it.
#ifndef WHM_COLL_SHARED_H
#define WHM_COLL_SHARED_H

#include "mpi/coll/coll.h"

typedef struct whm_shared whm_shared;

enum {
    WHM_CALLS_BEFORE =
        8,  // collectives of a communicator before it gets one: most never have so many
    WHM_SHARED_RANKS = 32,           // at most: each looks at all others
    WHM_SHARED_LINE = 32,            // bytes that have room in the line of what is published
    WHM_SHARED_BRIEF = 1024,         // and in a slot of which each rank has as many
    WHM_SHARED_SCRATCH = 512 << 10,  // little enough to stay in a processor's own cache
};

// What each rank says of its call, beside the data.  The stamp is written last: who finds his own there may read the rest.
typedef struct whm_shared_call {
    _Atomic uint64_t stamp;
    int64_t bytes;
    int32_t kind, root;
    uint64_t op;
} whm_shared_call;

// whm_shared_of returns that of a communicator, or NULL: its ranks are on several hosts or too many, or it has had few collectives so far.  It is made
// in here, blocking; all ranks call it at the same place in the order of collectives, and get the same answer.
whm_shared *whm_shared_of(whm_comm *comm);

// whm_shared_begin begins a collective of `bytes` bytes, of which a rank publishes `written`; whm_shared_end ends it: an MPI error class, with a sentence.
void whm_shared_begin(whm_shared *shared, const whm_coll *coll, MPI_Count bytes, MPI_Count written);
int whm_shared_end(whm_shared *shared);

// whm_shared_plain says whether the CPU may touch the call's buffers.
bool whm_shared_plain(const whm_shared *shared);

// whm_shared_room is how many bytes a rank can publish in a round of this call.
size_t whm_shared_room(const whm_shared *shared);

// whm_shared_crowded says whether there are more ranks than processors; the same on all ranks.
bool whm_shared_crowded(const whm_shared *shared);

// whm_shared_processors is how many ranks can run at once; the same on all ranks.
int whm_shared_processors(const whm_shared *shared);

// whm_shared_write returns where this rank writes what it publishes in the round, as soon as that is free; whm_shared_ahead that for the next round.  whm_shared_publish lets the
// others read the round's.
char *whm_shared_write(whm_shared *shared);
char *whm_shared_ahead(whm_shared *shared);
void whm_shared_publish(whm_shared *shared);

// whm_shared_read returns what a rank has published in this round, as soon as it has; it stays until whm_shared_next.  NULL: that rank has called something
// else, which is the error of this one then.
const char *whm_shared_read(whm_shared *shared, int rank);

// Large data may stay where they are, and be read there by the others: whm_shared_direct says whether each rank may read the memory of each other one,
// which is the same on all.  While it is undecided they tell each other by messages, so all must have come to the same call.
bool whm_shared_undecided(const whm_shared *shared);
bool whm_shared_direct(whm_shared *shared);

// whm_shared_wants_direct says whether the first rank's setting is to do so wherever it can be done.
bool whm_shared_wants_direct(const whm_shared *shared);

// whm_shared_offer publishes an address in this round, NULL: there is nothing, and whm_shared_offered returns that of another rank, as whm_shared_read does.
// whm_shared_fetch reads there.  whm_shared_settle ends the round and waits until the others have, so that the memory is the program's again.
void whm_shared_offer(whm_shared *shared, const void *at);
const char *whm_shared_offered(whm_shared *shared, int rank);
bool whm_shared_fetch(whm_shared *shared, int rank, void *to, const void *from, MPI_Count size);
void whm_shared_settle(whm_shared *shared);

// whm_shared_scratch returns memory of WHM_SHARED_SCRATCH bytes that stays this rank's, or NULL, which is noted.
char *whm_shared_scratch(whm_shared *shared);

// whm_shared_next ends the round; the last one is ended by whm_shared_end, too.
void whm_shared_next(whm_shared *shared);

// whm_shared_note keeps the first error of this rank's own; the others do not hear of it.
void whm_shared_note(whm_shared *shared, int error);

// whm_shared_take_over carries out what is to be read where it lies (shared_direct.c): false, or the call is over, with *error.
bool whm_shared_take_over(whm_shared *shared, const whm_coll *coll, MPI_Count size, int *error);

// whm_shared_meet is for what comes before messages: ranks that call with another size, and so wait for others here, must not be waited for there.
int whm_shared_meet(whm_shared *shared, const whm_coll *coll, MPI_Count size);

// whm_shared_run carries a collective out in shared memory, if it is one for that (shared_coll.c): false, and otherwise *error.
bool whm_shared_run(const whm_coll *coll, int *error);

#endif
