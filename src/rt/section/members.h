// SPDX-License-Identifier: BSD-3-Clause
//
// The members of a section, as a list, and as the bytes by which PEs tell each other of it.
#ifndef WHI_RT_SECTION_MEMBERS_H
#define WHI_RT_SECTION_MEMBERS_H

#include <wherry/chare.h>

enum { WHI_MEMBERS_MAX = 1 << 24 };

typedef struct whi_member {
    int32_t index[WH_CHARE_DIMS_MAX];
    int32_t pe;
    bool gone;
    uint64_t contributed;  // so many contributions have come; gone: to so many reductions
} whi_member;

// whi_members_sort orders a list by PE, beginning with `self`, and by index, and takes out what is there twice.  Returns how many
// are left.
size_t whi_members_sort(whi_member *members, size_t count, int self, int pes);

// whi_members_find finds an element of PE `pe` among that PE's members, or returns NULL.
whi_member *whi_members_find(whi_member *members, size_t count, int pe, const int32_t *index);

// As bytes: the parent in the section's tree, -1 for its root, the number of members, then each one's index and PE.
size_t whi_members_encoded_size(int dims, size_t count);
void whi_members_encode(const whi_member *members, size_t count, int dims, int parent, void *bytes);

// whi_members_decode reads a list that was sent to PE `self`; one without a parent is its own, in any order, and others begin with
// its own members and are sorted.  The caller frees *members.  WH_EPROTOCOL: it is no such list.
WH_CHECK wh_status whi_members_decode(const void *bytes, size_t size, int dims, int self, int pes,
                                      int *parent, whi_member **members, size_t *count);

#endif
