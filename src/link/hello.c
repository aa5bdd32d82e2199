// SPDX-License-Identifier: BSD-3-Clause
//
// The codec of handshake records, see hello.h and docs/wire.md.
#include "link/hello.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/printable.h"
#include "link/wire.h"

// The line ends show a transfer that has been through a text-mode translation.
static const uint8_t magic[8] = {'W', 'H', 'E', 'R', 'R', 'Y', '\r', '\n'};

enum { MAC_OFFSET = WHI_HELLO_SIZE - WHI_HELLO_MAC_SIZE };

void whi_hello_encode(const whi_hello *hello, uint8_t bytes[WHI_HELLO_SIZE]) {
    memset(bytes, 0, WHI_HELLO_SIZE);
    whi_writer w;
    whi_writer_init(&w, bytes, MAC_OFFSET);
    whi_writer_bytes(&w, magic, sizeof(magic));
    whi_writer_u8(&w, hello->step);
    whi_writer_u8(&w, 0);
    whi_writer_u16(&w, WHI_HELLO_SIZE);
    whi_writer_u16(&w, hello->version_min);
    whi_writer_u16(&w, hello->version_max);
    whi_writer_u32(&w, hello->flags);
    whi_writer_u64(&w, hello->features);
    whi_writer_u32(&w, hello->lanes);
    whi_writer_u32(&w, (uint32_t)hello->status);
    whi_writer_bytes(&w, hello->uuid, sizeof(hello->uuid));
    whi_writer_bytes(&w, hello->boot_id, sizeof(hello->boot_id));
    whi_writer_bytes(&w, hello->nonce, sizeof(hello->nonce));
    whi_writer_bytes(&w, hello->token, sizeof(hello->token));
    whi_writer_u32(&w, hello->pid);
    whi_writer_u32(&w, hello->uid);
    whi_writer_u32(&w, hello->eager_max);
    whi_writer_u32(&w, hello->chunk_max);
    whi_writer_u32(&w, hello->ucx_version);
    whi_writer_u64(&w, hello->listener);
    whi_writer_bytes(&w, hello->local_name, sizeof(hello->local_name));
    whi_writer_bytes(&w, hello->host, sizeof(hello->host));
    whi_writer_bytes(&w, hello->text, sizeof(hello->text));
    assert(whi_writer_ok(&w));
    memcpy(bytes + MAC_OFFSET, hello->mac, WHI_HELLO_MAC_SIZE);
}

// text reads a fixed field as a string: it ends in NUL and holds printable characters only, since it may
// reach a log or a terminal.
static void text(whi_reader *r, char *to, size_t size) {
    whi_reader_copy(r, to, size);
    to[size - 1] = '\0';
    whi_printable(to);
}

wh_status whi_hello_decode(const uint8_t bytes[WHI_HELLO_SIZE], whi_hello *hello) {
    whi_reader r;
    whi_reader_init(&r, bytes, WHI_HELLO_SIZE);
    *hello = (whi_hello){.step = 0};
    if (memcmp(whi_reader_bytes(&r, sizeof(magic)), magic, sizeof(magic)) != 0)
        return WH_EPROTOCOL;
    hello->step = whi_reader_u8(&r);
    (void)whi_reader_u8(&r);
    uint16_t size = whi_reader_u16(&r);
    hello->version_min = whi_reader_u16(&r);
    hello->version_max = whi_reader_u16(&r);
    if (hello->version_min > hello->version_max)
        return WH_EPROTOCOL;
    if (hello->version_min > WHI_PROTOCOL_VERSION || hello->version_max < WHI_PROTOCOL_VERSION_MIN)
        return WH_EVERSION;
    if (size != WHI_HELLO_SIZE || hello->step < WHI_STEP_HELLO || hello->step > WHI_STEP_REJECT)
        return WH_EPROTOCOL;
    hello->flags = whi_reader_u32(&r);
    hello->features = whi_reader_u64(&r);
    hello->lanes = whi_reader_u32(&r);
    hello->status = (int32_t)whi_reader_u32(&r);
    whi_reader_copy(&r, hello->uuid, sizeof(hello->uuid));
    whi_reader_copy(&r, hello->boot_id, sizeof(hello->boot_id));
    whi_reader_copy(&r, hello->nonce, sizeof(hello->nonce));
    whi_reader_copy(&r, hello->token, sizeof(hello->token));
    hello->pid = whi_reader_u32(&r);
    hello->uid = whi_reader_u32(&r);
    hello->eager_max = whi_reader_u32(&r);
    hello->chunk_max = whi_reader_u32(&r);
    hello->ucx_version = whi_reader_u32(&r);
    hello->listener = whi_reader_u64(&r);
    text(&r, hello->local_name, sizeof(hello->local_name));
    text(&r, hello->host, sizeof(hello->host));
    text(&r, hello->text, sizeof(hello->text));
    memcpy(hello->mac, bytes + MAC_OFFSET, WHI_HELLO_MAC_SIZE);
    return whi_reader_ok(&r) ? WH_OK : WH_EPROTOCOL;
}

bool whi_hello_same_host(const whi_hello *peer, const uint8_t boot_id[16]) {
    static const uint8_t unknown[16];
    return memcmp(peer->boot_id, boot_id, 16) == 0 && memcmp(boot_id, unknown, 16) != 0;
}

wh_status whi_hello_prove(const char *secret, whi_hello_role role,
                          const uint8_t hello[WHI_HELLO_SIZE], const uint8_t answer[WHI_HELLO_SIZE],
                          uint8_t mac[WHI_HELLO_MAC_SIZE]) {
    // The roles sign different texts, so that a proof cannot be sent back to its maker.
    static const char *labels[] = {"wherry-1 connector", "wherry-1 acceptor "};
    uint8_t signed_text[18 + 2 * MAC_OFFSET];
    static_assert(sizeof("wherry-1 connector") - 1 == 18, "label length");
    memcpy(signed_text, labels[role], 18);
    memcpy(signed_text + 18, hello, MAC_OFFSET);
    memcpy(signed_text + 18 + MAC_OFFSET, answer, MAC_OFFSET);
    return whi_mac(secret, signed_text, sizeof(signed_text), mac);
}
