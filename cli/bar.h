// SPDX-License-Identifier: BSD-3-Clause
//
// A progress bar on standard error, when that is a terminal; else nothing is printed.
#ifndef CLI_BAR_H
#define CLI_BAR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bar {
    bool shown;         // there is a terminal
    uint64_t start_ns;  // of the whole
    uint64_t next_ns;   // no drawing before that
    uint64_t total;     // bytes; 0: not known
} bar;

void bar_begin(bar *self, uint64_t total);

// bar_draw shows how far it is, at most ten times a second.
void bar_draw(bar *self, uint64_t done, const char *what);

// bar_clear wipes the line, before other output.
void bar_clear(bar *self);

#endif
