// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: lists of the members of a section that other PEs send.  The first two bytes: dimensions, the receiver.
//
// What decodes encodes to the same bytes, each member of the receiver's is found in it, and a list of the receiver's own
// becomes, sorted, one that could have been sent.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/section/members.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { PES = 5 };

static void *encode(const whi_member *members, size_t count, int dims, int parent, size_t *size) {
    *size = whi_members_encoded_size(dims, count);
    void *bytes = malloc(*size);
    MUST(bytes);
    whi_members_encode(members, count, dims, parent, bytes);
    return bytes;
}

// sort_own does what the maker of a section does, whose first member may be another PE's.
static void sort_own(whi_member *members, size_t count, int dims, int self) {
    whi_member *again;
    int parent;
    size_t size, found, kept = whi_members_sort(members, count, self, PES);
    MUST(kept >= 1 && kept <= count);
    int first = members[0].pe, above = (first + 1) % PES;
    void *bytes = encode(members, kept, dims, above, &size);
    MUST(whi_members_decode(bytes, size, dims, first, PES, &parent, &again, &found) == WH_OK);
    MUST(parent == above && found == kept);
    MUST(memcmp(again, members, kept * sizeof(*members)) == 0);
    free(again);
    free(bytes);
}

static void check(const uint8_t *bytes, size_t size, int dims, int self) {
    whi_member *members;
    int parent;
    size_t count, used;
    if (whi_members_decode(bytes, size, dims, self, PES, &parent, &members, &count) != WH_OK)
        return;
    void *same = encode(members, count, dims, parent, &used);
    MUST(used == size && memcmp(same, bytes, size) == 0);
    free(same);
    for (size_t here = 0; parent >= 0 && here < count && members[here].pe == self; here++)
        MUST(whi_members_find(members, here + 1, self, members[here].index) == &members[here]);
    if (parent < 0)
        sort_own(members, count, dims, self);
    free(members);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    uint8_t *copy = malloc(size - 1);  // of its size, so that a sanitizer sees its end
    MUST(copy);
    memcpy(copy, data + 2, size - 2);
    check(copy, size - 2, 1 + data[0] % WH_CHARE_DIMS_MAX, data[1] % PES);
    free(copy);
    return 0;
}
