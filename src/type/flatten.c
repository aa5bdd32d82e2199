// SPDX-License-Identifier: BSD-3-Clause
//
// Types as bytes, version 1.
//
//   magic    4 bytes "WHT\x01", whose last is the version
//   nodes    number of nodes
//   a node   kind, then
//              basic: its id
//              others: number of arguments, arguments, number of children, children
//
// All numbers are variable-length: 7 bits per byte, the lowest first, the top bit set on all but
// the last; arguments are signed and zigzag-coded.  Nodes come children first; a child is given as
// the distance back to it, at least 1; the last node is the type.  A node that several parents share
// is written once, so a type takes as many bytes as it has nodes and arguments.
//
// The reader believes nothing: every number is bounded by the bytes that are left, and each node
// goes through the checks of the constructors.
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "type/type.h"

static const uint8_t magic[4] = {'W', 'H', 'T', 1};

enum { VARINT_MAX = 10 };  // bytes of a 64-bit number

static void put(whi_writer *out, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        whi_writer_u8(out, (uint8_t)(value | 0x80));
    whi_writer_u8(out, (uint8_t)value);
}

static void put_signed(whi_writer *out, int64_t value) {
    put(out, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

static uint64_t get(whi_reader *in) {
    uint64_t value = 0;
    for (int i = 0; i < VARINT_MAX; i++) {
        uint8_t byte = whi_reader_u8(in);
        if (i == VARINT_MAX - 1 && byte > 1)
            break;  // beyond 64 bits
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80))
            return value;
    }
    whi_reader_fail(in);
    return 0;
}

static int64_t get_signed(whi_reader *in) {
    uint64_t value = get(in);
    return (int64_t)((value >> 1) ^ -(value & 1));
}

// The nodes below a type, each once, children first.
typedef struct order {
    whi_hash seen;  // node -> its place + 1
    const wh_type **nodes;
    size_t n, space;
} order;

static wh_status append(order *all, const wh_type *type) {
    if (all->n == all->space) {
        size_t space = all->space ? 2 * all->space : 16;
        const wh_type **nodes = whi_realloc(all->nodes, space * sizeof(const wh_type *));
        if (!nodes)
            return WH_ENOMEM;
        all->nodes = nodes;
        all->space = space;
    }
    wh_status status = whi_hash_put(&all->seen, (uintptr_t)type, (void *)(all->n + 1));
    if (status == WH_OK)
        all->nodes[all->n++] = type;
    return status;
}

static size_t place_of(const order *all, const wh_type *type) {
    return (size_t)whi_hash_get(&all->seen, (uintptr_t)type);
}

static wh_status visit(order *all, const wh_type *type) {
    if (place_of(all, type))
        return WH_OK;
    for (size_t i = 0; i < type->nchildren; i++) {
        wh_status status = visit(all, type->children[i]);
        if (status != WH_OK)
            return status;
    }
    return append(all, type);
}

static void put_node(whi_writer *out, const order *all, size_t at) {
    const wh_type *type = all->nodes[at];
    put(out, type->kind);
    if (type->kind == WH_KIND_BASIC) {
        put(out, type->id);
        return;
    }
    put(out, type->nargs);
    for (size_t i = 0; i < type->nargs; i++)
        put_signed(out, type->args[i]);
    put(out, type->nchildren);
    for (size_t i = 0; i < type->nchildren; i++)
        put(out, at + 1 - place_of(all, type->children[i]));
}

// An upper bound of the bytes of all nodes.
static size_t bound(const order *all) {
    size_t numbers = 1;
    for (size_t i = 0; i < all->n; i++)
        numbers += 3 + all->nodes[i]->nargs + all->nodes[i]->nchildren;
    return sizeof(magic) + numbers * VARINT_MAX;
}

static wh_status write_all(const order *all, void *data, size_t max, size_t *actual) {
    size_t space = bound(all);
    uint8_t *bytes = whi_malloc(space);
    if (!bytes)
        return whi_type_fail(WH_ENOMEM, "wh_type_flatten: out of memory");
    whi_writer out;
    whi_writer_init(&out, bytes, space);
    whi_writer_bytes(&out, magic, sizeof(magic));
    put(&out, all->n);
    for (size_t i = 0; i < all->n; i++)
        put_node(&out, all, i);
    size_t size = whi_writer_size(&out);
    wh_status status = WH_OK;
    *actual = size;
    if (size <= max)
        memcpy(data, bytes, size);
    else
        status = whi_type_fail(WH_ETRUNCATED, "wh_type_flatten: max is %zu, but it takes %zu bytes",
                               max, size);
    whi_free(bytes);
    return status;
}

