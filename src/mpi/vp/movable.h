// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that move: each has all that is its own at addresses that no other rank of the job uses in any process, so that its bytes can be copied to
// another process, and it goes on there.
//
// That needs libraries at the same addresses in all processes: they run without address randomization, and compare.  The program's malloc must be ours
// (src/mpi/mpix).  A rank's stack, heap, image and thread-local variables lie in its *place*, behind what is kept of it.
#ifndef WHM_VP_MOVABLE_H
#define WHM_VP_MOVABLE_H

#include <ucontext.h>
#include <wherry/coll.h>

#include "mpi/base/heap.h"
#include "mpi/base/process.h"
#include "mpi/mpix/joint.h"
#include "mpi/vp/elf.h"

// Functions may check on return that a word of the thread, the canary, is what it was when they were called.  It becomes the same in all processes of
// a job whose ranks move; who has called whm_movable_run must not look then.
#if defined(__has_attribute)
#if __has_attribute(no_stack_protector)
#define WHM_NO_CANARY __attribute__((no_stack_protector))
#endif
#endif
#ifndef WHM_NO_CANARY
#define WHM_NO_CANARY
#endif

typedef struct whm_seat whm_seat;
typedef struct whm_exit_fn whm_exit_fn;

// What a rank asks for in a round.
typedef enum whm_wish {
    WHM_WISH_STAY,
    WHM_WISH_GO,
    WHM_WISH_BALANCE,
    WHM_WISH_SAVE,
} whm_wish;

typedef struct whm_mover {  // at the begin of the rank's place; moves with it
    whm_rank rank;
    char *place;
    int argc;
    char **argv;
    whm_exit_fn *exits, *thread_exits;  // to be called at its end, the last one first
    ucontext_t context;                 // where it goes on
    whm_handled handled;
    whm_seat *seat;  // in the process that it is in; NULL: it has just come
    bool ended;
    int status;
    // Of the round under way.
    whm_wish wish;
    int process;                // where it wants to be
    int error;                  // it has not become so
    char folder[WHM_SENTENCE];  // where it wants to be saved
    bool restarted;             // it comes from there
    double
        load;  // that it has said, if it has; else it is what it has computed since the last balancing
    bool load_said;
} whm_mover;

struct whm_seat {  // a user-level thread that a rank sits in; of the process
    whm_mover *who;
    ucontext_t base;  // its own stack, where it waits while the rank is parked
    wh_wait wait;
    bool left;  // the rank has
};

// Where things are in a place; the same for all ranks of a job.
typedef struct whm_layout {
    uintptr_t first;  // place of rank 0
    size_t size;      // of a place
    size_t image, tls, stack, stack_size, heap;
} whm_layout;

typedef struct whm_movable {
    whm_elf elf;
    whm_layout layout;
    whm_joint_t *joint;
    wh_team *team;     // of the processes
    whm_mover **here;  // by rank; NULL: it is in another process
    int alive;         // ranks here that have not ended
    int asking;        // of these: parked, in a round
    int leaving;       // seats whose ranks have left, and which are not given up yet
    int threads;       // of this process, at the begin
    uint64_t canary,
        fingerprint;  // of the job: the word that functions check, and what processes have compared
    whm_rank *nobody;  // runs while no rank does
} whm_movable;
extern whm_movable whm_movable_here;

// whm_movable_run makes the ranks of this process, or, if `restart` is not NULL, those of the checkpoint in that folder, and runs them to their end.
void whm_movable_run(const char *restart, int argc, char **argv);

// whm_place_take reserves a rank's place; false: something else is there.
char *whm_place_take(int world, char *why, size_t size);
void whm_place_give_up(int world);

// whm_seat_take gives a rank of this process, in which it has just come to be, a thread.
void whm_seat_take(whm_mover *who);

// whm_load returns a rank's load, in seconds unless it has said another one.
double whm_load(const whm_mover *who);

// whm_park has the running rank wait until a round lets it go on, perhaps in another process.
void whm_park(whm_mover *me);

// whm_round carries out what the ranks, all of them parked or ended, have asked for.  false: all of the job have ended.
bool whm_round(void);

// whm_pack_rank gives all bytes of a rank, which is parked, and of which nothing is under way, to `put` in order; the layouts of its types are left as
// bytes.  whm_unpack_rank makes a rank of what `get` gives, with no seat yet.  false: one of these functions has said so, or what it gave is no rank.
typedef bool whm_carry_fn(void *arg, void *data, size_t size);
bool whm_pack_rank(whm_mover *who, whm_carry_fn *put, void *arg);
bool whm_unpack_rank(int world, whm_carry_fn *get, void *arg);

// whm_ship sends a rank to another process and whm_unship receives it there.
void whm_ship(int world, wh_endpoint *to);
void whm_unship(int world);

// whm_save writes all ranks of the job, which are at rest, into a folder; false: that has failed in one of the processes, and in those that it has
// the log has said why.  whm_restart finds out what a folder has, before there are ranks, and whm_restore makes those of this process, from `first`
// on.
bool whm_save(const char *folder);
void whm_restart(const char *folder);
void whm_restore(const char *folder, int first, int count);

// whm_compare_processes ends the job unless all processes of it are alike.
void whm_compare_processes(void);

// whm_threads counts the threads of this process.
int whm_threads(void);

// whm_joint_find returns where the program's libwherry_mpix.so meets this library; NULL: it has none, or one of another version.
whm_joint_t *whm_joint_find(void);

// whm_calls_fill has the functions of wherry_mpix.h come here; where ranks do not move, only that which tells their process.
void whm_calls_fill(whm_joint_t *joint, bool moves);

// whm_need ends the job unless a call was WH_OK; `what` is what it was for.
void whm_need(wh_status status, const char *what);

// whm_rank_over notes that a rank's program has ended with this status, and ends the job if others would wait for it.
void whm_rank_over(whm_rank *rank, int how);

// whm_processes_agree combines a number of each process: the same answer in all.
int64_t whm_processes_agree(int64_t mine, wh_reduce how);

// whm_for_ranks returns zeroed memory for `size` bytes of each rank of the job.
void *whm_for_ranks(size_t size);

// whm_copy_arguments copies a program's arguments for the rank that runs; NULL: no memory.
char **whm_copy_arguments(int argc, char **argv);

// whm_find_handled looks for the C++ runtime, of whose state each rank has its own.
void whm_find_handled(void);

// whm_refuse_run says why the job cannot be run so, and ends it.
__attribute__((noreturn, format(printf, 1, 2))) void whm_refuse_run(const char *format, ...);

#endif
