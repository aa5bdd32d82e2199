// SPDX-License-Identifier: BSD-3-Clause
//
// Ends that move with their elements.
//
// An end that is about to move says HOLD, with how many messages it has sent, and nothing more.  The other one sends and says nothing
// from then on, and answers HELD, with how many it has sent.  The end takes those that nobody has received into memory, and moves
// with them.  Where it comes to it has a new number, says MOVED with it, and sends what has moved along to itself.
//
// What was sent before a move comes from another PE than what is sent behind it.  So an end knows up to which message they come
// from where, and posts receives to one PE at a time.
//
// Where both ends are about to move, the one whose element's name is lower goes first, and the other one asks again then.
#include <wherry/tag.h>

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
    FLAGS = 255
};

typedef struct kept {
    whi_list link;
    wh_channel *channel;
    size_t size;
    _Alignas(16) char bytes[];
} kept;

// end_of goes through the ends of an element that are about to move.  NULL: there are no more.
static wh_channel *end_of(const whi_channel_element *element, const wh_channel *after) {
    bool found = !after;
    for (whi_list *p = element->pairs.next; p != &element->pairs; p = p->next) {
        whi_channel_pair *pair = whi_container_of(p, whi_channel_pair, link);
        for (whi_list *e = pair->ends.next; e != &pair->ends; e = e->next) {
            wh_channel *ch = whi_container_of(e, wh_channel, link);
            if (found && ch->leaving)
                return ch;
            found = found || ch == after;
        }
    }
    return NULL;
}

void whi_channels_kick(whi_channels *channels) {
    if (channels->due)
        return;
    channels->due = true;
    whi_pe_do(channels->pe, &channels->ready);
}

void whi_channels_drop(whi_ready *ready) {
    (void)ready;  // it is the channels' own
}

static void tell(wh_channel *ch, whi_channel_what what, uint64_t count) {
    whi_channel_tell(ch->in, ch->peer, what, ch->peer_number, false, count);
}

// ---- Whether an element can move.

static const char *hindrance_of(const whi_channel_pair *pair) {
    if (!whi_list_empty(&pair->unmet) || !whi_list_empty(&pair->openings))
        return "a channel of it has not been opened by both elements yet";
    for (const whi_list *e = pair->ends.next; e != &pair->ends; e = e->next) {
        const wh_channel *ch = whi_container_of(e, wh_channel, link);
        if (!ch->closed && !ch->id)
            return "it has a channel that was opened without an id, by which it could find it again";
        if (!ch->closed && (!whi_list_empty(&ch->receives) || !whi_list_empty(&ch->early)))
            return "a receive of a channel of it has not ended";
        if (!ch->closed && (!whi_list_empty(&ch->sends) || !whi_list_empty(&ch->waiting)))
            return "a send of a channel of it has not ended";
    }
    return NULL;
}

const char *whi_channels_hindrance(const whi_channels *channels, const whi_channel_name *self) {
    const whi_channel_element *element = whi_channel_element_find(channels, self);
    const char *why = NULL;
    for (whi_list *p = element ? element->pairs.next : NULL; p && p != &element->pairs && !why;
         p = p->next)
        why = hindrance_of(whi_container_of(p, whi_channel_pair, link));
    return why;
}

void whi_channels_going(whi_channels *channels, const whi_channel_name *self, bool going) {
    whi_channel_element *element = whi_channel_element_find(channels, self);
    if (!element)
        return;
    element->busy = true;
    whi_list_foreach(p, &element->pairs) {
        whi_channel_pair *pair = whi_container_of(p, whi_channel_pair, link);
        whi_list_foreach(e, &pair->ends) {
            wh_channel *ch = whi_container_of(e, wh_channel, link);
            ch->leaving = going && !ch->closed;
            if (!going && ch->closing) {
                ch->closing = false;
                whi_channel_close(ch, false);
            }
        }
    }
    element->busy = false;
}

// ---- Leaving.

static uint64_t total_of(const wh_channel *ch) {
    return ch->lost ? 0 : ch->gone ? ch->expected : ch->granted ? ch->total : 0;
}

static bool is_short(const wh_channel *ch) {
    return ch->matched + ch->kept_count < total_of(ch);
}

static bool is_done(const wh_channel *ch) {
    if (ch->landing || is_short(ch))
        return false;
    return ch->lost || (ch->gone ? ch->peer_gone : ch->granted);
}

static bool are_done(const whi_channel_element *element) {
    for (const wh_channel *ch = end_of(element, NULL); ch; ch = end_of(element, ch))
        if (!is_done(ch))
            return false;
    return true;
}

