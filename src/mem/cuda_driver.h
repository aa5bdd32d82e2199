// SPDX-License-Identifier: BSD-3-Clause
//
// The CUDA driver: the entry points of libcuda that are used, opened at run time.  For the files
// src/mem/cuda*.c only; docs/design/cuda.md says why it is so.
//
// One list names the entry points; the table of pointers and the code that fills it expand it.  No
// header of CUDA is needed: what is declared here is the driver's binary interface, which does not
// change under these names.  Any thread may call all of it.
#ifndef WHI_MEM_CUDA_DRIVER_H
#define WHI_MEM_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include <wherry/status.h>

typedef unsigned long long whi_cuda_ptr;  // an address, of a device or with unified addressing any
typedef struct CUctx_st *whi_cuda_context;
typedef struct CUstream_st *whi_cuda_stream;
typedef struct CUevent_st *whi_cuda_event;

// Results of calls, those that are told apart; all others are passed on with their name.
enum {
    WHI_CUDA_SUCCESS = 0,
    WHI_CUDA_INVALID_VALUE = 1,
    WHI_CUDA_OUT_OF_MEMORY = 2,
    WHI_CUDA_NOT_INITIALIZED = 3,
    WHI_CUDA_DEINITIALIZED = 4,
    WHI_CUDA_STUB_LIBRARY = 34,
    WHI_CUDA_NO_DEVICE = 100,
    WHI_CUDA_INVALID_DEVICE = 101,
    WHI_CUDA_INVALID_CONTEXT = 201,
    WHI_CUDA_INVALID_HANDLE = 400,
    WHI_CUDA_NOT_READY = 600,
    WHI_CUDA_ILLEGAL_ADDRESS = 700,
    WHI_CUDA_CONTEXT_IS_DESTROYED = 709,
    WHI_CUDA_LAUNCH_FAILED = 719,
    WHI_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    WHI_CUDA_CAPTURE_UNSUPPORTED = 900,
    WHI_CUDA_CAPTURE_LAST = 907,  // 900 to 907 are about streams that are being captured
};

// What can be asked of a pointer.
enum {
    WHI_CUDA_POINTER_MEMORY_TYPE = 2,
    WHI_CUDA_POINTER_BUFFER_ID = 7,
    WHI_CUDA_POINTER_IS_MANAGED = 8,
    WHI_CUDA_POINTER_DEVICE_ORDINAL = 9,
    WHI_CUDA_POINTER_RANGE_START = 11,
    WHI_CUDA_POINTER_RANGE_SIZE = 12,
};

enum {
    WHI_CUDA_MEMORY_HOST = 1,  // the CPU's, pinned
    WHI_CUDA_MEMORY_DEVICE = 2,
    WHI_CUDA_STREAM_NON_BLOCKING = 1,  // does not wait for the default stream, nor it for this one
    WHI_CUDA_EVENT_DISABLE_TIMING = 2,
    WHI_CUDA_HOST_PORTABLE = 1,      // pinned for all contexts
    WHI_CUDA_STREAM_PER_THREAD = 2,  // the last handle that names no stream of one context
};

// The oldest driver that can tell an allocation's range: that of CUDA 11.0.
enum { WHI_CUDA_OLDEST = 11000 };

// clang-format off
#define WHI_CUDA_CALLS(X)                                                                          \
    X(cuInit, (unsigned flags))                                                                    \
    X(cuDriverGetVersion, (int *version))                                                          \
    X(cuGetErrorName, (int result, const char **name))                                             \
    X(cuGetErrorString, (int result, const char **text))                                           \
    X(cuDeviceGetCount, (int *count))                                                              \
    X(cuDeviceGet, (int *device, int ordinal))                                                     \
    X(cuDeviceGetName, (char *name, int size, int device))                                         \
    X(cuDevicePrimaryCtxRetain, (whi_cuda_context *context, int device))                           \
    X(cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    X(cuCtxGetCurrent, (whi_cuda_context *context))                                                \
    X(cuCtxPushCurrent_v2, (whi_cuda_context context))                                             \
    X(cuCtxPopCurrent_v2, (whi_cuda_context *context))                                             \
    X(cuPointerGetAttributes, (unsigned count, int *attributes, void **data, whi_cuda_ptr ptr))    \
    X(cuMemAlloc_v2, (whi_cuda_ptr *ptr, size_t size))                                             \
    X(cuMemFree_v2, (whi_cuda_ptr ptr))                                                            \
    X(cuMemHostAlloc, (void **ptr, size_t size, unsigned flags))                                   \
    X(cuMemFreeHost, (void *ptr))                                                                  \
    X(cuMemcpyAsync, (whi_cuda_ptr dst, whi_cuda_ptr src, size_t size, whi_cuda_stream stream))    \
    X(cuStreamCreate, (whi_cuda_stream *stream, unsigned flags))                                   \
    X(cuStreamSynchronize, (whi_cuda_stream stream))                                               \
    X(cuStreamGetCtx, (whi_cuda_stream stream, whi_cuda_context *context))                         \
    X(cuStreamWaitEvent, (whi_cuda_stream stream, whi_cuda_event event, unsigned flags))           \
    X(cuEventCreate, (whi_cuda_event *event, unsigned flags))                                      \
    X(cuEventRecord, (whi_cuda_event event, whi_cuda_stream stream))                               \
    X(cuEventQuery, (whi_cuda_event event))                                                        \
    X(cuEventDestroy_v2, (whi_cuda_event event))
// clang-format on

typedef struct whi_cuda_calls {
#define WHI_CUDA_POINTER(name, args) int(*name) args;
    WHI_CUDA_CALLS(WHI_CUDA_POINTER)
#undef WHI_CUDA_POINTER
} whi_cuda_calls;

// The table; written once, before whi_cuda_known says yes.
extern whi_cuda_calls whi_cuda;

// WHI_CUDA calls an entry point and turns what it returns into a status; an error is logged.
#define WHI_CUDA(name, ...) whi_cuda_check(whi_cuda.name(__VA_ARGS__), #name)

// whi_cuda_check is for WHI_CUDA.
WH_CHECK wh_status whi_cuda_check(int result, const char *call);

// whi_cuda_notice fills the table if the process has loaded libcuda by now, and never loads it.
// While nothing was loaded since the last call it costs the dynamic linker's lock and a comparison.
void whi_cuda_notice(void);

// whi_cuda_known says whether the table is filled: only then can a pointer be CUDA's.  In a forked
// child of a process that has opened the driver it is not to be asked, and this says no.
bool whi_cuda_known(void);

// whi_cuda_open loads and initialises the driver if that has not been tried yet.
//
// WH_ENOTSUP: there is none, or none that works.  WH_EFORKED: this process was forked after it was
// initialised, which CUDA does not survive.  whi_cuda_reason says more; nothing is logged.
WH_CHECK wh_status whi_cuda_open(void);

// whi_cuda_ready is whi_cuda_open for a call that fails without it: it logs why.
WH_CHECK wh_status whi_cuda_ready(void);

// whi_cuda_devices returns the number of devices; 0 while the driver is not open.
int whi_cuda_devices(void);

// whi_cuda_reason tries to open the driver, and returns what it is or why there is none.
const char *whi_cuda_reason(void);

#endif
