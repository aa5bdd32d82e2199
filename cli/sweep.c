// SPDX-License-Identifier: BSD-3-Clause
//
// store_sweep, see store.h: what a receiver that was killed could not remove itself.
//
// Two things must say that nobody writes to a file any more: the process in its name is not there, and
// its lock can be had.  A process of another host, or of another container, is seen by its lock only.
// The walk follows no links, and ends after so many entries: a receiver must start also in a large place.
#include "cli/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 32, ENTRIES_MAX = 100000 };

typedef struct sweep {
    unsigned entries, removed;
} sweep;

// Reads a temporary name exactly as store.c writes it.
static bool is_temporary(const char *name, pid_t *pid) {
    char again[64];
    int number;
    unsigned serial;
    if (sscanf(name, ".wherry-%9d-%9u.part", &number, &serial) != 2 || number <= 0)
        return false;
    snprintf(again, sizeof again, ".wherry-%d-%u.part", number, serial);
    *pid = number;
    return strcmp(name, again) == 0;
}

static void sweep_file(sweep *self, int parent, const char *name) {
    struct stat st;
    pid_t pid;
    if (!is_temporary(name, &pid) || kill(pid, 0) == 0 || errno != ESRCH)
        return;
    int fd = openat(parent, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(parent, name, 0) == 0)
        self->removed++;
    close(fd);
}

// Takes `fd` over.
static void sweep_dir(sweep *self, int fd, int depth) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return;
    }
    const struct dirent *entry;
    while (self->entries < ENTRIES_MAX && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        bool unknown = entry->d_type == DT_UNKNOWN;
        self->entries++;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (entry->d_type == DT_REG || unknown)
            sweep_file(self, fd, name);
        if ((entry->d_type == DT_DIR || unknown) && depth < DEPTH_MAX) {
            int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (below >= 0)
                sweep_dir(self, below, depth + 1);
        }
    }
    closedir(dir);
}

unsigned store_sweep(const store *self) {
    sweep all = {.entries = 0};
    // A description of its own: reading a directory moves its position.
    int fd = openat(self->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        sweep_dir(&all, fd, 0);
    return all.removed;
}
