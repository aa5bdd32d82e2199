// SPDX-License-Identifier: BSD-3-Clause
//
// When to write around the cache.
#ifndef WHI_TYPE_POLICY_H
#define WHI_TYPE_POLICY_H

#include <stddef.h>

// whi_stream_min returns the packed size from which streaming stores are the better default here.
//
// The first call for a size that could matter measures it, which takes a few milliseconds, once.
size_t whi_stream_min(size_t size);

#endif
