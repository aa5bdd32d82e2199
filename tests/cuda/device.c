// SPDX-License-Identifier: BSD-3-Clause
//
// What the test driver says of its devices, see driver.h.
//
// CUTEST_ATTRIBUTES=0 is a device that can do no more than the oldest.
#include "driver.h"

#include <stdlib.h>
#include <string.h>

static bool off(const char *variable) {
    const char *text = getenv(variable);
    return text && strcmp(text, "0") == 0;
}

static bool exists(CUdevice device) {
    return device >= 0 && device < device_count();
}

PUBLIC CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    BEGIN(INIT);
    if (!exists(device))
        return INVALID_DEVICE;
    *bytes = (size_t)16 << 30;
    return SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    BEGIN(INIT);
    if (!exists(device))
        return INVALID_DEVICE;
    // The compute capability: devices of one machine need not be alike.
    *value = attribute == MAJOR ? 8 : attribute == MINOR ? device : !off("CUTEST_ATTRIBUTES");
    return SUCCESS;
}
