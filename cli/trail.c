// SPDX-License-Identifier: BSD-3-Clause
//
// See trail.h.
#include "cli/trail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { OPEN = 2 };  // directories that stay open: files of two alternate while a tree is walked

static bool make_room(trail *self) {
    if (self->depth < self->room)
        return true;
    size_t room = self->room ? 2 * self->room : 8;
    trail_dir *dirs = realloc(self->dirs, room * sizeof *dirs);
    if (!dirs)
        return false;
    self->dirs = dirs;
    self->room = room;
    return true;
}

static void close_dir(trail_dir *dir) {
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = -1;
}

// Adds an open directory, which it takes over.
static bool add(trail *self, int fd) {
    trail_dir dir = {.fd = fd};
    if (fstat(fd, &dir.st) != 0 || !make_room(self)) {
        int error = errno;
        close(fd);
        errno = error;
        return false;
    }
    if (self->depth >= OPEN)
        close_dir(&self->dirs[self->depth - OPEN]);
    self->dirs[self->depth++] = dir;
    return true;
}

bool trail_begin(trail *self, int top) {
    *self = (trail){.depth = 0};
    return add(self, top);
}

void trail_end(trail *self) {
    for (size_t i = 0; i < self->depth; i++)
        close_dir(&self->dirs[i]);
    free(self->dirs);
    *self = (trail){.depth = 0};
}

int trail_fd(const trail *self) {
    return self->dirs[self->depth - 1].fd;
}

const struct stat *trail_stat(const trail *self) {
    return &self->dirs[self->depth - 1].st;
}

bool trail_enter(trail *self, const char *leaf) {
    int fd = openat(trail_fd(self), leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && add(self, fd);
}

// Opens the directory above the current one, if it is still the one that it was.
static bool find_again(const trail_dir *current, trail_dir *above) {
    struct stat st;
    int fd = openat(current->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_dev == above->st.st_dev && st.st_ino == above->st.st_ino) {
        above->fd = fd;
        return true;
    }
    close(fd);
    errno = ESTALE;
    return false;
}

bool trail_leave(trail *self) {
    trail_dir *current = &self->dirs[self->depth - 1], *above = current - 1;
    if (above->fd < 0 && !find_again(current, above)) {
        int error = errno;
        trail_end(self);
        errno = error;
        return false;
    }
    close_dir(current);
    self->depth--;
    return true;
}
