// SPDX-License-Identifier: BSD-3-Clause
//
// An end of a channel: made, met, closed, freed.
//
// Closing takes two notes each way.  STOP says that an end receives no more: the other one takes back what has not been
// matched.  FINISH says how many messages an end has sent, when none is under way any more: the other one receives exactly
// these, or throws them away once it is closed.  GONE follows when both have finished, as the last note of an end.

#include "base/alloc.h"
#include "rt/channel/channels.h"

void whi_channel_tell(whi_channels *channels, int pe, whi_channel_what what, uint32_t number,
                      bool destroyed, uint64_t count) {
    uint8_t bytes[WHI_CHANNEL_NOTE_SIZE];
    whi_channel_note note = {
        .what = (uint8_t)what, .destroyed = destroyed, .number = number, .count = count};
    whi_channel_note_write(&note, WHI_CONTROL_CHANNEL, bytes);
    wh_status st = whi_wire_control(channels->pe->wire, pe, bytes, sizeof(bytes));
    // Of a PE that is lost its loss tells.
    if (st == WH_ENOMEM)
        whi_pe_fail(channels->pe, "there is no memory to tell PE %d about a channel", pe);
}

static void tell(wh_channel *ch, whi_channel_what what, uint64_t count) {
    whi_channel_tell(ch->in, ch->peer, what, ch->peer_number,
                     what == WHI_CHANNEL_STOP && ch->destroyed, count);
}

// ---- Making.

// A number comes round again after 2^28 ends; one that is in use is passed over.
static wh_status number_it(whi_channels *channels, wh_channel *ch) {
    if (whi_hash_count(&channels->ends) >= WHI_CHANNEL_NUMBERS)
        return WH_ELIMIT;
    do
        ch->number = channels->next++ % WHI_CHANNEL_NUMBERS;
    while (whi_hash_get(&channels->ends, ch->number));
    channels->changes++;
    return whi_hash_put(&channels->ends, ch->number, ch);
}

wh_status whi_channel_create(whi_channels *channels, uint32_t window, wh_channel **out) {
    wh_channel *ch = whi_calloc(1, sizeof(*ch));
    if (!ch)
        return WH_ENOMEM;
    ch->in = channels;
    ch->peer = ch->early_source = ch->from = -1;
    ch->until = UINT64_MAX;
    ch->window = window;
    ch->used = true;
    whi_list_init(&ch->link);
    whi_list_init(&ch->unmet);
    whi_list_init(&ch->waiting);
    whi_list_init(&ch->sends);
    whi_list_init(&ch->receives);
    whi_list_init(&ch->early);
    whi_list_init(&ch->later);
    whi_list_init(&ch->kept);
    wh_status st = number_it(channels, ch);
    if (st == WH_OK)
        *out = ch;
    else
        whi_free(ch);
    return st;
}

static void free_lines(wh_channel *ch) {
    whi_list *node;
    while ((node = whi_list_pop_front(&ch->later)))
        whi_free(whi_container_of(node, whi_channel_line, link));
    whi_channel_drop_kept(ch);
}

void whi_channel_free(wh_channel *ch) {
    whi_hash_remove(&ch->in->ends, ch->number);
    ch->in->changes++;
    whi_channel_pair_leave(ch);
    whi_channel_leave_direct(ch);
    free_lines(ch);
    whi_free(ch);
}

// ---- Ending.

static void finish(wh_channel *ch) {
    ch->finished = true;
    tell(ch, WHI_CHANNEL_FINISH, ch->sent);
}

void whi_channel_settle(wh_channel *ch) {
    bool sending = !whi_list_empty(&ch->waiting) || !whi_list_empty(&ch->sends);
    if (ch->lost) {
        if (ch->closed && !ch->used && !sending && whi_list_empty(&ch->receives) &&
            whi_list_empty(&ch->early))
            whi_channel_free(ch);
        return;
    }
    if (ch->peer < 0 || ch->held || ch->asked)
        return;
    if (!ch->finished && (ch->closed || ch->stopped) && !sending)
        finish(ch);
    if (ch->finished && ch->peer_finished && !ch->gone) {
        ch->gone = true;
        tell(ch, WHI_CHANNEL_GONE, 0);
    }
    if (!ch->closed || !ch->peer_finished || !whi_list_empty(&ch->receives))
        return;
    if (ch->matched < ch->expected)
        whi_channel_drain(ch, ch->expected - ch->matched);
    if (!ch->used && ch->gone && ch->peer_gone && ch->matched == ch->expected &&
        whi_list_empty(&ch->receives))
        whi_channel_free(ch);
}

