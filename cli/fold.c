// SPDX-License-Identifier: BSD-3-Clause
//
// See fold.h.
#include "cli/fold.h"

#include "cli/cli.h"
#include "cli/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static fold_kind *find(fold *self, const char *what) {
    for (int i = 0; i < self->count; i++) {
        if (strncmp(self->kinds[i].what, what, sizeof self->kinds[i].what - 1) == 0)
            return &self->kinds[i];
    }
    if (self->count == FOLD_KINDS)
        return &self->rest;
    fold_kind *kind = &self->kinds[self->count++];
    snprintf(kind->what, sizeof kind->what, "%s", what);
    return kind;
}

bool fold_show(fold *self, const char *what) {
    return ++find(self, what)->count <= FOLD_SHOWN;
}

static void sum_kind(const char *command, const char *what, uint64_t count) {
    if (count > FOLD_SHOWN)
        cli_complain(command, CLI_FAILED, "and %" PRIu64 " more: %s", count - FOLD_SHOWN, what);
}

void fold_sum(fold *self, const char *command) {
    for (int i = 0; i < self->count; i++)
        sum_kind(command, cli_printable(self->kinds[i].what), self->kinds[i].count);
    sum_kind(command, "for other reasons", self->rest.count);
    *self = (fold){.count = 0};
}

bool fold_rate_show(fold_rate *self, unsigned per_second) {
    uint64_t now = cli_ns();
    if (now >= self->until_ns) {
        self->until_ns = now + CLI_NS_PER_S;
        self->said = 0;
    }
    if (self->said < per_second) {
        self->said++;
        return true;
    }
    self->left_out++;
    return false;
}

void fold_rate_sum(fold_rate *self, const char *command) {
    if (self->left_out == 0 || cli_ns() < self->until_ns)
        return;
    cli_complain(command, CLI_FAILED, "and %u lines more, left out because they came too fast",
                 self->left_out);
    self->left_out = 0;
}
