// SPDX-License-Identifier: BSD-3-Clause
//
// Chares: objects that live on processing elements (rt.h) and do something when a message comes.
//
// A class has a constructor and entries: the functions that messages call.  An element is an object of a class; it belongs
// to a collection (a group, an array, or the single chares) and is named by a proxy, a small struct that is passed on by
// value.  An entry runs on the PE where its element is, is not interrupted, and alone touches its element's state.
//
// Threads: all of these functions belong to the thread of the PE that they take, in entries, handlers, user-level threads.
#ifndef WHERRY_CHARE_H
#define WHERRY_CHARE_H

#include <wherry/object.h>
#include <wherry/rt.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Proxies.

#define WH_CHARE_DIMS_MAX 6

// An element of a collection, or all: plain data, the same on each PE.  What is unused is zero.
typedef struct wh_proxy {
    uint32_t collection;
    int32_t index[WH_CHARE_DIMS_MAX];
    uint8_t dims;  // of the index; 0: all elements
    uint8_t reserved[3];
} wh_proxy;

// wh_proxy_at returns the element of a collection at an index of 1 to 6 dimensions, or, at 0 dimensions, all.  The element of a
// group is at its PE, that of a node group at its process.
WH_API wh_proxy wh_proxy_at(wh_proxy collection, int dims, const int32_t *index);

// Proxies as bytes, for arguments.  WH_EPROTOCOL: the bytes are none.
#define WH_PROXY_SIZE 32
WH_API void wh_proxy_encode(const wh_proxy *proxy, void *bytes);
WH_API WH_CHECK wh_status wh_proxy_decode(const void *bytes, size_t size, wh_proxy *proxy);

// ---- Classes.

typedef struct
    wh_chare {  // an element, where it is; the library's, and gone when the element leaves or ends
    wh_pe *pe;
    void *state;  // of the class's size, aligned to 16, zero at first
    wh_proxy proxy;
} wh_chare;

typedef struct wh_call {  // a message, as its entry sees it; valid until the entry returns
    size_t struct_size;
    const void *args;  // aligned to 16
    size_t size;
    int64_t ref;  // reference number
    int source;   // PE of the sender
    const wh_frame *buffers;
    size_t count;  // of them
} wh_call;

typedef void (*wh_entry_fn)(wh_chare *self, const wh_call *call);

// Names the memory for the buffers of a call: buffers[i].size is what comes, and `data`, `mem`, `device`, `type` say where to.  It is
// called when the call's turn has come, before the buffers are there.
typedef void (*wh_post_fn)(wh_chare *self, const wh_call *call, wh_frame *buffers);

enum {
    WH_ENTRY_EXPEDITED = 1 << 0,  // before all other messages of the PE
    WH_ENTRY_INLINE =
        1
        << 1,  // within the send, if the element is on this PE, idle, and has had all that was sent before
    WH_ENTRY_THREADED = 1 << 2,  // as a user-level thread, which may wait
    WH_ENTRY_WHEN = 1 << 3,      // only when the element asks for it: wh_chare_when
};

typedef struct wh_entry {
    const char *name;
    wh_entry_fn fn;
    wh_post_fn post;  // default: buffers are allocated by the library, and freed behind the entry
    uint32_t flags;   // WH_ENTRY_*
} wh_entry;

