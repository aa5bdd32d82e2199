// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels for x86 processors with AVX2; compiled with -mavx2, so called only after a check.
#include "type/kernels/body.h"

WHI_SIZE_CLASSES(WHI_KERNELS_OF_SIZE)
WHI_CROSS_OF_SIZE(1, whi_cross_tile)
WHI_CROSS_OF_SIZE(2, whi_cross_tile)
WHI_CROSS_OF_SIZE(4, whi_cross_tile)
WHI_CROSS_OF_SIZE(8, whi_cross_tile)
WHI_CROSS_OF_SIZE(16, whi_cross_tile)
WHI_LISTS
WHI_WIDE_LISTS
WHI_COPY

WHI_KERNEL_SET(avx2, NULL);
