// SPDX-License-Identifier: BSD-3-Clause
//
// store_sweep, see store.h: what a receiver that was killed could not remove itself.
//
// A file belongs to nobody when its lock can be had.  The process in its name says nothing: it may
// be of another host or container, or of one that has restarted, where the same number is somebody
// else's.  The walk follows no links, and ends after so many entries: a receiver must start also
// in a large place.
#include "cli/store.h"
#include "cli/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENTRIES_MAX = 100000 };

// Reads a temporary name exactly as store.c writes it.
static bool is_temporary(const char *name) {
    char again[64];
    int number;
    unsigned serial;
    if (sscanf(name, ".wherry-%9d-%9u.part", &number, &serial) != 2 || number <= 0)
        return false;
    snprintf(again, sizeof again, ".wherry-%d-%u.part", number, serial);
    return strcmp(name, again) == 0;
}

// Whether the file was one that nobody writes any more, and has been removed.
static bool remove_left(int parent, const char *name) {
    struct stat st;
    int fd = openat(parent, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool removed = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                   flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(parent, name, 0) == 0;
    close(fd);
    return removed;
}

unsigned store_sweep(const store *self) {
    tree all;
    unsigned removed = 0;
    int top = fcntl(self->root, F_DUPFD_CLOEXEC, 0);
    if (top < 0 || !tree_begin(&all, top, ENTRIES_MAX))
        return 0;
    do {
        for (const char *name; (name = tree_next(&all));) {
            if (is_temporary(name) && remove_left(trail_fd(&all.trail), name))
                removed++;
            else
                (void)tree_enter(&all, name);
        }
    } while (tree_leave(&all));
    tree_end(&all);
    return removed;
}
