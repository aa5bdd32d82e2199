// SPDX-License-Identifier: BSD-3-Clause
#include "rt/wire/gate.h"

#include "base/alloc.h"

whi_gate *whi_gate_close(whi_hash *gates, int pe) {
    whi_gate *gate = whi_hash_make(gates, (uint32_t)pe, sizeof(*gate));
    if (gate)
        whi_queue_init(&gate->queue);
    return gate;
}

void whi_gate_open(whi_hash *gates, int pe) {
    whi_free(whi_hash_remove(gates, (uint32_t)pe));
}

void whi_gates_free(whi_hash *gates, void (*drop)(void *arg, whi_msg *msg), void *arg) {
    size_t cursor = 0;
    uint64_t pe;
    whi_gate *gate;
    while ((gate = whi_hash_next(gates, &cursor, &pe))) {
        whi_queue_node *node;
        while ((node = whi_queue_pop(&gate->queue))) {
            whi_msg *msg = whi_container_of(node, whi_msg, link);
            if (drop)
                drop(arg, msg);
            if (!msg->arriving)
                whi_msg_free(msg);
        }
        whi_free(gate);
    }
    whi_hash_fini(gates);
    whi_hash_init(gates);
}
