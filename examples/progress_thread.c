// SPDX-License-Identifier: BSD-3-Clause
//
// A worker with a progress thread: the program's threads use it without ever calling progress.
//
// Four threads send over one endpoint, each waits for its own sends, and the answers are counted by a callback that
// runs in the progress thread.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

enum { THREADS = 4, MESSAGES = 1000, COUNT = 1 };

static atomic_int received;

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

// Runs in the progress thread.
static wh_status on_message(wh_am *am, void *arg) {
    (void)am, (void)arg;
    atomic_fetch_add(&received, 1);
    return WH_OK;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    *(wh_endpoint **)arg = ep;
}

static void *work(void *arg) {
    wh_endpoint *ep = arg;
    for (int i = 0; i < MESSAGES; i++) {
        wh_status status;
        // WH_EAGAIN: the queue to the worker is full; nothing has happened, so try again.
        while ((status = wh_am_send_wait(ep, COUNT, &i, sizeof(i), NULL, 0, 5000)) == WH_EAGAIN)
            sched_yield();
        must(status, "send");
    }
    return NULL;
}

int main(void) {
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    wh_endpoint *accepted = NULL, *ep;
    char address[64];
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, WH_WORKER_OPTS(.progress_thread = true), &worker), "worker");
    must(wh_worker_set_am(worker, COUNT, on_message, NULL), "handler");
    must(wh_listener_open(worker, "127.0.0.1:0", NULL, on_accept, &accepted, &listener), "listen");
    must(wh_listener_address(listener, address, sizeof(address)), "address");
    must(wh_endpoint_connect_wait(worker, address, NULL, &ep), "connect");

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, ep) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    must(wh_endpoint_close_wait(ep, 5000), "close");  // all of it has been read by the other end
    printf("%d messages from %d threads\n", atomic_load(&received), THREADS);

    wh_worker_destroy(worker);  // ends the thread first
    wh_endpoint_abort(accepted);
    wh_listener_close(listener);
    wh_context_destroy(ctx);
    return atomic_load(&received) == THREADS * MESSAGES ? 0 : 1;
}
