// SPDX-License-Identifier: BSD-3-Clause
//
// Constructors, against type maps that are written out by the standard's definitions; and what MPI_Type_get_contents tells, by making the
// same type again from it.

#include <limits.h>

#include <wherry/pack.h>

#include "mpi/base/test_check.h"
#include "mpi/bodies.h"
#include "mpi/type/predefined.h"

// ---- A type map: bytes of the data in order, each with its displacement; markers of bounds.

enum { MOST = 4096, SPACE = 1 << 16 };

typedef struct map {
    int n;
    long at[MOST];   // of a byte
    bool marked;     // bounds were set by hand, here or inside
    long lb, ub;     // as the standard defines them
    int align;       // the strictest
    whm_type *type;  // the library's
} map;

static map *map_new(void) {
    map *m = calloc(1, sizeof(*m));
    CHECK(m);
    m->align = 1;
    return m;
}

static map *basic(MPI_Datatype handle, int align, int runs, const int (*run)[2]) {
    map *m = map_new();
    m->type = whm_type_named(handle);
    m->align = align;
    for (int r = 0; r < runs; r++)
        for (int i = 0; i < run[r][1]; i++)
            m->at[m->n++] = run[r][0] + i;
    m->ub = (m->at[m->n - 1] + align) / align * align;
    return m;
}

static map *int_map(void) {
    return basic(MPI_INT, 4, 1, (const int[][2]){{0, 4}});
}
static map *char_map(void) {
    return basic(MPI_CHAR, 1, 1, (const int[][2]){{0, 1}});
}
static map *double_map(void) {
    return basic(MPI_DOUBLE, 8, 1, (const int[][2]){{0, 8}});
}
static map *short_int_map(void) {
    return basic(MPI_SHORT_INT, 4, 2, (const int[][2]){{0, 2}, {4, 4}});
}

// Copies to be placed: of which map, where.
typedef struct place {
    const map *of;
    long at;
} place;

// What the standard makes of copies: the bytes in order; markers decide, if there are any; else data with padding.
static map *assemble(int n, const place *places) {
    map *m = map_new();
    bool any = false;
    for (int i = 0; i < n; i++)
        m->marked = m->marked || places[i].of->marked;
    for (int i = 0; i < n; i++) {
        const map *of = places[i].of;
        for (int k = 0; k < of->n; k++)
            m->at[m->n++] = places[i].at + of->at[k];
        if (of->align > m->align)
            m->align = of->align;
        if (of->marked != m->marked || (of->n == 0 && !of->marked))
            continue;
        long lb = places[i].at + of->lb, ub = places[i].at + of->ub;
        m->lb = !any || lb < m->lb ? lb : m->lb;
        m->ub = !any || ub > m->ub ? ub : m->ub;
        any = true;
    }
    long over = (m->ub - m->lb) % m->align;
    if (!m->marked && over > 0)
        m->ub += m->align - over;
    return m;
}

static long extent(const map *m) {
    return m->ub - m->lb;
}

static map *blocks(int n, const long *lengths, const long *at, const map *of) {
    place places[MOST];
    int k = 0;
    for (int i = 0; i < n; i++)
        for (long j = 0; j < lengths[i]; j++)
            places[k++] = (place){of, at[i] + j * extent(of)};
    return assemble(k, places);
}

// ---- The library's type beside the map.

static unsigned char memory[2 * SPACE], packed[MOST * 4], expected[MOST * 4];

static void check_bounds(const map *m) {
    long low = LONG_MAX, high = LONG_MIN;
    for (int i = 0; i < m->n; i++) {
        low = m->at[i] < low ? m->at[i] : low;
        high = m->at[i] + 1 > high ? m->at[i] + 1 : high;
    }
    MPI_Count size, lb, ext;
    check(mpi_type_size(m->type, &size));
    CHECK_EQ_INT(size, m->n);
    check(mpi_type_get_extent(m->type, &lb, &ext));
    CHECK_EQ_INT(lb, m->lb);
    CHECK_EQ_INT(ext, extent(m));
    check(mpi_type_get_true_extent(m->type, &lb, &ext));
    CHECK_EQ_INT(lb, m->n ? low : 0);
    CHECK_EQ_INT(ext, m->n ? high - low : 0);
}

