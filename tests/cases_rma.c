// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access: put, get, atomics, flush and fence on memory of the library's and of the user's.
//
// Role 1 owns the memory and hands out keys by message; role 0 accesses it.  Whether that goes directly or is served is the
// lane's affair: the same text must hold for both.
#include "kit.h"

enum { MEMORY = 3 << 20, KEY_TAG = 900, MARK_TAG = 901 };

static void nothing(void *arg) {
    (void)arg;
}

// MEET is SYNC for memory that a progress thread serves: what was written here before is there before the other role goes on.
// That the roles meet shows so too, but only to who sees both processes, which the thread sanitizer does not.
#define MEET()                                                                                     \
    do {                                                                                           \
        kit_owned(me, nothing, NULL);                                                              \
        SYNC();                                                                                    \
        kit_owned(me, nothing, NULL);                                                              \
    } while (0)

// The memory of role 1: our allocation or the user's.
typedef struct owned {
    wh_mr *mr;
    char *bytes;
    bool ours;
} owned;

// A role that shares its worker has no context of its own.
static wh_context *context_of(const kit_side *me) {
    return wh_worker_context(me->worker);
}

static owned own(kit_side *me, bool ours, size_t size, unsigned access) {
    owned o = {.ours = ours};
    if (ours) {
        REQUIRE_STATUS(wh_mr_alloc(context_of(me), size, access, &o.mr), WH_OK);
        o.bytes = wh_mr_address(o.mr);
    } else {
        o.bytes = kit_alloc(me, size);
        memset(o.bytes, 0, size);
        REQUIRE_STATUS(wh_mr_register(context_of(me), o.bytes, size, WH_MEM_AUTO, access, &o.mr),
                       WH_OK);
    }
    REQUIRE_INT(wh_mr_size(o.mr), size);
    return o;
}

static void disown(kit_side *me, owned *o) {
    wh_status st;
    UNTIL_POLLED((st = wh_mr_destroy(o->mr)) != WH_EBUSY);
    REQUIRE_STATUS(st, WH_OK);
    if (!o->ours)
        free(o->bytes);
}

static void send_key(kit_side *me, const owned *o) {
    char key[WH_MR_KEY_MAX];
    size_t size;
    REQUIRE_STATUS(wh_mr_key(o->mr, key, &size), WH_OK);
    kit_send(me, me->ep, &size, sizeof(size), KEY_TAG);
    kit_send(me, me->ep, key, size, KEY_TAG);
}

static wh_rkey *recv_key(kit_side *me) {
    char key[WH_MR_KEY_MAX];
    size_t size;
    kit_recv(me, me->ep, &size, sizeof(size), KEY_TAG);
    kit_recv(me, me->ep, key, size, KEY_TAG);
    wh_rkey *rkey = NULL;
    REQUIRE_STATUS(wh_rkey_open(me->ep, key, size, &rkey), WH_OK);
    return rkey;
}

// serve_until_met is the owner's whole part in a case that only accesses its memory.
static void serve_until_met(kit_side *me, bool ours, size_t size) {
    owned o = own(me, ours, size, WH_MR_ALL);
    send_key(me, &o);
    MEET();
    disown(me, &o);
}

// TRY is BEGIN for an access that may end in `error`: what is direct does so inside the call.  True: `op` is under way.
#define TRY(op, call, error)                                                                       \
    ({                                                                                             \
        wh_status try_st;                                                                          \
        UNTIL_POLLED((try_st = (call)) != WH_EAGAIN);                                              \
        bool try_refused = try_st < 0 && try_st == (error);                                        \
        if (!try_refused)                                                                          \
            kit_begun(me, op, try_st, __FILE__, __LINE__);                                         \
        !try_refused;                                                                              \
    })

// ACCESS is a whole one, which ends with `status`.
#define ACCESS(op, call, status)                                                                   \
    do {                                                                                           \
        if (TRY(op, call, status))                                                                 \
            END(op, status);                                                                       \
    } while (0)

static void put(kit_side *me, wh_rkey *rkey, uint64_t offset, const void *buf, size_t size) {
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op, wh_put(rkey, offset, buf, size, opts, &op.req));
    END(&op, WH_OK);
}

