// SPDX-License-Identifier: BSD-3-Clause
//
// Who waits looks for a while, lets others run meanwhile, and then sleeps as for a message: it notes whom it waits for, and who publishes something
// wakes by a message those that wait for it.  So messages go on while a rank waits, and a lost process ends the wait as everywhere.  In the launcher's memory,
// where ranks need not be connected, the waiting rank sleeps a little at a time until who is to wake it says that it is.
#include "mpi/coll/shared.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi/base/ids.h"
#include "mpi/base/process.h"
#include "mpi/base/wait.h"
#include "mpi/coll/shared_memory.h"
#include "mpi/p2p/p2p.h"

enum {
    LOOK_BYTES = 16 << 10,  // take less time than a look, by far
    LOOKS_MOST = 1000,
    TURN = 1 << 20,  // bytes that are read before messages have their turn
    ROUND_BITS = 24,
    LOOKS_OF_A_COUNT = 16,  // at a line, before one at the counters of its rank
    NAP_NS = 50000,  // the first, which is about what the kernel makes of less, and the longest
    NAP_MOST_NS = 1000000,
    NAPS_OF_A_LOOK = 8,
    NAPS_BEFORE = 32,  // ranks connect: the first calls of a job need fewer
    NAPS = 64,         // who naps until another rank has come, added to its number
};

// As a call of a kind that there is not.
static void leave(whm_comm *comm) {
    whm_shared *shared = comm->coll || whm_shared_is_offered(comm) ? whm_shared_of(comm) : NULL;
    if (!shared)
        return;
    whm_shared_begin(shared, &(whm_coll){.kind = WHM_COLL_KINDS, .comm = comm}, 0, 0);
    (void)whm_shared_end(shared);
}

__attribute__((constructor)) static void begin(void) {
    whm_comm_ops.leave = leave;
}

size_t whm_shared_room(const whm_shared *shared) {
    return shared->ring ? shared->ring->size : WHM_SHARED_LINE;
}

bool whm_shared_crowded(const whm_shared *shared) {
    return shared->crowded;
}

int whm_shared_processors(const whm_shared *shared) {
    return shared->processors;
}

static uint64_t stamp(const whm_shared *shared) {
    return shared->call << ROUND_BITS | (shared->round + 1);
}

// Which one of `count` is this round's.
static size_t which(const whm_shared *shared, size_t count) {
    return (size_t)(shared->call + shared->round) & (count - 1);
}

static whm_shared_heading *head_of(const whm_shared *shared, int rank) {
    return &shared->heads[which(shared, WHM_SHARED_HEADS) * (size_t)shared->ranks + (size_t)rank];
}

static char *data_of(const whm_shared *shared, int rank) {
    const whm_shared_ring *r = shared->ring;
    return !r ? head_of(shared, rank)->data
              : r->slots + ((size_t)rank * r->count + which(shared, r->count)) * r->size;
}

// ---- Waiting and waking.

typedef struct awaited {
    whm_awaited o;
    whm_shared *shared;
    int rank;
    _Atomic uint64_t *counter;
    uint64_t least;
    const whm_shared_heading
        *head;  // NULL, or where it is of that stamp, whatever the counter says
} awaited;

static bool has_stamp(const whm_shared_heading *head, uint64_t stamp) {
    return atomic_load_explicit(&head->call.stamp, memory_order_acquire) == stamp;
}

static bool there(const awaited *a) {
    return (a->head && has_stamp(a->head, a->least)) ||
           atomic_load_explicit(a->counter, memory_order_acquire) >= a->least;
}

// A look at the counters takes their line from the rank that writes them in each call, and only who has made another call is found by them.
static bool seems_there(const void *arg) {
    const awaited *a = arg;
    if (!a->head || a->shared->looks++ % LOOKS_OF_A_COUNT == 0)
        return there(a);
    return has_stamp(a->head, a->least);
}

