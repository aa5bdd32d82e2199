// SPDX-License-Identifier: BSD-3-Clause
//
// Whether local processes of one user may read each other's memory here, as lane shm does with large messages.
//
// By trying: a child reads its parent, which yama's ptrace_scope 1 forbids as it forbids a peer, while a
// parent could read its child.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const long word = 0x776865727279;

static int read_parent(pid_t parent) {
    long found = 0;
    struct iovec here = {&found, sizeof found}, there = {(void *)(uintptr_t)&word, sizeof word};
    errno = 0;
    if (process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof found && found == word)
        return 0;
    return errno ? errno : EIO;
}

bool cli_may_read(char *text, size_t size) {
    int status = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        _exit(read_parent(parent));
    bool known = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
    int why = known ? WEXITSTATUS(status) : ECHILD;
    if (why == 0)
        snprintf(text, size, "large messages can be read out of a local peer's memory");
    else
        snprintf(text, size, "the kernel does not let local peers read each other's memory: %s",
                 strerror(why));
    return why == 0;
}
