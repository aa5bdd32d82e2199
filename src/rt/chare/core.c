// SPDX-License-Identifier: BSD-3-Clause
//
// What all parts of chares use: ids of names, messages that are no calls, and errors.
#include <stdarg.h>
#include <stdio.h>

#include "rt/chare/chares.h"

whi_chares *whi_chares_get(const wh_pe *pe) {
    return pe->floors[WHI_FLOOR_CHARE].state;
}

// ---- Names.

// The hash is FNV-1a: the same on all machines, unlike whi_hash_bytes.
uint64_t whi_named_id(whi_named_kind kind, const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    hash = (hash ^ (uint64_t)kind) * 0x100000001b3u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return hash ? hash : 1;
}

whi_named *whi_named_find(const whi_chares *c, uint64_t id, whi_named_kind kind) {
    whi_named *named = whi_hash_get(&c->named, id);
    return named && named->kind == kind ? named : NULL;
}

// Of the library, by whi_balancer_kind.
static const char *const balancers[WHI_BALANCER_CUSTOM] = {"none", "greedy", "refine",
                                                           "distributed"};

whi_balancer_kind whi_balancer_kind_of(uint64_t id) {
    int kind = 0;
    while (kind < WHI_BALANCER_CUSTOM && id != whi_named_id(WHI_NAMED_BALANCER, balancers[kind]))
        kind++;
    return (whi_balancer_kind)kind;
}

bool whi_balancer_is_known(const whi_chares *c, uint64_t id) {
    return !id || whi_balancer_kind_of(id) != WHI_BALANCER_CUSTOM ||
           whi_named_find(c, id, WHI_NAMED_BALANCER);
}

// ---- Messages.

wh_status whi_chares_tell(whi_chares *c, int dest, const whi_head *head, const void *data,
                          size_t size) {
    uint8_t bytes[WHI_HEAD_MAX];
    size_t used = whi_head_encode(head, bytes);
    return whi_pe_send(c->pe, dest, WHI_PE_CHARES, bytes, used, data, size, 0);
}

wh_status whi_tree_tell(whi_chares *c, int root, const whi_head *head, const void *data,
                        size_t size) {
    int pes = c->pe->pes, at = (c->pe->number - root + pes) % pes;
    int first = whi_tree_first_child(at), count = whi_tree_children(at, pes);
    wh_status st = WH_OK;
    for (int i = 0; st == WH_OK && i < count; i++)
        st = whi_chares_tell(c, (first + i + root) % pes, head, data, size);
    return st;
}

// ---- Errors.

void whi_chares_error(whi_chares *c, const wh_proxy *proxy, const char *format, ...) {
    char sentence[480];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    if (c->closing || c->pe->exit.state >= WHI_END_STOPPED)
        return;
    if (c->error)
        c->error(c->pe, proxy, sentence, c->error_arg);
    else
        whi_pe_fail(c->pe, "%s", sentence);
}
