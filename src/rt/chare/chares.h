// SPDX-License-Identifier: BSD-3-Clause
//
// The chares of a PE from inside: for the files of this folder.
//
// A call belongs to one place at a time: its sender, the table of places (rt/move), the scheduler, its element, or a thread.
#ifndef WHI_RT_CHARE_CHARES_H
#define WHI_RT_CHARE_CHARES_H

#include "base/hash.h"
#include "base/idmap.h"
#include "base/list.h"
#include "base/pool.h"
#include "rt/chare/head.h"
#include "rt/chare/parked.h"
#include "rt/move/places.h"
#include "rt/pe/pe.h"
#include "rt/section/destroyed.h"

#include <wherry/balance.h>
#include <wherry/reduce.h>

typedef struct whi_chares whi_chares;
typedef struct whi_element whi_element;
typedef struct whi_held whi_held;      // buffers of a call that are this PE's
typedef struct whi_posted whi_posted;  // that are being received
typedef struct whi_reductions whi_reductions;
typedef struct whi_balance whi_balance;  // steps of load balancing of a collection

// Something that is registered by a name, whose hash is its id.
typedef enum whi_named_kind {
    WHI_NAMED_CLASS,
    WHI_NAMED_MAP,
    WHI_NAMED_FUNCTION,
    WHI_NAMED_REDUCER,
    WHI_NAMED_BALANCER
} whi_named_kind;

typedef struct whi_named {
    uint64_t id;
    whi_named_kind kind;
    char *name;
    wh_class cls;
    wh_map_fn map;
    wh_function_fn function;
    wh_reducer_fn reducer;
    wh_balancer_fn balancer;
    void *arg;
    bool told;  // of a class: that its elements cannot be balanced
} whi_named;

typedef struct whi_collection {
    whi_collection_def def;
    bool known, ended;  // it has been created, destroyed
    bool inserting;
    const whi_named *cls, *map;
    whi_list elements;           // that are here, by their epoch
    size_t count;                // of them
    uint64_t inserted;           // elements that this PE has made while they were inserted
    whi_reductions *reductions;  // NULL: none yet
    whi_reductions *syncs;       // likewise: they count elements at their sync points
    whi_balance *balance;        // NULL: none yet
    bool restored;               // from a checkpoint, with so many members of reductions
    uint64_t members;
    uint64_t epoch;     // broadcasts that have come here
    uint64_t numbered;  // broadcasts, where they are numbered
    whi_queue waiting;  // calls that came before the collection
    whi_queue inserts;  // messages that make elements of it, likewise
    whi_list departed;  // elements that may lack broadcasts where they are now
} whi_collection;

// How a call goes on whose data is arriving.
typedef enum whi_fate { WHI_FATE_PLACE, WHI_FATE_FORWARD, WHI_FATE_REJECT, WHI_FATE_WAIT } whi_fate;

typedef struct whi_call {
    union {  // first
        whi_head_call head;
        struct {
            WHI_HEAD_CALL_MEMBERS
        };
    };
    whi_msg *msg;
    whi_element *element;  // that it was delivered to
    whi_held *held;        // NULL: they are with the PE from which the call has come
    whi_posted *posted;    // NULL: its turn has not come, or it has none
    uint8_t fate;
    bool ours;    // it was sent here, and waits for its collection
    uint32_t to;  // WHI_FATE_FORWARD: the PE
} whi_call;

// How many reductions of a section an element has contributed to.
typedef struct whi_share {
    uint64_t section, count;
} whi_share;

// What an element waits for, and what waits for it; and what else few have.
typedef struct whi_waits {
    whi_parked parked;  // calls that nobody has asked for
    whi_queue wants;
    whi_list threads;
    whi_queue posted;  // calls whose buffers are arriving, and those that wait for them
    // An element that has moved may lack broadcasts, which follow it: up to `due`, while it has had those up to `had`.
    uint64_t had, due;
    whi_queue ahead;  // by their numbers: what has come before its turn
    whi_queue kept;   // calls whose turn has come since it is held
    whi_share *shares;
    uint32_t share_count;
} whi_waits;

