// SPDX-License-Identifier: BSD-3-Clause
//
// The names of the kernels, see program.h.
#include "type/device/program.h"

static const char *const names[] = {
    "wherry_move_1",      "wherry_move_2",       "wherry_move_4",      "wherry_move_8",
    "wherry_move_16",     "wherry_transpose_1",  "wherry_transpose_2", "wherry_transpose_4",
    "wherry_transpose_8", "wherry_transpose_16", "wherry_accumulate",  NULL,
};

whi_mem_program whi_device_program = {
    .code = whi_device_code, .image = whi_device_ptx, .names = names};