typedef struct wh_class {  // zero in any field means its default
    size_t size;           // of the caller's struct, so that it can grow
    const char *name;
    size_t state;           // bytes of an element
    wh_entry_fn construct;  // default: nothing is done
    void (*destruct)(wh_chare *self);
    const wh_entry *entries;  // an entry is called by its place here
    size_t entry_count;
    size_t entry_size;  // sizeof(wh_entry)
    // For moves: pack writes the element to `to` and returns the bytes, or only returns them where `to` is NULL; unpack
    // makes it again, in a state of zeros.  Default: an element of the class cannot move.
    size_t (*pack)(wh_chare *self, void *to);
    wh_status (*unpack)(wh_chare *self, const void *data, size_t size);
    // stays says why an element cannot be packed now, for a move or, if `saved`, for a checkpoint: a text that is valid until it
    // is called again for that element; NULL: it can.  It is called often, and must not change the element.  Default: it can.
    const char *(*stays)(wh_chare *self, bool saved);
    // What timelines and dumps call the class of this element, where a class stands for several, as those of a scripting
    // language; a string that lives as long as the element.  It is asked on the PE's thread, also while something else runs there,
    // and must call nothing of Wherry's.  Default: `name`.
    const char *(*alias)(const wh_chare *self);
} wh_class;

// What pack returns, where `to` is NULL, if the element cannot be packed: it stays where it is, or the checkpoint fails.
#define WH_PACK_FAILED SIZE_MAX

// wh_class_register makes a class known on this PE; all PEs register the same ones, first of all in their `main_fn`.  The struct is
// copied.  WH_EINVAL: something is missing, or another class has this name, or the same hash.
WH_API WH_CHECK wh_status wh_class_register(wh_pe *pe, const wh_class *cls);

#ifndef __cplusplus
// A class that reads like a declaration: a list of entries, then the class.
//     #define RING_ENTRIES(ENTRY) ENTRY(ring, start, 0) ENTRY(ring, pass, WH_ENTRY_EXPEDITED)
//     WH_CLASS(ring, RING_ENTRIES, .state = sizeof(ring), .construct = ring_construct);
// declares the functions ring_start(wh_chare *, const wh_call *) and ring_pass, the numbers ring_start_entry and
// ring_pass_entry, and defines the struct ring_class.
#define WH_CLASS_FUNCTION(cls, entry, flags)                                                       \
    static void cls##_##entry(wh_chare *self, const wh_call *call);
