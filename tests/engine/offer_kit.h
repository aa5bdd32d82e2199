// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of offers: process_vm_readv as the library calls it, watched, and with something that happens at its end.
//
// The program's own function is taken before the C library's.
#ifndef ENGINE_OFFER_KIT_H
#define ENGINE_OFFER_KIT_H

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "engine/test_kit.h"
#include "net/shm/shm_lane.h"

static unsigned kit_reads;          // of payloads
static int kit_errno;               // what they fail with; 0: they do not
static void (*kit_read_end)(void);  // called once, when the next one has its bytes

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long count,
                         const struct iovec *there, unsigned long there_count,
                         unsigned long flags) {
    bool payload = count > 1;
    kit_reads += payload;
    if (payload && kit_errno) {
        errno = kit_errno;
        return -1;
    }
    ssize_t n = syscall(SYS_process_vm_readv, pid, here, count, there, there_count, flags);
    void (*end)(void) = payload ? kit_read_end : NULL;
    if (end) {
        kit_read_end = NULL;
        end();
    }
    return n;
}

static const char *const kit_reading[] = {"lanes=shm", "shm_read=always", NULL};

// kit_can_read says whether this process may read its own memory so.
__attribute__((unused)) static bool kit_can_read(void) {
    int from = 1, to = 0;
    struct iovec here = {&to, sizeof(to)}, there = {&from, sizeof(from)};
    return syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0L) == sizeof(to);
}

__attribute__((unused)) static bool kit_sends_by_ring(const whi_link *link) {
    return link->fast && link->tx == link->fast && link->rx == link->fast;
}

__attribute__((unused)) static bool kit_reads_by(const whi_link *link) {
    const whi_shm *lane = (const whi_shm *)(const void *)link->fast;
    return kit_sends_by_ring(link) && lane->offers && lane->fetcher.peer.word.address;
}

// kit_join goes on until both ends of a pair send through their rings and know each other's memory.

__attribute__((unused)) static void kit_join(duo *d) {
    UNTIL(d, kit_reads_by(d->to->link) && kit_reads_by(d->from->link));
}

#endif