// What an element of a balanced array keeps for its sync points.
typedef struct whi_sync {
    uint64_t spent;    // nanoseconds in its entries since the last step
    double told;       // its load, as the program has said; -1: it has not
    double load;       // in the last step
    uint64_t reached;  // so many sync points
    bool waits;        // to be resumed from the last one
    bool sent;         // it is leaving for balance
} whi_sync;

struct whi_element {
    wh_chare pub;   // first
    whi_list link;  // of its collection
    whi_collection *collection;
    const wh_class *cls;
    uint64_t epoch;    // the last broadcast that it need not be given here
    int32_t moves_to;  // PE; -1: it stays
    uint32_t queued;   // calls in the scheduler
    uint16_t running;  // entries and threads
    bool dying, destructed;
    bool held;             // until the floor above lets it move
    bool reduces;          // it takes part in reductions
    uint64_t contributed;  // to so many
    whi_waits *waits;      // NULL: nothing waits
    whi_sync *sync;        // NULL: its array is not balanced
    _Alignas(16) unsigned char state[];
};

// Reductions and sections lie above elements, which know them by this table.
typedef struct whi_reduce_ops {
    void (*inserted)(whi_chares *c, whi_collection *in);  // no more elements are
    void (*ended)(whi_chares *c, whi_element *element);
    // A member of sections has ended elsewhere, and had these shares.
    void (*went)(whi_chares *c, const whi_place_key *key, const whi_share *shares, uint32_t count);
    void (*free)(whi_reductions *of);
    wh_status (*fire)(wh_pe *pe, const wh_callback *callback, const void *value, size_t size);
} whi_reduce_ops;

// So does load balancing.
typedef struct whi_balance_ops {
    void (*reached)(whi_chares *c, whi_collection *in, uint64_t step);  // all elements, at the root
    void (*came)(whi_chares *c, whi_element *element, int source, bool sent);  // one has moved here
    void (*free)(whi_balance *of);
} whi_balance_ops;

struct whi_chares {
    wh_pe *pe;
    whi_places *places;
    whi_hash named;          // whi_named by id
    whi_hash collections;    // by id
    whi_collection *recent;  // one of them, that was asked for last; NULL: none was
    whi_hash states;         // by PE: messages of it behind an element whose data is arriving
    whi_hash gates;          // by PE: messages to it behind one whose data is arriving here
    whi_hash singles;        // by creator: the last single chare that it has made here
    whi_pool calls;
    whi_idmap futures;
    uint32_t next_collection, next_where;  // the former from WHI_COLLECTIONS_FIRST / PEs
    uint32_t *serials;                     // of single chares, by PE
    whi_queue readonly;
    uint64_t readonly_count;
    whi_element *current;  // whose entry runs; only to compare with
    unsigned depth;        // of inline calls
    whi_call *
        at_once;  // a call that may run within its send; NULL: none, or its element is here and idle
    whi_call *undecided;  // the call that the places are being given, until it has gone on
    uint64_t departures;
    whi_reduce_ops reduce;
    whi_balance_ops balance;
    whi_hash sections;  // by maker and number
    uint32_t next_section;
    whi_destroyed destroyed;      // sections
    uint64_t late;                // the section of which the log has said last that it is destroyed
    struct whi_writing *writing;  // the checkpoint that PE 0 has written; NULL: none
    struct whi_reading *reading;  // that is read; NULL: none
    whi_list asked;               // checkpoints that this PE has asked for
    uint64_t asked_count;         // so far
    whi_list reductions;          // that have something to send up
    bool reducing;                // an idle function will
    whi_list dying;               // elements of which calls or threads are left
    bool closing;
    wh_chare_error_fn error;
    void *error_arg;
};

