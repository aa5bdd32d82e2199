// SPDX-License-Identifier: BSD-3-Clause
//
// What a worker knows, in print: links, lanes, credits, pending operations.
//
// The signal handler only counts and wakes; the printing is done by each worker's owner in its progress.
#include "worker/dump.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "link/link.h"
#include "message/endpoint.h"
#include "message/request.h"

enum { WORKERS_MAX = 64, OPS_SHOWN = 16 };

static _Atomic(wh_worker *) listening[WORKERS_MAX];
static _Atomic uint32_t asked;
static _Atomic uint32_t handling;  // signal handlers that may be looking at a worker

static const char *const stage_texts[] = {
    [WHI_STAGE_NEW] = "new",
    [WHI_STAGE_QUEUED] = "waiting",
    [WHI_STAGE_ANNOUNCED] = "announced",
    [WHI_STAGE_MOVING] = "moving",
    [WHI_STAGE_ANSWER] = "awaiting an answer",
    [WHI_STAGE_PARKED] = "awaiting memory",
    [WHI_STAGE_DONE] = "done",
};

static void dump_ops(const whi_list *ops, FILE *file, const char *indent) {
    size_t count = 0;
    for (const whi_list *n = ops->next; n != ops; n = n->next) {
        if (++count > OPS_SHOWN)
            continue;
        const wh_request *r = whi_container_of((whi_list *)(uintptr_t)n, wh_request, op_link);
        fprintf(file, "%s%s, tag 0x%llx, %llu bytes, %llu moved, %s\n", indent, whi_req_text(r),
                (unsigned long long)r->tag, (unsigned long long)r->buf.size,
                (unsigned long long)(r->stage == WHI_STAGE_MOVING ? r->moved : 0),
                stage_texts[r->stage]);
    }
    if (count > OPS_SHOWN)
        fprintf(file, "%s... and %zu more\n", indent, count - OPS_SHOWN);
}

static void dump_ep(const wh_endpoint *ep, FILE *file) {
    static const char *const states[] = {"connecting", "open", "closed"};
    fprintf(
        file,
        "    endpoint %u: %s%s, sent %u, received %u, credit %lld, peer's window %lld, announced "
        "%u of %u, held announcements %u\n",
        ep->number, states[ep->state], ep->eos ? ", peer has closed" : "", ep->tx_seq, ep->rx_seq,
        (long long)ep->credit, (long long)ep->rx_window, ep->announced, ep->announce_limit,
        ep->rx_announced);
    dump_ops(&ep->ops, file, "      ");
}

static void dump_link(const whi_link *link, FILE *file) {
    char text[96];
    link->tx->ops->describe(link->tx, text, sizeof(text));
    fprintf(file,
            "  link to %s: sends by %s (%s), receives by %s%s%s%s, %zu control records wait\n",
            link->name, link->tx->ops->name, text, link->rx->ops->name, link->hot ? ", polled" : "",
            link->dirty ? ", has output" : "", link->blocked ? " without room" : "",
            link->control_count);
    for (const whi_list *n = link->ep_list.next; n != &link->ep_list; n = n->next)
        dump_ep(whi_container_of((whi_list *)(uintptr_t)n, wh_endpoint, link_node), file);
}

static wh_status dump(const wh_worker *worker, FILE *file) {
    fprintf(file, "worker ");
    for (int i = 0; i < 16; i++)
        fprintf(file, "%02x", worker->uuid[i]);
    fprintf(file, ": %zu links, %llu operations pending, %llu sleeps, %llu wake-ups, %llu bells\n",
            whi_hash_count(&worker->links), (unsigned long long)worker->counters.pending,
            (unsigned long long)worker->counters.sleeps,
            (unsigned long long)worker->counters.wakeups,
            (unsigned long long)worker->counters.doorbells);
    for (int i = 0; i < WHI_MATCH_COUNT; i++)
        fprintf(file, "  %s: %zu receives wait, %zu messages wait\n",
                i == WHI_MATCH_TAG ? "tags" : "objects", worker->match[i].receives,
                worker->match[i].messages);
    size_t cursor = 0;
    uint64_t key;
    const whi_link *link;
    while ((link = whi_hash_next(&worker->links, &cursor, &key)))
        if (link->tx)
            dump_link(link, file);
    if (!whi_list_empty(&worker->any_source)) {
        fprintf(file, "  receives from any source:\n");
        dump_ops(&worker->any_source, file, "    ");
    }
    fflush(file);
    return WH_OK;
}

void wh_worker_dump(const wh_worker *worker, FILE *file) {
    // Only the ownership is changed for the moment, and given back.
    if (worker && file && WHI_OWNED((wh_worker *)(uintptr_t)worker, dump(worker, file)) != WH_OK)
        fprintf(file, "worker: only its owner can print it\n");
}

static void on_signal(int signal) {
    (void)signal;
    atomic_fetch_add(&handling, 1);
    atomic_fetch_add(&asked, 1);
    for (int i = 0; i < WORKERS_MAX; i++) {
        wh_worker *worker = atomic_load(&listening[i]);
        if (worker)
            wh_worker_wake(worker);
    }
    atomic_fetch_sub(&handling, 1);
}

void whi_dump_on_signal(wh_worker *worker) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    worker->dumps_seen = atomic_load(&asked);
    worker->dumps = true;
    for (int i = 0; i < WORKERS_MAX; i++) {
        wh_worker *none = NULL;
        if (atomic_compare_exchange_strong(&listening[i], &none, worker))
            break;
    }
    sigaction(SIGUSR1, &action, NULL);
}

void whi_dump_if_asked(wh_worker *worker) {
    if (!worker->dumps)
        return;
    uint32_t now = atomic_load_explicit(&asked, memory_order_relaxed);
    if (now == worker->dumps_seen)
        return;
    worker->dumps_seen = now;
    wh_worker_dump(worker, stderr);
}

void whi_dump_forget(wh_worker *worker) {
    for (int i = 0; i < WORKERS_MAX; i++) {
        wh_worker *self = worker;
        (void)atomic_compare_exchange_strong(&listening[i], &self, NULL);
    }
    // A handler in another thread may have seen the worker; it is done in no time.
    while (worker->dumps && atomic_load(&handling))
        whi_cpu_relax();
}
