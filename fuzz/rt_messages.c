// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what stands in front of a message between PEs, and what a PE says when it connects.
//
// What decodes has bounded fields, and encodes to the same bytes but for those that nobody reads.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/wire/envelope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

static void try_envelope(const uint8_t *data, size_t size) {
    uint8_t bytes[WHI_ENVELOPE_MAX];
    whi_envelope envelope;
    if (!whi_envelope_read(&envelope, data, size))
        return;
    MUST(envelope.head_size <= WH_PE_HEAD_MAX && size <= sizeof(bytes));
    MUST(whi_envelope_write(&envelope, data, bytes) == size);
    MUST(memcmp(bytes, data, envelope.head_size) == 0);
    MUST(memcmp(bytes + size - WHI_ENVELOPE_SIZE, data + size - WHI_ENVELOPE_SIZE,
                WHI_ENVELOPE_SIZE) == 0);
}

static void try_greeting(const uint8_t *data, size_t size) {
    uint8_t bytes[WHI_GREETING_SIZE];
    whi_greeting greeting;
    wh_status st = whi_greeting_read(&greeting, data, size);
    MUST(st == WH_OK || st == WH_EPROTOCOL || st == WH_EVERSION);
    if (st != WH_OK)
        return;
    MUST(size == sizeof(bytes) && greeting.use < WHI_USES);
    whi_greeting_write(&greeting, bytes);
    MUST(memcmp(bytes, data, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_envelope(data, size);
    try_greeting(data, size);
    return 0;
}
