// SPDX-License-Identifier: BSD-3-Clause
//
// Memory kinds: what a buffer is made of, who may touch it, and how it is copied.
//
// Host memory is whatever the CPU reads and writes.  Device memory (cuda) it must not touch; sim is
// a device without hardware, for tests: its memory really faults when the CPU touches it.
// Operations detect the kind of a buffer themselves, so that most programs need nothing from this
// header; see docs/reference/mem.md for when CUDA's is not detected.  What kernels and copies of
// the program do with device memory must be done before it is given to an operation, or be in the
// stream that its options name.  Any thread may call its functions.
#ifndef WHERRY_MEM_H
#define WHERRY_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include <wherry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// Numbers never change: they travel between processes.
typedef enum wh_mem_kind {
    WH_MEM_AUTO = 0,  // detect from the pointer
    WH_MEM_HOST = 1,
    WH_MEM_CUDA = 2,
    WH_MEM_SIM = 3,
} wh_mem_kind;

typedef struct wh_mem_info {
    size_t size;       // of the caller's struct, set by the caller: no more than that is written
    wh_mem_kind kind;  // never WH_MEM_AUTO
    int device;        // -1 for host memory
    void *base;        // of the allocation around the pointer, NULL when not known
    size_t length;     // bytes of that allocation, 0 when not known
} wh_mem_info;

// wh_mem_kind_name returns "auto", "host", "cuda" or "sim", or "unknown".  The string is static.
WH_API const char *wh_mem_kind_name(wh_mem_kind kind);

// wh_mem_kind_parse reads such a name; WH_EINVAL for any other.
WH_API WH_CHECK wh_status wh_mem_kind_parse(const char *name, wh_mem_kind *kind);

// wh_mem_kinds returns the kinds that exist on this machine: bit 1 << kind for each.
WH_API unsigned wh_mem_kinds(void);

// wh_mem_kind_reason says in one sentence what the kind rests on here (the driver and its devices),
// or why it does not exist.  Like wh_mem_kinds it loads the driver to find out.  The string is static.
WH_API const char *wh_mem_kind_reason(wh_mem_kind kind);

// wh_mem_sharing_reason says in one sentence how memory of the kind comes from process to process of this host without
// passing through the host's, or why it does not.  For devices it makes a small allocation to find out.  The string is
// static.
WH_API const char *wh_mem_sharing_reason(wh_mem_kind kind);

// wh_mem_query says what memory `ptr` points to; set info->size first.  What belongs to no device
// is host memory.
WH_API WH_CHECK wh_status wh_mem_query(const void *ptr, wh_mem_info *info);

// wh_mem_is_host says whether the CPU may touch what `ptr` points to, for who asks for each message: without devices in the
// process it costs some nanoseconds.  A driver that a library has brought is noticed within a tick of the kernel's clock, at
// most 10 ms, in which no driver comes to its first allocation; not by calls with memory of the heap that grows by brk, which
// is the host's whatever comes.  NULL is host memory.
WH_API bool wh_mem_is_host(const void *ptr);

// wh_mem_alloc_kind allocates `size` bytes on a device; for host memory `device` is ignored.
//
// Host memory is that of received frames: aligned to 64 bytes, from 2 MiB on in huge pages where the system
// has them, and kept for reuse as the settings pool_max and pool_idle say while some worker receives
// such frames.
//
// Fails with WH_ENOTSUP when the kind does not exist here, WH_ENOTFOUND when the device does not,
// and WH_ENOMEM.  The caller gives it back with wh_mem_free_kind and the same kind.
WH_API WH_CHECK wh_status wh_mem_alloc_kind(wh_mem_kind kind, int device, size_t size, void **ptr);

// wh_mem_free_kind gives back what wh_mem_alloc_kind returned.  NULL is allowed.
//
// It answers WH_EINVAL to a pointer that is not the start of a live allocation, and says so in the log; of
// host memory it finds out in most cases only, as free() does.
//
// In a forked child nothing happens to device memory of the parent's, and it is WH_OK.
WH_API WH_CHECK wh_status wh_mem_free_kind(wh_mem_kind kind, void *ptr);

// wh_mem_copy copies `size` bytes between any two kinds and returns when they are there.
//
// The ranges may overlap when both are of one kind.  WH_EINVAL when a range is not inside one
// device allocation: then nothing has been copied.  Either kind may be WH_MEM_AUTO.
WH_API WH_CHECK wh_status wh_mem_copy(void *dst, wh_mem_kind dst_kind, const void *src,
                                      wh_mem_kind src_kind, size_t size);

#ifdef __cplusplus
}
#endif
#endif
