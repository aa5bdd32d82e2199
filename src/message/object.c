// SPDX-License-Identifier: BSD-3-Clause
//
// A received object: its making from an envelope, which is checked, what its user may ask, and its end.
#include "message/object.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "link/wire.h"
#include "message/endpoint.h"
#include "message/frames.h"

// What a checked envelope has said.
typedef struct object_plan {
    const void *bytes;  // the envelope
    size_t size;
    uint32_t count;  // of frames
    uint64_t header_size;
    uint64_t data;  // bytes of the frames that follow
} object_plan;

// check_envelope finds out what an envelope describes: everything is checked here, before it is used.  The bytes are
// nobody's but ours: what lay in shared memory was copied before.
static wh_status check_envelope(const void *bytes, size_t size, object_plan *plan) {
    whi_envelope envelope;
    if (size < sizeof(envelope))
        return WH_EPROTOCOL;
    memcpy(&envelope, bytes, sizeof(envelope));
    uint32_t count = envelope.count_version >> 8;
    if ((envelope.count_version & 0xff) != WHI_OBJECT_VERSION || count > WH_OBJECT_FRAMES_MAX ||
        envelope.header_size > WH_OBJECT_HEADER_MAX)
        return WH_EPROTOCOL;
    uint64_t table = (uint64_t)count * sizeof(whi_wire_frame);
    if (size - sizeof(envelope) < table || size - sizeof(envelope) - table < envelope.header_size)
        return WH_EPROTOCOL;
    const char *frames = (const char *)bytes + sizeof(envelope);
    uint64_t left = size - sizeof(envelope) - table - envelope.header_size, data = 0;
    for (uint32_t i = 0; i < count; i++) {
        whi_wire_frame frame;
        memcpy(&frame, frames + i * sizeof(frame), sizeof(frame));
        bool follows = frame.flags & WHI_FRAME_FOLLOWS;
        if (frame.signature > UINT16_MAX || frame.kind == WH_MEM_AUTO ||
            frame.kind >= WHI_MEM_KINDS || (!follows && frame.size > left) ||
            (follows && !frame.size) || frame.size > UINT64_MAX / 2 - data)
            return WH_EPROTOCOL;
        if (follows)
            data += frame.size;
        else
            left -= frame.size;
    }
    if (left)
        return WH_EPROTOCOL;
    *plan = (object_plan){bytes, size, count, envelope.header_size, data};
    return WH_OK;
}

// own_size returns where the copy of an envelope begins: so that the header, behind the table, is at a multiple of 16.
static size_t own_size(size_t frames) {
    size_t size = sizeof(wh_object) + frames * sizeof(whi_object_frame) + sizeof(whi_envelope);
    return ((size + 15) & ~(size_t)15) - sizeof(whi_envelope);
}

static wh_status make(const object_plan *plan, wh_object **object) {
    enum { ZEROED_FIRST = 64 };
    size_t own = own_size(plan->count);
    wh_object *o = whi_malloc(own + plan->size);
    if (!o)
        return WH_ENOMEM;
    // In pieces, as in whi_req_init.
    memset(o, 0, ZEROED_FIRST);
    memset((char *)o + ZEROED_FIRST, 0, offsetof(wh_object, allocators) - ZEROED_FIRST);
    char *bytes = memcpy((char *)o + own, plan->bytes, plan->size);
    const char *table = bytes + sizeof(whi_envelope);
    char *at = bytes + sizeof(whi_envelope) + plan->count * sizeof(whi_wire_frame);
    o->count = plan->count;
    o->data = plan->data;
    o->header = at;
    o->header_size = plan->header_size;
    o->total = plan->header_size;
    at += plan->header_size;
    for (uint32_t i = 0; i < plan->count; i++) {
        whi_wire_frame frame;
        memcpy(&frame, table + i * sizeof(frame), sizeof(frame));
        whi_object_frame *f = &o->frames[i];
        *f = (whi_object_frame){.pub = {.size = frame.size, .mem = (wh_mem_kind)frame.kind},
                                .follows = (frame.flags & WHI_FRAME_FOLLOWS) != 0,
                                .signature = (uint16_t)frame.signature,
                                .packed = at};
        o->total += frame.size;
        at += f->follows ? 0 : frame.size;
    }
    *object = o;
    return WH_OK;
}

wh_status whi_object_read(const void *bytes, size_t size, bool announced, wh_object **object) {
    object_plan plan;
    wh_status st = check_envelope(bytes, size, &plan);
    if (st == WH_OK && plan.data && !announced)
        st = WH_EPROTOCOL;
    return st == WH_OK ? make(&plan, object) : st;
}

const void *whi_object_envelope(const wh_object *object, size_t *size) {
    *size = sizeof(whi_envelope) + object->count * sizeof(whi_wire_frame) + object->header_size;
    for (size_t i = 0; i < object->count; i++)
        *size += object->frames[i].follows ? 0 : object->frames[i].pub.size;
    return (const char *)object + own_size(object->count);
}

static void free_object(wh_object *object) {
    for (size_t i = 0; i < object->count; i++)
        if (whi_frames_must_free(&object->frames[i]))
            whi_frames_free(object, &object->frames[i]);
    whi_free(object);
}

void wh_object_free(wh_object *object) {
    // One that is still being received belongs to its request, and a detached one to the library.
    if (object && !object->request && !object->detached_from)
        free_object(object);
}

static bool is_awaited(const wh_object *object) {
    for (size_t i = 0; i < object->count; i++)
        if (object->frames[i].waiting)
            return true;
    return false;
}

static void free_if_answered(wh_object *object) {
    if (is_awaited(object))
        return;
    whi_list_remove(&object->detached_link);
    free_object(object);
}

void whi_object_detach(wh_object *object, wh_worker *worker) {
    object->request = NULL;
    object->detached_from = worker;
    whi_list_push_back(&whi_messages_of(worker)->detached, &object->detached_link);
    free_if_answered(object);
}

wh_status whi_object_answer_detached(wh_object *object, size_t index) {
    if (!object->frames[index].waiting)
        return WH_EINVAL;
    object->frames[index].waiting = false;
    free_if_answered(object);
    return WH_ECANCELLED;
}

void whi_object_free_detached(wh_worker *worker) {
    whi_list *node;
    while ((node = whi_list_pop_front(&whi_messages_of(worker)->detached)))
        free_object(whi_container_of(node, wh_object, detached_link));
}

const void *wh_object_header(const wh_object *object, size_t *size) {
    if (size)
        *size = object->header_size;
    return object->header;
}

size_t wh_object_count(const wh_object *object) {
    return object->count;
}

const wh_frame *wh_object_frame(const wh_object *object, size_t index) {
    return index < object->count ? &object->frames[index].pub : NULL;
}

uint64_t wh_object_tag(const wh_object *object) {
    return object->tag;
}

void *wh_object_arg(const wh_object *object) {
    return object->request ? object->request->arg : NULL;
}

wh_endpoint *wh_object_endpoint(const wh_object *object) {
    const wh_request *req = object->request;
    return req && req->ep && !req->ep->user_gone ? req->ep : NULL;
}

void *wh_object_take_frame(wh_object *object, size_t index) {
    if (index >= object->count || (object->frames[index].origin != WHI_FRAME_ALLOCATED &&
                                   object->frames[index].origin != WHI_FRAME_ASKED))
        return NULL;
    object->frames[index].origin = WHI_FRAME_GIVEN;
    return object->frames[index].pub.data;
}
