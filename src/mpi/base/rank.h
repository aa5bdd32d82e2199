// SPDX-License-Identifier: BSD-3-Clause
//
// A rank: all that one MPI program changes, so that several ranks can live in one process.
//
// Nothing of a rank is in statics but the pointer to the one that runs.  Each part keeps a struct of its own here, made when the
// rank begins.  The first rank of a process is there from the first MPI call on, before MPI_Init: handles of infos and error handlers
// work then.
#ifndef WHM_BASE_RANK_H
#define WHM_BASE_RANK_H

#include <mpi.h>
#include <stdio.h>
#include <wherry/rt.h>

#include "mpi/base/object.h"

enum { WHM_NAMED = 0x300, WHM_SENTENCE = 512, WHM_SPARES = 32 };

typedef enum whm_phase { WHM_BEFORE, WHM_RUNNING, WHM_FINALIZED } whm_phase;

// What a call waits for beside messages, and how to print it, in lines of a dump; false: there is nothing to say.
typedef struct whm_awaited whm_awaited;
struct whm_awaited {
    bool (*print)(const whm_awaited *awaited, FILE *file);
    whm_awaited *next, *prev;  // of the rank: each thread may wait
};

typedef struct whm_streams {
    FILE *in, *out, *err;
} whm_streams;

// What each call looks at comes first, up to the first byte of the sentence: with many ranks in a process, each cache line is one that the first
// cache lacks.
typedef struct whm_rank {
    whm_phase phase;   // of MPI_Init and of sessions together
    whm_phase init;    // of MPI_Init and MPI_Finalize
    bool kept;         // the last session has ended; MPI is until the program ends
    bool blocked;      // it waits, in whm_block
    bool aside;        // its streams are (streams.h), while another rank runs
    int holds;         // of MPI_Init and of sessions
    int world;         // its number in MPI_COMM_WORLD
    const char *call;  // the function that the program is in, for what is said of it; NULL: none
    struct whm_comm *
        blame;  // whose error handler is asked if the call fails (raise.h); NULL: its arguments tell
    struct whm_match *match;  // p2p: receives that are posted, messages that have come
    int64_t waits_since_ms;   // the call, of the clock CLOCK_MONOTONIC_COARSE; 0: it has not waited
    char sentence
        [WHM_SENTENCE];   // why the call under way failed; empty: nothing to say beside its class
    whm_awaited *awaits;  // NULL: nothing but messages
    wh_wait wait;         // a virtual rank's, while it is blocked
    whm_object *named[WHM_NAMED];  // what predefined handles name
    int64_t computed_ns;           // of a rank that moves: before it last began to run
    whm_streams streams;           // while they are aside
    char *line;                    // that it has begun to print, put aside; NULL: none
    size_t line_size;
    struct whm_heap *heap;     // its memory (base/memory.h); NULL: the process's, it does not move
    void *spares[WHM_SPARES];  // object.c's
    int objects[WHM_KINDS];    // that there are of each kind
    struct whm_comm *comm_world, *comm_self;
    struct whm_errhandler *file_errhandler;  // of MPI_FILE_NULL, which files begin with
    struct whm_contexts *contexts;           // which contexts are taken
    struct whm_comparison *behind;           // comm: comparisons that nobody waits for
    struct whm_types *types;                 // type: the predefined ones
    struct whm_type *all_types;              // and all others, in a list
    struct whm_downward *downwards;          // temporary memory of types that go downwards
    struct whm_wins *wins;                   // rma: by number
    struct whm_attrs *attrs;                 // keyvals
    struct whm_errors *errors;               // classes and codes of the program's own
    struct whm_datarep *datareps;            // io: registered representations
    struct whm_buffer *buffer;               // MPI_Buffer_attach
    struct whm_request *sent;  // the request of all sends that were done in their call
    int requests;              // made and not freed by the program: what MPI_Finalize tells of
} whm_rank;

// The rank that runs.  It is another one after whm_block, in which others may run, only until that returns.
extern whm_rank *whm_self;

// whm_awaits has a dump say what the calling thread waits for, until whm_awaits_no_more.
static inline void whm_awaits(whm_awaited *awaited) {
    awaited->prev = NULL;
    awaited->next = whm_self->awaits;
    if (awaited->next)
        awaited->next->prev = awaited;
    whm_self->awaits = awaited;
}

static inline void whm_awaits_no_more(whm_awaited *awaited) {
    if (awaited->prev)
        awaited->prev->next = awaited->next;
    else
        whm_self->awaits = awaited->next;
    if (awaited->next)
        awaited->next->prev = awaited->prev;
}

// whm_object_of returns the object of a handle, as the program gives it; NULL: it is none of this kind.
static inline void *whm_object_of(const void *handle, whm_kind kind) {
    uintptr_t number = (uintptr_t)handle;
    const whm_object *object = handle;
    if (number < 4096)
        object = number < WHM_NAMED ? whm_self->named[number] : NULL;
    else if (number % _Alignof(whm_object))
        object = NULL;
    return object && object->mark == (WHM_MARK | (uint32_t)kind) ? (void *)object : NULL;
}

// whm_fail says why the call under way fails, in a sentence, and is `code`: return whm_fail(MPI_ERR_RANK, "...", ...).  A macro, so that
// compilers and analyzers see that it is an error.
#define whm_fail(code, ...) (whm_say(__VA_ARGS__), (code))
__attribute__((format(printf, 1, 2))) void whm_say(const char *format, ...);

// What to do where ranks have called different collectives, for the end of a sentence (mpi/comm/compare.h).
#define WHM_CHECK_HINT "; with WHERRY_MPI_CHECK=1 in the environment both calls are named"

// whm_no_memory is whm_fail for want of memory.
static inline int whm_no_memory(void) {
    return whm_fail(MPI_ERR_NO_MEM, "there is no memory for it");
}

#endif
