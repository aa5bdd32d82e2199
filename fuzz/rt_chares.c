// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what chares of different PEs say to each other: heads of messages, proxies, callbacks.
//
// What is read is written as the same bytes again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/chare.h>

#include "rt/chare/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { PES = 7 };

static void check_head(const uint8_t *data, size_t size, uint32_t from) {
    whi_head head, again;
    uint8_t bytes[WHI_HEAD_MAX], same[WHI_HEAD_MAX];
    if (whi_head_decode(data, size, from, PES, &head) != WH_OK)
        return;
    MUST(size <= WHI_HEAD_MAX);
    size_t used = whi_head_encode(&head, bytes);
    MUST(used <= size && whi_head_decode(bytes, used, from, PES, &again) == WH_OK);
    MUST(whi_head_encode(&again, same) == used && memcmp(same, bytes, used) == 0);
    MUST(head.kind != WHI_HEAD_CALL ||
         (head.call.place.key.dims >= 1 && head.call.place.key.dims <= WH_CHARE_DIMS_MAX &&
          head.call.buffers <= WHI_CALL_BUFFERS_MAX));
}

static void check_values(const uint8_t *data, size_t size) {
    wh_proxy proxy;
    wh_callback callback;
    uint8_t bytes[WH_CALLBACK_SIZE];
    if (wh_proxy_decode(data, size, &proxy) == WH_OK) {
        wh_proxy_encode(&proxy, bytes);
        MUST(size == WH_PROXY_SIZE && memcmp(bytes, data, size) == 0);
    }
    if (wh_callback_decode(data, size, &callback) == WH_OK) {
        wh_callback_encode(&callback, bytes);
        MUST(size == WH_CALLBACK_SIZE && memcmp(bytes, data, size) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    uint8_t *copy = malloc(size);  // of its size, so that a sanitizer sees its end
    MUST(copy);
    memcpy(copy, data, size);
    check_head(copy + 1, size - 1, copy[0] % PES);
    check_values(copy, size);
    free(copy);
    return 0;
}
