// SPDX-License-Identifier: BSD-3-Clause
//
// Distributed balancing, one PE's part: what PEs tell each other about who has little to do, and what they send there.
//
// After H. Menon and L. Kale, "A Distributed Dynamic Load Balancer for Iterative Applications" (SC 2013).  PEs below the mean
// are told of in rounds, each time to a few PEs at random; then each PE above the mean sends elements to PEs that it
// has heard of, those with least more likely.
//
// Values, no input or output.  Any thread.
#ifndef WHI_RT_BALANCE_GOSSIP_H
#define WHI_RT_BALANCE_GOSSIP_H

#include "base/rng.h"
#include "rt/balance/strategy.h"

enum { WHI_GOSSIP_FANOUT = 2 };  // PEs that a PE tells in a round

typedef struct whi_gossip_entry {  // a PE with less than the mean
    int32_t pe;
    double load;
} whi_gossip_entry;

typedef struct whi_gossip {   // what a PE has heard
    whi_gossip_entry *known;  // ascending by PE, each once
    size_t count, space;
} whi_gossip;

// whi_gossip_rounds returns how many rounds tell nearly all PEs.
int whi_gossip_rounds(int pes);

// whi_gossip_add adds what is not known yet.  WH_ENOMEM: nothing has changed.
WH_CHECK wh_status whi_gossip_add(whi_gossip *g, const whi_gossip_entry *entry);
void whi_gossip_fini(whi_gossip *g);

// whi_gossip_transfer chooses what PE `self`, which has all of `elements`, sends away.  It adds to the loads in `g` what it
// sends there.  *moved is how many.  WH_ENOMEM: `to` is unchanged.
WH_CHECK wh_status whi_gossip_transfer(whi_gossip *g, const wh_balance_element *elements,
                                       size_t count, double mean, whi_rng *rng, int32_t *to,
                                       size_t *moved);

#endif