// is_absent says whether a rank has yet to read what this one has written before, or has not come to this call.  Only the root publishes a bcast.
static bool is_absent(const awaited *a, int rank) {
    const whm_shared *shared = a->shared;
    whm_shared_progress *p = &shared->progress[rank];
    if (rank == shared->rank)
        return false;
    if (a->counter == &shared->progress[a->rank].out)
        return atomic_load(&p->out) < a->least;
    if (shared->mine.kind == WHM_BCAST && rank != a->rank)
        return false;
    return atomic_load(&p->in) <= shared->call << ROUND_BITS;
}

// stray returns a rank that has not come to this call, but has sent a message of what it calls instead; -1: nobody.
static int stray(const awaited *a) {
    const whm_shared *shared = a->shared;
    whm_comm *comm = shared->comm;
    int tag = (int)(comm->collectives % WHM_TAG_CREATE);
    bool says = a->counter == &shared->readers[a->rank].said;  // who has, may go on by messages
    for (int i = 0; i < shared->ranks && !says; i++)
        if (i != comm->rank &&
            whm_match_find(whm_self->match, whm_context_of(comm, WHM_COLL), i, tag) &&
            is_absent(a, i))
            return i;
    return -1;
}

static bool print_awaited(const whm_awaited *o, FILE *file) {
    const awaited *a = (const awaited *)o;
    int absent = 0;
    fprintf(file, "    a collective in shared memory, on %s:", whm_comm_title(a->shared->comm));
    for (int i = 0; i < a->shared->ranks; i++)
        if (is_absent(a, i))
            fprintf(file, "%s %d", absent++ ? "," : " without rank",
                    whm_comm_known_rank(a->shared->comm, i));
    fputs(absent ? "\n" : " all ranks have come\n", file);
    return true;
}

// Whether a rank is gone.  What others had to say is not awaited any more then: they may have noticed it before.
static bool is_hopeless(whm_shared *shared) {
    if (!whm_comm_bereft(shared->comm))
        return false;
    shared->broken = true;
    atomic_store(&shared->progress[shared->rank].broken, 1);
    return true;
}

static void wake(const whm_shared *shared, int rank) {
    int32_t world = whm_group_world(shared->group, rank);
    whm_rank *here = whm_rank_at(world);
    if (here) {
        whm_wake(here);
        return;
    }
    wh_endpoint *ep = NULL;
    if (whm_endpoint(world, &ep) != MPI_SUCCESS)
        return;
    wh_status st = whm_notify(ep, WHM_AM_NEWS, &world, sizeof(world));
    whm_process_lost(st);  // nobody is left to be woken
}

// Begins to connect, goes on with it, and says so when it is done.
static void reach(const whm_shared *shared, int rank) {
    int32_t world = whm_group_world(shared->group, rank);
    wh_endpoint *ep;
    whm_progress();
    if (whm_endpoint(world, &ep) == MPI_SUCCESS && whm_connected(world))
        atomic_fetch_or(&shared->progress[shared->rank].reaches, UINT32_C(1) << rank);
}

static void wake_all(whm_shared *shared) {
    shared->wakes_later = false;
    uint32_t me = (uint32_t)shared->rank + 1;
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < shared->ranks; i++) {
        uint32_t expected = me;
        uint32_t whom = atomic_load_explicit(&shared->waits_for[i], memory_order_relaxed);
        if (__builtin_expect(whom == me + NAPS, 0))
            reach(shared, i);
        if (whom == me && atomic_compare_exchange_strong(&shared->waits_for[i], &expected, 0))
            wake(shared, i);
    }
}

// Where each rank has a processor of its own, who waits for large data does not sleep while they may be on their way: to be woken costs as much as they do.
static bool look(const whm_shared *shared, const awaited *a) {
    int64_t looks = shared->crowded ? 0 : shared->mine.bytes * shared->ranks / LOOK_BYTES;
    bool is = whm_look(seems_there, a);
    for (int64_t i = 0; i < looks && i < LOOKS_MOST && !is; i++)
        is = whm_look(seems_there, a);
    return is;
}

// Who is not connected to a rank that it should wake would wait for the connection, for which that one may have left the library too early.
static bool may_wake(const whm_shared *shared, int rank) {
    return !shared->offered || atomic_load(&shared->progress[rank].reaches) >> shared->rank & 1;
}

