// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE has of a section: for section.c and contribute.c.
#ifndef WHI_RT_CHARE_BRANCH_H
#define WHI_RT_CHARE_BRANCH_H

#include <wherry/section.h>

#include "rt/chare/reduce.h"
#include "rt/section/members.h"

typedef struct whi_branch {
    uint64_t id;
    whi_collection *in;
    bool known;
    whi_member *members;  // that are at home here, by index
    size_t count, there;  // of them, of those that have not ended
    int children[WHI_TREE_ARITY];
    int child_count;
    whi_reductions *reductions;
    whi_queue early;  // what came before the section
} whi_branch;

static inline uint64_t whi_section_id(const wh_section *s) {
    return (uint64_t)(uint32_t)s->pe << 32 | s->number;
}

// ---- section.c

// whi_branch_of finds or makes what there is of a section.  NULL: no memory.
whi_branch *whi_branch_of(whi_chares *c, uint64_t id, whi_collection *in);

// whi_branch_forget has an element, wherever it is, forget what it has contributed to a section.
WH_CHECK wh_status whi_branch_forget(whi_chares *c, const whi_place_key *key, uint64_t id);

// ---- contribute.c

// whi_branch_leave: a member has ended, and had contributed to so many reductions.
void whi_branch_leave(whi_chares *c, whi_branch *s, whi_member *m, uint64_t contributed);

// whi_branch_take_early does what has come before the section; whi_branch_drop_early forgets it.
void whi_branch_take_early(whi_chares *c, whi_branch *s);
void whi_branch_drop_early(whi_branch *s);

// whi_branch_give takes what a member that is elsewhere has contributed.
void whi_branch_give(whi_chares *c, const whi_head *head, wh_pe_msg *msg);

#endif
