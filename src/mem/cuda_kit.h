// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of the kind cuda: the driver that the test runs over, seen as another library of the
// same process would see it.
//
// It is the test driver (tests/cuda) or, where LD_LIBRARY_PATH does not lead to that, the real one: then
// what only the test driver can do is skipped.
#ifndef WHI_MEM_CUDA_KIT_H
#define WHI_MEM_CUDA_KIT_H

#include <dlfcn.h>

#include "base/log.h"
#include "base/test.h"
#include "mem/cuda.h"

static const whi_mem_ops *const ops = &whi_mem_cuda;
static char heard_id[32], heard_text[1024];
static int heard_count;

static void hear(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    if (strcmp(level, "error") != 0)
        return;
    heard_count++;
    snprintf(heard_id, sizeof(heard_id), "%s", id);
    snprintf(heard_text, sizeof(heard_text), "%s", text);
}

__attribute__((unused)) static void listen(void) {
    heard_id[0] = heard_text[0] = 0;
    heard_count = 0;
    whi_log_set_sink(hear, NULL);
}

// The driver's function of a name.
__attribute__((unused)) static void *entry(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found)
        SKIP("this driver cannot do that");
    return found;
}

// ENTRY(result, name, (types), values...) calls the driver's `name`.
#define ENTRY(result, name, types, ...) ((result(*) types)entry(name))(__VA_ARGS__)

// The nth call of an entry point from now on fails; 0: none, -1: all.
__attribute__((unused)) static void fail_at(const char *name, long nth, int result) {
    ENTRY(void, "cutest_fail", (const char *, long, int), name, nth, result);
}

// How many contexts this thread has on its stack.
__attribute__((unused)) static int depth(void) {
    return ENTRY(int, "cutest_depth", (void));
}

__attribute__((unused)) static int device_count(void) {
    CHECK_EQ_INT(whi_cuda_open(), WH_OK);
    return whi_cuda_devices();
}

// needs ends a test on a machine that lacks a device of this number; the test driver has four.
__attribute__((unused)) static void needs(int device) {
    if (device && device >= device_count())
        SKIP("this machine has too few devices");
}

__attribute__((unused)) static char *make(int device, size_t size) {
    void *ptr = NULL;
    needs(device);
    CHECK_EQ_INT(ops->alloc(device, size, &ptr), WH_OK);
    return ptr;
}

__attribute__((unused)) static void unmake(void *ptr) {
    CHECK_EQ_INT(ops->free(ptr), WH_OK);
}

// The primary context of a device, as the runtime API would have made it current.
__attribute__((unused)) static whi_cuda_context primary(int device) {
    const whi_cuda_device *d = NULL;
    needs(device);
    CHECK_EQ_INT(whi_cuda_device_of(device, &d), WH_OK);
    return d->context;
}

__attribute__((unused)) static void enter(int device) {
    CHECK_EQ_INT(whi_cuda_enter(primary(device)), WH_OK);
}

// A stream of the user's; `flags` 1: it does not wait for the default stream.
__attribute__((unused)) static void *make_stream(int device, unsigned flags) {
    whi_cuda_stream stream = NULL;
    enter(device);
    CHECK_EQ_INT(whi_cuda.cuStreamCreate(&stream, flags), 0);
    whi_cuda_leave();
    return stream;
}

// A place where a kernel waits until a test lets it go.  It has to live until the kernel has left it, which is later than
// open_gate: `static` where the test does not wait for the stream.
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open;
} gate;

#define GATE                                                                                       \
    { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER }

__attribute__((unused)) static void pass_gate(void *arg) {
    gate *g = arg;
    pthread_mutex_lock(&g->lock);
    while (!g->open)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

__attribute__((unused)) static void open_gate(gate *g) {
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

// Launches a kernel on a stream of a device, or on the device's default stream.
__attribute__((unused)) static void launch(int device, void *stream, void (*kernel)(void *),
                                           void *arg) {
    enter(device);
    CHECK_EQ_INT(
        ENTRY(int, "cutest_launch", (void *, void (*)(void *), void *), stream, kernel, arg), 0);
    whi_cuda_leave();
}

#endif
