// SPDX-License-Identifier: BSD-3-Clause
//
// Why calls of chares are refused.
#include <stdarg.h>
#include <stdio.h>

#include "rt/chare/why.h"

__attribute__((format(printf, 1, 2))) static whi_text say(const char *format, ...) {
    whi_text text;
    va_list args;
    va_start(args, format);
    vsnprintf(text.text, sizeof(text.text), format, args);
    va_end(args);
    return text;
}

static const whi_text nothing = {""};

// is_mistake says whether a status is the caller's doing, and no want of memory, loss or end.
static bool is_mistake(wh_status status) {
    return status == WH_EINVAL || status == WH_ENOTFOUND || status == WH_ENOTSUP;
}

// ---- What is registered.

wh_status whi_refuse_unregistered(const wh_pe *pe, const char *call, wh_status status) {
    return whi_refuse(status, "E-CHARE-02",
                      "%s: PE %d has registered nothing yet, so there are no chares: register "
                      "classes on all PEs, first of all in the main function",
                      call, pe ? pe->number : -1);
}

wh_status whi_refuse_name(const whi_chares *c, const char *call, whi_named_kind kind,
                          const char *name) {
    static const char *const kinds[] = {"class", "map", "function", "reducer", "balancer"};
    return whi_refuse(
        WH_ENOTFOUND, "E-CHARE-04",
        "%s: PE %d knows no %s \"%s\"; there are: %s. Register it on all PEs, first of "
        "all in the main function",
        call, c->pe->number, kinds[kind], name, whi_say_names(c, kind).text);
}

// ---- Proxies.

whi_text whi_why_proxy(const wh_pe *pe, const wh_proxy *proxy) {
    const whi_chares *c = whi_chares_get(pe);
    const whi_collection *in = c ? whi_hash_get(&c->collections, proxy->collection + 1ull) : NULL;
    bool single = proxy->collection == WHI_SINGLES_ID;
    if (single && !proxy->dims)
        return say("the proxy is zero: take the one that wh_chare_create, wh_group_create or "
                   "wh_array_create has returned");
    if (proxy->dims > WH_CHARE_DIMS_MAX || (!single && proxy->collection < (unsigned)pe->pes))
        return say("the proxy names no collection (number %u, %u dimensions): its memory holds "
                   "something else",
                   proxy->collection, proxy->dims);
    if (single && (proxy->dims != 3 || proxy->index[0] < 0 || proxy->index[0] >= pe->pes))
        return say(
            "the proxy names no single chare: it has %u dimensions and begins with PE %d; take "
            "the one that wh_chare_create has returned",
            proxy->dims, proxy->index[0]);
    if (in && in->ended)
        return say("%s has been destroyed", whi_say_collection(c, proxy->collection).text);
    if (in && in->known && proxy->dims && proxy->dims != in->def.dims)
        return say("the index has %u dimensions, and %s has %u: see wh_proxy_at", proxy->dims,
                   whi_say_collection(c, proxy->collection).text, in->def.dims);
    return nothing;
}

wh_status whi_refuse_proxy(const wh_pe *pe, const char *call, const wh_proxy *proxy,
                           wh_status status) {
    if (!is_mistake(status))
        return status;
    if (!whi_chares_get(pe))
        return whi_refuse_unregistered(pe, call, status);
    whi_text why = whi_why_proxy(pe, proxy);
    return whi_refuse(status, "E-CHARE-06", "%s: %s", call,
                      *why.text ? why.text : wh_status_text(status));
}

// ---- Calls.

static whi_text why_buffers(const wh_send_opts *opts) {
    if (!opts->buffers)
        return say("buffers is NULL, and count is %zu", opts->count);
    if (opts->count > WHI_CALL_BUFFERS_MAX)
        return say("%zu buffers are too many: a call has at most %d", opts->count,
                   WHI_CALL_BUFFERS_MAX);
    for (size_t i = 0; i < opts->count; i++) {
        const wh_frame *frame =
            (const wh_frame *)((const char *)opts->buffers + i * opts->frame_size);
        if (frame->size && !frame->data)
            return say("buffer %zu has no data (NULL), and %zu bytes or elements", i, frame->size);
    }
    return say(
        "its buffers cannot be sent: say in the frames what memory they are, and of which type");
}

