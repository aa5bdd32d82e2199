// SPDX-License-Identifier: BSD-3-Clause
//
// The table of memory kinds, and what is the same for all of them.
//
// The idea: a pointer belongs to the first device kind that knows it, and to the host otherwise,
// since only devices can tell.  Nothing here keeps state but the time of a look, so any thread may call all of it.
#include "mem/mem.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/opts.h"
#include "mem/heap.h"

enum { BOUNCE_SIZE = 256 << 10 };  // between devices: large enough that the calls do not count

static const char *const names[] = {
    [WH_MEM_AUTO] = "auto",
    [WH_MEM_HOST] = "host",
    [WH_MEM_CUDA] = "cuda",
    [WH_MEM_SIM] = "sim",
};

enum { KINDS = sizeof(names) / sizeof(*names) };

static const whi_mem_ops *const kinds[KINDS] = {
    [WH_MEM_HOST] = &whi_mem_host,
    [WH_MEM_CUDA] = &whi_mem_cuda,
    [WH_MEM_SIM] = &whi_mem_sim,
};

const char *wh_mem_kind_name(wh_mem_kind kind) {
    return (unsigned)kind < KINDS ? names[kind] : "unknown";
}

wh_status wh_mem_kind_parse(const char *name, wh_mem_kind *kind) {
    if (!name || !kind)
        return WH_EINVAL;
    for (unsigned i = 0; i < KINDS; i++)
        if (!strcmp(name, names[i])) {
            *kind = (wh_mem_kind)i;
            return WH_OK;
        }
    return WH_EINVAL;
}

const whi_mem_ops *whi_mem_ops_of(wh_mem_kind kind) {
    if ((unsigned)kind >= KINDS || !kinds[kind] || !kinds[kind]->exists())
        return NULL;
    return kinds[kind];
}

unsigned wh_mem_kinds(void) {
    unsigned found = 0;
    for (unsigned i = 0; i < KINDS; i++)
        if (whi_mem_ops_of((wh_mem_kind)i))
            found |= 1u << i;
    return found;
}

const char *wh_mem_kind_reason(wh_mem_kind kind) {
    if ((unsigned)kind >= KINDS || !kinds[kind])
        return "no such kind of memory";
    return kinds[kind]->reason();
}

const char *wh_mem_sharing_reason(wh_mem_kind kind) {
    const whi_mem_ops *ops = whi_mem_ops_of(kind);
    if (!ops)
        return wh_mem_kind_reason(kind);
    if (ops->sharing)
        return ops->sharing->reason();
    return kind == WH_MEM_HOST ? "the host's own, which messages copy or read"
                               : "within one process only: it has no handles";
}

void whi_mem_notice(void) {
    for (unsigned i = WH_MEM_HOST; i < KINDS; i++)
        if (kinds[i])
            kinds[i]->notice();
}

void whi_mem_query(const void *ptr, wh_mem_info *info) {
    for (unsigned i = WH_MEM_HOST + 1; i < KINDS; i++)
        if (kinds[i] && kinds[i]->query(ptr, info))
            return;
    whi_mem_host.query(ptr, info);
}

wh_status wh_mem_query(const void *ptr, wh_mem_info *info) {
    if (!info)
        return WH_EINVAL;
    wh_mem_info found;
    whi_mem_notice();
    whi_mem_query(ptr, &found);
    return whi_opts_give(info, &found, sizeof(found), "wh_mem_info");
}

// look_now_and_then looks whether a driver has come, if nobody has here since the kernel's clock has ticked.  That is read from memory, in a
// quarter of the time that the processor's takes.
static void look_now_and_then(void) {
    static _Atomic uint64_t looked;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t tick = (uint64_t)now.tv_sec * WHI_NS_PER_S + (uint64_t)now.tv_nsec;
    if (tick == atomic_load_explicit(&looked, memory_order_acquire))
        return;
    whi_mem_notice();
    whi_heap_look();
    atomic_store_explicit(&looked, tick,
                          memory_order_release);  // only now: who sees it need not look
}

static __attribute__((noinline)) bool is_host(const void *ptr) {
    if (!whi_mem_devices())
        look_now_and_then();
    if (!whi_mem_devices())
        return true;
    wh_mem_info found;
    whi_mem_query(ptr, &found);
    return found.kind == WH_MEM_HOST;
}

