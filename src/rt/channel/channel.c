// SPDX-License-Identifier: BSD-3-Clause
//
// Channels of chares: what an element's end is called, how openings travel, and what happens when an element ends.
//
// Openings are calls of an entry that no class has, so they wait for the element, follow it, and are rejected if there is none.
#include "base/alloc.h"
#include "base/opts.h"
#include "rt/channel/channels.h"
#include "rt/chare/why.h"

enum { WINDOW = 64 };

static whi_channel_name name_of(const wh_proxy *proxy) {
    whi_channel_name name;
    wh_proxy_encode(proxy, name.bytes);
    return name;
}

static bool key_of(const whi_channel_name *name, whi_place_key *key) {
    wh_proxy proxy;
    return wh_proxy_decode(name->bytes, sizeof(name->bytes), &proxy) == WH_OK &&
           whi_place_key_make(proxy.collection, proxy.index, proxy.dims, key) == WH_OK;
}

// ---- What channels need of chares.

static wh_status carry(void *arg, const whi_channel_name *to, const void *opening, size_t size) {
    whi_chares *c = whi_chares_of(arg);
    whi_place_key key;
    if (!c)
        return WH_ENOMEM;
    if (!key_of(to, &key))
        return WH_EINVAL;
    whi_call *call = whi_call_new(c, &key, WHI_ENTRY_ABOVE, size);
    if (!call)
        return WH_ENOMEM;
    memcpy(call->msg->pub.data, opening, size);
    return whi_call_send(c, call);
}

static int home(void *arg, const whi_channel_name *element) {
    whi_chares *c = whi_chares_of(arg);
    whi_place_key key;
    whi_collection *in = c && key_of(element, &key) ? whi_collection_find(c, key.collection) : NULL;
    return in && in->known ? (int)whi_collection_home(c, &key) : -1;
}

static void ready(void *arg, const whi_channel_name *element) {
    whi_chares *c = whi_chares_of(arg);
    whi_place_key key;
    if (c && key_of(element, &key))
        whi_move_go(c, &key);
}

static void lost(void *state, int pe) {
    whi_channels_lost(state, pe);
}

static void destroy(void *state) {
    whi_channels_destroy(state);
}

// channels_of returns the channels of a PE, made when there are none yet.
static whi_channels *channels_of(wh_pe *pe) {
    whi_floor *floor = &pe->floors[WHI_FLOOR_CHANNEL];
    whi_channels *channels;
    if (floor->state)
        return floor->state;
    whi_channel_carrier carrier = {.open = carry, .home = home, .ready = ready, .arg = pe};
    if (whi_channels_create(pe, &carrier, &channels) != WH_OK)
        return NULL;
    *floor = (whi_floor){.state = channels,
                         .destroy = destroy,
                         .lost = lost,
                         .dump = whi_channels_dump,
                         .awaited = whi_channels_awaited};
    return channels;
}

// ---- What chares tell.

static void on_message(wh_pe *pe, const whi_place_key *element, bool alive, int source,
                       const void *data, size_t size) {
    wh_proxy proxy = whi_proxy_of(element);
    whi_channel_name self = name_of(&proxy);
    whi_channels *channels = channels_of(pe);
    wh_status st = channels ? whi_channels_arrive(channels, &self, alive, data, size) : WH_ENOMEM;
    if (st != WH_OK)
        whi_pe_fail(pe, "a channel that PE %d has opened cannot be taken: %s", source,
                    wh_status_text(st));
}

static void ends(wh_pe *pe, const whi_place_key *element, bool over) {
    whi_channels *channels = pe->floors[WHI_FLOOR_CHANNEL].state;
    if (!channels || !whi_hash_count(&channels->elements))
        return;
    wh_proxy proxy = whi_proxy_of(element);
    whi_channel_name self = name_of(&proxy);
    whi_channels_element_ends(channels, &self, over);
}

static void on_ending(wh_pe *pe, const whi_place_key *element) {
    ends(pe, element, false);
}

static void on_ended(wh_pe *pe, const whi_place_key *element) {
    ends(pe, element, true);
}

// some returns the channels of a PE, if it has any, and what an element is called.
static whi_channels *some(wh_pe *pe, const whi_place_key *element, whi_channel_name *self) {
    whi_channels *channels = pe->floors[WHI_FLOOR_CHANNEL].state;
    wh_proxy proxy = whi_proxy_of(element);
    *self = name_of(&proxy);
    return channels && whi_hash_count(&channels->elements) ? channels : NULL;
}

static const char *holds(wh_pe *pe, const whi_place_key *element) {
    whi_channel_name self;
    const whi_channels *channels = some(pe, element, &self);
    return channels ? whi_channels_hindrance(channels, &self) : NULL;
}

