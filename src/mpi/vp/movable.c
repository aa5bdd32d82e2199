// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/vp/movable.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <wherry/coll.h>

#include "mpi/base/memory.h"
#include "mpi/base/streams.h"
#include "mpi/env/begin.h"
#include "mpi/env/dump.h"
#include "mpi/p2p/p2p.h"

whm_movable whm_movable_here;

enum {
    PAGE = 4096,
    KEPT = 64 << 10,  // for what is kept of a rank
    APART = 37 * PAGE,
};
_Static_assert(sizeof(whm_mover) <= KEPT, "");
static const uintptr_t places_from =
    (uintptr_t)1
    << 44;  // far below what the system maps, far above what it loads at fixed addresses
static const size_t places_size = (size_t)1 << 46, place_most = (size_t)1 << 40;

void whm_need(wh_status st, const char *what) {
    whm_process_lost(st);
    if (st != WH_OK)
        whm_refuse_run("%s: %s", what, wh_status_text(st));
}

int64_t whm_processes_agree(int64_t mine, wh_reduce how) {
    int64_t all;
    whm_need(wh_coll_allreduce_wait(whm_movable_here.team, &mine, &all, 1,
                                    wh_type_basic(WH_TYPE_INT64), WH_REDUCTION(.op = how), -1),
             "the processes cannot meet");
    return all;
}

// ---- Places.

static size_t round_up(size_t size, size_t to) {
    return (size + to - 1) & ~(to - 1);
}

static void lay_out(whm_layout *l, const whm_elf *elf, int ranks) {
    size_t size = place_most;
    while (size > places_size / (size_t)ranks)
        size /= 2;
    // Not a power of two apart: the same pages of all ranks would share the few entries that the processor has for such addresses.
    *l = (whm_layout){.first = places_from,
                      .size = size - APART,
                      .image = KEPT,
                      .stack_size = round_up(whm_process_stack(), PAGE)};
    l->tls = l->image + round_up(elf->span, PAGE);
    l->stack = l->tls + round_up(elf->tls_size + elf->tls_align, PAGE) + PAGE;
    l->heap = l->stack + l->stack_size;
}

char *whm_place_take(int world, char *why, size_t size) {
    const whm_layout *l = &whm_movable_here.layout;
    char *at = (char *)(l->first + (size_t)world * l->size);
    char *got = mmap(at, l->size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == at && mprotect(at + l->stack - PAGE, PAGE, PROT_NONE) == 0)
        return at;
    snprintf(why, size, "there is no room at %p: %s", (void *)at,
             got == MAP_FAILED ? strerror(errno) : "the system is too old");
    return NULL;
}

void whm_place_give_up(int world) {
    const whm_layout *l = &whm_movable_here.layout;
    (void)munmap((char *)(l->first + (size_t)world * l->size), l->size);
}

static char *tls_of(char *place) {
    const whm_movable *m = &whm_movable_here;
    size_t align = m->elf.tls_align ? m->elf.tls_align : 1;
    return (char *)round_up((uintptr_t)place + m->layout.tls, align);
}

// ---- What a rank does at its end.

struct whm_exit_fn {
    void (*fn)(void *arg);
    void *arg;
    whm_exit_fn *next;
};

static whm_mover *self(void) {
    return (whm_mover *)whm_self;
}

static int at_exit(whm_exit_fn **list, void (*fn)(void *arg), void *arg) {
    whm_exit_fn *e = whm_malloc(sizeof(*e));
    if (!e)
        return -1;
    *e = (whm_exit_fn){fn, arg, *list};
    *list = e;
    return 0;
}

static int cxa_atexit(void (*fn)(void *arg), void *arg, void *object) {
    (void)object;
    return at_exit(&self()->exits, fn, arg);
}

static int cxa_thread_atexit(void (*fn)(void *arg), void *arg, void *object) {
    (void)object;
    return at_exit(&self()->thread_exits, fn, arg);
}

// Of on_exit: it is told the status.
typedef struct whm_told {
    void (*fn)(int status, void *arg);
    void *arg;
} whm_told;

static void tell(void *arg) {
    whm_told told = *(whm_told *)arg;
    free(arg);
    told.fn(self()->status, told.arg);
}

static int on_exit_here(void (*fn)(int status, void *arg), void *arg) {
    whm_told *told = whm_malloc(sizeof(*told));
    if (!told)
        return -1;
    *told = (whm_told){fn, arg};
    return at_exit(&self()->exits, tell, told);
}

// The rank's functions are called at its end, not when its image would be unloaded.
static void cxa_finalize(void *object) {
    (void)object;
}

static void call_all(whm_exit_fn **list) {
    whm_exit_fn *e;
    while ((e = *list)) {
        *list = e->next;
        e->fn(e->arg);
        free(e);
    }
}

