// SPDX-License-Identifier: BSD-3-Clause
//
// Proxies, and what is sent to them.
#include "base/opts.h"
#include "rt/chare/why.h"

enum {
    INLINE_DEPTH_MAX = 64,  // inline calls within each other: beyond, they are messages
    ARGS_ALIGN = 16,        // of all arguments
};

// ---- Proxies.

wh_proxy wh_proxy_at(wh_proxy collection, int dims, const int32_t *index) {
    if (dims < 1 || dims > WH_CHARE_DIMS_MAX)
        return (wh_proxy){.collection = collection.collection};
    whi_place_key key;
    whi_place_key_set(&key, collection.collection, index, dims);
    return whi_proxy_of(&key);
}

// ---- Sends.

// check finds the collection of a proxy, as far as it is known here.
static wh_status check(wh_pe *pe, const wh_proxy *proxy, whi_chares **c, whi_collection **in) {
    if (!(*c = whi_chares_get(pe)))
        return WH_ENOTFOUND;
    bool single = proxy->collection == WHI_SINGLES_ID;
    if ((!single && proxy->collection < (unsigned)pe->pes) || proxy->dims > WH_CHARE_DIMS_MAX ||
        (single && (proxy->dims != 3 || proxy->index[0] < 0 || proxy->index[0] >= pe->pes)))
        return WH_EINVAL;
    if (!(*in = whi_collection_find(*c, proxy->collection)))
        return WH_ENOMEM;
    if ((*in)->ended)
        return WH_ENOTFOUND;
    return (*in)->known && proxy->dims && proxy->dims != (*in)->def.dims ? WH_EINVAL : WH_OK;
}

static wh_status check_opts(const wh_send_opts *opts, size_t size, const void *args, bool all) {
    if (size && !args)
        return WH_EINVAL;
    if (!opts)
        return WH_OK;
    if (opts->done && !opts->count)
        return WH_EINVAL;
    return all && (opts->priority || opts->count) ? WH_ENOTSUP : WH_OK;
}

static wh_status send_to_all(whi_chares *c, const wh_proxy *proxy, unsigned entry, const void *args,
                             size_t size, const wh_send_opts *opts) {
    if (proxy->collection == WHI_SINGLES_ID)
        return WH_EINVAL;
    whi_head head = {.kind = WHI_HEAD_BROADCAST,
                     .broadcast = {.collection = proxy->collection,
                                   .what = WHI_BROADCAST_CALL,
                                   .entry = (uint16_t)entry,
                                   .ref = opts ? opts->ref : 0}};
    return whi_broadcast(c, &head, args, size);
}

// may_be_inline says whether an entry of an element may run within its send; of a single chare the class is known where it is.
static bool may_be_inline(const whi_chares *c, const whi_collection *in, const whi_place_key *key,
                          unsigned entry) {
    const wh_class *cls = in->cls ? &in->cls->cls : NULL;
    if (!cls) {
        const whi_element *element = whi_places_find(c->places, key);
        cls = element ? element->cls : NULL;
    }
    if (!cls || entry >= cls->entry_count || c->depth >= INLINE_DEPTH_MAX)
        return false;
    unsigned flags = cls->entries[entry].flags;
    return flags & WH_ENTRY_INLINE && !(flags & (WH_ENTRY_THREADED | WH_ENTRY_WHEN));
}

// run_inline runs an entry within its send, without a call, where its element is here, idle, and has never moved.
static bool run_inline(whi_chares *c, const whi_place_key *key, unsigned entry, const void *args,
                       size_t size, const wh_send_opts *opts) {
    whi_element *element = whi_places_find_unmoved(c->places, key);
    if (!element || element->running || element->queued)
        return false;
    const wh_entry *e = &element->cls->entries[entry];
    wh_call call = {.struct_size = sizeof(call),
                    .args = args,
                    .size = size,
                    .ref = opts ? opts->ref : 0,
                    .source = c->pe->number};
    whi_call *copy = NULL;
    if (size && (uintptr_t)args % ARGS_ALIGN != 0) {
        if (!(copy = whi_call_new(c, key, entry, size)))
            return false;
        call.args = memcpy(copy->msg->pub.data, args, size);
    }
    c->depth++;
    whi_element_run(c, element, e->fn, &call);
    c->depth--;
    if (copy)
        whi_call_free(c, copy);
    return true;
}