whi_text whi_why_send(const wh_pe *pe, const wh_proxy *proxy, unsigned entry, const void *args,
                      size_t size, const wh_send_opts *opts, wh_status status) {
    const whi_chares *c = whi_chares_get(pe);
    if (!is_mistake(status))
        return nothing;
    if (!c)
        return say("PE %d has registered nothing yet: register classes first of all in the main "
                   "function",
                   pe->number);
    whi_text why = whi_why_proxy(pe, proxy), to = whi_say_proxy(c, proxy);
    if (*why.text)
        return why;
    if (entry >= WHI_ENTRY_MAX)
        return say("entry %u of %s: entries are numbered from 0, as they stand in their class",
                   entry, to.text);
    whi_text what = whi_say_entry(c, proxy, entry);
    if (size && !args)
        return say("args is NULL for %s of %s, but has %zu bytes", what.text, to.text, size);
    if (!proxy->dims && opts && (opts->priority || opts->count))
        return say("%s of %s, all elements: such a call has no %s; send to the elements one by one",
                   what.text, to.text, opts->count ? "buffers" : "priority");
    if (opts && opts->done && !opts->count)
        return say("%s of %s: done is set, but there are no buffers that it could tell of",
                   what.text, to.text);
    return opts && opts->count ? why_buffers(opts) : say("%s", wh_status_text(status));
}

whi_text whi_why_callback(const wh_pe *pe, const wh_callback *callback, const void *value,
                          size_t size, wh_status status) {
    if (!is_mistake(status))
        return nothing;
    if (size && !value)
        return say("the value is NULL, but has %zu bytes", size);
    int at = callback->kind == WH_CALLBACK_FUNCTION ? callback->pe : callback->future.pe;
    switch (callback->kind) {
    case WH_CALLBACK_SEND:
        return whi_why_send(pe, &callback->proxy, callback->entry, value, size, NULL, status);
    case WH_CALLBACK_FUNCTION:
    case WH_CALLBACK_FUTURE:
        return say("its %s is of PE %d, and the job has PEs 0 to %d",
                   callback->kind == WH_CALLBACK_FUNCTION ? "function" : "future", at, pe->pes - 1);
    default:
        return say("its kind is %d, which is none: set one of WH_CALLBACK_*", (int)callback->kind);
    }
}

// ---- Entries that are waited for.

wh_status whi_refuse_entry(const whi_element *element, const char *call, unsigned entry) {
    const whi_chares *c = whi_chares_get(element->pub.pe);
    const wh_class *cls = element->cls;
    whi_text self = whi_say_proxy(c, &element->pub.proxy);
    if (entry >= cls->entry_count)
        return whi_refuse(WH_EINVAL, "E-CHARE-07",
                          "%s: %s asks for entry %u, and class %s has %zu: %s", call, self.text,
                          entry, cls->name, cls->entry_count, whi_say_entries(cls).text);
    return whi_refuse(WH_EINVAL, "E-CHARE-07",
                      "%s: %s asks for entry %s, which runs when it is called: give it the flag "
                      "WH_ENTRY_WHEN in class %s",
                      call, self.text, cls->entries[entry].name, cls->name);
}

wh_status whi_refuse_wait(const wh_pe *pe, const char *call) {
    const whi_chares *c = whi_chares_get(pe);
    const whi_element *element = c ? c->current : NULL;
    whi_text self = element ? whi_say_proxy(c, &element->pub.proxy) : nothing;
    return whi_refuse(WH_EINVAL, "E-CHARE-07",
                      "%s: what runs now%s%s cannot wait: wait in an entry with the flag "
                      "WH_ENTRY_THREADED, in the main function, or in a thread of wh_pe_spawn",
                      call, element ? ", an entry of " : "", self.text);
}

