// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver: a libcuda.so.1 without hardware, that does what the real one promises and no more.
//
// It has the entry points that src/mem/cuda* uses and those with which tests make memory that others
// would have made.  Device memory faults when the CPU touches it; streams are threads that take a
// random time for each piece of work; what needs a context fails without one; a forked child is
// refused.  Entry points have the names and arguments of the real ones, so that the library finds
// them as on a real machine.  The functions cutest_* are for tests, which find them by dlsym.
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct module *CUmodule;
typedef struct function *CUfunction;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    NOT_SUPPORTED = 801,
};

enum { DEVICES_MAX = 8 };

#define PUBLIC __attribute__((visibility("default")))

struct context {
    CUdevice device;
    _Atomic bool alive;
    CUstream legacy;       // its default stream, made at first use
    struct context *next;  // of those that were ever created
};

// What an entry point needs before it does anything.
enum { NOTHING, INIT, CONTEXT };

// BEGIN counts the call, and returns the error that was asked for or that its needs cause.
#define BEGIN(needs)                                                                               \
    do {                                                                                           \
        CUresult begun = begin(__func__, (needs));                                                 \
        if (begun != SUCCESS)                                                                      \
            return begun;                                                                          \
    } while (0)
CUresult begin(const char *entry, int needs);

// current returns the context that is current on this thread, or NULL.
CUcontext current(void);

int device_count(void);

// What a device is asked for its compute capability.
enum { MAJOR = 75, MINOR = 76 };
PUBLIC CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);

// translate finds where the engine may touch `size` bytes at `ptr`; host memory stays what it is.
// False: they are not inside one allocation.
bool translate(CUdeviceptr ptr, size_t size, char **where);

// Memory that other processes may open.  file_of describes the allocation that begins at `ptr`; open_file maps one of
// another process, whose file becomes the mapping's; open_again counts one more opening of it, close_file one less.
typedef struct memory_file {
    int file;
    size_t size;
    CUdevice device;
} memory_file;
CUresult file_of(CUdeviceptr ptr, memory_file *file);
CUresult open_file(const memory_file *file, CUdeviceptr *ptr);
bool is_opened(CUdeviceptr ptr);
bool open_again(CUdeviceptr ptr);
CUresult close_file(CUdeviceptr ptr);

// back puts a file's first `size` bytes (0: memory of nobody else's) at the end of what a virtual range has so far, unback takes
// the last bytes away.
CUresult back(CUdeviceptr ptr, size_t size, CUdevice device, int file);
CUresult unback(CUdeviceptr ptr, size_t size);

// first_device returns the machine's number of the first device that this process sees.
int first_device(void);

// mapped_in says whether blocks are mapped in a range (virtual.c).
bool mapped_in(CUdeviceptr ptr, size_t size);

// translate_for does so for a kernel: memory of its device, managed memory and pinned memory.
bool translate_for(CUdeviceptr ptr, size_t size, CUdevice device, char **where);

// device_broken has all entry points fail from now on; it returns whether they did.
bool device_broken(CUresult result);

// submit has `fn` called in stream order.  The work is copied.
typedef struct work {
    struct work *next;
    void (*fn)(struct work *work);  // NULL: wait until `other` has come to `other_ticket`
    void *dst, *arg;
    const void *src;
    size_t size;
    void (*kernel)(void *arg);
    CUstream other;
    uint64_t other_ticket, ticket;
} work;
CUresult submit(CUstream handle, const work *w);

// drain waits until nothing is left to do on a device.
void drain(CUdevice device);

#endif
