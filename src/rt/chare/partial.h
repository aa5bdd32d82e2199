// SPDX-License-Identifier: BSD-3-Clause
//
// A part of a reduction: what some contributors have made together, and where it is to go.  Values, no input or output.
#ifndef WHI_RT_CHARE_PARTIAL_H
#define WHI_RT_CHARE_PARTIAL_H

#include <wherry/reduce.h>

enum { WHI_PARTIAL_PARTS_MAX = 64 };

typedef struct whi_partial_part {
    wh_reducer reducer;
    wh_reduce op;
    wh_type_id type;
    uint64_t function;
    void *data;  // owned
    size_t size, space;
} whi_partial_part;

typedef struct whi_partial {
    uint8_t callback[WH_CALLBACK_SIZE];
    size_t count;
    whi_partial_part parts[];
} whi_partial;

// How custom parts are combined.  False: the function is not known.
typedef struct whi_partial_ops {
    bool (*combine)(void *arg, uint64_t function, void *inout, const void *in, size_t size);
    void *arg;
} whi_partial_ops;

// whi_partial_make makes one of an element's contributions.  WH_EINVAL, WH_ENOTSUP: they are none.
WH_CHECK wh_status whi_partial_make(const wh_proxy *element, const wh_contribution *parts,
                                    size_t count, const wh_callback *callback,
                                    whi_partial **partial);

// whi_partial_merge adds `from`, which stays the caller's.  WH_EINVAL: they do not go together, or a function is not
// known; *why says so.
WH_CHECK wh_status whi_partial_merge(whi_partial *into, const whi_partial *from,
                                     const whi_partial_ops *ops, const char **why);

// whi_partial_value makes the callback's value: *value is to be freed.
WH_CHECK wh_status whi_partial_value(const whi_partial *partial, void **value, size_t *size);

size_t whi_partial_encoded_size(const whi_partial *partial);
void whi_partial_encode(const whi_partial *partial, void *bytes);
// WH_EPROTOCOL: the bytes are none.
WH_CHECK wh_status whi_partial_decode(const void *bytes, size_t size, whi_partial **partial);
void whi_partial_free(whi_partial *partial);

#endif
