// SPDX-License-Identifier: BSD-3-Clause
//
// Which UCX a program would find at run time; Wherry is never linked to one.
#ifndef CLI_UCX_FOUND_H
#define CLI_UCX_FOUND_H

#include <stdbool.h>
#include <stddef.h>

// ucx_found_version loads libucp as the dynamic linker finds it (LD_LIBRARY_PATH names a wheel's), and
// writes its version and path.  False when there is none.
bool ucx_found_version(char *version, size_t version_size, char *path, size_t path_size);

#endif
