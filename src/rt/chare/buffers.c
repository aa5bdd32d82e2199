// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers beside the arguments of a call: memory of any kind and layout, received to where it belongs.
//
// Small ones of the host ride in the message.  The others are sent by tag to the PE to which the call goes; the numbers of the tags
// are in a table at the end of the call's data:
//
//     arguments, zeros up to 16 | small buffers, each up to 16 | per buffer: size (8), number (4), 0 (4) | size of the arguments (8)
//
// Where the call is sent on, its buffers are received to memory of that PE's own and sent on, too, with new tags.  When the call's turn
// has come at its element, the entry's post function says where they go.  The entry runs when all are there, and what the same
// PE has sent behind it waits.  Meanwhile the element neither moves nor goes.
#include <wherry/pack.h>
#include <wherry/tag.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "rt/chare/chares.h"

enum { INLINE_MAX = 512, ROW = 16, LAST = 8 };
#define IN_MESSAGE UINT32_MAX  // in place of a number

// Buffers that have yet to be sent, or are being sent: the user's, or the memory of a PE that passes them on.
struct whi_held {
    wh_done_fn done;
    void *arg;
    wh_status status;
    size_t left;  // sends, and one until all have been started
    bool owned;   // memory of this PE's
    size_t count;
    wh_frame frames[];
};

// Buffers that are being received.
struct whi_posted {
    whi_ready ready;
    whi_chares *chares;
    whi_call *call;
    size_t left;
    wh_status status;
    bool landed, owned;
    size_t count;
    struct row {
        struct whi_posted *posted;
        uint64_t size;
        uint32_t number;
        const char *data;  // of one in the message
        void *memory;      // of the library's
    } * rows;
    wh_frame frames[];
};

static size_t padded(size_t size) {
    return (size + 15) / 16 * 16;
}

static uint64_t bytes_of(const wh_frame *frame) {
    return frame->type ? (uint64_t)wh_type_size(frame->type) * frame->size : frame->size;
}

// ---- The sender's.

static void held_end(whi_held *held, wh_status status) {
    if (status != WH_OK && held->status == WH_OK)
        held->status = status;
    if (--held->left)
        return;
    wh_result result = {.status = held->status};
    if (held->done)
        held->done(NULL, &result, held->arg);
    for (size_t i = 0; i < held->count; i++) {
        wh_type_release((wh_type *)(uintptr_t)held->frames[i].type);
        if (held->owned)
            whi_free(held->frames[i].data);
    }
    whi_free(held);
}

void whi_buffers_drop(whi_held *held) {
    held_end(held, WH_EREJECTED);
}

void whi_buffers_forget(whi_held *held) {
    held->done = NULL;
    held_end(held, WH_OK);
}

static whi_held *new_held(size_t count) {
    whi_held *held = whi_calloc(1, sizeof(*held) + count * sizeof(wh_frame));
    if (held) {
        held->count = count;
        held->left = 1;
    }
    return held;
}

static wh_status is_host(const wh_frame *frame, bool *host) {
    wh_mem_info info = {.size = sizeof(info)};
    *host = frame->mem == WH_MEM_HOST;
    if (frame->mem != WH_MEM_AUTO)
        return WH_OK;
    wh_status st = wh_mem_query(frame->data, &info);
    *host = st == WH_OK && info.kind == WH_MEM_HOST;
    return st;
}

static wh_status copy_frames(const wh_send_opts *opts, whi_held *held, bool *in_message,
                             size_t *total) {
    wh_status st = whi_opts_take_array(held->frames, sizeof(wh_frame), opts->buffers,
                                       opts->frame_size, opts->count, "wh_frame");
    for (size_t i = 0; st == WH_OK && i < held->count; i++) {
        const wh_frame *frame = &held->frames[i];
        uint64_t bytes = bytes_of(frame);
        bool host = true;
        if (frame->size && !frame->data)
            st = WH_EINVAL;
        else if (bytes)
            st = is_host(frame, &host);
        in_message[i] = host && bytes <= INLINE_MAX;
        *total += in_message[i] ? padded(bytes) : 0;
        (void)wh_type_retain((wh_type *)(uintptr_t)frame->type);
    }
    return st;
}

