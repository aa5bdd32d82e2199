// SPDX-License-Identifier: BSD-3-Clause
//
// Proxies, callbacks and sections as bytes, for arguments.
#include <wherry/section.h>

#include "base/bytes.h"

void wh_proxy_encode(const wh_proxy *proxy, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WH_PROXY_SIZE);
    whi_writer_u32(&to, proxy->collection);
    for (int i = 0; i < WH_CHARE_DIMS_MAX; i++)
        whi_writer_u32(&to, i < proxy->dims ? (uint32_t)proxy->index[i] : 0);
    whi_writer_u32(&to, proxy->dims);
}

wh_status wh_proxy_decode(const void *bytes, size_t size, wh_proxy *proxy) {
    whi_reader from;
    whi_reader_init(&from, bytes, size);
    wh_proxy read = {.collection = whi_reader_u32(&from)};
    for (int i = 0; i < WH_CHARE_DIMS_MAX; i++)
        read.index[i] = (int32_t)whi_reader_u32(&from);
    uint32_t dims = whi_reader_u32(&from);
    for (uint32_t i = dims; i < WH_CHARE_DIMS_MAX; i++)
        if (read.index[i])
            whi_reader_fail(&from);
    if (!whi_reader_done(&from) || dims > WH_CHARE_DIMS_MAX)
        return WH_EPROTOCOL;
    read.dims = (uint8_t)dims;
    *proxy = read;
    return WH_OK;
}

void wh_callback_encode(const wh_callback *callback, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WH_CALLBACK_SIZE);
    whi_writer_u32(&to, callback->kind);
    whi_writer_u32(&to, callback->entry);
    void *proxy = whi_writer_space(&to, WH_PROXY_SIZE);
    wh_proxy_encode(&callback->proxy, proxy);
    whi_writer_u64(&to, (uint64_t)callback->ref);
    whi_writer_u64(&to, callback->function);
    whi_writer_u32(&to, (uint32_t)callback->pe);
    whi_writer_u32(&to, (uint32_t)callback->future.pe);
    whi_writer_u32(&to, callback->future.id);
    whi_writer_u32(&to, 0);
    whi_writer_u64(&to, 0);
}

wh_status wh_callback_decode(const void *bytes, size_t size, wh_callback *callback) {
    whi_reader from;
    whi_reader_init(&from, bytes, size);
    uint32_t kind = whi_reader_u32(&from);
    wh_callback read = {.kind = (wh_callback_kind)kind, .entry = whi_reader_u32(&from)};
    const void *proxy = whi_reader_bytes(&from, WH_PROXY_SIZE);
    if (!proxy || kind > WH_CALLBACK_EXIT ||
        wh_proxy_decode(proxy, WH_PROXY_SIZE, &read.proxy) != WH_OK)
        return WH_EPROTOCOL;
    read.ref = (int64_t)whi_reader_u64(&from);
    read.function = whi_reader_u64(&from);
    read.pe = (int32_t)whi_reader_u32(&from);
    read.future.pe = (int32_t)whi_reader_u32(&from);
    read.future.id = whi_reader_u32(&from);
    if (whi_reader_u32(&from) || whi_reader_u64(&from) || !whi_reader_done(&from))
        return WH_EPROTOCOL;
    *callback = read;
    return WH_OK;
}

void wh_section_encode(const wh_section *section, void *bytes) {
    uint32_t words[WH_SECTION_SIZE / 4] = {
        htole32(section->collection), htole32((uint32_t)section->pe), htole32(section->number)};
    memcpy(bytes, words, sizeof(words));
}

wh_status wh_section_decode(const void *bytes, size_t size, wh_section *section) {
    whi_reader from;
    whi_reader_init(&from, bytes, size);
    wh_section read = {.collection = whi_reader_u32(&from),
                       .pe = (int32_t)whi_reader_u32(&from),
                       .number = whi_reader_u32(&from)};
    uint32_t reserved = whi_reader_u32(&from);
    if (reserved || !whi_reader_done(&from) || read.pe < 0 || !read.number)
        return WH_EPROTOCOL;
    *section = read;
    return WH_OK;
}
