// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual ranks: several ranks in one process, each a user-level thread that runs a copy of the program.
//
// `mpiexec --vp` says in the environment how many the job has.  The program's main function is not called then: this library's constructor, which
// runs before it, joins the job, loads a copy for each rank, runs their main functions, and ends the process when all have
// returned.
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>
#include <wherry/coll.h>

#include "mpi/base/process.h"
#include "mpi/base/streams.h"
#include "mpi/env/begin.h"
#include "mpi/p2p/p2p.h"
#include "mpi/vp/debug.h"
#include "mpi/vp/image.h"
#include "mpi/vp/movable.h"

typedef struct vrank {
    whm_rank rank;
    whm_main_fn *main_fn;
    char **argv;  // its own: programs write into it
    int argc;
} vrank;

static int left;    // ranks of this process that have not ended
static int status;  // of the first that has ended with one

void whm_refuse_run(const char *format, ...) {
    va_list args;
    whm_process_give_way();  // to what the launcher says of a process that is gone
    va_start(args, format);
    fputs("mpiexec --vp: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    whm_process_abort(1);
}

// ---- A rank.

// The others would wait for a rank that has not come, or has not left.
void whm_rank_over(whm_rank *rank, int how) {
    whm_streams_end(rank);
    if (rank->phase == WHM_RUNNING || (rank->phase == WHM_BEFORE && how)) {
        fprintf(stderr, "MPI rank %d: the program has ended with status %d %s: the job ends\n",
                rank->world, how,
                rank->phase == WHM_RUNNING ? "without MPI_Finalize" : "before MPI_Init");
        whm_streams_flush();
        whm_process_abort(how);
    }
    if (how && !status)
        status = how;
}

static void ended(int how) {
    whm_rank_over(whm_self, how);
    left--;
}

__attribute__((noreturn)) static void leave(int how) {
    ended(how);
    for (;;)  // its thread does not come back
        whm_block();
}

static void run(wh_pe *pe, void *arg) {
    (void)pe;
    vrank *v = arg;
    whm_self = &v->rank;
    whm_handled_set((whm_handled){NULL, 0});
    ended(v->main_fn(v->argc, v->argv, environ));
}

static vrank *make(int number, bool last, int argc, char **argv) {
    static const whm_redirected redirected[] = {
        {"exit", (void (*)(void))leave},
        {"fclose", (void (*)(void))whm_streams_fclose},
        {"freopen", (void (*)(void))whm_streams_freopen},
        {"freopen64", (void (*)(void))whm_streams_freopen},
        {NULL, NULL},
    };
    char why[512];
    vrank *v = calloc(1, sizeof(*v));
    if (!v || !(v->argv = whm_copy_arguments(argc, argv)))
        whm_refuse_run("there is no memory for rank %d", number);
    v->argc = argc;
    v->rank.world = number;
    whm_self = &v->rank;
    whm_rank_early(&v->rank);
    if (whm_match_begin(&v->rank) != MPI_SUCCESS)
        whm_refuse_run("there is no memory for rank %d", number);
    v->main_fn = whm_image_load(redirected, last, why, sizeof(why));
    if (!v->main_fn)
        whm_refuse_run("%s", why);
    return v;
}

// ---- The process.

void whm_find_handled(void) {
    void *symbol = dlsym(RTLD_DEFAULT, "__cxa_get_globals");
    void **(*of_thread)(void);
    memcpy(&of_thread, &symbol, sizeof(of_thread));
    whm_process_here.handled = symbol ? of_thread() : NULL;
}

static int ranks_of(const char *text) {
    char *end;
    long ranks = strtol(text, &end, 10);
    if (*end || ranks < 1 || ranks > 1 << 20)
        whm_refuse_run("'%s' is no number of ranks", text);
    return (int)ranks;
}

// The first look at the size of stacks: elsewhere what is no number is the default.
static void check_stack(void) {
    enum { LEAST = 16 };
    const char *text = getenv("WHERRY_MPI_STACK");
    char *end;
    if (text && (*text == '-' || strtoull(text, &end, 10) < LEAST || *end))
        whm_refuse_run("WHERRY_MPI_STACK is the size of a rank's stack in KiB, %d at least, not "
                       "'%s'",
                       LEAST, text);
}

// join: process 0 ends the job when the ranks of all processes have ended, and when nobody waits for another process any more.
static void join(void) {
    whm_process *p = &whm_process_here;
    const wh_type *byte = wh_type_basic(WH_TYPE_UINT8);
    uint8_t here = 1, *all = calloc((size_t)p->processes, 1);
    wh_team *team = NULL;
    wh_status st = all ? WH_OK : WH_ENOMEM;
    whm_streams_flush();
    if (st == WH_OK && whm_process_flush() != MPI_SUCCESS)
        st = WH_EPEER;
    if (st == WH_OK && !p->losses)
        st = wh_pe_team(p->pe, &team);
    if (team)
        st = wh_coll_gather_wait(team, &here, 1, byte, all, 1, byte, 0, -1);
    if (p->losses)
        st = WH_OK;
    if (team)
        wh_team_free(team);
    free(all);
    if (st != WH_OK || whm_process_end() != MPI_SUCCESS)
        whm_refuse_run("the job cannot be left: %s",
                       st == WH_OK ? whm_self->sentence : wh_status_text(st));
}

WHM_NO_CANARY static int run_all(int ranks, bool moves, const char *restart, int argc,
                                 char **argv) {
    whm_process *p = &whm_process_here;
    p->virtual = true;
    whm_streams_begin();
    whm_process_level(MPI_THREAD_FUNNELED);
    if (whm_process_join(ranks) != MPI_SUCCESS || whm_p2p_begin() != MPI_SUCCESS)
        whm_refuse_run("%s", whm_self->sentence);
    if (moves) {
        whm_debug_program();
        whm_movable_run(restart, argc, argv);
        join();
        return status;
    }
    whm_joint_t *joint = whm_joint_find();
    if (joint)
        whm_calls_fill(joint, false);
    vrank **all = calloc((size_t)p->local, sizeof(vrank *));
    p->rank = calloc((size_t)p->local, sizeof(whm_rank *));
    if (!all || !p->rank)
        whm_refuse_run("there is no memory for %d ranks", p->local);
    for (int i = 0; i < p->local; i++) {
        all[i] = make(p->first + i, i == p->local - 1, argc, argv);
        p->rank[i] = &all[i]->rank;
    }
    whm_find_handled();
    left = p->local;
    for (int i = 0; i < p->local; i++)
        if (wh_pe_spawn(p->pe, run, all[i]) != WH_OK)
            whm_refuse_run("there is no memory for the stack of rank %d: make it smaller "
                           "(WHERRY_MPI_STACK, in KiB)",
                           p->first + i);
    while (left)
        if (!wh_pe_step(p->pe))
            whm_process_abort(1);
    join();
    return status;
}

// Ranks that move need libraries at the same addresses in all processes: the program starts again without address randomization.
static void start_again(char **argv) {
    char path[4096];
    int now = personality(0xFFFFFFFF);
    if (now != -1 && now & ADDR_NO_RANDOMIZE)
        return;
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length > 0 && now != -1 && personality((unsigned long)now | ADDR_NO_RANDOMIZE) != -1) {
        path[length] = 0;
        execv(path, argv);
    }
    whm_refuse_run("ranks cannot move here: the system does not let a program run without address "
                   "randomization (%s); in a container allow it the system call personality",
                   strerror(errno));
}

// An interpreter of Python is no program of mpicc, and who starts it has not compiled it.
static void refuse_python(void) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!strncmp(name, "python", 6) || !strncmp(name, "pypy", 4))
        whm_refuse_run("Python has one rank in each process: start it with mpiexec -n N, N the "
                       "number of ranks, and without --vp");
}

WHM_NO_CANARY __attribute__((constructor)) static void begin(int argc, char **argv) {
    const char *ranks = getenv("WHERRY_MPI_VP");
    if (!ranks) {
        whm_debug_program();
        return;
    }
    bool moves = getenv("WHERRY_MPI_MOVABLE") != NULL;
    int n = ranks_of(ranks);
    check_stack();
    refuse_python();
    if (moves)
        start_again(argv);
    unsetenv("WHERRY_MPI_VP");  // what the program starts is no part of this
    unsetenv("WHERRY_MPI_MOVABLE");
    const char *restart = getenv("WHERRY_MPI_RESTART");
    exit(run_all(n, moves, restart, argc, argv));
}
