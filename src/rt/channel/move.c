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
#include "rt/channel/channels.h"

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

static bool has_receives(const wh_channel *ch) {
    return !whi_list_empty(&ch->receives) || !whi_list_empty(&ch->early);
}

static const char *hindrance_of(const whi_channel_pair *pair) {
    if (!whi_list_empty(&pair->unmet) || !whi_list_empty(&pair->openings))
        return "a channel of it has not been opened by both elements yet";
    for (const whi_list *e = pair->ends.next; e != &pair->ends; e = e->next) {
        const wh_channel *ch = whi_container_of(e, wh_channel, link);
        if (!ch->closed && !ch->id)
            return "it has a channel that was opened without an id, by which it could find it again";
        if (!ch->closed && !ch->withdraws && has_receives(ch))
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
    for (wh_channel *ch = whi_channel_next(element, NULL), *next; ch; ch = next) {
        next = whi_channel_next(element, ch);
        ch->leaving = going && !ch->closed;
        if (!going && ch->closing) {
            ch->closing = false;
            whi_channel_close(ch, false);
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
    if (ch->landing || is_short(ch) || has_receives(ch))
        return false;
    return ch->lost || (ch->gone ? ch->peer_gone : ch->granted);
}

static bool are_done(const whi_channel_element *element) {
    for (const wh_channel *ch = whi_channel_leaving(element, NULL); ch;
         ch = whi_channel_leaving(element, ch))
        if (!is_done(ch))
            return false;
    return true;
}

// ask asks all other ends at once, and not while one of them is about to move: so who waits for whom goes by their names.
static void ask(const whi_channel_element *element) {
    wh_channel *ch;
    for (ch = whi_channel_leaving(element, NULL); ch; ch = whi_channel_leaving(element, ch))
        if (ch->held)
            return;
    for (ch = whi_channel_leaving(element, NULL); ch; ch = whi_channel_leaving(element, ch)) {
        if (ch->asked || ch->lost || ch->gone)
            continue;
        ch->asked = true;
        tell(ch, WHI_CHANNEL_HOLD, ch->sent);
    }
}

static void landed(wh_channel *ch, whi_channel_kept *k, wh_status st) {
    if (st < 0) {  // it was taken back by its sender, who says so
        whi_list_remove(&k->link);
        ch->kept_count--;
        whi_free(k);
    }
    whi_channels_kick(ch->in);
}

static void on_landed(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    whi_channel_kept *k = arg;
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
    whi_channel_kept *k = whi_malloc(sizeof(*k) + what.size);
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
        whi_free(whi_container_of(node, whi_channel_kept, link));
    ch->kept_count = 0;
}

// attend says whether something has to be looked for again.
static bool attend(const whi_channel_element *element) {
    bool again = false;
    ask(element);
    for (wh_channel *ch = whi_channel_leaving(element, NULL); ch;
         ch = whi_channel_leaving(element, ch)) {
        if (has_receives(ch))  // they have the next messages, and tell when they have ended
            continue;
        while (is_short(ch) && keep_next(ch))
            ;
        again = again || is_short(ch);
    }
    return again;
}

// is_receiving says whether callbacks of receives may not have run yet: they do in the next progress, which is before the next look.
static bool is_receiving(whi_channel_element *element, bool *again) {
    bool before = element->receiving;
    element->receiving = false;
    for (wh_channel *ch = whi_channel_leaving(element, NULL); ch && !element->receiving;
         ch = whi_channel_leaving(element, ch))
        element->receiving = has_receives(ch);
    *again = *again || (before && !element->receiving);
    return before || element->receiving;
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
        if (is_receiving(element, &again) || !are_done(element))
            continue;
        whi_channel_name name = element->name;
        whi_list_remove(node);
        channels->carrier.ready(channels->carrier.arg, &name);
        next = channels->leaving.next;  // it has run the program
    }
    if (again)
        whi_channels_kick(channels);
}

// withdraw ends the receives that may end, and returns whether there were any.
static bool withdraw(whi_channel_element *element) {
    bool any = false;
    for (wh_channel *ch = whi_channel_leaving(element, NULL); ch;
         ch = whi_channel_leaving(element, ch)) {
        any = any || has_receives(ch);
        whi_channel_fail(&ch->early, 0, WH_ECANCELLED);
        whi_channel_cancel(&ch->receives, 0, WH_ECANCELLED);
    }
    element->receiving = any;
    return any;
}

bool whi_channels_leave(whi_channels *channels, const whi_channel_name *self) {
    whi_channels_going(channels, self, true);
    whi_channel_element *element = whi_channel_element_find(channels, self);
    if (!element || (!withdraw(element) && are_done(element)))
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
