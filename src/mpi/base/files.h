// SPDX-License-Identifier: BSD-3-Clause
#ifndef WHM_BASE_FILES_H
#define WHM_BASE_FILES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

// whm_may_have_file says whether a file of this process, one in memory too, may have so many bytes.  False: errno is EFBIG; the kernel would end
// the process by SIGXFSZ (RLIMIT_FSIZE, ulimit -f).
static inline bool whm_may_have_file(size_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= size)
        return true;
    errno = EFBIG;
    return false;
}

#endif
