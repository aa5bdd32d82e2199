// SPDX-License-Identifier: BSD-3-Clause
//
// The listening end of `wherry perf`: waits for a lead, follows it, waits for the next.
//
// Sessions come one after the other: two at a time would measure each other.  An endpoint that comes
// during a session is told so and turned away.  One that does not speak is no session: it neither ends
// the server nor keeps others out.
#include "cli/perf.h"

#include "bench/clock.h"
#include "bench/machine.h"
#include "bench/session.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEWCOMERS_MAX = 16, FIRST_WORD_S = 10 };

// Endpoints that have not said anything yet, the oldest first.
typedef struct newcomer {
    wh_endpoint *ep;
    uint64_t since_ns;
} newcomer;

typedef struct perf_door {
    newcomer rows[NEWCOMERS_MAX];
    int count;
    bool busy;  // a session is running
} perf_door;

static wh_endpoint *take_newcomer(perf_door *self, int row) {
    wh_endpoint *ep = self->rows[row].ep;
    self->count--;
    memmove(self->rows + row, self->rows + row + 1,
            (size_t)(self->count - row) * sizeof *self->rows);
    return ep;
}

static void on_accept(wh_endpoint *ep, void *arg) {
    perf_door *self = arg;
    if (self->busy) {
        bench_session_refuse(ep, "error another session is running");
        return;
    }
    if (self->count == NEWCOMERS_MAX)
        wh_endpoint_abort(take_newcomer(self, 0));
    self->rows[self->count++] = (newcomer){ep, bench_ns()};
}

// The first that has said something; those that have gone, or say nothing for too long, are dropped.
static wh_endpoint *find_lead(perf_door *self) {
    for (int i = 0; i < self->count;) {
        const newcomer *row = &self->rows[i];
        if (bench_session_has_word(row->ep))
            return take_newcomer(self, i);
        if (wh_endpoint_status(row->ep) == WH_OK &&
            bench_ns() - row->since_ns < FIRST_WORD_S * BENCH_NS_PER_S)
            i++;
        else
            wh_endpoint_abort(take_newcomer(self, i));
    }
    return NULL;
}

static void refuse_all(perf_door *self, const char *line) {
    while (self->count > 0)
        bench_session_refuse(take_newcomer(self, 0), line);
}

// `greeted` says whether it was a session at all.
static bool follow(const perf_serve *serve, wh_endpoint *ep, bool *greeted, bench_error *error) {
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
        good = bench_fail(error, "the connecting side did not close in time");
    wh_worker_progress(worker);
    *greeted = session->greeted;
    bench_session_close(session);
    free(session);
    return good;
}

static int serve_all(const perf_serve *serve, wh_worker *worker, perf_door *door) {
    while (!cli_interrupted) {
        bench_error error = {""};
        bool greeted = false;
        wh_endpoint *ep = find_lead(door);
        if (!ep) {
            bench_quiet_step(worker, 1000);
            continue;
        }
        door->busy = true;
        refuse_all(door, "error another session is running");
        bool good = follow(serve, ep, &greeted, &error);
        door->busy = false;
        if (!good && !serve->quiet)
            cli_complain("perf", CLI_FAILED, "%s", error.text);
        if (serve->once && greeted)
            return good ? CLI_OK : CLI_FAILED;
    }
    return CLI_OK;
}

int perf_serve_run(const perf_serve *serve) {
    perf_door door = {.count = 0};
    wh_listener_opts how = {.size = sizeof how, .secret = serve->secret};
    wh_context *ctx = NULL;
    wh_worker *worker = NULL;
    wh_listener *listener = NULL;
    int code = CLI_FAILED;
    if (!bench_pin(serve->core))
        return cli_complain("perf", CLI_FAILED, "cannot run on core %d", serve->core);
    cli_hold_log();
    wh_status status =
        cli_context_create(serve->lane, serve->mode, serve->secret_file, "64K", &ctx);
    if (status == WH_OK)
        status = wh_worker_create(ctx, NULL, &worker);
    if (status == WH_OK)
        status = wh_listener_open(worker, serve->address, &how, on_accept, &door, &listener);
    if (status != WH_OK) {
        cli_complain("perf", CLI_FAILED, "%s", cli_because(status));
    } else {
        cli_release_log();
        cli_catch_interrupt(worker);
        printf(serve->quiet ? "%d\n" : "listening on port %d\n", wh_listener_port(listener));
        fflush(stdout);
        code = serve_all(serve, worker, &door);
        cli_catch_interrupt(NULL);
    }
    cli_release_log();
    bool told = door.count > 0;
    refuse_all(&door, "error it was interrupted");
    for (int i = 0; told && i < 20; i++)  // a worker that is destroyed takes back what has not gone
        bench_quiet_step(worker, 1);
    if (listener)
        wh_listener_close(listener);
    if (worker)
        wh_worker_destroy(worker);
    if (ctx)
        wh_context_destroy(ctx);
    return code;
}
