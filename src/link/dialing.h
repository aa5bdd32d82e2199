// SPDX-License-Identifier: BSD-3-Clause
//
// Dialing: what the parts of a dial share.  dial_queue.c lets one of those with the same target go first; dial.c goes through
// its addresses; dial_handshake.c shakes hands with the one that answers.
//
// For those three only, on their worker's owner thread.  When one of these functions returns, the dial may have ended, and
// what dials with it.
#ifndef WHI_LINK_DIALING_H
#define WHI_LINK_DIALING_H

#include "link/dial.h"
#include "link/resolve.h"

typedef enum whi_dial_state {
    WHI_DIAL_NEW,  // or waits for one with the same target
    WHI_DIAL_RESOLVING,
    WHI_DIAL_CONNECTING,
    WHI_DIAL_HELLO_SENT,
    WHI_DIAL_CONFIRMED,
    WHI_DIAL_PARKED,
    WHI_DIAL_LINKED,  // it has a link, and may be asked to dial again
} whi_dial_state;

struct whi_dial {
    wh_worker *worker;
    const whi_dial_up *up;
    void *arg;  // of its functions
    whi_dial_state state;
    uint8_t retried;  // how often it was begun again
    int fd;           // -1: none
    int tcp_fd;       // the socket that `fd` has replaced; -1: none
    bool local;       // fd is the peer's local socket
    whi_watch watch;
    whi_timer timer;          // of this attempt, or of the next look when parked
    uint64_t deadline_ns;     // of the whole
    char host[WHI_HOST_MAX];  // what was asked for, besides `secret`: this and `port`, or a blob
    uint16_t port;
    bool by_blob;
    uint8_t blob_uuid[16];  // the worker that must answer
    uint64_t blob_listener;
    uint64_t listener;   // whom the link is for, as far as is known
    bool leads;          // is in the worker's dial_leaders
    whi_list waiters;    // of one that leads: dials with the same target
    whi_list wait_node;  // in those of another one
    whi_resolve *resolve;
    whi_sockaddr addrs[WHI_ADDRESSES_MAX];
    size_t count, next;
    char local_name[WHI_LOCAL_NAME_MAX];  // of a blob of this host: tried first
    bool local_tried;
    char target[128];  // for people
    char *secret;
    size_t got;
    uint8_t bytes[WHI_HELLO_SIZE], hello[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];
    whi_hello peer;
    wh_status error;  // of the last attempt
    char sentence[256];
    bool was_refused;  // they are of the first that was answered by no, and stay
    whi_list node;
    whi_deferred deferred;
};

static inline bool whi_dial_has_secret(const whi_dial *dial) {
    return dial->secret[0] != '\0';
}

// whi_dial_hello begins the handshake on a socket that is connected; whi_dial_readable goes on with it.
void whi_dial_hello(whi_dial *dial);
void whi_dial_readable(whi_dial *dial);

// whi_dial_found ends the search: the dial and those that wait for it have a link.  whi_dial_park waits for one to the peer
// that somebody else is making.
void whi_dial_found(whi_dial *dial, whi_link *link);
void whi_dial_park(whi_dial *dial);

// whi_dial_found_one gives one dial its link.  whi_dial_begin_soon makes the first attempt.
void whi_dial_found_one(whi_dial *dial, whi_link *link);
void whi_dial_begin_soon(whi_dial *dial);

// whi_dial_waits says whether a dial that is about to begin has to wait for another one with its target; else it leads.
// whi_dial_leave_queue lets the next one lead.
bool whi_dial_waits(whi_dial *dial);
void whi_dial_leave_queue(whi_dial *dial);

// whi_dial_note notes why an attempt has failed, for when no other one succeeds; whi_dial_attempt_failed does so, and goes on with
// the next address; whi_dial_fail tells the room above that there is no link.
void whi_dial_note(whi_dial *dial, wh_status status, const char *sentence);
void whi_dial_attempt_failed(whi_dial *dial, wh_status status, const char *sentence);
void whi_dial_fail(whi_dial *dial, wh_status status, const char *sentence);

#endif
