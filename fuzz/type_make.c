// SPDX-License-Identifier: BSD-3-Clause
//
// Types built from the bytes as a program: each step takes numbers from the input, small, large or
// extreme, and calls a constructor with an earlier type.  Types that fit into a buffer are packed
// whole and in two parts, unpacked, and packed again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/pack.h>
#include <wherry/type.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TYPES = 16, LIST = 4, ROOM = 1 << 12 };

typedef struct input {
    const uint8_t *next, *end;
} input;

static void must(int cond) {
    if (!cond)
        abort();
}

static uint8_t byte(input *in) {
    return in->next < in->end ? *in->next++ : 0;
}

static int64_t number(input *in) {
    uint8_t how = byte(in);
    if (how < 200)
        return how % 16;
    if (how < 230)
        return -(int64_t)byte(in);
    if (how < 245)
        return (int64_t)byte(in) << (byte(in) % 56);
    return how < 250 ? INT64_MAX : INT64_MIN + how;
}

static void numbers(input *in, int64_t *values) {
    for (int i = 0; i < LIST; i++)
        values[i] = number(in);
}

static wh_status step(input *in, const wh_type *const *types, int n, wh_type **type) {
    int64_t a[LIST], b[LIST], c[LIST], d[LIST], count = byte(in) % (LIST + 1);
    const wh_type *old = types[byte(in) % n], *members[LIST];
    wh_order order = (wh_order)(byte(in) % 2);
    uint8_t kind = byte(in) % 13;
    numbers(in, a);
    numbers(in, b);
    switch (kind) {
    case 0: return wh_type_create_contig(a[0], old, type);
    case 1: return wh_type_create_vector(a[0], a[1], a[2], old, type);
    case 2: return wh_type_create_hvector(a[0], a[1], a[2], old, type);
    case 3: return wh_type_create_indexed(count, a, b, old, type);
    case 4: return wh_type_create_hindexed(count, a, b, old, type);
    case 5: return wh_type_create_indexed_block(count, a[0], b, old, type);
    case 6: return wh_type_create_hindexed_block(count, a[0], b, old, type);
    case 7: return wh_type_create_resized(old, a[0], a[1], type);
    case 8: return wh_type_dup(old, type);
    case 9: return wh_type_create_strided((int)count, a, b, old, type);
    case 10: numbers(in, c); return wh_type_create_subarray((int)count, a, b, c, order, old, type);
    case 11:
        numbers(in, c);
        numbers(in, d);
        return wh_type_create_darray(number(in), number(in), (int)count, a, b, c, d, order, old,
                                     type);
    default:
        for (int i = 0; i < LIST; i++)
            members[i] = types[byte(in) % n];
        return wh_type_create_struct(count, a, b, members, type);
    }
}

static void use(const wh_type *type, uint8_t cut) {
    static uint8_t memory[ROOM], other[ROOM], packed[ROOM], again[ROOM];
    wh_type_info info = {.size = sizeof(info)};
    must(wh_type_get_info(type, &info) == WH_OK);
    if (info.packed_size > ROOM || info.true_extent > ROOM)
        return;
    size_t size = (size_t)info.packed_size, middle = size * cut / 255, actual;
    // Addresses before the array are formed as integers only.
    void *buf = (void *)((uintptr_t)memory - (uintptr_t)info.true_lb);
    void *to = (void *)((uintptr_t)other - (uintptr_t)info.true_lb);
    for (size_t i = 0; i < ROOM; i++)
        memory[i] = (uint8_t)(i * 7 + (i >> 8));
    must(wh_pack(buf, 1, type, 0, packed, size, 0, &actual) == WH_OK && actual == size);
    must(wh_pack(buf, 1, type, 0, again, middle, 0, &actual) == WH_OK && actual == middle);
    must(wh_pack(buf, 1, type, middle, again + middle, size, 0, &actual) == WH_OK);
    must(memcmp(packed, again, size) == 0);
    memset(other, 0, ROOM);
    must(wh_unpack(packed, size, to, 1, type, 0, 0, &actual) == WH_OK);
    // Where no byte occurs twice, what was unpacked packs to the same; where one does, it came from
    // one place and is still what that place holds.
    must(wh_pack(to, 1, type, 0, again, size, 0, &actual) == WH_OK);
    must(memcmp(packed, again, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    const wh_type *types[TYPES];
    wh_type *made[TYPES];
    int n = 1, owned = 0;
    if (!size)
        return 0;
    types[0] = wh_type_basic((wh_type_id)(byte(&in) % WH_TYPE_IDS));
    while (in.next < in.end && n < TYPES) {
        wh_type *type;
        wh_status status = step(&in, types, n, &type);
        must(status == WH_OK || status == WH_EINVAL || status == WH_ELIMIT);
        if (status != WH_OK)
            continue;
        use(type, byte(&in));
        made[owned++] = type;
        types[n++] = type;
    }
    while (owned)
        wh_type_release(made[--owned]);
    return 0;
}
