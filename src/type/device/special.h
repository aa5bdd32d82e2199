// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels for one layout, with its numbers folded into the code: compiled by NVRTC where a layout is used often and the
// setting kernel_compile says so.  Any thread.
#ifndef WHI_TYPE_DEVICE_SPECIAL_H
#define WHI_TYPE_DEVICE_SPECIAL_H

#include "mem/mem.h"
#include "type/device/args.h"

// whi_device_special returns the program whose only kernel does this launch, or NULL: there is none, or not yet.  The call
// that finds a layout used often enough compiles, which takes some tenths of a second; where one of this machine has
// done so before, the code is on disk.
whi_mem_program *whi_device_special(const whi_mem_ops *ops, int device, const whi_device_args *args,
                                    unsigned word, bool transpose);

#endif