static bool has(wh_pe *pe, const whi_place_key *element) {
    whi_channel_name self;
    const whi_channels *channels = some(pe, element, &self);
    return channels && whi_channels_has(channels, &self);
}

static void going(wh_pe *pe, const whi_place_key *element, bool is) {
    whi_channel_name self;
    whi_channels *channels = some(pe, element, &self);
    if (channels)
        whi_channels_going(channels, &self, is);
}

static bool leave(wh_pe *pe, const whi_place_key *element) {
    whi_channel_name self;
    whi_channels *channels = some(pe, element, &self);
    return !channels || whi_channels_leave(channels, &self);
}

static wh_status pack(wh_pe *pe, const whi_place_key *element, void **bytes, size_t *size) {
    whi_channel_name self;
    whi_channels *channels = some(pe, element, &self);
    *bytes = NULL;
    *size = 0;
    return channels ? whi_channels_pack(channels, &self, bytes, size) : WH_OK;
}

static void left(wh_pe *pe, const whi_place_key *element) {
    whi_channel_name self;
    whi_channels *channels = some(pe, element, &self);
    if (channels)
        whi_channels_left(channels, &self);
}

static wh_status unpack(wh_pe *pe, const whi_place_key *element, const void *bytes, size_t size) {
    wh_proxy proxy = whi_proxy_of(element);
    whi_channel_name self = name_of(&proxy);
    whi_channels *channels = channels_of(pe);
    return channels ? whi_channels_unpack(channels, &self, bytes, size) : WH_ENOMEM;
}

static const whi_chare_above above = {.message = on_message,
                                      .ending = on_ending,
                                      .ended = on_ended,
                                      .has = has,
                                      .holds = holds,
                                      .going = going,
                                      .leave = leave,
                                      .pack = pack,
                                      .left = left,
                                      .unpack = unpack};

void whi_channels_attach(wh_pe *pe) {
    pe->above = &above;
}

// ---- For users.

// is_misnamed says whether a collection has no index like this one.  Of one that has ended the operations tell.
static bool is_misnamed(const whi_chares *c, const wh_proxy *peer) {
    const whi_collection *in = c ? whi_hash_get(&c->collections, peer->collection + 1ull) : NULL;
    return in && in->known && !in->ended && in->def.dims != peer->dims;
}

static bool has_wrong_flags(const wh_channel_opts *opts) {
    return opts && opts->flags && (opts->flags != WH_CHANNEL_WITHDRAW || !opts->id);
}

WHI_COLD static wh_status refuse_open(const wh_chare *self, const wh_proxy *peer,
                                      const wh_channel_opts *opts, bool taken) {
    if (!self)
        return whi_refuse(WH_EINVAL, "E-CHAN-01", "wh_channel_open: self is NULL");
    const whi_chares *c = whi_chares_get(self->pe);
    whi_text own = whi_say_proxy(c, &self->proxy), why = whi_why_proxy(self->pe, peer);
    if (*why.text)
        return whi_refuse(WH_EINVAL, "E-CHAN-01", "wh_channel_open: %s, its peer: %s", own.text,
                          why.text);
    if (!peer->dims)
        return whi_refuse(WH_EINVAL, "E-CHAN-01",
                          "wh_channel_open: %s, its peer: %s: a channel leads to one element, see "
                          "wh_proxy_at",
                          own.text, whi_say_proxy(c, peer).text);
    if (opts && opts->window > WHI_CHANNEL_WINDOW_MAX)
        return whi_refuse(WH_EINVAL, "E-CHAN-01", "wh_channel_open: %s: window is %u, at most %d",
                          own.text, opts->window, WHI_CHANNEL_WINDOW_MAX);
    if (has_wrong_flags(opts))
        return whi_refuse(
            WH_EINVAL, "E-CHAN-01",
            "wh_channel_open: %s: flags is %#x with id %u: WH_CHANNEL_WITHDRAW, with an "
            "id, is all that there is",
            own.text, opts->flags, opts->id);
    if (taken)
        return whi_refuse(WH_EINVAL, "E-CHAN-01",
                          "wh_channel_open: %s has an end with id %u: give each another one",
                          own.text, opts->id);
    return whi_refuse(WH_EINVAL, "E-CHAN-01",
                      "wh_channel_open: %s opens a channel to itself: name another element",
                      own.text);
}

