// SPDX-License-Identifier: BSD-3-Clause
//
// The channels of a PE from inside: for the files of this folder, and for the floor that carries openings.
//
// An end is what one element has of a channel.  It chooses the number by which it wants to be sent to, and says so once, in its
// opening; from then on both compute the tags of all messages alone.  What it has of the other end is that one's PE and number.
//
// An end lives until its user has closed it, both have finished, and all that was sent to it has been matched: so a number
// is free again only when nothing that bears it can come any more.
#ifndef WHI_RT_CHANNEL_CHANNELS_H
#define WHI_RT_CHANNEL_CHANNELS_H

#include <wherry/channel.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/pool.h"
#include "rt/channel/record.h"
#include "rt/pe/pe.h"

// How openings get from element to element.
typedef struct whi_channel_carrier {
    wh_status (*open)(void *arg, const whi_channel_name *to, const void *opening, size_t size);
    // Where an element is expected to be, which is asked when a PE is lost.
    int (*home)(void *arg, const whi_channel_name *element);
    // The ends of an element are ready to move; it may go in the call.  In the PE's turn.
    void (*ready)(void *arg, const whi_channel_name *element);
    void *arg;
} whi_channel_carrier;

typedef struct whi_channels {
    wh_pe *pe;
    whi_channel_carrier carrier;
    whi_hash ends;      // by number
    whi_hash elements;  // by the hash of their names: whi_channel_element
    whi_pool ops;
    uint32_t next;     // number
    uint64_t changes;  // of `ends`: who goes through them begins again
    whi_list leaving;  // elements that wait until their ends can move
    whi_ready ready;   // looks after them
    bool due;          // it is to run
    bool bereft;       // a PE is lost, and with it ends of which others may not have heard yet
} whi_channels;

// What an element has of channels to one other element.
typedef struct whi_channel_pair {
    whi_list link;  // of its element
    whi_channel_name peer;
    whi_list ends;      // all
    whi_list unmet;     // ends whose other end has not opened, in order
    whi_list openings;  // of the other element, that no end here has met, in order
} whi_channel_pair;

typedef struct whi_channel_element {
    struct whi_channel_element *next;  // of the same hash
    whi_channel_name name;
    whi_list pairs;
    bool busy;         // a loop is on its lists
    bool receiving;    // receives had not ended when it was looked after last
    whi_list leaving;  // of the PE's
} whi_channel_element;

// What an operation moves.
typedef struct whi_channel_elements {
    size_t bytes;   // packed
    int64_t start;  // the first byte that is used, from the buffer's
    bool compared;  // with the other side's: by the sequence of its elements (wh_type_signature)
    uint64_t hash;
    int64_t basics;
} whi_channel_elements;

// A message that nobody has received, packed: in an end that moves, or from an end of the same PE.
typedef struct whi_channel_kept {
    whi_list link;
    struct wh_channel *channel;
    size_t size;
    whi_channel_elements what;  // the latter
    _Alignas(16) char bytes[];
} whi_channel_kept;

// From where messages come, up to one.
typedef struct whi_channel_line {
    whi_list link;
    int pe;
    uint64_t until;
} whi_channel_line;

struct wh_channel {
    whi_channels *in;
    whi_channel_element *element;
    whi_channel_pair *pair;
    whi_list link, unmet;  // of the pair
    uint32_t number;
    int peer;  // PE; negative: not met yet
    uint32_t peer_number;
    uint32_t window, peer_window;
    uint64_t sent,
        credited;  // messages to the other end, and those of them that it says it has matched
    uint64_t matched, returned;  // messages from it, and those that it has been told of
    uint64_t expected;           // with peer_finished: messages from it in all
    whi_list waiting;            // sends that wait for the window, or for the other end
    whi_list sends, receives;    // under way
    whi_list early;  // receives that wait for the other end, or for where messages come from
    // Moves (move.c).  Messages come from PE `from` up to number `until`, then from those in `later`.
    int from;
    uint64_t until;
    whi_list later;
    uint32_t id;          // by which its element finds it again; 0: it does not move
    bool withdraws;       // receives end before it moves
    uint32_t backs;       // receives that are being taken back
    uint64_t orders;      // given to operations, as their order
    bool leaving;         // its element is about to move: nothing new is taken
    bool asked, granted;  // it has said HOLD, and heard HELD
    uint64_t total;       // then, messages from the other end in all
    whi_list kept;        // messages that move along, or have come within the PE
    uint64_t kept_count;
    uint32_t landing;  // of those, that are still arriving
    bool closing;      // it was closed while it was leaving
    bool moved;        // it has said so, and may be told that there is no other end any more
    bool held;         // the other end is about to move
    bool stop_owed;    // it was closed meanwhile
    bool used;         // its user has the handle
    bool closed;       // nothing new is taken
    bool destroyed;    // its element has ended
    bool stopped;      // the other end takes no more
    bool finished, peer_finished, gone, peer_gone;
    bool lost;  // the other end's PE, or there is no other end
    whi_channel_note early_stop, early_finish,
        early_hold;  // notes that have overtaken the opening; `what` is 0: none
    int early_source;
    wh_status why;  // of what fails because the other end has ended
    // Both ends are here and do not move (direct.c); the other one, once both have met.
    bool direct;
    struct wh_channel *twin;
};

