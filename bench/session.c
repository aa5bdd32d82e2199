// SPDX-License-Identifier: BSD-3-Clause
//
// What both sides of a session share, and the lead.  The follower is in follow.c.
#include "bench/session.h"

#include "bench/check.h"
#include "bench/clock.h"
#include "bench/scenario.h"
#include "bench/session_wire.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool bench_session_open(bench_session *session, wh_endpoint *ep, const char *mode,
                        const bench_bells *bells, bench_error *error) {
    memset(session, 0, sizeof *session);
    session->sock.fd = -1;
    session->bells = bells ? *bells : (bench_bells){{-1, -1}};
    wh_status status = bench_side_init(&session->side, ep, strcmp(mode, "spin") == 0);
    return status == WH_OK || bench_fail(error, "no session: %s", wh_status_text(status));
}

void bench_session_close(bench_session *session) {
    bench_socket_close(&session->sock);
    bench_remote_close(&session->remote, session->side.worker);
    bench_side_fini(&session->side);
}

void bench_quiet_step(wh_worker *worker, int timeout_ms) {
    if (wh_worker_progress(worker) || wh_worker_arm(worker) != WH_OK)
        return;
    struct pollfd wait = {.fd = wh_worker_fd(worker), .events = POLLIN};
    poll(&wait, 1, timeout_ms);
}

bool bench_control_send(bench_session *session, bench_error *error, const char *format, ...) {
    char text[sizeof session->text];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (size >= (int)sizeof text)
        size = (int)sizeof text - 1;
    wh_status status = wh_tag_send_wait(session->side.ep, text, (size_t)size, BENCH_CONTROL_TAG,
                                        BENCH_ANSWER_S * 1000);
    return status == WH_OK ||
           bench_fail(error, "the other side does not listen: %s", wh_status_text(status));
}

static void on_control(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    bench_session *session = arg;
    session->result = *result;
    session->arrived = true;
}

wh_status bench_control_recv(bench_session *session, bool quiet, uint32_t timeout_ms) {
    bench_side *side = &session->side;
    wh_op_opts opts = {.size = sizeof opts,
                       .timeout_ms = timeout_ms,
                       .mem = WH_MEM_HOST,
                       .done = on_control,
                       .arg = session,
                       .result = &session->result};
    session->arrived = false;
    wh_status status = wh_tag_recv(side->ep, session->text, sizeof session->text - 1,
                                   BENCH_CONTROL_TAG, WH_TAG_MASK_ALL, &opts, NULL);
    if (status != WH_OK && status != WH_PENDING)
        return status;
    while (status == WH_PENDING && !session->arrived) {
        if (quiet)
            bench_quiet_step(side->worker, 1000);
        else if (side->spin)
            wh_worker_progress(side->worker);
        else if (wh_worker_wait(side->worker, 1000) != WH_OK)
            continue;  // the receive's own timeout ends the loop
    }
    if (session->result.status != WH_OK)
        return session->result.status;
    session->text[session->result.size] = '\0';
    return WH_OK;
}

bool bench_control_expect(bench_session *session, bool quiet, unsigned timeout_s, const char *word,
                          bench_error *error) {
    wh_status status = bench_control_recv(session, quiet, timeout_s * 1000);
    if (status != WH_OK)
        return bench_fail(error, "no answer from the other side: %s", wh_status_text(status));
    if (strncmp(session->text, "error ", 6) == 0)
        return bench_fail(error, "the other side says: %s", session->text + 6);
    if (strncmp(session->text, word, strlen(word)) != 0)
        return bench_fail(error, "the other side is not a `wherry perf` of this version");
    return true;
}

static bool open_socket(bench_session *session, const char *host, bench_error *error) {
    int port;
    if (!bench_control_send(session, error, "socket") ||
        !bench_control_expect(session, true, BENCH_ANSWER_S, "socket ", error))
        return false;
    if (sscanf(session->text, "socket %d", &port) != 1 ||
        !bench_socket_connect(&session->sock, host, port))
        return bench_fail(error, "no bare socket to %s", host);
    session->sock.spin = session->side.spin;
    return true;
}

static bool choose_memory(bench_session *session, const bench_memory *memory, bench_error *error) {
    session->side.memory.kind = memory->kind;
    session->side.memory.managed = memory->managed;
    return memory->kind == WH_MEM_HOST ||
           (bench_control_send(session, error, "buffers %s",
                               memory->managed ? memory->name : wh_mem_kind_name(memory->kind)) &&
            bench_control_expect(session, true, BENCH_ANSWER_S, "buffers", error));
}

bool bench_session_lead(bench_session *session, const char *mode, const char *host,
                        const bench_memory *memory, bench_error *error) {
    bench_error unsent = {""};
    bool sent = bench_control_send(session, &unsent, "hello %d %s", BENCH_SESSION_VERSION, mode);
    // A busy follower may have answered and gone before it was greeted.
    bool good = bench_control_expect(session, true, sent ? BENCH_ANSWER_S : 1, "hello ", error);
    if (!sent && strncmp(session->text, "error ", 6) != 0)
        *error = unsent;
    return sent && good && choose_memory(session, memory, error) &&
           (!host || open_socket(session, host, error));
}

