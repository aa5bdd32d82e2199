// SPDX-License-Identifier: BSD-3-Clause
//
// Status codes: the result of every Wherry call and of every operation.
//
// Codes below zero are errors, WH_OK is success, and WH_PENDING says that an operation was accepted
// and completes later.  A code is all that a caller needs for a decision; the sentence that says
// what failed, where, and what to do is in wh_request_error() and in the log.  Any thread may call
// the functions of this header.
#ifndef WHERRY_STATUS_H
#define WHERRY_STATUS_H

#if defined(__GNUC__)
#define WH_API __attribute__((visibility("default")))
#define WH_CHECK __attribute__((warn_unused_result))
#else
#define WH_API
#define WH_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The one list of status codes: X(name, number, text).  The enum, wh_status_text(), the Python
// exceptions and the table in docs/reference/status.md all come from it.  Numbers never change.
#define WH_STATUS_LIST(X)                                                                          \
    X(OK, 0, "success")                                                                            \
    X(PENDING, 1, "accepted, completes later")                                                     \
    X(EINVAL, -1, "an argument is invalid")                                                        \
    X(ENOMEM, -2, "out of memory")                                                                 \
    X(ETRUNCATED, -3, "the message is longer than the receive buffer")                             \
    X(ECANCELLED, -4, "the operation was cancelled")                                               \
    X(ETIMEDOUT, -5, "the operation did not finish in time")                                       \
    X(ECLOSED, -6, "the endpoint, listener or worker is closed")                                   \
    X(EPEER, -7, "the peer died or the connection to it was lost")                                 \
    X(EREFUSED, -8, "the peer refused the connection")                                             \
    X(EUNREACHABLE, -9, "the peer cannot be reached")                                              \
    X(EADDRESS, -10, "the address cannot be used or does not resolve")                             \
    X(EAUTH, -11, "the secret is missing or wrong")                                                \
    X(EVERSION, -12, "the peer speaks no common protocol version")                                 \
    X(ENOLANE, -13, "the two sides have no lane in common")                                        \
    X(EPROTOCOL, -14, "the peer sent bytes that break the protocol")                               \
    X(EBUSY, -15, "not now: there is work to progress first")                                      \
    X(EAGAIN, -16, "a queue is full, try again later")                                             \
    X(EFORKED, -17, "the worker belongs to the parent of this forked process")                     \
    X(ETHREAD, -18, "only the thread that owns the worker may do this")                            \
    X(EPERM, -19, "permission denied")                                                             \
    X(ELIMIT, -20, "a limit of this process or system is reached")                                 \
    X(ENOTSUP, -21, "not supported here")                                                          \
    X(ESYSTEM, -22, "a system call failed")                                                        \
    X(ENOTFOUND, -23, "there is no such thing")                                                    \
    X(EREJECTED, -24, "the receiver rejected the message")                                         \
    X(EKEY, -25, "the key is none, or its memory is no longer registered")                         \
    X(EBOUNDS, -26, "outside of the registered memory")                                            \
    X(ETYPE, -27, "the message and the receive buffer hold elements of different types")

typedef enum wh_status {
#define WH_STATUS_ENUM(name, number, text) WH_##name = number,
    WH_STATUS_LIST(WH_STATUS_ENUM)
#undef WH_STATUS_ENUM
} wh_status;

// wh_status_name returns the code's name without the WH_ prefix, such as "ETRUNCATED", or "UNKNOWN".
// The string is static.
WH_API const char *wh_status_name(wh_status status);

// wh_status_text returns one plain sentence fragment for the code.  The string is static.
WH_API const char *wh_status_text(wh_status status);

#ifdef __cplusplus
}
#endif
#endif
