// SPDX-License-Identifier: BSD-3-Clause
//
// Wherry's kernels, compiled as C: what the test driver runs for the PTX that it is given.
#include <stddef.h>

// Where an address of the device can be touched; set by the driver, which ends the kernel's work where it cannot.
__attribute__((visibility("default"))) void *(*cutest_reach)(unsigned long long at, size_t size);
#define WHI_REACH(at, size) cutest_reach(at, size)

#include "type/device/reduce_code.h"

__attribute__((visibility("default"))) extern const size_t cutest_args_size;
const size_t cutest_args_size = sizeof(whi_device_args);
