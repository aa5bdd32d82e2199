// SPDX-License-Identifier: BSD-3-Clause
//
// Reading the memory of another process of this host, with process_vm_readv.
//
// A pid alone does not name a process: it may be another's by now, and a process that has called exec
// holds other memory.  So each process has a word, random bytes in a page of its own that a forked
// child finds empty, and each read takes that word along behind the data.  The kernel takes hold of
// the process's memory once per call: when the word is right, all bytes were that process's.
// Whether the kernel allows it (yama, dumpable, seccomp, namespaces) is found out by trying.
// Any thread may call all functions.
#ifndef WHI_NET_SHM_PEER_MEMORY_H
#define WHI_NET_SHM_PEER_MEMORY_H

#include <sys/types.h>

#include "net/lane.h"
#include "net/shm/classes.h"

// A process as its peer reads it.
typedef struct whi_peer_memory {
    pid_t pid;          // 0: nothing can be read
    whi_shm_word word;  // as the peer has told it
} whi_peer_memory;

enum { WHI_PEER_PIECES = WHI_PART_PIECES };  // of one read; less than the kernel's limit

// whi_peer_memory_mine returns this process's word.  WH_ENOMEM, WH_ESYSTEM: it has none.
WH_CHECK wh_status whi_peer_memory_mine(whi_shm_word *word);

// whi_peer_memory_read reads the pieces, each `from` the peer `to` here.  WH_OK: all of them, and they
// were the peer's.  WH_EPERM: the kernel does not allow it.  WH_EAGAIN: not these, or not any more.
// Unless it was WH_OK the destinations hold anything.
WH_CHECK wh_status whi_peer_memory_read(const whi_peer_memory *peer, const whi_piece *pieces,
                                        unsigned count);

#endif
