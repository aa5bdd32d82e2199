// SPDX-License-Identifier: BSD-3-Clause
//
// The lane test kit: what every lane must do, tested through the vtable alone.
//
// A test program says how to make two lanes that are each other's peer and expands WHI_KIT_TESTS;
// the tests run unchanged on any pair.  Each of the two ends is a machine of its own that sends
// what follows from its seed and checks what it hears against the seed of the other, so a test may
// also drive them from two threads.  The kit's own memory does not come from base/alloc.h: a test
// that makes an allocation fail is to hit the lane.
#ifndef WHI_NET_LANE_KIT_H
#define WHI_NET_LANE_KIT_H

#include "base/rng.h"
#include "net/lane.h"

// One way to get a pair of lanes.
typedef struct whi_kit {
    // open makes two lanes that are each other's peer, or neither.
    wh_status (*open)(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a, void *link_b,
                      whi_lane **b);
    // step lets time pass in what joins the lanes.  Optional.
    void (*step)(void *arg);
    // done follows after both lanes were closed; a lane that lends has given all back when it returns.  Optional.
    void (*done)(void *arg);
    void *arg;
    bool deaf;  // the lane does not notice by itself that its peer has gone: its owner watches
    // fail ends the test and does not return.
    void (*fail)(const char *file, int line, const char *text);
} whi_kit;

// One message of a plan: a record, or, when `bulk`, chunks.
typedef struct whi_kit_message {
    uint64_t size;
    bool bulk;
} whi_kit_message;

// What one end says: `count` messages that follow from the seed.
typedef struct whi_kit_plan {
    whi_kit_message (*at)(const struct whi_kit_plan *plan, unsigned number);
    uint64_t seed;
    unsigned count;
    size_t eager_limit;
    uint64_t bulk_max;
} whi_kit_plan;

struct whi_kit_inbox;

// One end of a pair.  A test may set the fields of the first group.
typedef struct whi_kit_end {
    whi_kit_plan says, hears;
    wh_status deliver, sink, landed;  // what the upcalls answer; WH_OK
    bool echo;                        // deliver sends the record back
    bool tolerant;                    // a failed lane is no failed test: `status` tells of it

    const whi_kit *kit;
    whi_lane *lane;
    wh_status status;
    whi_rng rng;
    uint8_t *eager;  // a payload to be sent

    unsigned said;              // messages that are wholly sent
    unsigned noise;             // records sent between them, at any moment
    uint8_t *bulk;              // the bulk message under way
    struct whi_kit_loan *loan;  // what keeps it, when the lane lends
    uint64_t pushed;            // of it
    uint64_t produced;          // up to where its `move` was asked for
    bool within;                // a chunk of it is not whole: the lane takes nothing else

    unsigned begun;        // messages that have begun to come, on a lane that does not reorder
    unsigned heard;        // messages that have wholly come
    unsigned noise_heard;  // of the other's noise, the number that comes next
    unsigned echoes;       // records that came back
    struct whi_kit_inbox *inbox;   // one per expected message
    unsigned upcalls;              // records and chunks begun
    unsigned landing;              // chunks between sink and landed
    struct whi_kit_chunk *chunks;  // those
    struct whi_kit_loan *loans;    // memory that the lane still reads (a lane that lends)
} whi_kit_end;

// whi_kit_try makes a pair of ends that say what is planned; whi_kit_open fails the test when that
// fails.  whi_kit_hang_up closes the lane of one end, whi_kit_close ends both.
wh_status whi_kit_try(const whi_kit *kit, const whi_kit_plan *says_a, const whi_kit_plan *says_b,
                      whi_kit_end *a, whi_kit_end *b);
void whi_kit_open(const whi_kit *kit, const whi_kit_plan *says_a, const whi_kit_plan *says_b,
                  whi_kit_end *a, whi_kit_end *b);
void whi_kit_hang_up(whi_kit_end *end);
void whi_kit_close(whi_kit_end *a, whi_kit_end *b);

#define WHI_KIT_MUST(kit, cond)                                                                    \
    ((cond) ? (void)0 : (kit)->fail(__FILE__, __LINE__, "must hold: " #cond))

// whi_kit_say sends the next message, or a part of it; false when the lane takes nothing now, or
// everything is said.
bool whi_kit_say(whi_kit_end *end);

// whi_kit_poll polls once and returns the events; 0 when the lane has failed, which `status` tells.
int whi_kit_poll(whi_kit_end *end, int budget);

// whi_kit_turn says something, perhaps, and polls once.  It returns false once the end has said and
// heard everything, or its lane has failed; the other end may still need its turns.
bool whi_kit_turn(whi_kit_end *end);

// whi_kit_run gives both ends turns until both are through or one has failed.
void whi_kit_run(whi_kit_end *a, whi_kit_end *b);

// whi_kit_silence plans nothing; whi_kit_records and whi_kit_mixed plan `count` messages of random
// sizes, the latter with bulk of up to `bulk_max` bytes among them.
extern const whi_kit_plan whi_kit_silence;
whi_kit_plan whi_kit_records(uint64_t seed, unsigned count);

whi_kit_plan whi_kit_mixed(uint64_t seed, unsigned count, uint64_t bulk_max);

// The tests.  X(name) stands for void whi_kit_<name>(const whi_kit *kit).
#define WHI_KIT_TESTS(X)                                                                           \
    X(sizes)                                                                                       \
    X(order)                                                                                       \
    X(bulk)                                                                                        \
    X(both_ways)                                                                                   \
    X(refuse)                                                                                      \
    X(budget)                                                                                      \
    X(echo)                                                                                        \
    X(quiet)                                                                                       \
    X(close_pending)                                                                               \
    X(close_landing)                                                                               \
    X(peer_gone)                                                                                   \
    X(bad_deliver)                                                                                 \
    X(bad_sink)                                                                                    \
    X(bad_landed)                                                                                  \
    X(describe)                                                                                    \
    X(memory)

#define WHI_KIT_DECLARE(name) void whi_kit_##name(const whi_kit *kit);
WHI_KIT_TESTS(WHI_KIT_DECLARE)
#undef WHI_KIT_DECLARE

#endif
