// SPDX-License-Identifier: BSD-3-Clause
//
// What the public calls have in common.
#ifndef WHI_RT_COLL_CALL_H
#define WHI_RT_COLL_CALL_H

#include "rt/coll/op.h"

// whi_coll_check_root logs, and returns WH_EINVAL, if there is no such rank.
WH_CHECK wh_status whi_coll_check_root(const wh_team *team, uint32_t root, const char *function);

// whi_coll_take makes arguments of what a user says of `from` and `to`, each of so many blocks: of the same bytes.  With
// WH_IN_PLACE both are `to`.  An error leaves nothing to undo.
typedef struct whi_coll_side {
    const void *buf;
    int64_t count;
    const wh_type *type;
    uint32_t blocks;  // 0: there is no such side here
} whi_coll_side;
WH_CHECK wh_status whi_coll_take(const whi_coll_side *from, const whi_coll_side *to,
                                 const char *function, whi_coll_args *args);

// whi_coll_take_reduction does so of data of one type, with a reduction, which has to be defined on that.
WH_CHECK wh_status whi_coll_take_reduction(const whi_coll_side *from, const whi_coll_side *to,
                                           const wh_reduction *how, const char *function,
                                           whi_coll_args *args);

// whi_coll_may_wait is wh_request_may_wait of a team's worker.
WH_CHECK wh_status whi_coll_may_wait(const wh_team *team);

// WHI_COLL_WAITED makes a call, whose last argument is &waited, and waits for what it has started.
#define WHI_COLL_WAITED(team, timeout_ms, call)                                                    \
    ({                                                                                             \
        wh_request *waited = NULL;                                                                 \
        wh_status waited_status = whi_coll_may_wait(team);                                         \
        if (waited_status == WH_OK)                                                                \
            waited_status = (call);                                                                \
        waited_status == WH_PENDING ? wh_request_finish(waited, timeout_ms, NULL) : waited_status; \
    })

#endif
