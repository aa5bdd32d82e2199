// SPDX-License-Identifier: BSD-3-Clause
//
// Sections: some elements of an array or a group (chare.h), to be called and reduced over together.
//
// Threads: as those of chare.h.
#ifndef WHERRY_SECTION_H
#define WHERRY_SECTION_H

#include <wherry/reduce.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_section {  // plain data, the same on each PE
    uint32_t collection;
    int32_t pe;  // that has made it
    uint32_t number;
    uint32_t reserved;
} wh_section;

// wh_section_create makes a section of `count` elements, at least one: `indices` are as many times `dims` numbers.  Twice the same is once.
//
// It returns at once, and the section can be used and passed on at once, too.
WH_API WH_CHECK wh_status wh_section_create(wh_pe *pe, wh_proxy collection, int dims,
                                            const int32_t *indices, size_t count,
                                            wh_section *section);

// Sections as bytes, for arguments.  WH_EPROTOCOL: the bytes are none.
#define WH_SECTION_SIZE 16
WH_API void wh_section_encode(const wh_section *section, void *bytes);
WH_API WH_CHECK wh_status wh_section_decode(const void *bytes, size_t size, wh_section *section);

// wh_section_send calls an entry of all elements of a section that have not ended, in the order of the sends of each PE.
// The source of the call is a PE that has passed it on.  Members are called wherever they have moved to.
WH_API WH_CHECK wh_status wh_section_send(wh_pe *pe, wh_section section, unsigned entry,
                                          const void *args, size_t size, int64_t ref);

// wh_section_contribute is wh_contribute (reduce.h) over a section that the element belongs to; each section counts for itself.
// It may move between its contributions.
WH_API WH_CHECK wh_status wh_section_contribute(wh_chare *self, wh_section section,
                                                const wh_contribution *parts, size_t count,
                                                size_t part_size, const wh_callback *callback);

// wh_section_destroy ends a section, not its elements, behind what this PE has sent to it.
WH_API WH_CHECK wh_status wh_section_destroy(wh_pe *pe, wh_section section);

#ifdef __cplusplus
}
#endif
#endif
