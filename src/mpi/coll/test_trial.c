// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/coll/test_trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/test.h"
#include "mpi/bodies.h"

enum { MARGIN = 64, LAYOUTS = 4 };

// Two numbers: one behind the other, with a gap, before and behind the address; the last one is a number, two of which are a unit.
static whm_type *layouts[LAYOUTS];
static whm_op *affine;

// Pairs (a, b) stand for x -> a x + b, one after the other: associative, and the order counts.
static void compose(const uint32_t *in, uint32_t *inout) {
    uint32_t a = in[0] * inout[0], b = in[0] * inout[1] + in[1];
    inout[0] = a;
    inout[1] = b;
}

static void compose_elements(void *in, void *inout, int *n, MPI_Datatype *handle) {
    whm_type *type = whm_type_of(*handle), *byte = whm_type_of(MPI_BYTE);
    for (int i = 0; i < *n; i++) {
        uint32_t a[2], b[2];
        void *low = whm_elements(in, i, type), *high = whm_elements(inout, i, type);
        CHECK_EQ_INT(whm_copy(a, 8, byte, low, 1, type), MPI_SUCCESS);
        CHECK_EQ_INT(whm_copy(b, 8, byte, high, 1, type), MPI_SUCCESS);
        compose(a, b);
        CHECK_EQ_INT(whm_copy(high, 1, type, b, 8, byte), MPI_SUCCESS);
    }
}

void trial_ready(void) {
    if (affine)
        return;
    CHECK_EQ_INT(whm_types_begin(whm_self), MPI_SUCCESS);
    CHECK_EQ_INT(whm_ops_begin(whm_self), MPI_SUCCESS);
    whm_type *number = whm_type_of(MPI_INT);
    CHECK_EQ_INT(mpi_type_contiguous(2, number, &layouts[0]), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_type_vector(2, 1, 2, number, &layouts[1]), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_type_create_hindexed_block(2, 1, (MPI_Aint[]){-8, 4}, number, &layouts[2]),
                 MPI_SUCCESS);
    layouts[3] = number;
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(mpi_type_commit(layouts[i]), MPI_SUCCESS);
    CHECK_EQ_INT(mpi_op_create(compose_elements, 0, &affine), MPI_SUCCESS);
}

uint32_t trial_datum(uint32_t salt, int rank, int block, int i) {
    uint32_t x = salt * 0x9E3779B9u + (uint32_t)rank * 0x85EBCA6Bu + (uint32_t)block * 0xC2B2AE35u +
                 (uint32_t)i * 0x27D4EB2Fu;
    x = (x ^ x >> 15) * 0x2C1B3C6Du;
    return x ^ x >> 12;
}

int trial_layout(void) {
    return net_below(LAYOUTS);
}

// ---- Buffers.

void buffer_make(buffer *b, int n, const int *units, bool spread, int layout, int per) {
    whm_type *type = layouts[layout];
    MPI_Aint at = 0;
    *b = (buffer){.n = n, .per = per, .blocks = {.type = type}};
    for (int i = 0; i < n; i++) {
        at += spread ? net_below(3) : 0;
        b->displs[i] = at;
        b->counts[i] = units[i] * per;
        b->types[i] = type;
        at += b->counts[i];
    }
    b->size = (size_t)(at * type->extent) + 2 * MARGIN;
    b->bytes = malloc(b->size);
    b->wanted = malloc(b->size);
    CHECK(b->bytes && b->wanted);
    b->blocks.buf = b->bytes + MARGIN;
    b->blocks.count = n > 0 ? b->counts[0] : 0;
}

void buffer_put(const buffer *b, char *bytes, int block, const uint32_t *data, int units,
                int numbers) {
    char *at = whm_block_at(&b->blocks, block) - b->bytes + bytes;
    if (units > 0)
        CHECK_EQ_INT(whm_copy(at, (MPI_Count)units * b->per, whm_block_type(&b->blocks, block),
                              data, (MPI_Count)units * numbers * 4, whm_type_of(MPI_BYTE)),
                     MPI_SUCCESS);
}

