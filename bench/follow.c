// SPDX-License-Identifier: BSD-3-Clause
//
// The follower of a session: reads one command at a time, obeys, answers.
//
// What it reads comes from another process, so numbers are checked before they become memory.
#include "bench/check.h"
#include "bench/scenario.h"
#include "bench/session_wire.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool complain(bench_session *session, const char *why, bench_error *error) {
    return bench_control_send(session, error, "error %s", why);
}

static bool greet(bench_session *session, const char *mode, bench_error *error) {
    char theirs[16];
    int version;
    if (sscanf(session->text, "hello %d %15s", &version, theirs) != 2 ||
        version != BENCH_SESSION_VERSION)
        return complain(session, "the two sides are of different versions", error);
    if (strcmp(theirs, mode) != 0) {
        char why[96];
        snprintf(why, sizeof why, "it was started with --mode %s: use the same on both sides",
                 mode);
        return complain(session, why, error);
    }
    session->greeted = true;
    return bench_control_send(session, error, "hello %d", BENCH_SESSION_VERSION);
}

void bench_session_refuse(wh_endpoint *ep, const char *line) {
    // An abort would take back what is said just before.  Whether it has been said is nobody's concern here.
    wh_status said = wh_tag_send(ep, line, strlen(line), BENCH_CONTROL_TAG, NULL, NULL);
    wh_status closed = wh_endpoint_close(ep, NULL, NULL);
    (void)said, (void)closed;
}

bool bench_session_has_word(wh_endpoint *ep) {
    wh_result found;
    return wh_tag_probe(ep, BENCH_CONTROL_TAG, WH_TAG_MASK_ALL, &found) == WH_OK;
}

static bool open_socket(bench_session *session, const char *host, bench_error *error) {
    int port;
    int listener = bench_socket_listen(host, &port);
    if (listener < 0)
        return complain(session, "it cannot open a bare socket", error);
    bench_socket_close(&session->sock);
    bool good = bench_control_send(session, error, "socket %d", port);
    if (good && !bench_socket_accept(&session->sock, listener, BENCH_ANSWER_S * 1000))
        good = bench_fail(error, "nobody connected to the bare socket");
    session->sock.spin = session->side.spin;
    close(listener);
    return good;
}

static bool run_bare(bench_session *session, const char *what, const bench_cell *cell,
                     bench_error *error) {
    bool bells = strcmp(what, "bells") == 0;
    bool known = bells ? session->bells.fd[0] >= 0 && cell->metric == BENCH_LATENCY
                       : strcmp(what, "socket") == 0 && session->sock.fd >= 0;
    if (!known)
        return complain(session, "it does not know such a run", error);
    if (!bench_control_send(session, error, "ready"))
        return false;
    bool good = bells ? bench_bells_ping(&session->bells, cell->count, NULL)
                      : bench_socket_follow(&session->sock, cell);
    if (!good)
        return complain(session, "the bare run was cut", error);
    return bench_control_send(session, error, "done");
}

static bool choose_memory(bench_session *session, bench_error *error) {
    bench_buffers *memory = &session->side.memory;
    bench_memory asked;
    if (!bench_memory_parse(session->text + strlen("buffers "), &asked) ||
        !(wh_mem_kinds() & 1u << asked.kind))
        return complain(session, "it has no such memory", error);
    bench_buffers_free(memory);
    memory->kind = asked.kind;
    memory->managed = asked.managed;
    return bench_control_send(session, error, "buffers");
}

static bool offer_memory(bench_session *session, bench_error *error) {
    char kind[8], key[2 * WH_MR_KEY_MAX + 1];
    unsigned long long size;
    bench_remote *remote = &session->remote;
    if (sscanf(session->text, "memory %7s %llu", kind, &size) != 2 || size > BENCH_SIZE_MAX)
        return complain(session, "it cannot offer that", error);
    bench_remote_close(remote, session->side.worker);
    remote->user = strcmp(kind, "user") == 0;
    remote->kind = session->side.memory.kind;
    wh_status status = bench_remote_offer(remote, session->side.worker, size, key);
    if (status != WH_OK)
        return complain(session, wh_status_text(status), error);
    return bench_control_send(session, error, "memory %s", key);
}

