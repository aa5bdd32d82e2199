// SPDX-License-Identifier: BSD-3-Clause
//
// Walking the files to send: each path with all below it, named relative to what was asked for.
//
// `lib` and `/usr/lib` are both named "lib" at the receiver, and what lies in them "lib/...".
// Entries of a directory come in the order of their names, so that two walks are alike.  Trees may
// be deeper than a path can say: names are at most TRANSFER_NAME_MAX long, and what is longer is
// told as a failure.
#ifndef CLI_WALK_H
#define CLI_WALK_H

#include "cli/transfer.h"

#include <stdbool.h>

// Where an entry is: walk_open opens it, `path` is for messages only.
typedef struct walk_at {
    int parent;        // of this directory
    const char *leaf;  // in it
    const char *path;
    bool follow;  // it was named itself, so a link is followed
} walk_at;

// Called for each file, directory, end of a directory and link.  entry->head says kind, size, mode
// and time.  False ends the walk.
typedef bool (*walk_fn)(const transfer_entry *entry, const walk_at *at, void *arg);

// Called for what cannot be sent, and why; the walk goes on.
typedef void (*walk_skip_fn)(const char *path, const char *why, bool failed, void *arg);

typedef struct walk {
    walk_fn visit;
    walk_skip_fn skip;
    void *arg;
} walk;

// walk_path walks one path.  False when `visit` has said so.
bool walk_path(const walk *self, const char *path);

// walk_open opens a file for reading; -1 with errno.  Whatever stands there by now, it does not
// block.
int walk_open(const walk_at *at);

// walk_base_name writes the name that `path` gets at the receiver; false when it has none, as "/".
bool walk_base_name(const char *path, char *name, size_t size);

#endif
