// SPDX-License-Identifier: BSD-3-Clause
#include "rt/chare/head.h"

#include <assert.h>

// What is above the kind in the first byte.
enum {
    HAS_REF = 0x10,
    HAS_BUFFERS = 0x20,
    FOLLOWS = 0x40,
    WANTED = 0x80,
    CALL_FLAGS = HAS_REF | HAS_BUFFERS | FOLLOWS | WANTED,
};

// ---- Calls: the place, the entry, and what is not usual.

static unsigned call_flags(const whi_head_call *call) {
    unsigned flags = call->ref ? HAS_REF : 0;
    flags |= (call->buffers ? HAS_BUFFERS : 0u) | (call->follows ? FOLLOWS : 0u);
    return flags | (call->wanted ? WANTED : 0u);
}

static void write_call(whi_writer *to, const whi_head_call *call) {
    unsigned flags = call_flags(call);
    whi_writer_u8(to, (uint8_t)(WHI_HEAD_CALL | flags));
    whi_place_message_write(to, &call->place);
    whi_writer_u16(to, call->entry);
    if (!flags)
        return;
    if (call->ref)
        whi_writer_u64(to, (uint64_t)call->ref);
    if (call->buffers)
        whi_writer_u16(to, call->buffers);
    if (call->follows) {
        whi_writer_u64(to, call->number);
        whi_writer_u32(to, call->from);
    }
}

static void read_call(whi_reader *from, unsigned flags, uint32_t source, uint32_t pes,
                      whi_head_call *call) {
    whi_place_message_read(from, source, pes, &call->place);
    call->entry = whi_reader_u16(from);
    call->ref = flags & HAS_REF ? (int64_t)whi_reader_u64(from) : 0;
    call->buffers = flags & HAS_BUFFERS ? whi_reader_u16(from) : 0;
    call->wanted = flags & WANTED;
    call->follows = flags & FOLLOWS;
    call->number = flags & FOLLOWS ? whi_reader_u64(from) : 0;
    call->from = flags & FOLLOWS ? whi_reader_u32(from) : 0;
    if (flags &&
        (call->from >= pes || ((flags & HAS_REF) && !call->ref) ||
         ((flags & HAS_BUFFERS) && !call->buffers) || call->buffers > WHI_CALL_BUFFERS_MAX))
        whi_reader_fail(from);
}

size_t whi_head_encode_call(const whi_head_call *call, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WHI_HEAD_MAX);
    write_call(&to, call);
    assert(whi_writer_ok(&to));
    return whi_writer_size(&to);
}

wh_status whi_head_decode_call(const void *bytes, size_t size, uint32_t from, uint32_t pes,
                               whi_head_call *call) {
    whi_reader reader;
    whi_reader_init(&reader, bytes, size);
    if (!whi_head_is_call(bytes, size))
        return WH_EPROTOCOL;
    unsigned flags = whi_reader_u8(&reader) & CALL_FLAGS;
    read_call(&reader, flags, from, pes, call);
    return whi_reader_done(&reader) ? WH_OK : WH_EPROTOCOL;
}

// ---- Controls: the place's own bytes.

static void write_control(whi_writer *to, const whi_head *head) {
    void *at = whi_writer_space(to, 0);
    (void)whi_writer_space(to, whi_place_control_encode(&head->control, at));
}

static void read_control(whi_reader *from, uint32_t source, uint32_t pes, whi_head *head) {
    size_t left = whi_reader_left(from);
    const void *at = whi_reader_bytes(from, left);
    if (!at || whi_place_control_decode(at, left, source, pes, &head->control) != WH_OK ||
        !whi_place_in_order(&head->control))
        whi_reader_fail(from);
}

// ---- Collections.

static void write_create(whi_writer *to, const whi_head *head) {
    const whi_collection_def *def = &head->create;
    whi_writer_u32(to, def->id);
    whi_writer_u8(to, def->kind);
    whi_writer_u8(to, def->dims);
    whi_writer_u8(to, def->flags);
    whi_writer_u64(to, def->cls);
    whi_writer_u64(to, def->map);
    whi_writer_u64(to, def->balance);
    whi_writer_u16(to, def->resume);
    for (int i = 0; i < def->dims; i++)
        whi_writer_u32(to, (uint32_t)def->shape[i]);
}

