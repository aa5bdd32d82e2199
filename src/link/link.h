// SPDX-License-Identifier: BSD-3-Clause
//
// Link: what joins two workers.  One per pair, made by the first endpoint, shared by all of them.
//
// A link owns the socket (control.h) for its whole life, and the lane that its messages go by.  It has
// three ways to end: in order when no endpoint needs it, lost when the peer or the connection died,
// and broken when the peer broke the protocol.  It never heals.  A link is freed at the end of a progress pass, so that
// upcalls may end it.
#ifndef WHI_LINK_LINK_H
#define WHI_LINK_LINK_H

#include <sys/types.h>

#include "base/queue.h"
#include "link/bulk_lane.h"
#include "link/control.h"
#include "link/hello.h"
#include "link/peer.h"
#include "link/room.h"
#include "link/wire.h"
#include "net/lane.h"
#include "worker/pollable.h"

struct whi_process;

enum {
    WHI_LINK_SECRETS = 4,         // so many proven secrets are remembered
    WHI_LINK_ENDPOINTS = 1 << 16  // a peer that opens more at a time is after our memory
};

typedef struct whi_link {
    whi_pollable pollable;  // what the worker polls
    wh_worker *worker;
    whi_lane *tx;         // the lane that our messages go by
    whi_lane *rx;         // the lane that is polled: the last one that the peer has switched to
    whi_control control;  // the socket
    const struct whi_lane_kind *kind;  // of `fast`; NULL: messages stay on the socket
    whi_lane *fast;                    // the lane that messages have moved to, or are about to
    // What looks after that lane in each pass, beside the poll of `rx`; NULL: nothing.  Returns the number of events.
    unsigned (*beside)(struct whi_link *link, int events);
    uint64_t eager_max;  // payload that may travel with its header
    bool dead, closing;
    bool active;          // we made the connection: our endpoint numbers are odd
    bool switch_pending;  // the peer has switched and its ring has yet to come
    bool local;
    bool same_process;  // the peer is a worker of this process
    bool
        holding;  // nothing but LANE_ADDRESS and SWITCH is sent until it is known whether there is a ucx lane
    bool lane_closing;   // its ucx lane is; the link is freed after it
    bool failed;         // it ended by a failure: nothing more is worth sending
    bool peer_died;      // its process has ended; what it sent before is read first
    whi_queue controls;  // records that found no space
    size_t control_count, control_bytes;
    whi_lane_address lane_address;  // of the peer's ucx lane
    whi_bulk_lane bulk;             // the lane of large payloads beside that
    // Until the address of a ucx lane has come; at its end, until what is under way has; of one for bulk, until its loss is said.
    whi_timer lane_timer;
    whi_hello peer;  // what the peer said of itself
    whi_peer *who;   // the same and where it was met, for the user
    uid_t uid;       // its user: as the kernel says, or as a peer of this host says; else ours
    uint8_t secrets[WHI_LINK_SECRETS][WHI_HELLO_MAC_SIZE];  // digests of those that it has proven
    unsigned secret_count;
    uint8_t uuid[16];
    struct whi_process *process;  // liveness of a local peer
    whi_list process_link;
    wh_status doomed;  // a lane has refused for good; the link ends with this pass
    char name[128];    // of the peer, for people
    whi_deferred doom, deferred;
} whi_link;

// What the user of links, the room above, gives them: what becomes of records, what there is to send, and who needs the
// link.  Owner's thread.
typedef struct whi_link_up {
    const whi_lane_up *lane_up;  // of all lanes; `unsent` is whi_link_unsent

    // made follows when the zeroed link has been set up; freed when its lanes have gone and its memory is about to.
    void (*made)(whi_link *link);
    void (*freed)(whi_link *link);

    // send sends what waits and returns the number of records and chunks that went; rest only goes on with a chunk that the
    // lane has announced and not got whole.  They set pollable.blocked when the lane has no more space.
    unsigned (*send)(whi_link *link);
    unsigned (*rest)(whi_link *link);
    bool (*empty)(const whi_link *link);  // nothing waits to be sent

    // Of the bulk lane: bulk_up is its upcalls; send_bulk pushes what waits for it, and returns the number of chunks that went;
    // bulk_lost says that what was under way on it is lost, or, `unused`, that the peer has never had it, and sends by the other.
    const whi_lane_up *bulk_up;
    unsigned (*send_bulk)(whi_link *link);
    void (*bulk_lost)(whi_link *link, bool unused, const char *sentence);

    // needed says whether somebody still needs the link; ended that it is over, and why.
    bool (*needed)(const whi_link *link);
    void (*ended)(whi_link *link, wh_status why, const char *sentence);

    // disconnected: the peer reaches no memory of ours by the ucx lane any more.
    void (*disconnected)(whi_link *link);

    void (*dump)(const whi_link *link, FILE *file);
} whi_link_up;

