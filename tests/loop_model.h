// SPDX-License-Identifier: BSD-3-Clause
//
// The model of loop_seeds: what was sent and started, and what must come of it.
//
// A message that was sent arrives once, whole, in order, at a receive that accepts it, unless its send was cancelled;
// then it arrives never.  Each operation ends once, with a status that its history explains.  One program at a time, one
// thread; whatever contradicts the model ends the process.
#ifndef WHERRY_TESTS_LOOP_MODEL_H
#define WHERRY_TESTS_LOOP_MODEL_H

#include "kit_loop.h"
#include "proc.h"

enum {
    MODEL_EPS = 3,
    MODEL_OPS = 1200,
    MODEL_MESSAGES = 600,
    MODEL_ROOM = 70000 + MODEL_MESSAGES,  // for any message
    MODEL_KEPT = 8,
    MODEL_PEEKED = 4,
};

typedef enum model_kind { TAG, OBJECT, AM, FLUSH, CLOSE } model_kind;

typedef struct model_message {
    model_kind kind;
    int side, ep;  // who sent it
    uint64_t tag;
    size_t size;
    struct model_op *send;
    int received;
    bool whole;    // the payload has come, too: a handler sees an announcement first
    bool refused;  // an object that its receiver does not want, or may not have wanted
} model_message;

typedef struct model_op {
    model_kind kind;
    bool send, any, cancelled;
    bool carried;  // a send whose payload may be with the peer before its end is known here
    int side, ep;
    uint64_t tag, mask;
    size_t room;
    char *buf;
    int message;   // sent, or received; -1: none
    int asked;     // whose object an allocator was asked for; -1: none
    bool refused;  // by that allocator
    wh_request *req;
    int ended;
    wh_result result;
} model_op;

typedef struct model_pair {
    wh_endpoint *handle[2];  // NULL when given up
    bool troubled;           // aborted, or lost: anything may be missing
    bool cancels;            // a send was cancelled: receives may have given up their place
    bool closed[2];          // in order, by that side
    int lost[2];             // how often each side was told of the other's end
    uint64_t am_next[2];     // lowest message id that may come next to each side
} model_pair;

typedef struct model_taken {
    wh_message *msg;
    int side, ep;
    size_t size;
} model_taken;

typedef struct model_state {
    uint64_t seed, rng;
    bool faults, disconnected, verbose;
    bool may_lose;  // the network loses the connection by itself, some time
    bool has_long;  // tagged messages may be sent before they match, although they are large
    bool closes;    // endpoints are closed while the program runs
    bool destroyed;
    wh_context *ctx;
    wh_worker *worker[2];
    kit_loop *loop;
    model_pair eps[MODEL_EPS];
    int ep_count;
    wh_endpoint *arrived;
    model_op ops[MODEL_OPS];
    int op_count;
    model_message messages[MODEL_MESSAGES];
    int message_count;
    wh_am *kept[MODEL_KEPT];  // active messages that their handler has kept, and which they are
    int kept_message[MODEL_KEPT];
    int kept_count;
    model_taken taken[MODEL_PEEKED];  // messages that were taken and not received yet
    int taken_count;
} model_state;

extern model_state model;

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (model.verbose)                                                                         \
            printf(__VA_ARGS__);                                                                   \
    } while (0)

// All choices of a program come from here: a number below n; true in so many of a hundred cases.
uint64_t model_draw(uint64_t n);
bool model_chance(unsigned percent);

// model_new_op notes an operation that is about to be started; NULL when the program has enough of them.
model_op *model_new_op(model_kind kind, bool send, int side, int ep);

// model_new_message gives a send its message and its buffer.
model_message *model_new_message(model_op *o, uint64_t tag);

// model_opts makes the options of an operation, whose end the model then hears of.  model_began takes what the call that
// starts it has returned.
const wh_op_opts *model_opts(model_op *o, uint32_t flags, wh_op_opts *opts);
void model_began(model_op *o, wh_status st);

// model_arrive takes note of message `id` at `side`: once, and only if it was sent there.
model_message *model_arrive(int id, int side, model_kind kind);

// model_holds says whether the first `got` bytes of message `id`, which has `size`, are at `buf`.
bool model_holds(const char *buf, size_t got, size_t size, int id);

// model_missing returns a message that should have come and was not received, or NULL.
const model_message *model_missing(void);

// model_check_order compares receives that might have had each other's message: the one posted first has the one sent first.
void model_check_order(void);

// model_told checks what must have come before side `side` is told that its peer has ended endpoint `ep`.
void model_told(int side, int ep, wh_status why);

// model_refuse notes that a receive may end without the object that it was asked for.
void model_refuse(model_op *o);

// model_abort aborts an endpoint.
void model_abort(int side, int ep);

// Allocators (loop_memory.c): memory_begin sets them, memory_step answers a frame that waits (false: none does), memory_end
// requires that all memory came back.
void memory_begin(void);
bool memory_step(void);
void memory_end(void);

// model_end requires that every operation has ended, and frees what they had.
void model_end(void);

#endif