void buffer_free(buffer *b) {
    free(b->bytes);
    free(b->wanted);
    *b = (buffer){0};
}

void trial_reset(buffer *b) {
    memset(b->bytes, 0xA5, b->size);
    memset(b->wanted, 0xA5, b->size);
}

bool trial_same(const buffer *b) {
    return memcmp(b->bytes, b->wanted, b->size) == 0;
}

// ---- Communicators.

static whm_group *group_of(int first, int size, int rank) {
    whm_group *group = calloc(1, sizeof(*group));
    CHECK(group);
    *group = (whm_group){.o.refs = 1, .size = size, .rank = rank};
    group->world = malloc(sizeof(int) * (size_t)size);
    CHECK(group->world);
    for (int i = 0; i < size; i++)
        group->world[i] = first + i;
    return group;
}

void trial_comms(whm_comm *comms, int size, int first, uint32_t context) {
    for (int r = 0; r < size; r++) {
        bool low = r < first;
        int begin = low ? 0 : first, n = low ? first : size - first;
        comms[r] = (whm_comm){.o.refs = 1, .context = context, .rank = r - begin, .size = n};
        comms[r].group = group_of(begin, n, r - begin);
        if (first == size)
            continue;
        comms[r].remote = group_of(low ? first : 0, size - n, MPI_UNDEFINED);
        comms[r].local = calloc(1, sizeof(whm_comm));
        CHECK(comms[r].local);
        *comms[r].local = comms[r];
        comms[r].local->context = context + (low ? 1 : 2);
        comms[r].local->remote = NULL;
    }
}

void trial_comms_end(whm_comm *comms, int size, int first) {
    for (int r = 0; r < size; r++) {
        free(comms[r].group->world);
        free(comms[r].group);
        if (first == size)
            continue;
        free(comms[r].remote->world);
        free(comms[r].remote);
        free(comms[r].local);
    }
}

// ---- Which blocks a rank has.

static bool between(const trial *t) {
    return t->first < t->size;
}
static bool low(const trial *t, int r) {
    return r < t->first;
}
static int own_first(const trial *t, int r) {
    return low(t, r) ? 0 : t->first;
}
static int own_size(const trial *t, int r) {
    return low(t, r) ? t->first : t->size - t->first;
}
static int peer_first(const trial *t, int r) {
    return between(t) && low(t, r) ? t->first : 0;
}
static int peers(const trial *t, int r) {
    return between(t) ? t->size - own_size(t, r) : t->size;
}
static bool takes_part(const trial *t,
                       int r) {  // of rooted ones: on the side that is not the root's
    return !between(t) || low(t, r) != low(t, t->root);
}

static bool is_v(const trial *t) {
    return t->kind == WHM_GATHERV || t->kind == WHM_SCATTERV || t->kind == WHM_ALLGATHERV ||
           t->kind == WHM_ALLTOALLV || t->kind == WHM_ALLTOALLW || t->kind == WHM_REDUCE_SCATTER;
}
static bool reduces(const trial *t) {
    return t->kind >= WHM_REDUCE && t->kind <= WHM_EXSCAN;
}
static bool scatters(const trial *t) {
    return t->kind == WHM_REDUCE_SCATTER || t->kind == WHM_REDUCE_SCATTER_BLOCK;
}

// Units that rank `from` has for rank `to`: of an exchange in place both ways alike.
static int units_of(const trial *t, int from, int to) {
    if (!is_v(t))
        return t->units;
    if (t->in_place && from > to)
        return units_of(t, to, from);
    return (int)(trial_datum(7, from, to, t->units) % (uint32_t)(t->units + 1));
}

// Of a vector that is reduced and scattered: the block of a rank.  Two groups have the same number in all.
static int share_of(const trial *t, int r) {
    if (!between(t))
        return t->kind == WHM_REDUCE_SCATTER ? units_of(t, 0, r) : t->units;
    int other = t->size - own_size(t, r), i = r - own_first(t, r);
    if (t->kind == WHM_REDUCE_SCATTER_BLOCK || own_size(t, r) < 2 || i > 1)
        return t->units * other;
    return i == 0 ? 0 : 2 * t->units * other;
}

