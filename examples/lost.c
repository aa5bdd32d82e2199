// SPDX-License-Identifier: BSD-3-Clause
//
// When the other process dies: every pending operation ends, once, with one typed error.
//
// The parent waits for a message that never comes, because the child is killed.  The processes fork before either
// makes a context: a worker belongs to the process that created it.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wherry/wherry.h>

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    *(wh_endpoint **)arg = ep;
}

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)ep, (void)arg;
    printf("lost: %s\n", wh_status_name(why));
}

// The child connects, and is killed while it waits for something.
static void be_killed(int port_pipe) {
    char address[64] = "";
    wh_context *ctx;
    wh_worker *worker;
    wh_endpoint *ep;
    if (read(port_pipe, address, sizeof(address) - 1) <= 0)
        exit(1);
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_endpoint_connect_wait(worker, address, NULL, &ep), "connect");
    while (wh_endpoint_status(ep) == WH_OK)
        must(wh_worker_wait(worker, -1), "wait");
    exit(1);  // the parent went first: that was not the plan
}

int main(void) {
    int port_pipe[2];
    if (pipe(port_pipe) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        close(port_pipe[1]);
        be_killed(port_pipe[0]);
    }

    wh_context *ctx;
    wh_worker *worker;
    wh_listener *listener;
    wh_endpoint *ep = NULL;
    char address[64];
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    must(wh_listener_open(worker, "127.0.0.1:0", NULL, on_accept, &ep, &listener), "listen");
    must(wh_listener_address(listener, address, sizeof(address)), "address");
    if (write(port_pipe[1], address, sizeof(address)) < 0)
        return 1;
    while (!ep)
        must(wh_worker_wait(worker, 10000), "accept");

    char buffer[100];
    wh_request *req;
    must(wh_endpoint_on_lost(ep, on_lost, NULL), "on_lost");
    must(wh_tag_recv(ep, buffer, sizeof(buffer), 1, WH_TAG_MASK_ALL, NULL, &req), "receive");
    kill(child, SIGKILL);

    wh_status status = wh_request_wait(req, 10000);
    printf("receive: %s\n", wh_status_name(status));
    fprintf(stderr, "%s\n", wh_request_error(req));  // which peer, over which lane, why
    wh_request_free(req);

    waitpid(child, NULL, 0);
    wh_endpoint_abort(ep);
    wh_listener_close(listener);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    return status == WH_EPEER ? 0 : 1;
}
