// SPDX-License-Identifier: BSD-3-Clause
//
// Reading the memory of another process of this host, with process_vm_readv: one copy, where memory that both map takes two.
//
// A pid may belong to another process by now, so each process has random bytes at an address that its peers know, and each read takes them along
// as its last piece: the kernel takes hold of the process's memory once for each call, so when they are right all bytes were that process's.
#ifndef WHM_COLL_PEER_H
#define WHM_COLL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A process as others read it.
typedef struct whm_peer {
    int64_t pid;  // 0: nothing can be read, or is to be
    uint64_t at;  // of the random bytes
    uint64_t word[2];
    bool always;  // it is to be read even where that is thought to be slow
} whm_peer;

// whm_peer_self says how others read this process.  WHERRY_SHM_READ may be `never` or `always`.
whm_peer whm_peer_self(void);

// whm_peer_can tries whether a process can be read; whm_peer_read reads: false, and the bytes may have changed.
bool whm_peer_can(const whm_peer *peer);
bool whm_peer_read(const whm_peer *peer, void *to, const void *from, size_t size);

#endif
