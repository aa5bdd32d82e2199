// SPDX-License-Identifier: BSD-3-Clause
//
// How data goes through a tree or along a chain in segments, and where each of them is.
#ifndef WHI_RT_COLL_SEGMENTS_H
#define WHI_RT_COLL_SEGMENTS_H

#include "rt/coll/data.h"

typedef struct whi_coll_segments {
    uint64_t size;   // of one; the last one may be shorter
    uint32_t count;  // at least one
    uint64_t cost;
} whi_coll_segments;

// Where operations combine elements, a segment ends between two of them: it may be longer than the others by less than one element.

// whi_coll_segment_begin returns the byte of `data` with which segment k begins; behind the last one, the end of the data.
static inline uint64_t whi_coll_segment_begin(const whi_coll_data *data,
                                              const whi_coll_segments *cut, uint32_t k) {
    return k < cut->count ? whi_coll_data_border(data, k * cut->size) : data->size;
}

static inline uint64_t whi_coll_segment_size(const whi_coll_data *data,
                                             const whi_coll_segments *cut, uint32_t k) {
    return whi_coll_segment_begin(data, cut, k + 1) - whi_coll_segment_begin(data, cut, k);
}

// whi_coll_segment_room returns the space for one; its elements are aligned there if they can be.
static inline uint64_t whi_coll_segment_room(const whi_coll_segments *cut) {
    enum { SLACK = 64 };
    return (cut->size + SLACK + 15) / 16 * 16;
}

#endif
