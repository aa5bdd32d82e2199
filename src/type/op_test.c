// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions: every operation on every predefined type against plain arithmetic, the rules for NaN,
// unsigned and small floats, and accumulation through layouts cut anywhere.
#include <complex.h>
#include <math.h>

#include <wherry/pack.h>

#include "base/rng.h"
#include "type/gen.h"
#include "type/op.h"
#include "type/oracle.h"
#include "type/small_float.h"

#include "base/test.h"

static whi_rng rng;

// What each operation gives on integers of 8 to 64 bits, in 128.
static __int128 integer_result(wh_reduce op, __int128 a, __int128 b) {
    switch (op) {
    case WH_REDUCE_MAX: return a > b ? a : b;
    case WH_REDUCE_MIN: return a < b ? a : b;
    case WH_REDUCE_SUM: return a + b;
    case WH_REDUCE_PROD: return (__int128)((unsigned __int128)a * (unsigned __int128)b);
    case WH_REDUCE_LAND: return a && b;
    case WH_REDUCE_LOR: return a || b;
    case WH_REDUCE_LXOR: return (a != 0) != (b != 0);
    case WH_REDUCE_BAND: return a & b;
    case WH_REDUCE_BOR: return a | b;
    default: return a ^ b;
    }
}

static __int128 load_integer(const void *at, int size, bool is_signed) {
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)size);
    if (is_signed && size < 8 && bits >> (8 * size - 1))
        bits |= ~(uint64_t)0 << (8 * size);
    return is_signed ? (__int128)(int64_t)bits : (__int128)bits;
}

static void check_integers(wh_type_id id, bool is_signed) {
    int size = whi_basics[id].size;
    for (int op = WH_REDUCE_MAX; op <= WH_REDUCE_BXOR; op++)
        for (int i = 0; i < 2000; i++) {
            uint64_t a = whi_rng_u64(&rng), b = whi_rng_u64(&rng);
            a >>= whi_rng_below(&rng, 64);
            b = whi_rng_chance(&rng, 10) ? a : b >> whi_rng_below(&rng, 64);
            __int128 x = load_integer(&a, size, is_signed), y = load_integer(&b, size, is_signed);
            __int128 wanted = integer_result((wh_reduce)op, x, y);
            size_t actual;
            CHECK_EQ_INT(wh_accumulate(&b, (size_t)size, &a, 1, wh_type_basic(id), 0, (wh_reduce)op,
                                       &actual),
                         WH_OK);
            CHECK_MEM(&a, &wanted, (size_t)size);
        }
}

TEST(integers_of_all_widths) {
    whi_rng_init(&rng, 1);
    for (int id = 0; id < WH_TYPE_IDS; id++)
        if (whi_basics[id].type_class == WHI_TYPE_CLASS_INT ||
            whi_basics[id].type_class == WHI_TYPE_CLASS_UINT)
            check_integers((wh_type_id)id, whi_basics[id].type_class == WHI_TYPE_CLASS_INT);
    CHECK_EQ_INT(whi_basics[WH_TYPE_CHAR].type_class,
                 (char)-1 < 0 ? WHI_TYPE_CLASS_INT : WHI_TYPE_CLASS_UINT);
}

#define REDUCE(op, id, a, b)                                                                       \
    do {                                                                                           \
        size_t actual;                                                                             \
        CHECK_EQ_INT(wh_accumulate(&(b), (size_t)wh_type_size(wh_type_basic(id)), &(a), 1,         \
                                   wh_type_basic(id), 0, op, &actual),                             \
                     WH_OK);                                                                       \
    } while (0)

TEST(unsigned_is_unsigned) {
    uint32_t a = 0x90000000, b = 5;
    REDUCE(WH_REDUCE_MAX, WH_TYPE_UINT32, a, b);
    CHECK_EQ_INT(a, 0x90000000);
    int32_t c = (int32_t)0x90000000, d = 5;
    REDUCE(WH_REDUCE_MAX, WH_TYPE_INT32, c, d);
    CHECK_EQ_INT(c, 5);
}