void whi_channel_close(wh_channel *ch, bool destroyed) {
    if (ch->closed) {
        whi_channel_settle(ch);
        return;
    }
    ch->closed = true;
    ch->destroyed = destroyed;
    whi_channel_cancel(&ch->receives, 0, WH_ECLOSED);
    whi_channel_fail(&ch->early, 0, WH_ECLOSED);
    ch->stop_owed = ch->held;
    if (ch->peer >= 0 && !ch->lost && !ch->peer_finished && !ch->held)
        tell(ch, WHI_CHANNEL_STOP, 0);
    whi_channel_settle(ch);
}

void wh_channel_close(wh_channel *channel) {
    if (!channel)
        return;
    channel->used = false;
    if (channel->leaving && !channel->closed)
        channel->closing = true;  // where it comes to
    else
        whi_channel_close(channel, false);
}

void whi_channel_lose(wh_channel *ch) {
    ch->lost = ch->stopped = true;
    ch->why = WH_EPEER;
    whi_list_remove(&ch->unmet);
    whi_channel_fail(&ch->waiting, 0, WH_EPEER);
    whi_channel_fail(&ch->early, 0, WH_EPEER);
    whi_channel_cancel(&ch->sends, 0, WH_EPEER);
    whi_channel_cancel(&ch->receives, 0, WH_EPEER);
    if (ch->leaving)
        whi_channels_kick(ch->in);
    whi_channel_settle(ch);
}

// ---- Notes, and meeting.

static void stop(wh_channel *ch, bool destroyed) {
    ch->stopped = true;
    ch->why = destroyed ? WH_EPEER : WH_ECLOSED;
    whi_channel_fail(&ch->waiting, 0, ch->why);
    whi_channel_cancel(&ch->sends, 0, ch->why);
}

static void peer_finished(wh_channel *ch, uint64_t count) {
    ch->peer_finished = true;
    ch->expected = count;
    // Messages that have begun to arrive are in front.
    size_t keep = (size_t)(count - ch->matched), posted = whi_channel_count(&ch->receives);
    wh_status why = ch->why ? ch->why : WH_ECLOSED;
    whi_channel_cancel(&ch->receives, keep, why);
    whi_channel_fail(&ch->early, keep > posted ? keep - posted : 0, why);
}

// take returns false for what the other end cannot have said.
static bool take(wh_channel *ch, const whi_channel_note *note) {
    switch ((whi_channel_what)note->what) {
    case WHI_CHANNEL_CREDIT:
        if (note->count > ch->sent || note->count <= ch->credited)
            return false;
        ch->credited = note->count;
        whi_channel_pump(ch);
        break;
    case WHI_CHANNEL_STOP:
        if (ch->stopped)
            return false;
        stop(ch, note->destroyed);
        break;
    case WHI_CHANNEL_FINISH:
        if (ch->peer_finished || note->count < ch->matched)
            return false;
        peer_finished(ch, note->count);
        break;
    case WHI_CHANNEL_GONE:
        if (ch->peer_gone || !ch->finished || !ch->peer_finished)
            return false;
        ch->peer_gone = true;
        break;
    case WHI_CHANNEL_REFUSE:
        if (!ch->moved)
            return false;
        whi_channel_lose(ch);
        return true;
    default: return false;
    }
    if (ch->leaving)  // it may be what is waited for
        whi_channels_kick(ch->in);
    whi_channel_settle(ch);
    return true;
}

// An opening comes with calls, so the first notes of a short life may come before it.
static bool take_early(wh_channel *ch, int source, const whi_channel_note *note) {
    whi_channel_note *early = note->what == WHI_CHANNEL_STOP     ? &ch->early_stop
                              : note->what == WHI_CHANNEL_FINISH ? &ch->early_finish
                              : note->what == WHI_CHANNEL_HOLD   ? &ch->early_hold
                                                                 : NULL;
    if (!early || early->what || (ch->early_source >= 0 && ch->early_source != source))
        return false;
    *early = *note;
    ch->early_source = source;
    return true;
}

static bool take_from(wh_channel *ch, int source, const whi_channel_note *note) {
    if (ch->peer >= 0 && note->what >= WHI_CHANNEL_HOLD)
        return whi_channel_note_move(ch, source, note);
    if (ch->peer >= 0)
        return ch->peer == source && take(ch, note);
    if (note->what != WHI_CHANNEL_REFUSE)
        return take_early(ch, source, note);
    whi_channel_lose(ch);
    return true;
}

