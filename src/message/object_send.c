// SPDX-License-Identifier: BSD-3-Clause
//
// Sending objects through requests, see objects.h.
//
// The buffer of the request is the user's header until whi_object_make_envelope, then the envelope, which the request owns.
#include <string.h>

#include "base/alloc.h"
#include "message/bulk_lane.h"
#include "message/frames.h"
#include "message/objects.h"
#include "message/offer.h"
#include "message/send.h"

static bool follows(const wh_request *req, size_t index) {
    const whi_buffer *frame = &whi_object_of(req)->frames[index];
    if (whi_object_of(req)->packs_all)
        return false;
    size_t limit = WHI_PACKED_ALL / whi_object_of(req)->frame_count;
    if (limit > WHI_PACKED_MAX)
        limit = WHI_PACKED_MAX;
    return frame->size && (frame->kind != WH_MEM_HOST || frame->size > limit);
}

static uint64_t data_size(const wh_request *req) {
    uint64_t size = 0;
    for (size_t i = 0; i < whi_object_of(req)->frame_count; i++)
        if (follows(req, i))
            size += whi_object_of(req)->frames[i].size;
    return size;
}

static whi_buffer *after(const wh_request *req, uint32_t *segment) {
    const whi_object_own *own = whi_object_of(req);
    do
        ++*segment;
    while (*segment <= own->frame_count && !follows(req, *segment - 1));
    return *segment <= own->frame_count ? &own->frames[*segment - 1] : NULL;
}

static void next_segment(wh_request *req) {
    (void)after(req, &req->segment);
    req->offset = 0;
}

static uint64_t envelope_size(const wh_request *req) {
    uint64_t size = sizeof(whi_envelope) +
                    whi_object_of(req)->frame_count * sizeof(whi_wire_frame) + req->buf.size;
    for (size_t i = 0; i < whi_object_of(req)->frame_count; i++)
        if (!follows(req, i))
            size += whi_object_of(req)->frames[i].size;
    return size;
}

// fits_one_record says whether the whole object does, as far as this side decides: it is then done without an answer of
// the receiver's.
static bool fits_one_record(const wh_request *req) {
    uint64_t limit = req->worker->eager_max;
    uint64_t size = sizeof(whi_envelope) +
                    whi_object_of(req)->frame_count * sizeof(whi_wire_frame) + req->buf.size;
    for (size_t i = 0; i < whi_object_of(req)->frame_count && size <= limit; i++) {
        if (whi_object_of(req)->frames[i].kind != WH_MEM_HOST ||
            whi_object_of(req)->frames[i].size > limit)
            return false;
        size += whi_object_of(req)->frames[i].size;
    }
    return size <= limit;
}

wh_status whi_object_make_envelope(wh_request *req) {
    // Another thread cannot know whether there is credit for a record; where there is not, what is packed goes with the
    // announcement.  The owner knows, and what it announces can be withdrawn without having moved.
    whi_object_of(req)->packs_all = req->foreign && fits_one_record(req);
    uint64_t size = envelope_size(req);
    char *made = whi_malloc(size);
    if (!made)
        return WH_ENOMEM;
    wh_status st = WH_OK;
    size_t count = whi_object_of(req)->frame_count;
    whi_envelope_writer w = whi_envelope_begin(made, count, req->buf.ptr, req->buf.size);
    for (size_t i = 0; i < count; i++) {
        const whi_buffer *buf = &whi_object_of(req)->frames[i];
        bool later = follows(req, i);
        char *at = w.at;
        whi_envelope_frame(&w, buf->direct ? buf->ptr : NULL, buf->size, (wh_mem_kind)buf->kind,
                           buf->signature, later);
        if (!later && !buf->direct && st == WH_OK)
            st = whi_buffer_read(buf, 0, at, buf->size);
    }
    req->buf = whi_buffer_host(made, size);
    whi_object_of(req)->envelope_made = 1;
    return st;
}