#define CHECK_FLOAT(T, id)                                                                         \
    do {                                                                                           \
        T nan_ = (T)NAN, one = 1, a = one, b = nan_;                                               \
        REDUCE(WH_REDUCE_MAX, id, a, b);                                                           \
        CHECK(a != a);                                                                             \
        b = one;                                                                                   \
        REDUCE(WH_REDUCE_MAX, id, a, b);                                                           \
        CHECK(a != a);                                                                             \
        a = one, b = nan_;                                                                         \
        REDUCE(WH_REDUCE_MIN, id, a, b);                                                           \
        CHECK(a != a);                                                                             \
        for (int i = 0; i < 1000; i++) {                                                           \
            T x = (T)(int32_t)whi_rng_u64(&rng) / 1000, y = (T)(int32_t)whi_rng_u64(&rng) / 777;   \
            a = x, b = y;                                                                          \
            REDUCE(WH_REDUCE_MAX, id, a, b);                                                       \
            CHECK(a == (x > y ? x : y));                                                           \
            a = x;                                                                                 \
            REDUCE(WH_REDUCE_MIN, id, a, b);                                                       \
            CHECK(a == (x < y ? x : y));                                                           \
            a = x;                                                                                 \
            REDUCE(WH_REDUCE_SUM, id, a, b);                                                       \
            CHECK(a == (T)(x + y));                                                                \
            a = x;                                                                                 \
            REDUCE(WH_REDUCE_PROD, id, a, b);                                                      \
            CHECK(a == (T)(x * y));                                                                \
            a = x;                                                                                 \
            b = 0;                                                                                 \
            REDUCE(WH_REDUCE_LAND, id, a, b);                                                      \
            CHECK(a == 0);                                                                         \
            a = x;                                                                                 \
            REDUCE(WH_REDUCE_LOR, id, a, b);                                                       \
            CHECK(a == (x != 0));                                                                  \
        }                                                                                          \
    } while (0)

TEST(floats) {
    CHECK_FLOAT(float, WH_TYPE_FLOAT);
    CHECK_FLOAT(double, WH_TYPE_DOUBLE);
    CHECK_FLOAT(long double, WH_TYPE_LONG_DOUBLE);
}

#define CHECK_COMPLEX(T, id)                                                                       \
    do {                                                                                           \
        T x = 3 + 4 * I, y = -2 + 5 * I, a = x, b = y;                                             \
        REDUCE(WH_REDUCE_SUM, id, a, b);                                                           \
        CHECK(a == (T)(1 + 9 * I));                                                                \
        a = x;                                                                                     \
        REDUCE(WH_REDUCE_PROD, id, a, b);                                                          \
        CHECK(a == (T)(-26 + 7 * I));                                                              \
    } while (0)

TEST(complexes) {
    CHECK_COMPLEX(float _Complex, WH_TYPE_COMPLEX_FLOAT);
    CHECK_COMPLEX(double _Complex, WH_TYPE_COMPLEX_DOUBLE);
    CHECK_COMPLEX(long double _Complex, WH_TYPE_COMPLEX_LONG_DOUBLE);
}

static double times_power_of_2(double value, int power) {
    for (; power > 0; power--)
        value *= 2;
    for (; power < 0; power++)
        value /= 2;
    return value;
}

// The formats from their definition: sign, 2^exponent, fraction.
static double value_of(uint32_t bits, whi_small_float f) {
    int bias = (1 << (f.exponent - 1)) - 1;
    int e = (int)(bits >> f.mantissa) & ((1 << f.exponent) - 1);
    int m = (int)bits & ((1 << f.mantissa) - 1);
    bool negative = bits >> (f.exponent + f.mantissa) & 1;
    bool top = e == (1 << f.exponent) - 1;
    double value;
    if (top && !f.finite)
        value = m ? NAN : INFINITY;
    else if (top && f.finite && m == (1 << f.mantissa) - 1)
        value = NAN;
    else if (e == 0)
        value = times_power_of_2(m, 1 - bias - f.mantissa);
    else
        value = times_power_of_2((1 << f.mantissa) + m, e - bias - f.mantissa);
    return negative ? -value : value;
}

// The next positive float above or below a positive one.
static float neighbour(float value, int step) {
    return whi_float_of_bits(whi_bits_of_float(value) + (uint32_t)step);
}

