// SPDX-License-Identifier: BSD-3-Clause
//
// Complaints that may come by the thousand: the first few of a kind are printed, the rest is counted.
//
// A kind is what went wrong, not with what: "refused NAME: no space left" is of one kind for all names.
// What can be said at all is bounded as well, because kinds may be a stranger's invention.  One thread.
#ifndef CLI_FOLD_H
#define CLI_FOLD_H

#include <stdbool.h>
#include <stdint.h>

enum { FOLD_SHOWN = 10, FOLD_KINDS = 8 };

typedef struct fold_kind {
    char what[96];
    uint64_t count;
} fold_kind;

typedef struct fold {  // all zero: nothing has been said
    fold_kind kinds[FOLD_KINDS];
    int count;
    fold_kind rest;  // what is of none of these kinds
} fold;

// fold_show counts one more of a kind, and says whether it is to be printed.
bool fold_show(fold *self, const char *what);

// fold_sum prints how many of each kind were not printed, and begins anew.
void fold_sum(fold *self, const char *command);

// At most so many lines in a second, whatever they say; all zero at first.
typedef struct fold_rate {
    uint64_t until_ns;
    unsigned said, left_out;
} fold_rate;

// fold_rate_show says whether one more line may be printed now.
bool fold_rate_show(fold_rate *self, unsigned per_second);

// fold_rate_sum prints, when the second is over, how many lines were left out in it.
void fold_rate_sum(fold_rate *self, const char *command);

#endif
