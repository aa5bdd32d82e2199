// SPDX-License-Identifier: BSD-3-Clause
//
// HMAC-SHA-256 (RFC 2104), by libcrypto.
#ifndef WHI_LINK_MAC_H
#define WHI_LINK_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

#define WHI_MAC_SIZE 32

// whi_mac writes the code of `size` bytes at `text`, keyed with `secret`.  Any thread may call it, also while another one is
// in exit(3).  Fails with WH_ESYSTEM if libcrypto cannot.
WH_CHECK wh_status whi_mac(const char *secret, const void *text, size_t size,
                           uint8_t mac[WHI_MAC_SIZE]);

// whi_mac_equal compares in constant time.
bool whi_mac_equal(const uint8_t a[WHI_MAC_SIZE], const uint8_t b[WHI_MAC_SIZE]);

#endif