static void check_format(whi_small_float f) {
    uint32_t n = 1u << (1 + f.exponent + f.mantissa);
    uint32_t infinity_or_nan = (1u << f.exponent) - 1;
    for (uint32_t bits = 0; bits < n; bits++) {
        double wanted = value_of(bits, f);
        float got = whi_small_decode(bits, f);
        CHECK(wanted == (double)got || (isnan(wanted) && isnan(got)));
        CHECK(!signbit(wanted) == !signbit(got));
        if (!isnan(wanted))
            CHECK_EQ_INT(whi_small_encode(got, f), bits);
    }
    // Halfway to the next number goes to the even one, a little more or less to the nearer.
    for (uint32_t bits = 0; bits + 2 < n / 2; bits++) {
        if ((bits + 1) >> f.mantissa == infinity_or_nan)
            break;
        double low = value_of(bits, f), high = value_of(bits + 1, f);
        float middle = (float)((low + high) / 2);
        if ((double)middle != (low + high) / 2)
            continue;  // below what a float can tell apart
        CHECK_EQ_INT(whi_small_encode(middle, f), bits & 1 ? bits + 1 : bits);
        CHECK_EQ_INT(whi_small_encode(neighbour(middle, -1), f), bits);
        CHECK_EQ_INT(whi_small_encode(neighbour(middle, 1), f), bits + 1);
    }
    CHECK(isnan(whi_small_decode(whi_small_encode(NAN, f), f)));
    float huge = whi_small_decode(whi_small_encode(3e38f * 10, f), f);
    CHECK(f.finite ? isnan(huge) : isinf(huge));
}

TEST(small_floats_convert) {
    check_format(whi_float16);
    check_format(whi_bfloat16);
    check_format(whi_e4m3);
    check_format(whi_e5m2);
}

TEST(small_floats_reduce) {
    uint16_t a = (uint16_t)whi_small_encode(1.5f, whi_float16);
    uint16_t b = (uint16_t)whi_small_encode(2.25f, whi_float16);
    REDUCE(WH_REDUCE_SUM, WH_TYPE_FLOAT16, a, b);
    CHECK(whi_small_decode(a, whi_float16) == 3.75f);
    uint8_t c = (uint8_t)whi_small_encode(-3.f, whi_e4m3),
            d = (uint8_t)whi_small_encode(2.f, whi_e4m3);
    REDUCE(WH_REDUCE_MAX, WH_TYPE_FLOAT8_E4M3, c, d);
    CHECK(whi_small_decode(c, whi_e4m3) == 2.f);
    a = (uint16_t)whi_small_encode(3.f, whi_bfloat16);
    b = (uint16_t)whi_small_encode(7.f, whi_bfloat16);
    REDUCE(WH_REDUCE_PROD, WH_TYPE_BFLOAT16, a, b);
    CHECK(whi_small_decode(a, whi_bfloat16) == 21.f);
    c = (uint8_t)whi_small_encode(0.f, whi_e5m2);
    d = (uint8_t)whi_small_encode(4.f, whi_e5m2);
    REDUCE(WH_REDUCE_LOR, WH_TYPE_FLOAT8_E5M2, c, d);
    CHECK(whi_small_decode(c, whi_e5m2) == 1.f);
}

TEST(pairs) {
    struct di {
        double value;
        int index;
    } a = {2, 7}, b = {2, 3}, c = {NAN, 9}, d = {5, 1};
    char packed[12];
    size_t actual, size;
    const wh_type *type = wh_type_basic(WH_TYPE_DOUBLE_INT);
    CHECK_EQ_INT(wh_pack(&b, 1, type, 0, packed, sizeof(packed), 0, &size), WH_OK);
    CHECK_EQ_INT(wh_accumulate(packed, size, &a, 1, type, 0, WH_REDUCE_MAXLOC, &actual), WH_OK);
    CHECK(a.value == 2 && a.index == 3);
    CHECK_EQ_INT(wh_pack(&d, 1, type, 0, packed, sizeof(packed), 0, &size), WH_OK);
    CHECK_EQ_INT(wh_accumulate(packed, size, &a, 1, type, 0, WH_REDUCE_MINLOC, &actual), WH_OK);
    CHECK(a.value == 2 && a.index == 3);
    CHECK_EQ_INT(wh_accumulate(packed, size, &a, 1, type, 0, WH_REDUCE_MAXLOC, &actual), WH_OK);
    CHECK(a.value == 5 && a.index == 1);
    CHECK_EQ_INT(wh_pack(&c, 1, type, 0, packed, sizeof(packed), 0, &size), WH_OK);
    CHECK_EQ_INT(wh_accumulate(packed, size, &a, 1, type, 0, WH_REDUCE_MINLOC, &actual), WH_OK);
    CHECK(isnan(a.value) && a.index == 9);
    struct si {
        short value;
        int index;
    } x[] = {{4, 1}, {5, 2}}, y[] = {{5, 0}, {5, 1}};
    type = wh_type_basic(WH_TYPE_SHORT_INT);
    CHECK_EQ_INT(wh_pack(y, 2, type, 0, packed, sizeof(packed), 0, &size), WH_OK);
    CHECK_EQ_INT(wh_accumulate(packed, size, x, 2, type, 0, WH_REDUCE_MAXLOC, &actual), WH_OK);
    CHECK(x[0].value == 5 && x[0].index == 0 && x[1].value == 5 && x[1].index == 1);
}