static wh_status fill(whi_call *call, const whi_held *held, const bool *in_message,
                      const void *args, size_t size) {
    char *data = call->msg->pub.data, *at = data + padded(size);
    memset(data, 0, call->msg->pub.size);
    if (size)
        memcpy(data, args, size);
    whi_writer to;
    size_t table = held->count * ROW + LAST;
    whi_writer_init(&to, data + call->msg->pub.size - table, table);
    wh_status st = WH_OK;
    for (size_t i = 0; st == WH_OK && i < held->count; i++) {
        const wh_frame *frame = &held->frames[i];
        size_t bytes = (size_t)bytes_of(frame), actual;
        whi_writer_u64(&to, bytes);
        whi_writer_u32(&to, in_message[i] ? IN_MESSAGE : 0);
        whi_writer_u32(&to, 0);
        if (!in_message[i] || !bytes)
            continue;
        if (frame->type)
            st = wh_pack(frame->data, (int64_t)frame->size, frame->type, 0, at, bytes, 0, &actual);
        else
            memcpy(at, frame->data, bytes);
        at += padded(bytes);
    }
    whi_writer_u64(&to, size);
    return st;
}

wh_status whi_buffers_call(whi_chares *c, const whi_place_key *key, unsigned entry,
                           const void *args, size_t size, const wh_send_opts *opts,
                           whi_call **out) {
    if (opts->count > WHI_CALL_BUFFERS_MAX || !opts->buffers)
        return WH_EINVAL;
    whi_held *held = new_held(opts->count);
    bool *in_message = whi_calloc(opts->count, sizeof(bool));
    size_t total = padded(size) + opts->count * ROW + LAST;
    wh_status st = held && in_message ? copy_frames(opts, held, in_message, &total) : WH_ENOMEM;
    whi_call *call = st == WH_OK ? whi_call_new(c, key, entry, total) : NULL;
    if (st == WH_OK)
        st = call ? fill(call, held, in_message, args, size) : WH_ENOMEM;
    whi_free(in_message);
    if (st == WH_OK) {
        held->done = opts->done;
        held->arg = opts->done_arg;
        call->buffers = (uint16_t)opts->count;
        call->held = held;
        *out = call;
        return WH_OK;
    }
    if (call)
        whi_call_free(c, call);
    if (held)
        held_end(held, st);
    return st;
}

// ---- The table.

static uint8_t *table_of(const whi_call *call) {
    size_t size = (size_t)call->buffers * ROW + LAST;
    if (call->msg->pub.size < size)
        return NULL;
    return (uint8_t *)call->msg->pub.data + call->msg->pub.size - size;
}

size_t whi_buffers_args(const whi_call *call) {
    const uint8_t *table = call->buffers ? table_of(call) : NULL;
    if (!table)
        return call->buffers ? 0 : call->msg->pub.size;
    whi_reader from;
    whi_reader_init(&from, table + call->buffers * ROW, LAST);
    uint64_t size = whi_reader_u64(&from);
    return size <= call->msg->pub.size ? (size_t)size : 0;
}

// read_rows reads the table of a call, and finds what is in the message.
static wh_status read_rows(const whi_call *call, struct row *rows) {
    const uint8_t *table = table_of(call);
    if (!table)
        return WH_EPROTOCOL;
    whi_reader from, inside;
    whi_reader_init(&from, table, (size_t)call->buffers * ROW + LAST);
    whi_reader_init(&inside, call->msg->pub.data, (size_t)(table - (uint8_t *)call->msg->pub.data));
    (void)whi_reader_bytes(&inside, padded(whi_buffers_args(call)));
    for (size_t i = 0; i < call->buffers; i++) {
        rows[i].size = whi_reader_u64(&from);
        rows[i].number = whi_reader_u32(&from);
        if (whi_reader_u32(&from) || rows[i].size > PTRDIFF_MAX)
            return WH_EPROTOCOL;
        if (rows[i].number == IN_MESSAGE)
            rows[i].data = whi_reader_bytes(&inside, padded((size_t)rows[i].size));
    }
    return whi_reader_done(&inside) ? WH_OK : WH_EPROTOCOL;
}

static void set_number(const whi_call *call, size_t i, uint64_t tag) {
    whi_writer to;
    whi_writer_init(&to, table_of(call) + i * ROW + sizeof(uint64_t), sizeof(uint32_t));
    whi_writer_u32(&to, (uint32_t)(tag & ((1u << 28) - 1)));
}

// ---- To the PE to which the call goes.

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    held_end(arg, result->status);
}

static void send_one(whi_chares *c, whi_held *held, size_t i, int to, uint64_t tag, bool empty) {
    const wh_frame *frame = &held->frames[i];
    wh_op_opts opts = {.size = sizeof(opts),
                       .timeout_ms = -1,
                       .mem = empty ? WH_MEM_HOST : frame->mem,
                       .device = frame->device,
                       .type = empty ? NULL : frame->type,
                       .done = on_sent,
                       .arg = held};
    held->left++;
    wh_status st =
        wh_pe_send_buffer(c->pe, to, frame->data, empty ? 0 : frame->size, tag, &opts, NULL);
    if (st != WH_PENDING)
        held_end(held, st);
}

