// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels for what every processor of the architecture has: SSE2, NEON.
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

WHI_KERNEL_SET(base, NULL);
