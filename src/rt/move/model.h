// SPDX-License-Identifier: BSD-3-Clause
//
// The world of the model: PEs, the network between them, and what their tables ask for.
#ifndef WHI_RT_MOVE_MODEL_H
#define WHI_RT_MOVE_MODEL_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/rng.h"
#include "rt/move/table.h"

enum {
    PES_MAX = 16,
    KEYS_MAX = 1000,
    COLLECTION = 7,
    STUCK = 5000000,
    TRAVELS_MAX = 16 * KEYS_MAX
};

typedef enum fate { FLYING, INBOX, TAKEN, REJECTED } fate;

typedef struct message {
    whi_place_message place;  // must be first
    int id, sender, dest, pe_now, hops;
    uint32_t source;  // the sender's PE
    uint32_t serial_pe;
    uint64_t sent;  // the step
    fate fate;
} message;

typedef struct element {
    int key, pe;
    bool leaving;
    int to;
    whi_queue inbox;
} element;

typedef struct packet {
    struct packet *next;
    enum { MESSAGE, CONTROL, STATE } kind;
    message *message;
    element *element;  // STATE: NULL if it is destroyed
    size_t size;
    uint8_t bytes[];
} packet;

typedef struct channel {
    packet *first, **last;
    int at;  // among the busy ones; -1: it is empty
    uint8_t slow;
} channel;

// A departure or an arrival that takes its time.
typedef struct travel {
    element *element;  // NULL: of a key that is destroyed
    int key, pe, to;
    void *state;
    size_t size;
    enum { DEPARTS, ENDS, ARRIVES } step;
    uint64_t since;
} travel;

struct model {
    uint64_t seed;
    whi_rng rng;
    int pes, keys, told_max, routes_max;
    bool awaits, large, failing, alike;
    int percent_fail, percent_incomplete;
    whi_places *tables[PES_MAX];
    channel channels[2 * PES_MAX * PES_MAX];
    int busy[2 * PES_MAX * PES_MAX], busy_count;
    element *elements[KEYS_MAX];  // alive, wherever
    uint64_t born[KEYS_MAX], step;
    message **messages;
    int message_count, message_room;
    message **incomplete;
    int incomplete_count, incomplete_room;
    travel travels[TRAVELS_MAX];
    int travel_count;
    uint32_t *sent_pe;
    uint32_t *taken_pe;
    uint64_t moves, taken, rejected, destroyed;
    int trace;  // a key, -1: all, -2: none
    int failed_key;
    jmp_buf failed;
};
extern struct model model;

// say prints a line of the history of an element, if that is wanted; fail ends the seed.
__attribute__((format(printf, 2, 3))) void say(int key, const char *format, ...);
__attribute__((noreturn, format(printf, 2, 3))) void fail(int key, const char *format, ...);

static inline uint64_t draw(uint64_t bound) {
    return whi_rng_below(&model.rng, bound);
}

static inline bool chance(unsigned percent) {
    return whi_rng_chance(&model.rng, percent);
}

static inline whi_place_key key_of(int number) {
    int32_t index[3] = {number, -number, 5};
    whi_place_key key;
    wh_status status = whi_place_key_make(COLLECTION, index, 1 + number % 3, &key);
    if (status != WH_OK)
        abort();
    return key;
}

static inline int number_of(const whi_place_key *key) {
    return key->index[0];
}

// TRY does a call that may fail for lack of memory, as the seed says, and then again.
#define TRY(status, call)                                                                          \
    do {                                                                                           \
        if (model.failing && chance((unsigned)model.percent_fail))                                 \
            whi_alloc_fail_at(1 + draw(4));                                                        \
        (status) = (call);                                                                         \
        whi_alloc_fail_at(0);                                                                      \
        if ((status) == WH_ENOMEM)                                                                 \
            (status) = (call);                                                                     \
    } while (0)

static inline int pick(const int *of, int count) {
    return of[draw((uint64_t)count)];
}
#define PICK(...)                                                                                  \
    pick((const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

// set_up makes the world of a seed, tear_down frees it.
void set_up(uint64_t seed);
void tear_down(void);

// send_state sends the state of an element, which a packet takes along: NULL if it is destroyed.
void send_state(int from, int to, const void *state, size_t size, element *e);

// add_travel has an element leave or arrive some time later.
void add_travel(travel t);

// step_network lets some channel yield something, or not.
void step_network(void);

// reject_one is what a table calls for a message that nobody gets.
void reject_one(uint32_t self, message *o);

#endif
