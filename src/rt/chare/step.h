// SPDX-License-Identifier: BSD-3-Clause
//
// A step of load balancing of one array, on one PE: for the files of this folder.
//
// The root asks all PEs down the tree, one question after the other; each PE does its part and sends one answer up when those
// below it have answered.
#ifndef WHI_RT_CHARE_STEP_H
#define WHI_RT_CHARE_STEP_H

#include "base/blob.h"
#include "rt/balance/gossip.h"
#include "rt/chare/chares.h"

typedef struct whi_balance_sum {  // of the PEs that have answered
    double total, max;            // loads; max is that of a PE
    uint64_t elements, fixed, moved;
} whi_balance_sum;

struct whi_balance {
    whi_collection *in;
    uint64_t step;     // the last one that has begun; 0: none
    uint64_t resumed;  // the last one that has ended
    uint8_t asked;     // the question that this PE has to answer
    bool busy;         // it has not answered
    int below;         // PEs below it that have not
    size_t away;       // elements that it has sent away and that have not arrived
    size_t unheard;    // gossip that it has sent and that is not known to have arrived
    whi_balance_sum sum;
    whi_blob up;              // loads of all elements, on their way to the root
    wh_balance_element *own;  // elements of this PE, when loads were asked for, and their keys
    whi_place_key *keys;
    size_t count;
    whi_gossip gossip;
    whi_rng rng;
    uint64_t began;  // root: when the step did
    uint32_t round;  // root: of gossip
    wh_balance_step last;
};

// ---- balance.c: what is kept, and who is told.

whi_balance *whi_balance_of(whi_chares *c,
                            whi_collection *in);  // made if there is none; NULL: no memory
void whi_balance_free(whi_balance *b);
void whi_balance_fail(whi_chares *c, const whi_balance *b, wh_status st);  // ends the job
void whi_balance_tell(whi_chares *c, const whi_balance *b, int dest, whi_balance_what what,
                      const void *data, size_t size);
int whi_balance_parent(const whi_chares *c,
                       const whi_balance *b);  // in the tree; -1: this is the root

// whi_balance_tell_children passes on what this PE was asked, whi_balance_tell_moves to each child only what concerns it and
// those below it.
void whi_balance_tell_children(whi_chares *c, const whi_balance *b, const void *data, size_t size);
void whi_balance_tell_moves(whi_chares *c, whi_balance *b, const void *data, size_t size);

// ---- part.c

// whi_balance_do does what b->asked says.  WH_EPROTOCOL: that, or the data, is none.
WH_CHECK wh_status whi_balance_do(whi_chares *c, whi_balance *b, const void *data, size_t size);

// whi_balance_hear takes gossip.
WH_CHECK wh_status whi_balance_hear(whi_balance *b, const void *data, size_t size, int pes);

// ---- sync.c: what a step does with elements.

// whi_sync_collect notes the elements that are at the sync point and adds them to the sum.  WH_ENOMEM.
WH_CHECK wh_status whi_sync_collect(whi_chares *c, whi_balance *b);

// whi_sync_send has own element `i` leave for a PE, if it is still there and can move.
void whi_sync_send(whi_chares *c, whi_balance *b, size_t i, uint32_t to);

// whi_sync_measure returns the load of the elements that are here now.
double whi_sync_measure(const whi_balance *b);

// whi_sync_resume has an element go on if the step that it waits for has ended.
void whi_sync_resume(whi_chares *c, const whi_balance *b, whi_element *element);

// ---- decide.c: loads and moves as bytes.

// whi_decide_write adds the loads of own elements to b->up.  WH_ENOMEM.
WH_CHECK wh_status whi_decide_write(whi_balance *b, int pe);

// whi_decide has the array's strategy choose, from the loads in b->up, and writes the moves to `moves`, which the caller frees.  It
// is empty when nothing moves.  WH_EPROTOCOL: the loads are none.
WH_CHECK wh_status whi_decide(whi_chares *c, whi_balance *b, whi_blob *moves);

// whi_decide_next reads the moves of a PE, from where *at is.  False: there are no more, or they are none.
typedef struct whi_moves {
    uint32_t pe, count;
    const uint8_t *
        pairs;  // of an element's place in its PE's list, and the PE to which it goes; 4 bytes each
} whi_moves;
bool whi_decide_next(whi_reader *at, int pes, whi_moves *moves);

#endif
