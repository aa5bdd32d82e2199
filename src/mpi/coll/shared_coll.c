// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking collectives in memory that all ranks of the communicator share: every byte is copied in once, and out by those that want it.
//
// Long data go in pieces of a slot, so that they stay in the caches.  A reduction combines all operands in the order of ranks; of a long one each rank
// combines a part, and the others copy what it has come to.
#include <assert.h>
#include <string.h>

#include "mpi/coll/shared_bytes.h"

enum {
    ALONE_MOST = 4096,  // bytes that each rank combines by itself: less than another round costs
    PAIR_ALONE_MOST = 8192,  // the same of two ranks, which read as much either way
    NEAR = 16 << 10,         // so that what one operand after the other is combined with stays near
    PAIRS_MOST = 1024,       // bytes of all operands: less than it costs to call an operation
};

static void copy(whm_shared *shared, void *to, const void *from, MPI_Count size) {
    if (size <= 0)
        return;
    assert(to && from);
    if (whm_shared_plain(shared)) {
        memcpy(to, from, (size_t)size);
        return;
    }
    whm_type *byte = whm_type_of(MPI_BYTE);
    whm_shared_note(shared, whm_copy(to, size, byte, from, size, byte));
}

// The rank behind another one, around all of them: a division for each would take longer than a look.
static int behind(const whm_coll *coll, int rank) {
    return rank + 1 < coll->comm->size ? rank + 1 : 0;
}

static void barrier(whm_shared *shared, const whm_coll *coll) {
    (void)whm_shared_write(shared);
    whm_shared_publish(shared);
    for (int i = behind(coll, coll->comm->rank); i != coll->comm->rank; i = behind(coll, i))
        (void)whm_shared_read(shared, i);
}

static void bcast(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    MPI_Count size = whm_block_bytes(data, 0), room = (MPI_Count)whm_shared_room(shared);
    bool is_root = coll->comm->rank == coll->root;
    bool stay = data->type->dense;
    whm_bytes b = is_root ? whm_bytes_pack(shared, data->buf, data->count, data->type, stay)
                          : whm_bytes_of(shared, data->buf, data->count, data->type, stay);
    for (MPI_Count at = 0; at < size; at += room) {
        MPI_Count n = whm_least(room, size - at);
        if (is_root) {
            char *slot = whm_shared_write(shared);
            if (b.at)
                copy(shared, slot, b.at + at, n);
            whm_shared_publish(shared);
        } else {
            const char *slot = whm_shared_read(shared, coll->root);
            if (slot && b.at)
                copy(shared, b.at + at, slot, n);
        }
        if (at + room < size)
            whm_shared_next(shared);
    }
    if (!is_root)
        whm_bytes_unpack(shared, b, data->buf, data->count, data->type);
    whm_bytes_drop(b);
}

// An allgather or an all to all, as bytes.
typedef struct exchange {
    const char *from;
    char *to;
    MPI_Count block, piece;  // of a block, in a round
    bool gather;
} exchange;

// A rank's own block goes straight to its place.  The others of an all to all lie in its slot in the order of the ranks behind it.
static void keep_own(whm_shared *shared, const exchange *x, int rank) {
    if (x->from && x->to)
        copy(shared, x->to + rank * x->block, x->from + (x->gather ? 0 : rank * x->block),
             x->block);
}

static void put(whm_shared *shared, const whm_coll *coll, const exchange *x, MPI_Count at,
                MPI_Count n) {
    int rank = coll->comm->rank;
    char *slot = whm_shared_write(shared);
    if (x->from && x->gather)
        copy(shared, slot, x->from + at, n);
    for (int i = behind(coll, rank); x->from && !x->gather && i != rank; i = behind(coll, i)) {
        copy(shared, slot, x->from + i * x->block + at, n);
        slot += x->piece;
    }
    whm_shared_publish(shared);
}

