// SPDX-License-Identifier: BSD-3-Clause
//
// Sends and receives of a channel: what waits, what is under way, and what it counts for.
//
// What can be posted at once and has no handle costs nothing but the engine's operation; everything else has a request of ours,
// whose callback runs in progress whoever completes it.
#include <wherry/layer.h>
#include <wherry/type.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "rt/channel/channels.h"
#include "rt/pe/refuse.h"

// ---- Ends of operations.

static const wh_layer_ops receive_ops, send_ops;

static const char *sentence_of(wh_status why) {
    return why == WH_ECLOSED ? "the channel is closed"
           : why == WH_EPEER
               ? "the other end of the channel is gone: its element was destroyed or never made, "
                 "or its processing element is lost"
           : why == WH_ETYPE ? "the message holds other elements than the receive's type; give "
                               "both sides the same, or one of them WH_OP_UNTYPED"
           : why == WH_ETRUNCATED ? "the message, whose size is told, is longer than the buffer"
                                  : NULL;
}

static void free_op(whi_channel_op *op) {
    wh_type_release((wh_type *)(uintptr_t)op->opts.type);
    whi_pool_put(&op->channel->in->ops, op);
}

// whi_channel_complete ends an operation.  One without a request of ours has its user's callback called by on_done.
void whi_channel_complete(whi_channel_op *op, wh_status status, size_t size) {
    const char *sentence =
        op->inner && status < 0 && !op->why ? wh_request_error(op->inner) : sentence_of(status);
    whi_list_remove(&op->link);
    // It fails only when the worker has ended it.
    if (op->ours && wh_request_complete(op->ours, &(wh_result){.status = status, .size = size},
                                        sentence) != WH_OK)
        op->ours = NULL;
    wh_request_free(op->inner);
    free_op(op);
}

// unmatched: a message that was taken back, or a receive that has not got one.
static bool unmatched(wh_status st) {
    return st == WH_ECANCELLED || st == WH_ETIMEDOUT || st == WH_ECLOSED;
}

void whi_channel_credit(wh_channel *ch) {
    if (ch->held || ch->asked)  // behind MOVED
        return;
    if (ch->direct || ch->matched - ch->returned < (ch->window + 1) / 2 || ch->peer_finished ||
        ch->lost)
        return;
    ch->returned = ch->matched;
    whi_channel_tell(ch->in, ch->peer, WHI_CHANNEL_CREDIT, ch->peer_number, false, ch->matched);
}

void whi_channel_next_line(wh_channel *ch) {
    while (ch->matched >= ch->until && !whi_list_empty(&ch->later)) {
        whi_channel_line *line =
            whi_container_of(whi_list_pop_front(&ch->later), whi_channel_line, link);
        ch->from = line->pe;
        ch->until = line->until;
        whi_free(line);
    }
}

void whi_channel_count_received(wh_channel *ch) {
    ch->matched++;
    whi_channel_next_line(ch);
    whi_channel_credit(ch);
}

// put_back has a receive wait, in its order, to be posted to where messages come from then.
static void put_back(whi_channel_op *op) {
    wh_channel *ch = op->channel;
    const wh_op_opts opts = {
        .size = sizeof(opts), .timeout_ms = -1, .done = op->done, .arg = op->arg};
    wh_request_free(op->inner);
    op->inner = NULL;
    op->back = false;
    if (!op->ours &&
        wh_request_create(ch->in->pe->worker, &receive_ops, op, &opts, false, &op->ours) != WH_OK)
        whi_pe_fail(ch->in->pe, "there is no memory to keep a receive of a channel");
    whi_list *at = ch->early.prev;
    while (at != &ch->early && whi_container_of(at, whi_channel_op, link)->order > op->order)
        at = at->prev;
    whi_list_remove(&op->link);
    whi_list_insert(at, &op->link);
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whi_channel_op *op = arg;
    wh_channel *ch = op->channel;
    wh_done_fn done = op->ours ? NULL : op->done;
    void *done_arg = op->arg;
    wh_result ended = {.status = result->status, .size = result->size};
    bool none = unmatched(result->status), back = op->back && none && !op->why;
    ch->backs -= op->back;
    if (op->receive && !none && result->status != WH_EPEER)
        whi_channel_count_received(ch);
    else if (!op->receive && none)
        ch->sent--;
    if (!op->receive && none && ch->held)
        whi_channel_tell(ch->in, ch->peer, WHI_CHANNEL_HELD, ch->peer_number, false, ch->sent);
    if (back) {
        put_back(op);
        whi_channel_pump(ch);
        return;
    }
    if (none && op->why)
        ended.status = op->why;
    whi_channel_complete(op, ended.status, ended.size);
    if (ch->leaving)
        whi_channels_kick(ch->in);
    if (ch->direct || !whi_list_empty(&ch->waiting) || !whi_list_empty(&ch->early))
        whi_channel_pump(ch);
    if (ch->closed || ch->stopped || ch->peer_finished)
        whi_channel_settle(ch);
    if (done)  // last: it may close the channel
        done(NULL, &ended, done_arg);
}

