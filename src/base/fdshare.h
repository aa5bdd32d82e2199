// SPDX-License-Identifier: BSD-3-Clause
//
// Descriptors that other processes of the same user may take over, by a name of plain bytes.
//
// The kernel lets a process copy a descriptor of another's by its number (pidfd_getfd) where it lets it read the other's memory.
// But numbers are used again: a pid by another process, or in another namespace, and a descriptor's by another file.
// So each process that shares has a board, a file in memory with random bytes and the ids of what it shares now.  Who takes a
// descriptor copies the board of the same process, too, and looks at it afterwards: if the bytes are right, it is the
// process, and if the id is still there, it was the descriptor.  Ids are taken off before a descriptor is closed, and never
// used again.  Exec closes all of it, and a forked child has none.  Any thread may call all functions.
#ifndef WHI_BASE_FDSHARE_H
#define WHI_BASE_FDSHARE_H

#include <stdint.h>

#include <wherry/status.h>

enum { WHI_FDSHARE_MAX = 64 };  // that a process shares at a time

typedef struct whi_fdshare_name {
    uint64_t id;
    int32_t pid, board, fd;
    uint32_t place;  // of the id on the board
    uint8_t random[24];
} whi_fdshare_name;

// whi_fdshare_add shares `fd`, which is the function's on success.  WH_ENOTFOUND: there is no place left.  WH_ENOMEM,
// WH_ESYSTEM: this process cannot.
WH_CHECK wh_status whi_fdshare_add(int fd, whi_fdshare_name *name);

// whi_fdshare_remove ends that and closes it.  Copies of others stay.
void whi_fdshare_remove(const whi_fdshare_name *name);

// whi_fdshare_take copies a descriptor of another process, or of this one; it closes on exec.  Any bytes may be in the name.
// WH_ENOTSUP: the kernel does not let us, or no such process is to be seen from here.  WH_ENOTFOUND: it is not shared any more.
WH_CHECK wh_status whi_fdshare_take(const whi_fdshare_name *name, int *fd);

#endif
