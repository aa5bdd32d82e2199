// SPDX-License-Identifier: BSD-3-Clause
#include "rt/section/members.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

static int compare(const void *a, const void *b) {
    const whi_member *x = a, *y = b;
    if (x->pe != y->pe)
        return x->pe < y->pe ? -1 : 1;
    for (int i = 0; i < WH_CHARE_DIMS_MAX; i++)
        if (x->index[i] != y->index[i])
            return x->index[i] < y->index[i] ? -1 : 1;
    return 0;
}

// Seen from a PE, others are as far away as it takes to get there by adding one.
static int distance(int pe, int self, int pes) {
    return (pe - self + pes) % pes;
}

size_t whi_members_sort(whi_member *members, size_t count, int self, int pes) {
    for (size_t i = 0; i < count; i++)
        members[i].pe = distance(members[i].pe, self, pes);
    qsort(members, count, sizeof(*members), compare);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!kept || compare(&members[kept - 1], &members[i]) != 0)
            members[kept++] = members[i];
    for (size_t i = 0; i < kept; i++)
        members[i].pe = (members[i].pe + self) % pes;
    return kept;
}

whi_member *whi_members_find(whi_member *members, size_t count, int pe, const int32_t *index) {
    whi_member key = {.pe = pe};
    memcpy(key.index, index, sizeof(key.index));
    return count ? bsearch(&key, members, count, sizeof(key), compare) : NULL;
}

size_t whi_members_encoded_size(int dims, size_t count) {
    return 16 + count * 4 * ((size_t)dims + 1);
}

void whi_members_encode(const whi_member *members, size_t count, int dims, int parent,
                        void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, whi_members_encoded_size(dims, count));
    whi_writer_u64(&to, (uint64_t)(int64_t)parent);
    whi_writer_u64(&to, count);
    for (size_t i = 0; i < count; i++) {
        for (int d = 0; d < dims; d++)
            whi_writer_u32(&to, (uint32_t)members[i].index[d]);
        whi_writer_u32(&to, (uint32_t)members[i].pe);
    }
}

// follows says whether a member may stand behind another one.
static bool follows(whi_member a, whi_member b, int self, int pes) {
    a.pe = distance(a.pe, self, pes);
    b.pe = distance(b.pe, self, pes);
    return compare(&a, &b) < 0;
}

static wh_status read_members(whi_reader *from, int dims, int self, int pes, bool own,
                              whi_member *members, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (int d = 0; d < dims; d++)
            members[i].index[d] = (int32_t)whi_reader_u32(from);
        members[i].pe = (int32_t)whi_reader_u32(from);
        if (members[i].pe < 0 || members[i].pe >= pes)
            return WH_EPROTOCOL;
        if (!own && (i ? !follows(members[i - 1], members[i], self, pes) : members[i].pe != self))
            return WH_EPROTOCOL;
    }
    return whi_reader_done(from) ? WH_OK : WH_EPROTOCOL;
}

wh_status whi_members_decode(const void *bytes, size_t size, int dims, int self, int pes,
                             int *parent, whi_member **out, size_t *out_count) {
    whi_reader from;
    whi_reader_init(&from, bytes, size);
    int64_t above = (int64_t)whi_reader_u64(&from);
    uint64_t count = whi_reader_u64(&from);
    if (!whi_reader_ok(&from) || above < -1 || above >= pes || above == self || !count ||
        count > WHI_MEMBERS_MAX || size != whi_members_encoded_size(dims, count))
        return WH_EPROTOCOL;
    whi_member *members = whi_calloc(count, sizeof(*members));
    if (!members)
        return WH_ENOMEM;
    wh_status st = read_members(&from, dims, self, pes, above < 0, members, count);
    if (st != WH_OK) {
        whi_free(members);
        return st;
    }
    *parent = (int)above;
    *out = members;
    *out_count = count;
    return WH_OK;
}