static void check_data(const map *m, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < m->n; k++)
            expected[i * m->n + k] = memory[SPACE + i * extent(m) + m->at[k]];
    MPI_Count position = 0;
    check(mpi_pack(memory + SPACE, count, m->type, packed, sizeof(packed), &position, NULL));
    CHECK_EQ_INT(position, (long)count * m->n);
    CHECK_MEM(packed, expected, (size_t)position);
    bool dense = true;
    for (int k = 0; k < m->n; k++)
        dense = dense && m->at[k] == k;
    CHECK(m->type->dense == (m->n == 0 || (dense && extent(m) == m->n)));
}

static void check_type(map *m) {
    check(mpi_type_commit(m->type));
    check_bounds(m);
    for (int count = 0; count <= 3; count++)
        check_data(m, count);
}

// ---- Contents: the type again, from what it tells.

typedef struct told {
    MPI_Count n[4];  // ints, addresses, large counts, types
    int combiner;
    int ints[256];
    MPI_Aint addresses[256];
    MPI_Count counts[256];
    MPI_Datatype types[64];
} told;

static void ask(whm_type *type, told *t) {
    check(mpi_type_get_envelope_c(type, &t->n[0], &t->n[1], &t->n[2], &t->n[3], &t->combiner));
    if (t->combiner != MPI_COMBINER_NAMED)
        check(mpi_type_get_contents_c(type, t->n[0], t->n[1], t->n[2], t->n[3], t->ints,
                                      t->addresses, t->counts, t->types));
}

// Where the argument of a constructor stands: the next of the ints or of the large counts.
typedef struct reader {
    const told *t;
    int ints, addresses, counts;
} reader;

static long next_int(reader *r) {
    return r->t->ints[r->ints++];
}
static long next_count(reader *r) {
    return r->t->n[2] ? r->t->counts[r->counts++] : r->t->ints[r->ints++];
}
static long next_address(reader *r) {
    return r->t->n[2] ? r->t->counts[r->counts++] : r->t->addresses[r->addresses++];
}
static void next_counts(reader *r, int n, long *out) {
    for (int i = 0; i < n; i++)
        out[i] = next_count(r);
}
static void next_addresses(reader *r, int n, long *out) {
    for (int i = 0; i < n; i++)
        out[i] = next_address(r);
}
static void next_ints(reader *r, int n, int *out) {
    for (int i = 0; i < n; i++)
        out[i] = (int)next_int(r);
}

static int again_array(reader *r, whm_type *old, whm_type **type) {
    long a[16], b[16], c[16];
    int i1[16], i2[16], i3[16];
    if (r->t->combiner == MPI_COMBINER_SUBARRAY) {
        int n = (int)next_int(r);
        next_counts(r, n, a);
        next_counts(r, n, b);
        next_counts(r, n, c);
        return mpi_type_create_subarray(n, a, b, c, (int)next_int(r), old, type);
    }
    int size = (int)next_int(r), rank = (int)next_int(r), n = (int)next_int(r);
    next_counts(r, n, a);
    next_ints(r, n, i1);
    next_ints(r, n, i2);
    next_ints(r, n, i3);
    return mpi_type_create_darray(size, rank, n, a, i1, i2, i3, (int)next_int(r), old, type);
}

