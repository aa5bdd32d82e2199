// SPDX-License-Identifier: BSD-3-Clause
//
// The program of kernels that the library carries: PTX, which the driver compiles for each device (code.h,
// kernels.ptx), and where the build had nvcc machine code, too.
#ifndef WHI_TYPE_DEVICE_PROGRAM_H
#define WHI_TYPE_DEVICE_PROGRAM_H

#include "mem/mem.h"

// The kernels of a program by number: of the first two kinds there is one for each word of 1 << n bytes.
enum {
    WHI_DEVICE_MOVE = 0,
    WHI_DEVICE_TRANSPOSE = 5,
    WHI_DEVICE_ACCUMULATE = 10,
};

extern whi_mem_program whi_device_program;

// The texts that the build puts into the library, ended by zeros: kernels.ptx, and the source that NVRTC compiles.
extern const char whi_device_ptx[], whi_device_source[];

// Machine code of the same kernels for several architectures, a fatbin; where the build had no nvcc a zero.
extern const char whi_device_code[];

#endif
