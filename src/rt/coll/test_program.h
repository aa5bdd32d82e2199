// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of collectives: random programs, and what plain serial code makes of them.
//
// A program is a number of collectives on two teams, with random layouts, reductions, counts and roots.  Each member
// starts its own when a seed says so, in the order of its team; so several are under way at once.  What joins the PEs,
// test_net.h or test_live.h, is included before.
#ifndef WHI_RT_COLL_TEST_PROGRAM_H
#define WHI_RT_COLL_TEST_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "rt/coll/team.h"

enum { OPS = 5, PATIENCE_S = 20 };

static net n;
static whi_rng rng;
static uint64_t seed;

#define FAIL(...) whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, __VA_ARGS__)

// ---- Layouts: families of types with the same elements, which members mix.

enum { FAMILIES = 4, VARIANTS = 3 };
static wh_type *types[FAMILIES][VARIANTS];

static void make_types(void) {
    const wh_type *i32 = wh_type_basic(WH_TYPE_INT32), *f64 = wh_type_basic(WH_TYPE_DOUBLE);
    const wh_type *pair = wh_type_basic(WH_TYPE_DOUBLE_INT);
    const wh_type *both[] = {i32, f64};
    const int64_t ones[] = {1, 1}, at[] = {0, 8}, far[] = {16, 0}, swapped[] = {4, 2, 0};
    CHECK_EQ_INT(wh_type_create_contig(3, i32, &types[0][0]), WH_OK);
    CHECK_EQ_INT(wh_type_create_vector(3, 1, 2, i32, &types[0][1]), WH_OK);
    CHECK_EQ_INT(wh_type_create_indexed_block(3, 1, swapped, i32, &types[0][2]), WH_OK);
    CHECK_EQ_INT(wh_type_create_struct(2, ones, at, both, &types[1][0]), WH_OK);
    CHECK_EQ_INT(wh_type_create_struct(2, ones, far, both, &types[1][1]), WH_OK);
    CHECK_EQ_INT(wh_type_create_resized(types[1][0], 0, 40, &types[1][2]), WH_OK);
    CHECK_EQ_INT(wh_type_create_contig(2, pair, &types[2][0]), WH_OK);
    CHECK_EQ_INT(wh_type_create_vector(2, 1, 3, pair, &types[2][1]), WH_OK);
    CHECK_EQ_INT(wh_type_create_vector(2, 1, -2, pair, &types[2][2]), WH_OK);
    CHECK_EQ_INT(wh_type_create_contig(1, wh_type_basic(WH_TYPE_UINT8), &types[3][0]), WH_OK);
    CHECK_EQ_INT(wh_type_create_resized(types[3][0], 0, 3, &types[3][1]), WH_OK);
    CHECK_EQ_INT(wh_type_create_resized(types[3][0], 0, 1, &types[3][2]), WH_OK);
}

static void free_types(void) {
    for (int f = 0; f < FAMILIES; f++)
        for (int v = 0; v < VARIANTS; v++)
            wh_type_release(types[f][v]);
}

// A buffer of a layout: memory with room on both sides, of which only the elements may change.
typedef struct memory {
    const wh_type *type;
    int64_t count;
    size_t room;
    char *bytes, *origin;
} memory;

static memory memory_new(const wh_type *type, int64_t count) {
    wh_type_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_type_get_info(type, &info), WH_OK);
    int64_t reach = count * (info.extent < 0 ? -info.extent : info.extent) + info.true_extent + 200;
    memory m = {.type = type, .count = count, .room = 2 * (size_t)reach};
    m.bytes = malloc(m.room);
    memset(m.bytes, 0x5a, m.room);
    m.origin = m.bytes + (reach + 15) / 16 * 16;
    return m;
}

static void put(memory *m, const char *packed, size_t from, size_t size) {
    size_t actual;
    CHECK_EQ_INT(wh_unpack(packed, size, m->origin, m->count, m->type, from, 0, &actual), WH_OK);
    CHECK_EQ_INT(actual, size);
}

