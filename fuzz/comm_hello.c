// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: a record of the handshake.
//
// What decodes encodes to a record that decodes to the same; its texts end and can be printed.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "link/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

static void check_text(const char *text, size_t size) {
    MUST(memchr(text, '\0', size));
    for (; *text; text++)
        MUST(*text >= ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t bytes[WHI_HELLO_SIZE] = {0}, again[WHI_HELLO_SIZE], third[WHI_HELLO_SIZE];
    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    whi_hello hello, same;
    wh_status status = whi_hello_decode(bytes, &hello);
    MUST(status == WH_OK || status == WH_EPROTOCOL || status == WH_EVERSION);
    if (status != WH_OK)
        return 0;
    check_text(hello.local_name, sizeof(hello.local_name));
    check_text(hello.host, sizeof(hello.host));
    check_text(hello.text, sizeof(hello.text));
    whi_hello_encode(&hello, again);
    MUST(whi_hello_decode(again, &same) == WH_OK);
    whi_hello_encode(&same, third);
    MUST(memcmp(again, third, sizeof(again)) == 0);
    return 0;
}
