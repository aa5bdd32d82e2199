// SPDX-License-Identifier: BSD-3-Clause
//
// What the lead (session.c) and the follower (follow.c) share and nobody else needs: the control
// messages of a session.
#ifndef BENCH_SESSION_WIRE_H
#define BENCH_SESSION_WIRE_H

#include "bench/session.h"

enum {
    BENCH_SESSION_VERSION = 3,
    BENCH_CONTROL_TAG = 2,  // data has another one
    BENCH_IDLE_S = 600,     // between two lines of a lead, which may run other programs meanwhile
    BENCH_ANSWER_S = 20,    // an answer that needs no measuring; large buffers are filled first
    BENCH_RUN_S = 60,       // a run that has not ended by then hangs
};

// bench_control_send sends one line.
__attribute__((format(printf, 3, 4))) bool
bench_control_send(bench_session *session, bench_error *error, const char *format, ...);

// bench_control_recv receives one line into session->text, quietly or as the mode waits.
// timeout_ms 0: no limit.
wh_status bench_control_recv(bench_session *session, bool quiet, uint32_t timeout_ms);

// bench_control_expect receives the answer that begins with `word`; an "error" from the other side is
// passed on.
bool bench_control_expect(bench_session *session, bool quiet, unsigned timeout_s, const char *word,
                          bench_error *error);

#endif