static void get(kit_side *me, wh_rkey *rkey, uint64_t offset, void *buf, size_t size,
                wh_status expected) {
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    ACCESS(&op, wh_get(rkey, offset, buf, size, opts, &op.req), expected);
}

static void flush(kit_side *me, wh_status expected) {
    kit_op op;
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op, wh_endpoint_flush(me->ep, opts, &op.req));
    END(&op, expected);
}

static uint64_t atomic(kit_side *me, wh_rkey *rkey, uint64_t offset, wh_atomic_op what, size_t size,
                       uint64_t operand, uint64_t compare) {
    kit_op op;
    uint64_t old = 0;
    const wh_op_opts *opts = kit_opts(&op);
    BEGIN(&op, wh_atomic(rkey, offset, what, size, operand, compare, &old, opts, &op.req));
    END(&op, WH_OK);
    return old;
}

// Whether the owner's help is needed, which memory and setting decide where a lane can do without; all other cases hold both
// ways.
CASE(rma_without_the_owner, 0) {
    const char *setting = getenv("WHERRY_UCX_RMA");
    bool native = setting && strcmp(setting, "native") == 0;
    for (int ours = 0; ours < 2; ours++) {
        if (me->role == 1) {
            serve_until_met(me, ours, 64);
            continue;
        }
        bool direct = me->config->lane == KIT_UCX ? native : me->config->lane == KIT_SHM && ours;
        char bytes[8];
        wh_rkey *rkey = recv_key(me);
        if (direct)  // what was not asked for when the key was opened is when it is used
            UNTIL_POLLED((get(me, rkey, 0, bytes, sizeof(bytes), WH_OK), wh_rkey_direct(rkey)));
        get(me, rkey, 0, bytes, sizeof(bytes), WH_OK);
        REQUIRE_INT(wh_rkey_direct(rkey) != 0, direct);
        MEET();
        wh_rkey_close(rkey);
    }
}