// One send or receive.
typedef struct whi_channel_op {
    whi_list link;
    wh_channel *channel;
    bool receive, drain;
    bool back;       // it is taken back, to be posted again
    uint64_t order;  // of its channel
    // Of direct.c: `what` is known; all of it is plain memory; it cannot be kept.
    bool looked, host, stays;
    whi_channel_elements what;
    wh_status why;  // a cancel that the user has not asked for
    void *buf;
    size_t size;
    wh_op_opts opts;  // of the engine's
    wh_done_fn done;  // the user's, where there is no request of ours
    void *arg;
    wh_request *ours;   // the user's; NULL: done and arg instead
    wh_request *inner;  // the engine's, once it is posted
} whi_channel_op;

WH_CHECK wh_status whi_channels_create(wh_pe *pe, const whi_channel_carrier *carrier,
                                       whi_channels **channels);

// whi_channels_lost ends all with a PE.
void whi_channels_lost(whi_channels *channels, int lost);
void whi_channels_destroy(whi_channels *channels);  // behind the PE's worker

// whi_channels_attach has a PE's elements able to open channels.
void whi_channels_attach(wh_pe *pe);

// ---- pairs.c: which end meets which.

// An end as its user wants it.
typedef struct whi_channel_kind {
    uint32_t window;
    uint32_t id;  // 0: it does not move
    bool withdraws;
} whi_channel_kind;

// whi_channels_open makes an end; the k-th of one element to another meets the k-th of that one to it.
WH_CHECK wh_status whi_channels_open(whi_channels *channels, const whi_channel_name *self,
                                     const whi_channel_name *peer, const whi_channel_kind *kind,
                                     wh_channel **channel);

// whi_channels_arrive takes an opening for an element; `alive`: which is here, and will be.  WH_EPROTOCOL: it is none.
WH_CHECK wh_status whi_channels_arrive(whi_channels *channels, const whi_channel_name *self,
                                       bool alive, const void *opening, size_t size);

// whi_channels_has says whether an element has ends, or others have opened one to it.
bool whi_channels_has(const whi_channels *channels, const whi_channel_name *self);

// whi_channels_element_ends closes all that an element has; with `over` nobody has a handle any more.
void whi_channels_element_ends(whi_channels *channels, const whi_channel_name *self, bool over);
void whi_channels_free_elements(whi_channels *channels);
whi_channel_element *whi_channel_element_find(const whi_channels *channels,
                                              const whi_channel_name *name);
// whi_channel_adopt makes an end that has met, of one element to another one.
WH_CHECK wh_status whi_channel_adopt(whi_channels *channels, const whi_channel_name *self,
                                     const whi_channel_name *peer, uint32_t window,
                                     wh_channel **channel);
void whi_channel_pair_leave(wh_channel *channel);  // an end is freed
// whi_channel_next returns the end behind one among all of an element, whi_channel_leaving among those that are about to move; NULL
// for `after` is the first one.  NULL: there are no more.
wh_channel *whi_channel_next(const whi_channel_element *element, const wh_channel *after);
wh_channel *whi_channel_leaving(const whi_channel_element *element, const wh_channel *after);
// whi_channels_find finds the end with an id, which is not 0 and that is open.
wh_channel *whi_channels_find(const whi_channels *channels, const whi_channel_name *self,
                              uint32_t id);

// ---- dump.c: of the floor, see whi_floor.

