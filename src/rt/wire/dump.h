// SPDX-License-Identifier: BSD-3-Clause
//
// A dump while it is printed: what a PE waits for, in the words of its program.
//
// It is asked for while a job hangs, in a worker's progress: who prints changes nothing, allocates nothing, calls nothing of the
// program's but names, and prints a bounded number of lines of each kind.
#ifndef WHI_RT_WIRE_DUMP_H
#define WHI_RT_WIRE_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct whi_dump {
    FILE *file;
    bool busy;   // something on the PE goes on by itself
    bool waits;  // something waits for what others do
} whi_dump;

enum { WHI_DUMP_LINES = 8 };  // of a kind

// whi_dump_line counts something in *told, and says whether it is one of those that are printed; whi_dump_rest tells how many others
// there were.
static inline bool whi_dump_line(size_t *told) {
    return (*told)++ < WHI_DUMP_LINES;
}

static inline void whi_dump_rest(const whi_dump *to, size_t told, const char *what) {
    if (told > WHI_DUMP_LINES)
        fprintf(to->file, "  and %zu more %s\n", told - WHI_DUMP_LINES, what);
}

// whi_dump_index prints the index of an element behind the name of its class.
static inline void whi_dump_index(FILE *file, const int32_t *index, int dims) {
    for (int i = 0; i < dims; i++)
        fprintf(file, "%s%d", i ? "," : "[", index[i]);
    fputs(dims > 0 ? "]" : "", file);
}

#endif
