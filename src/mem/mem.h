// SPDX-License-Identifier: BSD-3-Clause
//
// Memory inside the library: the vtable that each kind of memory fills in, and the way to it.
//
// A kind is one vtable; adding one adds a row to the table in mem.c.  Host memory has
// one too, so that callers need no second path.  Synchronous copies may be made by any thread.  A
// stream is whatever the kind calls so (a CUstream, or any word for sim; NULL is the default one)
// and belongs to the user; what is submitted to one stream happens in order.
#ifndef WHI_MEM_MEM_H
#define WHI_MEM_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <wherry/mem.h>

typedef struct whi_mem_ops whi_mem_ops;
typedef struct whi_mem_staging whi_mem_staging;
typedef struct whi_mem_sharing whi_mem_sharing;
typedef struct whi_mem_kernels whi_mem_kernels;
typedef struct whi_mem_foreign whi_mem_foreign;

// A moment in the work of a stream.  Plain data; zeroed, it is one that has passed.  Each event
// that was recorded is released exactly once.
typedef struct whi_mem_event {
    const whi_mem_ops *ops;  // NULL: passed
    void *handle;            // the kind's own
    uint64_t ticket;         // the kind's own
} whi_mem_event;

// In which direction a copy goes, seen from the kind that makes it.
typedef enum whi_mem_direction {
    WHI_MEM_TO_HOST,
    WHI_MEM_FROM_HOST,
    WHI_MEM_WITHIN
} whi_mem_direction;

// What a kind can do.  No member may be NULL, but for the last two.  All members may be called from any thread.
struct whi_mem_ops {
    wh_mem_kind kind;

    // exists says whether the kind can be used on this machine; the first call may take long.
    bool (*exists)(void);

    // reason says in one sentence what the kind rests on here, or why it does not exist.
    const char *(*reason)(void);

    // notice looks whether memory of this kind may have come into the process without being asked
    // for here, and then counts in whi_mem_device_allocations.  It is called often: see
    // whi_mem_notice.
    void (*notice)(void);

    // query says whether `ptr` is this kind's, and then describes it.  It is asked for every buffer
    // whose kind is not given, so it must be quick to say no.
    bool (*query)(const void *ptr, wh_mem_info *info);

    // alloc and free have the contract of wh_mem_alloc_kind and wh_mem_free_kind.
    wh_status (*alloc)(int device, size_t size, void **ptr);
    wh_status (*free)(void *ptr);

    // copy moves `size` bytes and returns when they are there.  The side that is this kind's is
    // checked to be inside one allocation; the host side is trusted.
    wh_status (*copy)(whi_mem_direction direction, void *dst, const void *src, size_t size);

    // copy_async does the same in stream order.  Both ranges must stay until an event that is
    // recorded behind it has passed, and must not overlap.  An error means that nothing was
    // submitted.
    wh_status (*copy_async)(whi_mem_direction direction, void *dst, const void *src, size_t size,
                            void *stream);

    // record makes an event of all that was submitted to `stream` so far.
    wh_status (*record)(void *stream, whi_mem_event *event);

    // wait makes what is submitted to `stream` from now on happen after `event`, which must be of
    // this kind.  It does not block, and the event may be released at once.
    wh_status (*wait)(void *stream, const whi_mem_event *event);

    // query_event returns WH_OK when the event has passed, WH_PENDING when not yet, or the error of
    // the work before it.  This also is what drives kinds that need to be polled.
    wh_status (*query_event)(const whi_mem_event *event);

    // release_event ends an event, passed or not; it does not touch the work.
    void (*release_event)(whi_mem_event *event);

    // foreign is what another library needs that moves such memory by itself; NULL: none does.
    const whi_mem_foreign *foreign;

    // staging is what payloads on the way between devices and lanes need; NULL: the kind has none.
    const whi_mem_staging *staging;

    // sharing gives allocations to other processes of the host; NULL: the kind cannot.
    const whi_mem_sharing *sharing;

    // kernels is what programs need that run on the devices; NULL: they run none.
    const whi_mem_kernels *kernels;
};

// How another library, such as UCX, is called for memory of a kind.  Any thread.
struct whi_mem_foreign {
    // managed says whether memory moves between host and device by itself, so that no network reads it where it is.
    bool (*managed)(const void *ptr);

    // enter makes the device current on the calling thread, which such libraries rely on, and leave puts back what was.
    wh_status (*enter)(int device);
    void (*leave)(void);
};

// How memory of a kind is staged.  Any thread.
struct whi_mem_staging {
    // pin allocates host memory with which all devices of the kind copy without the CPU; unpin frees
    // it, with the device that it was made for.  Nothing may be under way there.
    wh_status (*pin)(int device, size_t size, void **ptr);
    void (*unpin)(int device, void *ptr);

    // stream returns the library's own stream of a device for copies in one direction, which waits
    // for no other.  It belongs to the process.
    wh_status (*stream)(int device, whi_mem_direction direction, void **stream);

    // settle waits until all copies in one direction have passed that were submitted to such streams, of all devices.
    void (*settle)(whi_mem_direction direction);
};

