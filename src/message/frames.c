// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of frames, see frames.h.
//
// Allocators stand on three levels: a receive's, its endpoint's, its worker's, and the first that
// was set counts.  An object has a copy of those that were in force when it was matched, since
// their free functions are needed for as long as it lives.  Without an allocator, or below its
// threshold, a small frame lies in the object, and a large one is an allocation of its own: of host
// memory from the pool (mem/host_pool.h), which the worker watches while it uses it.
#include "message/frames.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/opts.h"
#include "mem/host_pool.h"
#include "mem/mem.h"
#include "message/endpoint.h"
#include "message/objects.h"

// ---- Setting allocators.

// take checks the user's struct.  NULL: as if nothing had been set.
static wh_status take(const wh_allocator *from, whi_allocator *to) {
    *to = (whi_allocator){.set = false};
    if (!from)
        return WH_OK;
    WHI_OPTS(wh_allocator, from);
    if (!from->alloc != !from->free_fn)
        return WH_EINVAL;
    *to = (whi_allocator){from->alloc, from->free_fn, from->arg, from->threshold, true};
    return WH_OK;
}

static bool is_kind(wh_mem_kind kind) {
    return kind > WH_MEM_AUTO && (int)kind < WHI_MEM_KINDS;
}

static wh_status set_of_worker(wh_worker *worker, wh_mem_kind kind, const wh_allocator *allocator) {
    whi_allocator made;
    wh_status st = is_kind(kind) ? take(allocator, &made) : WH_EINVAL;
    if (st == WH_OK)
        whi_messages_of(worker)->allocators[kind] = made;
    return st;
}

wh_status wh_worker_set_allocator(wh_worker *worker, wh_mem_kind kind,
                                  const wh_allocator *allocator) {
    return worker ? WHI_OWNED(worker, set_of_worker(worker, kind, allocator)) : WH_EINVAL;
}

static wh_status set_of_endpoint(wh_endpoint *ep, wh_mem_kind kind, const wh_allocator *allocator) {
    whi_allocator made;
    wh_status st = is_kind(kind) ? take(allocator, &made) : WH_EINVAL;
    if (st != WH_OK)
        return st;
    if (!ep->allocators && made.set)
        ep->allocators = whi_calloc(WHI_MEM_KINDS, sizeof(*ep->allocators));
    if (ep->allocators)
        ep->allocators[kind] = made;
    return ep->allocators || !made.set ? WH_OK : WH_ENOMEM;
}

wh_status wh_endpoint_set_allocator(wh_endpoint *ep, wh_mem_kind kind,
                                    const wh_allocator *allocator) {
    return ep ? WHI_OWNED(ep->worker, set_of_endpoint(ep, kind, allocator)) : WH_EINVAL;
}

wh_status whi_frames_own(wh_request *req, const wh_allocator *allocator) {
    whi_allocator made;
    wh_status st = take(allocator, &made);
    if (st != WH_OK || !made.set)
        return st;
    whi_object_of(req)->allocator = whi_memdup(&made, sizeof(made));
    return whi_object_of(req)->allocator ? WH_OK : WH_ENOMEM;
}

void whi_frames_disown(wh_request *req) {
    whi_free(whi_object_of(req)->allocator);
    whi_object_of(req)->allocator = NULL;
}

void whi_frames_release(wh_request *req) {
    whi_object_own *own = whi_object_of(req);
    for (size_t i = 0; i < own->frame_count; i++)
        whi_buffer_release(&own->frames[i]);
    if (own->frames != &own->frame)
        whi_free(own->frames);
}

// ---- Watching the pool.

static void watch(wh_worker *worker) {
    whi_message_room *room = whi_messages_of(worker);
    whi_timers_add(&worker->timers, &room->frames_timer,
                   whi_clock_ns() + worker->ctx->config.pool_idle * WHI_NS_PER_MS);
    room->frames_used = false;
}

