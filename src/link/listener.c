// SPDX-License-Identifier: BSD-3-Clause
//
// Listeners, and endpoints that peers open.
//
// A listener is one port on one or more addresses.  Its id tells a link's OPEN whom it is for, so that an endpoint can be
// opened over a link that another listener has made.
#include "link/listener.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/opts.h"
#include "link/acceptor.h"
#include "link/address.h"
#include "link/local.h"
#include "link/sock.h"

struct wh_listener {
    wh_worker *worker;
    uint64_t id;
    wh_accept_fn accept;
    void *arg;
    char *secret;
    bool any_user;
    whi_connect_data *data;
    wh_answer_fn answer;
    uint16_t port;
    int error;  // why the last door could not be opened; 0: the host does not resolve
    char host[64];
    whi_door doors[WHI_ADDRESSES_MAX];
    size_t door_count;
    whi_list node;
    bool closed;  // its sockets are: by its user, or at its worker's end
    whi_deferred deferred;
};

uint64_t whi_listener_id(const wh_listener *listener) {
    return listener->id;
}

const char *whi_listener_secret(const wh_listener *listener) {
    return listener->secret;
}

bool whi_listener_any_user(const wh_listener *listener) {
    return listener->any_user;
}

whi_taker whi_listener_find(wh_worker *worker, uint64_t id) {
    const whi_config *config = &worker->ctx->config;
    const whi_link_room *room = whi_links_of(worker);
    if (id == 0 || (room->blob_listener && room->blob_listener->id == id))
        return (whi_taker){.accept = worker->accept,
                           .arg = worker->accept_arg,
                           .secret = config->secret,
                           .any_user = config->local_uid == WHI_LOCAL_UID_ANY,
                           .data = worker->accept_data,
                           .answer = worker->answer};
    whi_list_foreach(node, &room->listeners) {
        const wh_listener *listener = whi_container_of(node, wh_listener, node);
        if (listener->id == id)
            return (whi_taker){.accept = listener->accept,
                               .arg = listener->arg,
                               .secret = listener->secret,
                               .any_user = listener->any_user,
                               .data = listener->data,
                               .answer = listener->answer};
    }
    return (whi_taker){.accept = NULL};
}

static void close_doors(wh_listener *listener) {
    for (size_t i = 0; i < listener->door_count; i++)
        whi_door_close(&listener->doors[i]);
    listener->door_count = 0;
}

static wh_status open_door(wh_listener *listener, whi_sockaddr *addr) {
    int fd;
    whi_address_set_port(addr, listener->port);
    wh_status st = whi_sock_listen(addr, &listener->worker->ctx->config, &fd);
    if (st != WH_OK) {
        listener->error = errno;
        return st;
    }
    whi_sockaddr bound = {.size = sizeof(bound.addr)};
    if (getsockname(fd, (struct sockaddr *)&bound.addr, &bound.size) == 0)
        listener->port = whi_address_port(&bound);
    st = whi_door_open(&listener->doors[listener->door_count], listener->worker, fd, listener);
    if (st != WH_OK) {
        close(fd);
        return st;
    }
    listener->door_count++;
    return WH_OK;
}

// open_doors listens on every address of the host.  With port 0 the first one decides, and it is tried again when the
// port is taken at another address.
static wh_status open_doors(wh_listener *listener, const char *host, uint16_t port) {
    enum { TRIES = 16 };
    whi_sockaddr addrs[WHI_ADDRESSES_MAX];
    size_t count = whi_address_resolve(host, port, false, true, addrs);
    if (!count)
        return WH_EADDRESS;
    wh_status st = WH_OK;
    for (int attempt = 0; attempt < (port ? 1 : TRIES); attempt++) {
        listener->port = port;
        size_t i = 0;
        for (; i < count; i++) {
            st = open_door(listener, &addrs[i]);
            // A machine without IPv6 still names its addresses.
            bool absent = st == WH_EADDRESS && addrs[i].addr.ss_family == AF_INET6 && count > 1;
            if (st != WH_OK && !absent)
                break;
        }
        if (i == count)
            return listener->door_count ? WH_OK : st;
        close_doors(listener);
    }
    return st;
}

