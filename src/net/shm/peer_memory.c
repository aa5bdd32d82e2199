// SPDX-License-Identifier: BSD-3-Clause
//
// The word of this process, and reads of other processes' memory; see peer_memory.h.
#include "net/shm/peer_memory.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/fork.h"
#include "base/rng.h"

static void forget_in_child(void *arg);

static struct {
    pthread_mutex_t lock;
    bool watches_fork;
    bool made;  // the word is in the page
    whi_fork_node fork;
    whi_shm_word *page;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER, .fork = {.fn = forget_in_child}};

// A child has the page, empty, and makes a word of its own when it needs one.
static void forget_in_child(void *arg) {
    (void)arg;
    process.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    process.watches_fork = false;
    process.made = false;
}

// With the lock held.
static wh_status make_page(void) {
    const size_t size = 4096;
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return WH_ENOMEM;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return WH_ESYSTEM;  // a child would pass for this process
    }
    process.page = page;
    return WH_OK;
}

// With the lock held.
static wh_status make_word(void) {
    if (!process.watches_fork && whi_fork_register(&process.fork) != WH_OK)
        return WH_ENOMEM;
    process.watches_fork = true;
    wh_status status = process.page ? WH_OK : make_page();
    whi_shm_word word = {.address = (uint64_t)(uintptr_t)process.page};
    if (status == WH_OK)
        status = whi_random_bytes(word.random, sizeof(word.random));
    if (status != WH_OK)
        return status;
    *process.page = word;
    process.made = true;
    return WH_OK;
}

wh_status whi_peer_memory_mine(whi_shm_word *word) {
    pthread_mutex_lock(&process.lock);
    wh_status status = process.made ? WH_OK : make_word();
    if (status == WH_OK)
        *word = *process.page;
    pthread_mutex_unlock(&process.lock);
    return status;
}

static struct iovec part(uint64_t at, uint64_t size) {
    return (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = size};
}

wh_status whi_peer_memory_read(const whi_peer_memory *peer, const whi_piece *pieces,
                               unsigned count) {
    struct iovec here[WHI_PEER_PIECES + 1], there[WHI_PEER_PIECES + 1];
    if (!peer->pid || count > WHI_PEER_PIECES)
        return WH_EAGAIN;
    unsigned others =
        0;  // each costs the kernel a look at the peer's pages, so that neighbours are one
    for (unsigned i = 0; i < count; i++) {
        here[i] = part((uint64_t)(uintptr_t)pieces[i].to, pieces[i].size);
        if (i && pieces[i - 1].from + pieces[i - 1].size == pieces[i].from)
            there[others - 1].iov_len += pieces[i].size;
        else
            there[others++] = part(pieces[i].from, pieces[i].size);
    }
    // Last: a call that could not read all that stands before it does not come to it.
    whi_shm_word found = {0};
    here[count] = part((uint64_t)(uintptr_t)&found, sizeof(found));
    there[others] = part(peer->word.address, sizeof(found));
    ssize_t got = process_vm_readv(peer->pid, here, count + 1, there, others + 1, 0);
    if (got < 0)
        return errno == EPERM || errno == ENOSYS ? WH_EPERM : WH_EAGAIN;
    return memcmp(&found, &peer->word, sizeof(found)) == 0 ? WH_OK : WH_EAGAIN;
}