__attribute__((noreturn)) static void leave(int status) {
    whm_mover *me = self();
    me->status = status;
    call_all(&me->thread_exits);
    call_all(&me->exits);
    whm_elf_finish(&whm_movable_here.elf, me->place + whm_movable_here.layout.image);
    whm_movable_here.joint->use_heap(NULL);
    me = self();
    me->ended = true;
    swapcontext(&me->context, &me->seat->base);
    abort();  // nobody comes back to it
}

static const whm_redirected redirected[] = {
    {"exit", (void (*)(void))leave},
    {"on_exit", (void (*)(void))on_exit_here},
    {"__cxa_atexit", (void (*)(void))cxa_atexit},
    {"__cxa_thread_atexit", (void (*)(void))cxa_thread_atexit},
    {"__cxa_thread_atexit_impl", (void (*)(void))cxa_thread_atexit},
    {"__cxa_finalize", (void (*)(void))cxa_finalize},
    {"__tls_get_addr", (void (*)(void))whm_tls_get_addr},
    {"fclose", (void (*)(void))whm_streams_fclose},
    {"freopen", (void (*)(void))whm_streams_freopen},
    {"freopen64", (void (*)(void))whm_streams_freopen},
    {NULL, NULL},
};

// ---- Seats.

static void run_rank(void) {
    const whm_movable *m = &whm_movable_here;
    whm_mover *me = self();
    char *image = me->place + m->layout.image;
    m->joint->use_heap(me->rank.heap);
    whm_elf_start(&m->elf, image, me->argc, me->argv, environ);
    leave(whm_elf_main(&m->elf, image)(me->argc, me->argv, environ));
}

static void sit(wh_pe *pe, void *arg) {
    whm_seat *seat = arg;
    while (!seat->left) {
        whm_mover *who = seat->who;
        whm_self = &who->rank;
        whm_handled_set(who->handled);
        whm_run_begins();
        swapcontext(&seat->base, &who->context);
        whm_run_ends(&who->rank);
        if (who->ended) {
            whm_rank_over(&who->rank, who->status);
            whm_movable_here.alive--;
            break;
        }
        seat->wait.done = false;
        whm_movable_here.asking++;
        if (wh_pe_wait(pe, &seat->wait) != WH_OK)
            whm_process_abort(1);
    }
    whm_movable_here.leaving -= seat->left;
    free(seat);
}

void whm_seat_take(whm_mover *who) {
    whm_seat *seat = calloc(1, sizeof(*seat));
    if (!seat)
        whm_refuse_run("there is no memory for rank %d", who->rank.world);
    seat->who = who;
    who->seat = seat;
    if (wh_pe_spawn(whm_process_here.pe, sit, seat) != WH_OK)
        whm_refuse_run("there is no memory for the thread of rank %d", who->rank.world);
}

double whm_load(const whm_mover *who) {
    return who->load_said ? who->load : 1e-9 * (double)who->rank.computed_ns;
}

// Not inline: a compiler takes the address of errno to stay the same, and the rank may go on in another process.
__attribute__((noinline)) static void set_errno(int error) {
    errno = error;
}

void whm_park(whm_mover *me) {
    int error = errno;
    me->handled = whm_handled_get();
    whm_streams_leave(&me->rank);
    swapcontext(&me->context, &me->seat->base);
    whm_streams_return(&me->rank);
    set_errno(error);
}

// ---- Begin.

char **whm_copy_arguments(int argc, char **argv) {
    char **copy = whm_calloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; copy && i < argc; i++)
        if (!(copy[i] = whm_strdup(argv[i])))
            return NULL;
    return copy;
}

static void make(int world, int argc, char **argv) {
    whm_movable *m = &whm_movable_here;
    const whm_layout *l = &m->layout;
    char why[512];
    char *place = whm_place_take(world, why, sizeof(why));
    if (!place || !whm_elf_map(&m->elf, place + l->image, why, sizeof(why)))
        whm_refuse_run("rank %d has no place: %s", world, why);
    whm_mover *who = (whm_mover *)place;
    who->place = place;
    who->argc = argc;
    who->rank.world = world;
    who->rank.heap = whm_heap_make(place + l->heap, l->size - l->heap);
    whm_self = &who->rank;
    whm_rank_early(&who->rank);
    who->argv = whm_copy_arguments(argc, argv);
    if (!who->argv || whm_match_begin(&who->rank) != MPI_SUCCESS)
        whm_refuse_run("there is no memory for rank %d", world);
    if (!whm_elf_link(&m->elf, place + l->image, tls_of(place), redirected, why, sizeof(why)))
        whm_refuse_run("the program cannot be loaded for rank %d: %s", world, why);
    whm_elf_frames(&m->elf, place + l->image, true);
    getcontext(&who->context);
    who->context.uc_stack.ss_sp = place + l->stack;
    who->context.uc_stack.ss_size = l->stack_size;
    who->context.uc_link = NULL;
    makecontext(&who->context, run_rank, 0);
    m->here[world] = who;
    whm_process_here.rank[world] = &who->rank;
    m->alive++;
}

