// SPDX-License-Identifier: BSD-3-Clause
//
// Messages between two ends of one PE, neither of which can move: copied from where they lie to where they belong as soon as
// both operations are there.
//
// A receive that waits is in its end's `early`, a send in its own end's `waiting`.  A small message for which no receive waits is
// copied into `kept` of the end that it goes to, and its send is done.  So what is kept is older than what waits.
//
// Memory that the processor must not copy goes by the engine, message and receive together.  These two have matched, so neither is
// cancelled any more, and nothing else can come between them.
#include <string.h>

#include <wherry/pack.h>
#include <wherry/type.h>

#include "base/alloc.h"
#include "rt/channel/channels.h"

enum { KEEP_SIZE = 8 << 10 };  // bytes of a message that is kept

void whi_channel_meet_direct(wh_channel *ch) {
    if (ch->peer != ch->in->pe->number || ch->id)
        return;
    wh_channel *other = whi_hash_get(&ch->in->ends, ch->peer_number);
    if (!other || other == ch || other->id)
        return;
    ch->direct = true;
    if (other->direct && !other->twin && other->peer_number == ch->number) {
        ch->twin = other;
        other->twin = ch;
    }
}

void whi_channel_leave_direct(wh_channel *ch) {
    if (ch->twin)
        ch->twin->twin = NULL;
    ch->twin = NULL;
}

static whi_channel_op *first(const whi_list *ops) {
    return whi_container_of(ops->next, whi_channel_op, link);
}

// look finds out what an operation moves, once.  What the engine would refuse is refused.
static wh_status look(whi_channel_op *op) {
    const wh_op_opts *opts = &op->opts;
    wh_mem_info info = {.size = sizeof(info)};
    if (op->looked)
        return WH_OK;
    if (opts->flags & ~(uint32_t)WH_OP_UNTYPED)
        return WH_ENOTSUP;
    if (!op->buf && op->size && !opts->type)
        return WH_EINVAL;
    wh_status st = whi_channel_elements_of(opts, op->size, &op->what);
    if (st != WH_OK)
        return st;
    // In whole numbers: of no elements there may be no memory.
    const void *at = (const void *)((uintptr_t)op->buf + (uintptr_t)op->what.start);
    op->host =
        opts->mem == WH_MEM_HOST ||
        (opts->mem == WH_MEM_AUTO &&
         (!op->what.bytes || (wh_mem_query(at, &info) == WH_OK && info.kind == WH_MEM_HOST)));
    op->looked = true;
    return WH_OK;
}

// ---- Copies.

// A message: where its bytes are, laid out by a type or one after another, and what they are.
typedef struct source {
    const void *buf;
    size_t size;
    const wh_type *type;
    const whi_channel_elements *what;
} source;

static source sent_by(const whi_channel_op *send) {
    return (source){send->buf, send->size, send->opts.type, &send->what};
}

static source kept_in(const whi_channel_kept *k) {
    return (source){k->bytes, k->size, NULL, &k->what};
}

static const wh_type *type_or_bytes(const wh_type *type) {
    return type ? type : wh_type_basic(WH_TYPE_BYTE);
}

// verdict says how a receive ends that gets this message.
static wh_status verdict(source from, const whi_channel_op *to) {
    if (whi_channel_elements_clash(from.what, &to->what))
        return WH_ETYPE;
    return from.what->bytes > to->what.bytes ? WH_ETRUNCATED : WH_OK;
}

static wh_status copy(source from, const whi_channel_op *to) {
    wh_status result = verdict(from, to), st = WH_OK;
    size_t size = from.what->bytes < to->what.bytes ? from.what->bytes : to->what.bytes;
    if (result == WH_ETYPE || !size)
        return result;
    if (from.type || to->opts.type)
        st = wh_type_copy(to->buf, (int64_t)to->size, type_or_bytes(to->opts.type), from.buf,
                          (int64_t)from.size, type_or_bytes(from.type), &size);
    else
        memmove(to->buf, from.buf, size);
    return st == WH_OK ? result : st;
}

// ---- Messages that are kept.