wh_status whi_chare_send(wh_pe *pe, const wh_proxy *proxy, unsigned entry, const void *args,
                         size_t size, const wh_send_opts *opts) {
    whi_chares *c;
    whi_collection *in;
    wh_status st = entry < WHI_ENTRY_MAX ? check(pe, proxy, &c, &in) : WH_EINVAL;
    if (st == WH_OK)
        st = check_opts(opts, size, args, !proxy->dims);
    if (st != WH_OK)
        return st;
    if (!proxy->dims)
        return send_to_all(c, proxy, entry, args, size, opts);
    whi_place_key key;
    whi_place_key_set(&key, proxy->collection, proxy->index, proxy->dims);
    bool buffers = opts && opts->count;
    bool at_once = in->known && !buffers && may_be_inline(c, in, &key, entry);
    if (at_once && run_inline(c, &key, entry, args, size, opts))
        return WH_OK;
    if (!at_once && whi_call_direct(c, in, &key, entry, args, size, opts, &st))
        return st;
    whi_call *call = NULL;
    if (buffers)
        st = whi_buffers_call(c, &key, entry, args, size, opts, &call);
    else if (!(call = size >= WHI_MSG_LENT_MIN && !at_once
                          ? whi_call_lend(c, &key, entry, args, size)
                          : whi_call_new(c, &key, entry, size)))
        st = WH_ENOMEM;
    else if (size && !call->msg->lent)
        memcpy(call->msg->pub.data, args, size);
    if (st != WH_OK)
        return st;
    if (opts) {
        call->ref = opts->ref;
        call->msg->pub.priority = opts->priority;
    }
    return at_once ? whi_call_send_at_once(c, call) : whi_call_send(c, call);
}

WHI_COLD static wh_status refuse_send(const wh_pe *pe, const wh_proxy *proxy, unsigned entry,
                                      const void *args, size_t size, const wh_send_opts *opts,
                                      wh_status st) {
    whi_text why = whi_why_send(pe, proxy, entry, args, size, opts, st);
    return *why.text ? whi_refuse(st, whi_chares_get(pe) ? "E-CHARE-06" : "E-CHARE-02",
                                  "wh_chare_send: %s", why.text)
                     : st;
}

wh_status wh_chare_send(wh_pe *pe, wh_proxy proxy, unsigned entry, const void *args, size_t size,
                        const wh_send_opts *opts) {
    WHI_OPTS(wh_send_opts, opts);
    wh_status st = whi_chare_send(pe, &proxy, entry, args, size, opts);
    return __builtin_expect(st == WH_OK, 1) ? st
                                            : refuse_send(pe, &proxy, entry, args, size, opts, st);
}

wh_status wh_chare_destroy(wh_pe *pe, wh_proxy proxy) {
    whi_chares *c;
    whi_collection *in;
    wh_status st = check(pe, &proxy, &c, &in);
    if (st != WH_OK)
        return whi_refuse_proxy(pe, "wh_chare_destroy", &proxy, st);
    whi_head head = {.kind = WHI_HEAD_BROADCAST,
                     .broadcast = {.collection = proxy.collection, .what = WHI_BROADCAST_DESTROY}};
    if (!proxy.dims)
        return whi_broadcast(c, &head, NULL, 0);
    whi_place_key key;
    st = whi_place_key_make(proxy.collection, proxy.index, proxy.dims, &key);
    if (st != WH_OK)
        return st;
    whi_element *element = in->known ? whi_places_find(c->places, &key) : NULL;
    if (element && (c->current == element || whi_when_is_here(element))) {
        whi_element_destroy(c, element);  // it is one of its own entries that asks
        return WH_OK;
    }
    whi_call *call = whi_call_new(c, &key, WHI_ENTRY_DESTROY, 0);
    return call ? whi_call_send(c, call) : WH_ENOMEM;
}

wh_status wh_array_done(wh_pe *pe, wh_proxy array) {
    whi_chares *c;
    whi_collection *in;
    wh_status st = check(pe, &array, &c, &in);
    if (st == WH_OK && array.collection == WHI_SINGLES_ID)
        return whi_refuse(WH_EINVAL, "E-CHARE-06", "wh_array_done: %s: give the proxy of an array",
                          whi_say_proxy(c, &array).text);
    if (st != WH_OK)
        return whi_refuse_proxy(pe, "wh_array_done", &array, st);
    whi_head head = {.kind = WHI_HEAD_BROADCAST,
                     .broadcast = {.collection = array.collection, .what = WHI_BROADCAST_DONE}};
    return whi_broadcast(c, &head, NULL, 0);
}
