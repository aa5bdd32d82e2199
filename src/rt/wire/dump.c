// SPDX-License-Identifier: BSD-3-Clause
//
// What a wire knows of other PEs, in print.
#include "rt/wire/state.h"

static const char *state_of(const wh_endpoint *ep) {
    if (!ep)
        return "none";
    wh_status st = wh_endpoint_status(ep);
    return st == WH_OK ? "open" : st == WH_PENDING ? "connecting" : "lost";
}

static void dump_peer(const whi_peer *peer, FILE *file) {
    size_t receives = 0;
    whi_list_foreach(node, (whi_list *)(uintptr_t)&peer->receives) receives++;
    fprintf(file, "  PE %d: data to it %s, from it %s; control to it %s, from it %s", peer->pe,
            state_of(peer->out[WHI_USE_DATA]), state_of(peer->in[WHI_USE_DATA]),
            state_of(peer->out[WHI_USE_CONTROL]), state_of(peer->in[WHI_USE_CONTROL]));
    if (receives)
        fprintf(file, "; %zu receives wait until it connects", receives);
    if (peer->lost != WH_OK)
        fprintf(file, "; lost: %s", wh_status_text(peer->lost));
    fputc('\n', file);
}

void whi_wire_dump(const whi_wire *wire, whi_dump *to) {
    FILE *file = to->file;
    size_t asking = 0;
    for (const whi_queue_node *node = wire->asking.first; node; node = node->next)
        asking++;
    fprintf(file, "  inbox: %zu of %zu bytes, %zu messages wait for space\n", wire->inbox,
            wire->inbox_max, asking);
    to->busy = to->busy || asking;
    for (int i = 0; i < wire->pes; i++)
        if (wire->peers[i]) {
            dump_peer(wire->peers[i], file);
            to->waits = to->waits || !whi_list_empty(&wire->peers[i]->receives);
        }
}
