// SPDX-License-Identifier: BSD-3-Clause
//
// See waits.h.  src/mpi/env/dump.c prints the lines: of each rank the call that it is in, and below it what that waits for.
#include "cli/run/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 256, SENTENCE = 512, GROUPS = 8 };

static waits_rank *add(wait_list *self) {
    if (self->count == self->room) {
        size_t room = self->room ? 2 * self->room : 64;
        waits_rank *ranks = realloc(self->ranks, room * sizeof *ranks);
        if (!ranks)
            return NULL;
        self->ranks = ranks;
        self->room = room;
    }
    return &self->ranks[self->count++];
}

// add_detail adds what the call waits for, once: of a collective only the communicator, as the rest is no affair of the program's.
static void add_detail(waits_rank *rank, const char *line) {
    const char *detail = line + strlen("    a ");
    if (strchr(rank->what, ':'))
        return;
    static const char *const collective[] = {"receive of a collective", "send of a collective",
                                             "collective"};
    bool of_collective = false;
    for (size_t i = 0; i < sizeof collective / sizeof *collective; i++)
        of_collective |= strncmp(detail, collective[i], strlen(collective[i])) == 0;
    if (of_collective) {
        const char *on = strstr(detail, ", on ");
        detail = on ? on + strlen(", ") : "";
    }
    size_t used = strlen(rank->what);
    snprintf(rank->what + used, sizeof rank->what - used, ": %s", detail);
}

static waits_rank *last_of(const wait_list *self, int process) {
    for (size_t i = self->count; i--;)
        if (self->ranks[i].process == process)
            return &self->ranks[i];
    return NULL;
}

void waits_line(wait_list *self, int process, const char *bytes, size_t size) {
    char line[LINE], call[64];
    int rank, end = 0;
    size -= size && bytes[size - 1] == '\n';
    snprintf(line, sizeof line, "%.*s", size < LINE ? (int)size : LINE - 1, bytes);
    bool waiting =
        sscanf(line, "  MPI rank %d: waits in %63s for %n", &rank, call, &end) == 2 && end;
    self->others |= strncmp(line, "worker ", strlen("worker ")) == 0;
    if (waiting || sscanf(line, "  MPI rank %d: is in %n", &rank, &end) == 1) {
        waits_rank *heard = end ? add(self) : NULL;
        if (!heard)
            return;
        heard->process = process;
        heard->rank = rank;
        snprintf(heard->what, sizeof heard->what, waiting ? "waits in %s" : "is in %s",
                 waiting ? call : line + end);
    } else if (strncmp(line, "    a ", strlen("    a ")) == 0) {
        waits_rank *heard = last_of(self, process);
        if (heard)
            add_detail(heard, line);
    }
}

void waits_silent(wait_list *self, int ranks, const char *(*why)(void *arg, int rank), void *arg) {
    bool *heard = !self->count && self->others ? NULL : calloc((size_t)ranks, sizeof *heard);
    if (!heard)
        return;
    for (size_t i = 0; i < self->count; i++)
        if (self->ranks[i].rank >= 0 && self->ranks[i].rank < ranks)
            heard[self->ranks[i].rank] = true;
    for (int rank = 0; rank < ranks; rank++) {
        const char *what = heard[rank] ? NULL : why(arg, rank);
        waits_rank *one = what ? add(self) : NULL;
        if (!one)
            continue;
        *one = (waits_rank){.process = -1, .rank = rank};
        snprintf(one->what, sizeof one->what, "%s", what);
    }
    free(heard);
}

// ---- Groups.

static int by_text(const void *a, const void *b) {
    const waits_rank *x = a, *y = b;
    int order = strcmp(x->what, y->what);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

typedef struct group {
    const waits_rank *first;
    size_t count;
} group;

static int by_size(const void *a, const void *b) {
    const group *x = a, *y = b;
    int odd = (*y->first->what == 'h') - (*x->first->what == 'h');  // "has not .."
    if (odd)
        return odd;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->first->rank > y->first->rank) - (x->first->rank < y->first->rank);
}

// write_ranks writes "rank 3" or "ranks 0-2, 5", as much as there is room for.
static void write_ranks(const group *g, char *to, size_t room) {
    size_t used = (size_t)snprintf(to, room, "rank%s ", g->count > 1 ? "s" : "");
    for (size_t i = 0, end; i < g->count && used + 40 < room; i = end) {
        for (end = i + 1; end < g->count && g->first[end].rank == g->first[end - 1].rank + 1;)
            end++;
        used += (size_t)snprintf(to + used, room - used, "%s%d", i ? ", " : "", g->first[i].rank);
        if (end > i + 1)
            used += (size_t)snprintf(to + used, room - used, "-%d", g->first[end - 1].rank);
        if (used + 40 >= room && end < g->count)
            snprintf(to + used, room - used, ", ...");
    }
}

// What is kept is said of one rank: "waits", "is", "has".
static void write_group(const group *g, char *to, size_t room) {
    write_ranks(g, to, room / 2);
    size_t used = strlen(to);
    const char *what = g->first->what, *rest = strchr(what, ' ');
    if (g->count == 1)
        snprintf(to + used, room - used, " %s", what);
    else
        snprintf(to + used, room - used, " %s%s",
                 *what == 'w'   ? "wait"
                 : *what == 'i' ? "are"
                                : "have",
                 rest);
}

static void tell_groups(const wait_list *self, group *groups, void (*say)(void *, const char *),
                        void *arg) {
    size_t n = 0, left = 0;
    for (size_t i = 0; i < self->count; i++) {
        if (i && strcmp(self->ranks[i].what, self->ranks[i - 1].what) == 0)
            groups[n - 1].count++;
        else
            groups[n++] = (group){&self->ranks[i], 1};
    }
    qsort(groups, n, sizeof *groups, by_size);
    char sentence[SENTENCE];
    for (size_t i = 0; i < n && i < GROUPS; i++) {
        write_group(&groups[i], sentence, sizeof sentence);
        say(arg, sentence);
    }
    for (size_t i = GROUPS; i < n; i++)
        left += groups[i].count;
    if (left) {
        snprintf(sentence, sizeof sentence, "%zu more ranks wait elsewhere", left);
        say(arg, sentence);
    }
}

void waits_tell(wait_list *self, void (*say)(void *arg, const char *sentence), void *arg) {
    group *groups = self->count ? malloc(self->count * sizeof *groups) : NULL;
    if (groups) {
        qsort(self->ranks, self->count, sizeof *self->ranks, by_text);
        tell_groups(self, groups, say, arg);
    }
    free(groups);
    free(self->ranks);
    *self = (wait_list){0};
}