void whi_channel_fail(whi_list *ops, size_t keep, wh_status why) {
    whi_list_foreach(node, ops) {
        if (keep)
            keep--;
        else
            whi_channel_complete(whi_container_of(node, whi_channel_op, link), why, 0);
    }
}

void whi_channel_take_back(wh_channel *ch, size_t keep) {
    whi_list_foreach(node, &ch->receives) {
        whi_channel_op *op = whi_container_of(node, whi_channel_op, link);
        if (keep) {
            keep--;
        } else if (!op->why && !op->drain) {
            op->back = true;
            ch->backs++;
            wh_request_cancel(op->inner);
        }
    }
}

// withdraw asks the engine for an operation's end.  What has gone to it together with its other side has matched.
static void withdraw(whi_channel_op *op, wh_status why) {
    if (!op->why)
        op->why = why;
    if (!op->channel->direct)
        wh_request_cancel(op->inner);
}

void whi_channel_cancel(whi_list *ops, size_t keep, wh_status why) {
    whi_list_foreach(node, ops) {
        whi_channel_op *op = whi_container_of(node, whi_channel_op, link);
        if (keep) {
            keep--;
        } else if (!op->why) {
            withdraw(op, why);
        }
    }
}

static void on_cancel(wh_request *req, wh_status why, void *state) {
    (void)req;
    whi_channel_op *op = state;
    wh_channel *ch = op->channel;
    if (op->inner) {
        withdraw(op, why);
        return;
    }
    whi_channel_complete(op, why, 0);
    whi_channel_pump(ch);  // what was behind it may go on
    whi_channel_settle(ch);
}

static const wh_layer_ops receive_ops = {
    .size = sizeof(wh_layer_ops), .text = "receive of a channel", .cancel = on_cancel};
static const wh_layer_ops send_ops = {
    .size = sizeof(wh_layer_ops), .text = "send of a channel", .cancel = on_cancel};

// ---- Beginnings.

wh_status whi_channel_post(whi_channel_op *op, wh_result *result) {
    wh_channel *ch = op->channel;
    int source = op->receive ? ch->from : ch->in->pe->number;
    uint32_t number = op->receive ? ch->number : ch->peer_number;
    uint64_t tag = WH_PE_TAG(WH_PE_TAG_CHANNEL, source, number);
    op->opts.done = on_done;
    op->opts.arg = op;
    op->opts.result = result;
    wh_status st = op->receive ? wh_pe_recv_buffer(ch->in->pe, ch->from, op->buf, op->size, tag,
                                                   &op->opts, &op->inner)
                               : wh_pe_send_buffer(ch->in->pe, ch->peer, op->buf, op->size, tag,
                                                   &op->opts, &op->inner);
    if (st < 0)
        return st;
    if (!op->receive)
        ch->sent++;
    if (st == WH_PENDING)
        whi_list_push_back(op->receive ? &ch->receives : &ch->sends, &op->link);
    else if (op->receive)
        whi_channel_count_received(ch);
    return st;
}

static void post_waiting(whi_list *waiting) {
    whi_list *node = whi_list_pop_front(waiting);
    whi_channel_op *op = whi_container_of(node, whi_channel_op, link);
    wh_result result = {.status = WH_OK};
    wh_status st = whi_channel_post(op, &result);
    if (st != WH_PENDING)
        whi_channel_complete(op, st, st == WH_OK ? result.size : 0);
}

static bool may_send(const wh_channel *ch) {
    return ch->peer >= 0 && !ch->held && ch->sent - ch->credited < ch->peer_window;
}

// One that is posted gets a message from where the next ones come.
static bool may_receive(const wh_channel *ch) {
    return ch->peer >= 0 && !ch->backs &&
           (ch->until == UINT64_MAX || ch->matched + whi_channel_count(&ch->receives) < ch->until);
}

void whi_channel_pump(wh_channel *ch) {
    if (ch->direct) {
        whi_channel_match(ch);
        if (ch->twin)
            whi_channel_match(ch->twin);
        return;
    }
    while (may_receive(ch) && !whi_list_empty(&ch->early))
        post_waiting(&ch->early);
    while (may_send(ch) && !whi_list_empty(&ch->waiting))
        post_waiting(&ch->waiting);
}

static whi_channel_op *new_op(wh_channel *ch, const wh_op_opts *opts) {
    whi_channel_op *op = whi_pool_get(&ch->in->ops);
    if (!op)
        return NULL;
    *op = (whi_channel_op){.channel = ch,
                           .opts = opts ? *opts : (wh_op_opts){.size = sizeof(wh_op_opts)},
                           .order = ch->orders++,
                           .done = opts ? opts->done : NULL,
                           .arg = opts ? opts->arg : NULL};
    op->opts.timeout_ms = -1;
    whi_list_init(&op->link);
    (void)wh_type_retain((wh_type *)(uintptr_t)op->opts.type);
    return op;
}

