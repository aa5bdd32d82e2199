// SPDX-License-Identifier: BSD-3-Clause
//
// Log: what Wherry says about errors and events, and where it says it.
//
// The code that finds an error logs it once, with what failed, on which peer and what to try.  By
// default warnings and errors go to standard error; the variable WHERRY_LOG_LEVEL or
// wh_log_set_level asks for more or less, and wh_log_set_sink sends all of it elsewhere.  Both
// settings belong to the whole process.  Any thread may call the functions of this header.
#ifndef WHERRY_LOG_H
#define WHERRY_LOG_H

#include <stdbool.h>

#include <wherry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// wh_log_sink_fn receives one message: `level` is a word such as "warn", `id` is the message's
// permanent name, such as "W-SHM-01", and `text` is one line without a line end.  All three are
// valid during the call only.
//
// It runs on the thread that logs, at any time, several at once, and must not call Wherry.
typedef void (*wh_log_sink_fn)(const char *level, const char *id, const char *text, void *arg);

// wh_log_set_level shows messages of `level` and those that are more important: "error", "warn",
// "info", "debug" or "trace"; "off" shows none.
//
// Any other word is WH_EINVAL and changes nothing.
WH_API WH_CHECK wh_status wh_log_set_level(const char *level);

// wh_log_take_error returns the text of the last error that the calling thread has logged, shown or
// not, and that it has not taken yet; the empty string when there is none.  So after a call that
// has failed with a bare status, the sentence that it has logged can be part of the caller's own;
// take what is there before that call.
//
// The text is valid until the thread takes or logs the next.
WH_API const char *wh_log_take_error(void);

// wh_log_hold_errors(true) keeps what the calling thread logs as errors from being shown, for a
// caller that makes them part of its own error: what wh_log_take_error returns meanwhile is not
// shown at all.
//
// One is held at a time: it is shown after all when another text is logged, or by
// wh_log_hold_errors(false).
WH_API void wh_log_hold_errors(bool hold);

// wh_log_set_sink sends messages to `fn` instead of standard error; NULL goes back to that.
//
// `arg` is borrowed.  A message that another thread is logging during this call may still reach the
// former sink a moment after it returns.  Threads of the library's own log, too, and exit() waits for
// them: a sink must not wait for what is held by who calls exit().
WH_API void wh_log_set_sink(wh_log_sink_fn fn, void *arg);

// wh_log_write logs one line of a layer above, as the library logs its own: to the sink or to
// standard error, when `level` ("error", "warn", "info", "debug" or "trace") is shown;
// wh_log_take_error returns an error, shown or not.
//
// `id` is the message's permanent name: a literal of at most 31 letters, digits and -, such as
// "W-MYLIB-01".  The text needs no line end; control characters in it become '?', and a long one is
// cut.  errno survives.  WH_EINVAL, and nothing is logged: another word for the level, or an id
// that is none.
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
WH_API wh_status
wh_log_write(const char *level, const char *id, const char *format, ...);

// wh_log_shown says whether messages of `level` are shown, for text that costs something to make.
WH_API bool wh_log_shown(const char *level);

#ifdef __cplusplus
}
#endif
#endif