static void put_and_get_sizes(kit_side *me, bool ours) {
    if (me->role == 1) {
        owned o = own(me, ours, MEMORY, WH_MR_ALL);
        send_key(me, &o);
        for (size_t i = 0; i < kit_size_count; i++) {
            size_t size = kit_sizes[i] < MEMORY - 8 ? kit_sizes[i] : MEMORY - 8;
            MEET();  // flushed
            SAME(o.bytes + 3, size, i);
            REQUIRE(o.bytes[3 + size] == 0 && o.bytes[2] == 0);
            memset(o.bytes, 0, MEMORY);
            kit_fill(o.bytes + 5, size, i + 1000);
            MEET();
            MEET();  // read
            memset(o.bytes, 0, MEMORY);
            MEET();
        }
        disown(me, &o);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    REQUIRE_INT(wh_rkey_size(rkey), MEMORY);
    char *buf = kit_alloc(me, MEMORY);
    for (size_t i = 0; i < kit_size_count; i++) {
        size_t size = kit_sizes[i] < MEMORY - 8 ? kit_sizes[i] : MEMORY - 8;
        kit_fill(buf, size, i);
        put(me, rkey, 3, buf, size);
        memset(buf, 0xee, size);  // a put that is done needs its buffer no more
        flush(me, WH_OK);
        MEET();
        MEET();
        get(me, rkey, 5, buf, size, WH_OK);
        SAME(buf, size, i + 1000);
        MEET();
        MEET();
    }
    free(buf);
    wh_rkey_close(rkey);
}

CASE(rma_sizes_ours, 0) {
    put_and_get_sizes(me, true);
}

CASE(rma_sizes_users, 0) {
    put_and_get_sizes(me, false);
}

// Both roles add to the same words, over the network and with C11 atomics; nothing is lost.
// A layout here, its packed bytes there.
static void typed_put_and_get(kit_side *me, bool ours) {
    enum { STRIDE = 3 };
    static const size_t words[] = {1, 100, 3000, 300000};
    if (me->role == 1) {
        serve_until_met(me, ours, MEMORY);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t n = words[i];
        wh_type *column = NULL;
        REQUIRE_STATUS(
            wh_type_create_vector((int64_t)n, 1, STRIDE, wh_type_basic(WH_TYPE_INT64), &column),
            WH_OK);
        int64_t *from = kit_alloc(me, n * STRIDE * 8), *to = kit_alloc(me, n * STRIDE * 8);
        int64_t *there = kit_alloc(me, n * 8);
        for (size_t k = 0; k < n * STRIDE; k++) {
            from[k] = (int64_t)(k * 7 + i);
            to[k] = -1;
        }
        kit_op op;
        (void)kit_opts(&op);
        op.opts.type = column;
        BEGIN(&op, wh_put(rkey, 16, from, 1, &op.opts, &op.req));
        END(&op, WH_OK);
        REQUIRE_INT(op.result.size, n * 8);
        flush(me, WH_OK);
        get(me, rkey, 16, there, n * 8, WH_OK);
        (void)kit_opts(&op);
        op.opts.type = column;
        BEGIN(&op, wh_get(rkey, 16, to, 1, &op.opts, &op.req));
        END(&op, WH_OK);
        for (size_t k = 0; k < n * STRIDE; k++) {
            REQUIRE_INT(to[k], k % STRIDE ? -1 : from[k]);
            REQUIRE(k % STRIDE || there[k / STRIDE] == from[k]);
        }
        (void)kit_opts(&op);
        op.opts.type = column;
        REQUIRE_STATUS(wh_put(rkey, MEMORY - 7, from, 1, &op.opts, NULL), WH_EBOUNDS);
        wh_type_release(column);
        free(from);
        free(to);
        free(there);
    }
    MEET();
    wh_rkey_close(rkey);
}

CASE(rma_typed_ours, 0) {
    typed_put_and_get(me, true);
}

CASE(rma_typed_users, 0) {
    typed_put_and_get(me, false);
}

CASE(rma_atomics_add_up, 0) {
    enum { ADDS = 300 };
    bool owner = me->role == 1;
    for (int ours = 0; ours < 2; ours++) {
        if (owner) {
            owned o = own(me, ours, 64, WH_MR_ALL);
            send_key(me, &o);
            for (int i = 0; i < ADDS; i++)
                atomic_fetch_add((_Atomic uint64_t *)(void *)o.bytes, 1);
            MEET();
            REQUIRE_INT(*(uint64_t *)(void *)o.bytes, 3 * ADDS);
            REQUIRE_INT(*(uint32_t *)(void *)(o.bytes + 12), ADDS);
            REQUIRE_INT(*(uint32_t *)(void *)(o.bytes + 8), 0);
            disown(me, &o);
            continue;
        }
        wh_rkey *rkey = recv_key(me);
        uint64_t before = 0;
        for (int i = 0; i < ADDS; i++) {
            uint64_t old = atomic(me, rkey, 0, WH_ATOMIC_ADD, 8, 2, 0);
            REQUIRE(i == 0 || old >= before + 2);
            before = old;
            kit_op op;  // without a result
            const wh_op_opts *opts = kit_opts(&op);
            BEGIN(&op, wh_atomic(rkey, 12, WH_ATOMIC_ADD, 4, 1, 0, NULL, opts, &op.req));
            END(&op, WH_OK);
        }
        flush(me, WH_OK);
        MEET();
        wh_rkey_close(rkey);
    }
}

CASE(rma_atomic_operations, 0) {
    if (me->role == 1) {
        serve_until_met(me, kit_flip(me, 2), 16);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    for (size_t size = 4; size <= 8; size += 4) {
        uint64_t all = size == 4 ? UINT32_MAX : UINT64_MAX;
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_SWAP, size, all - 1, 0) == 0);
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_ADD, size, 3, 0) == all - 1);  // wraps
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_OR, size, 0xf0, 0) == 1);
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_XOR, size, 0xff, 0) == 0xf1);
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_AND, size, 0x0c, 0) == 0x0e);
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_CSWAP, size, 77, 5) == 0x0c);  // not 5: left alone
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_CSWAP, size, 77, 0x0c) == 0x0c);
        REQUIRE(atomic(me, rkey, 8, WH_ATOMIC_SWAP, size, 0, 0) == 77);
    }
    MEET();
    wh_rkey_close(rkey);
}

