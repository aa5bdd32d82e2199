// SPDX-License-Identifier: BSD-3-Clause
//
// What MPI ranks say, in a dump, that they wait for, put together: who waits alike, and who does not.
#ifndef CLI_RUN_WAITS_H
#define CLI_RUN_WAITS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct waits_rank {
    int process, rank;
    char what[160];
} waits_rank;

typedef struct wait_list {
    waits_rank *ranks;  // in the order in which they were heard of
    size_t count, room;
    bool others;  // programs of Wherry have answered that may have no MPI ranks
} wait_list;

// waits_line looks at a whole line of a process's standard error.  Lines that are not of a dump of MPI are passed over; those of other
// processes may come in between.
void waits_line(wait_list *self, int process, const char *bytes, size_t size);

// What is said of a rank that should have answered.
#define WAITS_SILENT "has not answered: outside of MPI, or stopped"

// waits_silent adds those of so many ranks that have not been heard of and of whom `why` has something to say, "waits ..", "is .." or "has ..".  It adds
// none if only programs without MPI have answered.
void waits_silent(wait_list *self, int ranks, const char *(*why)(void *arg, int rank), void *arg);

// waits_tell calls `say` with a sentence for each group of ranks that wait alike, first those that have not done something, then the largest; nothing if
// no rank was heard of.  It forgets them then.
void waits_tell(wait_list *self, void (*say)(void *arg, const char *sentence), void *arg);

#endif
