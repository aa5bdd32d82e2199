// SPDX-License-Identifier: BSD-3-Clause
//
// A server inside an event loop of its own: epoll watches the worker beside other descriptors.
//
//   epoll_server [HOST:PORT]        ends when its client (hello_client) has gone
//
// The loop is: progress until there is nothing more to do, arm, sleep.  Nothing else may start
// operations between a successful arm and the sleep.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <wherry/wherry.h>

enum { QUESTION = 1, ANSWER = 2 };

static char question[256];
static const char reply[] = "Hello from an event loop!";
static bool done;

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void on_question(wh_request *req, const wh_result *result, void *arg) {
    wh_endpoint *client = arg;
    (void)req;
    if (result->status != WH_OK)
        return;  // the client has gone: on_lost hears of it too
    printf("client says: %.*s\n", (int)result->size, question);
    must(wh_tag_send(client, reply, sizeof(reply) - 1, ANSWER, NULL, NULL), "send");
}

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)why, (void)arg;
    wh_endpoint_abort(ep);
    done = true;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    must(wh_endpoint_on_lost(ep, on_lost, NULL), "on_lost");
    must(wh_tag_recv(ep, question, sizeof(question), QUESTION, WH_TAG_MASK_ALL,
                     WH_OP_OPTS(.done = on_question, .arg = ep), NULL),
         "receive");
}

// Progresses, and returns how long the loop may sleep: -1 for ever, since the worker's descriptor
// tells of everything; 0 when there is more to do, after others have had their turn.
static int settle(wh_worker *worker) {
    for (int passes = 0; passes < 64; passes++) {
        if (wh_worker_progress(worker))
            continue;
        wh_status status = wh_worker_arm(worker);
        if (status == WH_OK)
            return -1;
        if (status != WH_EBUSY)
            must(status, "arm");
    }
    return 0;
}

int main(int argc, char **argv) {
    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_listener_open(worker, argc > 1 ? argv[1] : "127.0.0.1:0", NULL, on_accept, NULL,
                          &listener),
         "listen");
    printf("listening on port %u\n", wh_listener_port(listener));
    fflush(stdout);

    int loop = epoll_create1(EPOLL_CLOEXEC);
    int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec second = {.it_value.tv_sec = 1, .it_interval.tv_sec = 1};
    timerfd_settime(clock, 0, &second, NULL);
    struct epoll_event of_clock = {.events = EPOLLIN, .data.fd = clock};
    struct epoll_event of_worker = {.events = EPOLLIN, .data.fd = wh_worker_fd(worker)};
    epoll_ctl(loop, EPOLL_CTL_ADD, clock, &of_clock);
    epoll_ctl(loop, EPOLL_CTL_ADD, wh_worker_fd(worker), &of_worker);

    int seconds = 0;
    while (!done) {
        struct epoll_event event;
        uint64_t ticks;
        int timeout = settle(worker);
        if (!done && epoll_wait(loop, &event, 1, timeout) == 1 && event.data.fd == clock &&
            read(clock, &ticks, sizeof(ticks)) == sizeof(ticks))
            seconds += (int)ticks;
        // That the worker's descriptor is readable needs no code here: settle progresses it.
    }

    printf("the client has gone after %d s\n", seconds);
    close(loop);
    close(clock);
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return 0;
}
