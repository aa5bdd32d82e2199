// SPDX-License-Identifier: BSD-3-Clause
//
// Schedules: a collective on one rank as a list of steps.
//
// Steps are carried out in order.  Copies and reductions are done on the spot; sends and receives start and go on beside what follows;
// a `wait` step waits for all of them.  So a buffer may be read, reduced or sent on only behind the wait that follows its receive.  All
// messages of a schedule have one tag: messages from a rank to a rank are received in the order in which they are sent.
//
// A step that fails does not stop the others, so that no rank waits for one that has met an error; the schedule then ends with the first error.
// Only where a process was lost nothing more is sent: others would take it for data, and the loss ends what they wait for.
//
// A schedule is built once and started any number of times, one after the other.  The thread that progresses its rank owns it.
#ifndef WHM_COLL_SCHEDULE_H
#define WHM_COLL_SCHEDULE_H

#include "mpi/p2p/transfer.h"
#include "mpi/type/op.h"

typedef enum whm_step_kind {
    WHM_STEP_SEND,
    WHM_STEP_RECV,
    WHM_STEP_COPY,
    WHM_STEP_REDUCE,
    WHM_STEP_WAIT
} whm_step_kind;

typedef struct whm_step {
    uint8_t kind;
    bool local;  // on an intercommunicator: within this rank's own group
    int peer;
    void *buf;  // of the message; what a copy or a reduction writes
    MPI_Count count;
    whm_type *type;
    const void *from;  // what a copy or a reduction reads
    MPI_Count from_count;
    whm_type *from_type;
} whm_step;

typedef struct whm_schedule whm_schedule;

typedef struct whm_flight {  // a message under way
    whm_transfer transfer;
    whm_schedule *schedule;
} whm_flight;

// Small collectives fit into the struct itself, and so on the stack of a blocking call.
enum { WHM_INLINE_STEPS = 32, WHM_INLINE_FLIGHTS = 14, WHM_INLINE_BYTES = 2048 };

struct whm_schedule {
    whm_comm *comm;
    whm_op *op;
    whm_rank *owner;
    int rank, size;  // of the group that is in use: see whm_schedule_within
    bool local;
    int tag, local_tag;
    int error;  // the first; while it is built, want of memory
    int from;   // of a message that was too long: its rank, its bytes, and those of the receive
    MPI_Count bytes, expected;
    int steps, room;
    int at;       // the step that comes next
    int started;  // flights since the last wait
    int pending;  // those of them that have not completed
    int most;     // flights between two waits
    int flights;  // of `flight`
    bool running, holds;
    whm_step *step;
    whm_flight *flight;
    void (*done)(
        whm_schedule *schedule);  // called in progress at the end, or NULL: whm_schedule_run waits
    whm_schedule *next;           // of those that can go on
    struct whm_chunk *space;
    size_t used;  // of inline_bytes
    whm_step inline_step[WHM_INLINE_STEPS];
    whm_flight inline_flight[WHM_INLINE_FLIGHTS];
    char inline_bytes[WHM_INLINE_BYTES] __attribute__((aligned(16)));
};

// whm_schedule_init makes an empty one; whm_schedule_fini frees what it has, when it is not under way.
void whm_schedule_init(whm_schedule *schedule, whm_comm *comm, whm_op *op);
void whm_schedule_fini(whm_schedule *schedule);

// whm_schedule_within chooses whom steps added from now on are for: the ranks of this rank's own group of an intercommunicator, or the
// remote group.  `rank` and `size` are this rank's and its group's in any case.
void whm_schedule_within(whm_schedule *schedule, bool local);

// The steps.  Want of memory is kept in `error`.
void whm_step_send(whm_schedule *schedule, const void *buf, MPI_Count count, whm_type *type,
                   int dest);
void whm_step_recv(whm_schedule *schedule, void *buf, MPI_Count count, whm_type *type, int source);
void whm_step_copy(whm_schedule *schedule, void *to, MPI_Count to_count, whm_type *to_type,
                   const void *from, MPI_Count from_count, whm_type *from_type);
// inout[i] = in[i] op inout[i]
void whm_step_reduce(whm_schedule *schedule, const void *in, void *inout, MPI_Count count,
                     whm_type *type);
void whm_step_wait(whm_schedule *schedule);

// whm_schedule_space returns memory for `count` elements, as an address to give as their buffer; it lives as long as the schedule.  NULL: there is
// none, and `error` says so.
void *whm_schedule_space(whm_schedule *schedule, MPI_Count count, whm_type *type);

// whm_schedule_bytes is the same for bytes.
char *whm_schedule_bytes(whm_schedule *schedule, MPI_Count size);

// whm_schedule_close ends the building: an MPI error class.  With `keep` the types and the operation live as long as the schedule.
int whm_schedule_close(whm_schedule *schedule, bool keep);

// whm_schedule_tag takes the tag of its messages: all members of the communicator do so in the same order.
void whm_schedule_tag(whm_schedule *schedule);

// whm_schedule_fail returns the error of the first step that has failed, and says why in whm_self's sentence.
int whm_schedule_fail(const whm_schedule *schedule);

// whm_schedule_run carries it out and waits for its end; the error of the first step that failed.
int whm_schedule_run(whm_schedule *schedule);

// whm_schedule_start begins it and returns; schedule->done, which is set before, is called once at its end, in this call or in progress.
void whm_schedule_start(whm_schedule *schedule);

#endif
