// SPDX-License-Identifier: BSD-3-Clause
//
// See ucx_found.h.
#include "cli/ucx_found.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool ucx_found_version(char *version, size_t version_size, char *path, size_t path_size) {
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    // POSIX lets dlsym's pointer be copied into a function's, C itself does not.
    const char *(*get_version)(void) = NULL;
    void *symbol = dlsym(library, "ucp_get_version_string");
    memcpy(&get_version, &symbol, sizeof symbol);
    Dl_info where;
    bool found = symbol && dladdr(symbol, &where) != 0;
    if (found) {
        snprintf(version, version_size, "%s", get_version());
        snprintf(path, path_size, "%s", where.dli_fname);
    }
    dlclose(library);
    return found;
}
