// SPDX-License-Identifier: BSD-3-Clause
//
// Registering memory, see mr.h.
#include "rma/mr.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "mem/mem.h"
#include "rma/native.h"
#include "rma/rma.h"
#include "worker/context.h"

// in_child runs in a forked child, which has not got the shared memory, and where a thread that it lacks may hold the lock.
static void in_child(void *arg) {
    whi_mr_table *table = arg;
    // Whoever holds the lock may be in the middle of the table: then its descriptors stay until an exec.
    bool whole = pthread_mutex_trylock(&table->lock) == 0;
    pthread_mutex_init(&table->lock, NULL);
    if (!whole)
        return;
    size_t cursor = 0;
    uint64_t id;
    wh_mr *mr;
    while ((mr = whi_hash_next(&table->mrs, &cursor, &id)))
        if (mr->fd >= 0)
            close(mr->fd);
}

static void free_table(whi_context_part *part) {
    whi_mr_table *table = whi_container_of(part, whi_mr_table, part);
    whi_fork_unregister(&table->fork_node);
    whi_hash_fini(&table->mrs);
    pthread_mutex_destroy(&table->lock);
    whi_free(table);
}

static whi_mr_table *find_table(const wh_context *ctx) {
    whi_context_part *part = atomic_load(&ctx->memory);
    return part ? whi_container_of(part, whi_mr_table, part) : NULL;
}

// make_table makes the table of a context unless another thread is faster.
static wh_status make_table(wh_context *ctx) {
    if (find_table(ctx))
        return WH_OK;
    whi_mr_table *table = whi_calloc(1, sizeof(*table));
    if (!table)
        return WH_ENOMEM;
    table->part.free_fn = free_table;
    pthread_mutex_init(&table->lock, NULL);
    whi_hash_init(&table->mrs);
    table->fork_node = (whi_fork_node){.fn = in_child, .arg = table};
    wh_status st = whi_fork_register(&table->fork_node);
    if (st != WH_OK) {
        whi_free(table);
        return st;
    }
    whi_context_part *none = NULL;
    if (!atomic_compare_exchange_strong(&ctx->memory, &none, &table->part))
        free_table(&table->part);
    return WH_OK;
}

static wh_mr *new_mr(unsigned access) {
    wh_mr *mr = whi_calloc(1, sizeof(*mr));
    if (!mr)
        return NULL;
    mr->fd = -1;
    whi_list_init(&mr->transfers);
    whi_list_init(&mr->shares);
    mr->access = access;
    return mr;
}

static wh_status add(wh_context *ctx, wh_mr *mr) {
    wh_status st = make_table(ctx);
    if (st != WH_OK)
        return st;
    whi_mr_table *table = find_table(ctx);
    if (getrandom(&mr->id, sizeof(mr->id), 0) != sizeof(mr->id))
        return WH_ESYSTEM;
    pthread_mutex_lock(&table->lock);
    st = whi_hash_get(&table->mrs, mr->id) ? WH_EAGAIN : WH_OK;
    if (st == WH_OK)
        st = whi_hash_put(&table->mrs, mr->id, mr);
    pthread_mutex_unlock(&table->lock);
    if (st != WH_OK)
        return st;
    mr->ctx = ctx;
    mr->table = table;
    mr->fork_generation = whi_fork_generation();
    whi_context_retain(ctx);
    return WH_OK;
}

static void free_mr(wh_mr *mr) {
    if (mr->fd >= 0)
        close(mr->fd);
    whi_region_release(mr->region);
    if (mr->ctx)
        whi_context_release(mr->ctx);
    whi_free(mr);
}

static bool arguments_are_sane(const wh_context *ctx, size_t size, unsigned access, wh_mr **mr) {
    return ctx && size && access && !(access & ~(unsigned)WH_MR_ALL) && mr;
}

wh_status wh_mr_register(wh_context *ctx, void *ptr, size_t size, wh_mem_kind kind, unsigned access,
                         wh_mr **out) {
    if (!arguments_are_sane(ctx, size, access, out) || !ptr)
        return WH_EINVAL;
    wh_mr *mr = new_mr(access);
    if (!mr)
        return WH_ENOMEM;
    whi_mem_notice();
    wh_status st = whi_buffer_resolve(&mr->buf, ptr, size, kind, 0, NULL);
    if (st == WH_OK)
        st = add(ctx, mr);
    if (st != WH_OK) {
        free_mr(mr);
        return st;
    }
    *out = mr;
    return WH_OK;
}

wh_status wh_mr_alloc(wh_context *ctx, size_t size, unsigned access, wh_mr **out) {
    if (!arguments_are_sane(ctx, size, access, out) || size > SIZE_MAX / 2)
        return WH_EINVAL;
    wh_mr *mr = new_mr(access);
    if (!mr)
        return WH_ENOMEM;
    wh_status st =
        whi_region_create("wherry-mem", sizeof(whi_mr_shared) + size, &mr->region, &mr->fd);
    if (st == WH_OK) {
        whi_mr_shared *shared = mr->region->base;
        atomic_store(&shared->live, 1);
        mr->buf = whi_buffer_host(shared + 1, size);
        st = add(ctx, mr);
    }
    if (st != WH_OK) {
        free_mr(mr);
        return st;
    }
    *out = mr;
    return WH_OK;
}

void *wh_mr_address(const wh_mr *mr) {
    return mr ? mr->buf.ptr : NULL;
}

size_t wh_mr_size(const wh_mr *mr) {
    return mr ? mr->buf.size : 0;
}