static int whole(const trial *t, int r) {
    int units = 0;
    for (int i = 0; i < own_size(t, r); i++)
        units += share_of(t, own_first(t, r) + i);
    return scatters(t) ? units : t->units;
}

// Blocks of a rank's buffer: their number, and their units.
static int send_blocks(const trial *t, int r, int *units) {
    units[0] = reduces(t) ? whole(t, r) : units_of(t, r, t->root);
    switch (t->kind) {
    case WHM_BARRIER:
    case WHM_BCAST: return 0;
    case WHM_GATHER:
    case WHM_GATHERV:
    case WHM_REDUCE: return takes_part(t, r);
    case WHM_ALLGATHER:
    case WHM_ALLGATHERV: units[0] = units_of(t, r, 0); return 1;
    case WHM_SCATTER:
    case WHM_SCATTERV:
        for (int i = 0; i < peers(t, r); i++)
            units[i] = units_of(t, peer_first(t, r) + i, t->root);
        return r == t->root ? peers(t, r) : 0;
    case WHM_ALLTOALL:
    case WHM_ALLTOALLV:
    case WHM_ALLTOALLW:
        for (int i = 0; i < peers(t, r); i++)
            units[i] = units_of(t, r, peer_first(t, r) + i);
        return peers(t, r);
    default: return 1;
    }
}

static int recv_blocks(const trial *t, int r, int *units) {
    bool exchange = t->kind >= WHM_ALLTOALL && t->kind <= WHM_ALLTOALLW;
    bool all = t->kind == WHM_ALLGATHER || t->kind == WHM_ALLGATHERV;
    units[0] = whole(t, r);
    switch (t->kind) {
    case WHM_BARRIER: return 0;
    case WHM_BCAST: return r == t->root || takes_part(t, r);
    case WHM_REDUCE: return r == t->root;
    case WHM_SCATTER:
    case WHM_SCATTERV: units[0] = units_of(t, r, t->root); return takes_part(t, r);
    case WHM_REDUCE_SCATTER:
    case WHM_REDUCE_SCATTER_BLOCK:
        if (!t->in_place)
            units[0] = share_of(t, r);
        return 1;
    case WHM_ALLREDUCE:
    case WHM_SCAN:
    case WHM_EXSCAN: return 1;
    default:
        for (int i = 0; i < peers(t, r); i++)
            units[i] = units_of(t, peer_first(t, r) + i, all ? 0 : exchange ? r : t->root);
        return all || exchange || r == t->root ? peers(t, r) : 0;
    }
}

// ---- What comes out.

static uint32_t scratch[1 << 20], result[1 << 20];

static const uint32_t *data_of(const trial *t, int rank, int block, int units) {
    for (int i = 0; i < units * t->numbers; i++)
        scratch[i] = trial_datum(t->salt, rank, block, i);
    return scratch;
}

// The operands of ranks first .. end - 1, in order.
static void fold(const trial *t, int first, int end, int units) {
    memcpy(result, data_of(t, end - 1, 0, units), sizeof(int) * (size_t)(units * t->numbers));
    for (int r = end - 2; r >= first; r--) {
        const uint32_t *in = data_of(t, r, 0, units);
        for (int i = 0; i < units; i++)
            if (t->numbers == 1)
                result[i] += in[i];
            else
                compose(&in[2 * i], &result[2 * i]);
    }
}

static void want(trial *t, int r, int block, const uint32_t *data, int units) {
    buffer_put(&t->recv[r], t->recv[r].wanted, block, data, units, t->numbers);
}

static void want_reduction(trial *t, int r) {
    int units = whole(t, r), first = peer_first(t, r), end = first + peers(t, r);
    if (t->kind == WHM_SCAN || t->kind == WHM_EXSCAN)
        end = t->kind == WHM_SCAN ? r + 1 : r;
    if (end <= first)
        return;
    fold(t, first, end, units);
    int skip = 0;
    for (int i = own_first(t, r); scatters(t) && i < r; i++)
        skip += share_of(t, i);
    want(t, r, 0, result + skip * t->numbers, scatters(t) ? share_of(t, r) : units);
}