static void take(whm_shared *shared, const whm_coll *coll, const exchange *x, MPI_Count at,
                 MPI_Count n) {
    int size = coll->comm->size, rank = coll->comm->rank;
    MPI_Count place = x->gather ? 0 : (size - 2) * x->piece, step = x->gather ? 0 : x->piece;
    for (int from = behind(coll, rank); from != rank; from = behind(coll, from)) {
        const char *slot = whm_shared_read(shared, from);
        if (slot && x->to)
            copy(shared, x->to + from * x->block + at, slot + place, n);
        place -= step;
    }
}

static void exchange_all(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *in = &coll->send, *out = &coll->recv;
    int size = coll->comm->size;
    exchange x = {.block = whm_block_bytes(out, 0), .gather = coll->kind == WHM_ALLGATHER};
    bool in_place = whm_in_place(in);
    MPI_Count room = (MPI_Count)whm_shared_room(shared);
    x.piece = x.gather ? room : room / (size - 1);
    MPI_Count count = (x.gather ? 1 : size) * (in_place ? out->count : in->count);
    whm_type *type = in_place ? out->type : in->type;
    void *mine = !in_place ? in->buf : whm_block_at(out, x.gather ? coll->comm->rank : 0);
    whm_bytes from = whm_bytes_pack(shared, mine, count, type, type->dense);
    whm_bytes to = whm_bytes_of(shared, out->buf, size * out->count, out->type, out->type->dense);
    x.from = from.at;
    x.to = to.at;
    if (!in_place || to.own)
        keep_own(shared, &x, coll->comm->rank);
    for (MPI_Count at = 0; at < x.block; at += x.piece) {
        MPI_Count n = whm_least(x.piece, x.block - at);
        put(shared, coll, &x, at, n);
        take(shared, coll, &x, at, n);
        if (at + x.piece < x.block)
            whm_shared_next(shared);
    }
    whm_bytes_unpack(shared, to, out->buf, size * out->count, out->type);
    whm_bytes_drop(from);
    whm_bytes_drop(to);
}

// ---- Reductions.

typedef struct reduction {
    whm_shared *shared;
    const whm_coll *coll;
    whm_type *type;
    const char *operand;
    char *result;  // NULL: this rank does not want it
} reduction;

// Short operands lie side by side, so that few calls of the operation combine all neighbours, then their results.
static void combine_pairs(const reduction *r, const char *const *slots, char *to, MPI_Count count) {
    const char *runs[WHM_SHARED_RANKS];
    _Alignas(64) char room[2 * PAIRS_MOST];
    memcpy(runs, slots, (size_t)r->coll->comm->size * sizeof(*runs));
    size_t bytes = (size_t)(count * r->type->size);
    char *lower = room;
    for (int n = r->coll->comm->size; n > 1; n = (n + 1) / 2) {
        int pairs = n / 2;
        char *upper = lower + (size_t)pairs * bytes;
        for (int i = 0; i < pairs; i++) {
            memcpy(lower + (size_t)i * bytes, runs[2 * i], bytes);
            memcpy(upper + (size_t)i * bytes, runs[2 * i + 1], bytes);
            runs[i] = upper + (size_t)i * bytes;
        }
        if (n % 2)
            runs[pairs] = runs[n - 1];
        whm_shared_note(r->shared, whm_reduce(lower, upper, pairs * count, r->type, r->coll->op));
        lower = upper + (size_t)pairs * bytes;
    }
    memcpy(to, runs[0], bytes);
}

// Combines elements of all slots of this round at `to`, which holds them at the end.  `own` takes the place of this rank's slot.
static void combine(const reduction *r, const char *own, char *to, MPI_Count first,
                    MPI_Count count) {
    const char *slots[WHM_SHARED_RANKS];
    int size = r->coll->comm->size, rank = r->coll->comm->rank;
    bool all = true;
    slots[rank] = own;
    for (int from = behind(r->coll, rank); from != rank; from = behind(r->coll, from)) {
        slots[from] = whm_shared_read(r->shared, from);
        all = all && slots[from];
    }
    MPI_Count width = r->type->size;
    if (all && first == 0 && size > 3 && count * width * size <= PAIRS_MOST) {
        combine_pairs(r, slots, to, count);
        return;
    }
    MPI_Count most = count * width <= NEAR ? count : NEAR / width;
    for (MPI_Count n, at = 0; all && at < count; at += n) {
        n = whm_least(most, count - at);
        MPI_Count offset = (first + at) * width;
        memcpy(to + at * width, slots[size - 1] + offset, (size_t)(n * width));
        for (int i = size - 2; i >= 0; i--)
            whm_shared_note(
                r->shared, whm_reduce(slots[i] + offset, to + at * width, n, r->type, r->coll->op));
    }
}