TEST(fewer_bytes_than_elements) {
    const int packed[3] = {10, 20, 30};
    int a[3] = {1, 2, 3};
    const wh_type *type = wh_type_basic(WH_TYPE_INT);
    size_t actual;
    CHECK_EQ_INT(wh_accumulate(packed, 8, a, 3, type, 0, WH_REDUCE_SUM, &actual), WH_OK);
    CHECK(actual == 8 && a[0] == 11 && a[1] == 22 && a[2] == 3);
    CHECK_EQ_INT(wh_accumulate(packed, 12, a, 2, type, 0, WH_REDUCE_SUM, &actual), WH_OK);
    CHECK(actual == 8 && a[0] == 21 && a[1] == 42 && a[2] == 3);
}

TEST(undefined_operations_are_refused) {
    int defined[WH_REDUCES] = {0};
    for (int id = 0; id < WH_TYPE_IDS; id++)
        for (int op = 0; op < WH_REDUCES; op++) {
            const wh_type *type = wh_type_basic((wh_type_id)id);
            char a[32] = {0}, b[32] = {0}, before[32] = {0};
            size_t actual = 99;
            bool may = wh_reduce_defined((wh_reduce)op, type);
            wh_status status = wh_accumulate(b, (size_t)whi_basics[id].size, a, 1, type, 0,
                                             (wh_reduce)op, &actual);
            CHECK_EQ_INT(status, may ? WH_OK : WH_ENOTSUP);
            if (!may)
                CHECK_MEM(a, before, sizeof(a));
            defined[op] += may;
        }
    // Integers and characters, 3 + 4 floats, 3 complex, BOOL, BYTE, 6 pairs.
    int integers = 42, floats = 7;
    CHECK_EQ_INT(defined[WH_REDUCE_MAX], integers + floats);
    CHECK_EQ_INT(defined[WH_REDUCE_SUM], integers + floats + 3);
    CHECK_EQ_INT(defined[WH_REDUCE_LAND], integers + floats + 1);
    CHECK_EQ_INT(defined[WH_REDUCE_BXOR], integers + 2);
    CHECK_EQ_INT(defined[WH_REDUCE_MAXLOC], 6);
    CHECK_EQ_INT(defined[WH_REDUCE_REPLACE], WH_TYPE_IDS);
    CHECK_EQ_INT(wh_accumulate("", 0, defined, 1, wh_type_basic(WH_TYPE_INT), 0, (wh_reduce)99,
                               &(size_t){0}),
                 WH_EINVAL);
}

// Layouts: BXOR through any type of integers equals the oracle's element by element, whole, from
// the packed side, in segments at borders, and through an accumulator in segments anywhere.
enum { ROOM = 60000 };

typedef struct layout_case {
    wh_type *type;
    int64_t count, total, low, map[ROOM];
    bool padding;  // a long double has bytes that no operation writes
    unsigned char before[ROOM], memory[ROOM], wanted[ROOM], packed[ROOM], incoming[ROOM];
} layout_case;

static unsigned char *origin(const layout_case *c, unsigned char *memory) {
    return (unsigned char *)((uintptr_t)memory - (uintptr_t)c->low);
}

static bool draw_case(layout_case *c, whi_gen *gen) {
    c->type = whi_gen_type(gen, 1 + (int)whi_rng_below(&gen->rng, 4));
    c->count = 1 + (int64_t)whi_rng_below(&gen->rng, 3);
    c->total = c->count * c->type->at.size;
    whi_oracle_map(c->type, c->count, c->map);
    int64_t span;
    bool overlaps = whi_oracle_span(c->map, c->total, &c->low, &span);
    return c->total && !overlaps && span < ROOM && wh_reduce_defined(WH_REDUCE_SUM, c->type);
}

// Two sums of wrapping integers commute, so segments may come in any order.
static void element_sum(int64_t offset, wh_type_id id, void *arg) {
    layout_case *c = ((void **)arg)[0];
    const unsigned char **next = ((const unsigned char ***)arg)[1];
    size_t actual;
    CHECK_EQ_INT(wh_accumulate(*next, whi_basics[id].size, origin(c, c->wanted) + offset, 1,
                               wh_type_basic(id), 0, WH_REDUCE_SUM, &actual),
                 WH_OK);
    *next += whi_basics[id].size;
}

