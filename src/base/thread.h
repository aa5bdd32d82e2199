// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of the library's own.
//
// They take no signals: handlers belong to the threads of the program, which expects them there and not below a worker's
// progress.  Those that a thread brings upon itself stay open, since blocking them would kill the process without a word.
#ifndef WHI_BASE_THREAD_H
#define WHI_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

#include <wherry/status.h>

// whi_thread_start starts a thread.  The caller joins or detaches *thread.
__attribute__((warn_unused_result)) static inline wh_status
whi_thread_start(pthread_t *thread, void *(*fn)(void *arg), void *arg) {
    static const int own[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? WH_ELIMIT : WH_OK;
}

#endif
