// SPDX-License-Identifier: BSD-3-Clause
//
// Nontemporal copies where the compiler offers no stores around the cache: memcpy, which uses them
// itself where they pay.
#include <string.h>

#include "type/kernels/kernels.h"

void whi_nontemporal_copy(char *to, const char *from, int64_t size) {
    memcpy(to, from, (size_t)size);
}

void whi_nontemporal_fence(void) {}

whi_kernel_fn *whi_nontemporal_rows(whi_direction direction, int64_t len) {
    (void)direction;
    (void)len;
    return NULL;
}