static int again(const told *t, whm_type **type) {
    reader r = {.t = t};
    whm_type *of[64] = {NULL};
    for (int i = 0; i < t->n[3]; i++)
        CHECK((of[i] = whm_type_of(t->types[i])));
    long n, length, a[256], b[256];
    switch (t->combiner) {
    case MPI_COMBINER_DUP: return mpi_type_dup(of[0], type);
    case MPI_COMBINER_CONTIGUOUS: return mpi_type_contiguous(next_count(&r), of[0], type);
    case MPI_COMBINER_VECTOR:
        n = next_count(&r);
        length = next_count(&r);
        return mpi_type_vector(n, length, next_count(&r), of[0], type);
    case MPI_COMBINER_HVECTOR:
        n = next_count(&r);
        length = next_count(&r);
        return mpi_type_create_hvector(n, length, next_address(&r), of[0], type);
    case MPI_COMBINER_INDEXED:
        n = next_count(&r);
        next_counts(&r, (int)n, a);
        next_counts(&r, (int)n, b);
        return mpi_type_indexed(n, a, b, of[0], type);
    case MPI_COMBINER_HINDEXED:
        n = next_count(&r);
        next_counts(&r, (int)n, a);
        next_addresses(&r, (int)n, b);
        return mpi_type_create_hindexed(n, a, b, of[0], type);
    case MPI_COMBINER_INDEXED_BLOCK:
        n = next_count(&r);
        length = next_count(&r);
        next_counts(&r, (int)n, b);
        return mpi_type_create_indexed_block(n, length, b, of[0], type);
    case MPI_COMBINER_HINDEXED_BLOCK:
        n = next_count(&r);
        length = next_count(&r);
        next_addresses(&r, (int)n, b);
        return mpi_type_create_hindexed_block(n, length, b, of[0], type);
    case MPI_COMBINER_STRUCT:
        n = next_count(&r);
        next_counts(&r, (int)n, a);
        next_addresses(&r, (int)n, b);
        return mpi_type_create_struct(n, a, b, of, type);
    case MPI_COMBINER_RESIZED:
        n = next_address(&r);
        return mpi_type_create_resized(of[0], n, next_address(&r), type);
    default: return again_array(&r, of[0], type);
    }
}

static void free_told(const told *t) {
    for (int i = 0; i < t->n[3]; i++) {
        whm_type *type = whm_type_of(t->types[i]);
        if (!type->basic)
            check(mpi_type_free(type));
    }
}

static void check_contents(whm_type *type) {
    static told first, second;
    ask(type, &first);
    whm_type *twin;
    check(again(&first, &twin));
    ask(twin, &second);
    CHECK_MEM(first.n, second.n, sizeof(first.n));
    CHECK_EQ_INT(first.combiner, second.combiner);
    CHECK_MEM(first.ints, second.ints, (size_t)first.n[0] * sizeof(int));
    CHECK_MEM(first.addresses, second.addresses, (size_t)first.n[1] * sizeof(MPI_Aint));
    CHECK_MEM(first.counts, second.counts, (size_t)first.n[2] * sizeof(MPI_Count));
    CHECK_MEM(first.types, second.types, (size_t)first.n[3] * sizeof(MPI_Datatype));
    bool equal;
    CHECK(wh_type_equal(type->layout, twin->layout, &equal) == WH_OK && equal);
    free_told(&first);
    free_told(&second);
    check(mpi_type_free(twin));
}

static void begin(const char *call) {
    whm_self->call = call;
    if (!whm_self->named[(uintptr_t)MPI_INT]) {
        check(whm_types_begin(whm_self));
        for (size_t i = 0; i < sizeof(memory); i++)
            memory[i] = (unsigned char)(i * 2654435761u >> 13);
    }
}

// Checks the type that `m` has been given, in all respects, and ends it.
static void check_all(map *m) {
    check_type(m);
    check_contents(m->type);
}

static void end(map *m) {
    if (!m->type->basic)
        check(mpi_type_free(m->type));
    free(m);
}

// ---- Elements that the constructors are tried on: plain ones, pairs with gaps, with bounds by hand, negative bounds.