// check_memory compares all of it, elements and what is between them.
static void check_memory(const memory *m, const char *packed, size_t from, size_t size,
                         const memory *before, const char *what, uint32_t rank) {
    memory wanted = *m;
    wanted.bytes = malloc(m->room);
    memcpy(wanted.bytes, before->bytes, m->room);
    wanted.origin = wanted.bytes + (m->origin - m->bytes);
    put(&wanted, packed, from, size);
    for (size_t i = 0; i < m->room; i++)
        if (m->bytes[i] != wanted.bytes[i])
            FAIL("seed %llu: %s at rank %u: byte %zd is 0x%02x, not 0x%02x",
                 (unsigned long long)seed, what, rank,
                 (ssize_t)(i - (size_t)(m->origin - m->bytes)), (unsigned char)m->bytes[i],
                 (unsigned char)wanted.bytes[i]);
    free(wanted.bytes);
}

static memory memory_copy(const memory *m) {
    memory copy = *m;
    copy.bytes = malloc(m->room);
    memcpy(copy.bytes, m->bytes, m->room);
    copy.origin = copy.bytes + (m->origin - m->bytes);
    return copy;
}

// ---- Reductions.

// Each byte is a map x -> m x + c modulo 16, and the operands are applied one behind the other: associative, and the order matters.
static void compose(const void *in, void *inout, size_t count, const wh_type *basic, void *arg) {
    const unsigned char *later = in;
    unsigned char *first = inout;
    (void)arg;
    for (size_t i = 0; i < count * (size_t)wh_type_size(basic); i++) {
        unsigned m = (first[i] >> 4) * (later[i] >> 4), c = (first[i] & 15) * (later[i] >> 4);
        first[i] = (unsigned char)(m << 4 | ((c + (later[i] & 15)) & 15));
    }
}

static void combine(const wh_reduction *how, char *sum, const char *with, size_t size,
                    int64_t count, const wh_type *type) {
    CHECK_EQ_INT(wh_accumulate_packed(with, sum, size, count, type, 0, how->op, how->fn, how->arg),
                 WH_OK);
}

// ---- One collective of a program.

typedef enum what {
    BARRIER,
    BROADCAST,
    REDUCE,
    ALLREDUCE,
    SCAN,
    EXSCAN,
    REDUCE_SCATTER,
    GATHER,
    ALLGATHER,
    ALLTOALL,
    SPLIT,
    MEASURE,
    WHATS
} what;
static const char *const names[] = {"barrier",   "broadcast", "reduce",         "allreduce",
                                    "scan",      "exscan",    "reduce_scatter", "gather",
                                    "allgather", "alltoall",  "split",          "measure"};

typedef struct member {
    memory from, to, before;
    char *from_told, *to_told;  // their bytes when the user was told of a failure
    bool in_place, started, ended;
    wh_status status;
    wh_request *req;
    char *data;  // packed, of all its blocks
    int32_t color, key;
    wh_team *made;
} member;

typedef struct collective {
    what what;
    unsigned team;
    uint32_t root;
    int64_t count;
    wh_reduction how;
    size_t size;  // of a block
    uint32_t blocks_from, blocks_to;
    member m[NET_PES];
} collective;

typedef struct team {
    uint32_t count, pes[NET_PES];
    wh_team *of[NET_PES];
    unsigned next[NET_PES];  // collective to start, by rank
} team;

static team teams[2];
static collective ops[OPS];
static unsigned op_count;

static void draw_reduction(collective *c, int family) {
    static const wh_reduce numbers[] = {WH_REDUCE_SUM, WH_REDUCE_MAX, WH_REDUCE_MIN,
                                        WH_REDUCE_REPLACE, WH_REDUCE_NO_OP};
    static const wh_reduce of_pairs[] = {WH_REDUCE_MINLOC, WH_REDUCE_MAXLOC, WH_REDUCE_REPLACE};
    c->how = (wh_reduction){.size = sizeof(c->how)};
    if (whi_rng_chance(&rng, 50))
        c->how.fn = compose;
    else if (family == 2)
        c->how.op = of_pairs[whi_rng_below(&rng, 3)];
    else
        c->how.op = numbers[whi_rng_below(&rng, 5)];
}

// Small whole numbers, so that sums of floats are exact.
static void draw_data(char *to, size_t elements, int family) {
    char *at = to;
    for (size_t i = 0; i < elements; i++) {
        int32_t whole = (int32_t)whi_rng_below(&rng, 100);
        double real = whole;
        if (family == 0 || family == 1) {
            int words = family == 0 ? 3 : 1;
            for (int w = 0; w < words; w++, at += 4)
                memcpy(at, &whole, 4);
        }
        if (family == 1) {
            memcpy(at, &real, 8);
            at += 8;
        }
        for (int p = 0; family == 2 && p < 2; p++, at += 12) {
            memcpy(at, &real, 8);
            memcpy(at + 8, &whole, 4);
        }
        if (family == 3)
            *at++ = (char)whi_rng_u64(&rng);
    }
}

