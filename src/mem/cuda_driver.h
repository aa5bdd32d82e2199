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
typedef struct whi_cuda_uuid {
    unsigned char bytes[16];
} whi_cuda_uuid;
typedef struct whi_cuda_ipc_handle {
    unsigned char bytes[64];
} whi_cuda_ipc_handle;
typedef unsigned long long whi_cuda_block;  // memory of cuMemCreate, which is mapped at addresses
typedef struct whi_cuda_location {
    int type, id;
} whi_cuda_location;
typedef struct whi_cuda_block_properties {
    int type, handle_types;
    whi_cuda_location location;
    void *windows;
    unsigned char flags[8];
} whi_cuda_block_properties;
typedef struct whi_cuda_access {
    whi_cuda_location location;
    int rights;
} whi_cuda_access;
typedef struct CUmod_st *whi_cuda_module;
typedef struct CUfunc_st *whi_cuda_function;

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
    WHI_CUDA_NO_BINARY_FOR_GPU = 209,
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
    WHI_CUDA_POINTER_CONTEXT = 1,
    WHI_CUDA_POINTER_MEMORY_TYPE = 2,
    WHI_CUDA_POINTER_DEVICE_POINTER = 3,
    WHI_CUDA_POINTER_BUFFER_ID = 7,
    WHI_CUDA_POINTER_IS_MANAGED = 8,
    WHI_CUDA_POINTER_DEVICE_ORDINAL = 9,
    WHI_CUDA_POINTER_IPC_CAPABLE = 10,  // by cuIpcGetMemHandle
    WHI_CUDA_POINTER_RANGE_START = 11,
    WHI_CUDA_POINTER_RANGE_SIZE = 12,
};

enum {
    WHI_CUDA_MEMORY_HOST = 1,  // the CPU's, pinned
    WHI_CUDA_MEMORY_DEVICE = 2,
    WHI_CUDA_STREAM_NON_BLOCKING = 1,  // does not wait for the default stream, nor it for this one
    WHI_CUDA_EVENT_DISABLE_TIMING = 2,
    WHI_CUDA_HOST_PORTABLE = 1,  // pinned for all contexts
    WHI_CUDA_IPC_LAZY_PEER_ACCESS = 1,
    WHI_CUDA_STREAM_PER_THREAD = 2,  // the last handle that names no stream of one context
};

enum {
    WHI_CUDA_HANDLE_DESCRIPTOR = 1,  // blocks are exported as descriptors of files
    WHI_CUDA_LOCATION_DEVICE = 1,
    WHI_CUDA_READ_AND_WRITE = 3,
};

enum {
    WHI_CUDA_DEVICE_MAJOR = 75,  // of the compute capability
    WHI_CUDA_DEVICE_MINOR = 76,
    WHI_CUDA_JIT_ERROR_LOG = 5,
    WHI_CUDA_JIT_ERROR_LOG_SIZE = 6,
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
    X(cuEventDestroy_v2, (whi_cuda_event event))                                                   \
    X(cuDeviceCanAccessPeer, (int *can, int device, int peer))                                     \
    X(cuDeviceGetUuid, (whi_cuda_uuid *uuid, int device))                                          \
    X(cuIpcGetMemHandle, (whi_cuda_ipc_handle *handle, whi_cuda_ptr ptr))                          \
    X(cuIpcOpenMemHandle_v2, (whi_cuda_ptr *ptr, whi_cuda_ipc_handle handle, unsigned flags))      \
    X(cuIpcCloseMemHandle, (whi_cuda_ptr ptr))                                                     \
    WHI_CUDA_KERNEL_CALLS(X)
// Those with which cuda_kernels.c launches kernels.
#define WHI_CUDA_KERNEL_CALLS(X)                                                                   \
    X(cuDeviceGetAttribute, (int *value, int attribute, int device))                               \
    X(cuModuleLoadDataEx, (whi_cuda_module *module, const void *image, unsigned count,             \
                           int *options, void **values))                                           \
    X(cuModuleUnload, (whi_cuda_module module))                                                    \
    X(cuModuleGetFunction, (whi_cuda_function *function, whi_cuda_module module,                   \
                            const char *name))                                                     \
    X(cuLaunchKernel, (whi_cuda_function function, unsigned grid_x, unsigned grid_y,               \
                       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,      \
                       unsigned shared, whi_cuda_stream stream, void **args, void **extra))
// Those that a driver may lack: without one of them virtual memory is not shared, and all else is as ever.
#define WHI_CUDA_VIRTUAL_CALLS(X)                                                                  \
    X(cuMemGetAddressRange_v2, (whi_cuda_ptr *base, size_t *size, whi_cuda_ptr ptr))               \
    X(cuMemRetainAllocationHandle, (whi_cuda_block *block, void *ptr))                             \
    X(cuMemGetAllocationPropertiesFromHandle, (whi_cuda_block_properties *properties,              \
                                               whi_cuda_block block))                              \
    X(cuMemExportToShareableHandle, (void *handle, whi_cuda_block block, int type,                 \
                                     unsigned long long flags))                                    \
    X(cuMemImportFromShareableHandle, (whi_cuda_block *block, void *handle, int type))             \
    X(cuMemAddressReserve, (whi_cuda_ptr *ptr, size_t size, size_t alignment, whi_cuda_ptr at,     \
                            unsigned long long flags))                                             \
    X(cuMemMap, (whi_cuda_ptr ptr, size_t size, size_t offset, whi_cuda_block block,               \
                 unsigned long long flags))                                                        \
    X(cuMemSetAccess, (whi_cuda_ptr ptr, size_t size, const whi_cuda_access *access,               \
                       size_t count))                                                              \
    X(cuMemUnmap, (whi_cuda_ptr ptr, size_t size))                                                 \
    X(cuMemAddressFree, (whi_cuda_ptr ptr, size_t size))                                           \
    X(cuMemRelease, (whi_cuda_block block))
// clang-format on

typedef struct whi_cuda_calls {
#define WHI_CUDA_POINTER(name, args) int(*name) args;
    WHI_CUDA_CALLS(WHI_CUDA_POINTER)
    WHI_CUDA_VIRTUAL_CALLS(WHI_CUDA_POINTER)
#undef WHI_CUDA_POINTER
    bool virtual_memory;  // all of the latter are there
} whi_cuda_calls;

// The table; written once, before whi_cuda_known says yes.
extern whi_cuda_calls whi_cuda;

// WHI_CUDA calls an entry point and turns what it returns into a status; an error is logged.
#define WHI_CUDA(name, ...) whi_cuda_check(whi_cuda.name(__VA_ARGS__), #name)

// whi_cuda_check is for WHI_CUDA.
WH_CHECK wh_status whi_cuda_check(int result, const char *call);

// whi_cuda_describe writes what a call has returned and what can be done about it.
void whi_cuda_describe(char *text, size_t size, int result, const char *call);

// WHI_CUDA_TRY is for calls that may be refused, since there is another way: what is logged is information, and the
// status is WH_ENOTSUP.
#define WHI_CUDA_TRY(name, ...) whi_cuda_try(whi_cuda.name(__VA_ARGS__), #name)
WH_CHECK wh_status whi_cuda_try(int result, const char *call);

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