static void note_padding(int64_t offset, wh_type_id id, void *arg) {
    (void)offset;
    *(bool *)arg |= id == WH_TYPE_LONG_DOUBLE || id == WH_TYPE_COMPLEX_LONG_DOUBLE;
}

static void check_layout(layout_case *c, whi_gen *gen) {
    const unsigned char *next = c->incoming;
    void *arg[] = {c, &next};
    size_t actual, total = (size_t)c->total;
    memcpy(c->wanted, c->before, ROOM);
    whi_oracle_walk(c->type, c->count, element_sum, arg);

    memcpy(c->memory, c->before, ROOM);
    CHECK_EQ_INT(wh_accumulate(c->incoming, total, origin(c, c->memory), c->count, c->type, 0,
                               WH_REDUCE_SUM, &actual),
                 WH_OK);
    CHECK_EQ_INT(actual, total);
    CHECK_MEM(c->memory, c->wanted, ROOM);

    memcpy(c->packed, c->incoming, total);
    CHECK_EQ_INT(wh_pack_accumulate(origin(c, c->before), c->count, c->type, 0, c->packed, total,
                                    WH_REDUCE_SUM, &actual),
                 WH_OK);
    c->padding = false;
    whi_oracle_walk(c->type, 1, note_padding, &c->padding);
    for (int64_t i = 0; i < c->total && !c->padding; i++)
        CHECK(c->packed[i] == origin(c, c->wanted)[c->map[i]]);

    // Packed with packed, in two parts that meet between elements: what was there, and what comes.
    unsigned char both[ROOM];
    int64_t middle;
    CHECK_EQ_INT(wh_pack(origin(c, c->before), c->count, c->type, 0, both, total, 0, &actual),
                 WH_OK);
    CHECK_EQ_INT(
        wh_type_get_border(c->type, (int64_t)whi_rng_below(&gen->rng, total + 1), &middle, NULL),
        WH_OK);
    for (int part = 0; part < 2; part++) {
        size_t from = part ? (size_t)middle : 0, size = part ? total - from : (size_t)middle;
        CHECK_EQ_INT(wh_accumulate_packed(c->incoming + from, both + from, size, c->count, c->type,
                                          from, WH_REDUCE_SUM, NULL, NULL),
                     WH_OK);
    }
    if (!c->padding)
        CHECK_MEM(both, c->packed, total);

    // Segments anywhere, in two interleaved sequences: first all even ones, then all odd ones.
    wh_accumulator *acc;
    memcpy(c->memory, c->before, ROOM);
    CHECK_EQ_INT(
        wh_accumulator_create(origin(c, c->memory), c->count, c->type, WH_REDUCE_SUM, &acc), WH_OK);
    size_t step = 1 + whi_rng_below(&gen->rng, 40);
    for (size_t parity = 0; parity < 2; parity++)
        for (size_t at = parity * step; at < total; at += 2 * step)
            CHECK_EQ_INT(wh_accumulator_add(acc, at, c->incoming + at,
                                            total - at < step ? total - at : step),
                         WH_OK);
    CHECK_EQ_INT(wh_accumulator_pending(acc), 0);
    wh_accumulator_destroy(acc);
    CHECK_MEM(c->memory, c->wanted, ROOM);
}

TEST(layouts_accumulate) {
    static layout_case c;
    int done = 0;
    for (uint64_t seed = 1; done < 2000; seed++) {
        whi_gen gen = {.max_size = 3000, .max_span = 12000};
        whi_rng_init(&gen.rng, seed);
        if (draw_case(&c, &gen)) {
            // Small values: sums of floats are exact, so that their order does not matter.
            for (int i = 0; i < ROOM; i++) {
                c.before[i] = (unsigned char)(whi_rng_u64(&gen.rng) & 0x0f);
                c.incoming[i] = (unsigned char)(whi_rng_u64(&gen.rng) & 0x0f);
            }
            check_layout(&c, &gen);
            done++;
        }
        wh_type_release(c.type);
    }
}

TEST(cut_elements_are_refused_in_one_shot) {
    double memory[4] = {0}, packed[4] = {0};
    size_t actual = 99;
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    CHECK_EQ_INT(wh_accumulate(packed, 8, memory, 4, d, 4, WH_REDUCE_SUM, &actual), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "offset") != NULL);
    CHECK_EQ_INT(wh_accumulate(packed, 12, memory, 4, d, 8, WH_REDUCE_SUM, &actual), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "end") != NULL);
    CHECK_EQ_INT(actual, 99);
    CHECK_EQ_INT(wh_accumulate(packed, 16, memory, 4, d, 8, WH_REDUCE_SUM, &actual), WH_OK);
    CHECK_EQ_INT(actual, 16);
}

