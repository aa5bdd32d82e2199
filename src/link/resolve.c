// SPDX-License-Identifier: BSD-3-Clause
//
// Name resolution, see resolve.h.  The thread and the dial each hold the record; the last one frees it, so that a dial can
// be ended while the system still looks.
#include "link/resolve.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"

struct whi_resolve {
    _Atomic int holds;
    int fd;
    char host[WHI_HOST_MAX];
    uint16_t port;
    size_t count;
    whi_sockaddr addrs[WHI_ADDRESSES_MAX];
};

void whi_resolve_end(whi_resolve *resolve) {
    if (atomic_fetch_sub(&resolve->holds, 1) != 1)
        return;
    close(resolve->fd);
    whi_free(resolve);
}

static void *look(void *arg) {
    whi_resolve *resolve = arg;
    uint64_t one = 1;
    resolve->count =
        whi_address_resolve(resolve->host, resolve->port, false, false, resolve->addrs);
    if (write(resolve->fd, &one, sizeof(one)) < 0) {
        // An eventfd takes one; if it ever did not, the dial's timeout tells the user.
    }
    whi_resolve_end(resolve);
    return NULL;
}

wh_status whi_resolve_start(const char *host, uint16_t port, whi_resolve **out, int *fd) {
    whi_resolve *resolve = whi_calloc(1, sizeof(*resolve));
    if (!resolve)
        return WH_ENOMEM;
    atomic_store(&resolve->holds, 2);
    snprintf(resolve->host, sizeof(resolve->host), "%s", host);
    resolve->port = port;
    resolve->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_t thread;
    if (resolve->fd < 0 || whi_thread_start(&thread, look, resolve) != WH_OK) {
        if (resolve->fd >= 0)
            close(resolve->fd);
        whi_free(resolve);
        return WH_ELIMIT;
    }
    pthread_detach(thread);
    *fd = resolve->fd;
    *out = resolve;
    return WH_OK;
}

size_t whi_resolve_take(whi_resolve *resolve, whi_sockaddr out[WHI_ADDRESSES_MAX]) {
    uint64_t count;
    if (read(resolve->fd, &count, sizeof(count)) != sizeof(count))
        return 0;
    memcpy(out, resolve->addrs, resolve->count * sizeof(out[0]));
    return resolve->count;
}
