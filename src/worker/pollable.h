// SPDX-License-Identifier: BSD-3-Clause
//
// Pollable: something that a worker polls for events and that may have something to send: a link.
//
// A pollable is hot while it is polled in each pass, and dirty while something waits to be sent.
// One that had nothing for a while, or whose worker sleeps, is armed and no longer polled: its peer
// then wakes the worker by a descriptor, and the pollable is heated.  A while after it was armed it is looked at once
// more, since no peer can be relied on to see at once that it was (docs/design/barrier.md).  Owner's thread.
#ifndef WHI_WORKER_POLLABLE_H
#define WHI_WORKER_POLLABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "worker/worker.h"

typedef struct whi_pollable_ops {
    // pass polls the pollable once, sends what can go if it is dirty, and returns the number of
    // events.  send only does the second, for a pollable that is not hot.
    unsigned (*pass)(whi_pollable *pollable);
    unsigned (*send)(whi_pollable *pollable);

    // arm asks the peer to ring when it sends, and returns whether it had not been asked before; ready,
    // asked behind a barrier, says whether that comes too late because something is there.
    bool (*arm)(whi_pollable *pollable);
    bool (*ready)(whi_pollable *pollable);

    // want_space asks to be woken when there is space for what waits, and returns as arm does;
    // has_space, asked behind a barrier, says whether there is some now.
    bool (*want_space)(whi_pollable *pollable);
    bool (*has_space)(whi_pollable *pollable);
} whi_pollable_ops;

struct whi_pollable {
    const whi_pollable_ops *ops;
    whi_list hot_link, dirty_link, look_link;
    bool hot, dirty;
    bool blocked;      // the last attempt to send found no space
    bool rings;        // a descriptor of its own tells of events while it is not polled
    bool syscall;      // polling it is a system call
    uint32_t idle;     // passes without an event
    uint64_t look_ns;  // when it is looked at once more, if look_link is in the worker's list
};

// whi_pollable_init makes a pollable that is neither hot nor dirty.
void whi_pollable_init(whi_pollable *pollable, const whi_pollable_ops *ops);

// whi_pollable_heat has it polled from now on; whi_pollable_cool ends that.
void whi_pollable_heat(wh_worker *worker, whi_pollable *pollable);
void whi_pollable_cool(wh_worker *worker, whi_pollable *pollable);

// whi_pollable_mark notes that it has something to send; whi_pollable_sent that nothing is left.
void whi_pollable_mark(wh_worker *worker, whi_pollable *pollable);
void whi_pollable_sent(whi_pollable *pollable);

// whi_pollable_look_later has one that was armed just now looked at once more.  whi_pollable_look does so where it is time.
// whi_pollable_next_look returns when; WHI_TIMER_NEVER.
void whi_pollable_look_later(wh_worker *worker, whi_pollable *pollable);
void whi_pollable_look(wh_worker *worker);
uint64_t whi_pollable_next_look(const wh_worker *worker);

// whi_pollable_end takes it out of all lists.
void whi_pollable_end(wh_worker *worker, whi_pollable *pollable);

#endif
