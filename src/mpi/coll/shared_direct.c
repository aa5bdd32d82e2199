// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking collectives of large data that stay where they are: ranks publish addresses in shared memory, and whoever wants the data reads them there, once.
//
// A call ends when all that read a rank's memory have done so.  Memory that is not the host's, or whose layout has gaps, is packed first.
#include <string.h>

#include "mpi/coll/shared_bytes.h"

// Others read dense elements where they lie, if that is the host's memory.
static bool stays(const whm_shared *shared, const whm_type *type) {
    return type->dense && whm_shared_plain(shared);
}

static whm_bytes room_of(whm_shared *shared, const whm_blocks *data) {
    return whm_bytes_of(shared, data->buf, data->count, data->type, stays(shared, data->type));
}

static whm_bytes packed(whm_shared *shared, const void *buf, MPI_Count count, whm_type *type) {
    return whm_bytes_pack(shared, buf, count, type, stays(shared, type));
}

// ---- Moving.

static void bcast(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    if (coll->comm->rank == coll->root) {
        whm_bytes b = packed(shared, data->buf, data->count, data->type);
        whm_shared_offer(shared, b.at);
        whm_shared_settle(shared);
        whm_bytes_drop(b);
        return;
    }
    whm_bytes b = room_of(shared, data);
    const char *from = whm_shared_offered(shared, coll->root);
    if (from && b.at && whm_shared_fetch(shared, coll->root, b.at, from, whm_block_bytes(data, 0)))
        whm_bytes_unpack(shared, b, data->buf, data->count, data->type);
    whm_bytes_drop(b);
}

// An allgather or an all to all.  What is sent in place is copied first, where others' blocks come to its place.
typedef struct exchange {
    whm_bytes from, to;
    MPI_Count block;
    bool gather;
} exchange;

static whm_bytes outgoing(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *in = &coll->send, *out = &coll->recv;
    bool gather = coll->kind == WHM_ALLGATHER;
    int blocks = gather ? 1 : coll->comm->size;
    if (!whm_in_place(in))
        return packed(shared, in->buf, blocks * in->count, in->type);
    if (gather)
        return packed(shared, whm_block_at(out, coll->comm->rank), out->count, out->type);
    return whm_bytes_pack(shared, out->buf, blocks * out->count, out->type, false);
}

static void take(whm_shared *shared, const whm_coll *coll, const exchange *x) {
    int size = coll->comm->size, rank = coll->comm->rank;
    MPI_Count mine = x->gather ? 0 : rank * x->block;
    for (int i = 1; i < size; i++) {
        int peer = (rank + i) % size;
        const char *from = whm_shared_offered(shared, peer);
        if (from && x->to.at)
            (void)whm_shared_fetch(shared, peer, x->to.at + peer * x->block, from + mine, x->block);
    }
    const char *own = x->from.at ? x->from.at + mine : NULL;
    char *place = x->to.at ? x->to.at + rank * x->block : NULL;
    if (own && place && own != place)
        memcpy(place, own, (size_t)x->block);
}

static void exchange_all(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *out = &coll->recv;
    MPI_Count count = coll->comm->size * out->count;
    exchange x = {.from = outgoing(shared, coll),
                  .to = whm_bytes_of(shared, out->buf, count, out->type, stays(shared, out->type)),
                  .block = whm_block_bytes(out, 0),
                  .gather = coll->kind == WHM_ALLGATHER};
    whm_shared_offer(shared, x.from.at);
    take(shared, coll, &x);
    whm_bytes_unpack(shared, x.to, out->buf, count, out->type);
    whm_shared_settle(shared);
    whm_bytes_drop(x.from);
    whm_bytes_drop(x.to);
}

// ---- Reductions.

typedef struct reduction {
    whm_shared *shared;
    const whm_coll *coll;
    whm_type *type;
    whm_bytes operand, result;
    const char *operands[WHM_SHARED_RANKS];
} reduction;

// Half of the scratch memory for what is read, half for a result whose place holds an operand.
static MPI_Count piece_of(const reduction *r) {
    return WHM_SHARED_SCRATCH / 2 / r->type->size;
}

// Combines all ranks' elements, in the order of ranks, at `to`.
static void combine_piece(const reduction *r, char *to, MPI_Count first, MPI_Count count) {
    int size = r->coll->comm->size, rank = r->coll->comm->rank;
    MPI_Count at = first * r->type->size, n = count * r->type->size;
    char *scratch = whm_shared_scratch(r->shared);
    bool good = scratch != NULL;
    for (int i = size - 1; good && i >= 0; i--) {
        bool begins = i == size - 1;
        const char *in = r->operands[i] + at;
        if (i != rank) {
            good = whm_shared_fetch(r->shared, i, begins ? to : scratch, in, n);
            in = scratch;
        } else if (begins) {
            memcpy(to, in, (size_t)n);
        }
        if (good && !begins)
            whm_shared_note(r->shared, whm_reduce(in, to, count, r->type, r->coll->op));
    }
}