static void read_create(whi_reader *from, uint32_t pes, whi_head *head) {
    whi_collection_def *def = &head->create;
    def->id = whi_reader_u32(from);
    def->kind = whi_reader_u8(from);
    def->dims = whi_reader_u8(from);
    def->flags = whi_reader_u8(from);
    def->cls = whi_reader_u64(from);
    def->map = whi_reader_u64(from);
    def->balance = whi_reader_u64(from);
    def->resume = whi_reader_u16(from);
    if (def->id < pes || def->kind == WHI_SINGLES || def->kind >= WHI_COLLECTION_KINDS ||
        def->dims < 1 || def->dims > WH_CHARE_DIMS_MAX ||
        (def->kind != WHI_ARRAY && (def->dims != 1 || def->flags || def->balance)) ||
        (def->balance && def->flags & WH_ARRAY_ON_DEMAND) || (!def->balance && def->resume) ||
        (def->flags & ~(WH_ARRAY_INSERTING | WH_ARRAY_ON_DEMAND)) ||
        def->flags == (WH_ARRAY_INSERTING | WH_ARRAY_ON_DEMAND)) {
        whi_reader_fail(from);
        return;
    }
    int64_t all = 1;
    for (int i = 0; i < def->dims; i++) {
        def->shape[i] = (int32_t)whi_reader_u32(from);
        if (def->shape[i] < 0 || __builtin_mul_overflow(all, def->shape[i], &all))
            whi_reader_fail(from);
    }
}

// ---- All.

static void write_element(whi_writer *to, const whi_head *head) {
    whi_place_key_write(to, &head->element.key);
    whi_writer_u64(to, head->element.cls);
}

static void write_broadcast(whi_writer *to, const whi_head *head) {
    whi_writer_u32(to, head->broadcast.collection);
    whi_writer_u64(to, head->broadcast.number);
    whi_writer_u32(to, head->broadcast.source);
    whi_writer_u8(to, head->broadcast.what);
    whi_writer_u16(to, head->broadcast.entry);
    whi_writer_u64(to, (uint64_t)head->broadcast.ref);
}

static void read_broadcast(whi_reader *from, uint32_t pes, whi_head *head) {
    head->broadcast.collection = whi_reader_u32(from);
    head->broadcast.number = whi_reader_u64(from);
    head->broadcast.source = whi_reader_u32(from);
    head->broadcast.what = whi_reader_u8(from);
    head->broadcast.entry = whi_reader_u16(from);
    head->broadcast.ref = (int64_t)whi_reader_u64(from);
    if (head->broadcast.collection < pes || head->broadcast.source >= pes ||
        head->broadcast.what >= WHI_BROADCAST_WHATS)
        whi_reader_fail(from);
}

static void write_section(whi_writer *to, const whi_head *head) {
    whi_writer_u8(to, head->section.what);
    whi_writer_u32(to, head->section.collection);
    whi_writer_u64(to, head->section.id);
    whi_writer_u16(to, head->section.entry);
    whi_writer_u64(to, (uint64_t)head->section.ref);
}

static void read_section(whi_reader *from, uint32_t pes, whi_head *head) {
    head->section.what = whi_reader_u8(from);
    head->section.collection = whi_reader_u32(from);
    head->section.id = whi_reader_u64(from);
    head->section.entry = whi_reader_u16(from);
    head->section.ref = (int64_t)whi_reader_u64(from);
    if (head->section.what >= WHI_SECTION_WHATS || head->section.collection < pes ||
        head->section.id >> 32 >= pes)
        whi_reader_fail(from);
}

static void write_reduce(whi_writer *to, const whi_head *head) {
    whi_writer_u8(to, head->reduce.what);
    whi_writer_u32(to, head->reduce.collection);
    whi_writer_u64(to, head->reduce.section);
    whi_writer_u64(to, head->reduce.number);
    whi_writer_u64(to, head->reduce.count);
}