// Progresses, as the mode waits, until the lead says that its accesses are done.
static bool serve_remote(bench_session *session, bench_error *error) {
    if (!bench_control_send(session, error, "ready"))
        return false;
    wh_status status = bench_control_recv(session, false, BENCH_RUN_S * 1000);
    if (status != WH_OK || strcmp(session->text, "end") != 0)
        return bench_fail(error, "the lead has gone: %s", wh_status_text(status));
    return bench_control_send(session, error, "done");
}

static bool run_side(bench_session *session, const bench_kind *kind, const bench_cell *cell,
                     bench_error *error) {
    bench_side *side = &session->side;
    bench_error wrong = {""};
    if (bench_side_begin(side, kind, cell, BENCH_RUN_S) != WH_OK)
        return complain(session, "it has no memory for two such messages", error);
    bench_side_expect(side, cell->metric == BENCH_LATENCY ? 1 : cell->count);
    if (!bench_control_send(session, error, "ready"))
        return false;
    wh_status status = cell->metric == BENCH_LATENCY
                           ? bench_pingpong_follow(side, cell->count)
                           : bench_windowed(side, cell->metric == BENCH_BIDIR ? cell->count : 0);
    if (status != WH_OK)
        return complain(session, wh_status_text(status), error);
    if (!bench_check_end(side, &wrong))
        return complain(session, wrong.text, error);
    return bench_control_send(session, error, "done");
}

// From the words of an order; false when they are none.
static bool read_cell(const char *text, char *what, bench_cell *cell) {
    char metric[16], layout[BENCH_LAYOUT_NAME], how[8], check[8];
    unsigned long long size, count;
    if (sscanf(text, "run %15s %15s %llu %llu %39s %7s %7s", what, metric, &size, &count, layout,
               how, check) != 7 ||
        size > BENCH_SIZE_MAX || count == 0)
        return false;
    *cell = (bench_cell){.size = size,
                         .count = count,
                         .packed = strcmp(how, "packed") == 0,
                         .check = strcmp(check, "check") == 0};
    return bench_metric_parse(metric, &cell->metric) && bench_layout_parse(layout, &cell->layout) &&
           bench_layout_fits(&cell->layout, size);
}

static bool run(bench_session *session, bench_error *error) {
    char what[16];
    bench_cell cell;
    if (!read_cell(session->text, what, &cell))
        return complain(session, "it cannot run that", error);
    const bench_kind *kind = bench_kind_find(what);
    if (!kind)
        return run_bare(session, what, &cell, error);
    return kind->remote ? serve_remote(session, error) : run_side(session, kind, &cell, error);
}

static bool obey(bench_session *session, const char *mode, const char *host, bench_error *error) {
    if (strncmp(session->text, "hello ", 6) == 0)
        return greet(session, mode, error);
    if (!session->greeted)
        return bench_fail(error, "what has connected is no `wherry perf`");
    if (strcmp(session->text, "socket") == 0)
        return open_socket(session, host, error);
    if (strncmp(session->text, "buffers ", 8) == 0)
        return choose_memory(session, error);
    if (strncmp(session->text, "memory ", 7) == 0)
        return offer_memory(session, error);
    if (strncmp(session->text, "run ", 4) == 0)
        return run(session, error);
    return complain(session, "it does not understand", error);
}

bool bench_session_follow(bench_session *session, const char *mode, const char *host,
                          bench_error *error) {
    for (;;) {
        wh_status status = bench_control_recv(session, true, BENCH_IDLE_S * 1000);
        if (status != WH_OK)
            return bench_fail(error, "the connecting side has gone: %s", wh_status_text(status));
        if (strcmp(session->text, "bye") == 0)
            return true;
        if (!obey(session, mode, host, error))
            return false;
    }
}