enum { ELEMENTS = 7 };

static map *resized_by(map *old, long lb, long ext) {
    map *m = assemble(1, &(place){old, 0});
    m->marked = true;
    m->lb = lb;
    m->ub = lb + ext;
    check(mpi_type_create_resized(old->type, lb, ext, &m->type));
    end(old);
    return m;
}

static map *element(int which) {
    switch (which) {
    case 0: return char_map();
    case 1: return int_map();
    case 2: return double_map();
    case 3: return short_int_map();
    case 4: return resized_by(int_map(), -3, 12);
    case 5: return resized_by(short_int_map(), 2, -20);
    default: return resized_by(double_map(), 0, 4);
    }
}

static const char *const calls[] = {"MPI_Type", "MPI_Type_c"};

#define FOR_EACH_ELEMENT(of)                                                                       \
    for (int large = 0; large < 2; large++)                                                        \
        for (int which = 0; which < ELEMENTS; which++)                                             \
            for (map *of = (begin(calls[large]), element(which)); of; end(of), of = NULL)

TEST(resized_and_dup) {
    FOR_EACH_ELEMENT(of) {
        check_type(of);
        map *m = assemble(1, &(place){of, 0});
        m->marked = of->marked;
        m->lb = of->lb;
        m->ub = of->ub;
        check(mpi_type_dup(of->type, &m->type));
        check_all(m);
        end(m);
        if (of->type->made)
            check_contents(of->type);
    }
}

TEST(contiguous) {
    FOR_EACH_ELEMENT(of) {
        for (int n = 0; n < 6; n++) {
            map *m = blocks(1, (long[]){n}, (long[]){0}, of);
            check(mpi_type_contiguous(n, of->type, &m->type));
            check_all(m);
            end(m);
        }
    }
}

TEST(vectors) {
    static const long cases[][3] = {{0, 2, 3}, {3, 0, 3},  {1, 2, 7},  {3, 2, 2}, {3, 2, 4},
                                    {4, 1, 3}, {3, 2, -5}, {2, 3, -3}, {5, 1, 0}, {4, 2, 1}};
    FOR_EACH_ELEMENT(of) {
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            long n = cases[c][0], length = cases[c][1], stride = cases[c][2];
            for (int bytes = 0; bytes < 2; bytes++) {
                long lengths[8], at[8];
                for (long i = 0; i < n; i++) {
                    lengths[i] = length;
                    at[i] = i * stride * (bytes ? 5 : extent(of));
                }
                map *m = blocks((int)n, lengths, at, of);
                check(bytes ? mpi_type_create_hvector(n, length, stride * 5, of->type, &m->type)
                            : mpi_type_vector(n, length, stride, of->type, &m->type));
                check_all(m);
                end(m);
            }
        }
    }
}

TEST(indexed) {
    static const long lengths[] = {2, 0, 1, 3, 1}, places[] = {3, 9, 0, -7, 5};
    static const long same[] = {2, 2, 2, 2, 2};
    FOR_EACH_ELEMENT(of) {
        for (int n = 0; n <= 5; n++) {
            long at[5];
            for (int i = 0; i < n; i++)
                at[i] = places[i] * extent(of);
            map *m[4] = {blocks(n, lengths, at, of), blocks(n, lengths, places, of),
                         blocks(n, same, at, of), blocks(n, same, places, of)};
            check(mpi_type_indexed(n, lengths, places, of->type, &m[0]->type));
            check(mpi_type_create_hindexed(n, lengths, places, of->type, &m[1]->type));
            check(mpi_type_create_indexed_block(n, 2, places, of->type, &m[2]->type));
            check(mpi_type_create_hindexed_block(n, 2, places, of->type, &m[3]->type));
            for (int i = 0; i < 4; i++) {
                check_all(m[i]);
                end(m[i]);
            }
        }
    }
}