TEST(bytes_that_come_twice_are_refused) {
    double memory = 0, packed = 1;
    wh_accumulator *acc;
    CHECK_EQ_INT(
        wh_accumulator_create(&memory, 1, wh_type_basic(WH_TYPE_DOUBLE), WH_REDUCE_SUM, &acc),
        WH_OK);
    CHECK_EQ_INT(wh_accumulator_add(acc, 0, &packed, 6), WH_OK);
    CHECK_EQ_INT(wh_accumulator_pending(acc), 6);
    CHECK_EQ_INT(wh_accumulator_add(acc, 0, &packed, 6), WH_EINVAL);
    CHECK_EQ_INT(wh_accumulator_add(acc, 6, (char *)&packed + 6, 3), WH_EINVAL);
    CHECK_EQ_INT(wh_accumulator_add(acc, 6, (char *)&packed + 6, 2), WH_OK);
    CHECK(memory == 1);
    CHECK_EQ_INT(wh_accumulator_add(acc, 0, &packed, 3), WH_OK);  // pending bytes are freed, too
    wh_accumulator_destroy(acc);
}

static void user_average(const void *in, void *inout, size_t n, const wh_type *type, void *arg) {
    ++*(int *)arg;
    CHECK(type == wh_type_basic(WH_TYPE_INT32));
    for (size_t i = 0; i < n; i++)
        ((int32_t *)inout)[i] = (((int32_t *)inout)[i] + ((const int32_t *)in)[i]) / 2;
}

TEST(user_functions) {
    int32_t memory[] = {10, 77, 20, 77}, packed[] = {20, 40}, wanted[] = {15, 77, 30, 77};
    wh_type *type;
    int calls = 0;
    size_t actual;
    CHECK_EQ_INT(wh_type_create_vector(2, 1, 2, wh_type_basic(WH_TYPE_INT32), &type), WH_OK);
    CHECK_EQ_INT(
        wh_accumulate_fn(packed, sizeof(packed), memory, 1, type, 0, user_average, &calls, &actual),
        WH_OK);
    CHECK_MEM(memory, wanted, sizeof(wanted));
    CHECK(calls > 0);
    CHECK_EQ_INT(wh_accumulate_fn(packed, 0, memory, 1, type, 0, NULL, NULL, &actual), WH_EINVAL);
    // The first operand is what is there.
    int32_t in[] = {1, 2}, inout[] = {11, 22}, average[] = {6, 12};
    calls = 0;
    CHECK_EQ_INT(wh_accumulate_packed(in, inout, sizeof(in), 1, type, 0, WH_REDUCE_NO_OP,
                                      user_average, &calls),
                 WH_OK);
    CHECK_MEM(inout, average, sizeof(average));
    CHECK(calls > 0);
    wh_type_release(type);
}

TEST(packed_with_packed) {
    const wh_type *d = wh_type_basic(WH_TYPE_DOUBLE);
    double a[2] = {1, 2}, b[2] = {3, 4};
    CHECK_EQ_INT(wh_accumulate_packed(a, b, 4, 2, d, 8, WH_REDUCE_SUM, NULL, NULL), WH_EINVAL);
    CHECK(strstr(wh_type_error(), "the end") != NULL);
    CHECK_EQ_INT(wh_accumulate_packed(a, b, 16, 2, d, 8, WH_REDUCE_SUM, NULL, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_accumulate_packed(NULL, b, 16, 2, d, 0, WH_REDUCE_SUM, NULL, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_accumulate_packed(a, b, 16, 2, d, 0, WH_REDUCE_BAND, NULL, NULL), WH_ENOTSUP);
    CHECK(b[0] == 3 && b[1] == 4);
    CHECK_EQ_INT(wh_accumulate_packed(a, b, 16, 2, d, 0, WH_REDUCE_NO_OP, NULL, NULL), WH_OK);
    CHECK(b[0] == 3 && b[1] == 4);
    CHECK_EQ_INT(wh_accumulate_packed(a, b, 16, 2, d, 0, WH_REDUCE_REPLACE, NULL, NULL), WH_OK);
    CHECK(b[0] == 1 && b[1] == 2);
}

TEST_MAIN()
