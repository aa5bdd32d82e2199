// SPDX-License-Identifier: BSD-3-Clause
//
// Packing that goes on while the caller does something else: a job for the crew with a handle.
//
// What is too small to share, or has nobody to share it with, is done at once; its request is over
// when it is born.  A request holds its type.  In a forked child the helpers are gone, and with them
// what they were doing: requests of the parent say so and can only be freed.  What a kernel does has an event in place
// of the job.
#include <assert.h>

#include "base/alloc.h"
#include "base/fork.h"
#include "type/crew.h"
#include "type/on_device.h"
#include "type/pack.h"

struct wh_pack_request {
    whi_job job;
    bool on_device;
    whi_device_end end;  // there
    bool over;           // nothing is left to be done, and nobody else looks at the job
    wh_status status;    // when it is over
    uint32_t generation;
    const wh_type *type;
    size_t size;
};

static void discard(wh_pack_request *req) {
    wh_type_release(whi_type_mutable(req->type));
    whi_free(req);
}

static wh_status start(const char *function, const void *buf, int64_t count, const wh_type *type,
                       size_t offset, const void *packed, size_t max, unsigned flags,
                       whi_direction direction, wh_pack_request **req) {
    whi_order order = {.direction = direction};
    size_t unused;
    wh_status status = whi_elements_open(function, buf, count, type, flags, &order.elements);
    if (status == WH_OK)
        status = whi_order_part(function, &order, offset, packed, max, &unused);
    if (status != WH_OK)
        return status;
    order.nontemporal =
        whi_elements_nontemporal(&order.elements, order.to - order.from, flags, direction);
    if (!req)
        return whi_type_fail(WH_EINVAL, "%s: req is NULL", function);
    wh_pack_request *made = whi_calloc(1, sizeof(*made));
    if (!made)
        return whi_type_fail(WH_ENOMEM, "%s: out of memory", function);
    made->size = (size_t)(order.to - order.from);
    made->generation = whi_fork_generation();
    made->type = wh_type_retain(whi_type_mutable(type));
    made->on_device = whi_device_has(order.elements.buf, count, type, packed);
    made->over = !made->on_device && !whi_crew_wanted(&order);
    if (made->on_device)
        status = whi_device_start(function, &order, type, &made->end);
    else if (made->over)
        whi_order_run(&order);
    else
        whi_crew_post(&made->job, &order);
    if (status == WH_OK)
        *req = made;
    else
        discard(made);
    return status;
}

wh_status wh_pack_start(const void *buf, int64_t count, const wh_type *type, size_t offset,
                        void *packed, size_t max, unsigned flags, wh_pack_request **req) {
    return start("wh_pack_start", buf, count, type, offset, packed, max, flags, WHI_PACK, req);
}

wh_status wh_unpack_start(const void *packed, size_t size, void *buf, int64_t count,
                          const wh_type *type, size_t offset, unsigned flags,
                          wh_pack_request **req) {
    return start("wh_unpack_start", buf, count, type, offset, packed, size, flags, WHI_UNPACK, req);
}

static bool is_lost(const wh_pack_request *req) {
    return !req->over && req->generation != whi_fork_generation();
}

// What a kernel did is over as soon as there is a status of it.
static void settle(wh_pack_request *req, wh_status status) {
    if (status == WH_PENDING)
        return;
    req->status = status;
    req->over = true;
    whi_mem_event_release(&req->end.event);
}

static void finish(wh_pack_request *req) {
    if (!req->over && req->on_device)
        settle(req, whi_device_await("wh_pack_request_wait", &req->end));
    else if (!req->over)
        whi_crew_finish(&req->job);
    req->over = true;
}

static wh_status outcome(const wh_pack_request *req, size_t *actual) {
    if (req->status == WH_OK)
        *actual = req->size;
    return req->status;
}

wh_status wh_pack_request_test(wh_pack_request *req, size_t *actual) {
    if (!req || !actual)
        return whi_type_fail(WH_EINVAL, "wh_pack_request_test: %s is NULL", req ? "actual" : "req");
    if (is_lost(req))
        return whi_type_fail(WH_EFORKED, "wh_pack_request_test: begun by the parent process");
    if (!req->over && req->on_device)
        settle(req, whi_device_ended("wh_pack_request_test", &req->end));
    else if (!req->over)
        req->over = whi_crew_done(&req->job);
    if (!req->over)
        return WH_PENDING;
    return outcome(req, actual);
}

wh_status wh_pack_request_wait(wh_pack_request *req, size_t *actual) {
    if (!req || !actual)
        return whi_type_fail(WH_EINVAL, "wh_pack_request_wait: %s is NULL", req ? "actual" : "req");
    if (is_lost(req))
        return whi_type_fail(WH_EFORKED, "wh_pack_request_wait: begun by the parent process");
    finish(req);
    return outcome(req, actual);
}

void wh_pack_request_free(wh_pack_request *req) {
    if (!req)
        return;
    if (!is_lost(req))
        finish(req);
    discard(req);
}