// What the floor above hears of elements.  Its own messages go to elements as calls of WHI_ENTRY_ABOVE do.
typedef struct whi_chare_above {
    // message: one has come; without `alive` there is no such element, or it ends.
    void (*message)(wh_pe *pe, const whi_place_key *element, bool alive, int source,
                    const void *data, size_t size);
    void (*ending)(wh_pe *pe, const whi_place_key *element);          // its threads may still run
    bool (*has)(wh_pe *pe, const whi_place_key *element);             // anything that depends on it
    const char *(*holds)(wh_pe *pe, const whi_place_key *element);    // why it cannot move, or NULL
    void (*going)(wh_pe *pe, const whi_place_key *element, bool is);  // it will move, or will not
    // False: it must wait, and whi_move_go is called when it can go.
    bool (*leave)(wh_pe *pe, const whi_place_key *element);
    // What of this floor moves with an element: its bytes, which are whi_free'd; when they have gone; where they come to.
    wh_status (*pack)(wh_pe *pe, const whi_place_key *element, void **bytes, size_t *size);
    void (*left)(wh_pe *pe, const whi_place_key *element);
    wh_status (*unpack)(wh_pe *pe, const whi_place_key *element, const void *bytes, size_t size);
    void (*ended)(wh_pe *pe, const whi_place_key *element);  // nothing of it runs any more
} whi_chare_above;

// ---- print.c: names, as the program has given them.

const char *whi_element_class(const whi_element *element);
void whi_element_print(const whi_element *element, FILE *file);  // cell[3]
// whi_collection_class returns what the elements of a collection are called, or NULL: none is here that says so.
const char *whi_collection_class(const whi_collection *in);
const char *whi_collection_kind_name(const whi_collection *in);
void whi_collection_print(const whi_collection *in, FILE *file);
// whi_proxy_element returns an element that is here, or NULL.
const whi_element *whi_proxy_element(const whi_chares *c, const wh_proxy *proxy);
void whi_proxy_print(const whi_chares *c, const wh_proxy *proxy, FILE *file);
void whi_reductions_print(const whi_reductions *of, const char *kind, const whi_collection *in,
                          uint64_t count, uint64_t members,
                          FILE *file);  // what the root has, of how many

// ---- dump.c: what is waited for; of the floor, see whi_floor.

void whi_chares_dump(const void *state, whi_dump *to);
bool whi_chares_awaited(const void *state, const wh_wait *wait, FILE *file);
whi_words whi_chares_name(const void *state, const whi_msg *msg);
// Of when.c, future.c:
void whi_when_dump(const whi_element *element, whi_dump *to, size_t *kept, size_t *wanted);
bool whi_when_awaited(const whi_chares *c, const wh_wait *wait, FILE *file);
bool whi_future_awaited(const whi_chares *c, const wh_wait *wait, FILE *file);

// ---- chares.c: the floor itself; core.c: what all use.

// whi_chares_of returns the chares of a PE, made when there are none yet.  NULL: no memory.
whi_chares *whi_chares_of(wh_pe *pe);

// whi_chares_get returns those that there are, or NULL: nothing has been registered on this PE.
whi_chares *whi_chares_get(const wh_pe *pe);

