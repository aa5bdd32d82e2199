// SPDX-License-Identifier: BSD-3-Clause
//
// Listener: a host and port where peers connect.
//
// A listener belongs to its worker's owner thread and holds its worker.  Bytes that are not Wherry's are
// survived and cost a bounded amount of memory and time (docs/security.md).
#ifndef WHERRY_LISTENER_H
#define WHERRY_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/endpoint.h>
#include <wherry/status.h>
#include <wherry/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_listener wh_listener;

typedef struct wh_listener_opts {  // zero in any field means its default
    size_t size;                   // of the caller's struct, so that it can grow
    // Peers must know it.  NULL: config `secret`; "": none, also when the configuration has one.
    const char *secret;
    bool any_user;  // local peers of other users may connect; default: config `local_uid`
    // Connect data for each endpoint that it accepts, at most WH_CONNECT_DATA_MAX bytes; copied.
    const void *data;
    size_t data_size;
    wh_answer_fn answer;  // asked before each of them is accepted
} wh_listener_opts;
#ifndef __cplusplus
#define WH_LISTENER_OPTS(...) (&(wh_listener_opts){.size = sizeof(wh_listener_opts), __VA_ARGS__})
#endif

// wh_listener_open listens at `address`: "host:port", "[v6]:port", ":port" or "*:port" for all addresses; port 0
// takes a free one.  `accept` gets each new endpoint.  The caller ends *listener with wh_listener_close.
WH_API WH_CHECK wh_status wh_listener_open(wh_worker *worker, const char *address,
                                           const wh_listener_opts *opts, wh_accept_fn accept,
                                           void *arg, wh_listener **listener);

// wh_listener_port returns the port that it listens on.
WH_API uint16_t wh_listener_port(const wh_listener *listener);

// wh_listener_address writes "host:port" as one string that ends in NUL.
WH_API WH_CHECK wh_status wh_listener_address(const wh_listener *listener, char *text, size_t size);

// wh_listener_sockaddr writes the address of socket `index`, from 0: a name may have several
// addresses, and "*" has one per family.  WH_ENOTFOUND: it has no more.  Owner only.
WH_API WH_CHECK wh_status wh_listener_sockaddr(const wh_listener *listener, size_t index,
                                               wh_address *address);

// wh_listener_close stops listening.  Endpoints that it has accepted live on.
WH_API void wh_listener_close(wh_listener *listener);

#ifdef __cplusplus
}
#endif
#endif
