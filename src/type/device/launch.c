// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing and launching the kernel of a job, see launch.h.
//
// The largest word wins with which the layout, its address and the packed bytes are aligned: it makes the fewest
// accesses, and each a whole one.
#include "type/device/launch.h"

#include <string.h>

#include "type/device/program.h"
#include "type/device/special.h"

enum {
    WORD_MAX = 16,
    CROSS_LEAST = 8,  // passes of either loop: fewer leave most of a tile empty
    SECTOR = 32,      // bytes that a device reads at once
    BLOCKS_MAX = INT32_MAX,
};

static unsigned word_of(uint64_t bits) {
    bits |= WORD_MAX;
    return (unsigned)(bits & -bits);
}

static unsigned log2_of(unsigned word) {
    return (unsigned)__builtin_ctz(word);
}

static int64_t distance(int64_t stride) {
    return stride < 0 ? -stride : stride;
}

static wh_status fill(const whi_device_job *job, whi_device_args *args, uint64_t *bits) {
    memset(args, 0, sizeof(*args));
    wh_status status = whi_device_image_there(job->image, job->ops, job->device, &args->tables);
    if (status != WH_OK)
        return status;
    args->memory = job->memory;
    args->packed = job->packed;
    args->from = (uint64_t)job->from;
    args->to = (uint64_t)job->to;
    args->unpack = job->unpack;
    args->narrow = job->total <= UINT32_MAX;
    args->ndims = (uint32_t)job->ndims;
    *bits = job->dense ? 0 : whi_device_image_bits(job->image);
    for (int d = 0; d < job->ndims; d++) {
        args->loop[d] = whi_device_loop_make(&job->dims[d]);
        *bits |= (uint64_t)job->dims[d].stride;
    }
    *bits |= args->memory | (args->packed - args->from);
    return WH_OK;
}

static wh_status launch(const whi_device_job *job, whi_mem_program *program, unsigned which,
                        uint64_t blocks, const whi_device_args *args) {
    if (blocks > BLOCKS_MAX)  // half a terabyte, in the smallest words
        return WH_ENOTSUP;
    return job->ops->kernels->launch(job->device, program, which, (unsigned)blocks,
                                     WHI_DEVICE_THREADS, args, job->stream);
}

// The layout's own kernel where it has one, else the general one.
static wh_status launch_best(const whi_device_job *job, unsigned kind, unsigned word,
                             uint64_t blocks, const whi_device_args *args) {
    whi_mem_program *own =
        whi_device_special(job->ops, job->device, args, word, kind == WHI_DEVICE_TRANSPOSE);
    return own ? launch(job, own, 0, blocks, args)
               : launch(job, &whi_device_program, kind + log2_of(word), blocks, args);
}

// ---- Transposes.

// What a tile of shared memory gains: rows of the one side are columns of the other, and neighbours there share sectors.
static bool is_transpose(const whi_device_job *job, const whi_device_args *args, unsigned word) {
    if (args->tables || args->ndims < 2 || args->loop[args->ndims - 1].size.by != word ||
        args->from % word || args->to % word)
        return false;
    const whi_device_loop *rows = &args->loop[args->ndims - 2], *columns = rows + 1;
    uint64_t matrix = args->ndims > 2 ? rows[-1].size.by : (uint64_t)job->total;
    return rows->size.by / word >= CROSS_LEAST && matrix / rows->size.by >= CROSS_LEAST &&
           distance(rows->stride) < SECTOR && distance(columns->stride) >= SECTOR;
}

static uint64_t tiles_of(uint64_t n) {
    return (n + WHI_DEVICE_TILE - 1) / WHI_DEVICE_TILE;
}

// Only the matrices, and of a single one only the rows, in which the part has bytes.
static wh_status transpose(const whi_device_job *job, whi_device_args *args, unsigned word) {
    const whi_device_loop *rows = &args->loop[args->ndims - 2];
    uint64_t size = args->ndims > 2 ? rows[-1].size.by : (uint64_t)job->total;
    uint64_t first = args->from / size, last = (args->to - 1) / size, nrows = size / rows->size.by;
    args->matrix_size = size;
    args->row_size = rows->size.by;
    args->word = word;
    args->first_matrix = first * size;
    if (first == last) {
        args->first_row = (args->from - first * size) / args->row_size;
        nrows = (args->to - 1 - first * size) / args->row_size + 1 - args->first_row;
    }
    uint64_t columns = tiles_of(args->row_size / word), tiles = columns * tiles_of(nrows);
    args->columns = whi_divisor_make(columns);
    args->tiles = whi_divisor_make(tiles);
    return launch_best(job, WHI_DEVICE_TRANSPOSE, word, tiles * (last - first + 1), args);
}

// ---- Moving.

wh_status whi_device_move(const whi_device_job *job) {
    whi_device_args args;
    uint64_t bits;
    wh_status status = fill(job, &args, &bits);
    if (status != WH_OK)
        return status;
    unsigned word = word_of(bits);
    if (is_transpose(job, &args, word))
        return transpose(job, &args, word);
    uint64_t each = (uint64_t)word * WHI_DEVICE_THREADS * WHI_DEVICE_PER_THREAD;
    uint64_t blocks = (args.to - args.from + each - 1) / each;
    return launch_best(job, WHI_DEVICE_MOVE, word, blocks, &args);
}

// ---- Reducing.

wh_status whi_device_accumulate(const whi_device_job *job, wh_reduce op, unsigned grain,
                                whi_d32 element) {
    whi_device_args args;
    uint64_t bits;
    wh_status status = fill(job, &args, &bits);
    if (status != WH_OK)
        return status;
    args.op = op;
    args.grain = grain;
    args.element = element;
    uint64_t each = (uint64_t)grain * WHI_DEVICE_THREADS;
    uint64_t blocks = (args.to - args.from + each - 1) / each;
    return launch(job, &whi_device_program, WHI_DEVICE_ACCUMULATE, blocks, &args);
}