// look_after gives back what has lain unused for one period.  When nothing is left, and nothing was
// allocated meanwhile that could come back soon, the watch ends: a program that receives nothing is
// not woken.
static void look_after(whi_timer *timer, void *arg) {
    (void)timer;
    wh_worker *worker = arg;
    whi_message_room *room = whi_messages_of(worker);
    uint64_t now = whi_clock_ns(), idle = worker->ctx->config.pool_idle * WHI_NS_PER_MS;
    if (whi_host_trim(now - idle) || room->frames_used)
        watch(worker);
    else
        whi_host_unwatch(&room->frames_watcher);
}

void whi_frames_init(wh_worker *worker) {
    whi_timer_init(&whi_messages_of(worker)->frames_timer, look_after, worker);
}

void whi_frames_fini(wh_worker *worker) {
    whi_host_unwatch(&whi_messages_of(worker)->frames_watcher);
}

static void *allocate_host(wh_worker *worker, size_t size) {
    whi_message_room *room = whi_messages_of(worker);
    uint64_t max = worker->ctx->config.pool_max;
    if (size >= WHI_HOST_KEPT && max) {
        if (!room->frames_watcher.watching) {
            whi_host_watch(&room->frames_watcher, max);
            watch(worker);
        }
        room->frames_used = true;
    }
    return whi_host_alloc(size);
}

// ---- Giving and freeing.

static wh_status give_destination(wh_request *req, whi_object_frame *f, const whi_buffer *given) {
    f->pub.data = whi_buffer_origin(given);
    f->pub.mem = (wh_mem_kind)given->kind;
    f->pub.device = given->device;
    f->origin = WHI_FRAME_GIVEN;
    if (whi_signature_clash(given->signature, f->signature, given->size == f->pub.size))
        return WH_ETYPE;
    if (f->pub.size <= given->size)
        return WH_OK;
    req->result.size = f->pub.size;
    return WH_ETRUNCATED;
}

static wh_status allocate(wh_worker *worker, whi_object_frame *f) {
    f->origin = WHI_FRAME_ALLOCATED;
    if (f->pub.mem != WH_MEM_HOST)
        return wh_mem_alloc_kind(f->pub.mem, f->pub.device, f->pub.size, &f->pub.data) == WH_OK
                   ? WH_OK
                   : WH_ENOMEM;
    f->pub.data = allocate_host(worker, f->pub.size);
    return f->pub.data ? WH_OK : WH_ENOMEM;
}

wh_status whi_frames_give(wh_request *req, wh_object *object, size_t index) {
    whi_object_frame *f = &object->frames[index];
    const whi_object_own *own = whi_object_of(req);
    if (index < own->frame_count && whi_frames_given(&own->frames[index]))
        return give_destination(req, f, &own->frames[index]);
    // A device that this machine has not and nobody answers for: the bytes come to the host.
    if (!whi_frames_asks(&object->allocators[f->pub.mem], f->pub.size) &&
        !whi_mem_ops_of(f->pub.mem))
        f->pub.mem = WH_MEM_HOST;
    const whi_allocator *a = &object->allocators[f->pub.mem];
    if (whi_frames_asks(a, f->pub.size)) {
        f->origin = WHI_FRAME_ASKED;
        f->pub.data = NULL;  // which says that it is awaited
        return a->alloc(object, index, &f->pub.data, a->arg);
    }
    if (f->follows || f->pub.mem != WH_MEM_HOST)
        return allocate(req->worker, f);
    f->pub.data = (void *)(uintptr_t)f->packed;
    f->origin = WHI_FRAME_INSIDE;
    return WH_OK;
}

void whi_frames_free(wh_object *object, whi_object_frame *f) {
    const whi_allocator *a = &object->allocators[f->pub.mem];
    if (f->origin == WHI_FRAME_ASKED)
        a->free_fn(f->pub.data, f->pub.size, f->pub.mem, f->pub.device, a->arg);
    else if (f->origin == WHI_FRAME_ALLOCATED && wh_mem_free_kind(f->pub.mem, f->pub.data) != WH_OK)
        whi_log(WHI_WARN, "W-OBJ-01", "a frame's %s memory could not be freed",
                wh_mem_kind_name(f->pub.mem));
}