// Who has waited for long, all together, asks for the connection.
static void nap(const awaited *a) {
    whm_shared *shared = a->shared;
    long ns = NAP_NS;
    whm_wait_note();
    if (shared->naps > NAPS_BEFORE)
        atomic_store(&shared->waits_for[shared->rank], (uint32_t)a->rank + 1 + NAPS);
    for (int i = 0; i < NAPS_OF_A_LOOK && !there(a); i++, shared->naps++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
        ns = 2 * ns < NAP_MOST_NS ? 2 * ns : NAP_MOST_NS;
        whm_progress();
    }
    atomic_store(&shared->waits_for[shared->rank], 0);
}

static bool wait_for(awaited *a) {
    whm_shared *shared = a->shared;
    while (!look(shared, a)) {
        if (is_hopeless(shared))
            return false;
        int other = stray(a);
        if (__builtin_expect(other >= 0, 0)) {
            shared->stranger = other;
            shared->theirs.stamp = 0;
            return false;
        }
        if (!may_wake(shared, a->rank)) {
            nap(a);
            continue;
        }
        atomic_store(&shared->waits_for[shared->rank], (uint32_t)a->rank + 1);
        atomic_thread_fence(memory_order_seq_cst);
        if (!there(a))
            whm_block();
        atomic_store(&shared->waits_for[shared->rank], 0);
    }
    return true;
}

// await returns false if it is not there and will not be.
static bool await(whm_shared *shared, int rank, _Atomic uint64_t *counter, uint64_t least,
                  const whm_shared_heading *head) {
    awaited a = {{.print = print_awaited}, shared, rank, counter, least, head};
    if (there(&a))
        return true;
    if (shared->wakes_later)
        wake_all(shared);
    whm_awaits(&a.o);
    bool is = wait_for(&a);
    whm_awaits_no_more(&a.o);
    return is;
}

// ---- A call.

static bool is_plain(const whm_blocks *blocks) {
    return !blocks->buf || whm_plain(blocks->buf);
}

void whm_shared_begin(whm_shared *shared, const whm_coll *coll, MPI_Count bytes,
                      MPI_Count written) {
    shared->ring = written <= WHM_SHARED_LINE    ? NULL
                   : written <= WHM_SHARED_BRIEF ? &shared->brief
                                                 : &shared->large;
    shared->round = 0;
    shared->error = MPI_SUCCESS;
    shared->broken = false;
    shared->stranger = -1;
    shared->plain = is_plain(&coll->send) && is_plain(&coll->recv);
    shared->mine = (whm_shared_call){.bytes = bytes,
                                     .kind = coll->kind,
                                     .root = coll->root,
                                     .op = coll->op ? (uintptr_t)coll->op->o.handle : 0};
}

bool whm_shared_plain(const whm_shared *shared) {
    return shared->plain;
}

char *whm_shared_ahead(whm_shared *shared) {
    shared->round++;
    char *room = whm_shared_write(shared);
    shared->round--;
    return room;
}

// Waits until all others have read what has `stamp`.
static void await_readers(whm_shared *shared, uint64_t stamp) {
    uint64_t all = UINT64_MAX;
    for (int i = 0; i < shared->ranks; i++)
        if (i != shared->rank) {
            _Atomic uint64_t *out = &shared->progress[i].out;
            (void)await(shared, i, out, stamp, NULL);
            uint64_t read = atomic_load_explicit(out, memory_order_relaxed);
            all = read < all ? read : all;
        }
    shared->all_read = all;
}

static char *nowhere(whm_shared *shared) {
    if (!shared->nowhere && !(shared->nowhere = malloc(shared->large.size)))
        whm_process_no_memory();
    return shared->nowhere;
}

// Who is as far ahead as there are heads waits until half of them are read: one at a time, each would cost a sleep.
char *whm_shared_write(whm_shared *shared) {
    size_t place = which(shared, WHM_SHARED_HEADS);
    uint64_t before = shared->published[place];
    if (before > shared->all_read) {
        uint64_t half =
            shared->published[(place + (WHM_SHARED_HEADS - 1) / 2) & (WHM_SHARED_HEADS - 1)];
        await_readers(shared, half > before ? half : before);
    }
    if (shared->ring == &shared->large) {
        before = shared->large_published[which(shared, WHM_SHARED_LARGE)];
        if (before > shared->all_read)
            await_readers(shared, before);
    }
    if (__builtin_expect(shared->broken, 0))
        return nowhere(shared);
    return data_of(shared, shared->rank);
}

