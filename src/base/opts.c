// SPDX-License-Identifier: BSD-3-Clause
//
// Structs that grow, see opts.h.
#include "base/opts.h"

#include <string.h>

#include "base/log.h"

// size_of reads the size that a struct begins with, and refuses one that no version has had.
static wh_status size_of(const void *at, const char *name, size_t *size) {
    memcpy(size, at, sizeof(*size));
    // A struct that holds a size_t is a multiple of it.
    if (*size >= WHI_OPTS_LEAST && *size <= WHI_OPTS_MOST && *size % sizeof(*size) == 0)
        return WH_OK;
    whi_log(WHI_ERROR, "E-OPTS-01",
            "%s begins with the size %zu, which no version of it has; set it to sizeof(%s)", name,
            *size, name);
    return WH_EINVAL;
}

// first_set returns the place of the first byte from `begin` on that is not zero, or `end`.
static size_t first_set(const unsigned char *at, size_t begin, size_t end) {
    while (begin < end && !at[begin])
        begin++;
    return begin;
}

static wh_status take(void *to, size_t known, const void *from, size_t size, const char *name) {
    size_t unknown = first_set(from, known, size);
    if (unknown < size) {
        whi_log(WHI_ERROR, "E-OPTS-02",
                "%s has %zu bytes, of which this library knows %zu, and byte %zu is not zero: the "
                "program was built for a newer library; load that, or leave the field zero",
                name, size, known, unknown);
        return WH_ENOTSUP;
    }
    size_t shared = size < known ? size : known;
    memcpy(to, from, shared);
    memset((char *)to + shared, 0, known - shared);
    return WH_OK;
}

wh_status whi_opts_take(void *to, size_t known, const void *from, const char *name) {
    size_t size;
    wh_status st = size_of(from, name, &size);
    return st == WH_OK ? take(to, known, from, size, name) : st;
}

wh_status whi_opts_take_array(void *to, size_t known, const void *from, size_t size, size_t count,
                              const char *name) {
    if (size < WHI_OPTS_LEAST || size > WHI_OPTS_MOST) {
        whi_log(WHI_ERROR, "E-OPTS-03",
                "%zu is not the size of one element of an array of %s; give sizeof(%s)", size, name,
                name);
        return WH_EINVAL;
    }
    wh_status st = WH_OK;
    for (size_t i = 0; st == WH_OK && i < count; i++)
        st = take((char *)to + i * known, known, (const char *)from + i * size, size, name);
    return st;
}

wh_status whi_opts_give(void *to, const void *from, size_t known, const char *name) {
    size_t size;
    wh_status st = size_of(to, name, &size);
    if (st != WH_OK)
        return st;
    size_t shared = size < known ? size : known;
    // Its size stays the caller's.
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), shared - sizeof(size));
    memset((char *)to + shared, 0, size - shared);
    return WH_OK;
}