// A buffer that this PE passes on.
typedef struct passing {
    whi_chares *chares;
    whi_held *held;
    size_t i;
    int to;
    uint64_t tag;
} passing;

static void pass(passing *p, const wh_result *result) {
    if (p->chares->pe->exit.state < WHI_END_STOPPED)
        // One that has not come goes on as nothing, by which the receiver knows.
        send_one(p->chares, p->held, p->i, p->to, p->tag,
                 result->status != WH_OK || result->size != p->held->frames[p->i].size);
    held_end(p->held, result->status);
    whi_free(p);
}

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    pass(arg, result);
}

static wh_status pass_on(whi_chares *c, whi_held *held, size_t i, int source, uint32_t number,
                         int to, uint64_t tag) {
    wh_frame *frame = &held->frames[i];
    passing *p = whi_malloc(sizeof(*p));
    frame->data = whi_aligned_alloc(64, frame->size);
    frame->mem = WH_MEM_HOST;
    if (!p || !frame->data) {
        whi_free(p);
        return WH_ENOMEM;
    }
    *p = (passing){c, held, i, to, tag};
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {.size = sizeof(opts),
                       .timeout_ms = -1,
                       .mem = WH_MEM_HOST,
                       .done = on_received,
                       .arg = p,
                       .result = &result};
    held->left++;
    wh_status st = wh_pe_recv_buffer(c->pe, source, frame->data, frame->size,
                                     WH_PE_TAG(WH_PE_TAG_BUFFER, source, number), &opts, NULL);
    if (st != WH_PENDING) {
        result.status = st;
        pass(p, &result);
    }
    return WH_OK;
}

static wh_status send_all(whi_chares *c, whi_call *call, int to, whi_held *held,
                          const struct row *rows) {
    wh_status st = WH_OK;
    for (size_t i = 0; st == WH_OK && i < call->buffers; i++) {
        uint64_t tag;
        if (rows[i].number == IN_MESSAGE)
            continue;
        st = wh_pe_next_tag(c->pe, to, &tag);
        if (st != WH_OK)
            return st;
        set_number(call, i, tag);
        if (!held->owned) {
            send_one(c, held, i, to, tag, false);
            continue;
        }
        held->frames[i].size = (size_t)rows[i].size;
        st = pass_on(c, held, i, call->msg->pub.source, rows[i].number, to, tag);
    }
    return st;
}

void whi_buffers_send(whi_chares *c, whi_call *call, int to) {
    if (!call->buffers)
        return;
    struct row *rows = whi_calloc(call->buffers, sizeof(*rows));
    whi_held *held = call->held ? call->held : new_held(call->buffers);
    wh_status st = rows && held ? read_rows(call, rows) : WH_ENOMEM;
    if (held && !call->held)
        held->owned = true;
    call->held = NULL;
    if (st == WH_OK)
        st = send_all(c, call, to, held, rows);
    if (held)
        held_end(held, st);
    whi_free(rows);
    if (st != WH_OK)
        whi_pe_fail(c->pe, "the buffers of a message to PE %d cannot be sent: %s", to,
                    wh_status_text(st));
}

// whi_buffers_refuse has what comes for a call that nobody gets thrown away.
void whi_buffers_refuse(whi_chares *c, whi_call *call) {
    struct row *rows = whi_calloc((size_t)call->buffers + 1, sizeof(*rows));
    if (rows && call->buffers && !call->held && read_rows(call, rows) == WH_OK)
        for (size_t i = 0; i < call->buffers; i++)
            if (rows[i].number != IN_MESSAGE &&
                wh_pe_recv_buffer(
                    c->pe, call->msg->pub.source, NULL, 0,
                    WH_PE_TAG(WH_PE_TAG_BUFFER, call->msg->pub.source, rows[i].number), NULL,
                    NULL) == WH_ENOMEM)
                whi_pe_fail(c->pe, "there is no memory to refuse a buffer");
    whi_free(rows);
}

// ---- Where the element is.

static void landed(whi_posted *posted) {
    if (--posted->left == 0)
        whi_pe_do(posted->chares->pe, &posted->ready);
}

static void on_landed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    struct row *row = arg;
    if (result->status != WH_OK || result->size != row->size)
        row->posted->status = result->status != WH_OK ? result->status : WH_EPEER;
    landed(row->posted);
}

