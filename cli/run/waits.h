// SPDX-License-Identifier: BSD-3-Clause
//
// What MPI ranks say, in a dump, that they wait for, put together: who waits alike, and who does not.
#ifndef CLI_RUN_WAITS_H
#define CLI_RUN_WAITS_H

#include <stddef.h>

typedef struct waits_rank {
    int process, rank;
    char what[160];
} waits_rank;

typedef struct wait_list {
    waits_rank *ranks;  // in the order in which they were heard of
    size_t count, room;
} wait_list;

// waits_line looks at a whole line of a process's standard error.  Lines that are not of a dump of MPI are passed over; those of other
// processes may come in between.
void waits_line(wait_list *self, int process, const char *bytes, size_t size);

// waits_tell calls `say` with a sentence for each group of ranks that wait alike, the largest first; nothing if no rank was heard of.
// It forgets them then.
void waits_tell(wait_list *self, void (*say)(void *arg, const char *sentence), void *arg);

#endif
