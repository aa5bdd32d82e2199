// SPDX-License-Identifier: BSD-3-Clause
//
// The elements of a message within a PE, and whether it is what a receive expects: the engine's rules, from outside of it.
#include <wherry/type.h>

#include "rt/channel/channels.h"

static bool are(const whi_channel_elements *what, const wh_type *basic) {
    uint64_t hash;
    int64_t basics;
    return (uint64_t)wh_type_size(basic) * (uint64_t)what->basics == what->bytes &&
           wh_type_signature(basic, what->basics, &hash, &basics) == WH_OK && hash == what->hash;
}

wh_status whi_channel_elements_of(const wh_op_opts *opts, size_t size, whi_channel_elements *what) {
    wh_type_info layout = {.size = sizeof(layout)};
    *what = (whi_channel_elements){.bytes = size};
    if (!opts->type)
        return WH_OK;
    wh_status st = size > INT64_MAX ? WH_EINVAL : wh_type_get_info(opts->type, &layout);
    if (st == WH_OK)
        st = wh_type_signature(opts->type, (int64_t)size, &what->hash, &what->basics);
    if (st != WH_OK)
        return st;
    what->start = layout.true_lb;
    what->bytes = size * (size_t)layout.packed_size;
    what->compared =
        what->bytes && !(opts->flags & WH_OP_UNTYPED) && !are(what, wh_type_basic(WH_TYPE_BYTE));
    return WH_OK;
}

// kind_of returns the one kind of element that there is, or negative.
static int kind_of(const whi_channel_elements *what) {
    for (int id = 0; id < WH_TYPE_IDS; id++)
        if (are(what, wh_type_basic((wh_type_id)id)))
            return id;
    return -1;
}

bool whi_channel_elements_clash(const whi_channel_elements *a, const whi_channel_elements *b) {
    if (!a->compared || !b->compared)
        return false;
    if (a->bytes == b->bytes)
        return a->hash != b->hash || a->basics != b->basics;
    // A message may be the beginning of what is expected, which can be told where each is of one kind.
    int one = kind_of(a), other = kind_of(b);
    return one >= 0 && other >= 0 && one != other;
}