// accept has an operation be under way; with `now` it is handed to the engine.
static wh_status accept(whi_channel_op *op, bool now, const wh_op_opts *opts, bool wanted,
                        wh_result *result) {
    wh_channel *ch = op->channel;
    bool timed = opts && opts->timeout_ms > 0;
    wh_status st = WH_OK;
    if (wanted || timed || !now)
        st = wh_request_create(ch->in->pe->worker, op->receive ? &receive_ops : &send_ops, op, opts,
                               wanted, &op->ours);
    if (st != WH_OK)
        return st;
    if (now)
        return whi_channel_post(op, result);
    whi_list_push_back(op->receive ? &ch->early : &ch->waiting, &op->link);
    return WH_PENDING;
}

static wh_status start(whi_channel_op *op, bool now, const wh_op_opts *opts, wh_request **req) {
    wh_channel *ch = op->channel;
    wh_result result = {.status = WH_OK};
    wh_status st = ch->direct ? whi_channel_begin_direct(op, &result) : WH_PENDING;
    if (st == WH_PENDING)
        st = accept(op, now && !ch->direct, opts, req != NULL, &result);
    if (st == WH_PENDING) {
        if (req)
            *req = op->ours;
        if (ch->direct)
            whi_channel_pump(ch);
        return st;
    }
    if (op->ours)
        wh_request_discard(op->ours);
    free_op(op);
    if (st != WH_OK)
        return st;
    if (req)
        *req = NULL;
    if (opts && opts->result)
        *opts->result = (wh_result){.size = result.size};
    return WH_OK;
}

WHI_COLD static wh_status refuse_sync(const char *call) {
    return whi_refuse(
        WH_ENOTSUP, "E-CHAN-02",
        "%s: flags has WH_OP_SYNC, which channels do not have: have the other end send an "
        "answer",
        call);
}

wh_status wh_channel_send(wh_channel *ch, const void *buf, size_t size, const wh_op_opts *opts,
                          wh_request **req) {
    WHI_OPTS(wh_op_opts, opts);
    if (ch->closed || ch->stopped)
        return ch->closed ? WH_ECLOSED : ch->why;
    if (ch->leaving)
        return WH_EBUSY;
    if (opts && opts->flags & WH_OP_SYNC)
        return refuse_sync("wh_channel_send");
    whi_channel_op *op = new_op(ch, opts);
    if (!op)
        return WH_ENOMEM;
    op->buf = (void *)(uintptr_t)buf;
    op->size = size;
    return start(op, may_send(ch) && whi_list_empty(&ch->waiting), opts, req);
}

size_t whi_channel_count(const whi_list *ops) {
    size_t count = 0;
    for (const whi_list *node = ops->next; node != ops; node = node->next)
        count++;
    return count;
}

wh_status wh_channel_recv(wh_channel *ch, void *buf, size_t size, const wh_op_opts *opts,
                          wh_request **req) {
    WHI_OPTS(wh_op_opts, opts);
    if (ch->closed || ch->lost)
        return ch->closed ? WH_ECLOSED : ch->why;
    if (ch->leaving)
        return WH_EBUSY;
    if (ch->peer_finished &&
        ch->matched + whi_channel_count(&ch->receives) + whi_channel_count(&ch->early) >=
            ch->expected)
        return ch->why;
    if (opts && opts->flags & WH_OP_SYNC)
        return refuse_sync("wh_channel_recv");
    whi_channel_op *op = new_op(ch, opts);
    if (!op)
        return WH_ENOMEM;
    op->receive = true;
    op->buf = buf;
    op->size = size;
    return start(op, may_receive(ch) && whi_list_empty(&ch->early), opts, req);
}

// ---- What nobody wants.

// A receive without memory takes a message, whatever its size.
void whi_channel_drain(wh_channel *ch, uint64_t count) {
    if (ch->direct) {
        ch->matched += ch->kept_count;
        whi_channel_drop_kept(ch);
        return;
    }
    for (; count && may_receive(ch); count--) {
        whi_channel_op *op = new_op(ch, NULL);
        wh_result result;
        wh_status st = WH_ENOMEM;
        if (op) {
            op->receive = op->drain = true;
            st = whi_channel_post(op, &result);
        }
        if (st == WH_PENDING)
            continue;
        if (op)
            free_op(op);
        if (st == WH_ENOMEM)
            whi_pe_fail(ch->in->pe, "there is no memory to end a channel");
        if (st < 0 && st != WH_ETRUNCATED)
            return;
    }
}