static void want_all(trial *t, int r) {
    int units[NET_RANKS] = {0}, n = recv_blocks(t, r, units);
    if (n == 0)
        return;
    if (reduces(t)) {
        want_reduction(t, r);
        return;
    }
    for (int i = 0; i < n; i++) {
        int peer = peer_first(t, r) + i;
        bool from_root = t->kind == WHM_BCAST || t->kind == WHM_SCATTER || t->kind == WHM_SCATTERV;
        bool exchange = t->kind >= WHM_ALLTOALL && t->kind <= WHM_ALLTOALLW;
        int block =
            t->kind == WHM_SCATTER || t->kind == WHM_SCATTERV || exchange ? r - own_first(t, r) : 0;
        want(t, r, i, data_of(t, from_root ? t->root : peer, block, units[i]), units[i]);
    }
}

// In place the operands lie in the buffer that receives.
static void put_in_place(trial *t, int r) {
    buffer *b = &t->recv[r];
    int units[NET_RANKS] = {0}, n = send_blocks(t, r, units);
    bool one = t->kind == WHM_GATHER || t->kind == WHM_GATHERV || t->kind == WHM_ALLGATHER ||
               t->kind == WHM_ALLGATHERV;
    for (int i = 0; i < n; i++)
        buffer_put(b, b->bytes, one ? r : i, data_of(t, r, i, units[i]), units[i], t->numbers);
}

static bool place_here(const trial *t, int r) {
    bool rooted = t->kind == WHM_GATHER || t->kind == WHM_GATHERV || t->kind == WHM_SCATTER ||
                  t->kind == WHM_SCATTERV || t->kind == WHM_REDUCE;
    return t->in_place && (!rooted || r == t->root);
}

void trial_fill(trial *t, uint32_t salt) {
    t->salt = salt;
    for (int r = 0; r < t->size; r++) {
        buffer *send = &t->send[r], *recv = &t->recv[r];
        bool scatter = t->kind == WHM_SCATTER || t->kind == WHM_SCATTERV;
        trial_reset(send);
        trial_reset(recv);
        int units[NET_RANKS] = {0}, n = send_blocks(t, r, units);
        for (int i = 0; send->n > 0 && i < n; i++)
            buffer_put(send, send->bytes, i, data_of(t, r, i, units[i]), units[i], t->numbers);
        memcpy(send->wanted, send->bytes, send->size);
        if (place_here(t, r) && !scatter)
            put_in_place(t, r);
        if (t->kind == WHM_BCAST && r == t->root)
            buffer_put(recv, recv->bytes, 0, data_of(t, r, 0, t->units), t->units, t->numbers);
        memcpy(recv->wanted, recv->bytes, recv->size);
        if (!(place_here(t, r) && scatter))
            want_all(t, r);
    }
}

// ---- The calls.

static void shape(const trial *t, buffer *b, bool v) {
    if (!v || b->n == 0)
        return;
    b->blocks.counts = b->counts;
    if (t->kind == WHM_REDUCE_SCATTER)
        return;
    b->blocks.displs = b->displs;
    if (t->kind != WHM_ALLTOALLW)
        return;
    for (int i = 0; i < b->n; i++)
        b->displs[i] *= b->blocks.type->extent;
    b->blocks.types = b->types;
}

static int root_for(const trial *t, int r) {
    if (!between(t))
        return t->root;
    if (takes_part(t, r))
        return t->root - peer_first(t, r);
    return r == t->root ? MPI_ROOT : MPI_PROC_NULL;
}

static void draw_buffers(trial *t, int r, int reduction_layout) {
    int units[NET_RANKS] = {0}, n = send_blocks(t, r, units);
    bool vector = is_v(t) && t->kind != WHM_REDUCE_SCATTER;
    int layout = reduces(t) ? reduction_layout : trial_layout();
    buffer_make(&t->send[r], n, units, vector && n != 1, layout,
                layout == 3 && t->numbers == 2 ? 2 : 1);
    shape(t, &t->send[r], vector && t->kind != WHM_GATHERV && t->kind != WHM_ALLGATHERV);
    layout = reduces(t) ? reduction_layout : trial_layout();
    n = recv_blocks(t, r, units);
    buffer_make(&t->recv[r], n, units, vector && n != 1, layout,
                layout == 3 && t->numbers == 2 ? 2 : 1);
    shape(t, &t->recv[r], vector && t->kind != WHM_SCATTERV);
}

