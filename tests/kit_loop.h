// SPDX-License-Identifier: BSD-3-Clause
//
// Workers joined by the loop lane: the one place of the tests that reaches below the public headers.
//
// The loop lane has no addresses, because it is no way to reach anybody; so links and endpoints are made by hand here.
// Everything that is done with them after that goes through the public API.
#ifndef WHERRY_TESTS_KIT_LOOP_H
#define WHERRY_TESTS_KIT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/wherry.h>

typedef struct kit_loop kit_loop;

typedef struct kit_loop_opts {  // see net/loop/loop.h
    uint64_t seed;
    uint32_t delay_max, window, drop_after;
    size_t eager_limit, long_limit, chunk_max;
    bool split, reorder, truncate;
} kit_loop_opts;

// kit_loop_join makes a link between two workers, or between a worker and itself; NULL when a former one has not quite
// ended.  The workers' owner calls all of these.
kit_loop *kit_loop_join(wh_worker *a, wh_worker *b, const kit_loop_opts *opts);

// kit_loop_open opens an endpoint from side 0 or 1; the other side's worker gets it through its accept callback.
wh_status kit_loop_open(kit_loop *loop, int side, wh_endpoint **ep);
// kit_loop_open_with gives connect data, too.
wh_status kit_loop_open_with(kit_loop *loop, int side, const void *data, size_t size,
                             wh_endpoint **ep);

// kit_loop_tick advances the network's time.  kit_loop_idle tells whether nothing is in flight.
void kit_loop_tick(kit_loop *loop);
bool kit_loop_idle(const kit_loop *loop);

// kit_loop_disconnect ends the connection.
void kit_loop_disconnect(kit_loop *loop);

// kit_loop_free forgets the network; the links live as long as their workers want.
void kit_loop_free(kit_loop *loop);

// kit_allocations counts the library's allocations from this call on; kit_allocated returns their number, and stops.
void kit_allocations(void);
uint64_t kit_allocated(void);

#endif