static void read_reduce(whi_reader *from, uint32_t pes, whi_head *head) {
    head->reduce.what = whi_reader_u8(from);
    head->reduce.collection = whi_reader_u32(from);
    head->reduce.section = whi_reader_u64(from);
    head->reduce.number = whi_reader_u64(from);
    head->reduce.count = whi_reader_u64(from);
    if (head->reduce.what >= WHI_REDUCE_WHATS || head->reduce.collection < pes)
        whi_reader_fail(from);
}

static void write_state(whi_writer *to, const whi_head *head) {
    whi_place_key_write(to, &head->state.key);
    whi_writer_u8(to, head->state.vacant);
    whi_writer_u64(to, head->state.cls);
    whi_writer_u32(to, head->state.order);
    whi_writer_u32(to, head->state.shares);
    whi_writer_u32(to, head->state.wants);
    whi_writer_u64(to, head->state.above);
    whi_writer_u64(to, head->state.had);
    whi_writer_u64(to, head->state.due);
    whi_writer_u64(to, head->state.departure);
    whi_writer_u8(to, head->state.reduces);
    whi_writer_u64(to, head->state.contributed);
    whi_writer_u8(to, head->state.synced);
    if (!head->state.synced)
        return;
    whi_writer_u8(to, head->state.waits);
    whi_writer_u8(to, head->state.sent);
    whi_writer_u64(to, head->state.reached);
    whi_writer_u64(to, head->state.spent);
    whi_writer_f64(to, head->state.told);
    whi_writer_f64(to, head->state.load);
}

static void read_state(whi_reader *from, whi_head *head) {
    whi_place_key_read(from, &head->state.key);
    head->state.vacant = whi_reader_u8(from);
    head->state.cls = whi_reader_u64(from);
    head->state.order = whi_reader_u32(from);
    head->state.shares = whi_reader_u32(from);
    head->state.wants = whi_reader_u32(from);
    head->state.above = whi_reader_u64(from);
    head->state.had = whi_reader_u64(from);
    head->state.due = whi_reader_u64(from);
    head->state.departure = whi_reader_u64(from);
    head->state.reduces = whi_reader_u8(from);
    head->state.contributed = whi_reader_u64(from);
    if (head->state.vacant > 1 ||
        (head->state.vacant && (head->state.wants || head->state.above)) ||
        head->state.reduces > 1 || head->state.had > head->state.due)
        whi_reader_fail(from);
    head->state.synced = whi_reader_u8(from);
    if (!head->state.synced)
        return;
    head->state.waits = whi_reader_u8(from);
    head->state.sent = whi_reader_u8(from);
    head->state.reached = whi_reader_u64(from);
    head->state.spent = whi_reader_u64(from);
    head->state.told = whi_reader_f64(from);
    head->state.load = whi_reader_f64(from);
    if (head->state.synced > 1 || head->state.waits > 1 || head->state.sent > 1 ||
        (head->state.told != -1 && !whi_is_load(head->state.told)) ||
        !whi_is_load(head->state.load))
        whi_reader_fail(from);
}

static void write_balance(whi_writer *to, const whi_head *head) {
    whi_writer_u8(to, head->balance.what);
    whi_writer_u32(to, head->balance.collection);
    whi_writer_u64(to, head->balance.step);
}

static void read_balance(whi_reader *from, uint32_t pes, whi_head *head) {
    head->balance.what = whi_reader_u8(from);
    head->balance.collection = whi_reader_u32(from);
    head->balance.step = whi_reader_u64(from);
    if (head->balance.what >= WHI_BALANCE_WHATS || head->balance.collection < pes ||
        !head->balance.step)
        whi_reader_fail(from);
}

static void write_checkpoint(whi_writer *to, const whi_head *head) {
    whi_writer_u8(to, head->checkpoint.what);
    whi_writer_u32(to, head->checkpoint.from);
    whi_writer_u64(to, head->checkpoint.number);
}

