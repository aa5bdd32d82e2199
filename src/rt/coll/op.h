// SPDX-License-Identifier: BSD-3-Clause
//
// Operation: one collective at one member, from its call to its last message.
//
// An algorithm is a function, `step`, that goes on whenever all messages that it has started have ended, and starts the next
// ones; its schedule, who sends how many bytes to whom and in which order, follows from the arguments alone.  It knows nothing of failures.  What
// it starts are *parts*: a message sent, or received.
//
// Failure.  When a part fails, or the user gives up, the operation fails: parts that use memory are cancelled, and its user is
// told when they have ended.  The schedule goes on without its user: in the place of each message that it still has to send goes one
// that says why (told apart by its size), and what it still has to receive is dropped.  So whoever needs something of this
// member learns of it where it waits for that, and fails in the same way; who does not is not disturbed; and no message of an
// operation is left over, to be taken for one of another.  With a PE that is lost, messages end at once.
//
// Owner's thread of the port's worker.
#ifndef WHI_RT_COLL_OP_H
#define WHI_RT_COLL_OP_H

#include <wherry/coll.h>
#include <wherry/layer.h>
#include <wherry/post.h>

#include "base/list.h"
#include "rt/coll/data.h"
#include "rt/coll/team.h"

typedef struct whi_coll_op whi_coll_op;

typedef struct whi_coll_kind {
    const char *name;
    // step goes on to where it waits (WHI_COLL_WAIT), or returns false: there is nothing more to do.
    bool (*step)(whi_coll_op *op);
    // done follows a last step without a failure; an error fails the operation.  fini frees what it holds.  Both are optional.
    wh_status (*done)(whi_coll_op *op);
    void (*fini)(whi_coll_op *op);
} whi_coll_kind;

// What a call was given.
typedef struct whi_coll_args {
    whi_coll_data from, to;
    wh_reduction how;
    bool in_place;  // both are one
    uint32_t root;
} whi_coll_args;

// What is told in the place of a message.
enum { WHI_COLL_REASON = 8, WHI_COLL_SMALL = 16, WHI_COLL_TEXT = 160 };

typedef enum whi_coll_task {
    WHI_COLL_IDLE,
    WHI_COLL_SEND,   // the data
    WHI_COLL_TELL,   // in its place, why it does not come
    WHI_COLL_RECV,   // the data, or why it does not come
    WHI_COLL_DRAIN,  // the same, which nobody needs
} whi_coll_task;

typedef struct whi_coll_part {
    whi_coll_op *op;
    wh_request *req;  // under way
    uint32_t rank;    // of the other member
    uint8_t task;     // whi_coll_task
    bool waits;       // for memory, to be posted again
    char *buf;        // `count` elements of `type`; without a type, bytes
    uint64_t count;
    const wh_type *type;
    uint64_t size;  // bytes that travel, at least one
    char small
        [WHI_COLL_SMALL];  // what is received, when that may be too short for a reason, and reasons
} whi_coll_part;

struct whi_coll_op {
    whi_list link;  // in its team's
    const whi_coll_kind *kind;
    wh_team *team;
    wh_request *req;  // of the user; NULL when it has been completed
    uint32_t number;
    uint32_t line;  // where step goes on
    uint32_t out;   // parts under way
    uint32_t lent;  // of those that use memory
    bool running, starting, finished;
    wh_status failed;  // WH_OK, or why
    uint32_t culprit;  // the PE where that began
    char text[WHI_COLL_TEXT];
    wh_post again;  // posts what waits for memory
    bool posted;

    whi_coll_args args;
    void *state;  // of the kind
    char *temp;
    whi_coll_part *parts;
    unsigned part_count;
};

// whi_coll_op_new makes an operation that may have `parts` under way at a time, with zeroed state and bytes to work in.  It takes
// the arguments over, also when it returns NULL: no memory.
whi_coll_op *whi_coll_op_new(wh_team *team, const whi_coll_kind *kind, const whi_coll_args *args,
                             unsigned parts, size_t state, uint64_t temp);
void whi_coll_args_fini(whi_coll_args *args);

// whi_coll_op_start runs it, as the public calls promise.  On an error it is freed, and nothing has happened.
WH_CHECK wh_status whi_coll_op_start(whi_coll_op *op, const wh_op_opts *opts, wh_request **req);

// whi_coll_fail notes the first failure, which began at PE `culprit`, and takes the memory back from the parts that use it.
void whi_coll_fail(whi_coll_op *op, wh_status status, uint32_t culprit, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// ---- For steps.  Once the operation has failed none of these touches memory.

// whi_coll_send and whi_coll_recv start a message of `count` elements of `type`, or bytes, from or to memory that stays untouched
// until step goes on.  Messages between two members match in order.
void whi_coll_send(whi_coll_op *op, uint32_t rank, const void *buf, uint64_t count,
                   const wh_type *type);
void whi_coll_recv(whi_coll_op *op, uint32_t rank, void *buf, uint64_t count, const wh_type *type);

// whi_coll_pack copies packed bytes from `offset` on out of data, of `blocks` blocks from the first on; whi_coll_unpack into it.
void whi_coll_pack(whi_coll_op *op, const whi_coll_data *data, uint32_t first, uint32_t blocks,
                   uint64_t offset, void *to, uint64_t size);
void whi_coll_unpack(whi_coll_op *op, const void *from, uint64_t size, const whi_coll_data *data,
                     uint32_t first, uint32_t blocks, uint64_t offset);

// whi_coll_copy copies a block to a block.
void whi_coll_copy(whi_coll_op *op, const whi_coll_data *from, uint32_t from_block,
                   const whi_coll_data *to, uint32_t to_block);

// whi_coll_move copies bytes.
void whi_coll_move(whi_coll_op *op, void *to, const void *from, uint64_t size);

// whi_coll_combine combines packed bytes of a block, those from `offset` on: inout = inout op in.
void whi_coll_combine(whi_coll_op *op, const void *in, void *inout, uint64_t size, uint64_t offset);

// A step is written as if it could wait: WHI_COLL_WAIT leaves it, and it goes on there when all it has started has ended.
// Local variables do not live across that; what has to, is in the state.
#define WHI_COLL_BEGIN(op)                                                                         \
    switch ((op)->line) {                                                                          \
    case 0:
#define WHI_COLL_WAIT(op)                                                                          \
    do {                                                                                           \
        (op)->line = __LINE__;                                                                     \
        return true;                                                                               \
    case __LINE__:;                                                                                \
    } while (0)
#define WHI_COLL_END                                                                               \
    }                                                                                              \
    return false

#endif
