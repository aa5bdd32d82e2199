// SPDX-License-Identifier: BSD-3-Clause
//
// See walk.h.  Only a link that was named itself is followed; one below a directory is an entry of its own, and one that would lead out of
// what is sent is left out, because the receiver would refuse it.
#include "cli/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool walk_entry(const walk *self, const char *path, const char *name, bool follow);

static int64_t time_of(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool visit(const walk *self, const char *path, const char *name, const char *target,
                  transfer_kind kind, const struct stat *st) {
    transfer_entry *entry = calloc(1, sizeof *entry);
    if (!entry) {
        self->skip(path, "out of memory", true, self->arg);
        return false;
    }
    entry->head.kind = (uint8_t)kind;
    entry->head.mode = st->st_mode & 0777;
    entry->head.size = kind == TRANSFER_FILE ? (uint64_t)st->st_size : 0;
    entry->head.mtime_ns = time_of(st);
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->target, sizeof entry->target, "%s", target);
    bool go_on = self->visit(entry, path, self->arg);
    free(entry);
    return go_on;
}

static bool walk_link(const walk *self, const char *path, const char *name, const struct stat *st) {
    char target[TRANSFER_NAME_MAX + 1];
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size < 0) {
        self->skip(path, strerror(errno), true, self->arg);
        return true;
    }
    target[size] = '\0';
    if (transfer_target_is_safe(name, target))
        return visit(self, path, name, target, TRANSFER_LINK, st);
    self->skip(path, "the link leads out of what is sent", false, self->arg);
    return true;
}

static int not_dots(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);  // not alphasort, which obeys the locale
}

static bool walk_dir(const walk *self, const char *path, const char *name, const struct stat *st) {
    struct dirent **found;
    int count = scandir(path, &found, not_dots, by_name);
    if (count < 0) {
        self->skip(path, strerror(errno), true, self->arg);
        return true;
    }
    bool go_on = visit(self, path, name, "", TRANSFER_DIR, st);
    for (int i = 0; i < count; i++) {
        char below[PATH_MAX], below_name[PATH_MAX];
        int a = snprintf(below, sizeof below, "%s/%s", path, found[i]->d_name);
        int b = snprintf(below_name, sizeof below_name, "%s/%s", name, found[i]->d_name);
        if (go_on && (a >= PATH_MAX || b > TRANSFER_NAME_MAX))
            self->skip(path, "a name in it is too long", true, self->arg);
        else if (go_on)
            go_on = walk_entry(self, below, below_name, false);
        free(found[i]);
    }
    free(found);
    return go_on && visit(self, path, name, "", TRANSFER_LEAVE, st);
}

static bool walk_entry(const walk *self, const char *path, const char *name, bool follow) {
    struct stat st;
    if (fstatat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
        self->skip(path, strerror(errno), true, self->arg);
        return true;
    }
    if (S_ISREG(st.st_mode))
        return visit(self, path, name, "", TRANSFER_FILE, &st);
    if (S_ISDIR(st.st_mode))
        return walk_dir(self, path, name, &st);
    if (S_ISLNK(st.st_mode))
        return walk_link(self, path, name, &st);
    self->skip(path, "it is neither file, directory nor link", false, self->arg);
    return true;
}

bool walk_base_name(const char *path, char *name, size_t size) {
    char real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    // "dir/", "." and ".." have no name of their own.
    if (*base == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        if (!realpath(path, real))
            return false;
        base = strrchr(real, '/') + 1;
    }
    return *base && snprintf(name, size, "%s", base) < (int)size;
}

bool walk_path(const walk *self, const char *path) {
    char name[NAME_MAX + 1];
    if (!walk_base_name(path, name, sizeof name)) {
        self->skip(path, "it has no name to send it under", true, self->arg);
        return true;
    }
    return walk_entry(self, path, name, true);
}
