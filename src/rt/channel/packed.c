// SPDX-License-Identifier: BSD-3-Clause
//
// Ends on their way: as bytes, with the messages that nobody has received, and where they come to.
#include "base/alloc.h"
#include "base/bytes.h"
#include "rt/channel/channels.h"

enum { COUNT_SIZE = 4, END_SIZE = WHI_CHANNEL_NAME_SIZE + 8 * 4 + 5 * 8, KEPT_SIZE = 8 };

enum {
    LOST = 1,
    STOPPED = 2,
    FINISHED = 4,
    PEER_FINISHED = 8,
    GONE = 16,
    PEER_GONE = 32,
    CLOSING = 64,
    UNUSED = 128,
    WITHDRAWS = 256,
    FLAGS = 511
};

// ---- Going.

static uint32_t flags_of(const wh_channel *ch) {
    const struct {
        bool is;
        uint32_t flag;
    } all[] = {{ch->lost, LOST},          {ch->stopped, STOPPED},
               {ch->finished, FINISHED},  {ch->peer_finished, PEER_FINISHED},
               {ch->gone, GONE},          {ch->peer_gone, PEER_GONE},
               {ch->closing, CLOSING},    {!ch->used, UNUSED},
               {ch->withdraws, WITHDRAWS}};
    uint32_t flags = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        flags |= all[i].is ? all[i].flag : 0;
    return flags;
}

static void write_end(whi_writer *to, const wh_channel *ch) {
    whi_writer_bytes(to, &ch->pair->peer, sizeof(ch->pair->peer));
    const uint32_t words[] = {
        ch->id,     flags_of(ch),    (uint32_t)ch->peer, ch->peer_number,
        ch->window, ch->peer_window, (uint32_t)ch->why,  (uint32_t)(ch->lost ? 0 : ch->kept_count)};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        whi_writer_u32(to, words[i]);
    const uint64_t counts[] = {ch->sent, ch->credited, ch->matched, ch->returned, ch->expected};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        whi_writer_u64(to, counts[i]);
    for (const whi_list *node = ch->kept.next; !ch->lost && node != &ch->kept; node = node->next) {
        const whi_channel_kept *k = whi_container_of(node, whi_channel_kept, link);
        whi_writer_u64(to, k->size);
        whi_writer_bytes(to, k->bytes, k->size);
    }
}

wh_status whi_channels_pack(whi_channels *channels, const whi_channel_name *self, void **bytes,
                            size_t *size) {
    const whi_channel_element *element = whi_channel_element_find(channels, self);
    const wh_channel *first = element ? whi_channel_leaving(element, NULL) : NULL;
    uint32_t count = 0;
    *bytes = NULL;
    *size = 0;
    if (!first)
        return WH_OK;
    size_t all = COUNT_SIZE;
    for (const wh_channel *ch = first; ch; ch = whi_channel_leaving(element, ch), count++) {
        all += END_SIZE;
        for (const whi_list *node = ch->kept.next; !ch->lost && node != &ch->kept;
             node = node->next)
            all += KEPT_SIZE + whi_container_of(node, whi_channel_kept, link)->size;
    }
    void *space = whi_malloc(all);
    if (!space)
        return WH_ENOMEM;
    whi_writer to;
    whi_writer_init(&to, space, all);
    whi_writer_u32(&to, count);
    for (const wh_channel *ch = first; ch; ch = whi_channel_leaving(element, ch))
        write_end(&to, ch);
    *bytes = space;
    *size = all;
    return WH_OK;
}

void whi_channels_left(whi_channels *channels, const whi_channel_name *self) {
    whi_channel_element *element;
    wh_channel *ch;
    while ((element = whi_channel_element_find(channels, self)) &&
           (ch = whi_channel_leaving(element, NULL)))
        whi_channel_free(ch);
}

// ---- Coming.

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    whi_free(arg);
}

