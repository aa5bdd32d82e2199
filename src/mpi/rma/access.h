// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks tell each other about windows: the heads of their active messages.
//
// An access names the window by its number at the target, and a place in it; the target checks all of it before it touches memory.
// Bytes of the data are the elements in packed form.  What waits for an answer has a number at its origin.
#ifndef WHM_RMA_ACCESS_H
#define WHM_RMA_ACCESS_H

#include <stdint.h>

#include "mpi/p2p/request.h"
#include "mpi/rma/win.h"

typedef enum whm_access_kind {
    WHM_PUT,
    WHM_ACCUMULATE,
    WHM_GET,
    WHM_GET_ACCUMULATE,
    WHM_COMPARE,  // data: the new value, and the one that is expected
    WHM_DATA_KINDS,
    WHM_FLUSH = WHM_DATA_KINDS,  // answer when `seen` of this origin's accesses have taken effect
    WHM_LOCK,                    // answer when the lock is had
    WHM_UNLOCK,                  // as WHM_FLUSH, and give the lock up
    WHM_POST,                    // the target of accesses has begun its exposure
    WHM_COMPLETE,                // their origin has ended its epoch
    WHM_BARRIER,                 // this origin has come to round `id`
    WHM_ACCESS_KINDS
} whm_access_kind;

typedef struct whm_access {
    uint8_t kind;  // whm_access_kind
    uint8_t op;    // wh_reduce
    uint8_t exclusive;
    uint8_t behind;  // the flattened type stands before the data, not behind the head
    uint32_t win;    // number of the window at the target
    int32_t target;  // in MPI_COMM_WORLD
    int32_t origin;  // in the window
    uint32_t named;  // handle of the named type of all elements; 0: of several
    uint32_t flat;   // bytes of the flattened type; 0: it is the named one
    uint64_t id;     // of what waits for an answer at the origin
    uint64_t seen;
    int64_t disp, count;
} whm_access;
_Static_assert(sizeof(whm_access) == 56, "it travels as it is");

typedef struct whm_answer {
    int32_t origin;  // in MPI_COMM_WORLD: who gets it
    int32_t error;   // MPI error class
    uint64_t id;
} whm_answer;
_Static_assert(sizeof(whm_answer) == 16, "it travels as it is");

// ---- At the origin (origin.c).

// Something under way that the target answers, or whose buffer is in use until the engine says so.
typedef struct whm_under_way {
    whm_win *win;
    whm_peer *peer;
    struct whm_access_request *request;  // of MPI_Rput and the like; NULL: none
    void *buf;                           // where the answer's data go
    MPI_Count count;
    whm_type *type;  // held; NULL: no data
    void *staged;    // a copy of what is sent, freed at the end
    uint64_t id;     // 0: it has none, as nothing answers
    int waits;       // for the engine, for the answer
    bool kept;       // who began it looks at it when it is done, and frees it
    bool done;
    int error;
    wh_status trouble;  // as a peer's
} whm_under_way;

typedef struct whm_access_request {
    whm_request request;
    int rank;           // the target, in the window
    wh_status trouble;  // as a peer's
} whm_access_request;

enum { WHM_WAITS_SENT = 1, WHM_WAITS_ANSWER = 2 };

// whm_under_way_new begins one; NULL: no memory.  whm_under_way_forget ends one of which nothing has been sent, or that was `kept`.
whm_under_way *whm_under_way_new(whm_win *win, whm_peer *peer, bool answered);
void whm_under_way_forget(whm_under_way *op);

// whm_under_way_ended notes that one of those that it waited for has come; with the last it is done, and freed unless it is kept.
// whm_under_way_told does so with what the engine has answered.
void whm_under_way_ended(whm_under_way *op, int waited, int error);
void whm_under_way_told(whm_under_way *op, int waited, wh_status status);

// whm_access_fail is whm_fail for an access to a rank that has ended with this error, if it is one.
int whm_access_fail(int rank, int error, wh_status trouble);

// whm_not_sent is whm_fail for what the engine has answered to a message for a rank.
int whm_not_sent(const whm_win *win, const whm_peer *peer, wh_status status);

// whm_under_way_lost ends the wait for answers of ranks that are gone, whm_wins_lost all that is to be ended then.
void whm_under_way_lost(void);
void whm_wins_lost(void);

// whm_ask sends a message without data and waits for its answer; an MPI error class.
int whm_ask(whm_win *win, whm_peer *peer, whm_access *head);

// whm_tell sends one that nobody answers.
int whm_tell(whm_win *win, whm_peer *peer, whm_access *head);

// whm_answered takes an answer in; `data` is its payload in packed form.
void whm_answered(const whm_answer *answer, const void *data, size_t size);

// ---- At the target (target.c, control.c).

// whm_serve carries out a control message (of a kind that is not WHM_DATA_KINDS) that is for a window of this process.
void whm_serve(whm_win *win, const whm_access *head);

// whm_answer_to sends the answer to what an origin has asked.
void whm_answer_to(whm_win *win, int origin, uint64_t id, int error);

// whm_took_effect counts an access of an origin that has been carried out, or has failed with `error`.
void whm_took_effect(whm_win *win, int origin, int error);

// whm_check_range says whether an access lies within `size` bytes, in units of `unit`: MPI_SUCCESS or MPI_ERR_RMA_RANGE.
int whm_check_range(MPI_Aint size, MPI_Aint unit, MPI_Aint disp, MPI_Count count,
                    const whm_type *type);

// whm_locate finds the bytes that an access touches in this rank's part of the window: MPI_ERR_RMA_RANGE if not all lie within.
int whm_locate(const whm_win *win, MPI_Aint disp, MPI_Count count, const whm_type *type, void **at);

// whm_apply combines packed elements with those at `at`, and writes those from before to `old` (packed) unless it is NULL.
int whm_apply(whm_access_kind kind, wh_reduce op, const void *data, void *at, MPI_Count count,
              whm_type *type, void *old);

wh_status whm_on_access(wh_am *am, void *arg);
wh_status whm_on_answer(wh_am *am, void *arg);

#endif