static inline const whi_link_up *whi_link_up_of(const whi_link *link) {
    return whi_links_of(link->worker)->up;
}

// whi_link_unsent has the lane polled until it has sent what it took: `unsent` of the user's table.
void whi_link_unsent(void *arg);

// whi_link_new makes the link of a finished handshake; it owns `fd` from a success on.
WH_CHECK wh_status whi_link_new(wh_worker *worker, int fd, const whi_hello *peer, bool active,
                                bool local, const char *name, whi_link **link);

// whi_link_start moves the messages to the best lane that both sides have.
void whi_link_start(whi_link *link);

// whi_link_bare makes a link without a lane, for loop and self; whi_link_set_lane gives it one.
WH_CHECK wh_status whi_link_bare(wh_worker *worker, const uint8_t peer_uuid[16], bool active,
                                 const char *name, whi_link **link);
void whi_link_set_lane(whi_link *link, whi_lane *lane);

// whi_link_find returns the living link to a worker, or NULL.
whi_link *whi_link_find(const wh_worker *worker, const uint8_t uuid[16]);

// whi_link_fail ends the link: every endpoint and operation gets `why`.  The sentence says what happened.
void whi_link_fail(whi_link *link, wh_status why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// whi_link_lost ends it after a lane has answered with an error.
void whi_link_lost(whi_link *link, wh_status why);

// whi_link_doom does so at the end of the pass: for callers that go on with an endpoint, a request or a list of theirs,
// all of which would be gone.  Until then the link takes no more records.
void whi_link_doom(whi_link *link, wh_status why);

// whi_link_drop ends it without a word, because all has been said.
void whi_link_drop(whi_link *link);

// whi_link_close ends it in order; whi_link_maybe_close does when no endpoint needs it.
void whi_link_close(whi_link *link);
void whi_link_maybe_close(whi_link *link);

// whi_link_control sends a control record, or keeps it until there is space.
void whi_link_control(whi_link *link, const whi_hdr *hdr, const void *payload);

// whi_link_mark notes that the link has something to send.
void whi_link_mark(whi_link *link);

// whi_link_flush_out sends what waits, control records first; returns the number of records and chunks that went.
unsigned whi_link_flush_out(whi_link *link);

// whi_link_free_control frees one that was kept.
void whi_link_free_control(wh_worker *worker, whi_queue_node *node);

// whi_link_control_size is the size of a kept control record, for their pool.
size_t whi_link_control_size(void);

// whi_link_pass polls and flushes; returns the number of events.
unsigned whi_link_pass(whi_link *link);

// whi_link_heat has the link polled in each pass.
void whi_link_heat(whi_link *link);

// whi_link_want_space asks to be woken when there is space for what waits, or ends that; it returns whether a peer was asked
// that had not been asked before.
bool whi_link_want_space(whi_link *link, bool want);

// A lane switch has two halves, one per direction, in any order.  whi_link_send_by is ours: what is sent goes by `lane` from
// now on; the lane's kind (lanes.h) calls it when our SWITCH has gone.  whi_link_receive_by is the peer's: what it sends is
// taken off `lane`; its kind calls it when the peer's SWITCH has come and the lane can be polled, and whoever gives a new link
// its first lane.
void whi_link_send_by(whi_link *link, whi_lane *lane);
void whi_link_receive_by(whi_link *link, whi_lane *lane);

// whi_link_record handles the records that are the link's own: BYE, SWITCH, LANE_ADDRESS.
wh_status whi_link_record(whi_link *link, const whi_hdr *hdr, const void *payload);

// whi_link_broken notes that a record breaks the protocol, and returns WH_EPROTOCOL, which fails the link.
wh_status whi_link_broken(const whi_link *link, const whi_hdr *hdr, const char *what);

// whi_link_dump prints the link and what its user has on it.
void whi_link_dump(const whi_link *link, FILE *file);

// What the peer has shown (trust.c): whi_link_learn notes a secret that it has proven, "" being none; whi_link_knows
// asks for one, "" being known to all.  whi_link_other_user says whether it runs as another user of this host.
void whi_link_learn(whi_link *link, const char *secret);
bool whi_link_knows(const whi_link *link, const char *secret);
bool whi_link_other_user(const whi_link *link);

// whi_link_hung_up looks whether the peer has ended the link, also if that has not come up in a poll yet.
bool whi_link_hung_up(const whi_link *link);

// whi_link_reads_keys says whether both ends of the lane that is used make and read the same keys of memory (link_ucx.c).
bool whi_link_reads_keys(const whi_link *link);

// Liveness of local peers (liveness.c).
void whi_process_attach(whi_link *link);
void whi_process_detach(whi_link *link);

#endif
