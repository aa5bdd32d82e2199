// SPDX-License-Identifier: BSD-3-Clause
//
// Matching: the receives that a rank has posted, and the messages that have come for it before theirs.
//
// Both are kept by (context, source, tag) in buckets, in order; receives with MPI_ANY_SOURCE or MPI_ANY_TAG stand in a list of their own,
// and the age decides between the two.  An arrival is in its bucket and in the list of all, which wildcards go through.
#ifndef WHM_P2P_MATCH_H
#define WHM_P2P_MATCH_H

#include <wherry/am.h>

#include "mpi/p2p/transfer.h"

// What travels before the bytes of a message.
typedef struct whm_envelope {
    uint32_t context;  // whm_context_of
    int32_t source;    // rank in the communicator
    int32_t tag;
    int32_t dest;     // in MPI_COMM_WORLD
    uint32_t id;      // of a synchronous send, for the answer; 0: none is wanted
    uint32_t origin;  // of the sender in MPI_COMM_WORLD, where the answer goes
} whm_envelope;
_Static_assert(sizeof(whm_envelope) == 24, "it travels as it is");

typedef struct whm_arrival whm_arrival;
struct whm_arrival {
    whm_arrival *next, *prev;          // in its bucket
    whm_arrival *all_next, *all_prev;  // in the order of arrival
    whm_envelope env;
    uint64_t bytes;
    size_t room;          // in whm_match.copied
    wh_am *am;            // from another process, or
    whm_transfer *from;   // from a rank of this process, which waits with it, or
    void *packed;         // a copy; with `am`: it is on its way there (whm_store), and
    whm_transfer *taker;  // the receive that gets it then, if there is one already
};

typedef struct whm_queue {
    whm_transfer *first, *last;
} whm_queue;
typedef struct whm_arrivals {
    whm_arrival *first, *last;
} whm_arrivals;

enum { WHM_BUCKETS = 256 };

// What each search looks at comes first.
typedef struct whm_match {
    const whm_rank *rank;
    size_t kept;  // arrivals
    whm_arrivals all;
    whm_arrival *spare;
    uint64_t age;        // of the receive posted last
    size_t copied;       // bytes of those that are copies
    whm_transfer *sync;  // synchronous sends that wait for their answer
    uint32_t sync_id;    // of the last
    whm_queue wild;
    whm_queue posted[WHM_BUCKETS];
    whm_arrivals bucket[WHM_BUCKETS];
} whm_match;

// whm_match_begin and whm_match_end make and free those of a rank.
int whm_match_begin(whm_rank *rank);
void whm_match_end(whm_rank *rank);

// whm_match_post adds a receive, whose context, peer and wanted are set; whm_match_unpost takes it back.
void whm_match_post(whm_match *match, whm_transfer *recv);
void whm_match_unpost(whm_match *match, whm_transfer *recv);

// whm_match_posted takes the receive that gets a message, the oldest that accepts it; NULL: there is none.
whm_transfer *whm_match_posted(whm_match *match, const whm_envelope *env);

// whm_match_find returns the first message that (context, source, tag) accepts, wildcards allowed; NULL: none has come.  whm_match_kept is that
// where some are kept.
whm_arrival *whm_match_kept(whm_match *match, uint32_t context, int source, int tag);
static inline whm_arrival *whm_match_find(whm_match *match, uint32_t context, int source, int tag) {
    return match->kept ? whm_match_kept(match, context, source, tag) : NULL;
}

// whm_match_keep adds a message, whm_match_remove takes it out, whm_match_forget ends it.  NULL: no memory.
whm_arrival *whm_match_keep(whm_match *match, const whm_envelope *env, uint64_t bytes);
void whm_match_remove(whm_match *match, whm_arrival *arrival);
void whm_match_forget(whm_match *match, whm_arrival *arrival);

#endif
