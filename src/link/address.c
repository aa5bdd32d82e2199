// SPDX-License-Identifier: BSD-3-Clause
//
// Addresses, see address.h.
#include "link/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/bytes.h"

static const uint8_t blob_magic[4] = {'W', 'H', 'B', '1'};

wh_status whi_address_split(const char *text, char host[WHI_HOST_MAX], uint16_t *port) {
    const char *colon = strrchr(text, ':');
    if (!colon || !colon[1])
        return WH_EADDRESS;
    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (*end || number > UINT16_MAX || colon[1] < '0' || colon[1] > '9')
        return WH_EADDRESS;
    size_t length = (size_t)(colon - text);
    if (text[0] == '[') {
        if (length < 3 || text[length - 1] != ']')
            return WH_EADDRESS;
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return WH_EADDRESS;  // an IPv6 address needs its brackets
    }
    if (length == 1 && text[0] == '*')
        length = 0;
    if (length >= WHI_HOST_MAX)
        return WH_EADDRESS;
    memcpy(host, text, length);
    host[length] = '\0';
    *port = (uint16_t)number;
    return WH_OK;
}

uint16_t whi_address_port(const whi_sockaddr *addr) {
    if (addr->addr.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&addr->addr)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&addr->addr)->sin_port);
}

void whi_address_set_port(whi_sockaddr *addr, uint16_t port) {
    if (addr->addr.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&addr->addr)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&addr->addr)->sin_port = htons(port);
}

void whi_address_text(const whi_sockaddr *addr, char *text, size_t size) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (addr->addr.ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&addr->addr)->sin6_addr, host,
                  sizeof(host));
        snprintf(text, size, "[%s]:%u", host, whi_address_port(addr));
    } else if (addr->addr.ss_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)&addr->addr)->sin_addr, host,
                  sizeof(host));
        snprintf(text, size, "%s:%u", host, whi_address_port(addr));
    } else {
        snprintf(text, size, "local socket");
    }
}

// tell_local copies an abstract name, which does not end in NUL.
static void tell_local(const whi_sockaddr *addr, wh_address *out) {
    const struct sockaddr_un *un = (const struct sockaddr_un *)&addr->addr;
    size_t head = offsetof(struct sockaddr_un, sun_path) + 1;
    size_t length = addr->size > head ? addr->size - head : 0;
    if (length >= sizeof(out->host))
        length = sizeof(out->host) - 1;
    memcpy(out->host, un->sun_path + 1, length);
}

void whi_address_tell(const whi_sockaddr *addr, wh_address *out) {
    *out = (wh_address){.family = addr->addr.ss_family};
    if (addr->addr.ss_family == AF_UNIX) {
        tell_local(addr, out);
        return;
    }
    out->port = whi_address_port(addr);
    if (addr->addr.ss_family == AF_INET6)
        out->scope_id = ((const struct sockaddr_in6 *)&addr->addr)->sin6_scope_id;
    if (getnameinfo((const struct sockaddr *)&addr->addr, addr->size, out->host, sizeof(out->host),
                    NULL, 0, NI_NUMERICHOST) != 0)
        out->host[0] = '\0';
}

size_t whi_address_resolve(const char *host, uint16_t port, bool numeric, bool passive,
                           whi_sockaddr out[WHI_ADDRESSES_MAX]) {
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (numeric ? AI_NUMERICHOST : 0) |
                                         (passive ? AI_PASSIVE : 0)};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host[0] ? host : NULL, service, &hints, &found) != 0)
        return 0;
    size_t count = 0;
    for (struct addrinfo *a = found; a && count < WHI_ADDRESSES_MAX; a = a->ai_next) {
        if (a->ai_addrlen > sizeof(out[0].addr))
            continue;
        memcpy(&out[count].addr, a->ai_addr, a->ai_addrlen);
        out[count++].size = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return count;
}

static void write_addr(whi_writer *w, const whi_sockaddr *addr) {
    uint8_t ip[16] = {0};
    bool v6 = addr->addr.ss_family == AF_INET6;
    if (v6)
        memcpy(ip, &((const struct sockaddr_in6 *)&addr->addr)->sin6_addr, 16);
    else
        memcpy(ip, &((const struct sockaddr_in *)&addr->addr)->sin_addr, 4);
    whi_writer_u8(w, v6 ? 6 : 4);
    whi_writer_u16(w, whi_address_port(addr));
    whi_writer_bytes(w, ip, sizeof(ip));
}

static void read_addr(whi_reader *r, whi_sockaddr *addr) {
    uint8_t family = whi_reader_u8(r);
    uint16_t port = whi_reader_u16(r);
    uint8_t ip[16];
    whi_reader_copy(r, ip, sizeof(ip));
    *addr = (whi_sockaddr){.size = 0};
    if (family == 6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr->addr;
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_addr, ip, 16);
        addr->size = sizeof(*in6);
    } else if (family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&addr->addr;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, ip, 4);
        addr->size = sizeof(*in);
    } else {
        whi_reader_fail(r);
    }
    if (!port)
        whi_reader_fail(r);
    whi_address_set_port(addr, port);
}

size_t whi_blob_encode(const whi_blob *blob, void *bytes, size_t size) {
    whi_writer w;
    whi_writer_init(&w, bytes, size);
    whi_writer_bytes(&w, blob_magic, sizeof(blob_magic));
    whi_writer_bytes(&w, blob->uuid, sizeof(blob->uuid));
    whi_writer_bytes(&w, blob->boot_id, sizeof(blob->boot_id));
    whi_writer_bytes(&w, blob->local_name, sizeof(blob->local_name));
    whi_writer_u64(&w, blob->listener);
    whi_writer_u8(&w, (uint8_t)blob->count);
    for (size_t i = 0; i < blob->count; i++)
        write_addr(&w, &blob->addrs[i]);
    return whi_writer_ok(&w) ? whi_writer_size(&w) : 0;
}

wh_status whi_blob_decode(const void *bytes, size_t size, whi_blob *blob) {
    whi_reader r;
    whi_reader_init(&r, bytes, size);
    uint8_t magic[4];
    whi_reader_copy(&r, magic, sizeof(magic));
    if (memcmp(magic, blob_magic, sizeof(magic)) != 0)
        return WH_EADDRESS;
    *blob = (whi_blob){.count = 0};
    whi_reader_copy(&r, blob->uuid, sizeof(blob->uuid));
    whi_reader_copy(&r, blob->boot_id, sizeof(blob->boot_id));
    whi_reader_copy(&r, blob->local_name, sizeof(blob->local_name));
    blob->local_name[sizeof(blob->local_name) - 1] = '\0';
    blob->listener = whi_reader_u64(&r);
    blob->count = whi_reader_u8(&r);
    if (blob->count > WHI_ADDRESSES_MAX)
        return WH_EADDRESS;
    for (size_t i = 0; i < blob->count; i++)
        read_addr(&r, &blob->addrs[i]);
    return whi_reader_done(&r) ? WH_OK : WH_EADDRESS;
}