// whi_chares_error says what cannot be done with a proxy, or ends the job with it.
void whi_chares_error(whi_chares *c, const wh_proxy *proxy, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// whi_chares_tell sends a message that is no call to a PE.
WH_CHECK wh_status whi_chares_tell(whi_chares *c, int dest, const whi_head *head, const void *data,
                                   size_t size);

uint64_t whi_named_id(whi_named_kind kind, const char *name);
whi_named *whi_named_find(const whi_chares *c, uint64_t id, whi_named_kind kind);
void whi_named_free_all(whi_chares *c);  // names.c

// Strategies of load balancing.  An id of 0 is none.
typedef enum whi_balancer_kind {
    WHI_BALANCER_NONE,
    WHI_BALANCER_GREEDY,
    WHI_BALANCER_REFINE,
    WHI_BALANCER_DISTRIBUTED,
    WHI_BALANCER_CUSTOM  // registered, or unknown
} whi_balancer_kind;
whi_balancer_kind whi_balancer_kind_of(uint64_t id);
bool whi_balancer_is_known(const whi_chares *c, uint64_t id);

// ---- collection.c: which collections there are, and where their elements are at first.

// Numbers begin above those of PEs in any job, so that a job with more PEs can take over the collections of a checkpoint.
enum { WHI_SINGLES_ID = 0, WHI_COLLECTIONS_FIRST = 1 << 20 };

// whi_collection_get returns what is known of a collection, or NULL.  They live as long as the chares do.
static inline whi_collection *whi_collection_get(whi_chares *c, uint32_t id) {
    if (c->recent && c->recent->def.id == id)
        return c->recent;
    whi_collection *in = whi_hash_get(&c->collections, id + 1ull);
    if (in)
        c->recent = in;
    return in;
}

// whi_collection_find returns what is known of a collection, made when it is new.  NULL: no memory.
whi_collection *whi_collection_find(whi_chares *c, uint32_t id);
uint32_t whi_collection_home(whi_chares *c, const whi_place_key *key);
bool whi_collection_awaits(whi_chares *c, const whi_place_key *key);
void whi_collection_create(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_collection_element(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_collection_free_all(whi_chares *c);
bool whi_map_is_known(const whi_chares *c, uint64_t id);

// whi_collection_restore makes a collection of a checkpoint known, without elements.  WH_EBUSY: it is there.
WH_CHECK wh_status whi_collection_restore(whi_chares *c, const whi_collection_def *def,
                                          uint64_t members);

// ---- send.c, future.c, callback.c: calls of the public interface without a word in the log.  All options that are given are known.

WH_CHECK wh_status whi_chare_send(wh_pe *pe, const wh_proxy *proxy, unsigned entry,
                                  const void *args, size_t size, const wh_send_opts *opts);
WH_CHECK wh_status whi_future_set(whi_chares *c, const wh_future *future, const void *value,
                                  size_t size);
WH_CHECK wh_status whi_callback_fire(wh_pe *pe, const wh_callback *callback, const void *value,
                                     size_t size);

// ---- broadcast.c

WH_CHECK wh_status whi_broadcast(whi_chares *c, whi_head *head, const void *data, size_t size);
void whi_broadcast_take(whi_chares *c, whi_head *head, wh_pe_msg *msg);

// whi_tree_tell passes a message on to those below this PE, in the tree whose root is `root`.
WH_CHECK wh_status whi_tree_tell(whi_chares *c, int root, const whi_head *head, const void *data,
                                 size_t size);

// ---- reduce.c, section.c

void whi_reduce_init(whi_chares *c);  // sets the table but for `fire`
int whi_collection_root(const whi_chares *c, uint32_t collection);
void whi_reduce_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_section_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_section_free_all(whi_chares *c);

// ---- shares.c: how often elements have contributed to sections, which travels with them.

void whi_shares_write(const whi_element *element, whi_writer *to);
// whi_shares_read makes what another PE has written; the caller frees it, if there is any.
WH_CHECK wh_status whi_shares_read(whi_reader *from, uint32_t count, whi_share **shares);
void whi_share_forget(whi_element *element, uint64_t section);  // which is destroyed
uint32_t whi_shares_of(const whi_element *element);             // how many it has

// whi_reduce_sync counts an element that has reached its sync point.
WH_CHECK wh_status whi_reduce_sync(whi_chares *c, whi_element *element);

// ---- step.c

void whi_balance_init(whi_chares *c);  // sets its table
void whi_balance_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_balance_dump(const whi_chares *c, whi_dump *to);

// ---- element.c: making, running, ending.

// whi_element_make makes an element that belongs here; `inserted`: after its collection was.  WH_EINVAL: there is one.
WH_CHECK wh_status whi_element_make(whi_chares *c, whi_collection *in, const whi_named *cls,
                                    const whi_place_key *key, const wh_call *call, bool inserted);

// whi_element_new makes one that is not in the places yet.  NULL: no memory.
whi_element *whi_element_new(whi_chares *c, whi_collection *in, const whi_named *cls,
                             const whi_place_key *key);
void whi_element_left(whi_chares *c, whi_element *element);  // frees one that has moved
void whi_element_set_epoch(whi_element *element, uint64_t epoch);
whi_place_key whi_element_key(const whi_element *element);

// whi_element_run has an element run an entry now; `call` stays the caller's.
void whi_element_run(whi_chares *c, whi_element *element, wh_entry_fn fn, const wh_call *call);

void whi_element_enter(whi_element *element);
void whi_element_leave(whi_chares *c, whi_element *element);

// whi_element_take gives an element a call whose turn has come.
void whi_element_take(whi_chares *c, whi_call *call);

// whi_element_advance runs calls of an element that have waited for buffers.
void whi_element_advance(whi_chares *c, whi_element *element);

// whi_element_destroy ends an element as soon as nothing of it runs.
void whi_element_destroy(whi_chares *c, whi_element *element);
void whi_element_free_all(whi_chares *c);

// ---- call.c: calls on their way.

extern const whi_place_ops whi_call_place_ops;

// whi_call_new makes a call of this PE, with space for `size` bytes of data.  NULL: no memory.
whi_call *whi_call_new(whi_chares *c, const whi_place_key *key, unsigned entry, size_t size);
// whi_call_lend makes one whose data is `args` for as long as the call of the program lasts (whi_msg_lend).
whi_call *whi_call_lend(whi_chares *c, const whi_place_key *key, unsigned entry, const void *args,
                        size_t size);
WH_CHECK wh_status whi_call_send(whi_chares *c,
                                 whi_call *call);  // gives it up, whatever it returns
void whi_call_free(whi_chares *c, whi_call *call);

// whi_call_direct sends a call of the program's to an element of `in` at once if nothing has to be asked or waited for (direct.c).  False: it
// has done nothing.
bool whi_call_direct(whi_chares *c, const whi_collection *in, const whi_place_key *key,
                     unsigned entry, const void *args, size_t size, const wh_send_opts *opts,
                     wh_status *st);

// whi_call_of is how an entry sees a call.
wh_call whi_call_public(const whi_call *call);

// whi_call_own has a call hold nothing of its sender.  False: no memory.
bool whi_call_own(whi_call *call);

// whi_call_arrive takes a message of WHI_PE_HEADS; whi_call_arrived its data.
void whi_call_arrive(void *chares, whi_msg *msg);
void whi_call_arrived(void *chares, whi_msg *msg, wh_status status);
void whi_call_control(wh_pe *pe, int source, const void *data, size_t size, void *chares);
void whi_call_run(wh_pe *pe, wh_pe_msg *pub, void *arg);  // what has been delivered, or rejected
void whi_call_deliver(whi_chares *c, whi_element *element, whi_call *call);

// whi_call_send_at_once is whi_call_send of a call that runs now if its element is here, idle, and has had all before it.
WH_CHECK wh_status whi_call_send_at_once(whi_chares *c, whi_call *call);
void whi_call_reject(whi_chares *c, whi_call *call);
void whi_call_release(whi_chares *c, whi_collection *in);  // what has waited for a collection
void whi_call_free_gates(whi_chares *c);

// whi_call_post sends a message in the order of calls.
void whi_call_post(whi_chares *c, uint32_t dest, whi_msg *msg, bool counted);

// ---- buffers.c

// whi_buffers_call makes a call with the buffers of `opts`; its `done` is called once from then on.
WH_CHECK wh_status whi_buffers_call(whi_chares *c, const whi_place_key *key, unsigned entry,
                                    const void *args, size_t size, const wh_send_opts *opts,
                                    whi_call **call);
size_t whi_buffers_args(const whi_call *call);  // bytes of the arguments in front of them

// whi_buffers_send has the buffers follow a call to another PE, whi_buffers_refuse has them thrown away.
void whi_buffers_send(whi_chares *c, whi_call *call, int to);
void whi_buffers_refuse(whi_chares *c, whi_call *call);
void whi_buffers_drop(whi_held *held);
void whi_buffers_forget(whi_held *held);  // of a call that has not been accepted: nobody is told

// whi_buffers_post has the buffers of a call received, now that it is its turn; whi_element_advance is called when they are there.
bool whi_buffers_post(whi_chares *c, whi_call *call, wh_post_fn post);
bool whi_buffers_landed(const whi_call *call);
wh_status whi_buffers_status(const whi_call *call);
const wh_frame *whi_buffers_frames(const whi_call *call);
void whi_buffers_free(whi_posted *posted);

// ---- move.c: elements that leave, and come.

// whi_move_element has an element of which nothing runs leave for another PE.  False: its class cannot pack it, and it stays.
bool whi_move_element(whi_chares *c, whi_element *element, int to);

// whi_move_go has one leave that has waited for the floor above.
void whi_move_go(whi_chares *c, const whi_place_key *key);

// whi_move_keep has a call wait until its element has moved.
void whi_move_keep(whi_chares *c, whi_element *element, whi_call *call);

// whi_move_hindrance says why an element that could be packed must stay where it is, or returns NULL.
const char *whi_move_hindrance(whi_chares *c, whi_element *element);

// whi_move_vacant sends home the order of an element that was destroyed elsewhere; `order` is whi_free'd.
void whi_move_vacant(whi_chares *c, whi_element *element, void *order, size_t size);

// whi_move_arrive takes a state in the order of calls, whi_move_install the element in its turn.
void whi_move_arrive(whi_chares *c, whi_msg *msg, const whi_head *head);
void whi_move_install(whi_chares *c, whi_msg *msg);

// whi_move_gate holds back a message that has come behind a state which is not there yet; whi_move_open lets go what can
// go.  False: that PE's gate is open.
bool whi_move_gate(whi_chares *c, whi_msg *msg);
bool whi_move_open(whi_chares *c, int source);
void whi_move_open_all(whi_chares *c);

// ---- follow.c: broadcasts and elements that move.

// whi_follow_depart notes that an element leaves, and what it has had.
WH_CHECK wh_status whi_follow_depart(whi_chares *c, whi_element *element, whi_head *state);
// whi_follow_arrive finds out what it lacks here, and has PE `source` send it.
WH_CHECK wh_status whi_follow_arrive(whi_chares *c, whi_element *element, const whi_head *state,
                                     int source);
void whi_follow_arrived(whi_chares *c, const whi_head *head);
void whi_follow_free(whi_collection *in);

// whi_follow_send sends a broadcast to those that have left before it.
void whi_follow_send(whi_chares *c, whi_collection *in, const whi_head *head, const wh_pe_msg *msg);

unsigned whi_follow_entry(const whi_head *head);  // what a broadcast is to one element

bool whi_follow_lacks(const whi_element *element);
// whi_follow_keep keeps a broadcast until the element has had the ones before it; whi_follow_take takes one that has followed.
void whi_follow_keep(whi_chares *c, whi_element *element, whi_call *call);
void whi_follow_take(whi_chares *c, whi_element *element, whi_call *call);

// ---- when.c

whi_waits *whi_waits_of(whi_element *element);  // made if there is none; NULL: no memory

// What an element asks for, as bytes: whi_when_count times WHI_WANT_SIZE.
uint32_t whi_when_count(const whi_element *element);
void whi_when_write(const whi_element *element, whi_writer *to);
WH_CHECK wh_status whi_when_read(whi_element *element, whi_reader *from, uint32_t count);

// whi_when_take parks a call, or returns true: it is wanted, and runs now.
bool whi_when_take(whi_chares *c, whi_element *element, whi_call *call);
void whi_when_spawn(whi_chares *c, whi_element *element, whi_call *call);
bool whi_when_is_here(const whi_element *element);  // a thread of it is what runs
void whi_when_close(whi_chares *c, whi_element *element);
void whi_when_free(whi_chares *c, whi_element *element);

// ---- future.c, readonly.c, callback.c: values.

void whi_future_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_future_free_all(whi_chares *c);
void whi_readonly_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
void whi_readonly_free_all(whi_chares *c);
void whi_function_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);

_Static_assert(sizeof(wh_proxy) == sizeof(whi_place_key) &&
                   offsetof(wh_proxy, collection) == offsetof(whi_place_key, collection) &&
                   offsetof(wh_proxy, index) == offsetof(whi_place_key, index) &&
                   offsetof(wh_proxy, dims) == offsetof(whi_place_key, dims),
               "a key is what a program calls a proxy");

static inline wh_proxy whi_proxy_of(const whi_place_key *key) {
    wh_proxy proxy;
    memcpy(&proxy, key, sizeof(proxy));
    return proxy;
}

#endif
