// SPDX-License-Identifier: BSD-3-Clause
//
// See store.h.
#include "cli/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FOLLOW_NOTHING = O_NOFOLLOW | O_CLOEXEC,
    TRIES = 4096,  // of temporary names; another container's receiver of our number has a few
};

static const char *because(void) {
    return strerror(errno);
}

const char *store_open(store *self, const char *path) {
    self->serial = 0;
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return because();
    self->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return self->root < 0 ? because() : NULL;
}

void store_close(store *self) {
    close(self->root);
    self->root = -1;
}

void store_place_init(store_place *self, store *to) {
    self->store = to;
    self->trail = (trail){.depth = 0};
    self->way[0] = '\0';
}

void store_place_fini(store_place *self) {
    trail_end(&self->trail);
}

// Goes back to the top of the directory.
static bool go_to_top(store_place *self) {
    trail_end(&self->trail);
    self->way[0] = '\0';
    int top = fcntl(self->store->root, F_DUPFD_CLOEXEC, 0);
    return top >= 0 && trail_begin(&self->trail, top);
}

// Goes up to the deepest directory that is on the way to `name` too, whose first `length` bytes
// count.
static bool go_up(store_place *self, const char *name, size_t length) {
    size_t have;
    while ((have = strlen(self->way)) > 0) {
        if (have <= length && memcmp(self->way, name, have) == 0 &&
            (have == length || name[have] == '/'))
            return true;
        char *slash = strrchr(self->way, '/');
        if (!trail_leave(&self->trail))
            return go_to_top(self);
        *(slash ? slash : self->way) = '\0';
    }
    return self->trail.depth > 0 || go_to_top(self);
}

// Makes the directory that `name` lies in the current one of the place, and copies the last
// component.
static const char *go_to_parent(store_place *self, const char *name, char leaf[256]) {
    if (!transfer_name_is_safe(name))
        return "its name leads out of the directory or is not a name";
    const char *last = strrchr(name, '/');
    size_t length = last ? (size_t)(last - name) : 0;
    if (!go_up(self, name, length))
        return because();
    size_t have = strlen(self->way);
    while (have < length) {
        size_t from = have + (have > 0);
        size_t size = strcspn(name + from, "/");
        snprintf(leaf, 256, "%.*s", (int)size, name + from);
        if (!trail_enter(&self->trail, leaf))
            return because();
        have = from + size;
        memcpy(self->way, name, have);
        self->way[have] = '\0';
    }
    snprintf(leaf, 256, "%s", last ? last + 1 : name);
    return NULL;
}

// Sets the time of an open file (`name` NULL), or of a link in a directory.  A time that the file
// system cannot hold is no reason to lose the file.
static void set_time(int fd, const char *name, int64_t mtime_ns) {
    int64_t seconds = mtime_ns / 1000000000, rest = mtime_ns % 1000000000;
    if (rest < 0) {
        seconds--;
        rest += 1000000000;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {(time_t)seconds, (long)rest}};
    (void)(name ? utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW) : futimens(fd, times));
}

const char *store_dir(store_place *at, const transfer_entry *entry) {
    struct stat st;
    char leaf[256];
    const char *why = go_to_parent(at, entry->name, leaf);
    if (why)
        return why;
    int parent = trail_fd(&at->trail);
    // Its own mode comes when it is left: it may forbid writing into it.
    if (mkdirat(parent, leaf, 0700) == 0)
        return NULL;
    if (errno != EEXIST || fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return because();
    if (S_ISDIR(st.st_mode))
        return NULL;
    return S_ISLNK(st.st_mode) ? "a link has that name, and nothing goes through links"
                               : "something else has that name";
}

const char *store_leave(store_place *at, const transfer_entry *entry) {
    char leaf[256];
    const char *why = go_to_parent(at, entry->name, leaf);
    if (why)
        return why;
    int fd = openat(trail_fd(&at->trail), leaf, O_RDONLY | O_DIRECTORY | FOLLOW_NOTHING);
    if (fd < 0 || fchmod(fd, entry->head.mode & 0777) != 0)
        why = because();
    if (fd >= 0) {
        set_time(fd, NULL, entry->head.mtime_ns);
        close(fd);
    }
    return why;
}

static void name_temporary(store *self, char *text, size_t size) {
    snprintf(text, size, ".wherry-%d-%u.part", (int)getpid(), self->serial++);
}

// Makes a link of a temporary name that nobody has.
static bool make_link(store *self, int parent, const char *target, char *name, size_t size) {
    for (int i = 0; i < TRIES; i++) {
        name_temporary(self, name, size);
        if (symlinkat(target, parent, name) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

const char *store_link(store_place *at, const transfer_entry *entry) {
    char leaf[256], temporary[64];
    if (!transfer_target_is_safe(entry->name, entry->target))
        return "the link leads out of the directory";
    const char *why = go_to_parent(at, entry->name, leaf);
    if (why)
        return why;
    int parent = trail_fd(&at->trail);
    if (!make_link(at->store, parent, entry->target, temporary, sizeof temporary))
        return because();
    set_time(parent, temporary, entry->head.mtime_ns);
    if (renameat(parent, temporary, parent, leaf) != 0) {
        why = because();
        unlinkat(parent, temporary, 0);
    }
    return why;
}

// Locks a file that was just made, so that no store_sweep takes it for one that was left.  False
// when one has come first.  Where there are no locks, nothing is swept either.
static bool is_ours(int fd) {
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

// Makes a file of a temporary name that nobody has; -1 with errno.
static int make_file(store *self, int parent, char *name, size_t size) {
    for (int i = 0; i < TRIES; i++) {
        name_temporary(self, name, size);
        int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | FOLLOW_NOTHING, 0600);
        if (fd >= 0 && is_ours(fd))
            return fd;
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd >= 0)
            close(fd);
    }
    errno = EEXIST;
    return -1;
}

const char *store_begin(store_place *at, const transfer_entry *entry, store_file *file) {
    file->fd = -1;
    const char *why = go_to_parent(at, entry->name, file->leaf);
    if (why)
        return why;
    file->parent = fcntl(trail_fd(&at->trail), F_DUPFD_CLOEXEC, 0);
    if (file->parent < 0)
        return because();
    file->fd = make_file(at->store, file->parent, file->temporary, sizeof file->temporary);
    if (file->fd < 0) {
        why = because();
        close(file->parent);
    }
    return why;
}

const char *store_write(store_file *file, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t wrote = write(file->fd, at, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return because();
        at += wrote;
        size -= (size_t)wrote;
    }
    return NULL;
}

const char *store_finish(store_file *file, const transfer_entry *entry) {
    const char *why = NULL;
    set_time(file->fd, NULL, entry->head.mtime_ns);
    // Never set-user-id: the files belong to whoever receives them.
    if (fchmod(file->fd, entry->head.mode & 0777) != 0 ||
        renameat(file->parent, file->temporary, file->parent, file->leaf) != 0)
        why = because();
    if (why) {
        store_drop(file);
        return why;
    }
    close(file->fd);
    close(file->parent);
    file->fd = -1;
    return NULL;
}

void store_drop(store_file *file) {
    if (file->fd < 0)
        return;
    unlinkat(file->parent, file->temporary, 0);
    close(file->fd);
    close(file->parent);
    file->fd = -1;
}
