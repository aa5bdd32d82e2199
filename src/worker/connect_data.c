// SPDX-License-Identifier: BSD-3-Clause
//
// Connect data, see connect_data.h.
#include "worker/connect_data.h"

#include <string.h>

#include <wherry/worker.h>

#include "base/alloc.h"
#include "base/log.h"

wh_status whi_connect_data_copy(const void *data, size_t size, const char *what,
                                whi_connect_data **copy) {
    if (size > WH_CONNECT_DATA_MAX || (size && !data)) {
        whi_log(
            WHI_ERROR, "E-WRK-05",
            "%s: connect data of %zu bytes%s; at most %d bytes can be given, more belongs into a "
            "message",
            what, size, data ? "" : " at NULL", WH_CONNECT_DATA_MAX);
        return WH_EINVAL;
    }
    whi_connect_data *made = size ? whi_malloc(sizeof(*made) + size) : NULL;
    if (size && !made)
        return WH_ENOMEM;
    if (made) {
        made->size = size;
        memcpy(made->bytes, data, size);
    }
    *copy = made;
    return WH_OK;
}
