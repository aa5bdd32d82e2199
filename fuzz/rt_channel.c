// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: openings and notes of channels, as other PEs send them.  What decodes encodes to the same bytes.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rt/channel/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { PES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    whi_channel_opening opening;
    whi_channel_note note;
    uint8_t bytes[WHI_CHANNEL_OPENING_SIZE];
    if (whi_channel_opening_read(data, size, PES, &opening) == WH_OK) {
        MUST(size == WHI_CHANNEL_OPENING_SIZE && opening.pe < PES);
        MUST(opening.window && opening.number < WHI_CHANNEL_NUMBERS);
        whi_channel_opening_write(&opening, bytes);
        MUST(memcmp(bytes, data, size) == 0);
    }
    if (whi_channel_note_read(data, size, &note) == WH_OK) {
        MUST(size == WHI_CHANNEL_NOTE_SIZE);
        whi_channel_note_write(&note, data[0], bytes);
        MUST(memcmp(bytes, data, size) == 0);
    }
    return 0;
}
