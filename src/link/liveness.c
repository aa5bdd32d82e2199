// SPDX-License-Identifier: BSD-3-Clause
//
// Liveness of local peers: a pidfd per peer process, shared by its links.
//
// The end of the socket tells of most deaths.  It does not when the peer has left the socket open in a child that did not
// exec, and it says nothing of a zombie's state; a pidfd becomes readable when the process has ended, reaped or not.
// The process is the one that the kernel says made the socket, and the socket is looked at after the pidfd
// was opened, so that a reused pid cannot be taken for the peer.
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "link/link.h"

typedef struct whi_process {
    wh_worker *worker;
    pid_t pid;
    int fd;
    unsigned users;  // links that hold it
    whi_watch watch;
    whi_list links;
    whi_list node;  // in the worker's list
    whi_deferred deferred;
} whi_process;

static void on_death(whi_watch *watch, uint32_t events) {
    (void)events;
    whi_process *process = whi_container_of(watch, whi_process, watch);
    whi_worker_unwatch(process->worker, watch);
    whi_list *node;
    while ((node = whi_list_pop_front(&process->links))) {
        whi_link *link = whi_container_of(node, whi_link, process_link);
        // What the peer has sent before it died is still to be read; the socket's end comes behind it.
        link->peer_died = true;
        whi_link_heat(link);
    }
}

static whi_process *find(wh_worker *worker, pid_t pid) {
    whi_list_foreach(node, &whi_links_of(worker)->processes) {
        whi_process *process = whi_container_of(node, whi_process, node);
        if (process->pid == pid && process->watch.fd >= 0)
            return process;
    }
    return NULL;
}

static whi_process *open_process(wh_worker *worker, pid_t pid, const whi_control *control) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);  // close-on-exec by nature
    if (fd < 0)
        return NULL;
    whi_process *process = whi_control_hung_up(control) ? NULL : whi_calloc(1, sizeof(*process));
    if (!process) {
        close(fd);
        return NULL;
    }
    process->worker = worker;
    process->pid = pid;
    process->watch.fn = on_death;
    whi_list_init(&process->links);
    if (whi_worker_watch(worker, &process->watch, fd, EPOLLIN) != WH_OK) {
        close(fd);
        whi_free(process);
        return NULL;
    }
    process->fd = fd;
    whi_list_push_back(&whi_links_of(worker)->processes, &process->node);
    return process;
}

void whi_process_attach(whi_link *link) {
    pid_t pid;
    uid_t uid;
    // Across pid namespaces the kernel says 0: then the socket alone must do.
    if (!whi_control_peer(&link->control, &pid, &uid) || pid <= 0 || pid == getpid())
        return;
    whi_process *process = find(link->worker, pid);
    if (!process)
        process = open_process(link->worker, pid, &link->control);
    if (!process)
        return;
    link->process = process;
    process->users++;
    whi_list_push_back(&process->links, &link->process_link);
}

static void free_process(whi_deferred *deferred) {
    whi_free(whi_container_of(deferred, whi_process, deferred));
}

void whi_process_detach(whi_link *link) {
    whi_process *process = link->process;
    link->process = NULL;
    if (!process)
        return;
    whi_list_remove(&link->process_link);
    process->users--;
    if (process->users)
        return;
    whi_worker_unwatch(process->worker, &process->watch);
    close(process->fd);
    whi_list_remove(&process->node);
    whi_worker_defer(process->worker, &process->deferred, free_process);
}