static void read_checkpoint(whi_reader *from, uint32_t pes, whi_head *head) {
    head->checkpoint.what = whi_reader_u8(from);
    head->checkpoint.from = whi_reader_u32(from);
    head->checkpoint.number = whi_reader_u64(from);
    if (head->checkpoint.what >= WHI_CHECKPOINT_WHATS || head->checkpoint.from >= pes)
        whi_reader_fail(from);
}

static void write_arrived(whi_writer *to, const whi_head *head) {
    whi_writer_u32(to, head->arrived.collection);
    whi_writer_u64(to, head->arrived.departure);
    whi_writer_u64(to, head->arrived.until);
}

static void read_arrived(whi_reader *from, whi_head *head) {
    head->arrived.collection = whi_reader_u32(from);
    head->arrived.departure = whi_reader_u64(from);
    head->arrived.until = whi_reader_u64(from);
}

size_t whi_head_encode(const whi_head *head, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WHI_HEAD_MAX);
    whi_writer_u8(&to, head->kind);
    switch ((whi_head_kind)head->kind) {
    case WHI_HEAD_CALL: return whi_head_encode_call(&head->call, bytes);
    case WHI_HEAD_CONTROL: write_control(&to, head); break;
    case WHI_HEAD_STATE: write_state(&to, head); break;
    case WHI_HEAD_CREATE: write_create(&to, head); break;
    case WHI_HEAD_ELEMENT: write_element(&to, head); break;
    case WHI_HEAD_BROADCAST: write_broadcast(&to, head); break;
    case WHI_HEAD_ARRIVED: write_arrived(&to, head); break;
    case WHI_HEAD_SECTION: write_section(&to, head); break;
    case WHI_HEAD_REDUCE: write_reduce(&to, head); break;
    case WHI_HEAD_BALANCE: write_balance(&to, head); break;
    case WHI_HEAD_CHECKPOINT: write_checkpoint(&to, head); break;
    case WHI_HEAD_FUTURE:
    case WHI_HEAD_FUNCTION:
    case WHI_HEAD_READONLY:
        whi_writer_u64(&to, head->value.id);
        whi_writer_u64(&to, (uint64_t)head->value.ref);
        break;
    }
    assert(whi_writer_ok(&to));
    return whi_writer_size(&to);
}

wh_status whi_head_decode(const void *bytes, size_t size, uint32_t from, uint32_t pes,
                          whi_head *head) {
    whi_reader reader;
    whi_reader_init(&reader, bytes, size);
    unsigned first = whi_reader_u8(&reader);
    *head = (whi_head){.kind = (uint8_t)(first & WHI_HEAD_KIND_MASK)};
    if (first != head->kind && head->kind != WHI_HEAD_CALL)
        whi_reader_fail(&reader);
    switch ((whi_head_kind)head->kind) {
    case WHI_HEAD_CALL: return whi_head_decode_call(bytes, size, from, pes, &head->call);
    case WHI_HEAD_CONTROL: read_control(&reader, from, pes, head); break;
    case WHI_HEAD_STATE: read_state(&reader, head); break;
    case WHI_HEAD_CREATE: read_create(&reader, pes, head); break;
    case WHI_HEAD_ELEMENT:
        whi_place_key_read(&reader, &head->element.key);
        head->element.cls = whi_reader_u64(&reader);
        break;
    case WHI_HEAD_BROADCAST: read_broadcast(&reader, pes, head); break;
    case WHI_HEAD_ARRIVED: read_arrived(&reader, head); break;
    case WHI_HEAD_SECTION: read_section(&reader, pes, head); break;
    case WHI_HEAD_REDUCE: read_reduce(&reader, pes, head); break;
    case WHI_HEAD_BALANCE: read_balance(&reader, pes, head); break;
    case WHI_HEAD_CHECKPOINT: read_checkpoint(&reader, pes, head); break;
    case WHI_HEAD_FUTURE:
    case WHI_HEAD_FUNCTION:
    case WHI_HEAD_READONLY:
        head->value.id = whi_reader_u64(&reader);
        head->value.ref = (int64_t)whi_reader_u64(&reader);
        break;
    default: whi_reader_fail(&reader);
    }
    return whi_reader_done(&reader) ? WH_OK : WH_EPROTOCOL;
}
