// SPDX-License-Identifier: BSD-3-Clause
//
// The ucx lane: records and chunks as UCX active messages, for RDMA networks and where it is forced.
//
// UCX is opened at run time.  Each worker that needs it has one domain (a UCP context and a UCP
// worker); the lanes of its links are UCP endpoints of that domain and share nothing else.  No type
// of UCX appears here, so that the rest of the library is the same with and without it.  A domain and
// its lanes belong to one thread at a time, which need not always be the same one.
#ifndef WHI_NET_UCX_UCX_H
#define WHI_NET_UCX_UCX_H

#include "net/lane.h"

typedef struct whi_ucx whi_ucx;

// whi_ucx_load opens UCX, once for the process: out of `dir` (a folder with lib/libucp.so.0, such as
// that of a wheel), or as the dynamic linker finds it when `dir` is NULL or empty.  When one is open already it
// stays.  On an error *why is a sentence that stays valid.  Any thread.
wh_status whi_ucx_load(const char *dir, const char **why);

// whi_ucx_version returns what is open as major << 16 | minor << 8 | patch, 0 when nothing is;
// whi_ucx_path the file that it came from, "" when nothing is.
uint32_t whi_ucx_version(void);
const char *whi_ucx_path(void);

// whi_ucx_transports writes those that UCX finds on this machine, with commas between; "" when it cannot be set up.  It
// makes a domain for that.  Any thread.
void whi_ucx_transports(char *text, size_t size);

// whi_ucx_knows says whether the UCX that is open moves the memory of this wh_mem_kind by itself.  The first call asks UCX, which
// takes long, opens no port, and is not made before something needs the answer.  Any thread.
bool whi_ucx_knows(int kind);

// whi_ucx_has_rdma says whether this machine has an RDMA device.  It asks the kernel, not UCX.
bool whi_ucx_has_rdma(void);

// whi_ucx_create makes a domain of the UCX that is open.  On an error *why is a sentence that
// stays valid until the calling thread's next call.
WH_CHECK wh_status whi_ucx_create(whi_ucx **ucx, const char **why);

// whi_ucx_free ends the domain.  Lanes must have been closed.  It gives the network a moment to take what they have
// sent; after that each chunk that is still out comes back and the lanes that were closed are reported.
void whi_ucx_free(whi_ucx *ucx);

// whi_ucx_fd returns a descriptor that becomes readable when something happens after whi_ucx_arm has
// said WH_OK; WH_EBUSY: progress first.  UCX loses wake-ups now and then: whoever sleeps looks again after a while.
int whi_ucx_fd(const whi_ucx *ucx);
wh_status whi_ucx_arm(whi_ucx *ucx);

// whi_ucx_progress moves what can move in all lanes of the domain.  What lanes that are not closed have got stays with
// them, and their owners are woken; upcalls are made for closed lanes only.  It returns how many events that were.
unsigned whi_ucx_progress(whi_ucx *ucx);

// whi_ucx_closing tells whether lanes that were closed wait for their end, which only progress brings.
bool whi_ucx_closing(const whi_ucx *ucx);

// What a lane asks of its link beside whi_lane_up.
typedef struct whi_ucx_owner {
    // Something waits in the lane: poll it.  Called from the progress of any lane of the domain.
    void (*wake)(void *link);
    // The connection of a closed lane has ended: the peer reaches no memory of ours through it any more.  Called by
    // whi_ucx_progress, unless the domain ends before.
    void (*disconnected)(void *link);
    // A closed lane has come to its end; `link` is not used any more.  Called by whi_ucx_progress and whi_ucx_free.
    void (*closed)(void *link);
} whi_ucx_owner;

typedef struct whi_ucx_opts {
    size_t eager_limit;  // payload bytes of a record that we send
    size_t eager_max;    // and of one that the peer may send
    size_t chunk;        // bytes of a chunk, both ways; 0: what has proved best
    bool same_host;      // the peer is on this host: complain when no shared memory is used
    const char *peer;    // for the log
} whi_ucx_opts;

// whi_ucx_lane_create makes a lane that can receive; it sends after whi_ucx_lane_connect.
WH_CHECK wh_status whi_ucx_lane_create(whi_ucx *ucx, const whi_ucx_opts *opts,
                                       const whi_lane_up *up, const whi_ucx_owner *owner,
                                       void *link, whi_lane **lane);

// whi_ucx_lane_address writes what the peer has to know in order to connect, and returns its size; when that is more than
// `size`, nothing is written.
size_t whi_ucx_lane_address(const whi_lane *lane, void *bytes, size_t size);

// whi_ucx_lane_connect takes the peer's address.  What UCX gave of it goes to UCX as it is: the peer is trusted.
// On an error *why is as for whi_ucx_create.
WH_CHECK wh_status whi_ucx_lane_connect(whi_lane *lane, const void *bytes, size_t size,
                                        const char **why);

// whi_ucx_lane_lost notes that the peer is lost: closing will not wait for it.
void whi_ucx_lane_lost(whi_lane *lane);

// The largest address.
enum { WHI_UCX_ADDRESS_MAX = 1 << 16 };

// One-sided access (access.c) is reached through the `access` of a lane's operations.

#endif
