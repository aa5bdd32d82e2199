// SPDX-License-Identifier: BSD-3-Clause
//
// Files of a folder, read and written as a whole.  Whoever calls waits for the disk.  What fails is logged, with the file's name.
#ifndef WHI_RT_CHARE_DISK_H
#define WHI_RT_CHARE_DISK_H

#include <stdint.h>

#include <wherry/status.h>

#include "base/blob.h"

enum { WHI_DISK_NAME_MAX = 64 };

// whi_disk_read reads a file to the end of `to`.  WH_ENOTFOUND: there is none, which is logged if `must`.  WH_ESYSTEM, WH_ENOMEM.
WH_CHECK wh_status whi_disk_read(const char *folder, const char *name, bool must, whi_blob *to);

// whi_disk_write writes a file under a temporary name, has it reach the disk, and gives it its name: who reads it
// sees what was there before, or all of it.  The folder is made if it does not exist.  WH_ESYSTEM, WH_EINVAL: the name is too long.
WH_CHECK wh_status whi_disk_write(const char *folder, const char *name, const void *data,
                                  size_t size);

void whi_disk_remove(const char *folder, const char *name);  // if it is there

#endif