// What names an allocation to other processes of the host.  Plain bytes: it may travel, and it may be another's.
typedef struct whi_mem_handle {
    uint64_t id;         // of the allocation; its process never uses it again
    uint64_t base;       // its address there
    uint64_t length;     // and its bytes
    uint8_t device[16];  // the device's name, the same in all processes
    uint8_t bytes[64];   // the kind's own
    bool descriptor;     // they name a descriptor of its process, which only some may take over
} whi_mem_handle;

// Another process's allocation, mapped here.
typedef struct whi_mem_mapping {
    void *base;
    uint64_t length;  // as this process finds it
    int device;       // whose context it was opened in
    bool descriptor;  // as of its handle
} whi_mem_mapping;

// How allocations of a kind are shared by the processes of a host.  Any thread.
struct whi_mem_sharing {
    // reason is wh_mem_sharing_reason of the kind.
    const char *(*reason)(void);

    // export names the allocation that holds `ptr`; of memory that was put together from pieces, that piece.  WH_ENOTSUP:
    // it is none that other processes could open.
    wh_status (*export)(const void *ptr, whi_mem_handle *handle);

    // open maps an allocation of another process: on its own device or, where this process does not see that, for `device`.
    // Any bytes may be in the handle.  WH_ENOTSUP: it cannot be opened; why was logged as information.  WH_ENOTFOUND: nor
    // could it be if all were well, since its process has taken it back.
    wh_status (*open)(const whi_mem_handle *handle, int device, whi_mem_mapping *mapping);

    // close ends that.  No copy may be under way there.
    void (*close)(const whi_mem_mapping *mapping);
};

// A program for devices.  It belongs to its owner for as long as the process runs: what was loaded of it stays.
enum { WHI_MEM_PROGRAM_DEVICES = 64, WHI_MEM_PROGRAM_KERNELS = 16 };
typedef struct whi_mem_program {
    const char *code;   // tried first: code of some devices, a fatbin; none: NULL or a zero
    const void *image;  // text of PTX, ended by a zero, or code of the devices
    const char *const
        *names;  // of its kernels, no more than WHI_MEM_PROGRAM_KERNELS, ended by NULL
    _Atomic(void *) loaded[WHI_MEM_PROGRAM_DEVICES];  // the kind's own
} whi_mem_program;

// What memory a range is, to kernels.
typedef struct whi_mem_place {
    int device;   // where it lies, -1: on no device
    bool shared;  // kernels of all devices touch it: managed memory, and pinned memory of the host
} whi_mem_place;

// Running programs on devices.  Any thread.
struct whi_mem_kernels {
    // place says what memory a range is.  WH_EINVAL, and the log says why, when it is a device's and ends beyond its
    // allocation.
    wh_status (*place)(const void *ptr, size_t size, whi_mem_place *place);

    // launch runs kernel number `which` of a program in stream order, which it loads if need be.  All kernels have one
    // argument, `size` bytes of numbers at `args`, which are copied.  An error means that nothing was submitted.
    wh_status (*launch)(int device, whi_mem_program *program, unsigned which, unsigned blocks,
                        unsigned threads, const void *args, void *stream);

    // load readies a program on a device, so that its first launch does not.
    wh_status (*load)(int device, whi_mem_program *program);

    // stream returns the library's own stream for work that is waited for; wait waits for all work of a stream of
    // `device`.
    wh_status (*stream)(int device, void **stream);
    wh_status (*wait)(int device, void *stream);

    // capability returns the number that names the devices' instruction set: 80 for compute capability 8.0.
    wh_status (*capability)(int device, int *number);
};

extern const whi_mem_ops whi_mem_host;
extern const whi_mem_ops whi_mem_cuda;
extern const whi_mem_ops whi_mem_sim;

// How many device allocations are known to be alive, of all kinds; each kind counts its own.  cuda,
// which cannot know those of other libraries, counts one as soon as there could be any.
extern _Atomic size_t whi_mem_device_allocations;

// whi_mem_devices says whether a pointer could be a device's, so that programs without devices pay
// one load.
static inline bool whi_mem_devices(void) {
    return atomic_load_explicit(&whi_mem_device_allocations, memory_order_relaxed) != 0;
}

// whi_mem_notice has all kinds look whether their memory has come into the process, with a library
// that was loaded.  It is called where an object is made to which buffers will be given, so that
// giving them costs no more than whi_mem_devices.
void whi_mem_notice(void);

// whi_mem_ops_of returns the vtable of a kind that exists here, or NULL.  WH_MEM_AUTO has none.
const whi_mem_ops *whi_mem_ops_of(wh_mem_kind kind);

// whi_mem_query says what memory `ptr` points to, as wh_mem_query does.
void whi_mem_query(const void *ptr, wh_mem_info *info);

// whi_mem_copy is wh_mem_copy with both kinds known.  Between two device kinds the bytes pass
// through host memory piece by piece.
WH_CHECK wh_status whi_mem_copy(const whi_mem_ops *dst_ops, void *dst, const whi_mem_ops *src_ops,
                                const void *src, size_t size);

// whi_mem_event_query asks an event of any kind, also one that was never recorded.
static inline wh_status whi_mem_event_query(const whi_mem_event *event) {
    return event->ops ? event->ops->query_event(event) : WH_OK;
}

// whi_mem_event_release ends an event of any kind; what is left is an event that has passed.
static inline void whi_mem_event_release(whi_mem_event *event) {
    if (event->ops)
        event->ops->release_event(event);
    *event = (whi_mem_event){.ops = NULL};
}

#endif
