// SPDX-License-Identifier: BSD-3-Clause
//
// Source: something that a worker polls for events and that may have something to send: a link.
//
// A source is hot while it is polled in each pass, and dirty while something waits to be sent.  One
// that had nothing for a while, or whose worker sleeps, is armed and no longer polled: its peer then
// wakes the worker by a descriptor, and the source is heated.  Owner's thread.
#ifndef WHI_WORKER_SOURCE_H
#define WHI_WORKER_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "worker/worker.h"

typedef struct whi_source_ops {
    // pass polls the source once, sends what can go if it is dirty, and returns the number of
    // events.  send only does the second, for a source that is not hot.
    unsigned (*pass)(whi_source *source);
    unsigned (*send)(whi_source *source);

    // arm asks the peer to ring when it sends; ready, asked behind a barrier, says whether that
    // comes too late because something is there.
    void (*arm)(whi_source *source);
    bool (*ready)(whi_source *source);

    // want_room asks to be woken when there is room for what waits; has_room, asked behind a
    // barrier, says whether there is some now.
    void (*want_room)(whi_source *source);
    bool (*has_room)(whi_source *source);
} whi_source_ops;

struct whi_source {
    const whi_source_ops *ops;
    whi_list hot_link, dirty_link;
    bool hot, dirty;
    bool blocked;   // the last attempt to send found no room
    bool rings;     // a descriptor of its own tells of events while it is not polled
    bool syscall;   // polling it is a system call
    uint32_t idle;  // passes without an event
};

// whi_source_init makes a source that is neither hot nor dirty.
void whi_source_init(whi_source *source, const whi_source_ops *ops);

// whi_source_heat has it polled from now on; whi_source_cool ends that.
void whi_source_heat(wh_worker *worker, whi_source *source);
void whi_source_cool(wh_worker *worker, whi_source *source);

// whi_source_mark notes that it has something to send; whi_source_sent that nothing is left.
void whi_source_mark(wh_worker *worker, whi_source *source);
void whi_source_sent(whi_source *source);

#endif
