// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel sets where one serves all processors of the architecture.
#include "type/kernels/kernels.h"

int whi_kernels_sets(const whi_kernels *sets[WHI_KERNEL_SETS]) {
    sets[0] = &whi_kernels_base;
    return 1;
}