static void draw(collective *c, int64_t count_max) {
    int family = (int)whi_rng_below(&rng, FAMILIES);
    // To measure takes long.
    uint64_t whats = whi_rng_chance(&rng, 20) ? WHATS : MEASURE;
    *c = (collective){.what = (what)whi_rng_below(&rng, whats),
                      .team = (unsigned)whi_rng_below(&rng, 2)};
    const team *t = &teams[c->team];
    bool in_place = whi_rng_chance(&rng, 30);
    c->root = (uint32_t)whi_rng_below(&rng, t->count);
    c->count = whi_rng_chance(&rng, 10) ? 0 : (int64_t)whi_rng_below(&rng, (uint64_t)count_max);
    c->size = (size_t)(c->count * wh_type_size(types[family][0]));
    c->blocks_from = c->what == ALLTOALL || c->what == REDUCE_SCATTER ? t->count : 1;
    c->blocks_to = c->what >= GATHER && c->what <= ALLTOALL ? t->count : 1;
    draw_reduction(c, family);
    for (uint32_t r = 0; r < t->count; r++) {
        member *m = &c->m[r];
        const wh_type *from = types[family][whi_rng_below(&rng, VARIANTS)],
                      *to = types[family][whi_rng_below(&rng, VARIANTS)];
        bool has_to = (c->what != REDUCE && c->what != GATHER) || r == c->root;
        m->in_place = in_place && has_to && c->what != BROADCAST;
        if (c->what >= REDUCE && c->what <= REDUCE_SCATTER)
            to = from;  // one type for both
        size_t from_size = c->blocks_from * c->size;
        m->data = malloc(from_size + 1);
        draw_data(m->data, c->blocks_from * (size_t)c->count, family);
        m->from = memory_new(from, c->blocks_from * c->count);
        uint32_t blocks = c->blocks_to;
        if (m->in_place && blocks < c->blocks_from)
            blocks = c->blocks_from;
        m->to = memory_new(m->in_place && c->what == REDUCE_SCATTER ? from : to, blocks * c->count);
        if (!m->in_place)
            put(&m->from, m->data, 0, from_size);
        else
            put(&m->to, m->data, c->blocks_from > 1 || c->blocks_to == 1 ? 0 : r * c->size,
                from_size);
        m->before = memory_copy(c->what == BROADCAST ? &m->from : &m->to);
        m->color = c->what == MEASURE ? 0 : (int32_t)whi_rng_below(&rng, 3) - 1;
        m->key = c->what == MEASURE ? 0 : (int32_t)whi_rng_below(&rng, 3);
    }
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    member *m = arg;
    CHECK(!m->ended);
    m->ended = true;
    m->status = result->status;
    (void)req;
    if (m->status == WH_OK)
        return;
    // From here on nobody but the user touches the memory.
    m->from_told = memory_copy(&m->from).bytes;
    m->to_told = memory_copy(&m->to).bytes;
}

static wh_status call(collective *c, uint32_t r, const wh_op_opts *opts, wh_request **req) {
    member *m = &c->m[r];
    wh_team *t = teams[c->team].of[r];
    const void *from = m->in_place ? WH_IN_PLACE : m->from.origin;
    void *to = m->to.origin;
    const wh_type *ft = m->from.type, *tt = m->to.type;
    switch (c->what) {
    case BARRIER: return wh_coll_barrier(t, opts, req);
    case BROADCAST: return wh_coll_broadcast(t, m->from.origin, c->count, ft, c->root, opts, req);
    case REDUCE: return wh_coll_reduce(t, from, to, c->count, tt, &c->how, c->root, opts, req);
    case ALLREDUCE: return wh_coll_allreduce(t, from, to, c->count, tt, &c->how, opts, req);
    case SCAN: return wh_coll_scan(t, from, to, c->count, tt, &c->how, opts, req);
    case EXSCAN: return wh_coll_exscan(t, from, to, c->count, tt, &c->how, opts, req);
    case REDUCE_SCATTER:
        return wh_coll_reduce_scatter(t, from, to, c->count, tt, &c->how, opts, req);
    case GATHER: return wh_coll_gather(t, from, c->count, ft, to, c->count, tt, c->root, opts, req);
    case ALLGATHER: return wh_coll_allgather(t, from, c->count, ft, to, c->count, tt, opts, req);
    case ALLTOALL: return wh_coll_alltoall(t, from, c->count, ft, to, c->count, tt, opts, req);
    case MEASURE: return wh_team_measure(t, &m->made, opts, req);
    default: return wh_team_split(t, m->color, m->key, &m->made, opts, req);
    }
}

