// SPDX-License-Identifier: BSD-3-Clause
//
// Load balancing of chare arrays (chare.h): elements move to PEs that have less to do, at points that the program names.
//
// An array that was made with `balance` (wh_array_opts) measures how long the entries of each element run.  An element that
// has reached its sync point says so with wh_chare_sync and goes on in the entry `resume`.  That entry runs once all
// elements of the array have reached theirs, a strategy has chosen where each of them is to be, and the moves are done.
//
// Strategies, by name:
//     "none"         measures only, and moves nothing.
//     "greedy"       places the elements anew, the largest load first, each on the PE that has least.  It balances best
//                    and moves nearly all.
//     "refine"       moves elements away from the PEs above 1.05 times the mean, as few as it can.  The largest load of a PE
//                    never grows.
//     "distributed"  no PE learns all loads: PEs tell a few others at random which of them have little to do, and those
//                    with too much send elements there.  For jobs of very many PEs or elements.
//     any other      a function that wh_balancer_register has made known.
// All but "none" and "distributed" are computed on one PE, the one that made the array.
//
// Threads: as those of chare.h.
#ifndef WHERRY_BALANCE_H
#define WHERRY_BALANCE_H

#include <wherry/chare.h>

#ifdef __cplusplus
extern "C" {
#endif

// wh_chare_sync says that this element has reached its sync point.  It returns at once; the element's entry `resume` is
// called later, once, without arguments, its reference number being that of the step: 1 for the first sync point of
// the array.  Until then the element still takes calls.
//
// All elements that take part in reductions (wh_contribute) take part here, and a step begins when all of them have called this.
// Nothing waits for an element that is destroyed.  Elements of a WH_ARRAY_INSERTING array wait until wh_array_done.
// An element that cannot move (its class does not say how, or cannot pack it; an entry or thread of it has begun and not ended;
// wh_chare_move would answer WH_EBUSY) is resumed where it is.
//
// WH_ENOTSUP: its array was made without `balance`, or the element was inserted into an array that is not
// WH_ARRAY_INSERTING.  WH_EBUSY: it waits at a sync point already.  WH_ECLOSED: it is being destroyed.  WH_ENOMEM.
WH_API WH_CHECK wh_status wh_chare_sync(wh_chare *self);

// wh_chare_set_load says the element's load for the next step, in place of the seconds that its entries took since the last
// one: any unit, the same for all elements.  WH_EINVAL: it is negative or not finite.  WH_ENOTSUP: its array was made
// without `balance`.
WH_API WH_CHECK wh_status wh_chare_set_load(wh_chare *self, double load);

typedef struct wh_balance_element {  // what a strategy knows of an element
    double load;                     // seconds, or what wh_chare_set_load said; 0 or more
    int32_t pe;                      // where it is
    uint32_t fixed;                  // 1: it cannot move
} wh_balance_element;

// A strategy: it sets to[i], which is elements[i].pe at first, to the PE (0 up to `pes`) where element i of `count` is to be.
// It must use nothing but its arguments.  Any status but WH_OK: nothing moves, and the error handler (wh_chare_on_error)
// is told.  Elements come ordered by PE.
typedef wh_status (*wh_balancer_fn)(const wh_balance_element *elements, size_t count, int pes,
                                    int32_t *to, void *arg);

// wh_balancer_register makes a strategy known under a name; register it like a class, on all PEs.  It is called on the PE that
// made the array.  WH_EINVAL: the name is taken, or one of the names above.
WH_API WH_CHECK wh_status wh_balancer_register(wh_pe *pe, const char *name, wh_balancer_fn fn,
                                               void *arg);

typedef struct wh_balance_step {  // what a step did; loads are sums over the elements of a PE
    size_t size;                  // of the caller's struct, so that it can grow
    uint64_t number;              // 1 for the first step
    uint64_t elements;            // at their sync points
    uint64_t fixed;               // of them, that could not move
    uint64_t moved;
    double max_before, mean_before;  // of all PEs
    double max_after, mean_after;
    double seconds;  // from the last element's call of wh_chare_sync until all moves were done
} wh_balance_step;

// wh_balance_last tells what the last step of an array did, on any PE, from the first `resume` of that step there on.
// WH_ENOTFOUND: no step of such an array has ended on this PE.
WH_API WH_CHECK wh_status wh_balance_last(wh_pe *pe, wh_proxy array, wh_balance_step *step);

#ifdef __cplusplus
}
#endif
#endif
