// SPDX-License-Identifier: BSD-3-Clause
//
// The memory of a side: what it sends, where it receives, in which kind of memory and layout; and what
// it should hold.
//
// With `packed` there is a second, dense pair: the program packs the whole message into it and unpacks
// the whole from it, as one does without layouts.  The thread that measures owns them.
#ifndef BENCH_BUFFERS_H
#define BENCH_BUFFERS_H

#include <wherry/wherry.h>

#include "bench/layout.h"

typedef struct bench_buffers {
    wh_mem_kind kind;
    bool managed;  // of that kind (memory.h)
    bench_layout layout;
    uint64_t size;   // packed bytes of the message that they are laid out for
    wh_type *type;   // NULL: dense
    uint64_t count;  // elements of the type, or bytes
    size_t span;     // bytes that the layout covers
    char *out, *in;  // `room` bytes each
    size_t room;
    char *packed_out, *packed_in;  // `packed_room` bytes each, in host memory
    size_t packed_room;
} bench_buffers;

// bench_buffers_fit lays them out for messages of `size` bytes, all pages present; what fits already
// stays as it is.  Undone by bench_buffers_free, which keeps the kind.
wh_status bench_buffers_fit(bench_buffers *self, const bench_layout *layout, uint64_t size,
                            bool packed);
void bench_buffers_free(bench_buffers *self);

// bench_buffers_pack packs all of `out`; bench_buffers_unpack unpacks all to `in`.
wh_status bench_buffers_pack(bench_buffers *self);
wh_status bench_buffers_unpack(bench_buffers *self);

// bench_buffers_mark writes a pattern to `out`, whose bytes tell where they are, and zeros to `in`.
wh_status bench_buffers_mark(bench_buffers *self);

// bench_buffers_verify says whether `in` has what was marked, each byte where it was in `out`, and no
// other byte: WH_OK, or WH_EPROTOCOL.
wh_status bench_buffers_verify(const bench_buffers *self);

// bench_buffers_marked returns the packed bytes of what was marked, NULL without memory; free() it.
char *bench_buffers_marked(const bench_buffers *self);

#endif
