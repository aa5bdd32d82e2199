// SPDX-License-Identifier: BSD-3-Clause
//
// What the files behind pack.h share: the checks that their calls begin with.
#ifndef WHI_TYPE_PACK_H
#define WHI_TYPE_PACK_H

#include <wherry/pack.h>

#include "type/move.h"
#include "type/plan.h"

// whi_packed_check checks handle, count and buffer of a call and returns how many packed bytes
// there are.
WH_CHECK wh_status whi_packed_check(const char *function, const void *buf, int64_t count,
                                    const wh_type *type, int64_t *total);

// whi_pack_small packs, or unpacks, the whole of a few elements whose type has its plan, when all was checked before.
enum {
    WHI_PACK_SMALL = WHI_NONTEMPORAL_LEAST - 1
};  // packed bytes: they go through the cache, and need no helpers
void whi_pack_small(void *buf, int64_t count, const wh_type *type, void *packed,
                    whi_direction direction);

// whi_order_part completes an order that has its elements and its direction: up to `max` bytes of
// the packed bytes from `offset` on.
WH_CHECK wh_status whi_order_part(const char *function, whi_order *order, size_t offset,
                                  const void *packed, size_t max, const size_t *actual);

// whi_iov_runs writes runs `first` and following of one element of a layout to iov, up to `max`;
// returns how many.  Addresses begin at `origin`.
int64_t whi_iov_runs(const whi_layout *layout, uintptr_t origin, int64_t first, struct iovec *iov,
                     int64_t max);

// whi_signature_code returns a number that tells the elements of two messages apart: 0 where they are bytes, and go with
// everything; below WHI_SIGNATURE_MIXED where all are of one kind.  Equal signatures have equal codes; different ones may
// have them, too, once in 2^15.
enum { WHI_SIGNATURE_MIXED = 1 << 15 };
uint16_t whi_signature_code(int64_t count, const wh_type *type);

// whi_signature_clash says whether a message with this code is not what a receive expects.  A mixed one can only be compared
// where both are whole: a message may be the beginning of what is expected.
static inline bool whi_signature_clash(uint16_t expected, uint16_t code, bool same_size) {
    bool mixed = (expected | code) & WHI_SIGNATURE_MIXED;
    return expected && code && expected != code && (!mixed || same_size);
}

#endif
