// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE does, for a timeline: events of Chrome's trace format, a line of JSON each, on the descriptor that `wherry run --trace`
// gives to its processes.
//
// A PE that is not traced has no trace, and each call's caller looks at that pointer only.  A trace belongs to its PE's thread.
#ifndef WHI_RT_TRACE_TRACE_H
#define WHI_RT_TRACE_TRACE_H

#include <stddef.h>
#include <stdint.h>

typedef struct whi_trace whi_trace;

// whi_trace_open returns the trace of a PE of `pes` in all, or NULL: nobody wants one, or memory is out.
whi_trace *whi_trace_open(int rank, int pe, int pes);

// whi_trace_flush writes what is kept; whi_trace_close does so, too, and frees a trace, or nothing if it is NULL.  In a child of
// fork() nothing is written.
void whi_trace_flush(whi_trace *trace);
void whi_trace_close(whi_trace *trace);

// The time at which something begins, for whi_trace_span.
uint64_t whi_trace_now(void);

// whi_trace_span notes that `name`, and behind a point `part` unless that is NULL, went on from `begin` to now.
void whi_trace_span(whi_trace *trace, const char *name, const char *part, uint64_t begin);

// whi_trace_turn is told of each turn of the PE, when it began and whether anything was done: what was not is a span "idle".
void whi_trace_turn(whi_trace *trace, uint64_t begin, unsigned done);

// Messages from PE to PE are numbered in the order in which they go, which is that in which they come: an arrow of the
// timeline leads from whi_trace_sent (`at` is when the send began), within a span, to the span for which whi_trace_handled is
// called behind its begin.
// whi_trace_came returns the number of a message that has come, for that.
void whi_trace_sent(whi_trace *trace, int dest, uint64_t at);
uint32_t whi_trace_came(whi_trace *trace, int source);
void whi_trace_handled(whi_trace *trace, int source, uint32_t number);

#endif
