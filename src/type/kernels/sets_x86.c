// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel sets of x86: what the processor tells about itself decides.
#include "type/kernels/kernels.h"

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi");
}

int whi_kernels_sets(const whi_kernels *sets[WHI_KERNEL_SETS]) {
    int n = 0;
    __builtin_cpu_init();
    sets[n++] = &whi_kernels_base;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
        sets[n++] = &whi_kernels_avx2;
        if (has_avx512())
            sets[n++] = &whi_kernels_avx512;
    }
    return n;
}