void bench_session_bye(bench_session *session) {
    bench_error ignored;
    (void)bench_control_send(session, &ignored, "bye");
}

// The lead's part of a run with Wherry.  A flow has ended when the follower says so; of accesses to
// its memory the follower sees nothing, and is told afterwards.
static bool lead_side(bench_session *session, const bench_cell *cell, bench_error *error) {
    bench_side *side = &session->side;
    bool latency = cell->metric == BENCH_LATENCY;
    wh_status status;
    if (side->kind->remote)
        status = latency ? bench_access(side, cell->count, &session->hist)
                         : bench_access_windowed(side, cell->count);
    else
        status = latency ? bench_pingpong_lead(side, cell->count, &session->hist)
                         : bench_windowed(side, cell->count);
    if (status == WH_OK && side->kind->remote)
        return true;
    if (status == WH_OK)
        return bench_control_expect(session, false, BENCH_RUN_S, "done", error);
    const char *why = wh_endpoint_error(side->ep);
    return bench_fail(error, "%s", *why ? why : wh_status_text(status));
}

static bool lead_bare(bench_session *session, const bench_kind *kind, const char *what,
                      const bench_cell *cell, bench_error *error) {
    if (kind)
        return lead_side(session, cell, error);
    bool good = strcmp(what, "bells") == 0
                    ? bench_bells_ping(&session->bells, cell->count, &session->hist)
                    : bench_socket_lead(&session->sock, cell, &session->hist);
    return good || bench_fail(error, "the bare %s run was cut", what);
}

// Has the follower offer memory for this cell, unless what is open is enough.
static bool open_memory(bench_session *session, const bench_cell *cell, bench_error *error) {
    bench_remote *remote = &session->remote;
    bench_side *side = &session->side;
    side->blind = cell->metric != BENCH_LATENCY;
    if (remote->rkey && wh_rkey_size(remote->rkey) >= cell->size)
        return true;
    bench_remote_close(remote, side->worker);
    side->rkey = NULL;
    if (!bench_control_send(session, error, "memory %s %llu", remote->user ? "user" : "alloc",
                            (unsigned long long)cell->size) ||
        !bench_control_expect(session, true, BENCH_ANSWER_S, "memory ", error))
        return false;
    wh_status status = bench_remote_open(remote, side->ep, session->text + strlen("memory "));
    side->rkey = remote->rkey;
    return status == WH_OK || bench_fail(error, "the other side's memory cannot be reached: %s",
                                         wh_status_text(status));
}

static bool order_run(bench_session *session, const char *what, const bench_cell *cell,
                      bench_error *error) {
    char layout[BENCH_LAYOUT_NAME];
    return bench_control_send(session, error, "run %s %s %llu %llu %s %s %s", what,
                              bench_metric_name(cell->metric), (unsigned long long)cell->size,
                              (unsigned long long)cell->count,
                              bench_layout_format(&cell->layout, layout, sizeof layout),
                              cell->packed ? "packed" : "typed", cell->check ? "check" : "trust");
}

bool bench_session_run(bench_session *session, const char *what, const bench_cell *cell,
                       bench_run *run, bench_error *error) {
    const bench_kind *kind = bench_kind_find(what);
    bench_hist_clear(&session->hist);
    if (kind && kind->remote && !open_memory(session, cell, error))
        return false;
    if (kind && bench_side_begin(&session->side, kind, cell, BENCH_RUN_S) != WH_OK)
        return bench_fail(error, "no memory for two messages of %llu bytes",
                          (unsigned long long)cell->size);
    if (kind && !bench_check_begin(&session->side, error))
        return false;
    if (kind && cell->metric == BENCH_BIDIR)
        bench_side_expect(&session->side, cell->count);
    if (!order_run(session, what, cell, error) ||
        !bench_control_expect(session, false, BENCH_ANSWER_S, "ready", error))
        return false;

    uint64_t start = bench_ns();
    if (!lead_bare(session, kind, what, cell, error))
        return false;
    run->seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    if (kind && !bench_check_end(&session->side, error))
        return false;
    if (kind && kind->remote && !bench_control_send(session, error, "end"))
        return false;
    if ((!kind || kind->remote) &&
        !bench_control_expect(session, true, BENCH_ANSWER_S, "done", error))
        return false;
    double messages = (double)cell->count * (cell->metric == BENCH_BIDIR ? 2 : 1);
    run->rate = run->seconds > 0 ? messages / run->seconds : 0;
    int trips = kind && kind->remote ? 1 : 2;
    run->us = bench_hist_stats(&session->hist, bench_ns_per_tick() / trips / 1000);
    return true;
}