TEST(structs) {
    FOR_EACH_ELEMENT(of) {
        map *other[] = {double_map(), char_map()};
        for (int n = 0; n <= 4; n++) {
            const map *members[] = {other[1], of, other[0], other[1]};
            long lengths[] = {3, 2, 1, n == 4 ? 1 : 0}, at[] = {0, 40, 8, 100};
            whm_type *types[4];
            place places[16];
            int k = 0;
            for (int i = 0; i < n; i++) {
                types[i] = members[i]->type;
                for (long j = 0; j < lengths[i]; j++)
                    places[k++] = (place){members[i], at[i] + j * extent(members[i])};
            }
            map *m = assemble(k, places);
            check(mpi_type_create_struct(n, lengths, at, types, &m->type));
            check_all(m);
            end(m);
        }
        end(other[0]);
        end(other[1]);
    }
}

// ---- Arrays: every element of the full array in memory order; the part is those that a rule picks.

typedef bool (*picks)(const void *how, int dim, long index);

static map *part_of_array(int ndims, const long *sizes, int order, const map *of, picks pick,
                          const void *how) {
    place places[MOST];
    int k = 0;
    long total = 1;
    for (int i = 0; i < ndims; i++)
        total *= sizes[i];
    for (long linear = 0; linear < total; linear++) {
        long rest = linear;
        bool in = true;
        for (int i = 0; i < ndims; i++) {  // from the fastest dimension on
            int dim = order == MPI_ORDER_C ? ndims - 1 - i : i;
            in = in && pick(how, dim, rest % sizes[dim]);
            rest /= sizes[dim];
        }
        if (in)
            places[k++] = (place){of, linear * extent(of)};
    }
    map *m = assemble(k, places);
    m->marked = true;
    m->lb = 0;
    m->ub = total * extent(of);
    return m;
}

typedef struct window {
    const long *subsizes, *starts;
} window;

static bool in_window(const void *how, int dim, long index) {
    const window *w = how;
    return index >= w->starts[dim] && index < w->starts[dim] + w->subsizes[dim];
}

TEST(subarrays) {
    static const long sizes[] = {4, 3, 5},
                      parts[][6] = {{4, 3, 5, 0, 0, 0}, {2, 1, 3, 1, 2, 0}, {1, 3, 2, 3, 0, 3}};
    static const int orders[] = {MPI_ORDER_C, MPI_ORDER_FORTRAN};
    FOR_EACH_ELEMENT(of) {
        for (int c = 0; c < 18; c++) {
            int ndims = 1 + c / 6, order = orders[c % 2];
            window w = {parts[c / 2 % 3], parts[c / 2 % 3] + 3};
            map *m = part_of_array(ndims, sizes, order, of, in_window, &w);
            check(mpi_type_create_subarray(ndims, sizes, w.subsizes, w.starts, order, of->type,
                                           &m->type));
            check_all(m);
            end(m);
        }
    }
}

typedef struct grid {
    const long *sizes;
    const int *distribs, *dargs, *psizes;
    int coords[4];
} grid;

static bool is_mine(const void *how, int dim, long index) {
    const grid *g = how;
    long size = g->sizes[dim], procs = g->psizes[dim], block = g->dargs[dim];
    if (g->distribs[dim] == MPI_DISTRIBUTE_NONE)
        return true;
    if (block == MPI_DISTRIBUTE_DFLT_DARG)
        block = g->distribs[dim] == MPI_DISTRIBUTE_CYCLIC ? 1 : (size + procs - 1) / procs;
    return index / block % procs == g->coords[dim];
}

