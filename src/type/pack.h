// SPDX-License-Identifier: BSD-3-Clause
//
// What the files behind pack.h share: the checks that all their calls begin with.
#ifndef WHI_TYPE_PACK_H
#define WHI_TYPE_PACK_H

#include <wherry/pack.h>

#include "type/plan.h"

// whi_stream_check checks handle, count and buffer of a call and returns the size of the stream.
WH_CHECK wh_status whi_stream_check(const char *function, const void *buf, int64_t count,
                                    const wh_type *type, int64_t *total);

#endif
