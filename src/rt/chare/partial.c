// SPDX-License-Identifier: BSD-3-Clause
#include "rt/chare/partial.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/bytes.h"

// As bytes: the callback, the number of parts, their descriptions, their data; all aligned to 16.
enum { ALIGN = 16, FIXED = 96, PART = 32, ITEM = 48 };

static size_t pad(size_t size) {
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

void whi_partial_free(whi_partial *partial) {
    if (!partial)
        return;
    for (size_t i = 0; i < partial->count; i++)
        whi_free(partial->parts[i].data);
    whi_free(partial);
}

static whi_partial *new_partial(size_t count) {
    whi_partial *partial = whi_calloc(1, sizeof(*partial) + count * sizeof(partial->parts[0]));
    if (partial)
        partial->count = count;
    return partial;
}

// reserve has space for `size` more bytes.
static bool reserve(whi_partial_part *part, size_t size) {
    size_t need;
    if (__builtin_add_overflow(part->size, size, &need))
        return false;
    if (need <= part->space)
        return true;
    size_t space = need < 2 * part->space ? 2 * part->space : need;
    void *grown = whi_realloc(part->data, space);
    if (!grown)
        return false;
    part->data = grown;
    part->space = space;
    return true;
}

static bool append(whi_partial_part *part, const void *data, size_t size) {
    if (!size)
        return true;
    if (!reserve(part, size))
        return false;
    assert(part->data);  // where there is space, there is memory
    memcpy((char *)part->data + part->size, data, size);
    part->size += size;
    return true;
}

// ---- Items: the values of sets and tuples.

static bool append_item(whi_partial_part *part, const wh_proxy *element, const void *data,
                        size_t size) {
    static const uint8_t zeros[ALIGN];
    uint8_t bytes[ITEM];
    whi_writer to;
    whi_writer_init(&to, bytes, sizeof(bytes));
    wh_proxy_encode(element, whi_writer_space(&to, WH_PROXY_SIZE));
    whi_writer_u64(&to, size);
    whi_writer_u64(&to, 0);
    return append(part, bytes, sizeof(bytes)) && append(part, data, size) &&
           append(part, zeros, pad(size) - size);
}

bool wh_reduction_next(const void *value, size_t size, size_t *cursor, wh_reduction_item *item) {
    whi_reader from;
    if (*cursor >= size)
        return false;
    whi_reader_init(&from, (const char *)value + *cursor, size - *cursor);
    const void *proxy = whi_reader_bytes(&from, WH_PROXY_SIZE);
    uint64_t length = whi_reader_u64(&from), reserved = whi_reader_u64(&from);
    const void *data = whi_reader_bytes(&from, length <= size ? pad(length) : SIZE_MAX);
    wh_reduction_item read = {.data = data, .size = length};
    if (!whi_reader_ok(&from) || reserved ||
        wh_proxy_decode(proxy, WH_PROXY_SIZE, &read.element) != WH_OK)
        return false;
    *cursor = size - whi_reader_left(&from);
    *item = read;
    return true;
}

static bool is_sequence(const void *value, size_t size) {
    wh_reduction_item item;
    size_t cursor = 0;
    while (wh_reduction_next(value, size, &cursor, &item))
        ;
    return cursor == size;
}

// ---- Making.

static const wh_type *type_of(const whi_partial_part *part) {
    return wh_type_basic(part->type);
}

// valid says whether there is such a reduction.
static wh_status valid(const whi_partial_part *part) {
    bool op = part->reducer == WH_REDUCER_OP;
    if ((unsigned)part->reducer > WH_REDUCER_CUSTOM || (unsigned)part->op >= WH_REDUCES ||
        (unsigned)part->type >= WH_TYPE_IDS || (!op && (part->op || part->type)) ||
        (part->reducer == WH_REDUCER_CUSTOM) != (part->function != 0))
        return WH_EINVAL;
    if (op && !type_of(part))
        return WH_EINVAL;
    if (op && (part->op >= WH_REDUCE_REPLACE || !wh_reduce_defined(part->op, type_of(part))))
        return WH_ENOTSUP;
    return WH_OK;
}

static wh_status fill(whi_partial_part *part, const wh_proxy *element, const void *data,
                      size_t count) {
    if (part->reducer == WH_REDUCER_NOTHING)
        return count ? WH_EINVAL : WH_OK;
    if (count && !data)
        return WH_EINVAL;
    if (part->reducer == WH_REDUCER_SET)
        return append_item(part, element, data, count) ? WH_OK : WH_ENOMEM;
    if (part->reducer != WH_REDUCER_OP)
        return append(part, data, count) ? WH_OK : WH_ENOMEM;
    size_t each = (size_t)wh_type_size(type_of(part)), size;
    if (__builtin_mul_overflow(each, count, &size) || count > INT64_MAX)
        return WH_EINVAL;
    if (!size)
        return WH_OK;
    part->data = whi_malloc(size);
    if (!part->data)
        return WH_ENOMEM;
    part->space = size;
    return wh_pack(data, (int64_t)count, type_of(part), 0, part->data, size, 0, &part->size);
}

wh_status whi_partial_make(const wh_proxy *element, const wh_contribution *parts, size_t count,
                           const wh_callback *callback, whi_partial **out) {
    if (count > WHI_PARTIAL_PARTS_MAX)
        return WH_ELIMIT;
    whi_partial *partial = new_partial(count);
    if (!partial)
        return WH_ENOMEM;
    wh_callback_encode(callback, partial->callback);
    wh_status st = WH_OK;
    for (size_t i = 0; st == WH_OK && i < count; i++) {
        whi_partial_part *part = &partial->parts[i];
        *part = (whi_partial_part){.reducer = parts[i].reducer,
                                   .op = parts[i].op,
                                   .type = parts[i].type,
                                   .function = parts[i].function};
        st = parts[i].reserved ? WH_EINVAL : valid(part);
        if (st == WH_OK)
            st = fill(part, element, parts[i].data, parts[i].count);
    }
    if (st == WH_OK)
        *out = partial;
    else
        whi_partial_free(partial);
    return st;
}

// ---- Merging.

static const char *mismatch(const whi_partial *a, const whi_partial *b) {
    if (memcmp(a->callback, b->callback, sizeof(a->callback)) != 0)
        return "they name different callbacks";
    if (a->count != b->count)
        return "they contribute different numbers of values";
    for (size_t i = 0; i < a->count; i++) {
        const whi_partial_part *x = &a->parts[i], *y = &b->parts[i];
        if (x->reducer != y->reducer || x->op != y->op || x->type != y->type ||
            x->function != y->function)
            return "they name different reductions";
        if (x->size != y->size && (x->reducer == WH_REDUCER_OP || x->reducer == WH_REDUCER_CUSTOM))
            return "they contribute values of different sizes";
    }
    return NULL;
}

static bool grows(const whi_partial_part *part) {
    return part->reducer == WH_REDUCER_CONCAT || part->reducer == WH_REDUCER_SET;
}

static wh_status merge_part(whi_partial_part *into, const whi_partial_part *from,
                            const whi_partial_ops *ops, const char **why) {
    switch (into->reducer) {
    case WH_REDUCER_NOTHING: return WH_OK;
    case WH_REDUCER_CONCAT:
    case WH_REDUCER_SET: return append(into, from->data, from->size) ? WH_OK : WH_ENOMEM;
    case WH_REDUCER_CUSTOM:
        if (ops->combine(ops->arg, into->function, into->data, from->data, into->size))
            return WH_OK;
        *why =
            "its function is not registered here: register it on all PEs, first of all in the main function";
        return WH_EINVAL;
    case WH_REDUCER_OP: break;
    }
    if (!into->size)
        return WH_OK;
    int64_t count = (int64_t)into->size / wh_type_size(type_of(into));
    return wh_accumulate_packed(from->data, into->data, into->size, count, type_of(into), 0,
                                into->op, NULL, NULL);
}

wh_status whi_partial_merge(whi_partial *into, const whi_partial *from, const whi_partial_ops *ops,
                            const char **why) {
    *why = mismatch(into, from);
    wh_status st = *why ? WH_EINVAL : WH_OK;
    // All memory first: what has been added to one part cannot be taken back when there is none for the next.
    for (size_t i = 0; st == WH_OK && i < into->count; i++)
        if (grows(&into->parts[i]) && !reserve(&into->parts[i], from->parts[i].size))
            st = WH_ENOMEM;
    for (size_t i = 0; st == WH_OK && i < into->count; i++)
        st = merge_part(&into->parts[i], &from->parts[i], ops, why);
    return st;
}

// ---- The value.

static int by_index(const void *a, const void *b) {
    const wh_reduction_item *x = a, *y = b;
    for (int i = 0; i < WH_CHARE_DIMS_MAX; i++)
        if (x->element.index[i] != y->element.index[i])
            return x->element.index[i] < y->element.index[i] ? -1 : 1;
    return 0;
}

static wh_status sort_set(const whi_partial_part *set, whi_partial_part *sorted) {
    wh_reduction_item item, *items;
    size_t cursor = 0, count = 0, at = 0;
    while (wh_reduction_next(set->data, set->size, &cursor, &item))
        count++;
    items = whi_calloc(count + 1, sizeof(*items));
    if (!items)
        return WH_ENOMEM;
    for (cursor = 0; wh_reduction_next(set->data, set->size, &cursor, &item);)
        items[at++] = item;
    qsort(items, count, sizeof(*items), by_index);
    bool fine = true;
    for (size_t i = 0; fine && i < count; i++)
        fine = append_item(sorted, &items[i].element, items[i].data, items[i].size);
    whi_free(items);
    return fine ? WH_OK : WH_ENOMEM;
}

wh_status whi_partial_value(const whi_partial *partial, void **value, size_t *size) {
    whi_partial_part all = {.reducer = WH_REDUCER_CONCAT};
    const wh_proxy none = {.collection = 0};
    wh_status st = WH_OK;
    for (size_t i = 0; st == WH_OK && i < partial->count; i++) {
        const whi_partial_part *part = &partial->parts[i];
        whi_partial_part sorted = {.reducer = WH_REDUCER_SET};
        if (part->reducer == WH_REDUCER_SET) {
            st = sort_set(part, &sorted);
            part = &sorted;
        }
        bool tuple = partial->count > 1;
        if (st == WH_OK && !(tuple ? append_item(&all, &none, part->data, part->size)
                                   : append(&all, part->data, part->size)))
            st = WH_ENOMEM;
        whi_free(sorted.data);
    }
    if (st != WH_OK) {
        whi_free(all.data);
        return st;
    }
    *value = all.data;
    *size = all.size;
    return WH_OK;
}

// ---- Bytes.

size_t whi_partial_encoded_size(const whi_partial *partial) {
    size_t size = FIXED + partial->count * PART;
    for (size_t i = 0; i < partial->count; i++)
        size += pad(partial->parts[i].size);
    return size;
}

void whi_partial_encode(const whi_partial *partial, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, whi_partial_encoded_size(partial));
    whi_writer_bytes(&to, partial->callback, sizeof(partial->callback));
    whi_writer_u64(&to, partial->count);
    whi_writer_u64(&to, 0);
    for (size_t i = 0; i < partial->count; i++) {
        const whi_partial_part *part = &partial->parts[i];
        whi_writer_u32(&to, (uint32_t)part->reducer);
        whi_writer_u32(&to, (uint32_t)part->op);
        whi_writer_u64(&to, (uint64_t)part->type);
        whi_writer_u64(&to, part->function);
        whi_writer_u64(&to, part->size);
    }
    for (size_t i = 0; i < partial->count; i++) {
        const whi_partial_part *part = &partial->parts[i];
        whi_writer_bytes(&to, part->data, part->size);
        size_t rest = pad(part->size) - part->size;
        void *zeros = whi_writer_space(&to, rest);
        if (rest)
            memset(zeros, 0, rest);
    }
}