static const char *put_operand(const reduction *r, MPI_Count at, MPI_Count n) {
    char *slot = whm_shared_write(r->shared);
    copy(r->shared, slot, r->operand + at * r->type->size, n * r->type->size);
    whm_shared_publish(r->shared);
    return slot;
}

// Short: each rank combines all of it.
static void reduce_alike(const reduction *r, MPI_Count count) {
    _Alignas(64) char result[PAIR_ALONE_MOST];
    bool direct = whm_shared_plain(r->shared);
    const char *own = put_operand(r, 0, count);
    if (direct && r->operand != r->result)
        own = r->operand;  // the slot's line has gone to those that read it
    combine(r, own, direct ? r->result : result, 0, count);
    if (!direct)
        copy(r->shared, r->result, result, count * r->type->size);
}

// What the root has nobody else reads.
static void combine_at_root(const reduction *r, MPI_Count at, MPI_Count n) {
    MPI_Count offset = at * r->type->size, size = n * r->type->size;
    bool plain = whm_shared_plain(r->shared), direct = plain && r->operand != r->result;
    const char *own = r->operand + offset;
    if (!plain) {
        char *slot = whm_shared_write(r->shared);
        copy(r->shared, slot, own, size);
        own = slot;
    }
    char *to = direct ? r->result + offset : whm_shared_scratch(r->shared);
    if (!to)
        return;
    combine(r, own, to, 0, n);
    if (!direct)
        copy(r->shared, r->result + offset, to, size);
}

static void reduce_at_root(const reduction *r, MPI_Count count) {
    MPI_Count room = (MPI_Count)whm_shared_room(r->shared);
    MPI_Count most = count * r->type->size <= room ? count : room / r->type->size;
    for (MPI_Count at = 0; at < count; at += most) {
        MPI_Count n = whm_least(most, count - at);
        if (r->result)
            combine_at_root(r, at, n);
        else
            (void)put_operand(r, at, n);
        if (at + most < count)
            whm_shared_next(r->shared);
    }
}

// Takes the parts that each rank has combined.
static void take_parts(const reduction *r, MPI_Count at, MPI_Count n) {
    int size = r->coll->comm->size, rank = r->coll->comm->rank;
    for (int i = 0; i < size; i++) {
        int from = (rank + i) % size;
        MPI_Count begin = whm_part_begin(n, size, from), end = whm_part_begin(n, size, from + 1);
        const char *slot = whm_shared_read(r->shared, from);
        if (slot)
            copy(r->shared, r->result + (at + begin) * r->type->size, slot,
                 (end - begin) * r->type->size);
    }
}

// What this rank combines itself nobody else reads.
static const char *put_but_own(const reduction *r, MPI_Count at, MPI_Count n) {
    if (!whm_shared_plain(r->shared))
        return put_operand(r, at, n);
    int size = r->coll->comm->size, rank = r->coll->comm->rank;
    MPI_Count width = r->type->size, begin = whm_part_begin(n, size, rank) * width,
              end = whm_part_begin(n, size, rank + 1) * width;
    const char *operand = r->operand + at * width;
    char *slot = whm_shared_write(r->shared);
    copy(r->shared, slot, operand, begin);
    copy(r->shared, slot + end, operand + end, n * width - end);
    whm_shared_publish(r->shared);
    return operand;
}