#define WH_CLASS_NUMBER(cls, entry, flags) cls##_##entry##_entry,
#define WH_CLASS_ENTRY(cls, entry, entry_flags)                                                    \
    {.name = #entry, .fn = cls##_##entry, .flags = (entry_flags)},
#define WH_CLASS(cls, ENTRIES, ...)                                                                \
    ENTRIES(WH_CLASS_FUNCTION)                                                                     \
    enum { ENTRIES(WH_CLASS_NUMBER) cls##_entry_count };                                           \
    static const wh_entry cls##_entries[] = {ENTRIES(WH_CLASS_ENTRY)};                             \
    static const wh_class cls##_class = {.size = sizeof(wh_class),                                 \
                                         .name = #cls,                                             \
                                         .entries = cls##_entries,                                 \
                                         .entry_count = cls##_entry_count,                         \
                                         .entry_size = sizeof(wh_entry),                           \
                                         __VA_ARGS__}
#endif

// ---- Making and ending.
//
// All of these return at once; the proxy can be used and passed on at once, too: what is sent waits for the element.

// wh_chare_create makes a single chare on a PE, or, where `where` is negative, on one that the library chooses.
WH_API WH_CHECK wh_status wh_chare_create(wh_pe *pe, const char *cls, int where, const void *args,
                                          size_t size, wh_proxy *element);

// A group has one element on each PE, a node group one in each process.
WH_API WH_CHECK wh_status wh_group_create(wh_pe *pe, const char *cls, const void *args, size_t size,
                                          wh_proxy *group);
WH_API WH_CHECK wh_status wh_node_group_create(wh_pe *pe, const char *cls, const void *args,
                                               size_t size, wh_proxy *group);

enum {
    WH_ARRAY_INSERTING =
        1 << 0,  // elements are inserted until wh_array_done; what is sent to one waits for it
    WH_ARRAY_ON_DEMAND =
        1 << 1,  // an element is made, without arguments, when something is sent to it
};

typedef struct wh_array_opts {  // zero in any field means its default
    size_t size;                // of the caller's struct, so that it can grow
    int dims;                   // of an index, 1 to 6
    // The elements from 0 up to these numbers are made at once; all zero: none.  The map counts by them.  Beyond `dims` they are zero.
    int32_t shape[WH_CHARE_DIMS_MAX];
    const char *map;  // "block", the default; "round-robin"; the name of one that is registered
    uint32_t flags;   // WH_ARRAY_*
    // A name of balance.h: elements are moved to where there is less to do, at their sync points (wh_chare_sync), and called at
    // `resume` then, an entry.  Default: they stay, and nothing is measured.  Not with WH_ARRAY_ON_DEMAND.
    const char *balance;
    uint32_t resume;
    uint32_t reserved;
} wh_array_opts;
#ifndef __cplusplus
#define WH_ARRAY_OPTS(...) (&(wh_array_opts){.size = sizeof(wh_array_opts), __VA_ARGS__})
#endif

WH_API WH_CHECK wh_status wh_array_create(wh_pe *pe, const char *cls, const wh_array_opts *opts,
                                          const void *args, size_t size, wh_proxy *array);

// wh_array_insert makes an element of an array.  One that is there already is an error.
WH_API WH_CHECK wh_status wh_array_insert(wh_pe *pe, wh_proxy element, const void *args,
                                          size_t size);

// wh_array_done says that elements which are not there will not be inserted any more: what waits for one, or is sent to one, is an
// error.  One PE says so, when the others' inserts have arrived: after a quiescence, say.
WH_API WH_CHECK wh_status wh_array_done(wh_pe *pe, wh_proxy array);

// A map says on which PE an element is at first.  It must return the same on all PEs; what is no PE is taken modulo their
// number.  Register it like a class.
typedef int (*wh_map_fn)(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg);
WH_API WH_CHECK wh_status wh_map_register(wh_pe *pe, const char *name, wh_map_fn fn, void *arg);

// wh_chare_destroy ends an element, behind what has been sent to it before by this PE, or, of a whole collection, all.  What
// comes later is an error.  An entry may end its own element: it goes when the entry returns.
WH_API WH_CHECK wh_status wh_chare_destroy(wh_pe *pe, wh_proxy proxy);

// wh_chare_move has an element leave for another PE when nothing of it runs any more.  What is sent to it follows.  WH_ENOTSUP:
// its class does not say how it is packed, or it is of a group.  WH_EBUSY: a threaded entry of it runs, a channel keeps it (channel.h),
// or its class says that it stays; the log says why.  If it cannot be packed in the end, it stays, which is logged.
//
// What others send to it keeps its order; between what it has sent itself before and after there is none.
WH_API WH_CHECK wh_status wh_chare_move(wh_chare *self, int to);

// ---- Calls.

typedef struct wh_send_opts {  // zero in any field means its default
    size_t size;               // of the caller's struct, so that it can grow
    int64_t ref;               // for wh_chare_when
    int32_t priority;          // lower ones first
    uint32_t reserved;
    const wh_frame *buffers;  // beside the arguments: any memory, any layout
    size_t count;             // of them
    size_t frame_size;        // sizeof(wh_frame)
    wh_done_fn done;  // called once when `buffers` may be used again; default: nobody is told
    void *done_arg;
} wh_send_opts;
#ifndef __cplusplus
#define WH_SEND_OPTS(...) (&(wh_send_opts){.size = sizeof(wh_send_opts), __VA_ARGS__})
#endif

// wh_chare_send calls entry `entry` of an element, or of all of a collection.  The arguments are copied.
//
// Order: messages from one PE to one element run in the order of the sends, among those of one priority.  Those to all of a
// collection run in one order at all elements, which is that of the sends for each sender; between these and those to
// one element there is none.
WH_API WH_CHECK wh_status wh_chare_send(wh_pe *pe, wh_proxy proxy, unsigned entry, const void *args,
                                        size_t size, const wh_send_opts *opts);

#define WH_REF_ANY INT64_MIN

// wh_chare_when has the next message to an entry (WH_ENTRY_WHEN) with this reference number run, now or when it has come.  Each call
// lets one run.
WH_API WH_CHECK wh_status wh_chare_when(wh_chare *self, unsigned entry, int64_t ref);

// wh_chare_wait waits for such a message, in a threaded entry, in place of running it: *call is valid until the thread
// calls it again or ends.  WH_ECLOSED: the element is being destroyed.  WH_ENOTSUP: it had buffers, which only entries receive.
WH_API WH_CHECK wh_status wh_chare_wait(wh_chare *self, unsigned entry, int64_t ref,
                                        const wh_call **call);

// ---- Futures: a value that comes later.

typedef struct wh_future {  // plain data, the same on each PE
    int32_t pe;             // where it is waited for
    uint32_t id;
} wh_future;

WH_API WH_CHECK wh_status wh_future_create(wh_pe *pe, wh_future *future);

// wh_future_set gives it its value, from any PE; a second value is dropped, with a warning.
WH_API WH_CHECK wh_status wh_future_set(wh_pe *pe, wh_future future, const void *value,
                                        size_t size);

// wh_future_wait waits for the value, in a user-level thread on the future's PE; it stays the future's.  wh_future_get asks
// without waiting: WH_PENDING.
WH_API WH_CHECK wh_status wh_future_wait(wh_pe *pe, wh_future future, const void **value,
                                         size_t *size);
WH_API WH_CHECK wh_status wh_future_get(wh_pe *pe, wh_future future, const void **value,
                                        size_t *size);

// wh_future_free ends it, on its PE.  Who waits gets WH_ECANCELLED; a value that comes later is dropped.
WH_API void wh_future_free(wh_pe *pe, wh_future future);

// ---- Callbacks: what to do with a value, as plain data that any PE can carry out.

typedef enum wh_callback_kind {
    WH_CALLBACK_NONE,
    WH_CALLBACK_SEND,      // entry `entry` of `proxy`, an element or all
    WH_CALLBACK_FUNCTION,  // the function of the name `function` on PE `pe`
    WH_CALLBACK_FUTURE,
    WH_CALLBACK_EXIT,  // ends the job; the value, if it is 4 bytes, is an int32_t: the status
} wh_callback_kind;

typedef struct wh_callback {
    wh_callback_kind kind;
    uint32_t entry;
    wh_proxy proxy;
    int64_t ref;
    uint64_t function;  // wh_function_id
    int32_t pe;
    wh_future future;
} wh_callback;

WH_API WH_CHECK wh_status wh_callback_fire(wh_pe *pe, const wh_callback *callback,
                                           const void *value, size_t size);

#define WH_CALLBACK_SIZE 80
WH_API void wh_callback_encode(const wh_callback *callback, void *bytes);
WH_API WH_CHECK wh_status wh_callback_decode(const void *bytes, size_t size, wh_callback *callback);

// wh_function_register makes a function known under a name, for callbacks.  Register it like a class.
typedef void (*wh_function_fn)(wh_pe *pe, const wh_call *call, void *arg);
WH_API WH_CHECK wh_status wh_function_register(wh_pe *pe, const char *name, wh_function_fn fn,
                                               void *arg);
WH_API uint64_t wh_function_id(const char *name);

// ---- The program.

// wh_readonly gives all PEs what PE 0 calls it with: *out points to a copy that stays.  All PEs call it equally often, in
// `main_fn`, and wait in it.
WH_API WH_CHECK wh_status wh_readonly(wh_pe *pe, const void *data, size_t size, const void **out);

// What cannot be delivered, on the PE that finds out.  Default: it ends the job with the sentence and status 1.
typedef void (*wh_chare_error_fn)(wh_pe *pe, const wh_proxy *proxy, const char *sentence,
                                  void *arg);
WH_API WH_CHECK wh_status wh_chare_on_error(wh_pe *pe, wh_chare_error_fn fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
