// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: the address of a lane, in pieces of which each says where it belongs.
//
// An input is a program of pieces: size, the whole's size and the offset, each in four bytes, and then the bytes.  What is put
// together is exactly the bytes of the pieces that were taken, one behind the other, and never more than an address may have.
#include <stdlib.h>
#include <string.h>

#include "link/lane_address.h"
#include "link/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

typedef struct piece {
    uint32_t size, whole, offset;
} piece;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t expected[WHI_LANE_ADDRESS_MAX];
    whi_lane_address address = {.bytes = NULL};
    uint32_t got = 0;
    wh_status st = WH_PENDING;
    while (st == WH_PENDING && size >= sizeof(piece)) {
        piece p;
        memcpy(&p, data, sizeof(p));
        data += sizeof(p);
        size -= sizeof(p);
        if (p.size > WHI_LANE_PIECE || p.size > size)
            p.size = (uint32_t)(size < WHI_LANE_PIECE ? size : WHI_LANE_PIECE);
        whi_hdr hdr = {.size = p.size, .tag = p.whole, .arg = p.offset};
        st = whi_lane_address_add(&address, &hdr, data);
        if (st >= 0) {
            MUST(p.size && p.offset == got && p.size <= sizeof(expected) - got);
            memcpy(expected + got, data, p.size);
            got += p.size;
        }
        MUST(address.got == got && got <= address.size && address.size <= WHI_LANE_ADDRESS_MAX);
        MUST((st == WH_OK) == (got && got == address.size));
        data += p.size;
        size -= p.size;
    }
    MUST(!got || memcmp(address.bytes, expected, got) == 0);
    whi_lane_address_drop(&address);
    return 0;
}
