// SPDX-License-Identifier: BSD-3-Clause
//
// Layouts of long runs in every kind of memory, from nothing to 256 MiB: each byte arrives, and no other changes.
//
// Their runs are long, so that a large one can be copied run by run; those of short runs are in cases_typed.c.
#include "kit_layout.h"

enum { MIB = 1 << 20, PAIRS = 4 };

static const kit_shape shapes[] = {KIT_DENSE, KIT_ROWS, KIT_BOX, KIT_PIECES, KIT_PARTS};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

// words_of makes of a size the words of a message, which are a multiple of 24.
static size_t words_of(size_t bytes) {
    return bytes / KIT_WORD / 24 * 24;
}

// exchange passes one message; bits of `pair` say which role's memory is a device's.
static void exchange(kit_side *me, kit_shape from, kit_shape to, size_t n, unsigned pair,
                     uint64_t seed) {
    kit_op op;
    wh_mem_kind kind = (pair >> me->role & 1) ? kit_device : WH_MEM_HOST;
    kit_layout l = kit_lay_out(me, me->role == 0 ? from : to, n ? n : 24, kind);
    l.count = n ? l.count : 0;
    const wh_op_opts *opts = kit_opts_typed(&op, &l, 0);
    if (me->role == 0) {
        kit_layout_fill(me, &l, n, seed);
        BEGIN(&op, wh_tag_send(me->ep, l.origin, l.count, 1, opts, NULL));
    } else {
        BEGIN(&op, wh_tag_recv(me->ep, l.origin, l.count, 1, WH_TAG_MASK_ALL, opts, NULL));
    }
    END(&op, WH_OK);
    REQUIRE_INT(op.result.size, n * KIT_WORD);
    kit_layout_check(me, &l, n, seed);  // of the sender, too: nothing but the message was there
    kit_layout_drop(me, &l);
}

static void exchange_all(kit_side *me, const size_t *sizes, size_t count, unsigned first_pair) {
    uint64_t seed = 1;
    for (size_t s = 0; s < count; s++)
        for (unsigned pair = first_pair; pair < PAIRS; pair++)
            for (unsigned i = 0; i < SHAPES; i++, seed++)
                exchange(me, shapes[i], shapes[(i + s + pair) % SHAPES], words_of(sizes[s]), pair,
                         seed);
}

CASE(device_layouts, 0) {
    static const size_t sizes[] = {0, 192, 8256, 66048, 300096, 3 * MIB};
    exchange_all(me, sizes, sizeof(sizes) / sizeof(sizes[0]), 1);
}

// Host memory, too, of which other cases have no large layouts.
CASE(device_layouts_large, KIT_SOAK) {
    static const size_t sizes[] = {16 * MIB, 64 * MIB, 256 * MIB};
    exchange_all(me, sizes, sizeof(sizes) / sizeof(sizes[0]), 0);
}
