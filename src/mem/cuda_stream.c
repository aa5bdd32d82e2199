// SPDX-License-Identifier: BSD-3-Clause
//
// The user's CUDA streams: copies in their order, and events, see cuda.h.
//
// The idea: a stream belongs to a context, and all that is done with it is done with that context
// current.  An event of ours is one of the driver's in the context of the stream it was recorded
// on: `handle` is the driver's, `ticket` is the context.
#include "base/log.h"
#include "mem/cuda.h"

static whi_cuda_context context_of_event(const whi_mem_event *event) {
    return (whi_cuda_context)(uintptr_t)event->ticket;
}

// enter_stream makes the context of a stream current.
static wh_status enter_stream(whi_cuda_stream stream, whi_cuda_context *context) {
    wh_status status = whi_cuda_context_of(stream, context);
    return status == WH_OK ? whi_cuda_enter(*context) : status;
}

wh_status whi_cuda_copy_async(whi_mem_direction direction, void *dst, const void *src, size_t size,
                              void *stream) {
    if (!size)
        return WH_OK;
    int device;
    wh_status status = whi_cuda_ranges(direction, dst, src, size, &device);
    if (status != WH_OK)
        return status;
    if (direction == WHI_MEM_WITHIN && whi_cuda_overlap(dst, src, size)) {
        whi_log(WHI_ERROR, "E-CUDA-08",
                "cuda: %zu bytes at %p and at %p overlap, which a copy in stream order cannot do",
                size, dst, src);
        return WH_EINVAL;
    }
    whi_cuda_context context;
    status = enter_stream(stream, &context);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuMemcpyAsync, (whi_cuda_ptr)(uintptr_t)dst, (whi_cuda_ptr)(uintptr_t)src,
                      size, stream);
    whi_cuda_leave();
    return status;
}

static wh_status make_event(whi_cuda_stream stream, whi_cuda_event *made) {
    wh_status status = WHI_CUDA(cuEventCreate, made, WHI_CUDA_EVENT_DISABLE_TIMING);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuEventRecord, *made, stream);
    if (status != WH_OK)
        (void)!WHI_CUDA(cuEventDestroy_v2, *made);
    return status;
}

wh_status whi_cuda_record(void *stream, whi_mem_event *event) {
    whi_cuda_context context;
    whi_cuda_event made;
    wh_status status = enter_stream(stream, &context);
    if (status != WH_OK)
        return status;
    status = make_event(stream, &made);
    whi_cuda_leave();
    if (status == WH_OK)
        *event = (whi_mem_event){
            .ops = &whi_mem_cuda, .handle = made, .ticket = (uint64_t)(uintptr_t)context};
    return status;
}

wh_status whi_cuda_wait(void *stream, const whi_mem_event *event) {
    whi_cuda_context context;
    wh_status status = enter_stream(stream, &context);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuStreamWaitEvent, stream, event->handle, 0);
    whi_cuda_leave();
    return status;
}

wh_status whi_cuda_query_event(const whi_mem_event *event) {
    wh_status status = whi_cuda_ready();
    if (status == WH_OK)
        status = whi_cuda_enter(context_of_event(event));
    if (status != WH_OK)
        return status;
    int result = whi_cuda.cuEventQuery(event->handle);
    status = result == WHI_CUDA_NOT_READY ? WH_PENDING : whi_cuda_check(result, "cuEventQuery");
    whi_cuda_leave();
    return status;
}

void whi_cuda_release_event(whi_mem_event *event) {
    // In a forked child the driver cannot be asked, and the event is the parent's.
    if (whi_cuda_open() != WH_OK || whi_cuda_enter(context_of_event(event)) != WH_OK)
        return;
    (void)!WHI_CUDA(cuEventDestroy_v2, event->handle);
    whi_cuda_leave();
}
