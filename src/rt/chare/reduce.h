// SPDX-License-Identifier: BSD-3-Clause
//
// The reductions of one collection, or of one section of it, on one PE: for the files of this folder.
#ifndef WHI_RT_CHARE_REDUCE_H
#define WHI_RT_CHARE_REDUCE_H

#include "base/list.h"
#include "rt/chare/chares.h"
#include "rt/chare/partial.h"

struct whi_reductions {
    whi_list link;  // of those that have something to send
    uint32_t collection;
    uint64_t section;  // 0: of the whole collection
    int parent;        // PE; negative: this is the root
    int root;
    int children;     // PEs that send to this one
    whi_list rounds;  // struct round, by number
    // Of the root.
    uint64_t next;     // number of the first that has not ended
    uint64_t members;  // that take part in it
    int awaited;       // PEs that have not said how many members they have made
    whi_list leavers;  // struct leaver: members that end before a later one
};

// whi_reductions_add adds a contribution of a member that is here.  It takes `partial`.  WH_ENOMEM: nothing was added.
WH_CHECK wh_status whi_reductions_add(whi_chares *c, whi_reductions *of, uint64_t number,
                                      whi_partial *partial, size_t members_here);

// whi_contribution makes a partial of what an element has given to `call`.
WH_CHECK wh_status whi_contribution(const wh_chare *self, const char *call,
                                    const wh_contribution *parts, size_t count, size_t part_size,
                                    const wh_callback *callback, whi_partial **partial);

// whi_section_reductions returns those of a section, and how many members are here; NULL: it is none.
whi_reductions *whi_section_reductions(whi_chares *c, uint64_t id, size_t *there);

// whi_reductions_leave says that a member takes part no more from a number on; whi_reductions_joined how many members a
// PE has made.
void whi_reductions_leave(whi_chares *c, whi_reductions *of, uint64_t number);
void whi_reductions_joined(whi_chares *c, whi_reductions *of, uint64_t count);

// whi_reductions_take takes what another PE has sent for it.
void whi_reductions_take(whi_chares *c, whi_reductions *of, const whi_head *head, wh_pe_msg *msg,
                         size_t members_here);

// whi_section_is_made says whether there are sections of a collection that have members at home here.
bool whi_section_is_made(const whi_chares *c, const whi_collection *in);

// whi_section_went says that an element that is at home here has ended, with what it has contributed to sections.
void whi_section_went(whi_chares *c, const whi_place_key *key, const whi_share *shares,
                      uint32_t count);

// whi_reductions_missing says, at the root, how many contributions the first reduction under way has, of how many.  False: none is.
bool whi_reductions_missing(const whi_reductions *of, uint64_t *count, uint64_t *members);

void whi_reductions_free(whi_reductions *of);
whi_reductions *whi_reductions_new(uint32_t collection, uint64_t section, int parent, int children);

#endif