// To look for sleepers takes a fence.  In a brief call the rank does so once, when it waits itself or at the end, whichever comes first.
void whm_shared_publish(whm_shared *shared) {
    if (__builtin_expect(shared->broken, 0))
        return;
    whm_shared_call *own = &head_of(shared, shared->rank)->call;
    const whm_shared_call *mine = &shared->mine;
    uint64_t now = stamp(shared);
    own->bytes = mine->bytes;
    own->kind = mine->kind;
    own->root = mine->root;
    own->op = mine->op;
    atomic_store_explicit(&own->stamp, now, memory_order_release);
    shared->published[which(shared, WHM_SHARED_HEADS)] = now;
    if (shared->ring == &shared->large)
        shared->large_published[which(shared, WHM_SHARED_LARGE)] = now;
    atomic_store_explicit(&shared->progress[shared->rank].in, now, memory_order_release);
    shared->wakes_later = true;
    if (mine->bytes > WHM_SHARED_BRIEF)
        wake_all(shared);
}

static bool agrees(const whm_shared *shared, const whm_shared_call *other) {
    const whm_shared_call *mine = &shared->mine;
    return other->stamp == stamp(shared) && other->bytes == mine->bytes &&
           other->kind == mine->kind && other->root == mine->root && other->op == mine->op;
}

static void note_stranger(whm_shared *shared, int rank) {
    const whm_shared_call *theirs = &head_of(shared, rank)->call;
    shared->stranger = rank;
    shared->theirs = *theirs;
    shared->theirs.stamp = theirs->stamp == stamp(shared);
}

// The line of the counters is not needed where what is awaited is there, and a rank that gives all the time keeps that for itself.
const char *whm_shared_read(whm_shared *shared, int rank) {
    const whm_shared_heading *head = head_of(shared, rank);
    uint64_t now = stamp(shared);
    if (!has_stamp(head, now) && !await(shared, rank, &shared->progress[rank].in, now, head))
        return NULL;
    if (agrees(shared, &head->call))
        return data_of(shared, rank);
    if (shared->stranger < 0 || !shared->theirs.stamp)  // one whose call is known says more
        note_stranger(shared, rank);
    return NULL;
}

void whm_shared_next(whm_shared *shared) {
    atomic_store_explicit(&shared->progress[shared->rank].out, stamp(shared), memory_order_release);
    wake_all(shared);
    shared->round++;
}

// ---- Data that stay where they are.

// Waits until all have said that much.
static bool say(whm_shared *shared, uint64_t what) {
    atomic_store_explicit(&shared->readers[shared->rank].said, what, memory_order_release);
    wake_all(shared);
    bool all = true;
    for (int i = 0; i < shared->ranks; i++)
        all = await(shared, i, &shared->readers[i].said, what, NULL) && all;
    return all;
}

static bool all_can(whm_shared *shared) {
    whm_shared_reader *own = &shared->readers[shared->rank];
    shared->peers = malloc((size_t)shared->ranks * sizeof(*shared->peers));
    if (!shared->peers)
        whm_process_no_memory();
    own->self = whm_peer_self();
    bool good = own->can = say(shared, 1);
    for (int i = 0; good && i < shared->ranks; i++) {
        shared->peers[i] = shared->readers[i].self;
        own->can = own->can && whm_peer_can(&shared->peers[i]);
    }
    good = say(shared, 2) && good;
    for (int i = 0; good && i < shared->ranks; i++)
        good = shared->readers[i].can;
    return good;
}

bool whm_shared_undecided(const whm_shared *shared) {
    return shared->direct == WHM_UNKNOWN;
}

bool whm_shared_direct(whm_shared *shared) {
    if (shared->direct == WHM_UNKNOWN)
        shared->direct = all_can(shared) ? WHM_YES : WHM_NO;
    return shared->direct == WHM_YES;
}

bool whm_shared_wants_direct(const whm_shared *shared) {
    return shared->peers[0].always;
}