// granted: the whole envelope, or all frames that follow it.
static wh_status granted(const wh_request *req, const whi_hdr *hdr) {
    uint64_t size = hdr->aux == WHI_PART_DATA ? data_size(req) : req->buf.size;
    return hdr->aux <= WHI_PART_ENVELOPE && hdr->arg == size ? WH_OK : WH_EPROTOCOL;
}

static whi_buffer *source(const wh_request *req) {
    return req->part == WHI_PART_DATA ? &whi_object_of(req)->frames[req->segment - 1]
                                      : (whi_buffer *)(uintptr_t)&req->buf;
}

// pieces lists the frames that follow, if all are the host's.
static unsigned pieces(const wh_request *req, uint64_t from[WHI_OFFER_PIECES]) {
    const whi_object_own *own = whi_object_of(req);
    unsigned count = 0;
    for (size_t i = 0; i < own->frame_count; i++) {
        if (!follows(req, i))
            continue;
        if (count == WHI_OFFER_PIECES || !own->frames[i].direct)
            return 0;
        from[count++] = (uint64_t)(uintptr_t)own->frames[i].ptr;
    }
    return count;
}

// moved: after the envelope the grant of the data is to come.
static void moved(wh_request *req) {
    if (req->part != WHI_PART_ENVELOPE) {
        whi_req_complete(req, WH_OK);
        return;
    }
    req->stage = WHI_STAGE_ANNOUNCED;
    if (req->why)
        whi_send_withdraw(req, req->why);
}

// laid_out counts the frames that are no single run of host memory.
static size_t laid_out(const wh_request *req) {
    size_t count = 0;
    for (size_t i = 0; i < whi_object_of(req)->frame_count; i++)
        count += !whi_object_of(req)->frames[i].direct;
    return count;
}

// forget_signatures takes out of an envelope what a peer of an older version would not take.
static void forget_signatures(const wh_request *req) {
    char *table = (char *)req->buf.ptr + sizeof(whi_envelope);
    for (size_t i = 0; i < whi_object_of(req)->frame_count; i++) {
        char *at = table + i * sizeof(whi_wire_frame) + offsetof(whi_wire_frame, signature);
        memset(at, 0, sizeof(((whi_wire_frame *)0)->signature));
    }
}

// start knows the peer, which the thread that made the envelope may not.
static wh_status start(wh_request *req) {
    if (!(req->ep->link->peer.features & WHI_FEATURE_TYPES))
        forget_signatures(req);
    wh_status st = whi_send_start_message(req);
    if (st == WH_OK || st == WH_PENDING)
        req->ep->counters.packed += laid_out(req);
    return st;
}

// fini frees the envelope, if the request has one, and the frames.
static void fini(wh_request *req) {
    if (whi_object_of(req)->envelope_made)
        whi_free(req->buf.ptr);
    req->buf = whi_buffer_host(NULL, 0);
    whi_frames_release(req);
}

static bool on_cuda(const wh_request *req) {
    const whi_object_own *own = whi_object_of(req);
    for (size_t i = 0; i < own->frame_count; i++)
        if (follows(req, i) && whi_bulk_is_cuda(&own->frames[i]))
            return true;
    return false;
}

const whi_req_ops whi_object_send_ops = {.text = "object send",
                                         .post = whi_send_post,
                                         .start = start,
                                         .withdraw = whi_send_withdraw,
                                         .fini = fini,
                                         .cls = WHI_CLASS_OBJECT,
                                         .follows = data_size,
                                         .pieces = pieces,
                                         .on_cuda = on_cuda,
                                         .granted = granted,
                                         .source = source,
                                         .next = next_segment,
                                         .after = after,
                                         .moved = moved,
                                         .match = WHI_MATCH_NONE,
                                         .holds_close = true,
                                         .announces_buffer = true,
                                         .whole_parts = true};
