// SPDX-License-Identifier: BSD-3-Clause
//
// See source.h.
#include "cli/source.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    UNTOLD_MAX = 256 << 20,  // bytes of a file that says it is empty; they are kept in memory
};

// Reads until there is enough, or the file ends.  -1 with errno.
static ssize_t read_full(int fd, void *to, size_t size) {
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, (char *)to + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static bool write_full(int fd, const char *from, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(fd, from, size);
        if (wrote < 0)
            return false;
        from += wrote;
        size -= (size_t)wrote;
    }
    return true;
}

// Copies what is left of a file behind `first` bytes that were read already.
static const char *copy_to(int copy, source *self, char *bytes, size_t room, ssize_t first) {
    for (ssize_t got = first; got != 0; got = read_full(self->fd, bytes, room)) {
        if (got < 0 || !write_full(copy, bytes, (size_t)got))
            return strerror(errno);
        self->size += (size_t)got;
        if (self->size > UNTOLD_MAX)
            return "it says that it is empty, but holds more than 256 MiB";
    }
    return lseek(copy, 0, SEEK_SET) == 0 ? NULL : strerror(errno);
}

// A file that says it is empty: when it is not, a copy in memory takes its place.
static const char *look_closer(source *self) {
    char bytes[64 << 10];
    ssize_t first = read_full(self->fd, bytes, sizeof bytes);
    if (first <= 0)
        return first < 0 ? strerror(errno) : NULL;
    int copy = memfd_create("wherry-send", MFD_CLOEXEC);
    if (copy < 0)
        return strerror(errno);
    const char *why = copy_to(copy, self, bytes, sizeof bytes, first);
    close(self->fd);
    self->fd = copy;
    return why;
}

const char *source_open(source *self, const walk_at *at, uint64_t size) {
    struct stat st;
    *self = (source){.fd = walk_open(at), .size = size};
    if (self->fd < 0 || fstat(self->fd, &st) != 0)
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "something else than a file has taken its place";
    return size == 0 ? look_closer(self) : NULL;
}

void source_close(source *self) {
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}

const char *source_read(source *self, void *to, size_t room, size_t *got) {
    uint64_t left = self->size - self->at;
    size_t size = left < room ? (size_t)left : room;
    ssize_t have = read_full(self->fd, to, size);
    if (have < 0)
        return strerror(errno);
    if ((size_t)have < size && self->at > 0)
        return "it became shorter while it was sent";
    if ((size_t)have < size)
        self->size = (uint64_t)have;  // nobody has been told yet
    self->at += (uint64_t)have;
    *got = (size_t)have;
    return NULL;
}
