// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of the random program share: what is drawn, layouts, blocks of memory, operations that go on, communicators.
//
// All ranks draw the same numbers, so each knows what all do.  What depends on the rank, or on the size of a communicator, which
// ranks of others do not see, must not be drawn: `hashed` gives it.
#ifndef RANDOM_H
#define RANDOM_H

#include "../comm/check.h"

#include <stdbool.h>
#include <stdint.h>

// ---- kit.c: numbers and sums.

extern int me, ranks, step;  // in MPI_COMM_WORLD; the operation that is under way, from 1

void kit_begin(uint64_t seed, bool verbose);
// draw returns a number below `below`, the same at all ranks.
unsigned draw(unsigned below);
// hashed returns a number below `below` that the three, the seed and the operation determine.
unsigned hashed(unsigned below, uint64_t a, uint64_t b, uint64_t c);
// A value goes into this rank's sum.
void note(const char *what, int64_t value);
void note_bytes(const char *what, const void *bytes, size_t count);
// kit_tell says that something begins, where what is noted is printed.
void kit_tell(const char *what);
// kit_report prints the sums of all ranks, by rank 0.
void kit_report(void);

// ---- layout.c: types, and memory for them.

// A type, and what it is made of: so many times `unit`.  Its elements do not overlap, at any count.
typedef struct layout {
    MPI_Datatype type, unit;
    int units;
    bool mixed;  // the unit is not predefined
    MPI_Count size, lb, extent, true_lb, true_extent;
} layout;

void layouts_begin(void);
void layouts_end(void);
layout layout_draw(void);
// layout_of makes one of a committed type that is its own unit.
layout layout_of(MPI_Datatype type);
// layout_peer makes one with the same units, dense or in the same places, as is drawn; `each` of its elements are one of the other's.
layout layout_peer(const layout *of, int *each);
void layout_free(layout *l);
// layout_fit makes a count smaller until so many elements span at most so many bytes.
int layout_fit(const layout *l, int count, int most);
// count_draw returns a count of elements: few most times, sometimes none, sometimes very many.
int count_draw(void);

// Elements in memory that is theirs alone, with a margin at both ends that nobody may write, filled with bytes of this rank's own.
typedef struct block {
    char *room, *at;  // `at` is what MPI is given
    size_t bytes;
} block;

block block_make(const layout *l, MPI_Count count, unsigned salt);
// block_end puts all bytes, gaps and margins included, into the sum, and frees them.
void block_end(block *b, const char *what);

// What a call is given: the block and its layout, or MPI_BOTTOM and a type that has the address.
typedef struct argument {
    void *at;
    int count;
    MPI_Datatype type;
} argument;

argument argument_make(const block *b, const layout *l, int count, bool bottom);
void argument_free(argument *a);

// ---- pending.c: operations that go on beside others.

enum { PENDING_REQUESTS = 3, PENDING_BLOCKS = 2, PENDING_MEMORY = 16 };

typedef struct pending {
    const char *what;
    int step, count, n_blocks, n_memory;
    bool used, persistent;  // persistent: all its requests are; they are started a second time
    MPI_Request requests[PENDING_REQUESTS];
    block blocks[PENDING_BLOCKS];
    void *memory[PENDING_MEMORY];
} pending;

// For an MPI that fails at the rest: persistent operations are completed by MPI_Waitall only, Isendrecv_replace is the blocking call.
extern bool pending_spare;
// pending_begin returns a place of those that all ranks draw; what had it is completed first.
pending *pending_begin(const char *what);
MPI_Request *pending_request(pending *p);
// pending_block gives it a block, which ends with it; pending_make makes that one, too.
void pending_block(pending *p, block b);
block pending_make(pending *p, const layout *l, MPI_Count count, unsigned salt);
void *pending_memory(pending *p, size_t bytes);
void pending_complete(pending *p);
void pending_some(void);
void pending_all(void);

// ---- comms.c: communicators.

void comms_begin(void);
void comms_end(void);
void comms_change(void);
MPI_Comm comm_draw(void);
// The intercommunicator, MPI_COMM_NULL in a job of one rank; a grid and a graph; one on which nothing is pending between operations.
extern MPI_Comm comm_inter, comm_grid, comm_graph, comm_quiet;

// ---- call.c: what collectives have in common.

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

typedef struct call {
    MPI_Comm comm;
    int rank, peers,
        group;             // the remote group's size, and which group this is, where there are two
    int form, root, salt;  // root: the argument
    bool inter, large, in_place, is_root;
    pending *p;
    MPI_Request *request;
} call;

// Counts and displacements for several peers, in both widths.
typedef struct parts {
    int *counts, *displs, length, total;
    MPI_Count *large_counts;
    MPI_Aint *large_displs;
} parts;

call call_draw(const char *what, MPI_Comm comm);
void call_end(call *c);
parts parts_make(pending *p, int length);
// parts_place gives the counts, of elements of `bytes`, places beside each other, some with gaps, and fills in the other width.
void parts_place(parts *all, int bytes, unsigned salt);

#define ARGS(...) __VA_ARGS__
// CALL makes a collective call in its form; `few` are the arguments in parentheses, `many` those with large counts.
#define CALL(c, Name, name, few, many)                                                             \
    switch ((c)->form * 2 + (c)->large) {                                                          \
    case BLOCKING * 2: OK(MPI_##Name(ARGS few, (c)->comm)); break;                                 \
    case BLOCKING * 2 + 1: OK(MPI_##Name##_c(ARGS many, (c)->comm)); break;                        \
    case NONBLOCKING * 2: OK(MPI_I##name(ARGS few, (c)->comm, (c)->request)); break;               \
    case NONBLOCKING * 2 + 1: OK(MPI_I##name##_c(ARGS many, (c)->comm, (c)->request)); break;      \
    case PERSISTENT * 2:                                                                           \
        OK(MPI_##Name##_init(ARGS few, (c)->comm, MPI_INFO_NULL, (c)->request));                   \
        break;                                                                                     \
    default: OK(MPI_##Name##_init_c(ARGS many, (c)->comm, MPI_INFO_NULL, (c)->request));           \
    }
// EITHER calls a function or its twin with large counts.
#define EITHER(large, Name, ...) OK((large) ? MPI_##Name##_c(__VA_ARGS__) : MPI_##Name(__VA_ARGS__))

// ---- The operations: each draws what it does.

void exchange_step(void);  // exchange.c: collectives that move data
void combine_step(void);   // combine.c: reductions
void combine_begin(void);
void combine_end(void);
void neighbor_step(void);  // neighbor.c
void point_step(void);     // point.c: messages between two
void wild_step(void);      // wild.c: messages from anybody
void parted_step(void);    // in partitions
void window_step(void);    // window.c: one-sided
void shared_step(void);    // shared.c: in memory that the ranks of a host share
void file_step(void);      // file.c
void pack_step(void);      // pack.c
void roam_step(void);  // roam_still.c, roam_moving.c: ranks change their process, where they can

#endif
