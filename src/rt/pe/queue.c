// SPDX-License-Identifier: BSD-3-Clause
//
// Where messages that have come are put.
//
// Those of one source are handled in the order of its sends.  So behind one whose data is still arriving the later ones of
// that source wait, at its gate.  What a floor above takes by the heads has an order of its own, and passes.
#include "rt/pe/pe.h"

void whi_pe_queue(wh_pe *pe, whi_msg *msg) {
    if (pe->exit.state >= WHI_END_STOPPED && !msg->arriving) {
        pe->quiet.consumed++;
        whi_msg_free(msg);
        return;
    }
    if (msg->pub.handler == WHI_PE_HEADS && pe->heads.message) {
        pe->heads.message(pe->heads.arg, msg);
        return;
    }
    whi_gate *g = whi_gate_at(&pe->gates, msg->pub.source);
    if (!g && msg->arriving && !(g = whi_gate_close(&pe->gates, msg->pub.source))) {
        whi_pe_fail(pe, "there is no memory for a message of PE %d", msg->pub.source);
        return;  // it is freed when it has arrived
    }
    msg->gated = g && !g->broken;
    if (msg->gated)
        whi_queue_push(&g->queue, &msg->link);
    else if (!g)
        whi_sched_push(&pe->sched, msg);
    else if (!msg->arriving)
        whi_msg_free(msg);
}

// pass has those that can go leave a gate.
static void pass(wh_pe *pe, int source, whi_gate *g) {
    whi_queue_node *node;
    while ((node = whi_queue_first(&g->queue))) {
        whi_msg *msg = whi_container_of(node, whi_msg, link);
        if (msg->arriving)
            return;
        whi_queue_pop(&g->queue);
        g->broken |= msg->failed != WH_OK;  // its sender is lost, which is told otherwise
        if (g->broken)
            whi_msg_free(msg);
        else
            whi_sched_push(&pe->sched, msg);
    }
    if (g->broken)
        return;
    whi_gate_open(&pe->gates, source);
}

void whi_pe_queue_arrived(wh_pe *pe, whi_msg *msg, wh_status status) {
    if (msg->pub.handler == WHI_PE_HEADS && pe->heads.message) {
        pe->heads.arrived(pe->heads.arg, msg, status);
        return;
    }
    whi_gate *g = whi_gate_at(&pe->gates, msg->pub.source);
    if (!g || !msg->gated) {
        whi_msg_free(msg);
        return;
    }
    if (pe->exit.state >= WHI_END_STOPPED)
        return;  // it is freed with its gate
    if (status == WH_ENOMEM)
        whi_pe_fail(pe, "there is no memory for %zu bytes from PE %d", msg->pub.size,
                    msg->pub.source);
    pass(pe, msg->pub.source, g);
}

void whi_pe_dump_gates(const wh_pe *pe, whi_dump *to) {
    size_t cursor = 0;
    uint64_t source;
    const whi_gate *g;
    while ((g = whi_hash_next(&pe->gates, &cursor, &source))) {
        const whi_msg *first = NULL;
        size_t behind = 0;
        for (whi_queue_node *node = whi_queue_first(&g->queue); node; node = node->next) {
            behind += first != NULL;
            first = first ? first : whi_container_of(node, whi_msg, link);
        }
        to->busy = true;
        if (first)
            fprintf(to->file,
                    "  arriving: %zu bytes of PE %d for handler %u, %zu messages behind them\n",
                    first->pub.size, (int)source, first->pub.handler, behind);
    }
}
