// SPDX-License-Identifier: BSD-3-Clause
//
// Room: what a floor of the engine adds to a worker.
//
// The worker's room is the lowest.  The rooms on top of it (link, message, rma) each keep a part of
// their own with every worker, whose struct begins with that of the room below, and hand the worker
// a table of what they want to be asked.  So the worker runs what it does not know.  The tables stand
// in a NULL-terminated array, the lowest room first (src/engine/engine.c).
//
// All functions are optional and run in the owner's thread, unless said.
#ifndef WHI_WORKER_ROOM_H
#define WHI_WORKER_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <wherry/worker.h>

typedef struct whi_room {
    const char *name;

    // init sets the room's zeroed part up; fini frees it, also when init has failed or never ran.
    wh_status (*init)(wh_worker *worker);
    void (*fini)(wh_worker *worker);

    // in_use says whether a user still has a handle that needs the memory of a destroyed worker.
    // in_child repairs what another thread may have been changing when it forked: in the child.
    bool (*in_use)(const wh_worker *worker);
    void (*in_child)(wh_worker *worker);

    // look is the room's turn when sockets and timers have theirs, and returns how many events it
    // handled; busy asks for such a turn in every pass.
    unsigned (*look)(wh_worker *worker);
    bool (*busy)(const wh_worker *worker);

    // due does what came up in the polls of this pass and is better done for all of it at once (worker->due), and returns how
    // many events it handled.
    unsigned (*due)(wh_worker *worker);

    // asked does what other threads have left a word about (whi_worker_ask).
    void (*asked)(wh_worker *worker);

    // arm prepares the room for the worker's sleep: WH_OK, or WH_EBUSY.  next_look returns when the
    // worker has to be awake again, WHI_TIMER_NEVER if that does not matter.
    wh_status (*arm)(wh_worker *worker);
    uint64_t (*next_look)(const wh_worker *worker);

    // The end of a worker.  close ends all that is open, and is called again as long as callbacks
    // start something anew; finish follows when nothing is left to tell.  Upper rooms first.
    void (*close)(wh_worker *worker);
    void (*finish)(wh_worker *worker);

    // free_foreign frees what other threads have left, when the owner is gone.  Under foreign_lock.
    void (*free_foreign)(wh_worker *worker);

    // count adds up the room's counters; dump prints what people want to see of it.
    void (*count)(const wh_worker *worker, wh_counters *counters);
    void (*dump)(const wh_worker *worker, FILE *file);
} whi_room;

// whi_rooms_foreach runs a statement for each room of a worker, the lowest first; `room` points to the pointer to its table.
#define whi_rooms_foreach(room, worker)                                                            \
    for (const whi_room *const *room = (worker)->rooms; *room; room++)

#endif
