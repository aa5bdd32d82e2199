// SPDX-License-Identifier: BSD-3-Clause
//
// Finding out what memory the sides of a call are, and the ways between them, see device.h.
//
// The invariant: a kernel is launched only when every byte that it may touch is inside memory that its device reaches,
// which is asked each time.
#include "type/on_device.h"

#include <assert.h>

#include "base/alloc.h"
#include "type/device/launch.h"
#include "type/walk.h"

enum { CHUNK = 1 << 20 };

// The lowest byte of the elements of a call, and how many there are up to the highest.
typedef struct range {
    void *low;
    size_t size;
} range;

static range range_of(uintptr_t buf, int64_t count, const wh_type *type) {
    int64_t last = (count - 1) * (type->at.ub - type->at.lb);
    int64_t low = type->at.true_lb + (last < 0 ? last : 0);
    int64_t high = type->at.true_ub + (last > 0 ? last : 0);
    return (range){(void *)(buf + (uintptr_t)low), (size_t)(high - low)};
}

bool whi_device_has_any(uintptr_t buf, int64_t count, const wh_type *type, const void *packed) {
    wh_mem_info info;
    if (count == 0 || type->at.size == 0)
        return false;
    whi_mem_query(range_of(buf, count, type).low, &info);
    if (info.kind == WH_MEM_HOST)
        whi_mem_query(packed, &info);
    return info.kind != WH_MEM_HOST;
}

typedef struct sides {
    const whi_mem_ops *ops;         // of the kernels
    const whi_mem_ops *packed_ops;  // of the packed side
    whi_mem_place layout, packed;
    int device;      // where it is done
    bool by_kernel;  // which reaches the layout there
} sides;

static bool reaches(const whi_mem_place *place, int device) {
    return place->shared || place->device == device;
}

static const whi_mem_ops *ops_of(const void *ptr) {
    wh_mem_info info;
    whi_mem_query(ptr, &info);
    return whi_mem_ops_of(info.kind);
}

static wh_status find_sides(const whi_device_call *call, sides *s) {
    range layout = range_of(call->buf, call->count, call->type);
    const whi_mem_ops *layout_ops = ops_of(layout.low);
    s->packed_ops = ops_of(call->packed);
    if (!layout_ops || !s->packed_ops)
        return whi_type_fail(WH_ENOTSUP, "%s: the kind of memory does not exist here",
                             call->function);
    bool on_host = layout_ops->kind == WH_MEM_HOST;
    s->ops = on_host ? s->packed_ops : layout_ops;
    if (!s->ops->kernels)
        return whi_type_fail(
            WH_ENOTSUP, "%s: nothing packs or reduces in memory of kind %s%s", call->function,
            wh_mem_kind_name(s->ops->kind),
            s->ops->kind == WH_MEM_HOST ? "in stream order: one side must be a device's" : "");
    s->packed = (whi_mem_place){.device = -1};
    wh_status status = s->ops->kernels->place(layout.low, layout.size, &s->layout);
    if (status == WH_OK && (s->packed_ops == s->ops || s->packed_ops->kind == WH_MEM_HOST))
        status = s->ops->kernels->place(call->packed, (size_t)(call->to - call->from), &s->packed);
    if (status != WH_OK)
        return whi_type_fail(status, "%s: the memory cannot be used by a kernel; the log says why",
                             call->function);
    s->device = s->packed.device >= 0 && (s->layout.shared || s->layout.device < 0)
                    ? s->packed.device
                    : s->layout.device;
    s->by_kernel = reaches(&s->layout, s->device);
    return WH_OK;
}

// What a predefined type is to arithmetic on devices; 0: they do not have it.
static whi_d32 element_of(wh_type_id id) {
    const whi_basic *basic = &whi_basics[id];
    // A long double that is not x87's.
    if (id == WH_TYPE_LONG_DOUBLE || id == WH_TYPE_COMPLEX_LONG_DOUBLE ||
        id == WH_TYPE_LONG_DOUBLE_INT)
        return 0;
    bool pair = basic->type_class == WHI_TYPE_CLASS_PAIR;
    return WHI_DEVICE_ELEMENT(pair ? basic->value_class : basic->type_class, basic->value,
                              basic->size, basic->index_at);
}

static wh_status submit(const whi_device_call *call, const sides *s, int64_t from, int64_t to,
                        const char *packed, void *stream) {
    const whi_layout *layout = &call->plan->normal;
    int64_t extent = call->type->at.ub - call->type->at.lb;
    bool run = layout->leaf.kind == WHI_RUN;
    whi_dim dims[WHI_DIMS + 1];
    whi_device_job job = {
        .ops = s->ops,
        .device = s->device,
        .stream = stream,
        .memory = call->buf + (uintptr_t)layout->off,
        .dims = dims,
        .dense = run && !layout->ndims && (call->count == 1 || layout->leaf.size == extent),
        .total = call->count * layout->size,
        .from = from,
        .to = to,
        .packed = (uintptr_t)packed,
        .unpack = call->unpack,
    };
    wh_status status = whi_device_image_of(call->plan, element_of, &job.image);
    if (status != WH_OK)
        return status;
    job.ndims = job.dense ? 0 : whi_walk_loops(layout, call->count, extent, dims);
    return call->op == WHI_DEVICE_MOVES
               ? whi_device_move(&job)
               : whi_device_accumulate(&job, (wh_reduce)call->op, call->grain,
                                       run ? element_of((wh_type_id)layout->leaf.tag) : 0);
}

