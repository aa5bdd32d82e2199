// SPDX-License-Identifier: BSD-3-Clause
//
// Cursors: a message that goes through its packed bytes in segments.
//
// A segment is packed like any other part, with one exception.  A row of a transpose takes one
// element out of each line of memory, and the next rows take the others; when a segment is shorter
// than the rows that share lines, most of every line fetched is thrown away.  So a cursor moves such a
// window of rows at once, through a buffer: it packs ahead of what is asked for, or keeps back what
// has come until the window is full.  What a segment covers as whole windows goes directly.
//
// Invariant: the packed bytes `kept` lie in the buffer, which begins where `window` does; they
// are packed ahead (direction PACK: all of the window) or wait to be unpacked (direction UNPACK).
#include <string.h>

#include "base/alloc.h"
#include "type/crew.h"
#include "type/on_device.h"
#include "type/pack.h"

enum {
    LINE = 64,
    WINDOW_MAX = 1 << 19,  // bytes; a larger one would not stay near, and costs memory
};

struct wh_cursor {
    whi_elements elements;
    const wh_type *type;
    bool nontemporal[2];  // whether the whole message, packed or unpacked, goes around the cache
    char *buffer;         // of the largest window; NULL when the layout has none
    whi_window window;    // whose bytes the buffer holds
    whi_window kept;
    whi_direction direction;
};

wh_status wh_cursor_create(void *buf, int64_t count, const wh_type *type, unsigned flags,
                           wh_cursor **cursor) {
    whi_elements elements;
    wh_status status = whi_elements_open("wh_cursor_create", buf, count, type, flags, &elements);
    if (status != WH_OK)
        return status;
    if (!cursor)
        return whi_type_fail(WH_EINVAL, "wh_cursor_create: cursor is NULL");
    // Kernels touch each line once whatever the segment.
    int64_t window =
        whi_device_has(elements.buf, count, type, NULL) ? 0 : whi_elements_window_max(&elements);
    wh_cursor *made = whi_calloc(1, sizeof(*made));
    char *buffer = NULL;
    if (window && window <= WINDOW_MAX)
        buffer = whi_aligned_alloc(LINE, (size_t)(window + LINE - 1) / LINE * LINE);
    if (!made || (window && window <= WINDOW_MAX && !buffer)) {
        whi_free(buffer);
        whi_free(made);
        return whi_type_fail(WH_ENOMEM, "wh_cursor_create: out of memory");
    }
    *made = (wh_cursor){.elements = elements, .buffer = buffer};
    for (int direction = WHI_PACK; direction <= WHI_UNPACK; direction++)
        made->nontemporal[direction] =
            whi_elements_nontemporal(&elements, elements.total, flags, (whi_direction)direction);
    made->type = wh_type_retain(whi_type_mutable(type));
    *cursor = made;
    return WH_OK;
}

static void move(const wh_cursor *c, int64_t from, int64_t to, char *packed,
                 whi_direction direction, bool nontemporal) {
    whi_order order = {c->elements, from, to, packed, direction, nontemporal};
    whi_crew_run(&order);
}

static void flush(wh_cursor *c) {
    if (c->direction == WHI_UNPACK && c->kept.from < c->kept.to)
        move(c, c->kept.from, c->kept.to, c->buffer + (c->kept.from - c->window.from), WHI_UNPACK,
             c->nontemporal[WHI_UNPACK]);
    c->kept = (whi_window){0, 0};
}

// Each of these moves a first part of [at, to) and returns where it ends.
static int64_t pack_some(wh_cursor *c, int64_t at, int64_t to, char *packed) {
    if (at < c->kept.from || at >= c->kept.to) {
        whi_window window = whi_elements_window(&c->elements, at);
        if (at == window.from && window.to <= to) {
            move(c, at, window.to, packed, WHI_PACK, c->nontemporal[WHI_PACK]);
            return window.to;
        }
        move(c, window.from, window.to, c->buffer, WHI_PACK, false);
        c->window = c->kept = window;
    }
    to = to < c->kept.to ? to : c->kept.to;
    const char *from = c->buffer + (at - c->window.from);
    if (c->nontemporal[WHI_PACK])
        whi_nontemporal_copy(packed, from, to - at);
    else
        memcpy(packed, from, (size_t)(to - at));
    return to;
}

