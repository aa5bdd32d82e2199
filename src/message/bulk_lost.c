// SPDX-License-Identifier: BSD-3-Clause
//
// The transfers that are under way on a bulk lane which is lost, see bulk_lane.h.
//
// Nobody knows what of their payloads has come, so that they do not go on over the other lane.
#include "message/bulk_lane.h"
#include "message/endpoint.h"

void whi_bulk_fail(wh_request *req, const char *sentence) {
    whi_list_remove(&req->queue_link);
    whi_req_explain(req, "%s of %llu bytes: %s; send it again, and it goes another way",
                    whi_req_text(req), (unsigned long long)req->result.size, sentence);
    whi_req_complete_when_returned(req, WH_EPEER);
}

static void lose(const whi_idmap *named, bool unused, const char *sentence) {
    // What follows the end of one may end others: they leave the map by that.
    for (uint32_t i = 0; i < named->capacity; i++) {
        wh_request *req = named->slots[i].ptr;
        if (!req || req->stage != WHI_STAGE_MOVING || !whi_bulk_granted(req) ||
            req->fate != WHI_FATE_GOES_ON)
            continue;
        if (unused && !req->moved && !req->held)
            req->bulk = 0;
        else
            whi_bulk_fail(req, sentence);
    }
}

void whi_bulk_lost(whi_link *link, bool unused, const char *sentence) {
    lose(&whi_messages_on(link)->sends, false, sentence);
    lose(&whi_messages_on(link)->grants, unused, sentence);
}