static void run_ready(wh_pe *pe, whi_ready *ready) {
    (void)pe;
    whi_posted *posted = whi_container_of(ready, whi_posted, ready);
    posted->landed = true;
    whi_element_advance(posted->chares, posted->call->element);
}

static void drop_ready(whi_ready *ready) {
    (void)ready;  // it goes with its call
}

static wh_status place(whi_posted *posted, size_t i) {
    wh_frame *frame = &posted->frames[i];
    struct row *row = &posted->rows[i];
    size_t bytes = (size_t)row->size, actual;
    if (row->data && !frame->data && posted->owned)
        frame->data = (void *)(uintptr_t)row->data;
    else if (!frame->data && posted->owned && bytes)
        frame->data = row->memory = whi_aligned_alloc(64, bytes);
    if (bytes && !frame->data)
        return posted->owned ? WH_ENOMEM : WH_EINVAL;
    if (bytes_of(frame) < bytes)
        return WH_ETRUNCATED;
    if (row->number != IN_MESSAGE || !bytes || frame->data == row->data)
        return WH_OK;
    if (frame->type)
        return wh_unpack(row->data, bytes, frame->data, (int64_t)frame->size, frame->type, 0, 0,
                         &actual);
    return wh_mem_copy(frame->data, frame->mem, row->data, WH_MEM_HOST, bytes);
}

static void receive(whi_posted *posted, size_t i, int source, bool refuse) {
    const wh_frame *frame = &posted->frames[i];
    struct row *row = &posted->rows[i];
    if (row->number == IN_MESSAGE)
        return;
    wh_result result = {.status = WH_OK};
    wh_op_opts opts = {.size = sizeof(opts),
                       .timeout_ms = -1,
                       .mem = refuse ? WH_MEM_HOST : frame->mem,
                       .device = refuse ? 0 : frame->device,
                       .type = refuse ? NULL : frame->type,
                       .done = on_landed,
                       .arg = row,
                       .result = &result};
    posted->left++;
    wh_status st = wh_pe_recv_buffer(posted->chares->pe, source, refuse ? NULL : frame->data,
                                     refuse ? 0 : frame->size,
                                     WH_PE_TAG(WH_PE_TAG_BUFFER, source, row->number), &opts, NULL);
    if (st == WH_PENDING)
        return;
    result.status = st;
    on_landed(NULL, &result, row);
}

static whi_posted *new_posted(whi_chares *c, whi_call *call) {
    whi_posted *posted = whi_calloc(1, sizeof(*posted) + call->buffers * sizeof(wh_frame));
    struct row *rows = whi_calloc(call->buffers, sizeof(*rows));
    if (!posted || !rows || read_rows(call, rows) != WH_OK) {
        whi_free(posted);
        whi_free(rows);
        return NULL;
    }
    posted->ready = (whi_ready){.run = run_ready, .drop = drop_ready};
    posted->chares = c;
    posted->call = call;
    posted->count = call->buffers;
    posted->rows = rows;
    posted->left = 1;
    for (size_t i = 0; i < posted->count; i++) {
        rows[i].posted = posted;
        posted->frames[i].size = (size_t)rows[i].size;
    }
    return posted;
}

bool whi_buffers_post(whi_chares *c, whi_call *call, wh_post_fn post) {
    int source = call->held ? c->pe->number : call->msg->pub.source;
    // On one PE, too, they go by tag: from memory of any kind to memory of any kind.
    if (call->held)
        whi_buffers_send(c, call, source);
    whi_posted *posted = new_posted(c, call);
    if (!posted) {
        whi_pe_fail(c->pe, "the buffers of a message of PE %d cannot be received", source);
        return false;
    }
    call->posted = posted;
    posted->owned = !post;
    c->pe->quiet.made++;
    if (post) {
        wh_call pub = whi_call_public(call);
        post(&call->element->pub, &pub, posted->frames);
    }
    for (size_t i = 0; i < posted->count && posted->status == WH_OK; i++)
        posted->status = place(posted, i);
    bool refuse = posted->status != WH_OK;
    for (size_t i = 0; i < posted->count; i++)
        receive(posted, i, source, refuse);
    landed(posted);
    return true;
}

bool whi_buffers_landed(const whi_call *call) {
    return !call->posted || call->posted->landed;
}

wh_status whi_buffers_status(const whi_call *call) {
    return call->posted ? call->posted->status : WH_OK;
}

const wh_frame *whi_buffers_frames(const whi_call *call) {
    return call->posted ? call->posted->frames : NULL;
}

void whi_buffers_free(whi_posted *posted) {
    for (size_t i = 0; i < posted->count; i++)
        whi_free(posted->rows[i].memory);
    whi_free(posted->rows);
    whi_free(posted);
}
