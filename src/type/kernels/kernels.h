// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels: the inner loops of pack and unpack, one set per instruction set.
//
// Names follow a grammar: <shape>_<size class>_<direction>.  Shapes: rows (two loops around one run),
// blocks (two loops around a table of equal runs), list (around a table of unequal ones), cross (two
// loops of which the inner has the larger stride: a transpose).  The same templates (body.h) are
// compiled once per instruction set; the set is chosen from the processor when the first plan is
// made, the kernel when a type's plan is made, nothing per call.
#ifndef WHI_TYPE_KERNELS_H
#define WHI_TYPE_KERNELS_H

#include "type/layout.h"

// Size classes of a run: X(name, bytes per move, exact).  An exact size class moves that many bytes; the
// others move a run of n to 2n - 1 bytes by two moves that overlap.
#define WHI_SIZE_CLASSES(X)                                                                        \
    X(1, 1, true)                                                                                  \
    X(2, 2, true)                                                                                  \
    X(3, 2, false)                                                                                 \
    X(4, 4, true)                                                                                  \
    X(5to7, 4, false)                                                                              \
    X(8, 8, true)                                                                                  \
    X(9to15, 8, false)                                                                             \
    X(16, 16, true)                                                                                \
    X(17to31, 16, false)                                                                           \
    X(32, 32, true)                                                                                \
    X(33to63, 32, false)                                                                           \
    X(64, 64, true)                                                                                \
    X(lines, 0, false)

typedef enum whi_size_class {
#define WHI_SIZE_ENUM(name, bytes, exact) WHI_SIZE_##name,
    WHI_SIZE_CLASSES(WHI_SIZE_ENUM)
#undef WHI_SIZE_ENUM
        WHI_SIZES
} whi_size_class;

typedef enum whi_direction { WHI_PACK, WHI_UNPACK } whi_direction;

typedef struct whi_kernels {
    const char *isa;
    whi_kernel_fn *rows[2][WHI_SIZES];
    whi_kernel_fn *blocks[2][WHI_SIZES];
    whi_kernel_fn *cross[2][WHI_SIZES];  // NULL where rows are as good
    whi_kernel_fn *cross_8_nontemporal;  // packs 8-byte elements around the cache, or NULL
    void (*copy)(char *to, const char *from, int64_t size);  // dense, 128 bytes or more
    whi_kernel_fn *list[2];                                  // four-byte offsets, one-byte lengths
    whi_kernel_fn *list_wide[2];
    whi_kernel_fn *fields[2];  // a short list, many times: one run of all, then the next
} whi_kernels;

// The sets that may be compiled in: base always, the others on x86.
extern const whi_kernels whi_kernels_base, whi_kernels_avx2, whi_kernels_avx512;

// whi_kernels_sets lists the sets that this processor runs, the best last (sets_x86.c, sets_any.c).
enum { WHI_KERNEL_SETS = 3 };
int whi_kernels_sets(const whi_kernels *sets[WHI_KERNEL_SETS]);

// whi_nontemporal_copy copies to memory that is not wanted in this core's caches; after a series of them
// whi_nontemporal_fence orders them before all later stores.  Fencing each would wait for memory each time.
void whi_nontemporal_copy(char *to, const char *from, int64_t size);
void whi_nontemporal_fence(void);

// whi_nontemporal_rows returns the kernel that packs or unpacks rows of runs of `len` bytes around the cache,
// or NULL.
whi_kernel_fn *whi_nontemporal_rows(whi_direction direction, int64_t len);

// whi_kernels_here returns the best set for this processor.
const whi_kernels *whi_kernels_here(void);

// whi_kernels_use makes whi_kernels_here return the set of that name; NULL: choose again.  Returns
// false when this processor or this build has no such set.  For tests and measurements: types that
// have their plan keep their kernels.
bool whi_kernels_use(const char *isa);

// whi_size_class_of returns the size class of runs of `len` bytes.
whi_size_class whi_size_class_of(int64_t len);

// whi_kernels_pick chooses the kernels of a leaf.
void whi_kernels_pick(whi_leaf *leaf);

#endif