void whi_channels_dump(const void *state, whi_dump *to);
bool whi_channels_awaited(const void *state, const wh_wait *wait, FILE *file);

// ---- end.c: the life of an end.

WH_CHECK wh_status whi_channel_create(whi_channels *channels, uint32_t window,
                                      wh_channel **channel);
// whi_channel_meet tells an end of the other one.  It may be its end.
void whi_channel_meet(wh_channel *channel, const whi_channel_opening *peer);
void whi_channel_close(wh_channel *channel, bool destroyed);
// whi_channel_lose ends what needs the other end, which is not there any more.
void whi_channel_lose(wh_channel *channel);
// whi_channel_settle does what has become due, which may be the end's end.
void whi_channel_settle(wh_channel *channel);
void whi_channel_tell(whi_channels *channels, int pe, whi_channel_what what, uint32_t number,
                      bool destroyed, uint64_t count);
void whi_channel_free(wh_channel *channel);

// ---- move.c: ends that move with their elements.

// whi_channels_hindrance says why an element cannot move because of its ends, or NULL.
const char *whi_channels_hindrance(const whi_channels *channels, const whi_channel_name *self);

// whi_channels_going has the ends of an element take nothing new, or, without `going`, as before.
void whi_channels_going(whi_channels *channels, const whi_channel_name *self, bool going);

// whi_channels_leave returns true when an element's ends can be packed; else the carrier's `ready` is called when they can.
bool whi_channels_leave(whi_channels *channels, const whi_channel_name *self);

void whi_channels_kick(whi_channels *channels);  // something may go on
void whi_channels_look(wh_pe *pe, whi_ready *ready);
void whi_channels_drop(whi_ready *ready);
bool whi_channel_note_move(wh_channel *channel, int source, const whi_channel_note *note);
void whi_channel_drop_kept(wh_channel *channel);

// ---- packed.c: ends on their way.

// whi_channels_pack makes the bytes with which ends move; the caller frees them, and calls whi_channels_left when they have gone.
WH_CHECK wh_status whi_channels_pack(whi_channels *channels, const whi_channel_name *self,
                                     void **bytes, size_t *size);
void whi_channels_left(whi_channels *channels, const whi_channel_name *self);
WH_CHECK wh_status whi_channels_unpack(whi_channels *channels, const whi_channel_name *self,
                                       const void *bytes, size_t size);

// ---- direct.c: messages within a PE.

// whi_channel_meet_direct finds out whether the other end, which is known now, is one of this PE; leave ends that.
void whi_channel_meet_direct(wh_channel *channel);
void whi_channel_leave_direct(wh_channel *channel);
// whi_channel_begin_direct does an operation that finds what it needs.  WH_PENDING: it has to wait in the end's lists.
WH_CHECK wh_status whi_channel_begin_direct(whi_channel_op *op, wh_result *result);
// whi_channel_match brings messages to the receives of an end, and keeps what it may.
void whi_channel_match(wh_channel *to);

// ---- elements.c: what a message holds.

WH_CHECK wh_status whi_channel_elements_of(const wh_op_opts *opts, size_t size,
                                           whi_channel_elements *what);
// whi_channel_elements_clash says whether a message is not what a receive expects.
bool whi_channel_elements_clash(const whi_channel_elements *a, const whi_channel_elements *b);

// ---- op.c: sends and receives.

// whi_channel_post hands an operation to the engine.
WH_CHECK wh_status whi_channel_post(whi_channel_op *op, wh_result *result);
void whi_channel_complete(whi_channel_op *op, wh_status status, size_t size);
void whi_channel_count_received(wh_channel *channel);

void whi_channel_pump(wh_channel *channel);  // posts what may go
void whi_channel_fail(whi_list *ops, size_t keep,
                      wh_status why);  // ends what has not been posted but the first ones
void whi_channel_take_back(wh_channel *channel, size_t keep);  // receives, to be posted again
void whi_channel_credit(wh_channel *channel);                  // says what has been received
void whi_channel_next_line(wh_channel *channel);  // if all from where they came are here
size_t whi_channel_count(const whi_list *ops);
void whi_channel_cancel(whi_list *ops, size_t keep,
                        wh_status why);                       // all under way but the first ones
void whi_channel_drain(wh_channel *channel, uint64_t count);  // receives messages to nowhere

#endif
