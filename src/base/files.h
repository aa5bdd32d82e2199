// SPDX-License-Identifier: BSD-3-Clause
//
// Reading and writing as much as was asked for, of files and pipes that block; and the size of a file.
#ifndef WHI_BASE_FILES_H
#define WHI_BASE_FILES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

// whi_read_all reads `size` bytes.  False: there are fewer, or an error in errno.
static inline bool whi_read_all(int fd, void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, (char *)data + at, size - at);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

// whi_write_all writes `size` bytes.  False: not all of them could be.
static inline bool whi_write_all(int fd, const void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, (const char *)data + at, size - at);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

// whi_may_have_file says whether a file of this process, one in memory too, may have so many bytes.  False: errno is EFBIG; the kernel would end
// the process by SIGXFSZ (RLIMIT_FSIZE, ulimit -f).
static inline bool whi_may_have_file(size_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= size)
        return true;
    errno = EFBIG;
    return false;
}

// whi_resize gives a file a size.  False: errno says why.
static inline bool whi_resize(int fd, size_t size) {
    return whi_may_have_file(size) && ftruncate(fd, (off_t)size) == 0;
}

#endif
