// SPDX-License-Identifier: BSD-3-Clause
//
// Programs on CUDA devices: loading and launching, and what memory kernels can touch, see whi_mem_kernels.
//
// A program is loaded into a device's primary context at its first launch there, by whoever comes first, under the lock;
// it stays until the process ends, as the context does.  Every range is asked for before a kernel is launched: a kernel
// that touches what is not there would end the device for the whole process.
#include <assert.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/log.h"
#include "mem/cuda.h"

typedef struct loaded {
    whi_cuda_module module;
    whi_cuda_function kernel[WHI_MEM_PROGRAM_KERNELS];
} loaded;

static_assert((int)WHI_MEM_PROGRAM_DEVICES >= (int)WHI_CUDA_DEVICES_MAX, "a place for each device");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static whi_cuda_ptr address_of(const void *ptr) {
    return (whi_cuda_ptr)(uintptr_t)ptr;
}

// ---- What a range is.

// Pinned memory counts only where kernels reach it at the address that the CPU has for it.
static bool reaches_pinned(const void *ptr, size_t size) {
    int attributes[] = {WHI_CUDA_POINTER_DEVICE_POINTER, WHI_CUDA_POINTER_RANGE_START,
                        WHI_CUDA_POINTER_RANGE_SIZE};
    enum { COUNT = sizeof(attributes) / sizeof(attributes[0]) };
    whi_cuda_ptr there = 0, base = 0;
    size_t length = 0;
    void *answers[COUNT] = {&there, &base, &length};
    int result = whi_cuda.cuPointerGetAttributes(COUNT, attributes, answers, address_of(ptr));
    whi_cuda_ptr offset = address_of(ptr) - base;
    return result == WHI_CUDA_SUCCESS && there == address_of(ptr) && offset < length &&
           size <= length - offset;
}

// Kernels run in the primary context, and touch what belongs to it or, as virtual memory, to none.
static wh_status check_context(const void *ptr, int number) {
    int attribute = WHI_CUDA_POINTER_CONTEXT;
    whi_cuda_context context = NULL;
    void *answer = &context;
    const whi_cuda_device *device;
    wh_status status = whi_cuda_device_of(number, &device);
    if (status != WH_OK)
        return status;
    int result = whi_cuda.cuPointerGetAttributes(1, &attribute, &answer, address_of(ptr));
    if (result == WHI_CUDA_SUCCESS && context && context != device->context) {
        whi_log(WHI_ERROR, "E-CUDA-14",
                "cuda: %p belongs to a context that is not the primary one of device %d, in which "
                "kernels of Wherry run: allocate it there (as the runtime API does)",
                ptr, number);
        return WH_ENOTSUP;
    }
    return WH_OK;
}

static wh_status place_of(const void *ptr, size_t size, whi_mem_place *place) {
    wh_status status = whi_cuda_ready();
    if (status != WH_OK)
        return status;
    whi_cuda_pointer p;
    whi_cuda_ask(ptr, &p);
    *place = (whi_mem_place){.device = -1};
    if (p.type != WHI_CUDA_MEMORY_DEVICE && !p.managed) {
        place->shared = p.type == WHI_CUDA_MEMORY_HOST && reaches_pinned(ptr, size);
        return WH_OK;
    }
    whi_cuda_ptr offset = address_of(ptr) - p.base;
    if (offset >= p.length || size > p.length - offset) {
        whi_log(WHI_ERROR, "E-CUDA-11",
                "cuda: %zu bytes from %p on are not inside one allocation: that at %p has %zu; "
                "count, type and buffer must fit",
                size, ptr, (void *)(uintptr_t)p.base, p.length);
        return WH_EINVAL;
    }
    place->device = p.device;
    place->shared = p.managed;
    return p.managed ? WH_OK : check_context(ptr, p.device);
}

// ---- Loading.  Under the lock, and with the device's context current.

// What the driver says of an image.
typedef struct verdict {
    int result;
    const char *call;
    char text[512];  // its compiler's words
} verdict;

static void load_image(const void *image, const char *const *names, loaded *made, verdict *v) {
    int options[] = {WHI_CUDA_JIT_ERROR_LOG, WHI_CUDA_JIT_ERROR_LOG_SIZE};
    void *values[] = {v->text, (void *)(uintptr_t)sizeof(v->text)};
    v->text[0] = 0;
    v->call = "cuModuleLoadDataEx";
    v->result = whi_cuda.cuModuleLoadDataEx(&made->module, image, 2, options, values);
    if (v->result != WHI_CUDA_SUCCESS)
        return;
    v->call = "cuModuleGetFunction";
    for (int i = 0; names[i] && v->result == WHI_CUDA_SUCCESS; i++)
        v->result = whi_cuda.cuModuleGetFunction(&made->kernel[i], made->module, names[i]);
    if (v->result != WHI_CUDA_SUCCESS)
        (void)!WHI_CUDA(cuModuleUnload, made->module);
}

