// SPDX-License-Identifier: BSD-3-Clause
//
// See walk.h.  Only a link that was named itself is followed; one below a directory is an entry of
// its own, and one that would lead out of what is sent is left out, because the receiver would
// refuse it.
#include "cli/walk.h"

#include "cli/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// One walk under way: where it is, as the receiver names it and as messages do.
typedef struct walker {
    const walk *to;
    tree tree;    // without a level: no directory has been entered
    bool go_on;   // `visit` wants more
    size_t base;  // entry.name behind it stands in `path` behind `top`
    size_t top;
    char *path;
    transfer_entry entry;
} walker;

static void skip(walker *self, const char *why, bool failed) {
    self->to->skip(self->path, why, failed, self->to->arg);
}

static int64_t time_of(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static void visit(walker *self, const walk_at *at, transfer_kind kind, const struct stat *st) {
    transfer_entry *entry = &self->entry;
    entry->head = (transfer_head){.kind = (uint8_t)kind, .mode = st->st_mode & 0777};
    entry->head.size = kind == TRANSFER_FILE ? (uint64_t)st->st_size : 0;
    entry->head.mtime_ns = time_of(st);
    if (kind != TRANSFER_LINK)
        entry->target[0] = '\0';
    self->go_on = self->to->visit(entry, at, self->to->arg);
}

static void walk_link(walker *self, const walk_at *at, const struct stat *st) {
    char *target = self->entry.target;
    ssize_t size = readlinkat(at->parent, at->leaf, target, TRANSFER_TARGET_MAX);
    if (size < 0) {
        skip(self, strerror(errno), true);
        return;
    }
    target[size] = '\0';
    if (transfer_target_is_safe(self->entry.name, target))
        visit(self, at, TRANSFER_LINK, st);
    else
        skip(self, "the link leads out of what is sent", false);
}

// Names what is in the current directory, behind the names of that.  False when it is too long.
static bool append(walker *self, const char *leaf) {
    size_t length = strlen(self->entry.name), more = strlen(leaf);
    if (length + 1 + more > TRANSFER_NAME_MAX)
        return false;
    self->entry.name[length] = '/';
    memcpy(self->entry.name + length + 1, leaf, more + 1);
    memcpy(self->path + self->top + (length - self->base), self->entry.name + length, more + 2);
    return true;
}

static void cut(walker *self) {
    char *slash = strrchr(self->entry.name, '/');
    *slash = '\0';
    self->path[self->top + ((size_t)(slash - self->entry.name) - self->base)] = '\0';
}

static bool enter_top(walker *self, const walk_at *at) {
    int top = openat(at->parent, at->leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top >= 0 && tree_begin(&self->tree, top, SIZE_MAX);
}

// Goes on with what is in a directory, after saying that there is one.
static bool walk_dir(walker *self, const walk_at *at) {
    if (!(at->follow ? enter_top(self, at) : tree_enter(&self->tree, at->leaf))) {
        skip(self, strerror(errno), true);
        return false;
    }
    visit(self, at, TRANSFER_DIR, trail_stat(&self->tree.trail));
    return true;
}

static const char *odd_kind(mode_t mode) {
    if (S_ISFIFO(mode))
        return "it is a pipe, not a file: send a file that holds what comes out of it";
    return S_ISSOCK(mode) ? "it is a socket, not a file" : "it is a device, not a file";
}

// True when it was a directory and has been entered.
static bool walk_entry(walker *self, const walk_at *at) {
    struct stat st;
    if (fstatat(at->parent, at->leaf, &st, at->follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
        skip(self, strerror(errno), true);
    else if (S_ISREG(st.st_mode))
        visit(self, at, TRANSFER_FILE, &st);
    else if (S_ISDIR(st.st_mode))
        return walk_dir(self, at);
    else if (S_ISLNK(st.st_mode))
        walk_link(self, at, &st);
    else
        skip(self, odd_kind(st.st_mode), at->follow);  // who named it meant it
    return false;
}

// The end of the current directory.  Its mode and time go to the receiver once more.
static void leave(walker *self) {
    struct stat st = *trail_stat(&self->tree.trail);
    walk_at at = {.parent = -1, .leaf = "", .path = self->path};
    visit(self, &at, TRANSFER_LEAVE, &st);
    bool below = self->tree.depth > 1;
    if (!tree_leave(&self->tree)) {
        if (below)
            skip(self, "it was moved while it was read: what follows it is not sent", true);
        tree_end(&self->tree);
        return;
    }
    cut(self);
}

static void walk_next(walker *self) {
    const char *leaf = tree_next(&self->tree);
    if (!leaf) {
        leave(self);
        return;
    }
    if (!append(self, leaf)) {
        skip(self, "a name in it is too long", true);
        return;
    }
    walk_at at = {.parent = trail_fd(&self->tree.trail), .leaf = leaf, .path = self->path};
    if (!walk_entry(self, &at))
        cut(self);
}

bool walk_path(const walk *self, const char *path) {
    size_t length = strlen(path);
    walker *all = calloc(1, sizeof *all);
    char *text = malloc(length + TRANSFER_NAME_MAX + 2);
    bool go_on = true;
    if (!all || !text) {
        self->skip(path, "out of memory", true, self->arg);
    } else if (!walk_base_name(path, all->entry.name, NAME_MAX + 1)) {
        self->skip(path, "it has no name to send it under", true, self->arg);
    } else {
        memcpy(text, path, length + 1);
        all->to = self;
        all->path = text;
        all->top = length;
        all->base = strlen(all->entry.name);
        all->go_on = true;
        walk_at at = {.parent = AT_FDCWD, .leaf = path, .path = text, .follow = true};
        (void)walk_entry(all, &at);
        while (all->go_on && all->tree.depth > 0)
            walk_next(all);
        go_on = all->go_on;
        tree_end(&all->tree);
    }
    free(text);
    free(all);
    return go_on;
}

int walk_open(const walk_at *at) {
    int follow = at->follow ? 0 : O_NOFOLLOW;
    return openat(at->parent, at->leaf, O_RDONLY | O_CLOEXEC | O_NONBLOCK | follow);
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
