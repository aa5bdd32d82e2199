// SPDX-License-Identifier: BSD-3-Clause
//
// Gates: by PE, messages that wait behind one whose data is still arriving.
//
// Whoever keeps the order of messages of a PE, or to it, has a map of gates, and closes the one of that PE.
#ifndef WHI_RT_WIRE_GATE_H
#define WHI_RT_WIRE_GATE_H

#include "base/hash.h"
#include "rt/wire/msg.h"

typedef struct whi_gate {
    whi_queue queue;  // of messages; the first one is arriving
    bool broken;      // one did not come, as the PE is lost: later ones go the same way
} whi_gate;

// whi_gate_at returns the gate of a PE, or NULL when it is open.
static inline whi_gate *whi_gate_at(const whi_hash *gates, int pe) {
    return whi_hash_count(gates) ? whi_hash_get(gates, (uint32_t)pe) : NULL;
}

// whi_gate_close closes the gate of a PE, which is open.  NULL: memory is out.
whi_gate *whi_gate_close(whi_hash *gates, int pe);

// whi_gate_open opens one where nothing waits any more.
void whi_gate_open(whi_hash *gates, int pe);

// whi_gates_free ends a map, with what waits; the wire frees messages that are arriving.  `drop` is called for each of all,
// before; NULL: there is nothing to drop.
void whi_gates_free(whi_hash *gates, void (*drop)(void *arg, whi_msg *msg), void *arg);

#endif
