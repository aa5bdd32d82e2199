// SPDX-License-Identifier: BSD-3-Clause
//
// Structs that grow: one that another version of the library describes, read and written as far as both know it.
//
// A struct of the public interface that its caller allocates begins with its size (`size_t size`), and an array of structs
// comes with the size of its elements.  A shorter one is an older program's: what it lacks is zero, the default.  A longer
// one is a newer program's: it is taken when all that is unknown in it is zero, since then it asks for nothing that is
// unknown.  A new field therefore begins at or behind the former sizeof, never in padding at the end, where older programs
// have left anything; zero means what was before it.  Any thread.
#ifndef WHI_BASE_OPTS_H
#define WHI_BASE_OPTS_H

#include <stddef.h>

#include <wherry/status.h>

// Every struct of this kind has had these bytes from its first version on: less is no such struct.
#define WHI_OPTS_LEAST 16

// More is garbage, and is not read to see whether it is zero.
#define WHI_OPTS_MOST 1024

// whi_opts_take copies the struct at `from`, which says its size, to `to`, of which this library knows `known` bytes.
//
// WH_EINVAL: the size is none.  WH_ENOTSUP: something unknown in it is not zero.  The log names `name` and the byte, and
// `to` is untouched.
WH_CHECK wh_status whi_opts_take(void *to, size_t known, const void *from, const char *name);

// whi_opts_take_array does so for `count` elements of `size` bytes, which do not say their size.
WH_CHECK wh_status whi_opts_take_array(void *to, size_t known, const void *from, size_t size,
                                       size_t count, const char *name);

// whi_opts_give fills in a struct that says its size from `from`, and writes no byte beyond it.  What the caller knows and
// this library does not is zero.  WH_EINVAL: the size is none; nothing is written.
WH_CHECK wh_status whi_opts_give(void *to, const void *from, size_t known, const char *name);

// WHI_OPTS makes `opts` good to read: NULL, or a struct of this library's size.  Otherwise the function returns why not.
// What has the right size costs one compare.
#define WHI_OPTS(type, opts)                                                                       \
    type opts##_taken;                                                                             \
    do {                                                                                           \
        if (__builtin_expect((opts) && (opts)->size != sizeof(type), 0)) {                         \
            wh_status opts##_st = whi_opts_take(&opts##_taken, sizeof(type), (opts), #type);       \
            if (opts##_st != WH_OK)                                                                \
                return opts##_st;                                                                  \
            (opts) = &opts##_taken;                                                                \
        }                                                                                          \
    } while (0)

#endif
