// SPDX-License-Identifier: BSD-3-Clause
//
// Text from a peer, made fit for a log or a terminal: one line of printable ASCII.
#ifndef WHI_BASE_PRINTABLE_H
#define WHI_BASE_PRINTABLE_H

#include <stddef.h>
#include <string.h>

// whi_printable replaces what does not print by question marks.
static inline void whi_printable(char *text) {
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

// whi_printable_copy copies `size` bytes that need not end in NUL, or as many as `space` > 0 holds.
static inline void whi_printable_copy(char *to, size_t space, const void *from, size_t size) {
    size_t length = size < space - 1 ? size : space - 1;
    if (length)
        memcpy(to, from, length);
    to[length] = '\0';
    whi_printable(to);
}

#endif