static void strange(wh_pe *pe, int source) {
    whi_pe_fail(pe,
                "PE %d has sent a note about a channel that cannot be: all processes must run the "
                "same program with the same version of Wherry",
                source);
}

void whi_channel_meet(wh_channel *ch, const whi_channel_opening *peer) {
    if (ch->early_source >= 0 && ch->early_source != (int)peer->pe) {
        strange(ch->in->pe, ch->early_source);
        return;
    }
    ch->peer = ch->from = (int)peer->pe;
    ch->peer_number = peer->number;
    ch->peer_window = peer->window;
    if (ch->closed)
        tell(ch, WHI_CHANNEL_STOP, 0);
    if (ch->early_stop.what)
        stop(ch, ch->early_stop.destroyed);
    whi_channel_meet_direct(ch);
    whi_channel_pump(ch);
    if (ch->early_finish.what)
        peer_finished(ch, ch->early_finish.count);
    if (ch->early_hold.what && !whi_channel_note_move(ch, ch->peer, &ch->early_hold))
        strange(ch->in->pe, ch->peer);
    whi_channel_settle(ch);
}

static void on_note(wh_pe *pe, int source, const void *data, size_t size, void *arg) {
    whi_channels *channels = arg;
    whi_channel_note note;
    bool fine = whi_channel_note_read(data, size, &note) == WH_OK;
    wh_channel *ch = fine ? whi_hash_get(&channels->ends, note.number) : NULL;
    if (fine && note.what == WHI_CHANNEL_MOVED && (!ch || ch->lost)) {
        // It has ended with a PE that is lost.
        whi_channel_tell(channels, source, WHI_CHANNEL_REFUSE, (uint32_t)note.count, false, 0);
        return;
    }
    if (ch ? ch->lost : fine && channels->bereft)
        return;  // said behind MOVED, before the answer to it has come
    if (!ch || !take_from(ch, source, &note))
        strange(pe, source);
}

// ---- All ends of a PE.

wh_status whi_channels_create(wh_pe *pe, const whi_channel_carrier *carrier, whi_channels **out) {
    whi_channels *channels = whi_calloc(1, sizeof(*channels));
    if (!channels)
        return WH_ENOMEM;
    channels->pe = pe;
    channels->carrier = *carrier;
    whi_hash_init(&channels->ends);
    whi_hash_init(&channels->elements);
    whi_list_init(&channels->leaving);
    channels->ready = (whi_ready){.run = whi_channels_look, .drop = whi_channels_drop};
    whi_pool_init(&channels->ops, sizeof(whi_channel_op), 0, "sends and receives of channels");
    whi_pe_set_control(pe, WHI_CONTROL_CHANNEL, on_note, channels);
    *out = channels;
    return WH_OK;
}

static bool comes_from(const wh_channel *ch, int pe) {
    if (ch->from == pe && ch->matched < ch->until)
        return true;
    for (const whi_list *node = ch->later.next; node != &ch->later; node = node->next)
        if (whi_container_of(node, whi_channel_line, link)->pe == pe)
            return true;
    return false;
}

static bool depends(const whi_channels *channels, const wh_channel *ch, int lost) {
    if (ch->peer >= 0)
        return ch->peer == lost || comes_from(ch, lost);
    return channels->carrier.home(channels->carrier.arg, &ch->pair->peer) == lost;
}

void whi_channels_lost(whi_channels *channels, int lost) {
    size_t cursor = 0;
    uint64_t number;
    wh_channel *ch;
    channels->bereft = true;
    while ((ch = whi_hash_next(&channels->ends, &cursor, &number))) {
        if (ch->lost || !depends(channels, ch, lost))
            continue;
        uint64_t before = channels->changes;
        whi_channel_lose(ch);
        if (channels->changes != before)  // it is gone, or who was told has opened another one
            cursor = 0;
    }
}

void whi_channels_destroy(whi_channels *channels) {
    size_t cursor = 0;
    uint64_t number;
    wh_channel *ch;
    while ((ch = whi_hash_next(&channels->ends, &cursor, &number))) {
        whi_channel_pair_leave(ch);
        free_lines(ch);
        whi_free(ch);
    }
    whi_channels_free_elements(channels);
    whi_hash_fini(&channels->ends);
    whi_hash_fini(&channels->elements);
    whi_pool_fini(&channels->ops);
    whi_free(channels);
}