static void reduce_parts(const reduction *r, MPI_Count count) {
    int size = r->coll->comm->size, rank = r->coll->comm->rank;
    MPI_Count most = (MPI_Count)whm_shared_room(r->shared) / r->type->size;
    for (MPI_Count at = 0; at < count; at += most) {
        MPI_Count n = whm_least(most, count - at), begin = whm_part_begin(n, size, rank);
        const char *own = put_but_own(r, at, n);
        char *part = whm_shared_ahead(r->shared);
        combine(r, own, part, begin, whm_part_begin(n, size, rank + 1) - begin);
        whm_shared_next(r->shared);
        whm_shared_publish(r->shared);
        if (r->result)
            take_parts(r, at, n);
        if (at + most < count)
            whm_shared_next(r->shared);
    }
}

// With n bytes, R ranks and P processors the root combines (R - 1) n by itself, while others copy as much; in parts all copy, combine, and copy the
// result, (2 R + 1) n / P by each processor.
static bool root_suffices(const whm_shared *shared, const whm_coll *coll) {
    int ranks = coll->comm->size;
    return (ranks - 1) * whm_shared_processors(shared) <= 2 * ranks + 1;
}

static void reduce(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    bool is_reduce = coll->kind == WHM_REDUCE,
         wanted = !is_reduce || coll->comm->rank == coll->root;
    reduction r = {.shared = shared,
                   .coll = coll,
                   .type = data->type,
                   .operand = whm_operand(coll),
                   .result = wanted ? data->buf : NULL};
    bool is_short =
        data->count * r.type->size <= (coll->comm->size == 2 ? PAIR_ALONE_MOST : ALONE_MOST);
    if (is_reduce && (is_short || root_suffices(shared, coll)))
        reduce_at_root(&r, data->count);
    else if (is_short)
        reduce_alike(&r, data->count);
    else
        reduce_parts(&r, data->count);
}

// ---- Which.

// Up to `most` bytes.  Longer ones go by messages where each rank has a processor of its own: a receiver reads them once, where they lie.
typedef struct shared_way {
    void (*carry_out)(whm_shared *shared, const whm_coll *coll);
    MPI_Count most;
} shared_way;

#define KIB ((MPI_Count)1 << 10)
static const shared_way ways[WHM_COLL_KINDS] = {
    [WHM_BARRIER] = {barrier, 0},
    [WHM_BCAST] = {bcast, 8 * KIB},
    [WHM_REDUCE] = {reduce, PTRDIFF_MAX},
    [WHM_ALLREDUCE] = {reduce, 512 * KIB},
    [WHM_ALLGATHER] = {exchange_all, 32 * KIB},
    [WHM_ALLTOALL] = {exchange_all, 32 * KIB},
};

// What all ranks know alike decides.  The program's functions want the program's layout, which may be another one at each rank.
static bool fits(const whm_coll *coll) {
    return ways[coll->kind].carry_out &&
           (!coll->op || (coll->op->predefined && coll->recv.type->dense));
}

bool whm_shared_run(const whm_coll *coll, int *error) {
    whm_shared *shared = fits(coll) ? whm_shared_of(coll->comm) : NULL;
    if (!shared)
        return false;
    const shared_way *way = &ways[coll->kind];
    MPI_Count size = coll->kind == WHM_BARRIER ? 0 : whm_block_bytes(&coll->recv, 0);
    *error = MPI_SUCCESS;
    if (size == 0 && coll->kind != WHM_BARRIER)  // all ranks know so, and nobody waits
        return true;
    if (size > WHM_SHARED_BRIEF) {
        if (whm_shared_take_over(shared, coll, size, error))
            return true;
        if (size > way->most && !whm_shared_crowded(shared)) {
            *error = whm_shared_meet(shared, coll, size);
            return *error != MPI_SUCCESS;
        }
    }
    whm_shared_begin(shared, coll, size,
                     coll->kind == WHM_ALLTOALL ? (coll->comm->size - 1) * size : size);
    way->carry_out(shared, coll);
    *error = whm_shared_end(shared);
    return true;
}