// ask asks all other ends at once, and not while one of them is about to move: so who waits for whom goes by their names.
static void ask(const whi_channel_element *element) {
    wh_channel *ch;
    for (ch = end_of(element, NULL); ch; ch = end_of(element, ch))
        if (ch->held)
            return;
    for (ch = end_of(element, NULL); ch; ch = end_of(element, ch)) {
        if (ch->asked || ch->lost || ch->gone)
            continue;
        ch->asked = true;
        tell(ch, WHI_CHANNEL_HOLD, ch->sent);
    }
}

static void landed(wh_channel *ch, kept *k, wh_status st) {
    if (st < 0) {  // it was taken back by its sender, who says so
        whi_list_remove(&k->link);
        ch->kept_count--;
        whi_free(k);
    }
    whi_channels_kick(ch->in);
}

static void on_landed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    kept *k = arg;
    k->channel->landing--;
    landed(k->channel, k, result->status);
}

static int comes_from(const wh_channel *ch, uint64_t number) {
    if (number < ch->until)
        return ch->from;
    for (const whi_list *node = ch->later.next; node != &ch->later; node = node->next) {
        const whi_channel_line *line = whi_container_of(node, whi_channel_line, link);
        if (number < line->until)
            return line->pe;
    }
    return ch->peer;
}

// keep_next takes the next message that nobody has received into memory.  False: it has not come.
static bool keep_next(wh_channel *ch) {
    int source = comes_from(ch, ch->matched + ch->kept_count);
    wh_result what = {.status = WH_OK};
    wh_message *msg;
    if (whi_wire_take(ch->in->pe->wire, source, WH_PE_TAG(WH_PE_TAG_CHANNEL, source, ch->number),
                      &what, &msg) != WH_OK)
        return false;
    kept *k = whi_malloc(sizeof(*k) + what.size);
    if (!k) {
        wh_message_drop(msg);
        whi_pe_fail(ch->in->pe, "there is no memory for a message of a channel that moves");
        return false;
    }
    k->channel = ch;
    k->size = what.size;
    whi_list_push_back(&ch->kept, &k->link);
    ch->kept_count++;
    wh_status st =
        wh_message_recv(msg, k->bytes, k->size, WH_OP_OPTS(.done = on_landed, .arg = k), NULL);
    if (st == WH_PENDING)
        ch->landing++;
    else
        landed(ch, k, st);
    return true;
}

void whi_channel_drop_kept(wh_channel *ch) {
    whi_list *node;
    while ((node = whi_list_pop_front(&ch->kept)))
        whi_free(whi_container_of(node, kept, link));
    ch->kept_count = 0;
}

// attend says whether something has to be looked for again.
static bool attend(const whi_channel_element *element) {
    bool again = false;
    ask(element);
    for (wh_channel *ch = end_of(element, NULL); ch; ch = end_of(element, ch)) {
        while (is_short(ch) && keep_next(ch))
            ;
        again = again || is_short(ch);
    }
    return again;
}

// What has come unexpectedly tells nobody, so that it is looked for in each turn.
void whi_channels_look(wh_pe *pe, whi_ready *ready) {
    (void)pe;
    whi_channels *channels = whi_container_of(ready, whi_channels, ready);
    bool again = false;
    channels->due = false;
    for (whi_list *node = channels->leaving.next, *next; node != &channels->leaving; node = next) {
        whi_channel_element *element = whi_container_of(node, whi_channel_element, leaving);
        next = node->next;
        again = attend(element) || again;
        if (!are_done(element))
            continue;
        whi_channel_name name = element->name;
        whi_list_remove(node);
        channels->carrier.ready(channels->carrier.arg, &name);
        next = channels->leaving.next;  // it has run the program
    }
    if (again)
        whi_channels_kick(channels);
}

bool whi_channels_leave(whi_channels *channels, const whi_channel_name *self) {
    whi_channels_going(channels, self, true);
    whi_channel_element *element = whi_channel_element_find(channels, self);
    if (!element || are_done(element))
        return true;
    if (!whi_list_linked(&element->leaving))
        whi_list_push_back(&channels->leaving, &element->leaving);
    whi_channels_kick(channels);
    return false;
}

// ---- What the other end says.

static bool goes_first(const wh_channel *ch) {
    return memcmp(ch->element->name.bytes, ch->pair->peer.bytes, WHI_CHANNEL_NAME_SIZE) < 0;
}

// bound: there are so many messages from where they have come until now.
static void bound(wh_channel *ch, uint64_t count) {
    if (whi_list_empty(&ch->later)) {
        ch->until = count;
        whi_channel_take_back(ch, (size_t)(count - ch->matched));
    } else {
        whi_container_of(ch->later.prev, whi_channel_line, link)->until = count;
    }
}