// ---- Arrays.

static whi_text why_flags(const wh_array_opts *opts) {
    const uint32_t both = WH_ARRAY_INSERTING | WH_ARRAY_ON_DEMAND;
    if (opts->flags & ~both || opts->reserved)
        return say("flags is 0x%x and reserved %u: flags are WH_ARRAY_INSERTING or "
                   "WH_ARRAY_ON_DEMAND, and reserved is 0",
                   opts->flags, opts->reserved);
    if (opts->flags == both)
        return say(
            "flags has both WH_ARRAY_INSERTING and WH_ARRAY_ON_DEMAND: elements are inserted, or "
            "made on demand");
    if (opts->balance && opts->flags & WH_ARRAY_ON_DEMAND)
        return say(
            "balance is \"%s\" and flags WH_ARRAY_ON_DEMAND: such an array has no sync points",
            opts->balance);
    if (!opts->balance && opts->resume)
        return say(
            "resume is entry %u, but balance is not set: name a strategy, such as \"greedy\"",
            opts->resume);
    if (opts->resume >= WHI_ENTRY_MAX)
        return say("resume is %u, which is no entry", opts->resume);
    return nothing;
}

whi_text whi_why_array(const wh_array_opts *opts) {
    int64_t all = 1;
    if (!opts)
        return say(
            "opts is NULL: an array needs its dims, WH_ARRAY_OPTS(.dims = ..., .shape = {...})");
    if (opts->dims < 1 || opts->dims > WH_CHARE_DIMS_MAX)
        return say("dims is %d, and is to be 1 to %d", opts->dims, WH_CHARE_DIMS_MAX);
    for (int i = 0; i < WH_CHARE_DIMS_MAX; i++) {
        int32_t count = opts->shape[i];
        if (i >= opts->dims && count)
            return say("dims is %d, and shape[%d] is %d: set dims to the number of sizes in shape",
                       opts->dims, i, count);
        if (count < 0)
            return say("shape[%d] is %d, and is to be 0 or more", i, count);
        if (i < opts->dims && __builtin_mul_overflow(all, count, &all))
            return say("shape has more elements than can be counted: %d in dimension %d", count, i);
    }
    return why_flags(opts);
}

// ---- Reductions.

static const char *reducer_name(wh_reducer reducer) {
    static const char *const names[] = {"nothing", "an operation", "concatenation", "a set",
                                        "a function"};
    return (unsigned)reducer < sizeof(names) / sizeof(*names) ? names[reducer] : "no reducer";
}

static const char *op_name(wh_reduce op) {
    static const char *const names[WH_REDUCES] = {"MAX",    "MIN",    "SUM",     "PROD", "LAND",
                                                  "BAND",   "LOR",    "BOR",     "LXOR", "BXOR",
                                                  "MINLOC", "MAXLOC", "REPLACE", "NO_OP"};
    return (unsigned)op < WH_REDUCES ? names[op] : "no operation";
}

static whi_text say_reduction(const whi_chares *c, const whi_partial_part *part) {
    const whi_named *named = part->reducer == WH_REDUCER_CUSTOM
                                 ? whi_named_find(c, part->function, WHI_NAMED_REDUCER)
                                 : NULL;
    if (part->reducer == WH_REDUCER_OP)
        return say("%s of %s", op_name(part->op), whi_say_type(part->type).text);
    if (part->reducer == WH_REDUCER_CUSTOM)
        return say("the function %s", named ? named->name : "(not registered here)");
    return say("%s", reducer_name(part->reducer));
}

