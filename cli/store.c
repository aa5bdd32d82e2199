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

enum { FOLLOW_NOTHING = O_NOFOLLOW | O_CLOEXEC };

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

// Opens the directory that `name` lies in and copies its last component.
static const char *open_parent(const store *self, const char *name, int *parent, char leaf[256]) {
    if (!transfer_name_is_safe(name))
        return "its name leads out of the directory or is not a name";
    int at = fcntl(self->root, F_DUPFD_CLOEXEC, 0);
    const char *slash;
    while (at >= 0 && (slash = strchr(name, '/'))) {
        snprintf(leaf, 256, "%.*s", (int)(slash - name), name);
        int below = openat(at, leaf, O_RDONLY | O_DIRECTORY | FOLLOW_NOTHING);
        int error = errno;
        close(at);
        errno = error;
        at = below;
        name = slash + 1;
    }
    if (at < 0)
        return because();
    snprintf(leaf, 256, "%s", name);
    *parent = at;
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

const char *store_dir(store *self, const transfer_entry *entry) {
    struct stat st;
    char leaf[256];
    int parent;
    const char *why = open_parent(self, entry->name, &parent, leaf);
    if (why)
        return why;
    // Its own mode comes when it is left: it may forbid writing into it.
    if (mkdirat(parent, leaf, 0700) != 0) {
        bool there = errno == EEXIST && fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!there)
            why = because();
        else if (!S_ISDIR(st.st_mode))
            why = S_ISLNK(st.st_mode) ? "a link has that name, and nothing goes through links"
                                      : "something else has that name";
    }
    close(parent);
    return why;
}

const char *store_leave(store *self, const transfer_entry *entry) {
    char leaf[256];
    int parent;
    const char *why = open_parent(self, entry->name, &parent, leaf);
    if (why)
        return why;
    int fd = openat(parent, leaf, O_RDONLY | O_DIRECTORY | FOLLOW_NOTHING);
    if (fd < 0 || fchmod(fd, entry->head.mode & 0777) != 0)
        why = because();
    if (fd >= 0) {
        set_time(fd, NULL, entry->head.mtime_ns);
        close(fd);
    }
    close(parent);
    return why;
}

static void name_temporary(store *self, char *text, size_t size) {
    snprintf(text, size, ".wherry-%d-%u.part", (int)getpid(), self->serial++);
}

const char *store_link(store *self, const transfer_entry *entry) {
    char leaf[256], temporary[64];
    int parent;
    if (!transfer_target_is_safe(entry->name, entry->target))
        return "the link leads out of the directory";
    const char *why = open_parent(self, entry->name, &parent, leaf);
    if (why)
        return why;
    name_temporary(self, temporary, sizeof temporary);
    if (symlinkat(entry->target, parent, temporary) != 0) {
        close(parent);
        return because();
    }
    set_time(parent, temporary, entry->head.mtime_ns);
    if (renameat(parent, temporary, parent, leaf) != 0) {
        why = because();
        unlinkat(parent, temporary, 0);
    }
    close(parent);
    return why;
}

const char *store_begin(store *self, const transfer_entry *entry, store_file *file) {
    const char *why = open_parent(self, entry->name, &file->parent, file->leaf);
    if (why)
        return why;
    name_temporary(self, file->temporary, sizeof file->temporary);
    file->fd =
        openat(file->parent, file->temporary, O_WRONLY | O_CREAT | O_EXCL | FOLLOW_NOTHING, 0600);
    if (file->fd < 0) {
        why = because();
        close(file->parent);
        return why;
    }
    // The lock tells store_sweep, also that of another host or container, that somebody writes here.
    (void)flock(file->fd, LOCK_EX | LOCK_NB);
    return NULL;
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
