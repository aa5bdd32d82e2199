// SPDX-License-Identifier: BSD-3-Clause
//
// For tests: what only a child of the test's process should try.
#ifndef WHI_BASE_TEST_CHILD_H
#define WHI_BASE_TEST_CHILD_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/test.h"

// child_begin forks: 0 is the child.  child_end returns how that has ended, as waitpid does.
__attribute__((unused)) static pid_t child_begin(void) {
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    return pid;
}

__attribute__((unused)) static int child_end(pid_t pid) {
    int status;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    return status;
}

// in_child runs `fn` in a child and expects that none of its checks fails.
__attribute__((unused)) static void in_child(void (*fn)(void)) {
    pid_t pid = child_begin();
    if (!pid) {
        fn();
        _exit(0);
    }
    CHECK_EQ_INT(child_end(pid), 0);
}

// signal_of runs `touch` on `ptr` in a child and returns the signal that ended it, or 0.
__attribute__((unused)) static int signal_of(void (*touch)(volatile char *), char *ptr) {
    pid_t pid = child_begin();
    if (!pid) {
        // A sanitizer must not turn the fault into a report, nor the child leave a core.
        signal(SIGSEGV, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        touch(ptr);
        _exit(0);
    }
    int status = child_end(pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

__attribute__((unused)) static void touch_read(volatile char *ptr) {
    (void)*ptr;
}

__attribute__((unused)) static void touch_write(volatile char *ptr) {
    *ptr = 1;
}

#endif