// Whatever is wrong with machine code, PTX may do: it says what it is if nothing does.
static bool load_code(const whi_mem_program *program, loaded *made) {
    static bool told;
    verdict v;
    if (!program->code || !program->code[0])
        return false;
    load_image(program->code, program->names, made, &v);
    if (v.result == WHI_CUDA_SUCCESS)
        return true;
    char text[512];
    whi_cuda_describe(text, sizeof(text), v.result, v.call);
    if (!told)
        whi_log(WHI_INFO, "I-CUDA-03",
                "the driver compiles Wherry's kernels, since it does not take their machine code: "
                "%s",
                text);
    told = true;
    return false;
}

static wh_status load(const whi_mem_program *program, loaded *made) {
    verdict v;
    if (load_code(program, made))
        return WH_OK;
    load_image(program->image, program->names, made, &v);
    if (v.result != WHI_CUDA_SUCCESS && v.text[0])
        whi_log(WHI_ERROR, "E-CUDA-12", "the driver says of Wherry's kernels: %.*s",
                (int)sizeof(v.text) - 1, v.text);
    return whi_cuda_check(v.result, v.call);
}

static wh_status load_once(int device, whi_mem_program *program) {
    if (atomic_load(&program->loaded[device]))
        return WH_OK;
    loaded *made = whi_calloc(1, sizeof(*made));
    if (!made)
        return WH_ENOMEM;
    wh_status status = load(program, made);
    if (status == WH_OK)
        atomic_store_explicit(&program->loaded[device], made, memory_order_release);
    else
        whi_free(made);
    return status;
}

static wh_status need(int device, whi_mem_program *program, const loaded **there) {
    wh_status status = WH_OK;
    if (!atomic_load_explicit(&program->loaded[device], memory_order_acquire)) {
        pthread_mutex_lock(&lock);
        status = load_once(device, program);
        pthread_mutex_unlock(&lock);
    }
    if (status == WH_OK)
        *there = atomic_load_explicit(&program->loaded[device], memory_order_acquire);
    return status;
}

// ---- Launching.

static wh_status launch_there(int number, whi_mem_program *program, unsigned which, unsigned blocks,
                              unsigned threads, const void *args, void *stream) {
    const loaded *there;
    wh_status status = need(number, program, &there);
    if (status != WH_OK)
        return status;
    void *params[] = {(void *)(uintptr_t)args};
    return WHI_CUDA(cuLaunchKernel, there->kernel[which], blocks, 1, 1, threads, 1, 1, 0, stream,
                    params, NULL);
}

// enter_for makes a device's primary context current, for work on a stream, which has to be of it; the default streams are
// those of the context that is current.
static wh_status enter_for(int number, void *stream) {
    const whi_cuda_device *device;
    wh_status status = whi_cuda_device_of(number, &device);
    if (status == WH_OK && (uintptr_t)stream > WHI_CUDA_STREAM_PER_THREAD) {
        whi_cuda_context context = NULL;
        status = WHI_CUDA(cuStreamGetCtx, stream, &context);
        if (status == WH_OK && context != device->context) {
            whi_log(
                WHI_ERROR, "E-CUDA-13",
                "cuda: stream %p is not of the primary context of device %d, where the memory lies",
                stream, number);
            status = WH_EINVAL;
        }
    }
    return status == WH_OK ? whi_cuda_enter(device->context) : status;
}

static wh_status launch(int number, whi_mem_program *program, unsigned which, unsigned blocks,
                        unsigned threads, const void *args, void *stream) {
    wh_status status = enter_for(number, stream);
    if (status != WH_OK)
        return status;
    status = launch_there(number, program, which, blocks, threads, args, stream);
    whi_cuda_leave();
    return status;
}

static wh_status load_there(int number, whi_mem_program *program) {
    const loaded *there;
    wh_status status = whi_cuda_enter_device(number);
    if (status != WH_OK)
        return status;
    status = need(number, program, &there);
    whi_cuda_leave();
    return status;
}

static wh_status own_stream(int number, void **stream) {
    const whi_cuda_device *device;
    wh_status status = whi_cuda_device_of(number, &device);
    if (status == WH_OK)
        *stream = device->stream;
    return status;
}

static wh_status wait(int number, void *stream) {
    wh_status status = enter_for(number, stream);
    if (status != WH_OK)
        return status;
    status = WHI_CUDA(cuStreamSynchronize, stream);
    whi_cuda_leave();
    return status;
}

static wh_status capability(int number, int *found) {
    int device, major = 0, minor = 0;
    wh_status status = whi_cuda_ready();
    if (status == WH_OK)
        status = WHI_CUDA(cuDeviceGet, &device, number);
    if (status == WH_OK)
        status = WHI_CUDA(cuDeviceGetAttribute, &major, WHI_CUDA_DEVICE_MAJOR, device);
    if (status == WH_OK)
        status = WHI_CUDA(cuDeviceGetAttribute, &minor, WHI_CUDA_DEVICE_MINOR, device);
    if (status == WH_OK)
        *found = 10 * major + minor;
    return status;
}

const whi_mem_kernels whi_cuda_kernels = {
    .place = place_of,
    .launch = launch,
    .load = load_there,
    .stream = own_stream,
    .wait = wait,
    .capability = capability,
};