static wh_status read_part(whi_reader *from, whi_partial_part *part, size_t size) {
    const void *data = whi_reader_bytes(from, size <= SIZE_MAX / 2 ? pad(size) : SIZE_MAX);
    if (!data)
        return WH_EPROTOCOL;
    bool fine = part->reducer == WH_REDUCER_NOTHING ? size == 0
                : part->reducer == WH_REDUCER_SET   ? is_sequence(data, size)
                : part->reducer == WH_REDUCER_OP ? size % (size_t)wh_type_size(type_of(part)) == 0
                                                 : true;
    if (!fine)
        return WH_EPROTOCOL;
    return append(part, data, size) ? WH_OK : WH_ENOMEM;
}

wh_status whi_partial_decode(const void *bytes, size_t size, whi_partial **out) {
    whi_reader from;
    wh_callback callback;
    whi_reader_init(&from, bytes, size);
    const void *encoded = whi_reader_bytes(&from, WH_CALLBACK_SIZE);
    uint64_t count = whi_reader_u64(&from), reserved = whi_reader_u64(&from);
    if (!whi_reader_ok(&from) || reserved || count > WHI_PARTIAL_PARTS_MAX ||
        wh_callback_decode(encoded, WH_CALLBACK_SIZE, &callback) != WH_OK)
        return WH_EPROTOCOL;
    whi_partial *partial = new_partial(count);
    if (!partial)
        return WH_ENOMEM;
    memcpy(partial->callback, encoded, WH_CALLBACK_SIZE);
    uint64_t sizes[WHI_PARTIAL_PARTS_MAX];
    wh_status st = WH_OK;
    for (size_t i = 0; i < count; i++) {
        whi_partial_part *part = &partial->parts[i];
        part->reducer = (wh_reducer)whi_reader_u32(&from);
        part->op = (wh_reduce)whi_reader_u32(&from);
        uint64_t type = whi_reader_u64(&from);
        part->type = (wh_type_id)(type < WH_TYPE_IDS ? type : WH_TYPE_IDS);
        part->function = whi_reader_u64(&from);
        sizes[i] = whi_reader_u64(&from);
        if (st == WH_OK && valid(part) != WH_OK)
            st = WH_EPROTOCOL;
    }
    for (size_t i = 0; st == WH_OK && i < count; i++)
        st = read_part(&from, &partial->parts[i], sizes[i]);
    if (st == WH_OK && !whi_reader_done(&from))
        st = WH_EPROTOCOL;
    if (st == WH_OK)
        *out = partial;
    else
        whi_partial_free(partial);
    return st;
}
