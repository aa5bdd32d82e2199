// SPDX-License-Identifier: BSD-3-Clause
//
// A session: two processes that measure together.  The lead asks for runs, the follower obeys.
//
// They talk in lines of text over the measured endpoint itself, under a tag of their own, so that a
// session needs nothing but one connection:
//
//   lead: hello 3 MODE               follower: hello 3          or: error SENTENCE
//   lead: buffers KIND               follower: buffers          of a kind of memory, not the host's
//   lead: socket                     follower: socket PORT      a bare TCP connection next to it
//   lead: memory KIND SIZE           follower: memory KEY       to reach its memory with, in hex
//   lead: run WHAT METRIC SIZE COUNT LAYOUT HOW CHECK
//                                    follower: ready, then done or: error SENTENCE
//   lead: end                        of a run that the follower cannot see the end of
//   lead: bye
//
// A follower that is busy says so to whoever else connects: error SENTENCE, unasked.
//
// WHAT is tag, object, am, put, get, atomic, socket or bells; HOW is typed, or packed by the program;
// CHECK is check, or trust.  Between runs both sides sleep, whatever their mode, so that a spinning follower disturbs nothing that is measured in between.  One thread owns a session
// and its worker.
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include "bench/cell.h"
#include "bench/memory.h"
#include "bench/raw.h"
#include "bench/remote.h"
#include "bench/side.h"

typedef struct bench_session {
    bench_side side;
    bench_socket sock;  // fd -1 until asked for
    bench_bells bells;  // fd[0] -1 when the two processes have none
    bench_remote remote;
    bench_hist hist;
    bool greeted;      // the follower has heard a good hello
    bool arrived;      // the control message that is being received
    wh_result result;  // how it ended
    char text[1024];   // what it says; a key is the longest
} bench_session;

// bench_session_open makes a session over a connected endpoint, which stays the caller's.  `mode` is
// the progress mode's name, and "spin" spins here too.  Undone by bench_session_close, before the
// endpoint is closed.  It is large: not for the stack.
bool bench_session_open(bench_session *session, wh_endpoint *ep, const char *mode,
                        const bench_bells *bells, bench_error *error);
void bench_session_close(bench_session *session);

// bench_session_lead greets the follower; `host` is where its bare socket is reached, NULL for none;
// `memory` is that of the messages.
bool bench_session_lead(bench_session *session, const char *mode, const char *host,
                        const bench_memory *memory, bench_error *error);

// bench_session_run runs one cell and fills `run`.
bool bench_session_run(bench_session *session, const char *what, const bench_cell *cell,
                       bench_run *run, bench_error *error);

// bench_session_bye lets the follower go.
void bench_session_bye(bench_session *session);

// bench_session_refuse tells whoever has connected why there is no session, and ends the endpoint.
// `line` is "error SENTENCE", a literal.
void bench_session_refuse(wh_endpoint *ep, const char *line);

// bench_session_has_word says whether the endpoint has sent a first line.
bool bench_session_has_word(wh_endpoint *ep);

// bench_session_follow obeys until the lead says bye (true), is lost, or does not begin with a good
// hello (false).  `host` is where a
// bare socket listens, NULL for all addresses.
bool bench_session_follow(bench_session *session, const char *mode, const char *host,
                          bench_error *error);

// bench_quiet_step progresses the worker, or sleeps up to `timeout_ms` when there is nothing to do,
// also when its mode would spin.
void bench_quiet_step(wh_worker *worker, int timeout_ms);

#endif
