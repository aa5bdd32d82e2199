// SPDX-License-Identifier: BSD-3-Clause
//
// Opening and calling NVRTC, see nvrtc.h.
//
// The idea: no header of it is needed; the functions in use have been in all releases from 11.1 on.  Which release is found
// does not matter, since what it makes is code for one device and not text: the newest that has a name here is taken.
#include "mem/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"

typedef struct program program;

#define CALLS(X)                                                                                   \
    X(nvrtcVersion, (int *major, int *minor))                                                      \
    X(nvrtcCreateProgram, (program * *made, const char *text, const char *name, int headers,       \
                           const char *const *header_texts, const char *const *header_names))      \
    X(nvrtcCompileProgram, (program * made, int count, const char *const *options))                \
    X(nvrtcGetCUBINSize, (program * made, size_t * size))                                          \
    X(nvrtcGetCUBIN, (program * made, char *code))                                                 \
    X(nvrtcGetProgramLogSize, (program * made, size_t * size))                                     \
    X(nvrtcGetProgramLog, (program * made, char *text))                                            \
    X(nvrtcDestroyProgram, (program * *made))

static struct {
#define POINTER(name, args) int(*name) args;
    CALLS(POINTER)
#undef POINTER
} calls;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int version;  // 0: none

static bool fill(void *library) {
#define TAKE(name, args)                                                                           \
    *(void **)&calls.name = dlsym(library, #name);                                                 \
    if (!calls.name)                                                                               \
        return false;
    CALLS(TAKE)
#undef TAKE
    return true;
}

static void open_library(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !version; i++) {
        // It stays: threads of its own, and what it registers for the end of the process, may.
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        int major = 0, minor = 0;
        if (library && fill(library) && calls.nvrtcVersion(&major, &minor) == 0)
            version = 1000 * major + 10 * minor;
    }
}

int whi_nvrtc_version(void) {
    pthread_once(&once, open_library);
    return version;
}

static wh_status refuse(program *made, int result, int capability) {
    char text[1024] = "";
    size_t size = 0;
    if (calls.nvrtcGetProgramLogSize(made, &size) == 0 && size <= sizeof(text))
        (void)calls.nvrtcGetProgramLog(made, text);
    whi_log(WHI_WARN, "W-CUDA-02",
            "NVRTC %d.%d does not compile kernels for compute capability %d.%d (result %d): %s; "
            "the general ones are used",
            version / 1000, version % 1000 / 10, capability / 10, capability % 10, result, text);
    return WH_ENOTSUP;
}

static wh_status take_code(program *made, int capability, void **code, size_t *size) {
    size_t bytes = 0;
    int result = calls.nvrtcGetCUBINSize(made, &bytes);
    if (result != 0 || !bytes)
        return refuse(made, result, capability);
    char *taken = whi_malloc(bytes);
    if (!taken)
        return WH_ENOMEM;
    result = calls.nvrtcGetCUBIN(made, taken);
    if (result != 0) {
        whi_free(taken);
        return refuse(made, result, capability);
    }
    *code = taken;
    *size = bytes;
    return WH_OK;
}

static wh_status compile(const char *text, int capability, void **code, size_t *size) {
    char architecture[48];
    const char *options[] = {architecture};
    program *made = NULL;
    snprintf(architecture, sizeof(architecture), "--gpu-architecture=sm_%d", capability);
    int result = calls.nvrtcCreateProgram(&made, text, "wherry.cu", 0, NULL, NULL);
    if (result != 0)
        return WH_ENOMEM;
    result = calls.nvrtcCompileProgram(made, 1, options);
    wh_status status =
        result == 0 ? take_code(made, capability, code, size) : refuse(made, result, capability);
    (void)calls.nvrtcDestroyProgram(&made);
    return status;
}

wh_status whi_nvrtc_compile(const char *text, int capability, void **code, size_t *size) {
    if (!whi_nvrtc_version())
        return WH_ENOTSUP;
    pthread_mutex_lock(&lock);
    wh_status status = compile(text, capability, code, size);
    pthread_mutex_unlock(&lock);
    return status;
}
