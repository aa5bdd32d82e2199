// SPDX-License-Identifier: BSD-3-Clause
//
// The server of epoll_server in a libuv loop.
//
//   libuv_server [HOST:PORT]        ends when its client (hello_client) has gone
//
// A prepare handle, which libuv runs right before it sleeps, progresses and arms the worker; a poll
// handle on the worker's descriptor ends the sleep.
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>
#include <wherry/wherry.h>

enum { QUESTION = 1, ANSWER = 2 };

typedef struct server {
    wh_worker *worker;
    uv_prepare_t before_sleep;
    uv_poll_t readable;
    uv_idle_t busy;  // while it is active, libuv does not sleep
    char question[256];
} server;

static const char reply[] = "Hello from libuv!";

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void on_busy(uv_idle_t *idle) {
    (void)idle;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    (void)poll, (void)status, (void)events;  // before_sleep progresses
}

static void before_sleep(uv_prepare_t *prepare) {
    server *s = prepare->data;
    for (int passes = 0; passes < 64; passes++) {
        if (wh_worker_progress(s->worker))
            continue;
        if (uv_is_closing((uv_handle_t *)&s->busy))
            return;  // the client has gone, and so does the loop
        wh_status status = wh_worker_arm(s->worker);
        if (status == WH_OK) {
            uv_idle_stop(&s->busy);
            return;
        }
        if (status != WH_EBUSY)
            must(status, "arm");
    }
    if (!uv_is_closing((uv_handle_t *)&s->busy))
        uv_idle_start(&s->busy, on_busy);  // more to do, after the others' turn
}

static void on_question(wh_request *req, const wh_result *result, void *arg) {
    wh_endpoint *client = arg;
    server *s = wh_endpoint_data(client);
    (void)req;
    if (result->status != WH_OK)
        return;
    printf("client says: %.*s\n", (int)result->size, s->question);
    must(wh_tag_send(client, reply, sizeof(reply) - 1, ANSWER, NULL, NULL), "send");
}

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    server *s = arg;
    (void)why;
    wh_endpoint_abort(ep);
    uv_close((uv_handle_t *)&s->before_sleep, NULL);
    uv_close((uv_handle_t *)&s->readable, NULL);
    uv_close((uv_handle_t *)&s->busy, NULL);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    server *s = arg;
    wh_endpoint_set_data(ep, s);
    must(wh_endpoint_on_lost(ep, on_lost, s), "on_lost");
    must(wh_tag_recv(ep, s->question, sizeof(s->question), QUESTION, WH_TAG_MASK_ALL,
                     WH_OP_OPTS(.done = on_question, .arg = ep), NULL),
         "receive");
}

int main(int argc, char **argv) {
    server s = {.worker = NULL};
    wh_context *ctx;
    wh_listener *listener;
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, NULL, &s.worker), "worker");
    must(wh_listener_open(s.worker, argc > 1 ? argv[1] : "127.0.0.1:0", NULL, on_accept, &s,
                          &listener),
         "listen");
    printf("listening on port %u\n", wh_listener_port(listener));
    fflush(stdout);

    uv_loop_t *loop = uv_default_loop();
    uv_prepare_init(loop, &s.before_sleep);
    uv_poll_init(loop, &s.readable, wh_worker_fd(s.worker));
    uv_idle_init(loop, &s.busy);
    s.before_sleep.data = &s;
    uv_prepare_start(&s.before_sleep, before_sleep);
    uv_poll_start(&s.readable, UV_READABLE, on_readable);
    uv_run(loop, UV_RUN_DEFAULT);  // until all its handles are closed

    printf("the client has gone\n");
    uv_loop_close(loop);
    wh_listener_close(listener);
    wh_worker_destroy(s.worker);
    wh_context_destroy(ctx);
    return 0;
}
