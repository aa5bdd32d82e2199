// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: the address blob of a worker, and, as text, the address of a listener.
//
// A blob that decodes has bounded fields and encodes to one that decodes to the same.  The texts of its addresses
// split again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/worker.h>

#include "link/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

static void try_text(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    char host[WHI_HOST_MAX];
    uint16_t port;
    MUST(text);
    memcpy(text, data, size);
    text[size] = '\0';
    if (whi_address_split(text, host, &port) == WH_OK)
        MUST(strlen(host) < WHI_HOST_MAX && strlen(host) <= strlen(text));
    free(text);
}

static void check(const whi_blob *blob) {
    uint8_t bytes[WH_ADDRESS_MAX];
    whi_blob same;
    MUST(blob->count <= WHI_ADDRESSES_MAX);
    MUST(memchr(blob->local_name, '\0', sizeof(blob->local_name)));
    size_t size = whi_blob_encode(blob, bytes, sizeof(bytes));
    MUST(size > 0 && whi_blob_decode(bytes, size, &same) == WH_OK);
    MUST(same.count == blob->count && same.listener == blob->listener);
    for (size_t i = 0; i < blob->count; i++) {
        char text[80], host[WHI_HOST_MAX];
        uint16_t port;
        whi_address_text(&blob->addrs[i], text, sizeof(text));
        MUST(whi_address_split(text, host, &port) == WH_OK);
        MUST(port == whi_address_port(&blob->addrs[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    whi_blob blob;
    if (whi_blob_decode(data, size, &blob) == WH_OK)
        check(&blob);
    try_text(data, size);
    return 0;
}