wh_status wh_type_flatten(const wh_type *type, void *data, size_t max, size_t *actual) {
    wh_status status = whi_type_check(type, "wh_type_flatten", "type");
    if (status != WH_OK)
        return status;
    if (!actual || (max && !data))
        return whi_type_fail(WH_EINVAL, "wh_type_flatten: %s is NULL", actual ? "data" : "actual");
    order all = {0};
    whi_hash_init(&all.seen);
    status = visit(&all, type);
    status = status == WH_OK ? write_all(&all, data, max, actual)
                             : whi_type_fail(status, "wh_type_flatten: out of memory");
    whi_hash_fini(&all.seen);
    whi_free(all.nodes);
    return status;
}

static wh_status broken(const char *what) {
    return whi_type_fail(WH_EPROTOCOL, "wh_type_unflatten: %s", what);
}

// Each argument and each child takes a byte at least, which bounds what is allocated for them.
static wh_status get_node(whi_reader *in, wh_type **nodes, size_t at) {
    uint64_t kind = get(in);
    if (kind == WH_KIND_BASIC) {
        uint64_t id = get(in);
        if (!whi_reader_ok(in) || id >= WH_TYPE_IDS)
            return broken("an unknown predefined type");
        nodes[at] = whi_type_mutable(wh_type_basic((wh_type_id)id));
        return WH_OK;
    }
    whi_reader ahead = *in;  // the number of children stands behind the arguments
    uint64_t nargs = get(&ahead);
    if (kind > WH_KIND_STRIDED || nargs > whi_reader_left(&ahead))
        return broken(kind > WH_KIND_STRIDED ? "an unknown kind of type"
                                             : "more arguments than bytes");
    for (uint64_t i = 0; i < nargs; i++)
        (void)get(&ahead);
    uint64_t nchildren = get(&ahead);
    if (!whi_reader_ok(&ahead) || nchildren > whi_reader_left(&ahead))
        return broken("the bytes end within a node");
    wh_type *node;
    wh_status status = whi_type_new((wh_type_kind)kind, nargs, nchildren, &node);
    if (status != WH_OK)
        return status;
    (void)get(in);
    for (uint64_t i = 0; i < nargs; i++)
        node->args[i] = get_signed(in);
    (void)get(in);
    bool known = true;
    for (uint64_t i = 0; i < nchildren; i++) {
        uint64_t back = get(in);
        known &= back >= 1 && back <= at;
        node->children[i] = known ? nodes[at - back] : NULL;
    }
    if (!known || !whi_reader_ok(in)) {
        whi_free(node);
        return broken("a child that does not come before its parent");
    }
    status = whi_type_seal(node, &nodes[at]);
    // What a constructor refuses is, in untrusted bytes, a breach of the format.
    return status == WH_EINVAL || status == WH_ELIMIT ? WH_EPROTOCOL : status;
}

static wh_status get_all(whi_reader *in, wh_type **type) {
    uint64_t n = get(in);
    if (!whi_reader_ok(in) || n == 0 || n > whi_reader_left(in) / 2)
        return broken("a number of nodes that the bytes cannot hold");
    wh_type **nodes = whi_calloc(n, sizeof(wh_type *));
    if (!nodes)
        return whi_type_fail(WH_ENOMEM, "wh_type_unflatten: out of memory");
    wh_status status = WH_OK;
    size_t made = 0;
    while (made < n && status == WH_OK) {
        status = get_node(in, nodes, made);
        made += status == WH_OK;
    }
    if (status == WH_OK)
        *type = wh_type_retain(nodes[n - 1]);
    for (size_t i = 0; i < made; i++)
        wh_type_release(nodes[i]);
    whi_free(nodes);
    return status;
}

wh_status wh_type_unflatten(const void *data, size_t size, size_t *used, wh_type **type) {
    if (!data || !type)
        return whi_type_fail(WH_EINVAL, "wh_type_unflatten: %s is NULL", data ? "type" : "data");
    whi_reader in;
    whi_reader_init(&in, data, size);
    uint8_t head[sizeof(magic)];
    whi_reader_copy(&in, head, sizeof(head));
    if (memcmp(head, magic, sizeof(magic) - 1) != 0)
        return broken("the bytes are not a flattened type");
    if (head[sizeof(magic) - 1] != magic[sizeof(magic) - 1])
        return whi_type_fail(WH_EVERSION, "wh_type_unflatten: format %d, only %d is known",
                             head[sizeof(magic) - 1], magic[sizeof(magic) - 1]);
    wh_status status = get_all(&in, type);
    if (status == WH_OK && used)
        *used = size - whi_reader_left(&in);
    return status;
}
