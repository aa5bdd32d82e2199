// SPDX-License-Identifier: BSD-3-Clause
//
// The local name of a worker, see local.h.  The abstract name space belongs to the network namespace, so that a peer that
// can reach the name shares it, and nothing is left behind in a file system.
#include "link/local.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "link/acceptor.h"
#include "link/sock.h"
#include "link/wire.h"

typedef struct whi_local {
    whi_door door;
    char name[WHI_LOCAL_NAME_MAX];
} whi_local;

static whi_local *open_local(wh_worker *worker) {
    whi_local *local = whi_calloc(1, sizeof(*local));
    if (!local)
        return NULL;
    int used = snprintf(local->name, sizeof(local->name), "wherry-");
    for (int i = 0; i < 16; i++)
        used += snprintf(local->name + used, sizeof(local->name) - (size_t)used, "%02x",
                         worker->uuid[i]);
    int fd;
    wh_status st = whi_sock_listen_local(local->name, &fd);
    if (st == WH_OK && whi_door_open(&local->door, worker, fd, NULL) != WH_OK) {
        close(fd);
        st = WH_ESYSTEM;
    }
    if (st == WH_OK)
        return local;
    whi_log(WHI_INFO, "I-NET-02", "no local socket, peers of this host stay on TCP: %s",
            wh_status_text(st));
    whi_free(local);
    return NULL;
}

const char *whi_local_name(wh_worker *worker) {
    if (!(worker->ctx->lanes & WHI_LANE_SHM))
        return "";
    if (!whi_links_of(worker)->local)
        whi_links_of(worker)->local = open_local(worker);
    return whi_links_of(worker)->local ? whi_links_of(worker)->local->name : "";
}

void whi_local_close(wh_worker *worker) {
    whi_local *local = whi_links_of(worker)->local;
    if (!local)
        return;
    whi_links_of(worker)->local = NULL;
    whi_door_close(&local->door);
    whi_free(local);
}