// start calls a collective at a member; false: it has to be called again.
static bool start(collective *c, uint32_t r) {
    member *m = &c->m[r];
    wh_status st = call(c, r, WH_OP_OPTS(.done = on_done, .arg = m), &m->req);
    if (st == WH_ENOMEM)
        return false;
    if (st < 0 && !n.pe[teams[c->team].pes[r]].dead)
        FAIL("seed %llu: %s: %s", (unsigned long long)seed, names[c->what], wh_status_name(st));
    m->started = true;
    if (st != WH_PENDING) {
        m->ended = true;
        m->status = st;
    }
    return true;
}

// ---- What is right.

static void sum_of(const collective *c, uint32_t first, uint32_t end, uint32_t block, char *sum) {
    memcpy(sum, c->m[first].data + block * c->size, c->size);
    for (uint32_t r = first + 1; r < end; r++)
        combine(&c->how, sum, c->m[r].data + block * c->size, c->size, c->count, c->m[0].from.type);
}

static void check_split(const collective *c, uint32_t r) {
    const team *t = &teams[c->team];
    const member *m = &c->m[r];
    CHECK((m->made == NULL) == (m->color < 0));
    if (!m->made)
        return;
    uint32_t count = 0, before = 0, pe;
    for (uint32_t i = 0; i < t->count; i++) {
        const member *o = &c->m[i];
        if (o->color != m->color)
            continue;
        count++;
        before += o->key < m->key || (o->key == m->key && i < r);
        CHECK(!o->made || o->made->message_bytes == m->made->message_bytes);
    }
    CHECK_EQ_INT(wh_team_size(m->made), count);
    CHECK_EQ_INT(wh_team_rank(m->made), before);
    CHECK_EQ_INT(wh_team_pe(m->made, before, &pe), WH_OK);
    CHECK_EQ_INT(pe, t->pes[r]);
}

static void check(const collective *c, uint32_t r) {
    const team *t = &teams[c->team];
    const member *m = &c->m[r];
    char *all = malloc(c->size * t->count + 1);
    size_t size = c->size, from = 0;
    if (c->what >= SPLIT)
        check_split(c, r);
    if (c->what == REDUCE || c->what == ALLREDUCE)
        sum_of(c, 0, t->count, 0, all);
    if (c->what == SCAN || (c->what == EXSCAN && r > 0))
        sum_of(c, 0, r + (c->what == SCAN), 0, all);
    if (c->what == REDUCE_SCATTER)
        sum_of(c, 0, t->count, r, all);
    if (c->what == GATHER || c->what == ALLGATHER || c->what == ALLTOALL) {
        for (uint32_t i = 0; i < t->count; i++)
            memcpy(all + i * c->size, c->m[i].data + (c->what == ALLTOALL ? r * c->size : 0),
                   c->size);
        size *= t->count;
    }
    if (c->what == BROADCAST)
        memcpy(all, c->m[c->root].data, c->size);
    bool nothing = c->what == BARRIER || c->what >= SPLIT || (c->what == EXSCAN && r == 0) ||
                   ((c->what == REDUCE || c->what == GATHER) && r != c->root);
    check_memory(c->what == BROADCAST ? &m->from : &m->to, all, from, nothing ? 0 : size,
                 &m->before, names[c->what], r);
    free(all);
}

// ---- A program: collectives on two teams, each member starting its own when it likes.

static void make_teams(void) {
    CHECK(n.count > 0);
    teams[0].count = n.count;
    for (uint32_t pe = 0; pe < n.count; pe++)
        teams[0].pes[pe] = pe;
    // Some of them, in a random order.
    teams[1] = teams[0];
    for (uint32_t i = n.count; i-- > 1;) {
        uint32_t j = (uint32_t)whi_rng_below(&rng, i + 1), pe = teams[1].pes[i];
        teams[1].pes[i] = teams[1].pes[j];
        teams[1].pes[j] = pe;
    }
    teams[1].count = 1 + (uint32_t)whi_rng_below(&rng, n.count);
    for (unsigned i = 0; i < 2; i++)
        for (uint32_t r = 0; r < teams[i].count; r++) {
            teams[i].next[r] = 0;
            CHECK_EQ_INT(whi_team_new(&n.pe[teams[i].pes[r]].port, i ? teams[i].pes : NULL,
                                      teams[i].count, i, &teams[i].of[r]),
                         WH_OK);
        }
}