wh_status wh_mr_key(const wh_mr *mr, void *key, size_t *size) {
    if (!mr || !key || !size)
        return WH_EINVAL;
    whi_key made = {.magic = {'W', 'H', 'K', '1'},
                    .access = (uint8_t)mr->access,
                    .kind = (uint8_t)mr->buf.kind,
                    .flags = mr->region ? WHI_KEY_SHARED : 0,
                    .align = (uint8_t)((uintptr_t)mr->buf.ptr & 7),
                    .id = mr->id,
                    .size = mr->buf.size};
    memcpy(key, &made, sizeof(made));
    *size = sizeof(made);
    return WH_OK;
}

// recall asks the owner of a transfer's worker to end it, as a cancel does.
static void recall(wh_request *req) {
    atomic_store(&req->others.cancel, true);
    atomic_store(&req->worker->ask, true);
    whi_worker_notify(req->worker);
}

// recall_transfers asks for the end of all that keep memory of the user's: a peer that goes on with none would keep it.
static void recall_transfers(wh_mr *mr) {
    if (!mr->region)
        whi_list_foreach(node, &mr->transfers)
            recall(whi_container_of(node, wh_request, free_link));
}

wh_status wh_mr_destroy(wh_mr *mr) {
    if (!mr)
        return WH_OK;
    if (mr->fork_generation != whi_fork_generation())
        return WH_EFORKED;
    whi_mr_table *table = mr->table;
    if (mr->region)
        atomic_store(&((whi_mr_shared *)mr->region->base)->live, 0);
    pthread_mutex_lock(&table->lock);
    (void)whi_hash_remove(&table->mrs, mr->id);
    whi_share_recall(mr);
    recall_transfers(mr);
    // A peer that reaches the memory through UCX may begin accesses until it has answered.  One that is served cannot, and
    // memory of ours outlives its user's handle until those under way have ended; other memory is the user's to free.
    bool ours = mr->region != NULL;
    mr->revoked = whi_list_empty(&mr->shares) && (!mr->accesses || ours);
    wh_status st = mr->revoked ? WH_OK : WH_EBUSY;
    whi_mr_unlock_or_free(mr);
    return st;
}

wh_status whi_mr_begin(wh_context *ctx, uint64_t id, unsigned access, uint64_t offset,
                       uint64_t size, wh_mr **out) {
    whi_mr_table *table = find_table(ctx);
    if (!table)
        return WH_EKEY;  // nothing was ever registered
    pthread_mutex_lock(&table->lock);
    wh_mr *mr = whi_hash_get(&table->mrs, id);
    wh_status st = WH_OK;
    if (!mr)
        st = WH_EKEY;
    else if ((mr->access & access) != access)
        st = WH_EPERM;
    else if (offset > mr->buf.size || size > mr->buf.size - offset)
        st = WH_EBOUNDS;
    if (st == WH_OK) {
        mr->accesses++;
        *out = mr;
    }
    pthread_mutex_unlock(&table->lock);
    return st;
}

void whi_mr_unlock_or_free(wh_mr *mr) {
    bool last = mr->revoked && !mr->accesses && whi_list_empty(&mr->shares);
    pthread_mutex_unlock(&mr->table->lock);
    if (last)
        free_mr(mr);
}

void whi_mr_end(wh_mr *mr) {
    whi_mr_table *table = mr->table;
    pthread_mutex_lock(&table->lock);
    mr->accesses--;
    whi_mr_unlock_or_free(mr);
}

void whi_mr_join(wh_mr *mr, wh_request *req) {
    pthread_mutex_lock(&mr->table->lock);
    whi_access_of(req)->mr = mr;
    whi_list_push_back(&mr->transfers, &req->free_link);
    if (mr->recalled && !mr->region)
        recall(req);
    pthread_mutex_unlock(&mr->table->lock);
}

void whi_mr_leave(wh_request *req) {
    wh_mr *mr = whi_access_of(req)->mr;
    if (!mr)
        return;
    pthread_mutex_lock(&mr->table->lock);
    whi_list_remove(&req->free_link);
    mr->accesses--;
    whi_access_of(req)->mr = NULL;
    whi_mr_unlock_or_free(mr);
}

#define APPLY(word, operand, compare)                                                              \
    switch (op) {                                                                                  \
    case WH_ATOMIC_ADD: return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);                \
    case WH_ATOMIC_AND: return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);                \
    case WH_ATOMIC_OR: return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);                  \
    case WH_ATOMIC_XOR: return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);                \
    case WH_ATOMIC_SWAP: return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);              \
    case WH_ATOMIC_CSWAP:                                                                          \
        __atomic_compare_exchange_n(word, &compare, operand, false, __ATOMIC_SEQ_CST,              \
                                    __ATOMIC_SEQ_CST);                                             \
        return compare;                                                                            \
    }                                                                                              \
    return 0

static uint32_t apply32(uint32_t *word, wh_atomic_op op, uint32_t operand, uint32_t compare) {
    APPLY(word, operand, compare);
}

static uint64_t apply64(uint64_t *word, wh_atomic_op op, uint64_t operand, uint64_t compare) {
    APPLY(word, operand, compare);
}

uint64_t whi_mr_atomic(void *word, wh_atomic_op op, size_t size, uint64_t operand,
                       uint64_t compare) {
    if (size == sizeof(uint32_t))
        return apply32(word, op, (uint32_t)operand, (uint32_t)compare);
    return apply64(word, op, operand, compare);
}