bool wh_mem_is_host(const void *ptr) {
    return (!whi_mem_devices() && whi_heap_has(ptr)) || is_host(ptr);
}

// Like whi_mem_ops_of, for a caller outside, who is told why there is none.
static wh_status find_ops(wh_mem_kind kind, const whi_mem_ops **ops) {
    const whi_mem_ops *found = whi_mem_ops_of(kind);
    if (!found) {
        whi_log(WHI_ERROR, "E-MEM-01", "memory kind %s does not exist here: %s",
                wh_mem_kind_name(kind), wh_mem_kind_reason(kind));
        return WH_ENOTSUP;
    }
    *ops = found;
    return WH_OK;
}

wh_status wh_mem_alloc_kind(wh_mem_kind kind, int device, size_t size, void **ptr) {
    if (!ptr || kind == WH_MEM_AUTO)
        return WH_EINVAL;
    const whi_mem_ops *ops;
    wh_status status = find_ops(kind, &ops);
    return status == WH_OK ? ops->alloc(device, size, ptr) : status;
}

wh_status wh_mem_free_kind(wh_mem_kind kind, void *ptr) {
    if (kind == WH_MEM_AUTO)
        return WH_EINVAL;
    // A forked child has none of its parent's device memory, and nothing to do for it.
    if (whi_fork_generation() && (unsigned)kind < KINDS && kinds[kind] && !whi_mem_ops_of(kind))
        return WH_OK;
    const whi_mem_ops *ops;
    wh_status status = find_ops(kind, &ops);
    return status == WH_OK && ptr ? ops->free(ptr) : status;
}

// Says whether a range is inside one allocation of a device kind, as far as that knows it.
static bool inside(const whi_mem_ops *ops, const void *ptr, size_t size) {
    wh_mem_info info;
    if (!ops->query(ptr, &info))
        return false;
    size_t offset = (size_t)((const char *)ptr - (const char *)info.base);
    return !info.base || size <= info.length - offset;
}

static wh_status copy_through_host(const whi_mem_ops *dst_ops, char *dst,
                                   const whi_mem_ops *src_ops, const char *src, size_t size) {
    // Both are checked first: pieces that are already copied could not be taken back.
    if (!inside(dst_ops, dst, size) || !inside(src_ops, src, size))
        return WH_EINVAL;
    size_t piece = size < BOUNCE_SIZE ? size : BOUNCE_SIZE;
    void *bounce = whi_malloc(piece);
    if (!bounce)
        return WH_ENOMEM;
    wh_status status = WH_OK;
    for (size_t done = 0; done < size && status == WH_OK; done += piece) {
        if (piece > size - done)
            piece = size - done;
        status = src_ops->copy(WHI_MEM_TO_HOST, bounce, src + done, piece);
        if (status == WH_OK)
            status = dst_ops->copy(WHI_MEM_FROM_HOST, dst + done, bounce, piece);
    }
    whi_free(bounce);
    return status;
}

wh_status whi_mem_copy(const whi_mem_ops *dst_ops, void *dst, const whi_mem_ops *src_ops,
                       const void *src, size_t size) {
    if (!size)
        return WH_OK;
    if (dst_ops == src_ops)
        return dst_ops->copy(WHI_MEM_WITHIN, dst, src, size);
    if (src_ops->kind == WH_MEM_HOST)
        return dst_ops->copy(WHI_MEM_FROM_HOST, dst, src, size);
    if (dst_ops->kind == WH_MEM_HOST)
        return src_ops->copy(WHI_MEM_TO_HOST, dst, src, size);
    return copy_through_host(dst_ops, dst, src_ops, src, size);
}

// Finds the vtable of one side of a copy.
static wh_status resolve(wh_mem_kind kind, const void *ptr, const whi_mem_ops **ops) {
    if (kind == WH_MEM_AUTO) {
        wh_mem_info info;
        whi_mem_notice();
        whi_mem_query(ptr, &info);
        kind = info.kind;
    }
    return find_ops(kind, ops);
}

wh_status wh_mem_copy(void *dst, wh_mem_kind dst_kind, const void *src, wh_mem_kind src_kind,
                      size_t size) {
    const whi_mem_ops *dst_ops, *src_ops;
    wh_status status = resolve(dst_kind, dst, &dst_ops);
    if (status == WH_OK)
        status = resolve(src_kind, src, &src_ops);
    return status == WH_OK ? whi_mem_copy(dst_ops, dst, src_ops, src, size) : status;
}