// send_again has a message that has moved along come from this PE itself.
static wh_status send_again(const wh_channel *ch, whi_reader *from) {
    uint64_t size = whi_reader_u64(from);
    const void *bytes = size <= whi_reader_left(from) ? whi_reader_bytes(from, size) : NULL;
    if (!whi_reader_ok(from) || !bytes)
        return WH_EPROTOCOL;
    wh_pe *pe = ch->in->pe;
    void *own = whi_malloc(size + 1);
    if (!own)
        return WH_ENOMEM;
    memcpy(own, bytes, size);
    wh_status st = wh_pe_send_buffer(pe, pe->number, own, size,
                                     WH_PE_TAG(WH_PE_TAG_CHANNEL, pe->number, ch->number),
                                     WH_OP_OPTS(.done = on_sent, .arg = own), NULL);
    if (st != WH_PENDING)
        whi_free(own);
    return st < 0 ? st : WH_OK;
}

static wh_status come_from(wh_channel *ch, uint32_t count) {
    ch->from = ch->peer;
    if (!count)
        return WH_OK;
    whi_channel_line *line = whi_malloc(sizeof(*line));
    if (!line)
        return WH_ENOMEM;
    *line = (whi_channel_line){.pe = ch->peer, .until = UINT64_MAX};
    whi_list_push_back(&ch->later, &line->link);
    ch->from = ch->in->pe->number;
    ch->until = ch->matched + count;
    return WH_OK;
}

static void set_flags(wh_channel *ch, uint32_t flags) {
    ch->lost = flags & LOST;
    ch->stopped = flags & STOPPED;
    ch->finished = flags & FINISHED;
    ch->peer_finished = flags & PEER_FINISHED;
    ch->gone = flags & GONE;
    ch->peer_gone = flags & PEER_GONE;
    ch->used = !(flags & UNUSED);
    ch->withdraws = flags & WITHDRAWS;
}

static wh_status read_end(whi_channels *channels, const whi_channel_name *self, whi_reader *from) {
    whi_channel_name peer;
    uint32_t words[8];
    uint64_t counts[5];
    whi_reader_copy(from, &peer, sizeof(peer));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        words[i] = whi_reader_u32(from);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        counts[i] = whi_reader_u64(from);
    if (!whi_reader_ok(from) || !words[0] || words[1] > FLAGS ||
        words[2] >= (uint32_t)channels->pe->pes || words[3] >= WHI_CHANNEL_NUMBERS || !words[4] ||
        words[4] > WHI_CHANNEL_WINDOW_MAX || words[5] > WHI_CHANNEL_WINDOW_MAX ||
        words[7] > WHI_CHANNEL_WINDOW_MAX)
        return WH_EPROTOCOL;
    wh_channel *ch;
    wh_status st = whi_channel_adopt(channels, self, &peer, words[4], &ch);
    if (st != WH_OK)
        return st;
    ch->id = words[0];
    ch->peer = (int)words[2];
    ch->peer_number = words[3];
    ch->peer_window = words[5];
    ch->why = (wh_status)(int32_t)words[6];
    ch->sent = counts[0];
    ch->credited = counts[1];
    ch->matched = counts[2];
    ch->returned = counts[3];
    ch->expected = counts[4];
    set_flags(ch, words[1]);
    st = come_from(ch, words[7]);
    for (uint32_t i = 0; st == WH_OK && i < words[7]; i++)
        st = send_again(ch, from);
    if (st != WH_OK)
        return st;
    ch->moved = !ch->lost && !ch->gone;
    if (ch->moved)
        whi_channel_tell(channels, ch->peer, WHI_CHANNEL_MOVED, ch->peer_number, false, ch->number);
    whi_channel_credit(ch);  // of receives that have ended behind HOLD
    if (words[1] & CLOSING)
        whi_channel_close(ch, false);
    else
        whi_channel_settle(ch);
    return WH_OK;
}

wh_status whi_channels_unpack(whi_channels *channels, const whi_channel_name *self,
                              const void *bytes, size_t size) {
    whi_reader from;
    whi_reader_init(&from, bytes, size);
    uint32_t count = whi_reader_u32(&from);
    wh_status st = WH_OK;
    for (uint32_t i = 0; st == WH_OK && i < count; i++)
        st = read_end(channels, self, &from);
    return st == WH_OK && !whi_reader_done(&from) ? WH_EPROTOCOL : st;
}
