// SPDX-License-Identifier: BSD-3-Clause
//
// Connect data: what one side of an endpoint gives to be told the other when it connects or
// accepts.
#ifndef WHI_WORKER_CONNECT_DATA_H
#define WHI_WORKER_CONNECT_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

typedef struct whi_connect_data {
    size_t size;
    uint8_t bytes[];
} whi_connect_data;

// whi_connect_data_copy copies what the user or a peer gives, for whi_free; NULL for nothing.  What
// is too much is logged with `what` it was given for: WH_EINVAL.
WH_CHECK wh_status whi_connect_data_copy(const void *data, size_t size, const char *what,
                                         whi_connect_data **copy);

#endif