wh_status wh_channel_open(wh_chare *self, wh_proxy peer, const wh_channel_opts *opts,
                          wh_channel **channel) {
    WHI_OPTS(wh_channel_opts, opts);
    whi_place_key key;
    if (!self || !peer.dims ||
        whi_place_key_make(peer.collection, peer.index, peer.dims, &key) != WH_OK)
        return refuse_open(self, &peer, opts, false);
    if (is_misnamed(whi_chares_get(self->pe), &peer) || has_wrong_flags(opts))
        return refuse_open(self, &peer, opts, false);
    if (((const whi_element *)self)->moves_to >= 0)
        return whi_refuse(
            WH_EBUSY, "E-CHAN-01",
            "wh_channel_open: %s is about to move: open it before, or where it has come",
            whi_say_proxy(whi_chares_get(self->pe), &self->proxy).text);
    whi_channels *channels = channels_of(self->pe);
    whi_channel_name own = name_of(&self->proxy), other = name_of(&peer);
    uint32_t id = opts ? opts->id : 0;
    if (!channels)
        return WH_ENOMEM;
    if (whi_channels_find(channels, &own, id))
        return refuse_open(self, &peer, opts, true);
    wh_status st = whi_channels_open(
        channels, &own, &other,
        &(whi_channel_kind){.window = opts && opts->window ? opts->window : WINDOW,
                            .id = id,
                            .withdraws = opts && opts->flags & WH_CHANNEL_WITHDRAW},
        channel);
    return st == WH_EINVAL ? refuse_open(self, &peer, opts, false) : st;
}

wh_status wh_channel_find(wh_chare *self, uint32_t id, wh_channel **channel) {
    if (!self || !id)
        return whi_refuse(WH_EINVAL, "E-CHAN-01",
                          "wh_channel_find: %s: give the id that the end was opened with",
                          self ? "id is 0" : "self is NULL");
    const whi_channels *channels = self->pe->floors[WHI_FLOOR_CHANNEL].state;
    whi_channel_name own = name_of(&self->proxy);
    *channel = channels ? whi_channels_find(channels, &own, id) : NULL;
    return *channel ? WH_OK : WH_ENOTFOUND;
}

// ---- Callbacks in the place of functions.

typedef struct then {
    whi_ready ready;
    wh_pe *pe;
    wh_callback callback;
    wh_result result;
} then;

// The turn of the PE runs it: progress runs no entries.
static void fire(wh_pe *pe, whi_ready *ready) {
    then *t = whi_container_of(ready, then, ready);
    wh_status st = whi_callback_fire(pe, &t->callback, &t->result, sizeof(t->result));
    if (st != WH_OK) {
        whi_text why = whi_why_callback(pe, &t->callback, &t->result, sizeof(t->result), st);
        whi_pe_fail(pe, "the callback of an operation of a channel cannot be carried out: %s",
                    *why.text ? why.text : wh_status_text(st));
    }
    whi_free(t);
}

static void drop(whi_ready *ready) {
    whi_free(whi_container_of(ready, then, ready));
}

static void on_then(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    then *t = arg;
    t->result = (wh_result){.status = result->status, .size = result->size};
    whi_pe_do(t->pe, &t->ready);
}

static wh_status begin_then(wh_channel *channel, const char *call, const wh_op_opts *opts,
                            const wh_callback *callback, wh_op_opts *own, then **out) {
    if (!callback || (opts && (opts->done || opts->result)))
        return whi_refuse(WH_EINVAL, "E-CHAN-02", "%s: %s", call,
                          callback ? "opts has `done` or `result`: the callback takes their place"
                                   : "callback is NULL: it is told of the end of the operation");
    then *t = whi_malloc(sizeof(*t));
    if (!t)
        return WH_ENOMEM;
    *t = (then){.ready = {.run = fire, .drop = drop}, .pe = channel->in->pe, .callback = *callback};
    *own = opts ? *opts : (wh_op_opts){.size = sizeof(wh_op_opts)};
    own->done = on_then;
    own->arg = t;
    own->result = &t->result;
    *out = t;
    return WH_OK;
}

// end_then: what was done at once calls back, too; what was not begun does not.
static wh_status end_then(wh_status st, then *t) {
    if (st == WH_OK)
        whi_pe_do(t->pe, &t->ready);
    else if (st < 0)
        whi_free(t);
    return st < 0 ? st : WH_OK;
}

wh_status wh_channel_send_then(wh_channel *channel, const void *buf, size_t size,
                               const wh_op_opts *opts, const wh_callback *callback) {
    WHI_OPTS(wh_op_opts, opts);
    wh_op_opts own;
    then *t;
    wh_status st = begin_then(channel, "wh_channel_send_then", opts, callback, &own, &t);
    return st == WH_OK ? end_then(wh_channel_send(channel, buf, size, &own, NULL), t) : st;
}

wh_status wh_channel_recv_then(wh_channel *channel, void *buf, size_t size, const wh_op_opts *opts,
                               const wh_callback *callback) {
    WHI_OPTS(wh_op_opts, opts);
    wh_op_opts own;
    then *t;
    wh_status st = begin_then(channel, "wh_channel_recv_then", opts, callback, &own, &t);
    return st == WH_OK ? end_then(wh_channel_recv(channel, buf, size, &own, NULL), t) : st;
}
