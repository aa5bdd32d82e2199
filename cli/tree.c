// SPDX-License-Identifier: BSD-3-Clause
//
// See tree.h.  A directory is read to its end when it is entered, so that no position in it has to
// be kept.
#include "cli/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void free_names(tree_names *self) {
    for (size_t i = 0; i < self->count; i++)
        free(self->names[i]);
    free(self->names);
    *self = (tree_names){.count = 0};
}

static bool add_name(tree_names *self, size_t *room, const char *name) {
    if (self->count == *room) {
        size_t more = *room ? 2 * *room : 16;
        char **names = realloc(self->names, more * sizeof *names);
        if (!names)
            return false;
        self->names = names;
        *room = more;
    }
    char *copy = strdup(name);
    if (copy)
        self->names[self->count++] = copy;
    return copy != NULL;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);  // not strcoll, which obeys the locale
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool read_stream(DIR *dir, tree_names *into, size_t most) {
    size_t room = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = into->count < most ? readdir(dir) : NULL;
        if (!entry)
            return errno == 0;
        if (!is_dots(entry->d_name) && !add_name(into, &room, entry->d_name))
            return false;
    }
}

// Reads all names in an open directory.
static bool read_names(int fd, tree_names *into, size_t most) {
    // A description of its own, because reading moves the position; closedir closes it.
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    bool good = dir && read_stream(dir, into, most);
    int error = errno;
    if (dir)
        closedir(dir);
    else if (own >= 0)
        close(own);
    if (good && into->count > 0)
        qsort(into->names, into->count, sizeof *into->names, by_name);
    if (!good)
        free_names(into);
    errno = error;
    return good;
}

// Adds the names in the current directory of the trail as a level.
static bool add_level(tree *self) {
    tree_names found = {.count = 0};
    if (self->depth == self->room) {
        size_t room = self->room ? 2 * self->room : 8;
        tree_names *levels = realloc(self->levels, room * sizeof *levels);
        if (!levels)
            return false;
        self->levels = levels;
        self->room = room;
    }
    if (!read_names(trail_fd(&self->trail), &found, self->left))
        return false;
    self->left -= found.count;
    self->levels[self->depth++] = found;
    return true;
}

bool tree_begin(tree *self, int top, size_t names_max) {
    *self = (tree){.left = names_max};
    if (trail_begin(&self->trail, top) && add_level(self))
        return true;
    int error = errno;
    tree_end(self);
    errno = error;
    return false;
}

void tree_end(tree *self) {
    while (self->depth > 0)
        free_names(&self->levels[--self->depth]);
    free(self->levels);
    self->levels = NULL;
    trail_end(&self->trail);
}

const char *tree_next(tree *self) {
    tree_names *level = &self->levels[self->depth - 1];
    return level->next < level->count ? level->names[level->next++] : NULL;
}

bool tree_enter(tree *self, const char *name) {
    if (!trail_enter(&self->trail, name))
        return false;
    if (add_level(self))
        return true;
    int error = errno;
    (void)trail_leave(&self->trail);  // the one above is still open
    errno = error;
    return false;
}

bool tree_leave(tree *self) {
    free_names(&self->levels[--self->depth]);
    errno = 0;
    return self->depth > 0 && trail_leave(&self->trail);
}
