// SPDX-License-Identifier: BSD-3-Clause
//
// Endpoints and pending operations, in print: the message room's part of wh_worker_dump.
#include "message/endpoint.h"

enum { OPS_SHOWN = 16 };

static const char *const stage_texts[] = {
    [WHI_STAGE_NEW] = "new",
    [WHI_STAGE_QUEUED] = "waiting",
    [WHI_STAGE_ANNOUNCED] = "announced",
    [WHI_STAGE_MOVING] = "moving",
    [WHI_STAGE_ANSWER] = "awaiting an answer",
    [WHI_STAGE_ASKING] = "asking for memory",
    [WHI_STAGE_PARKED] = "awaiting memory",
    [WHI_STAGE_DONE] = "done",
};

void whi_req_dump_all(const whi_list *ops, FILE *file, const char *indent) {
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

void whi_ep_dump(const wh_endpoint *ep, FILE *file) {
    static const char *const states[] = {"connecting", "open", "closed"};
    fprintf(
        file,
        "    endpoint %u: %s%s, sent %u, received %u, credit %lld, peer's window %lld, announced "
        "%u of %u, held announcements %u\n",
        ep->number, states[ep->state], ep->eos ? ", peer has closed" : "", ep->tx_seq, ep->rx_seq,
        (long long)ep->credit, (long long)ep->rx_window, ep->announced, ep->announce_limit,
        ep->rx_announced);
    if (ep->announce_limit && ep->announced >= ep->announce_limit)
        fprintf(file, "      the peer has as many messages to receive as its WHERRY_ANNOUNCE_MAX "
                      "allows: nothing more goes there, and what was sent later waits\n");
    whi_req_dump_all(&ep->ops, file, "      ");
}