static int64_t unpack_some(wh_cursor *c, int64_t at, int64_t to, const char *packed) {
    if (at != c->kept.to || c->kept.from == c->kept.to) {
        flush(c);
        c->window = whi_elements_window(&c->elements, at);
        if (at == c->window.from && c->window.to <= to) {
            move(c, at, c->window.to, (char *)(uintptr_t)packed, WHI_UNPACK,
                 c->nontemporal[WHI_UNPACK]);
            return c->window.to;
        }
        c->kept = (whi_window){at, at};
    }
    to = to < c->window.to ? to : c->window.to;
    memcpy(c->buffer + (at - c->window.from), packed, (size_t)(to - at));
    c->kept.to = to;
    if (to == c->window.to)
        flush(c);
    return to;
}

static wh_status check(const char *function, wh_cursor *c, size_t offset, const void *packed,
                       size_t max, const size_t *actual, whi_order *order) {
    if (!c)
        return whi_type_fail(WH_EINVAL, "%s: cursor is NULL", function);
    order->elements = c->elements;
    wh_status status = whi_order_part(function, order, offset, packed, max, actual);
    if (status == WH_OK && c->direction != order->direction) {
        flush(c);
        c->direction = order->direction;
    }
    return status;
}

// on_device carries out an order of which a side is a device's; *status is then what became of it.
static bool on_device(const char *function, wh_cursor *c, const whi_order *order, size_t *actual,
                      wh_status *status) {
    const whi_elements *e = &order->elements;
    if (!whi_device_has(e->buf, e->count, c->type, order->packed))
        return false;
    flush(c);
    *status = whi_device_order(function, order, c->type, false, NULL);
    if (*status == WH_OK)
        *actual = (size_t)(order->to - order->from);
    return true;
}

wh_status wh_cursor_pack(wh_cursor *c, size_t offset, void *packed, size_t max, size_t *actual) {
    whi_order order = {.direction = WHI_PACK};
    wh_status status = check("wh_cursor_pack", c, offset, packed, max, actual, &order);
    if (status != WH_OK || on_device("wh_cursor_pack", c, &order, actual, &status))
        return status;
    if (!c->buffer)
        move(c, order.from, order.to, packed, WHI_PACK, c->nontemporal[WHI_PACK]);
    for (int64_t at = order.from; c->buffer && at < order.to;)
        at = pack_some(c, at, order.to, (char *)packed + (at - order.from));
    if (c->buffer && c->nontemporal[WHI_PACK])
        whi_nontemporal_fence();
    *actual = (size_t)(order.to - order.from);
    return WH_OK;
}

wh_status wh_cursor_unpack(wh_cursor *c, size_t offset, const void *packed, size_t size,
                           size_t *actual) {
    whi_order order = {.direction = WHI_UNPACK};
    wh_status status = check("wh_cursor_unpack", c, offset, packed, size, actual, &order);
    if (status != WH_OK || on_device("wh_cursor_unpack", c, &order, actual, &status))
        return status;
    if (!c->buffer)
        move(c, order.from, order.to, order.packed, WHI_UNPACK, c->nontemporal[WHI_UNPACK]);
    for (int64_t at = order.from; c->buffer && at < order.to;)
        at = unpack_some(c, at, order.to, (const char *)packed + (at - order.from));
    *actual = (size_t)(order.to - order.from);
    return WH_OK;
}

wh_status wh_cursor_flush(wh_cursor *c) {
    if (!c)
        return whi_type_fail(WH_EINVAL, "wh_cursor_flush: cursor is NULL");
    flush(c);
    return WH_OK;
}

void wh_cursor_destroy(wh_cursor *c) {
    if (!c)
        return;
    wh_type_release(whi_type_mutable(c->type));
    whi_free(c->buffer);
    whi_free(c);
}
