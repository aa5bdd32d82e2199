// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses: "host:port" as people write it, and the blob that names a worker.
#ifndef WHI_LINK_ADDRESS_H
#define WHI_LINK_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <wherry/endpoint.h>

#include "link/hello.h"

enum { WHI_ADDRESSES_MAX = 16, WHI_HOST_MAX = 256 };

typedef struct whi_sockaddr {
    struct sockaddr_storage addr;
    socklen_t size;
} whi_sockaddr;

// whi_address_split takes "host:port", "[v6]:port", ":port" or "*:port" apart; host is empty for all addresses.
WH_CHECK wh_status whi_address_split(const char *text, char host[WHI_HOST_MAX], uint16_t *port);

// whi_address_text writes "1.2.3.4:80" or "[::1]:80".
void whi_address_text(const whi_sockaddr *addr, char *text, size_t size);

// whi_address_tell puts one as the user reads it.
void whi_address_tell(const whi_sockaddr *addr, wh_address *out);

uint16_t whi_address_port(const whi_sockaddr *addr);
void whi_address_set_port(whi_sockaddr *addr, uint16_t port);

// whi_address_resolve looks a host up, which may take long unless `numeric`; it returns the number of addresses.
// An empty host with `passive` means all addresses of this machine.
size_t whi_address_resolve(const char *host, uint16_t port, bool numeric, bool passive,
                           whi_sockaddr out[WHI_ADDRESSES_MAX]);

// What a blob holds.
typedef struct whi_blob {
    uint8_t uuid[16];
    uint8_t boot_id[16];
    char local_name[WHI_LOCAL_NAME_MAX];
    uint64_t listener;
    size_t count;
    whi_sockaddr addrs[WHI_ADDRESSES_MAX];
} whi_blob;

// whi_blob_encode returns the size; `size` bytes must hold WH_ADDRESS_MAX.  whi_blob_decode survives any bytes.
size_t whi_blob_encode(const whi_blob *blob, void *bytes, size_t size);
WH_CHECK wh_status whi_blob_decode(const void *bytes, size_t size, whi_blob *blob);

#endif
