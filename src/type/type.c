// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a type node and the questions that it answers from its own fields.
#include "type/type.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <wherry/pack.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "type/plan.h"

static _Thread_local char error_text[256] = "no call has failed in this thread";

const char *wh_type_error(void) {
    return error_text;
}

wh_status whi_type_fail(wh_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(error_text, sizeof(error_text), format, args);
    va_end(args);
    return status;
}

wh_status whi_type_check(const wh_type *type, const char *function, const char *argument) {
    if (whi_type_valid(type))
        return WH_OK;
    return whi_type_fail(WH_EINVAL, "%s: %s is %s", function, argument,
                         type ? "not a type, or a released one" : "NULL");
}

static const char *const makers[] = {
    [WH_KIND_BASIC] = "wh_type_basic",
    [WH_KIND_DUP] = "wh_type_dup",
    [WH_KIND_CONTIG] = "wh_type_create_contig",
    [WH_KIND_VECTOR] = "wh_type_create_vector",
    [WH_KIND_HVECTOR] = "wh_type_create_hvector",
    [WH_KIND_INDEXED] = "wh_type_create_indexed",
    [WH_KIND_HINDEXED] = "wh_type_create_hindexed",
    [WH_KIND_INDEXED_BLOCK] = "wh_type_create_indexed_block",
    [WH_KIND_HINDEXED_BLOCK] = "wh_type_create_hindexed_block",
    [WH_KIND_STRUCT] = "wh_type_create_struct",
    [WH_KIND_SUBARRAY] = "wh_type_create_subarray",
    [WH_KIND_DARRAY] = "wh_type_create_darray",
    [WH_KIND_RESIZED] = "wh_type_create_resized",
    [WH_KIND_STRIDED] = "wh_type_create_strided",
};

const char *whi_type_maker(unsigned kind) {
    return makers[kind];
}

wh_status whi_type_overflow(const wh_type *node, bool packed) {
    return whi_type_fail(WH_EINVAL, "%s: the layout %s more than 2^61 bytes",
                         whi_type_maker(node->kind), packed ? "packs into" : "spans");
}

wh_status whi_type_new(wh_type_kind kind, size_t nargs, size_t nchildren, wh_type **type) {
    size_t words;
    if (__builtin_add_overflow(nargs, nchildren, &words) ||
        words > (SIZE_MAX - sizeof(wh_type)) / sizeof(int64_t))
        return whi_type_fail(WH_ENOMEM, "%s: too many arguments", whi_type_maker(kind));
    wh_type *node = whi_malloc(sizeof(*node) + words * sizeof(int64_t));
    if (!node)
        return whi_type_fail(WH_ENOMEM, "%s: out of memory for %zu arguments", whi_type_maker(kind),
                             words);
    memset(node, 0, sizeof(*node));
    node->kind = (uint8_t)kind;
    node->nargs = nargs;
    node->nchildren = nchildren;
    static_assert(sizeof(wh_type *) <= sizeof(int64_t), "children lie behind the arguments");
    node->children = (wh_type **)(void *)(node->args + nargs);
    *type = node;
    return WH_OK;
}

static wh_status check_children(const wh_type *node) {
    for (size_t i = 0; i < node->nchildren; i++) {
        if (whi_type_valid(node->children[i]))
            continue;
        char name[32] = "old";
        if (node->kind == WH_KIND_STRUCT)
            snprintf(name, sizeof(name), "types[%zu]", i);
        return whi_type_check(node->children[i], whi_type_maker(node->kind), name);
    }
    return WH_OK;
}

static wh_status check_depth(wh_type *node) {
    int depth = 0;
    for (size_t i = 0; i < node->nchildren; i++)
        if (node->children[i]->depth > depth)
            depth = node->children[i]->depth;
    if (depth >= WHI_TYPE_DEPTH)
        return whi_type_fail(WH_ELIMIT, "%s: the type would nest deeper than %d levels",
                             whi_type_maker(node->kind), WHI_TYPE_DEPTH);
    node->depth = (uint8_t)(depth + 1);
    return WH_OK;
}