void whm_shared_offer(whm_shared *shared, const void *at) {
    memcpy(whm_shared_write(shared), &at, sizeof(at));
    whm_shared_publish(shared);
}

const char *whm_shared_offered(whm_shared *shared, int rank) {
    const char *slot = whm_shared_read(shared, rank), *at = NULL;
    if (slot)
        memcpy(&at, slot, sizeof(at));
    return at;
}

bool whm_shared_fetch(whm_shared *shared, int rank, void *to, const void *from, MPI_Count size) {
    bool good = true;
    for (MPI_Count at = 0; good && at < size; at += TURN) {
        if (at)
            whm_progress();
        good = whm_peer_read(&shared->peers[rank], (char *)to + at, (const char *)from + at,
                             (size_t)(size - at < TURN ? size - at : TURN));
    }
    if (!good)
        whm_shared_note(shared, whm_fail(MPI_ERR_OTHER,
                                         "the memory of rank %d cannot be read any more; with "
                                         "WHERRY_SHM_READ=never nobody reads there",
                                         whm_comm_known_rank(shared->comm, rank)));
    // It may have changed meanwhile, if that rank has given up.
    atomic_thread_fence(memory_order_acquire);
    if (shared->stranger < 0 && atomic_load(&shared->progress[rank].broken))
        note_stranger(shared, rank);
    return good;
}

void whm_shared_settle(whm_shared *shared) {
    uint64_t now = stamp(shared);
    whm_shared_next(shared);
    await_readers(shared, now);
}

char *whm_shared_scratch(whm_shared *shared) {
    if (!shared->scratch && !(shared->scratch = malloc(WHM_SHARED_SCRATCH)))
        whm_shared_note(shared, whm_no_memory());
    return shared->scratch;
}

void whm_shared_note(whm_shared *shared, int error) {
    if (shared->error == MPI_SUCCESS)
        shared->error = error;
}

static int tell(const whm_shared *shared) {
    const whm_shared_call *theirs = &shared->theirs, *mine = &shared->mine;
    int stranger = whm_comm_known_rank(shared->comm, shared->stranger);
    if (atomic_load(&shared->progress[shared->stranger].broken))
        return whm_fail(
            MPI_ERR_PROC_ABORTED,
            "rank %d has given up, as a process of the communicator has ended before its time",
            stranger);
    if (!theirs->stamp || theirs->kind != mine->kind)
        return whm_fail(MPI_ERR_OTHER,
                        "rank %d has called another collective, has another root, or gives another "
                        "number of elements" WHM_CHECK_HINT,
                        stranger);
    if (theirs->bytes != mine->bytes)
        return whm_fail(MPI_ERR_TRUNCATE,
                        "rank %d has sent %lld bytes where this rank expects %lld: all ranks must "
                        "give counts and types of the same size" WHM_CHECK_HINT,
                        stranger, (long long)theirs->bytes, (long long)mine->bytes);
    if (theirs->root != mine->root)
        return whm_fail(MPI_ERR_ROOT, "the root is %d at rank %d, and %d at this rank",
                        theirs->root, stranger, mine->root);
    return whm_fail(MPI_ERR_OP, "rank %d has called it with another operation", stranger);
}

int whm_shared_end(whm_shared *shared) {
    whm_shared_progress *own = &shared->progress[shared->rank];
    uint64_t past = ++shared->call << ROUND_BITS;
    atomic_store_explicit(&own->out, past, memory_order_release);
    atomic_store_explicit(&own->in, past, memory_order_release);
    wake_all(shared);
    whm_settle_notes();
    if (__builtin_expect(shared->broken, 0))
        return whm_comm_give_up(shared->comm);
    return shared->stranger >= 0 ? tell(shared) : shared->error;
}

int whm_shared_meet(whm_shared *shared, const whm_coll *coll, MPI_Count size) {
    whm_shared_begin(shared, coll, size, sizeof(void *));
    whm_shared_offer(shared, NULL);
    for (int i = 1; i < shared->ranks; i++)
        (void)whm_shared_offered(shared, (shared->rank + i) % shared->ranks);
    return whm_shared_end(shared);
}
