// SPDX-License-Identifier: BSD-3-Clause
//
// The way from a directory down to one below it, however deep, with two descriptors.
//
// No path is ever made of it, so PATH_MAX is no limit.  Only the current directory and the one
// above it are open; the others are found again by "..", and known by their device and inode: a
// directory that was moved meanwhile leads nowhere else.  One thread uses a trail.
#ifndef CLI_TRAIL_H
#define CLI_TRAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

typedef struct trail_dir {
    int fd;  // -1: not open just now
    struct stat st;
} trail_dir;

typedef struct trail {  // all zero: it has not begun
    trail_dir *dirs;
    size_t depth, room;  // directories, the first and the current one included
} trail;

// trail_begin starts at an open directory, which it takes over, also when it fails.  Functions that
// return false have set errno.
bool trail_begin(trail *self, int top);
void trail_end(trail *self);

// The current directory: its descriptor is borrowed, until the next change.
int trail_fd(const trail *self);
const struct stat *trail_stat(const trail *self);

// trail_enter goes down to a directory in the current one, not through a link.
bool trail_enter(trail *self, const char *leaf);

// trail_leave goes up again.  When that is not possible (ESTALE: the directory was moved) the
// trail has ended.  Not from the first directory.
bool trail_leave(trail *self);

#endif
