// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of lanes: a side that takes no chunks, whoever sends it one.
#ifndef WHI_NET_DEAF_H
#define WHI_NET_DEAF_H

#include "net/lane.h"

static inline wh_status deaf_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link, (void)hdr, (void)span;
    return WH_EPROTOCOL;
}

static inline wh_status deaf_landed(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    return WH_EPROTOCOL;
}

#endif