TEST(darrays) {
    enum { D = MPI_DISTRIBUTE_DFLT_DARG, N = MPI_DISTRIBUTE_NONE, B = MPI_DISTRIBUTE_BLOCK };
    enum { C = MPI_DISTRIBUTE_CYCLIC };
    static const struct {
        int ndims;
        long sizes[3];
        int distribs[3], dargs[3], psizes[3];
    } cases[] = {
        {1, {10}, {B}, {D}, {3}},
        {1, {10}, {C}, {3}, {2}},
        {1, {2}, {B}, {D}, {4}},
        {2, {5, 7}, {B, C}, {3, 2}, {2, 3}},
        {2, {6, 4}, {N, C}, {D, D}, {1, 4}},
        {3, {3, 4, 5}, {C, B, N}, {D, D, D}, {2, 2, 1}},
    };
    FOR_EACH_ELEMENT(of) {
        for (size_t c = 0; c < 2 * sizeof(cases) / sizeof(cases[0]); c++) {
            __typeof__(&cases[0]) k = &cases[c / 2];
            int order = c % 2 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, size = 1;
            for (int i = 0; i < k->ndims; i++)
                size *= k->psizes[i];
            for (int rank = 0; rank < size; rank++) {
                grid g = {.sizes = k->sizes,
                          .distribs = k->distribs,
                          .dargs = k->dargs,
                          .psizes = k->psizes};
                for (int i = k->ndims, rest = rank; i-- > 0; rest /= k->psizes[i])
                    g.coords[i] = rest % k->psizes[i];  // ranks of the grid are in C order
                map *m = part_of_array(k->ndims, k->sizes, order, of, is_mine, &g);
                check(mpi_type_create_darray(size, rank, k->ndims, k->sizes, k->distribs, k->dargs,
                                             k->psizes, order, of->type, &m->type));
                check_all(m);
                end(m);
            }
        }
    }
}

// ---- The standard's lists of arguments, for each constructor in both forms.

static void check_envelope(whm_type *type, int combiner, int ints, int addresses, int counts,
                           int types) {
    MPI_Count n[4];
    int found;
    check(mpi_type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &found));
    CHECK_EQ_INT(found, combiner);
    CHECK_EQ_INT(n[0], ints);
    CHECK_EQ_INT(n[1], addresses);
    CHECK_EQ_INT(n[2], counts);
    CHECK_EQ_INT(n[3], types);
    int small[3], error = mpi_type_get_envelope(type, &small[0], &small[1], &small[2], &found);
    CHECK_EQ_INT(error, counts ? MPI_ERR_TYPE : MPI_SUCCESS);
    check(mpi_type_free(type));
}