static void combine(const reduction *r, MPI_Count first, MPI_Count end) {
    bool apart = r->operand.at != r->result.at;
    char *scratch = whm_shared_scratch(r->shared);
    for (MPI_Count n; scratch && first < end; first += n) {
        n = whm_least(piece_of(r), end - first);
        char *place = r->result.at + first * r->type->size;
        char *to = apart ? place : scratch + WHM_SHARED_SCRATCH / 2;
        combine_piece(r, to, first, n);
        if (!apart)
            memcpy(place, to, (size_t)(n * r->type->size));
    }
}

// Whether there is all that is to be combined.
static bool find_operands(reduction *r) {
    bool all = r->operand.at && r->result.at;
    for (int i = 0; i < r->coll->comm->size; i++) {
        r->operands[i] =
            i == r->coll->comm->rank ? r->operand.at : whm_shared_offered(r->shared, i);
        all = all && r->operands[i];
    }
    return all;
}

// Each rank has combined a part of the result.
static void take_parts(const reduction *r, MPI_Count count) {
    int size = r->coll->comm->size, rank = r->coll->comm->rank;
    for (int i = 1; i < size; i++) {
        int peer = (rank + i) % size;
        const char *from = whm_shared_offered(r->shared, peer);
        MPI_Count begin = whm_part_begin(count, size, peer) * r->type->size,
                  end = whm_part_begin(count, size, peer + 1) * r->type->size;
        if (from && r->result.at)
            (void)whm_shared_fetch(r->shared, peer, r->result.at + begin, from + begin,
                                   end - begin);
    }
}

static void allreduce(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    int size = coll->comm->size, rank = coll->comm->rank;
    reduction r = {.shared = shared,
                   .coll = coll,
                   .type = data->type,
                   .operand = packed(shared, whm_operand(coll), data->count, data->type),
                   .result = room_of(shared, data)};
    whm_shared_offer(shared, r.operand.at);
    if (find_operands(&r))
        combine(&r, whm_part_begin(data->count, size, rank),
                whm_part_begin(data->count, size, rank + 1));
    whm_shared_next(shared);
    whm_shared_offer(shared, r.result.at);
    take_parts(&r, data->count);
    whm_bytes_unpack(shared, r.result, data->buf, data->count, data->type);
    whm_shared_settle(shared);
    whm_bytes_drop(r.operand);
    whm_bytes_drop(r.result);
}

// The root combines all of it: of two ranks, either way each byte is read once.
static void reduce(whm_shared *shared, const whm_coll *coll) {
    const whm_blocks *data = &coll->recv;
    bool is_root = coll->comm->rank == coll->root;
    reduction r = {.shared = shared,
                   .coll = coll,
                   .type = data->type,
                   .operand = packed(shared, whm_operand(coll), data->count, data->type)};
    whm_shared_offer(shared, r.operand.at);
    if (is_root) {
        r.result = room_of(shared, data);
        if (find_operands(&r))
            combine(&r, 0, data->count);
        whm_bytes_unpack(shared, r.result, data->buf, data->count, data->type);
        whm_bytes_drop(r.result);
    } else {
        whm_shared_settle(shared);
    }
    whm_bytes_drop(r.operand);
}

// ---- Which.

// From more than `most` bytes on, on up to so many ranks.  A rank that shares its processor with others finds what it copies in the caches: there a read, which
// costs the kernel a look at each page, wins only where shared memory would take two copies for each reader.
typedef struct direct_way {
    void (*carry_out)(whm_shared *shared, const whm_coll *coll);
    MPI_Count most;
    int ranks;
    bool crowded;
} direct_way;

#define KIB ((MPI_Count)1 << 10)
static const direct_way ways[WHM_COLL_KINDS] = {
    [WHM_BCAST] = {bcast, 8 * KIB, WHM_SHARED_RANKS, false},
    [WHM_REDUCE] = {reduce, 32 * KIB, 2, false},
    [WHM_ALLREDUCE] = {allreduce, 32 * KIB, WHM_SHARED_RANKS, false},
    [WHM_ALLGATHER] = {exchange_all, 32 * KIB, WHM_SHARED_RANKS, false},
    [WHM_ALLTOALL] = {exchange_all, 32 * KIB, WHM_SHARED_RANKS, true},
};

static bool pays(const whm_shared *shared, const whm_coll *coll) {
    const direct_way *way = &ways[coll->kind];
    return whm_shared_wants_direct(shared) ||
           (coll->comm->size <= way->ranks && (way->crowded || !whm_shared_crowded(shared)));
}

bool whm_shared_take_over(whm_shared *shared, const whm_coll *coll, MPI_Count size, int *error) {
    const direct_way *way = &ways[coll->kind];
    if (!way->carry_out || size <= way->most)
        return false;
    if (whm_shared_undecided(shared)) {
        *error = whm_shared_meet(shared, coll, size);
        if (*error != MPI_SUCCESS)
            return true;
    }
    if (!whm_shared_direct(shared) || !pays(shared, coll))
        return false;
    whm_shared_begin(shared, coll, size, sizeof(void *));
    way->carry_out(shared, coll);
    *error = whm_shared_end(shared);
    return true;
}