whi_text whi_why_contribution(const whi_chares *c, const wh_contribution *parts, size_t count,
                              const wh_callback *callback) {
    if (!callback || callback->kind == WH_CALLBACK_NONE)
        return say("there is no callback, to which the value would go");
    if (count && !parts)
        return say("parts is NULL, and count is %zu", count);
    for (size_t i = 0; i < count; i++) {
        const wh_contribution *p = &parts[i];
        const whi_partial_part part = {
            .reducer = p->reducer, .op = p->op, .type = p->type, .function = p->function};
        whi_text what = say_reduction(c, &part);
        if ((unsigned)p->reducer > WH_REDUCER_CUSTOM || p->reserved)
            return say("value %zu: reducer is %d and reserved %u: set one of WH_REDUCER_*, and 0",
                       i, (int)p->reducer, p->reserved);
        if (p->reducer == WH_REDUCER_NOTHING && p->count)
            return say(
                "value %zu has count %zu, and its reducer is WH_REDUCER_NOTHING: set a reducer, "
                "such as WH_REDUCER_OP",
                i, p->count);
        if (p->reducer != WH_REDUCER_OP && (p->op || p->type))
            return say("value %zu names %s of %s, and its reducer is %s: set WH_REDUCER_OP", i,
                       op_name(p->op), whi_say_type(p->type).text, reducer_name(p->reducer));
        if ((p->reducer == WH_REDUCER_CUSTOM) != (p->function != 0))
            return say("value %zu: function and WH_REDUCER_CUSTOM are set together: see "
                       "wh_reducer_id",
                       i);
        if (p->reducer == WH_REDUCER_OP &&
            ((unsigned)p->op >= WH_REDUCE_REPLACE || !wh_type_basic(p->type) ||
             !wh_reduce_defined(p->op, wh_type_basic(p->type))))
            return say("value %zu: %s is not defined", i, what.text);
        if (p->count && !p->data)
            return say("value %zu, %s: data is NULL, and count is %zu", i, what.text, p->count);
    }
    return nothing;
}

wh_status whi_refuse_reduction(const wh_chare *self, const char *call, wh_status status) {
    const whi_element *element = (const whi_element *)self;
    const whi_collection *in = element->collection;
    const char *why = in->def.kind == WHI_SINGLES ? "it is a single chare"
                      : in->def.flags & WH_ARRAY_ON_DEMAND
                          ? "its array makes elements on demand, so nobody knows when all are there"
                          : "it was inserted behind the others: make the array with "
                            "WH_ARRAY_INSERTING, and insert before wh_array_done";
    return whi_refuse(status, "E-CHARE-10", "%s: %s takes no part in reductions: %s", call,
                      whi_say_proxy(whi_chares_get(self->pe), &self->proxy).text, why);
}

whi_text whi_why_differ(const whi_chares *c, const whi_partial *one, const whi_partial *other) {
    wh_callback a, b;
    if (memcmp(one->callback, other->callback, sizeof(one->callback)) != 0 &&
        wh_callback_decode(one->callback, WH_CALLBACK_SIZE, &a) == WH_OK &&
        wh_callback_decode(other->callback, WH_CALLBACK_SIZE, &b) == WH_OK)
        return say("%.150s, and %.150s", whi_say_callback(c, &a).text,
                   whi_say_callback(c, &b).text);
    if (one->count != other->count)
        return say("%zu, and %zu", one->count, other->count);
    for (size_t i = 0; i < one->count; i++) {
        const whi_partial_part *x = &one->parts[i], *y = &other->parts[i];
        if (x->reducer != y->reducer || x->op != y->op || x->type != y->type ||
            x->function != y->function)
            return say("%.150s, and %.150s", say_reduction(c, x).text, say_reduction(c, y).text);
        if (x->size != y->size && x->reducer != WH_REDUCER_CONCAT && x->reducer != WH_REDUCER_SET)
            return say("%zu, and %zu bytes of %s", x->size, y->size, say_reduction(c, x).text);
    }
    return nothing;
}

wh_status whi_refuse_section(const char *call, const wh_section *section) {
    return whi_refuse(WH_EINVAL, "E-CHARE-17",
                      "%s: the section is none (made by PE %d, of collection %u): take what "
                      "wh_section_create has returned",
                      call, section->pe, section->collection);
}
