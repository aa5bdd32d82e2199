// SPDX-License-Identifier: BSD-3-Clause
//
// A secret: only peers that know it get in, and they know that they have found the right listener.
//
// The program is both sides: a server whose worker has a progress thread, and three clients of
// which one knows the secret.  Real programs leave the options out and set WHERRY_SECRET_FILE.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <wherry/wherry.h>

static void must(wh_status status, const char *what) {
    if (status >= WH_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, wh_status_text(status));
    exit(1);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    wh_endpoint_abort(ep);  // who comes so far knew the secret; that is all we wanted to know
}

// Refusals are expected here, so their warnings are left out.
static void keep_quiet(void) {
    must(wh_log_set_level("error"), "log level");
}

static wh_status try_secret(wh_context *ctx, const char *address, const char *secret) {
    wh_worker *worker;
    wh_endpoint *ep;
    must(wh_worker_create(ctx, NULL, &worker), "worker");
    wh_status status =
        wh_endpoint_connect_wait(worker, address, WH_ENDPOINT_OPTS(.secret = secret), &ep);
    printf("secret \"%s\": %s\n", secret, status == WH_OK ? "connected" : wh_status_text(status));
    if (status == WH_OK)
        wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
    return status;
}

int main(void) {
    wh_context *ctx;
    wh_worker *server;
    wh_listener *listener;
    char address[64];
    keep_quiet();
    must(wh_context_create(NULL, &ctx), "context");
    must(wh_worker_create(ctx, WH_WORKER_OPTS(.progress_thread = true), &server), "worker");
    must(wh_listener_open(server, "127.0.0.1:0", WH_LISTENER_OPTS(.secret = "correct horse"),
                          on_accept, NULL, &listener),
         "listen");
    must(wh_listener_address(listener, address, sizeof(address)), "address");

    bool right = try_secret(ctx, address, "correct horse") == WH_OK &&
                 try_secret(ctx, address, "battery staple") == WH_EAUTH &&
                 try_secret(ctx, address, "") == WH_EAUTH;

    wh_listener_close(listener);
    wh_worker_destroy(server);
    wh_context_destroy(ctx);
    return right ? 0 : 1;
}
