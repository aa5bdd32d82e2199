// SPDX-License-Identifier: BSD-3-Clause
//
// Packing and reducing where a side is a device's memory: who does it, and through what.
//
// A kernel does it where it reaches the layout, on the device where that lies; packed bytes that it does not reach
// pass through a chunk of pinned memory.  A layout in plain host memory is the host engine's, with such a chunk, too.
// Any thread.
#ifndef WHI_TYPE_ON_DEVICE_H
#define WHI_TYPE_ON_DEVICE_H

#include "mem/mem.h"
#include "type/move.h"
#include "type/plan.h"

typedef struct whi_device_call whi_device_call;

// How to learn that what was submitted is done.  Its owner releases the event.
typedef struct whi_device_end {
    whi_mem_event event;  // without ops: it is done
    int device;           // whose stream it is on
    void *stream;
} whi_device_end;

struct whi_device_call {
    const char *function;  // of the user's call
    const wh_type *type;
    const whi_plan *plan;  // of bytes to move, typed to accumulate
    uintptr_t buf;
    int64_t count;
    int64_t from, to;
    char *packed;
    bool unpack;        // else the result goes to the packed side
    bool reads_packed;  // also where the result goes there
    bool on_stream;     // in the order of `stream`, and not waited for if need not be
    void *stream;
    whi_device_end *end;  // without a stream: not waited for if need not be; NULL: waited for
    int op;               // wh_reduce, or WHI_DEVICE_MOVES
    unsigned grain;       // of elements; 0: devices do not know their arithmetic

    // host does the same with a part whose packed bytes the CPU may touch; with a `copy`, which has the packed bytes of the
    // memory, in place of the memory.  border returns the last place not behind `at` where it may be cut.
    wh_status (*host)(const whi_device_call *call, int64_t from, int64_t to, char *packed,
                      char *copy);
    int64_t (*border)(const whi_device_call *call, int64_t at);
};

enum { WHI_DEVICE_MOVES = -1 };

// whi_device_has says whether memory of a device is among the two, of which the first is `count` elements of a type.
bool whi_device_has_any(uintptr_t buf, int64_t count, const wh_type *type, const void *packed);
static inline bool whi_device_has(uintptr_t buf, int64_t count, const wh_type *type,
                                  const void *packed) {
    return __builtin_expect(whi_mem_devices(), 0) && whi_device_has_any(buf, count, type, packed);
}

// whi_device_knows says whether devices have the arithmetic of a predefined type.
bool whi_device_knows(wh_type_id id);

// whi_device_run carries out a call.
WH_CHECK wh_status whi_device_run(const whi_device_call *call);

// whi_device_reaches says whether kernels reach `count` elements of a type, and on which device.
bool whi_device_reaches(uintptr_t buf, int64_t count, const wh_type *type, const whi_mem_ops *ops,
                        int *device);

// whi_device_part moves the packed bytes from `from` on, `size` of them, between a layout that kernels reach and `packed`,
// which the same kernels reach: pinned by the staging of its kind, or of the layout's device.  It is submitted to `stream`, of
// that device, and not waited for.
WH_CHECK wh_status whi_device_part(uintptr_t buf, int64_t count, const wh_type *type, int64_t from,
                                   size_t size, char *packed, whi_direction direction,
                                   void *stream);

// whi_device_order carries out an order of moving that has a device's memory on a side.
WH_CHECK wh_status whi_device_order(const char *function, const whi_order *order,
                                    const wh_type *type, bool on_stream, void *stream);

// whi_device_start does the same, and returns before it is done where a kernel reaches both sides; `end` says when it is.
// Until then buffers and type are borrowed.
WH_CHECK wh_status whi_device_start(const char *function, const whi_order *order,
                                    const wh_type *type, whi_device_end *end);

// whi_device_ended returns WH_PENDING until it is done, then WH_OK or the error of the device.  whi_device_await waits.
WH_CHECK wh_status whi_device_ended(const char *function, whi_device_end *end);
WH_CHECK wh_status whi_device_await(const char *function, whi_device_end *end);

#endif
