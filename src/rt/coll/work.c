// SPDX-License-Identifier: BSD-3-Clause
//
// What steps do in memory.  After a failure they do nothing: the memory may be the user's again.
#include <string.h>

#include "rt/coll/op.h"

static bool may_touch(const whi_coll_op *op, uint64_t size) {
    return !op->failed && size > 0;
}

static void judge(whi_coll_op *op, wh_status st) {
    if (st != WH_OK)
        whi_coll_fail(op, st, op->team->port->self, "%s", wh_type_error());
}

void whi_coll_pack(whi_coll_op *op, const whi_coll_data *data, uint32_t first, uint32_t blocks,
                   uint64_t offset, void *to, uint64_t size) {
    size_t actual;
    if (may_touch(op, size))
        judge(op, wh_pack(whi_coll_data_block(data, first), data->count * (int64_t)blocks,
                          data->type, offset, to, size, 0, &actual));
}

void whi_coll_unpack(whi_coll_op *op, const void *from, uint64_t size, const whi_coll_data *data,
                     uint32_t first, uint32_t blocks, uint64_t offset) {
    size_t actual;
    if (may_touch(op, size))
        judge(op, wh_unpack(from, size, whi_coll_data_block(data, first),
                            data->count * (int64_t)blocks, data->type, offset, 0, &actual));
}

void whi_coll_copy(whi_coll_op *op, const whi_coll_data *from, uint32_t from_block,
                   const whi_coll_data *to, uint32_t to_block) {
    size_t actual;
    if (may_touch(op, from->size))
        judge(op, wh_type_copy(whi_coll_data_block(to, to_block), to->count, to->type,
                               whi_coll_data_block(from, from_block), from->count, from->type,
                               &actual));
}

void whi_coll_move(whi_coll_op *op, void *to, const void *from, uint64_t size) {
    if (may_touch(op, size))
        memmove(to, from, size);
}

void whi_coll_combine(whi_coll_op *op, const void *in, void *inout, uint64_t size,
                      uint64_t offset) {
    if (may_touch(op, size))
        judge(op, wh_accumulate_packed(in, inout, size, op->args.from.count, op->args.from.type,
                                       offset, op->args.how.op, op->args.how.fn, op->args.how.arg));
}