// why_no_door says what to do about a host and port that cannot be listened at.
static const char *why_no_door(int error, wh_status status) {
    switch (error) {
    case 0:
        return status == WH_EADDRESS ? "the name does not resolve; write an address, or * for all"
                                     : wh_status_text(status);
    case EADDRINUSE: return "the port is in use; choose another (`ss -ltnp` shows by whom)";
    case EADDRNOTAVAIL:
        return "that is not an address of this machine; see `ip address`, or write * for all";
    case EACCES: return "a port below 1024 needs a privilege";
    default: return strerror(error);
    }
}

static wh_status listener_new(wh_worker *worker, const char *host, uint16_t port,
                              const wh_listener_opts *opts, int *error, wh_listener **out) {
    wh_listener *listener = whi_calloc(1, sizeof(*listener));
    if (!listener)
        return WH_ENOMEM;
    const whi_config *config = &worker->ctx->config;
    listener->worker = worker;
    listener->id = ++whi_links_of(worker)->next_listener_id;
    listener->any_user = opts->any_user || config->local_uid == WHI_LOCAL_UID_ANY;
    listener->secret = whi_strdup(opts->secret ? opts->secret : config->secret);
    listener->answer = opts->answer;
    snprintf(listener->host, sizeof(listener->host), "%.63s", host);
    wh_status st = listener->secret ? WH_OK : WH_ENOMEM;
    if (st == WH_OK)
        st = whi_connect_data_copy(opts->data, opts->data_size, "listener", &listener->data);
    if (st == WH_OK)
        st = open_doors(listener, host, port);
    if (st != WH_OK) {
        *error = listener->error;
        whi_free(listener->data);
        whi_free(listener->secret);
        whi_free(listener);
        return st;
    }
    whi_list_push_back(&whi_links_of(worker)->listeners, &listener->node);
    *out = listener;
    return WH_OK;
}

static wh_status listener_open_owned(wh_worker *worker, const char *address,
                                     const wh_listener_opts *opts, wh_accept_fn accept, void *arg,
                                     wh_listener **out) {
    static const wh_listener_opts defaults = {.size = sizeof(defaults)};
    WHI_OPTS(wh_listener_opts, opts);
    if (!opts)
        opts = &defaults;
    if (!address || !accept || !out)
        return WH_EINVAL;
    char host[WHI_HOST_MAX];
    uint16_t port;
    wh_status st = whi_address_split(address, host, &port);
    if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-LST-01",
                "\"%s\" is no address to listen at; write host:port, [v6]:port or *:port", address);
        return st;
    }
    wh_listener *listener = NULL;
    int error = 0;
    st = listener_new(worker, host, port, opts, &error, &listener);
    if (st == WH_EINVAL)
        return st;  // which has been said
    if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-LST-02", "cannot listen at %s: %s", address, why_no_door(error, st));
        return st;
    }
    if (opts->secret && !opts->secret[0] && worker->ctx->config.secret[0])
        whi_log(WHI_WARN, "W-LST-05",
                "the listener at %s asks for no secret although the configuration has one, because "
                "its own is \"\"; leave it NULL to use the configuration's",
                address);
    listener->accept = accept;
    listener->arg = arg;
    worker->handles++;
    *out = listener;
    return WH_OK;
}

wh_status wh_listener_open(wh_worker *worker, const char *address, const wh_listener_opts *opts,
                           wh_accept_fn accept, void *arg, wh_listener **out) {
    return WHI_OWNED(worker, listener_open_owned(worker, address, opts, accept, arg, out));
}

uint16_t wh_listener_port(const wh_listener *listener) {
    return listener->port;
}

wh_status wh_listener_address(const wh_listener *listener, char *text, size_t size) {
    if (!listener || !text)
        return WH_EINVAL;
    const char *host = listener->host[0] ? listener->host : "*";
    int n = snprintf(text, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, listener->port);
    return n >= 0 && (size_t)n < size ? WH_OK : WH_EINVAL;
}

static wh_status sockaddr_owned(const wh_listener *listener, size_t index, wh_address *out) {
    if (index >= listener->door_count)
        return WH_ENOTFOUND;
    whi_sockaddr bound = {.size = sizeof(bound.addr)};
    if (getsockname(listener->doors[index].fd, (struct sockaddr *)&bound.addr, &bound.size) != 0)
        return WH_ESYSTEM;
    whi_address_tell(&bound, out);
    return WH_OK;
}