// What is wrong with the arguments is told at once, and harms nothing.
CASE(rma_arguments, 0) {
    if (me->role == 1) {
        owned all = own(me, true, 64, WH_MR_ALL), readable = own(me, false, 64, WH_MR_READ);
        wh_mr *mr;
        REQUIRE_STATUS(wh_mr_alloc(context_of(me), 0, WH_MR_ALL, &mr), WH_EINVAL);
        REQUIRE_STATUS(wh_mr_alloc(context_of(me), 8, 0, &mr), WH_EINVAL);
        REQUIRE_STATUS(wh_mr_alloc(context_of(me), 8, 64, &mr), WH_EINVAL);
        REQUIRE_STATUS(wh_mr_register(context_of(me), NULL, 8, WH_MEM_HOST, WH_MR_ALL, &mr),
                       WH_EINVAL);
        send_key(me, &all);
        send_key(me, &readable);
        MEET();
        disown(me, &all);
        disown(me, &readable);
        return;
    }
    wh_rkey *all = recv_key(me), *readable = recv_key(me), *none;
    char buf[64] = {0};
    uint64_t old;
    REQUIRE_STATUS(wh_put(all, 1, buf, 64, NULL, NULL), WH_EBOUNDS);
    REQUIRE_STATUS(wh_put(all, UINT64_MAX, buf, 2, NULL, NULL), WH_EBOUNDS);
    REQUIRE_STATUS(wh_get(all, 65, buf, 0, NULL, NULL), WH_EBOUNDS);
    REQUIRE_STATUS(wh_get(all, 0, NULL, 8, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_put(all, 0, buf, 8, WH_OP_OPTS(.flags = WH_OP_SYNC), NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_atomic(all, 4, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_atomic(all, 0, WH_ATOMIC_ADD, 2, 1, 0, &old, NULL, NULL), WH_EINVAL);
    REQUIRE_STATUS(wh_atomic(all, 64, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, NULL), WH_EBOUNDS);
    REQUIRE_STATUS(wh_put(readable, 0, buf, 8, NULL, NULL), WH_EPERM);
    REQUIRE_STATUS(wh_atomic(readable, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, NULL), WH_EPERM);
    REQUIRE_STATUS(wh_rkey_open(me->ep, "a key of another kind, surely", 24, &none), WH_EKEY);
    REQUIRE_STATUS(wh_rkey_open(me->ep, buf, 3, &none), WH_EKEY);
    get(me, readable, 0, buf, 64, WH_OK);
    put(me, all, 64, buf, 0);
    MEET();
    wh_rkey_close(all);
    wh_rkey_close(readable);
    wh_rkey_close(NULL);
}

// A key whose memory is gone is an error of whoever uses it; one that was made up is, too.
CASE(rma_stale_key, 0) {
    static char buf[200000];
    if (me->role == 1) {
        for (int ours = 0; ours < 2; ours++) {
            owned o = own(me, ours, sizeof(buf), WH_MR_ALL);
            send_key(me, &o);
            MEET();
            disown(me, &o);
            MEET();
            MEET();
        }
        return;
    }
    for (int ours = 0; ours < 2; ours++) {
        wh_rkey *rkey = recv_key(me);
        put(me, rkey, 0, buf, sizeof(buf));
        if (kit_flip(me, 2))  // or it is mapped for the first time now
            flush(me, WH_OK);
        MEET();
        MEET();
        kit_op op;
        const wh_op_opts *opts = kit_opts(&op);
        if (TRY(&op, wh_put(rkey, 0, buf, 8, opts, &op.req), WH_EKEY)) {
            UNTIL(atomic_load(&op.ended));
            bool at_once = op.result.status == WH_EKEY;  // as a request that went directly
            END(&op, at_once ? WH_EKEY : WH_OK);
            flush(me, at_once ? WH_OK : WH_EKEY);
            flush(me, WH_OK);  // it is told once
        }
        get(me, rkey, 0, buf, 8, WH_EKEY);
        get(me, rkey, 0, buf, sizeof(buf), WH_EKEY);
        uint64_t old = 5;
        opts = kit_opts(&op);
        ACCESS(&op, wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, opts, &op.req), WH_EKEY);
        REQUIRE_INT(old, 5);
        opts = kit_opts(&op);
        ACCESS(&op, wh_put(rkey, 0, buf, sizeof(buf), opts, &op.req), WH_EKEY);
        MEET();
        wh_rkey_close(rkey);
    }
}

static void fence(kit_side *me) {
    REQUIRE_STATUS(wh_endpoint_fence(me->ep), WH_OK);
}

// Behind a fence, messages and accesses find what came before it.
CASE(rma_fence, 0) {
    enum { ROUNDS = 12, SIZE = 300000 };
    if (me->role == 1) {
        owned o = own(me, kit_flip(me, 2), SIZE, WH_MR_ALL);
        send_key(me, &o);
        for (uint64_t i = 0; i < ROUNDS; i++) {
            uint64_t mark = 0;
            kit_recv(me, me->ep, &mark, sizeof(mark), MARK_TAG);
            SAME(o.bytes, SIZE, 2 * i + 1);
            REQUIRE_INT(mark, i);
            MEET();
        }
        MEET();
        disown(me, &o);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    char *first = kit_alloc(me, SIZE), *second = kit_alloc(me, SIZE), *back = kit_alloc(me, SIZE);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        kit_op ops[4];
        kit_fill(first, SIZE, 2 * i);
        kit_fill(second, SIZE, 2 * i + 1);
        const wh_op_opts *opts = kit_opts(&ops[0]);
        BEGIN(&ops[0], wh_put(rkey, 0, first, SIZE, opts, &ops[0].req));
        fence(me);
        opts = kit_opts(&ops[1]);
        BEGIN(&ops[1], wh_get(rkey, 0, back, SIZE, opts, &ops[1].req));
        fence(me);
        opts = kit_opts(&ops[2]);
        BEGIN(&ops[2], wh_put(rkey, 0, second, SIZE, opts, &ops[2].req));
        fence(me);
        opts = kit_opts(&ops[3]);
        BEGIN(&ops[3], wh_tag_send(me->ep, &i, sizeof(i), MARK_TAG, opts, &ops[3].req));
        for (int k = 0; k < 4; k++)
            END(&ops[k], WH_OK);
        SAME(back, SIZE, 2 * i);
        MEET();
    }
    free(first);
    free(second);
    free(back);
    MEET();
    wh_rkey_close(rkey);
}

// Many at once, of all sizes, beside messages: each reads back what it wrote.
CASE(rma_many, 0) {
    enum { OPS = 200, SLOT = 40000 };
    if (me->role == 1) {
        owned o = own(me, kit_flip(me, 2), (size_t)OPS * SLOT, WH_MR_ALL);
        send_key(me, &o);
        for (int i = 0; i < OPS / 10; i++) {
            uint64_t mark;
            kit_recv(me, me->ep, &mark, sizeof(mark), MARK_TAG);
        }
        MEET();
        disown(me, &o);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    static kit_op ops[OPS];
    char *bytes = kit_alloc(me, (size_t)OPS * SLOT), *back = kit_alloc(me, (size_t)OPS * SLOT);
    size_t sizes[OPS];
    for (uint64_t i = 0; i < OPS; i++) {
        sizes[i] = 1 + kit_flip(me, kit_flip(me, 2) ? 300 : SLOT);
        kit_fill(bytes + i * SLOT, sizes[i], i);
        const wh_op_opts *opts = kit_opts(&ops[i]);
        BEGIN(&ops[i], wh_put(rkey, i * SLOT, bytes + i * SLOT, sizes[i], opts, &ops[i].req));
        if (i % 10 == 0)
            kit_send(me, me->ep, &i, sizeof(i), MARK_TAG);
    }
    for (int i = 0; i < OPS; i++)
        END(&ops[i], WH_OK);
    fence(me);
    for (uint64_t i = 0; i < OPS; i++) {
        const wh_op_opts *opts = kit_opts(&ops[i]);
        BEGIN(&ops[i], wh_get(rkey, i * SLOT, back + i * SLOT, sizes[i], opts, &ops[i].req));
    }
    for (uint64_t i = 0; i < OPS; i++) {
        END(&ops[i], WH_OK);
        SAME(back + i * SLOT, sizes[i], i);
    }
    MEET();
    free(bytes);
    free(back);
    wh_rkey_close(rkey);
}

// any_access starts a small or a large put or get, by its number.
static wh_status any_access(wh_rkey *rkey, int i, char *bytes, const wh_op_opts *opts,
                            wh_request **req) {
    size_t size = i % 3 ? MEMORY : 8;
    return i % 2 ? wh_put(rkey, 0, bytes, size, opts, req)
                 : wh_get(rkey, 0, bytes, size, opts, req);
}

// A cancelled access ends once, done or cancelled, and its memory can be freed.
CASE(rma_cancel, 0) {
    enum { OPS = 30 };
    if (me->role == 1) {
        serve_until_met(me, kit_flip(me, 2), MEMORY);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    static kit_op ops[OPS];
    char *bytes = kit_alloc(me, MEMORY);
    for (int i = 0; i < OPS; i++) {
        const wh_op_opts *opts = kit_opts(&ops[i]);
        BEGIN(&ops[i], any_access(rkey, i, bytes, opts, &ops[i].req));
        if (kit_flip(me, 2))
            wh_request_cancel(ops[i].req);
    }
    for (int i = 0; i < OPS; i++) {
        UNTIL(atomic_load(&ops[i].ended));
        bool cancelled = ops[i].result.status == WH_ECANCELLED;
        END(&ops[i], cancelled ? WH_ECANCELLED : WH_OK);
    }
    memset(bytes, 1, MEMORY);
    free(bytes);
    flush(me, WH_OK);
    MEET();
    wh_rkey_close(rkey);
}

// Memory of a device is served; atomics on it are refused.
CASE(rma_device, 0) {
    enum { SIZE = 100000 };
    static char here[SIZE];
    if (me->role == 1) {
        void *device = NULL;
        wh_mr *mr = NULL;
        REQUIRE_STATUS(wh_mem_alloc_kind(kit_device, 0, SIZE, &device), WH_OK);
        REQUIRE_STATUS(wh_mr_register(context_of(me), device, SIZE, WH_MEM_AUTO, WH_MR_ALL, &mr),
                       WH_OK);
        owned o = {.mr = mr, .ours = true};
        send_key(me, &o);
        MEET();
        REQUIRE_STATUS(wh_mem_copy(here, WH_MEM_HOST, device, kit_device, SIZE), WH_OK);
        SAME(here, SIZE, 4);
        MEET();
        disown(me, &o);
        REQUIRE_STATUS(wh_mem_free_kind(kit_device, device), WH_OK);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    uint64_t old;
    REQUIRE_STATUS(wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, NULL), WH_ENOTSUP);
    kit_fill(here, SIZE, 4);
    put(me, rkey, 0, here, 100);
    put(me, rkey, 100, here + 100, SIZE - 100);
    flush(me, WH_OK);
    memset(here, 0, SIZE);
    get(me, rkey, 0, here, SIZE, WH_OK);
    SAME(here, SIZE, 4);
    get(me, rkey, 7, here, 10, WH_OK);
    MEET();
    MEET();
    wh_rkey_close(rkey);
}

// The owner leaves with accesses under way: each ends once, with an error or done.
CASE(rma_owner_leaves, KIT_TWO) {
    enum { OPS = 40 };
    if (me->role == 1) {
        owned o = own(me, kit_flip(me, 2), MEMORY, WH_MR_ALL);
        send_key(me, &o);
        MEET();
        wh_endpoint_abort(me->ep);
        me->ep = NULL;
        MEET();
        disown(me, &o);
        return;
    }
    wh_rkey *rkey = recv_key(me);
    static kit_op ops[OPS];
    char *bytes = kit_alloc(me, MEMORY);
    bool begun[OPS] = {false};
    MEET();
    for (int i = 0; i < OPS; i++) {
        const wh_op_opts *opts = kit_opts(&ops[i]);
        begun[i] = TRY(&ops[i], any_access(rkey, i, bytes, opts, &ops[i].req), WH_EPEER);
    }
    for (int i = 0; i < OPS; i++) {
        if (!begun[i])
            continue;
        UNTIL(atomic_load(&ops[i].ended));
        bool lost = ops[i].result.status != WH_OK;
        END(&ops[i], lost ? WH_EPEER : WH_OK);
    }
    free(bytes);
    MEET();
    wh_rkey_close(rkey);
}