static bool may_keep(const whi_channel_op *send) {
    const wh_channel *to = send->channel->twin;
    return !send->stays && (send->host || !send->opts.stream) && send->what.bytes <= KEEP_SIZE &&
           to->kept_count < to->window && !to->closed;
}

static wh_status pack(const whi_channel_op *send, void *bytes) {
    size_t size = send->what.bytes;
    if (!size)
        return WH_OK;
    if (send->opts.type)
        return wh_pack(send->buf, (int64_t)send->size, send->opts.type, 0, bytes, size,
                       WH_PACK_CACHED, &size);
    if (!send->host)
        return wh_mem_copy(bytes, WH_MEM_HOST, send->buf, send->opts.mem, size);
    memcpy(bytes, send->buf, size);
    return WH_OK;
}

// keep copies a message.  WH_PENDING: it stays where it is, because no kernel packs this layout of a device.
static wh_status keep(whi_channel_op *send) {
    wh_channel *to = send->channel->twin;
    whi_channel_kept *k = whi_malloc(sizeof(*k) + send->what.bytes);
    if (!k)
        return WH_ENOMEM;
    *k = (whi_channel_kept){.channel = to, .size = send->what.bytes, .what = send->what};
    wh_status st = pack(send, k->bytes);
    if (st != WH_OK) {
        whi_free(k);
        send->stays = !send->host && st == WH_ENOTSUP;
        return send->stays ? WH_PENDING : st;
    }
    whi_list_push_back(&to->kept, &k->link);
    to->kept_count++;
    send->channel->sent++;
    return WH_OK;
}

static whi_channel_kept *first_kept(const wh_channel *to) {
    return whi_list_empty(&to->kept) ? NULL
                                     : whi_container_of(to->kept.next, whi_channel_kept, link);
}

static void unkeep(whi_channel_kept *k) {
    whi_list_remove(&k->link);
    k->channel->kept_count--;
}

// ---- What goes by the engine.

// receive_by_engine posts a receive for which a message follows; else the receive ends.
static bool receive_by_engine(whi_channel_op *receive) {
    wh_result result = {.status = WH_OK};
    whi_list_remove(&receive->link);
    wh_status st = whi_channel_post(receive, &result);
    if (st == WH_PENDING)
        return true;
    whi_channel_complete(receive, st, result.size);
    return false;
}

// take_last_back has a receive wait again: no message has followed.
static void take_last_back(wh_channel *to) {
    whi_channel_take_back(to, whi_channel_count(&to->receives) - 1);
}

static void by_engine(whi_channel_op *send, whi_channel_op *receive) {
    wh_channel *to = receive->channel;
    if (!receive_by_engine(receive))
        return;
    wh_result result = {.status = WH_OK};
    whi_list_remove(&send->link);
    wh_status st = whi_channel_post(send, &result);
    if (st < 0)
        take_last_back(to);
    if (st != WH_PENDING)
        whi_channel_complete(send, st, st == WH_OK ? result.size : 0);
}

static void on_lent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    whi_free(arg);
}

// lend sends a kept message to a receive on memory of a device, which compares nothing: the two have been compared.
static void lend(whi_channel_kept *k, whi_channel_op *receive) {
    wh_channel *to = receive->channel;
    wh_pe *pe = to->in->pe;
    if (!receive_by_engine(receive))
        return;
    wh_status st = wh_pe_send_buffer(pe, pe->number, k->bytes, k->size,
                                     WH_PE_TAG(WH_PE_TAG_CHANNEL, pe->number, to->number),
                                     WH_OP_OPTS(.done = on_lent, .arg = k), NULL);
    if (st < 0) {
        take_last_back(to);
        return;
    }
    unkeep(k);
    if (st != WH_PENDING)
        whi_free(k);
}

// ---- Pairs.

static void end_send(whi_channel_op *send, wh_status st) {
    wh_channel *from = send->channel;
    whi_channel_complete(send, st, st == WH_OK ? send->what.bytes : 0);
    if (from->closed || from->stopped)
        whi_channel_settle(from);
}

// received counts a message that its receive has got.
static void received(whi_channel_op *receive, wh_status st, size_t size) {
    wh_channel *to = receive->channel;
    whi_channel_complete(receive, st, size);
    whi_channel_count_received(to);
}

