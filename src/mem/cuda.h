// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of the kind cuda share: contexts, pointers, streams.
//
// Any thread may call all functions.  Between whi_cuda_enter and whi_cuda_leave a context is current
// on the calling thread; whatever was current before is so again afterwards.
#ifndef WHI_MEM_CUDA_H
#define WHI_MEM_CUDA_H

#include "mem/cuda_driver.h"
#include "mem/mem.h"

enum { WHI_CUDA_DEVICES_MAX = 64 };  // in one process; machines have up to 16

typedef struct whi_cuda_device {
    whi_cuda_context context;  // the primary one, which the runtime API and all libraries share
    whi_cuda_stream stream;    // of ours, for copies that are waited for; waits for no other
} whi_cuda_device;

// What the driver says of a pointer.
typedef struct whi_cuda_pointer {
    unsigned type;  // WHI_CUDA_MEMORY_*, 0: none of CUDA's
    bool managed;
    int device;
    whi_cuda_ptr base;  // of the allocation; of virtual memory the range that was reserved
    size_t length;
    unsigned long long id;  // no other allocation of the process has or had it
} whi_cuda_pointer;

// whi_cuda_device_of returns a device, whose primary context is retained from the first call on
// until the process ends.  WH_ENOTFOUND: there is none of this number.
WH_CHECK wh_status whi_cuda_device_of(int number, const whi_cuda_device **device);

// whi_cuda_context_of finds the context of a stream.  The default streams are those of the
// context that is current, as in CUDA itself; where none is, those of the first device.
WH_CHECK wh_status whi_cuda_context_of(whi_cuda_stream stream, whi_cuda_context *context);

// whi_cuda_enter makes `context` current on this thread, whi_cuda_enter_device the primary one of a device; whi_cuda_leave ends
// that.
WH_CHECK wh_status whi_cuda_enter(whi_cuda_context context);
WH_CHECK wh_status whi_cuda_enter_device(int number);
void whi_cuda_leave(void);

// whi_cuda_ask says what `ptr` is, as far as the driver knows; it is asked each time.
void whi_cuda_ask(const void *ptr, whi_cuda_pointer *pointer);

// whi_cuda_ranges checks the sides of a copy that must be device memory, and returns the device that
// is to make it.
WH_CHECK wh_status whi_cuda_ranges(whi_mem_direction direction, const void *dst, const void *src,
                                   size_t size, int *device);

// whi_cuda_overlap says whether two ranges of `size` bytes have bytes in common.
static inline bool whi_cuda_overlap(const void *a, const void *b, size_t size) {
    return (whi_cuda_ptr)(uintptr_t)a - (whi_cuda_ptr)(uintptr_t)b < size ||
           (whi_cuda_ptr)(uintptr_t)b - (whi_cuda_ptr)(uintptr_t)a < size;
}

extern const whi_mem_staging whi_cuda_staging;
extern const whi_mem_sharing whi_cuda_sharing;
extern const whi_mem_kernels whi_cuda_kernels;

// The members of the vtable that have to do with the user's streams.
WH_CHECK wh_status whi_cuda_copy_async(whi_mem_direction direction, void *dst, const void *src,
                                       size_t size, void *stream);
WH_CHECK wh_status whi_cuda_record(void *stream, whi_mem_event *event);
WH_CHECK wh_status whi_cuda_wait(void *stream, const whi_mem_event *event);
WH_CHECK wh_status whi_cuda_query_event(const whi_mem_event *event);
void whi_cuda_release_event(whi_mem_event *event);

#endif
