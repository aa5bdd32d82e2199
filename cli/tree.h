// SPDX-License-Identifier: BSD-3-Clause
//
// All names below a directory, in order, however deep it goes: a loop instead of a recursion.
//
//   while ((name = tree_next(&t))) ... tree_enter(&t, name) goes on with what is in it
//   NULL: that was all of the current directory; tree_leave goes on with the one above
//
// One thread uses a tree.
#ifndef CLI_TREE_H
#define CLI_TREE_H

#include "cli/trail.h"

typedef struct tree_names {
    char **names;
    size_t count, next;
} tree_names;

typedef struct tree {
    trail trail;  // its current directory is the one whose names come
    tree_names *levels;
    size_t depth, room;
    size_t left;  // names that may still be read
} tree;

// tree_begin starts with an open directory, which it takes over.  At most `names_max` names are
// read in all; there are no more behind them.  False, with errno, when it cannot be read; then
// there is nothing to end.
bool tree_begin(tree *self, int top, size_t names_max);
void tree_end(tree *self);

// tree_next returns the next name in the current directory, which lives until tree_leave; NULL: no
// more.
const char *tree_next(tree *self);

// tree_enter makes a directory in the current one the current one.  False, with errno, when it
// cannot be read: the current one is as before.
bool tree_enter(tree *self, const char *name);

// tree_leave goes back to the directory above.  False at the top, or with errno when that is no
// longer where it was: tree_end is all that is left to do.
bool tree_leave(tree *self);

#endif
