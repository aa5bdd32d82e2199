// SPDX-License-Identifier: BSD-3-Clause
//
// How often an element has contributed to sections, as part of its state.
#include "base/alloc.h"
#include "rt/chare/chares.h"

uint32_t whi_shares_of(const whi_element *element) {
    return element->waits ? element->waits->share_count : 0;
}

void whi_shares_write(const whi_element *element, whi_writer *to) {
    for (uint32_t i = 0; i < whi_shares_of(element); i++) {
        whi_writer_u64(to, element->waits->shares[i].section);
        whi_writer_u64(to, element->waits->shares[i].count);
    }
}

wh_status whi_shares_read(whi_reader *from, uint32_t count, whi_share **out) {
    *out = NULL;
    if (!count)
        return WH_OK;
    if (whi_reader_left(from) / WHI_SHARE_SIZE < count)
        return WH_EPROTOCOL;
    whi_share *shares = whi_malloc(count * sizeof(*shares));
    if (!shares)
        return WH_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        shares[i].section = whi_reader_u64(from);
        shares[i].count = whi_reader_u64(from);
    }
    *out = shares;
    return WH_OK;
}

void whi_share_forget(whi_element *element, uint64_t section) {
    for (uint32_t i = 0; i < whi_shares_of(element); i++)
        if (element->waits->shares[i].section == section)
            element->waits->shares[i] = element->waits->shares[--element->waits->share_count];
}