wh_status wh_listener_sockaddr(const wh_listener *listener, size_t index, wh_address *address) {
    if (!listener || !address)
        return WH_EINVAL;
    return WHI_OWNED(listener->worker, sockaddr_owned(listener, index, address));
}

static void free_listener(wh_listener *listener) {
    wh_worker *worker = listener->worker;
    if (whi_links_of(worker)->blob_listener == listener)
        whi_links_of(worker)->blob_listener = NULL;
    explicit_bzero(listener->secret, strlen(listener->secret));
    whi_free(listener->secret);
    whi_free(listener->data);
    whi_free(listener);
}

static void shut(wh_listener *listener) {
    if (listener->closed)
        return;
    listener->closed = true;
    close_doors(listener);
    whi_acceptor_drop_all(listener->worker, listener);
    whi_list_remove(&listener->node);
}

static void free_deferred(whi_deferred *deferred) {
    free_listener(whi_container_of(deferred, wh_listener, deferred));
}

static wh_status close_owned(wh_listener *listener) {
    wh_worker *worker = listener->worker;
    shut(listener);
    worker->handles--;
    // An event for one of its sockets may be among those that are being looked at.
    whi_worker_defer(worker, &listener->deferred, free_deferred);
    return WH_OK;
}

void wh_listener_close(wh_listener *listener) {
    if (!listener)
        return;
    wh_worker *worker = listener->worker;
    wh_status st = WHI_OWNED(worker, close_owned(listener));
    if (st == WH_ECLOSED) {
        pthread_mutex_lock(&worker->foreign_lock);
        worker->handles--;
        free_listener(listener);
        whi_worker_unlock_or_free(worker);
    } else if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-LST-03", "wh_listener_close: %s", wh_status_text(st));
    }
}

void whi_listener_close_all(wh_worker *worker) {
    wh_listener *blob = whi_links_of(worker)->blob_listener;
    whi_list_foreach(node, &whi_links_of(worker)->listeners)
        shut(whi_container_of(node, wh_listener, node));
    if (blob)
        free_listener(blob);
}

// add_addresses lists where this machine can be reached: its interfaces', loopback last.
static void add_addresses(wh_worker *worker, uint16_t port, whi_blob *blob) {
    const char *only = worker->ctx->config.interface;
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return;
    for (int loopback = 0; loopback < 2; loopback++) {
        for (struct ifaddrs *a = all; a && blob->count < WHI_ADDRESSES_MAX; a = a->ifa_next) {
            int family = a->ifa_addr ? a->ifa_addr->sa_family : 0;
            bool wanted = (family == AF_INET || family == AF_INET6) && (a->ifa_flags & IFF_UP) &&
                          !(a->ifa_flags & IFF_LOOPBACK) == !loopback &&
                          (!only[0] || strcmp(only, a->ifa_name) == 0);
            const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)a->ifa_addr;
            if (!wanted || (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr)))
                continue;
            whi_sockaddr *to = &blob->addrs[blob->count++];
            to->size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
            memcpy(&to->addr, a->ifa_addr, to->size);
            whi_address_set_port(to, port);
        }
    }
    freeifaddrs(all);
}

static wh_status worker_address_owned(wh_worker *worker, void *bytes, size_t *size) {
    if (!bytes || !size)
        return WH_EINVAL;
    if (!whi_links_of(worker)->blob_listener) {
        static const wh_listener_opts opts = {.size = sizeof(opts)};
        int error;
        wh_status st =
            listener_new(worker, "", 0, &opts, &error, &whi_links_of(worker)->blob_listener);
        if (st != WH_OK)
            return st;
    }
    whi_blob blob = {.listener = whi_links_of(worker)->blob_listener->id};
    memcpy(blob.uuid, worker->uuid, 16);
    memcpy(blob.boot_id, worker->ctx->boot_id, 16);
    snprintf(blob.local_name, sizeof(blob.local_name), "%s", whi_local_name(worker));
    add_addresses(worker, whi_links_of(worker)->blob_listener->port, &blob);
    *size = whi_blob_encode(&blob, bytes, WH_ADDRESS_MAX);
    return WH_OK;
}

wh_status wh_worker_address(wh_worker *worker, void *bytes, size_t *size) {
    return WHI_OWNED(worker, worker_address_owned(worker, bytes, size));
}