wh_status whi_type_seal(wh_type *node, wh_type **type) {
    wh_status status = check_children(node);
    if (status == WH_OK)
        status = whi_type_args_check(node);
    if (status == WH_OK)
        status = check_depth(node);
    if (status == WH_OK)
        status = whi_type_bounds_set(node);
    if (status != WH_OK) {
        whi_free(node);
        return status;
    }
    for (size_t i = 0; i < node->nchildren; i++)
        (void)wh_type_retain(node->children[i]);
    atomic_store_explicit(&node->refs, 1, memory_order_relaxed);
    node->magic = WHI_TYPE_MAGIC;
    *type = node;
    return WH_OK;
}

wh_type *wh_type_retain(wh_type *type) {
    if (type && type->kind != WH_KIND_BASIC)
        atomic_fetch_add_explicit(&type->refs, 1, memory_order_relaxed);
    return type;
}

void wh_type_release(wh_type *type) {
    if (!type || type->kind == WH_KIND_BASIC)
        return;
    // The owner of the only reference races with nobody, and most types are never shared.
    if (atomic_load_explicit(&type->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&type->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int mode = 0; mode < WHI_MODES; mode++)
        whi_plan_free(atomic_load_explicit(&type->plan[mode], memory_order_relaxed));
    for (size_t i = 0; i < type->nchildren; i++)
        wh_type_release(type->children[i]);
    type->magic = 0;
    whi_free(type);
}

wh_status wh_type_commit(const wh_type *type) {
    wh_status status = whi_type_check(type, "wh_type_commit", "type");
    const whi_plan *plan;
    return status == WH_OK ? whi_plan_get(type, WHI_BYTES, &plan) : status;
}

int64_t wh_type_size(const wh_type *type) {
    return whi_type_check(type, "wh_type_size", "type") == WH_OK ? type->at.size : -1;
}

wh_status wh_type_get_info(const wh_type *type, wh_type_info *info) {
    wh_status status = whi_type_check(type, "wh_type_get_info", "type");
    if (status != WH_OK)
        return status;
    if (!info)
        return whi_type_fail(WH_EINVAL, "wh_type_get_info: info is NULL");
    int64_t runs;
    status = wh_iov_len(1, type, &runs);
    if (status != WH_OK)
        return status;
    const whi_bounds *at = &type->at;
    wh_type_info known = {
        .packed_size = at->size,
        .lb = at->lb,
        .extent = at->ub - at->lb,
        .true_lb = at->true_lb,
        .true_extent = at->true_ub - at->true_lb,
        .basics = at->basics,
        .runs = runs,
        .align = at->align,
    };
    if (whi_opts_give(info, &known, sizeof(known), "wh_type_info") == WH_OK)
        return WH_OK;
    return whi_type_fail(WH_EINVAL,
                         "wh_type_get_info: info->size is %zu; set it to sizeof(wh_type_info)",
                         info->size);
}

wh_status wh_type_get_envelope(const wh_type *type, wh_type_kind *kind, size_t *nargs,
                               size_t *nchildren) {
    wh_status status = whi_type_check(type, "wh_type_get_envelope", "type");
    if (status != WH_OK)
        return status;
    if (!kind || !nargs || !nchildren)
        return whi_type_fail(WH_EINVAL, "wh_type_get_envelope: %s is NULL",
                             !kind    ? "kind"
                             : !nargs ? "nargs"
                                      : "nchildren");
    *kind = (wh_type_kind)type->kind;
    *nargs = type->nargs;
    *nchildren = type->nchildren;
    return WH_OK;
}

wh_status wh_type_get_contents(const wh_type *type, size_t max_args, int64_t *args,
                               size_t max_children, const wh_type **children) {
    wh_status status = whi_type_check(type, "wh_type_get_contents", "type");
    if (status != WH_OK)
        return status;
    if (max_args < type->nargs || max_children < type->nchildren)
        return whi_type_fail(WH_EINVAL,
                             "wh_type_get_contents: max_args %zu, max_children %zu, but the type "
                             "has %zu and %zu",
                             max_args, max_children, type->nargs, type->nchildren);
    if ((type->nargs && !args) || (type->nchildren && !children))
        return whi_type_fail(WH_EINVAL, "wh_type_get_contents: %s is NULL",
                             type->nargs && !args ? "args" : "children");
    if (type->nargs)
        memcpy(args, type->args, type->nargs * sizeof(*args));
    for (size_t i = 0; i < type->nchildren; i++)
        children[i] = type->children[i];
    return WH_OK;
}
