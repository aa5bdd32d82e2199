// SPDX-License-Identifier: BSD-3-Clause
//
// Whether this machine has an RDMA device: the kernel lists them in one folder, and asking costs a system call where
// loading UCX costs milliseconds.
#include <dirent.h>

#include "net/ucx/ucx.h"

bool whi_ucx_has_rdma(void) {
    DIR *dir = opendir("/sys/class/infiniband");
    if (!dir)
        return false;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(dir));)
        found = entry->d_name[0] != '.';
    closedir(dir);
    return found;
}