// Without an event it is waited for.
static bool goes_on(const whi_device_call *call, const sides *s, void *stream) {
    whi_device_end *end = call->end;
    if (!end || s->ops->record(stream, &end->event) != WH_OK)
        return false;
    end->device = s->device;
    end->stream = stream;
    return true;
}

static wh_status run_directly(const whi_device_call *call, const sides *s) {
    void *stream = call->stream;
    wh_status status = call->on_stream ? WH_OK : s->ops->kernels->stream(s->device, &stream);
    if (status == WH_OK)
        status = submit(call, s, call->from, call->to, call->packed, stream);
    if (status != WH_OK || call->on_stream || goes_on(call, s, stream))
        return status;
    return s->ops->kernels->wait(s->device, stream);
}

// catch_up waits for what the caller's stream has to do before the call; afterwards the order is that of the calls.
static wh_status catch_up(const whi_device_call *call, const sides *s) {
    return call->on_stream ? s->ops->kernels->wait(s->device, call->stream) : WH_OK;
}

// ---- Through a chunk: both the CPU and the kernels of all devices touch it.

// One is kept for the next call; threads that pack at one time have one each.
static _Atomic(void *) spare;

static wh_status take_chunk(const sides *s, void **chunk) {
    *chunk = atomic_exchange(&spare, NULL);
    return *chunk ? WH_OK : s->ops->staging->pin(s->device, CHUNK, chunk);
}

static void give_chunk(const sides *s, void *chunk) {
    void *none = NULL;
    if (!atomic_compare_exchange_strong(&spare, &none, chunk))
        s->ops->staging->unpin(s->device, chunk);
}

// The part of the layout by whoever reaches that.
static wh_status work(const whi_device_call *call, const sides *s, int64_t from, int64_t to,
                      char *chunk, void *stream) {
    if (!s->by_kernel)
        return call->host(call, from, to, chunk, NULL);
    wh_status status = submit(call, s, from, to, chunk, stream);
    return status == WH_OK ? s->ops->kernels->wait(s->device, stream) : status;
}

static wh_status run_part(const whi_device_call *call, const sides *s, int64_t from, int64_t to,
                          char *chunk, void *stream) {
    char *packed = call->packed + (from - call->from);
    size_t size = (size_t)(to - from);
    wh_status status = call->reads_packed
                           ? whi_mem_copy(&whi_mem_host, chunk, s->packed_ops, packed, size)
                           : WH_OK;
    if (status == WH_OK)
        status = work(call, s, from, to, chunk, stream);
    if (status == WH_OK && !call->unpack)
        status = whi_mem_copy(s->packed_ops, packed, &whi_mem_host, chunk, size);
    return status;
}

static wh_status run_parts(const whi_device_call *call, const sides *s, char *chunk, void *stream) {
    wh_status status = WH_OK;
    for (int64_t from = call->from, to; from < call->to && status == WH_OK; from = to) {
        to = call->to - from > CHUNK ? call->border(call, from + CHUNK) : call->to;
        status = run_part(call, s, from, to, chunk, stream);
    }
    return status;
}

static wh_status run_through_chunk(const whi_device_call *call, const sides *s) {
    void *stream, *chunk;
    wh_status status = catch_up(call, s);
    if (status == WH_OK)
        status = s->ops->kernels->stream(s->device, &stream);
    if (status == WH_OK)
        status = take_chunk(s, &chunk);
    if (status != WH_OK)
        return status;
    status = run_parts(call, s, chunk, stream);
    give_chunk(s, chunk);
    return status;
}

// ---- Arithmetic that devices lack: both sides come to the host.

static wh_status reduce_copy(const whi_device_call *call, const sides *s, int64_t from, int64_t to,
                             char *mine) {
    size_t size = (size_t)(to - from), moved;
    char *theirs = mine + CHUNK, *packed = call->packed + (from - call->from);
    wh_status status = wh_pack((const void *)call->buf, call->count, call->type, (size_t)from, mine,
                               size, 0, &moved);
    if (status == WH_OK)
        status = whi_mem_copy(&whi_mem_host, theirs, s->packed_ops, packed, size);
    if (status == WH_OK)
        status = call->host(call, from, to, theirs, mine);
    if (status != WH_OK)
        return status;
    return call->unpack ? wh_unpack(mine, size, (void *)call->buf, call->count, call->type,
                                    (size_t)from, 0, &moved)
                        : whi_mem_copy(s->packed_ops, packed, &whi_mem_host, theirs, size);
}

