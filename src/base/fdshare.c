// SPDX-License-Identifier: BSD-3-Clause
//
// Sharing descriptors by name, see fdshare.h.
#include "base/fdshare.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files.h"
#include "base/fork.h"
#include "base/rng.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

typedef struct board {
    uint8_t random[24];
    _Atomic uint64_t ids[WHI_FDSHARE_MAX];  // 0: none
} board;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static board *ours;            // NULL: not made
static uint8_t random_of[24];  // as on the board
static uint64_t last_id;
static bool watches_fork;
// For a child, which finds them whole whatever another thread was doing: descriptors + 1, 0: none.
static _Atomic int board_file, files[WHI_FDSHARE_MAX];

static void close_in_child(void *arg) {
    (void)arg;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < WHI_FDSHARE_MAX; i++) {
        int file = atomic_exchange(&files[i], 0);
        if (file)
            close(file - 1);
    }
    int file = atomic_exchange(&board_file, 0);
    if (file)
        close(file - 1);
    ours = NULL;  // the mapping is the parent's board; the child writes to one of its own
    watches_fork = false;
}

static whi_fork_node fork_node = {.fn = close_in_child};

// Under the lock.
static wh_status make_board(void) {
    if (ours)
        return WH_OK;
    if (!watches_fork && whi_fork_register(&fork_node) != WH_OK)
        return WH_ENOMEM;
    watches_fork = true;
    wh_status status = whi_random_bytes(random_of, sizeof(random_of));
    int file = status == WH_OK ? memfd_create("wherry-shared", MFD_CLOEXEC) : -1;
    if (file < 0)
        return WH_ESYSTEM;
    void *page = MAP_FAILED;
    if (whi_resize(file, sizeof(board)))
        page = mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        close(file);
        return WH_ENOMEM;
    }
    ours = page;
    memcpy(ours->random, random_of, sizeof(random_of));
    atomic_store(&board_file, file + 1);
    return WH_OK;
}

// Under the lock.
static wh_status add(int fd, whi_fdshare_name *name) {
    wh_status status = make_board();
    if (status != WH_OK)
        return status;
    uint32_t place = 0;
    while (place < WHI_FDSHARE_MAX && atomic_load(&files[place]))
        place++;
    if (place == WHI_FDSHARE_MAX)
        return WH_ENOTFOUND;
    *name = (whi_fdshare_name){.id = ++last_id,
                               .pid = getpid(),
                               .board = atomic_load(&board_file) - 1,
                               .fd = fd,
                               .place = place};
    memcpy(name->random, random_of, sizeof(random_of));
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    atomic_store(&files[place], fd + 1);
    atomic_store(&ours->ids[place], name->id);
    return WH_OK;
}

wh_status whi_fdshare_add(int fd, whi_fdshare_name *name) {
    pthread_mutex_lock(&lock);
    wh_status status = add(fd, name);
    pthread_mutex_unlock(&lock);
    return status;
}

void whi_fdshare_remove(const whi_fdshare_name *name) {
    pthread_mutex_lock(&lock);
    // In a forked child there is no board, and the descriptor is closed.
    if (ours && atomic_load(&ours->ids[name->place]) == name->id) {
        atomic_store(&ours->ids[name->place], 0);  // before its number can be another's
        atomic_store(&files[name->place], 0);
        close(name->fd);
    }
    pthread_mutex_unlock(&lock);
}

// ---- Taking.

// check looks at a board that was copied after the descriptor.
static wh_status check(int file, const whi_fdshare_name *name) {
    uint8_t random[sizeof(name->random)];
    uint64_t id = 0;
    off_t at = (off_t)(offsetof(board, ids) + name->place * sizeof(id));
    // Only files in memory have seals; others could let us wait.
    if (fcntl(file, F_GET_SEALS) < 0 ||
        pread(file, random, sizeof(random), 0) != (ssize_t)sizeof(random) ||
        memcmp(random, name->random, sizeof(random)) != 0)
        return WH_ENOTSUP;
    if (pread(file, &id, sizeof(id), at) != (ssize_t)sizeof(id) || id != name->id)
        return WH_ENOTFOUND;
    return WH_OK;
}

static int copy_of(int process, int fd) {
    return (int)syscall(SYS_pidfd_getfd, process, fd, 0);
}

wh_status whi_fdshare_take(const whi_fdshare_name *name, int *fd) {
    if (name->pid <= 0 || name->board < 0 || name->fd < 0 || name->place >= WHI_FDSHARE_MAX ||
        !name->id)
        return WH_ENOTSUP;
    int process = (int)syscall(SYS_pidfd_open, name->pid, 0);
    if (process < 0)
        return WH_ENOTSUP;
    int taken = copy_of(process, name->fd);  // both are close-on-exec by nature
    int file = copy_of(process, name->board);
    wh_status status = file < 0 ? WH_ENOTSUP : check(file, name);
    if (status == WH_OK && taken < 0)
        status = WH_ENOTFOUND;
    if (file >= 0)
        close(file);
    close(process);
    if (status == WH_OK)
        *fd = taken;
    else if (taken >= 0)
        close(taken);
    return status;
}
