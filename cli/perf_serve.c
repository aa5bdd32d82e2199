// SPDX-License-Identifier: BSD-3-Clause
//
// The listening end of `wherry perf`: waits for a lead, follows it, waits for the next.
//
// Sessions come one after the other: two at a time would measure each other.  An endpoint that comes
// during a session waits, one that comes besides that is turned away.
#include "cli/perf.h"

#include "bench/machine.h"
#include "bench/session.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

static void on_accept(wh_endpoint *ep, void *arg) {
    wh_endpoint **waiting = arg;
    if (*waiting)
        wh_endpoint_abort(ep);
    else
        *waiting = ep;
}

static bool follow(const perf_serve *serve, wh_endpoint *ep, bench_error *error) {
    bench_session *session = malloc(sizeof *session);
    if (!session) {
        wh_endpoint_abort(ep);
        return bench_fail(error, "out of memory");
    }
    bool good = bench_session_open(session, ep, serve->mode, &serve->bells, error);
    if (good)
        good = bench_session_follow(session, serve->mode, serve->bare_host, error);
    // Operations that are still pending end here, so that none calls back into a freed session.
    wh_worker *worker = wh_endpoint_worker(ep);
    if (!good)
        wh_endpoint_abort(ep);
    else if (wh_endpoint_close_wait(ep, 2000) != WH_OK)
        good = bench_fail(error, "the lead did not take its leave");
    wh_worker_progress(worker);
    bench_session_close(session);
    free(session);
    return good;
}

static int serve_all(const perf_serve *serve, wh_worker *worker, wh_endpoint **waiting) {
    while (!cli_interrupted) {
        bench_error error = {""};
        wh_endpoint *ep = *waiting;
        *waiting = NULL;
        if (!ep) {
            bench_quiet_step(worker, 1000);
            continue;
        }
        bool good = follow(serve, ep, &error);
        if (!good && !serve->quiet)
            cli_complain("perf", CLI_FAILED, "%s", error.text);
        if (serve->once)
            return good ? CLI_OK : CLI_FAILED;
    }
    return CLI_OK;
}

int perf_serve_run(const perf_serve *serve) {
    wh_endpoint *waiting = NULL;
    wh_context *ctx = NULL;
    wh_worker *worker = NULL;
    wh_listener *listener = NULL;
    int code = CLI_FAILED;
    if (!bench_pin(serve->core))
        return cli_complain("perf", CLI_FAILED, "cannot run on core %d", serve->core);
    wh_status status = cli_context_create(serve->lane, serve->mode, NULL, &ctx);
    if (status == WH_OK)
        status = wh_worker_create(ctx, NULL, &worker);
    if (status == WH_OK)
        status = wh_listener_open(worker, serve->address, NULL, on_accept, &waiting, &listener);
    if (status != WH_OK) {
        cli_complain("perf", CLI_FAILED, "cannot listen at %s: %s", serve->address,
                     wh_status_text(status));
    } else {
        cli_catch_interrupt(worker);
        printf(serve->quiet ? "%d\n" : "listening on port %d\n", wh_listener_port(listener));
        fflush(stdout);
        code = serve_all(serve, worker, &waiting);
        cli_catch_interrupt(NULL);
    }
    if (waiting)
        wh_endpoint_abort(waiting);
    if (listener)
        wh_listener_close(listener);
    if (worker)
        wh_worker_destroy(worker);
    if (ctx)
        wh_context_destroy(ctx);
    return code;
}