TEST(envelopes) {
    static const long two[] = {1, 2}, zero[] = {0, 0};
    static const int c[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, i2[] = {2, 2};
    for (int l = 0; l < 2; l++) {
        begin(calls[l]);
        whm_type *of = whm_type_named(MPI_INT), *t, *both[] = {of, of};
        check(mpi_type_contiguous(2, of, &t));
        check_envelope(t, MPI_COMBINER_CONTIGUOUS, l ? 0 : 1, 0, l ? 1 : 0, 1);
        check(mpi_type_vector(2, 1, 3, of, &t));
        check_envelope(t, MPI_COMBINER_VECTOR, l ? 0 : 3, 0, l ? 3 : 0, 1);
        check(mpi_type_create_hvector(2, 1, 3, of, &t));
        check_envelope(t, MPI_COMBINER_HVECTOR, l ? 0 : 2, l ? 0 : 1, l ? 3 : 0, 1);
        check(mpi_type_indexed(2, two, two, of, &t));
        check_envelope(t, MPI_COMBINER_INDEXED, l ? 0 : 5, 0, l ? 5 : 0, 1);
        check(mpi_type_create_hindexed(2, two, two, of, &t));
        check_envelope(t, MPI_COMBINER_HINDEXED, l ? 0 : 3, l ? 0 : 2, l ? 5 : 0, 1);
        check(mpi_type_create_indexed_block(2, 2, two, of, &t));
        check_envelope(t, MPI_COMBINER_INDEXED_BLOCK, l ? 0 : 4, 0, l ? 4 : 0, 1);
        check(mpi_type_create_hindexed_block(2, 2, two, of, &t));
        check_envelope(t, MPI_COMBINER_HINDEXED_BLOCK, l ? 0 : 2, l ? 0 : 2, l ? 4 : 0, 1);
        check(mpi_type_create_struct(2, two, two, both, &t));
        check_envelope(t, MPI_COMBINER_STRUCT, l ? 0 : 3, l ? 0 : 2, l ? 5 : 0, 2);
        check(mpi_type_create_resized(of, 0, 8, &t));
        check_envelope(t, MPI_COMBINER_RESIZED, 0, l ? 0 : 2, l ? 2 : 0, 1);
        check(mpi_type_create_subarray(2, two, two, zero, MPI_ORDER_C, of, &t));
        check_envelope(t, MPI_COMBINER_SUBARRAY, l ? 2 : 8, 0, l ? 6 : 0, 1);
        check(mpi_type_create_darray(4, 3, 2, two, c, i2, i2, MPI_ORDER_C, of, &t));
        check_envelope(t, MPI_COMBINER_DARRAY, l ? 10 : 12, 0, l ? 2 : 0, 1);
        check(mpi_type_dup(of, &t));
        check_envelope(t, MPI_COMBINER_DUP, 0, 0, 0, 1);
    }
}

// ---- Arguments that are wrong, and sizes beyond 32 bits.

#define CHECK_FAILS(error, call, says)                                                             \
    do {                                                                                           \
        whm_self->sentence[0] = 0;                                                                 \
        CHECK_EQ_INT(call, error);                                                                 \
        CHECK(strstr(whm_self->sentence, says));                                                   \
    } while (0)

TEST(wrong_arguments) {
    begin("MPI_Type");
    static const long two[] = {1, 2}, minus[] = {1, -2}, five[] = {5, 5};
    static const int c[] = {MPI_DISTRIBUTE_CYCLIC, 99}, i2[] = {2, 2};
    whm_type *of = whm_type_named(MPI_INT), *t = NULL, *double_int = whm_type_named(MPI_2INT);
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_indexed(2, minus, two, of, &t), "blocklengths[1] is -2");
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_create_subarray(2, two, five, two, MPI_ORDER_C, of, &t),
                "subsizes[0] is 5");
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_create_subarray(2, five, two, two, 3, of, &t), "order is 3");
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_create_subarray(0, five, two, two, MPI_ORDER_C, of, &t),
                "ndims is 0");
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_create_darray(4, 3, 2, five, c, i2, i2, MPI_ORDER_C, of, &t),
                "array_of_distribs[1] is 99");
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_create_darray(3, 3, 1, five, c, i2, i2, MPI_ORDER_C, of, &t),
                "rank is 3");
    CHECK_FAILS(MPI_ERR_ARG, mpi_type_contiguous(INT64_MAX / 2, of, &t), "2^61");
    CHECK(!t);
    CHECK_FAILS(MPI_ERR_TYPE, mpi_type_free(double_int), "MPI_2INT");
}

TEST(large_counts) {
    begin("MPI_Type_contiguous_c");
    whm_type *of = whm_type_named(MPI_DOUBLE), *t;
    MPI_Count size, lb, ext;
    check(mpi_type_contiguous((MPI_Count)1 << 40, of, &t));
    check(mpi_type_size(t, &size));
    CHECK_EQ_INT(size, (MPI_Count)1 << 43);
    check(mpi_type_get_extent_x(t, &lb, &ext));
    CHECK_EQ_INT(ext, (MPI_Count)1 << 43);
    check(mpi_type_free(t));
    check(mpi_type_vector(3, 1, (MPI_Count)1 << 40, of, &t));
    check(mpi_type_get_true_extent_x(t, &lb, &ext));
    CHECK_EQ_INT(ext, ((MPI_Count)1 << 44) + 8);
    check(mpi_type_free(t));
}

TEST_MAIN()
