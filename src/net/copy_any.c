// SPDX-License-Identifier: BSD-3-Clause
//
// Copying where nothing better than the C library's is known.
#include "net/copy.h"

void whi_copy_large(void *to, const void *from, size_t size) {
    memcpy(to, from, size);
}

void whi_copy_nontemporal(void *to, const void *from, size_t size) {
    memcpy(to, from, size);
}
