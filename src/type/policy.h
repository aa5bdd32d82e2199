// SPDX-License-Identifier: BSD-3-Clause
//
// When to write around the cache.
#ifndef WHI_TYPE_POLICY_H
#define WHI_TYPE_POLICY_H

#include <stdbool.h>
#include <stddef.h>

// whi_nontemporal_pays says whether nontemporal stores are the better default for `packed` bytes
// that are gathered from `touched` bytes of lines.
//
// The first call for a size that could matter measures it, which takes a few milliseconds, once.
bool whi_nontemporal_pays(size_t packed, size_t touched);

#endif
