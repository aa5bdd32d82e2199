// SPDX-License-Identifier: BSD-3-Clause
//
// See bar.h.  A line is redrawn in place: carriage return, text, "erase to the end".
#include "cli/bar.h"
#include "cli/clock.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 24 };

#define BETWEEN_DRAWS_NS (CLI_NS_PER_S / 10)

void bar_begin(bar *self, uint64_t total) {
    self->shown = isatty(STDERR_FILENO);
    self->start_ns = cli_ns();
    self->next_ns = self->start_ns + BETWEEN_DRAWS_NS;
    self->total = total;
}

void bar_draw(bar *self, uint64_t done, const char *what) {
    char amount[32], rate[32], filled[WIDTH + 1];
    uint64_t now = self->shown ? cli_ns() : 0;
    if (!self->shown || now < self->next_ns)
        return;
    self->next_ns = now + BETWEEN_DRAWS_NS;
    double seconds = (double)(now - self->start_ns) / (double)CLI_NS_PER_S;
    cli_format_bytes((double)done, amount, sizeof amount);
    cli_format_bytes((double)done / seconds, rate, sizeof rate);
    fputs("\r\033[K", stderr);
    if (self->total > 0) {
        double share = (double)done / (double)self->total;
        int full = share >= 1 ? WIDTH : (int)(share * WIDTH);
        memset(filled, '-', WIDTH);
        memset(filled, '#', (size_t)full);
        filled[WIDTH] = '\0';
        fprintf(stderr, "[%s] %3.0f %%  ", filled, 100 * share);
    }
    fprintf(stderr, "%s  %s/s  %.40s", amount, rate, what);
    fflush(stderr);
}

void bar_clear(bar *self) {
    if (self->shown)
        fputs("\r\033[K", stderr);
}
