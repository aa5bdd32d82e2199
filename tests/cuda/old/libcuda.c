// SPDX-License-Identifier: BSD-3-Clause
//
// A libcuda.so.1 that lacks nearly everything, as one that is older than what is needed.
__attribute__((visibility("default"))) int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    *version = 10020;
    return 0;
}