static wh_status run_as_copies(const whi_device_call *call, const sides *s) {
    wh_status status = catch_up(call, s);
    char *both = status == WH_OK ? whi_malloc((size_t)2 * CHUNK) : NULL;
    if (!both)
        return status == WH_OK ? WH_ENOMEM : status;
    for (int64_t from = call->from, to; from < call->to && status == WH_OK; from = to) {
        to = call->to - from > CHUNK ? call->border(call, from + CHUNK) : call->to;
        status = reduce_copy(call, s, from, to, both);
    }
    whi_free(both);
    return status;
}

bool whi_device_knows(wh_type_id id) {
    return element_of(id) != 0;
}

static wh_status device_failed(const char *function, wh_status status) {
    return whi_type_fail(status, "%s: the device failed: %s; the log says why", function,
                         wh_status_text(status));
}

wh_status whi_device_run(const whi_device_call *call) {
    sides s = {.ops = NULL};
    if (call->from == call->to)
        return WH_OK;
    wh_status status = find_sides(call, &s);
    if (status != WH_OK)
        return status;
    assert(s.ops);
    bool direct = s.by_kernel && reaches(&s.packed, s.device);
    status = call->op != WHI_DEVICE_MOVES && !call->grain ? run_as_copies(call, &s)
             : direct                                     ? run_directly(call, &s)
                                                          : run_through_chunk(call, &s);
    return status == WH_OK ? WH_OK : device_failed(call->function, status);
}

// ---- Moving.

static wh_status move_on_host(const whi_device_call *call, int64_t from, int64_t to, char *packed,
                              char *copy) {
    size_t moved;
    (void)copy;
    return call->unpack ? wh_unpack(packed, (size_t)(to - from), (void *)call->buf, call->count,
                                    call->type, (size_t)from, 0, &moved)
                        : wh_pack((const void *)call->buf, call->count, call->type, (size_t)from,
                                  packed, (size_t)(to - from), 0, &moved);
}

static int64_t anywhere(const whi_device_call *call, int64_t at) {
    (void)call;
    return at;
}

static wh_status run_order(const char *function, const whi_order *order, const wh_type *type,
                           bool on_stream, void *stream, whi_device_end *end) {
    const whi_plan *plan;
    wh_status status = whi_plan_get(type, WHI_BYTES, &plan);
    if (status != WH_OK)
        return status;
    bool unpack = order->direction == WHI_UNPACK;
    const whi_device_call call = {
        .function = function,
        .type = type,
        .plan = plan,
        .buf = order->elements.buf,
        .count = order->elements.count,
        .from = order->from,
        .to = order->to,
        .packed = order->packed,
        .unpack = unpack,
        .reads_packed = unpack,
        .on_stream = on_stream,
        .stream = stream,
        .end = end,
        .op = WHI_DEVICE_MOVES,
        .host = move_on_host,
        .border = anywhere,
    };
    return whi_device_run(&call);
}

wh_status whi_device_order(const char *function, const whi_order *order, const wh_type *type,
                           bool on_stream, void *stream) {
    return run_order(function, order, type, on_stream, stream, NULL);
}

// ---- For requests.

wh_status whi_device_start(const char *function, const whi_order *order, const wh_type *type,
                           whi_device_end *end) {
    *end = (whi_device_end){.event.ops = NULL};
    return run_order(function, order, type, false, NULL, end);
}

wh_status whi_device_ended(const char *function, whi_device_end *end) {
    wh_status status = whi_mem_event_query(&end->event);
    return status == WH_OK || status == WH_PENDING ? status : device_failed(function, status);
}

wh_status whi_device_await(const char *function, whi_device_end *end) {
    const whi_mem_ops *ops = end->event.ops;
    wh_status status = ops ? ops->kernels->wait(end->device, end->stream) : WH_OK;
    return status == WH_OK ? WH_OK : device_failed(function, status);
}

// ---- For staging.

bool whi_device_reaches(uintptr_t buf, int64_t count, const wh_type *type, const whi_mem_ops *ops,
                        int *device) {
    range layout = range_of(buf, count, type);
    whi_mem_place place;
    if (!ops->kernels || ops->kernels->place(layout.low, layout.size, &place) != WH_OK ||
        place.device < 0)
        return false;
    *device = place.device;
    return true;
}

wh_status whi_device_part(uintptr_t buf, int64_t count, const wh_type *type, int64_t from,
                          size_t size, char *packed, whi_direction direction, void *stream) {
    const whi_order order = {
        .elements = {.buf = buf, .count = count},
        .from = from,
        .to = from + (int64_t)size,
        .packed = packed,
        .direction = direction,
    };
    return whi_device_order("opts->type", &order, type, true, stream);
}