static void pair_kept(whi_channel_kept *k, whi_channel_op *receive) {
    source from = kept_in(k);
    if (!receive->host && verdict(from, receive) != WH_ETYPE) {
        lend(k, receive);
        return;
    }
    unkeep(k);
    received(receive, copy(from, receive), k->size);
    whi_free(k);
}

static void pair_send(whi_channel_op *send, whi_channel_op *receive) {
    wh_status st = look(send);
    if (st != WH_OK) {
        end_send(send, st);
        return;
    }
    if (!send->host || !receive->host) {
        by_engine(send, receive);
        return;
    }
    st = copy(sent_by(send), receive);
    send->channel->sent++;
    received(receive, st, send->what.bytes);
    // A sender of more than what is kept hears that it was not wanted, as one whose message is only announced.
    end_send(send, st == WH_ETYPE && send->what.bytes > KEEP_SIZE ? WH_EREJECTED : WH_OK);
}

// fill keeps what waits and may be kept, in order.
static void fill(const wh_channel *to) {
    while (to->twin && !whi_list_empty(&to->twin->waiting)) {
        whi_channel_op *send = first(&to->twin->waiting);
        wh_status st = look(send);
        if (st == WH_OK && !may_keep(send))
            return;
        if (st == WH_OK)
            st = keep(send);
        if (st == WH_PENDING)
            return;
        end_send(send, st);
    }
}

void whi_channel_match(wh_channel *to) {
    while (!to->backs && !whi_list_empty(&to->early)) {
        whi_channel_op *receive = first(&to->early);
        whi_channel_kept *k = first_kept(to);
        if (!k && (!to->twin || whi_list_empty(&to->twin->waiting)))
            return;
        wh_status st = look(receive);
        if (st != WH_OK)
            whi_channel_complete(receive, st, 0);
        else if (k)
            pair_kept(k, receive);
        else
            pair_send(first(&to->twin->waiting), receive);
    }
    if (!to->backs)
        fill(to);
}

// ---- What is done at once.

static wh_status send_now(whi_channel_op *op, wh_result *result) {
    wh_channel *from = op->channel, *to = from->twin;
    if (!to || to->backs || !whi_list_empty(&from->waiting))
        return WH_PENDING;
    result->size = op->what.bytes;
    if (whi_list_empty(&to->early))
        return may_keep(op) ? keep(op) : WH_PENDING;
    whi_channel_op *receive = first(&to->early);
    if (!op->host || look(receive) != WH_OK || !receive->host ||
        verdict(sent_by(op), receive) != WH_OK)
        return WH_PENDING;
    wh_status st = copy(sent_by(op), receive);
    if (st != WH_OK)
        return st;
    from->sent++;
    received(receive, WH_OK, result->size);
    return WH_OK;
}

static wh_status receive_now(whi_channel_op *op, wh_result *result) {
    wh_channel *to = op->channel;
    whi_channel_kept *k = first_kept(to);
    whi_channel_op *send = NULL;
    if (to->backs || !op->host || !whi_list_empty(&to->early))
        return WH_PENDING;
    if (!k && to->twin && !whi_list_empty(&to->twin->waiting))
        send = first(&to->twin->waiting);
    if (!k && (!send || look(send) != WH_OK || !send->host))
        return WH_PENDING;
    source from = k ? kept_in(k) : sent_by(send);
    if (verdict(from, op) != WH_OK)
        return WH_PENDING;
    wh_status st = copy(from, op);
    if (st != WH_OK)
        return st;
    result->size = from.what->bytes;
    whi_channel_count_received(to);
    if (k) {
        unkeep(k);
        whi_free(k);
    } else {
        to->twin->sent++;
        end_send(send, WH_OK);
    }
    fill(to);  // there is room
    return WH_OK;
}

wh_status whi_channel_begin_direct(whi_channel_op *op, wh_result *result) {
    wh_status st = look(op);
    if (st != WH_OK)
        return st;
    return op->receive ? receive_now(op, result) : send_now(op, result);
}