static void draw_call(trial *t, int r) {
    whm_coll *coll = &t->coll[r];
    *coll = (whm_coll){.kind = t->kind,
                       .comm = &t->comms[r],
                       .op = t->op,
                       .root = root_for(t, r),
                       .send = t->send[r].n > 0 ? t->send[r].blocks : (whm_blocks){0},
                       .recv = t->recv[r].blocks};
    if (t->recv[r].n == 0 && !reduces(t))
        coll->recv = (whm_blocks){0};  // not significant here
    if (reduces(t))
        coll->recv.count = scatters(t) ? share_of(t, r) : t->units;
    MPI_Count *shares = t->recv[r].counts + 1;  // behind the count of the one block
    for (int i = 0; t->kind == WHM_REDUCE_SCATTER && i < own_size(t, r); i++)
        shares[i] = share_of(t, own_first(t, r) + i);
    if (t->kind == WHM_REDUCE_SCATTER)
        coll->recv.counts = shares;
    if (place_here(t, r) && (t->kind == WHM_SCATTER || t->kind == WHM_SCATTERV))
        coll->recv = (whm_blocks){.buf = MPI_IN_PLACE};
    else if (place_here(t, r))
        coll->send = (whm_blocks){.buf = MPI_IN_PLACE};
}

void trial_draw(trial *t) {
    static const int sizes[] = {0, 1, 2, 3, 5, 17, 64, 300};
    t->units = sizes[net_below(8)];
    if (net_below(60) == 0 && t->size < 7 && !reduces(t) && t->kind == WHM_BCAST)
        t->units = 50000;
    t->root = net_below(t->size);
    t->in_place = !between(t) && t->kind > WHM_BCAST && net_below(2);
    t->numbers = 2;
    int layout = net_below(3);
    if (reduces(t)) {
        bool sum = net_below(2);
        t->numbers = sum ? 1 : 2;
        t->op = sum ? whm_op_of(MPI_SUM) : affine;
        layout = sum ? 3 : layout;
    }
    for (int r = 0; r < t->size; r++) {
        draw_buffers(t, r, layout);
        draw_call(t, r);
    }
}

static void ended(whm_schedule *s) {
    ((trial_rank *)s)->ended++;
}

void trial_build(trial *t) {
    do {
        t->algorithm = &whm_algorithms[t->kind][net_below(WHM_ALGORITHMS)];
    } while (!t->algorithm->build || !whm_algorithm_works(t->algorithm, &t->coll[0]));
    for (int r = 0; r < t->size; r++) {
        t->ranks[r] = malloc(sizeof(trial_rank));
        CHECK(t->ranks[r]);
        t->ranks[r]->ended = 0;
        whm_schedule *s = &t->ranks[r]->schedule;
        whm_schedule_init(s, &t->comms[r], t->op);
        s->done = ended;
        t->algorithm->build(s, &t->coll[r]);
        CHECK_EQ_INT(whm_schedule_close(s, true), MPI_SUCCESS);
    }
}

int trial_check(trial *t) {
    int wrong = 0;
    for (int r = 0; r < t->size; r++) {
        wrong += t->ranks[r]->ended != 1 || t->ranks[r]->schedule.error != MPI_SUCCESS ||
                 !trial_same(&t->send[r]) || !trial_same(&t->recv[r]);
        t->ranks[r]->ended = 0;
    }
    return wrong;
}

void trial_end(trial *t) {
    for (int r = 0; r < t->size; r++) {
        whm_schedule_fini(&t->ranks[r]->schedule);
        free(t->ranks[r]);
        buffer_free(&t->send[r]);
        buffer_free(&t->recv[r]);
    }
}
