// SPDX-License-Identifier: BSD-3-Clause
#include "rt/channel/record.h"

#include "base/bytes.h"

void whi_channel_opening_write(const whi_channel_opening *opening, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WHI_CHANNEL_OPENING_SIZE);
    whi_writer_bytes(&to, &opening->from, sizeof(opening->from));
    whi_writer_u32(&to, opening->pe);
    whi_writer_u32(&to, opening->number);
    whi_writer_u32(&to, opening->window);
    whi_writer_u32(&to, 0);
}

wh_status whi_channel_opening_read(const void *bytes, size_t size, uint32_t pes,
                                   whi_channel_opening *opening) {
    whi_reader from;
    whi_channel_opening read;
    whi_reader_init(&from, bytes, size);
    whi_reader_copy(&from, &read.from, sizeof(read.from));
    read.pe = whi_reader_u32(&from);
    read.number = whi_reader_u32(&from);
    read.window = whi_reader_u32(&from);
    uint32_t reserved = whi_reader_u32(&from);
    if (!whi_reader_done(&from) || read.pe >= pes || read.number >= WHI_CHANNEL_NUMBERS ||
        !read.window || read.window > WHI_CHANNEL_WINDOW_MAX || reserved)
        return WH_EPROTOCOL;
    *opening = read;
    return WH_OK;
}

void whi_channel_note_write(const whi_channel_note *note, uint8_t control, void *bytes) {
    whi_writer to;
    whi_writer_init(&to, bytes, WHI_CHANNEL_NOTE_SIZE);
    whi_writer_u8(&to, control);
    whi_writer_u8(&to, note->what);
    whi_writer_u8(&to, note->destroyed);
    whi_writer_u8(&to, 0);
    whi_writer_u32(&to, note->number);
    whi_writer_u64(&to, note->count);
}

wh_status whi_channel_note_read(const void *bytes, size_t size, whi_channel_note *note) {
    whi_reader from;
    whi_channel_note read;
    whi_reader_init(&from, bytes, size);
    (void)whi_reader_u8(&from);
    read.what = whi_reader_u8(&from);
    read.destroyed = whi_reader_u8(&from);
    uint8_t reserved = whi_reader_u8(&from);
    read.number = whi_reader_u32(&from);
    read.count = whi_reader_u64(&from);
    bool counts = read.what == WHI_CHANNEL_CREDIT || read.what == WHI_CHANNEL_FINISH ||
                  read.what >= WHI_CHANNEL_HOLD;
    if (!whi_reader_done(&from) || !read.what || read.what >= WHI_CHANNEL_WHATS ||
        read.destroyed > (read.what == WHI_CHANNEL_STOP) || (read.count && !counts) ||
        (read.what == WHI_CHANNEL_MOVED && read.count >= WHI_CHANNEL_NUMBERS) ||
        read.number >= WHI_CHANNEL_NUMBERS || reserved)
        return WH_EPROTOCOL;
    *note = read;
    return WH_OK;
}
