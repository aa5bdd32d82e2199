// SPDX-License-Identifier: BSD-3-Clause
#include "rt/chare/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static wh_status failed(const char *what, const char *path) {
    whi_log(WHI_ERROR, "E-CHARE-11", "cannot %s %s: %s", what, path, strerror(errno));
    return WH_ESYSTEM;
}

static bool path_of(char path[PATH_MAX], const char *folder, const char *name, const char *end) {
    int size = snprintf(path, PATH_MAX, "%s/%s%s", folder, name, end);
    if (size > 0 && size < PATH_MAX)
        return true;
    whi_log(WHI_ERROR, "E-CHARE-11", "the name of a checkpoint is too long: %.100s...", folder);
    return false;
}

// ---- Reading.

static wh_status read_all(int fd, size_t size, const char *path, whi_blob *to) {
    uint8_t *at = whi_blob_add(to, size);
    if (!at)
        return WH_ENOMEM;
    while (size) {
        ssize_t got = read(fd, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got ? errno : EIO;  // it has become shorter
            return failed("read", path);
        }
        at += got;
        size -= (size_t)got;
    }
    return WH_OK;
}

wh_status whi_disk_read(const char *folder, const char *name, bool must, whi_blob *to) {
    char path[PATH_MAX];
    struct stat info;
    if (!path_of(path, folder, name, ""))
        return WH_EINVAL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && !must)
        return WH_ENOTFOUND;
    if (fd < 0) {
        bool none = errno == ENOENT;
        return failed("open", path) == WH_ESYSTEM && none ? WH_ENOTFOUND : WH_ESYSTEM;
    }
    wh_status st = WH_OK;
    if (fstat(fd, &info) != 0) {
        st = failed("read", path);
    } else if (!S_ISREG(info.st_mode)) {
        errno = EINVAL;
        st = failed("read", path);
    } else {
        st = read_all(fd, (size_t)info.st_size, path, to);
    }
    close(fd);
    return st;
}

// ---- Writing.

static wh_status write_all(int fd, const uint8_t *data, size_t size, const char *path) {
    while (size) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return failed("write", path);
        data += put;
        size -= (size_t)put;
    }
    return fsync(fd) == 0 ? WH_OK : failed("write", path);
}

static wh_status write_file(const char *path, const void *data, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return failed("make", path);
    wh_status st = write_all(fd, data, size, path);
    if (close(fd) != 0 && st == WH_OK)
        st = failed("write", path);
    return st;
}

// sync_folder has new names in a folder reach the disk.
static wh_status sync_folder(const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed("open", folder);
    wh_status st = fsync(fd) == 0 ? WH_OK : failed("write", folder);
    close(fd);
    return st;
}

wh_status whi_disk_write(const char *folder, const char *name, const void *data, size_t size) {
    char path[PATH_MAX], temporary[PATH_MAX];
    if (!path_of(path, folder, name, "") || !path_of(temporary, folder, name, ".tmp"))
        return WH_EINVAL;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return failed("make the folder", folder);
    wh_status st = write_file(temporary, data, size);
    if (st == WH_OK && rename(temporary, path) != 0)
        st = failed("rename to", path);
    if (st != WH_OK)
        unlink(temporary);
    return st == WH_OK ? sync_folder(folder) : st;
}

void whi_disk_remove(const char *folder, const char *name) {
    char path[PATH_MAX];
    if (path_of(path, folder, name, ""))
        unlink(path);
}