static void begin(uint64_t with_seed, uint32_t pes, unsigned collectives, int64_t count_max) {
    static const uint64_t message_bytes[] = {16, 200, 2000, 20000};
    seed = with_seed;
    whi_rng_init(&rng, seed);
    net_begin(&n, pes, seed, message_bytes[whi_rng_below(&rng, 4)]);
    make_teams();
    op_count = collectives;
    for (unsigned i = 0; i < op_count; i++)
        draw(&ops[i], count_max);
}

static bool all_ended(void) {
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < teams[ops[i].team].count; r++)
            if (!ops[i].m[r].ended && !n.pe[teams[ops[i].team].pes[r]].dead)
                return false;
    return true;
}

// start_some lets a random member start its next collective of a team.
static void start_some(void) {
    unsigned i = (unsigned)whi_rng_below(&rng, 2);
    team *t = &teams[i];
    uint32_t r = (uint32_t)whi_rng_below(&rng, t->count);
    if (n.pe[t->pes[r]].dead)
        return;
    while (t->next[r] < op_count && ops[t->next[r]].team != i)
        t->next[r]++;
    if (t->next[r] < op_count && start(&ops[t->next[r]], r))
        t->next[r]++;
}

static void run(void) {
    uint64_t end = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    for (unsigned step = 0; !all_ended() || net_under_way(&n); step++) {
        if (step % 1000 == 0 && whi_clock_ns() > end) {
            for (unsigned i = 0; i < op_count; i++)
                for (uint32_t r = 0; r < teams[ops[i].team].count; r++)
                    if (!ops[i].m[r].ended)
                        fprintf(stderr, "%s rank %u of %u root %u count %lld %s\n",
                                names[ops[i].what], r, teams[ops[i].team].count, ops[i].root,
                                (long long)ops[i].count,
                                ops[i].m[r].started ? "started" : "not started");
            FAIL("seed %llu: hangs, %zu under way", (unsigned long long)seed, net_under_way(&n));
        }
        start_some();
        net_step(&n);
    }
}

// finish ends all of it; what a PE that was killed has under way ends with the net.
static void finish(void) {
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < NET_PES; r++) {
            wh_request_free(ops[i].m[r].req);
            wh_team_free(ops[i].m[r].made);
        }
    for (unsigned i = 0; i < 2; i++)
        for (uint32_t r = 0; r < teams[i].count; r++)
            wh_team_free(teams[i].of[r]);
    net_end(&n);
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < NET_PES; r++) {
            member *m = &ops[i].m[r];
            free(m->data);
            free(m->from.bytes);
            free(m->to.bytes);
            free(m->before.bytes);
            free(m->from_told);
            free(m->to_told);
        }
}

static void check_all(void) {
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < teams[ops[i].team].count; r++) {
            const member *m = &ops[i].m[r];
            if (m->ended && m->status == WH_OK)
                check(&ops[i], r);
            else if (m->to_told && (memcmp(m->from_told, m->from.bytes, m->from.room) != 0 ||
                                    memcmp(m->to_told, m->to.bytes, m->to.room) != 0))
                FAIL("seed %llu: %s: rank %u was told, and then its memory was changed",
                     (unsigned long long)seed, names[ops[i].what], r);
        }
}

static uint64_t seeds(uint64_t many) {
    const char *text = getenv("SEEDS");
    return text ? strtoull(text, NULL, 10) : many;
}

static uint64_t first_seed(void) {
    const char *text = getenv("WHERRY_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

// run_well runs all of it, of which nothing may fail.
__attribute__((unused)) static void run_well(void) {
    run();
    for (unsigned i = 0; i < op_count; i++)
        for (uint32_t r = 0; r < teams[ops[i].team].count; r++)
            if (ops[i].m[r].status != WH_OK)
                FAIL("seed %llu: %s: %s", (unsigned long long)seed, names[ops[i].what],
                     wh_request_error(ops[i].m[r].req));
    check_all();
    CHECK_EQ_INT(net_left(&n), 0);
    finish();
}

#endif
