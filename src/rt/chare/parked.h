// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that wait with their element until it asks for them: in the order in which they came, and by what it can ask for.
#ifndef WHI_RT_CHARE_PARKED_H
#define WHI_RT_CHARE_PARKED_H

#include <stdint.h>

#include <wherry/status.h>

#include "base/hash.h"
#include "base/list.h"

struct whi_call;

typedef struct whi_parked {
    whi_list all;      // as they came
    whi_hash shelves;  // by entry and reference, and by entry alone
    uint64_t looked;   // how many shelves have been looked at, for tests
} whi_parked;

void whi_parked_init(whi_parked *parked);

// whi_parked_put keeps a call behind all others.  WH_ENOMEM: nothing has changed.
WH_CHECK wh_status whi_parked_put(whi_parked *parked, struct whi_call *call);

// whi_parked_take takes out the oldest call of an entry with this reference, or with any (WH_REF_ANY).  NULL: there is none.  What
// else is parked is not looked at.
struct whi_call *whi_parked_take(whi_parked *parked, unsigned entry, int64_t ref);

// whi_parked_pop takes out the oldest call of all, or returns NULL.
struct whi_call *whi_parked_pop(whi_parked *parked);

static inline bool whi_parked_empty(const whi_parked *parked) {
    return whi_list_empty(&parked->all);
}

// What is parked, for dumps: calls of the same entry and reference.
typedef struct whi_parked_group {
    unsigned entry;
    int64_t ref;
    size_t count;
    const struct whi_call *first;
} whi_parked_group;

// whi_parked_next returns one group after the other; *cursor is NULL at first.  False: there are no more.
bool whi_parked_next(const whi_parked *parked, const whi_list **cursor, whi_parked_group *group);

// whi_parked_fini frees what was needed; nothing is parked any more.
void whi_parked_fini(whi_parked *parked);

#endif