static bool take_hold(wh_channel *ch, uint64_t count) {
    if (ch->held || ch->granted || count < ch->matched)
        return false;
    if (ch->asked && goes_first(ch))
        return true;  // the other one has our HOLD by now, and asks again
    ch->asked = false;
    ch->held = true;
    bound(ch, count);
    tell(ch, WHI_CHANNEL_HELD, ch->sent);
    return true;
}

static bool take_held(wh_channel *ch, uint64_t count) {
    if (!ch->asked || count < ch->matched || (ch->granted && count > ch->total))
        return false;
    ch->granted = true;
    ch->total = count;
    whi_channels_kick(ch->in);
    return true;
}

static bool take_moved(wh_channel *ch, int source, uint32_t number) {
    if (!ch->held)
        return false;
    whi_channel_line *line = whi_malloc(sizeof(*line));
    if (!line) {
        whi_pe_fail(ch->in->pe, "there is no memory to follow a channel");
        return true;
    }
    *line = (whi_channel_line){.pe = source, .until = UINT64_MAX};
    whi_list_push_back(&ch->later, &line->link);
    ch->held = false;
    ch->peer = source;
    ch->peer_number = number;
    whi_channel_next_line(ch);
    if (ch->stop_owed && !ch->peer_finished)
        whi_channel_tell(ch->in, ch->peer, WHI_CHANNEL_STOP, ch->peer_number, ch->destroyed, 0);
    ch->stop_owed = false;
    whi_channel_credit(ch);
    whi_channel_pump(ch);
    if (ch->leaving)
        whi_channels_kick(ch->in);
    whi_channel_settle(ch);
    return true;
}

bool whi_channel_note_move(wh_channel *ch, int source, const whi_channel_note *note) {
    if (note->what == WHI_CHANNEL_MOVED)
        return take_moved(ch, source, (uint32_t)note->count);
    if (source != ch->peer)
        return false;
    return note->what == WHI_CHANNEL_HOLD ? take_hold(ch, note->count) : take_held(ch, note->count);
}

// ---- As bytes.

static uint32_t flags_of(const wh_channel *ch) {
    const struct {
        bool is;
        uint32_t flag;
    } all[] = {{ch->lost, LOST},         {ch->stopped, STOPPED},
               {ch->finished, FINISHED}, {ch->peer_finished, PEER_FINISHED},
               {ch->gone, GONE},         {ch->peer_gone, PEER_GONE},
               {ch->closing, CLOSING},   {!ch->used, UNUSED}};
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
        const kept *k = whi_container_of(node, kept, link);
        whi_writer_u64(to, k->size);
        whi_writer_bytes(to, k->bytes, k->size);
    }
}

wh_status whi_channels_pack(whi_channels *channels, const whi_channel_name *self, void **bytes,
                            size_t *size) {
    const whi_channel_element *element = whi_channel_element_find(channels, self);
    const wh_channel *first = element ? end_of(element, NULL) : NULL;
    uint32_t count = 0;
    *bytes = NULL;
    *size = 0;
    if (!first)
        return WH_OK;
    size_t all = COUNT_SIZE;
    for (const wh_channel *ch = first; ch; ch = end_of(element, ch), count++) {
        all += END_SIZE;
        for (const whi_list *node = ch->kept.next; !ch->lost && node != &ch->kept;
             node = node->next)
            all += KEPT_SIZE + whi_container_of(node, kept, link)->size;
    }
    void *space = whi_malloc(all);
    if (!space)
        return WH_ENOMEM;
    whi_writer to;
    whi_writer_init(&to, space, all);
    whi_writer_u32(&to, count);
    for (const wh_channel *ch = first; ch; ch = end_of(element, ch))
        write_end(&to, ch);
    *bytes = space;
    *size = all;
    return WH_OK;
}

void whi_channels_left(whi_channels *channels, const whi_channel_name *self) {
    whi_channel_element *element;
    wh_channel *ch;
    while ((element = whi_channel_element_find(channels, self)) && (ch = end_of(element, NULL)))
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
        tell(ch, WHI_CHANNEL_MOVED, ch->number);
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

wh_channel *whi_channels_find(const whi_channels *channels, const whi_channel_name *self,
                              uint32_t id) {
    const whi_channel_element *element = id ? whi_channel_element_find(channels, self) : NULL;
    for (whi_list *p = element ? element->pairs.next : NULL; p && p != &element->pairs;
         p = p->next) {
        whi_channel_pair *pair = whi_container_of(p, whi_channel_pair, link);
        for (whi_list *e = pair->ends.next; e != &pair->ends; e = e->next) {
            wh_channel *ch = whi_container_of(e, wh_channel, link);
            if (ch->id == id && ch->used && !ch->closed)
                return ch;
        }
    }
    return NULL;
}
