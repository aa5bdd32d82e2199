// SPDX-License-Identifier: BSD-3-Clause
//
// The test driver's initialisation, devices, contexts and errors, see driver.h.
//
// CUTEST_DEVICES is the number of devices (2), CUTEST_VERSION that of the driver (12040), and
// CUTEST_FAIL="cuInit=3" has every call of an entry point fail from the beginning.
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STACK = 16, RULES = 128 };

// What is known of an entry point.
typedef struct rule {
    const char *entry;
    unsigned long calls;
    long fail_in;  // 0: not; else the call that fails, counted down; negative: all
    CUresult result;
} rule;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rule rules[RULES];
static _Atomic pid_t owner;  // the process that has initialised it; 0: none
static struct context primaries[DEVICES_MAX];
static int retained[DEVICES_MAX];
static CUcontext created;
static __thread CUcontext stack[STACK];
static __thread int depth;

static long number(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : otherwise;
}

int device_count(void) {
    long count = number("CUTEST_DEVICES", 2);
    return count < 0 ? 0 : count > DEVICES_MAX ? DEVICES_MAX : (int)count;
}

CUcontext current(void) {
    return depth ? stack[depth - 1] : NULL;
}

// Under the lock.
static rule *rule_of(const char *entry) {
    for (rule *r = rules; r < rules + RULES; r++) {
        if (!r->entry)
            r->entry = strdup(entry);
        if (!strcmp(r->entry, entry))
            return r;
    }
    abort();
}

static CUresult count(const char *entry) {
    pthread_mutex_lock(&lock);
    rule *r = rule_of(entry);
    r->calls++;
    bool fails = r->fail_in < 0 || (r->fail_in > 0 && --r->fail_in == 0);
    CUresult result = fails ? r->result : SUCCESS;
    pthread_mutex_unlock(&lock);
    return result;
}

static _Atomic int broken;

bool device_broken(CUresult result) {
    int none = SUCCESS;
    return !atomic_compare_exchange_strong(&broken, &none, result);
}

static CUresult needed(int needs) {
    if (needs != NOTHING && atomic_load(&broken))
        return atomic_load(&broken);
    if (needs != NOTHING && !atomic_load(&owner))
        return NOT_INITIALIZED;
    if (needs == CONTEXT && (!current() || !current()->alive))
        return INVALID_CONTEXT;
    return SUCCESS;
}

CUresult begin(const char *entry, int needs) {
    // First of all, since in a child even the locks may be lost.
    pid_t pid = atomic_load(&owner);
    if (needs != NOTHING && pid && pid != getpid())
        return NOT_INITIALIZED;
    CUresult result = count(entry);
    return result == SUCCESS ? needed(needs) : result;
}

__attribute__((constructor)) static void read_failure(void) {
    char entry[64];
    int result;
    const char *text = getenv("CUTEST_FAIL");
    if (text && sscanf(text, "%63[^=]=%d", entry, &result) == 2) {
        rule *r = rule_of(entry);
        r->fail_in = -1;
        r->result = result;
    }
}

// ---- For tests.

PUBLIC void cutest_fail(const char *entry, long nth, CUresult result);
void cutest_fail(const char *entry, long nth, CUresult result) {
    pthread_mutex_lock(&lock);
    rule *r = rule_of(entry);
    r->fail_in = nth;
    r->result = result;
    pthread_mutex_unlock(&lock);
}

PUBLIC unsigned long cutest_calls(const char *entry);
unsigned long cutest_calls(const char *entry) {
    pthread_mutex_lock(&lock);
    unsigned long calls = rule_of(entry)->calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

PUBLIC int cutest_depth(void);
int cutest_depth(void) {
    return depth;
}

PUBLIC int cutest_retained(int device);
int cutest_retained(int device) {
    return retained[device];
}

// ---- Entry points.

PUBLIC CUresult cuInit(unsigned flags);
CUresult cuInit(unsigned flags) {
    pid_t pid = atomic_load(&owner);
    if (pid && pid != getpid())
        return NOT_INITIALIZED;
    BEGIN(NOTHING);
    if (flags)
        return INVALID_VALUE;
    if (!device_count())
        return NO_DEVICE;
    atomic_store(&owner, getpid());
    return SUCCESS;
}

PUBLIC CUresult cuDriverGetVersion(int *version);
CUresult cuDriverGetVersion(int *version) {
    BEGIN(NOTHING);
    *version = (int)number("CUTEST_VERSION", 12040);
    return SUCCESS;
}

static const struct {
    CUresult result;
    const char *name, *text;
} results[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

static CUresult word_of(CUresult result, const char **word, bool name) {
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].result == result) {
            *word = name ? results[i].name : results[i].text;
            return SUCCESS;
        }
    *word = NULL;
    return INVALID_VALUE;
}

PUBLIC CUresult cuGetErrorName(CUresult result, const char **name);
CUresult cuGetErrorName(CUresult result, const char **name) {
    return word_of(result, name, true);
}

PUBLIC CUresult cuGetErrorString(CUresult result, const char **text);
CUresult cuGetErrorString(CUresult result, const char **text) {
    return word_of(result, text, false);
}

PUBLIC CUresult cuDeviceGetCount(int *found);
CUresult cuDeviceGetCount(int *found) {
    BEGIN(INIT);
    *found = device_count();
    return SUCCESS;
}

PUBLIC CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    BEGIN(INIT);
    if (ordinal < 0 || ordinal >= device_count())
        return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

PUBLIC CUresult cuDeviceGetName(char *name, int size, CUdevice device);
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    BEGIN(INIT);
    snprintf(name, (size_t)size, "Test Device %d", device);
    return SUCCESS;
}

PUBLIC CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    BEGIN(INIT);
    if (device < 0 || device >= device_count())
        return INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    CUcontext made = &primaries[device];
    if (!retained[device]++) {
        made->device = device;
        made->alive = true;
    }
    pthread_mutex_unlock(&lock);
    *context = made;
    return SUCCESS;
}

PUBLIC CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    BEGIN(INIT);
    pthread_mutex_lock(&lock);
    if (!--retained[device])
        primaries[device].alive = false;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

PUBLIC CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxGetCurrent(CUcontext *context) {
    BEGIN(INIT);
    *context = current();
    return SUCCESS;
}

PUBLIC CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPushCurrent_v2(CUcontext context) {
    BEGIN(INIT);
    if (!context || !context->alive || depth == STACK)
        return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}

PUBLIC CUresult cuCtxPopCurrent_v2(CUcontext *context);
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    BEGIN(INIT);
    if (!depth)
        return INVALID_CONTEXT;
    *context = stack[--depth];
    return SUCCESS;
}

PUBLIC CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    BEGIN(INIT);
    (void)flags;
    if (device < 0 || device >= device_count())
        return INVALID_DEVICE;
    CUcontext made = calloc(1, sizeof(*made));
    if (!made)
        return OUT_OF_MEMORY;
    made->device = device;
    made->alive = true;
    pthread_mutex_lock(&lock);
    made->next = created;
    created = made;
    pthread_mutex_unlock(&lock);
    stack[depth++] = made;
    *context = made;
    return SUCCESS;
}

// The struct stays, so that what still names it is told that it is gone.
PUBLIC CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxDestroy_v2(CUcontext context) {
    BEGIN(INIT);
    drain(context->device);
    context->alive = false;
    if (current() == context)
        depth--;
    return SUCCESS;
}