// ---- What is one for the job, and for the process.

static void agree_on_canary(void) {
    uint64_t word = 0;
    (void)!getrandom(&word, sizeof(word), 0);
    whm_need(wh_coll_broadcast_wait(whm_movable_here.team, &word, 1, wh_type_basic(WH_TYPE_UINT64),
                                    0, -1),
             "the processes cannot meet");
    whm_movable_here.canary = word & ~UINT64_C(0xFF);  // its first byte ends strings
}

__attribute__((always_inline)) static inline void set_canary(uint64_t word) {
#if defined(__x86_64__)
    __asm__ volatile("movq %0, %%fs:0x28" : : "r"(word));
#else
    (void)word;
#endif
}

int whm_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e; folder && (e = readdir(folder));)
        n += e->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

// What the C library keeps of the standard streams must not be the memory of the rank that prints first.
static void keep_streams(void) {
    static char in[BUFSIZ];
    (void)setvbuf(stdin, in, _IOFBF, sizeof(in));
    time_t now = 0;
    (void)localtime(&now);  // nor what it keeps of the time zone
}

// The streams of C++ are made when the first image begins, and none begins where a job starts again.
static void begin_cxx_streams(void) {
    static char object;  // std::ios_base::Init, which has no members
    void *symbol = dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitC1Ev");
    void (*begin)(void *object);
    memcpy(&begin, &symbol, sizeof(begin));
    if (symbol)
        begin(&object);
}

whm_joint_t *whm_joint_find(void) {
    whm_joint_t *joint = dlsym(RTLD_DEFAULT, WHM_JOINT);
    return joint && joint->version == WHM_JOINT_VERSION ? joint : NULL;
}

// can_move finds out whether this program, here, can be moved at all, and makes it ready.
static void can_move(void) {
    whm_movable *m = &whm_movable_here;
    char why[512];
    m->joint = whm_joint_find();
    if (!m->joint)
        whm_refuse_run("the program cannot be moved: link it with mpicc -movable");
    if (whm_process_here.stays)
        whm_refuse_run("a job whose ranks move ends when one of its processes does: start it "
                       "without -disable-auto-cleanup");
    if (!whm_elf_open(&m->elf, why, sizeof(why)))
        whm_refuse_run("the program cannot be moved: %s", why);
    if (!whm_image_begin_libraries(why, sizeof(why)))
        whm_refuse_run("the program's libraries cannot begin: %s", why);
}

void *whm_for_ranks(size_t size) {
    void *got = calloc((size_t)whm_process_here.ranks, size);
    if (!got)
        whm_refuse_run("there is no memory for %d ranks", whm_process_here.ranks);
    return got;
}

// spread has ranks live in places from now on.
static void spread(void) {
    whm_movable *m = &whm_movable_here;
    whm_process *p = &whm_process_here;
    m->here = whm_for_ranks(sizeof(whm_mover *));
    m->joint->begin = m->layout.first;
    m->joint->size = m->layout.size * (size_t)p->ranks;
    m->joint->alloc = (void *(*)(void *, size_t, size_t, bool))whm_heap_alloc;
    m->joint->resize = whm_heap_resize;
    m->joint->free = whm_heap_free;
    m->joint->room = whm_heap_size;
    m->joint->share = (void (*)(void *))whm_heap_share;
    whm_calls_fill(m->joint, true);
    whm_process_spread(whm_for_ranks(sizeof(int)), whm_for_ranks(sizeof(whm_rank *)));
    p->use_heap = (void (*)(whm_heap *))m->joint->use_heap;
    whm_process_level(MPI_THREAD_FUNNELED);
    whm_find_handled();
    m->threads = whm_threads();
    keep_streams();
    begin_cxx_streams();
}

WHM_NO_CANARY void whm_movable_run(const char *restart, int argc, char **argv) {
    whm_movable *m = &whm_movable_here;
    whm_process *p = &whm_process_here;
    int first = p->first, local = p->local;
    m->nobody = whm_self;
    can_move();
    lay_out(&m->layout, &m->elf, p->ranks);
    whm_need(wh_pe_team(p->pe, &m->team), "the processes cannot meet");
    whm_compare_processes();
    agree_on_canary();
    if (restart)
        whm_restart(restart);
    set_canary(m->canary);
    spread();
    if (restart)
        whm_restore(restart, first, local);
    for (int i = 0; i < local && !restart; i++)
        make(first + i, argc, argv);
    whm_dump_begin();
    whm_need(wh_coll_barrier_wait(m->team, -1), "the processes cannot meet");
    for (int i = 0; i < local; i++)  // they begin to run, and send to ranks elsewhere
        whm_seat_take(m->here[first + i]);
    do {
        while (m->asking < m->alive || m->leaving) {
            p->runs_since_ns = 0;
            if (!wh_pe_step(p->pe))
                whm_process_abort(1);
        }
    } while (whm_round());
    wh_team_free(m->team);
}
