// SPDX-License-Identifier: BSD-3-Clause
//
// What CUDA's driver and the libraries beside it give on this machine, for `wherry info` and `wherry doctor`.
//
// It is asked of the driver itself, as another program would ask it: nothing of this goes through the library.
#ifndef CLI_CUDA_H
#define CLI_CUDA_H

#include <stdbool.h>
#include <stddef.h>

enum { CUDA_DEVICES_MAX = 16 };

// What a device can do besides computing and copying.
typedef enum cuda_feature {
    CUDA_IPC,      // its memory can be opened by other processes; tried
    CUDA_VIRTUAL,  // virtual memory, and its export as a descriptor
    CUDA_POOLS,    // stream-ordered allocations
    CUDA_MANAGED,  // memory that moves between it and the host
    CUDA_FEATURES
} cuda_feature;
extern const char *const cuda_feature_names[CUDA_FEATURES];

typedef struct cuda_device {
    char name[96];
    int major, minor;  // compute capability
    size_t memory;     // bytes
    bool has[CUDA_FEATURES];
    bool reaches[CUDA_DEVICES_MAX];  // the memory of that device, without the host
} cuda_device;

typedef struct cuda_facts {
    int count;  // devices; 0: no driver that works
    cuda_device devices[CUDA_DEVICES_MAX];
    char nvrtc[64];  // the library and its version; "": not found
} cuda_facts;

// cuda_ask fills in what can be found out.
void cuda_ask(cuda_facts *facts);

// cuda_features_text lists what a device has, or what it lacks.
const char *cuda_features_text(const cuda_device *device, bool has, char *text, size_t size);

#endif
