// SPDX-License-Identifier: BSD-3-Clause
//
// See copied.h.
//
// Only the answer to this send is taken out of the lane within the call: a GRANT or an ACK, neither of which runs a
// function of the user's.  Where anything else comes first, that is for the next pass, and the payload is copied.
#include "message/copied.h"

#include "base/clock.h"
#include "message/bulk_lane.h"
#include "message/offer.h"
#include "message/send.h"
#include "net/copy.h"

enum { PATIENCE_BYTES = 2, SKIPS_MAX = 63 };

uint64_t whi_copied_patience = 65536;

typedef enum { STEP_NOTHING, STEP_MOVED, STEP_OVER } step_result;

bool whi_copied_may_wait(wh_endpoint *ep) {
    whi_link *link = ep->link;
    if (ep->state != WHI_EP_OPEN || ep->worker->in_progress || !link || link->dead ||
        link->doomed != WH_OK || link->tx != link->rx || !link->rx->ops->next ||
        !whi_list_empty(&ep->sendq) || !whi_list_empty(&whi_messages_on(link)->bulks))
        return false;
    whi_link_messages *m = whi_messages_on(link);
    if (!m->copy_skips)
        return true;
    m->copy_skips--;
    return false;
}

void whi_copied_keep(wh_request *req, void *copy) {
    uint64_t moved = req->stage == WHI_STAGE_MOVING ? req->offset : 0;
    whi_buffer *buf = &req->buf;
    if (buf->size > moved)  // of nothing there may be no address
        whi_copy((char *)copy + moved, (const char *)buf->ptr + moved, buf->size - moved);
    buf->ptr = copy;
}

// is_out says whether the send with this id has not ended yet.
static bool is_out(const whi_link *link, uint32_t id, const wh_request *req) {
    return !link->dead && whi_idmap_get(&whi_messages_on(link)->sends, id) == req;
}

// step takes the answer or moves a few chunks.
static step_result step(whi_link *link, uint32_t id, wh_request *req) {
    if (req->stage == WHI_STAGE_MOVING) {
        uint64_t before = req->moved;
        if (whi_bulk_granted(req))
            return STEP_OVER;
        (void)whi_send_push(link, false);
        bool moved = !is_out(link, id, req) || req->moved != before;
        return moved ? STEP_MOVED : link->doomed != WH_OK ? STEP_OVER : STEP_NOTHING;
    }
    whi_hdr hdr;
    whi_lane *lane = link->rx;
    if (!lane->ops->next(lane, &hdr))
        return STEP_NOTHING;
    bool answer = hdr.cls == WHI_CLASS_GRANT || hdr.cls == WHI_CLASS_ACK;
    if (!answer || (uint32_t)hdr.tag != id)
        return STEP_OVER;
    return lane->ops->poll(lane, 1) < 0 ? STEP_OVER : STEP_MOVED;
}

// move has the send go on for as long as something moves.  False: it is still out.
static bool move(whi_link *link, uint32_t id, wh_request *req) {
    uint64_t patience = whi_copied_patience + req->buf.size / PATIENCE_BYTES,
             since = whi_clock_cycles();
    while (is_out(link, id, req)) {
        step_result result = step(link, id, req);
        uint64_t now = result == STEP_OVER ? 0 : whi_clock_cycles();
        if (result == STEP_OVER || (result == STEP_NOTHING && now - since > patience))
            return !is_out(link, id, req);
        if (result == STEP_MOVED)
            since = now;
    }
    return true;
}

void whi_copied_wait(wh_request *req, void *copy) {
    whi_link *link = req->ep->link;
    whi_link_messages *m = whi_messages_on(link);
    if (req->stage != WHI_STAGE_ANNOUNCED) {  // it waits for space
        whi_copied_keep(req, copy);
        return;
    }
    wh_worker *worker = req->worker;
    worker->in_progress = true;
    bool gone = move(link, req->send_id, req);
    worker->in_progress = false;
    if (gone) {
        m->copy_misses = 0;
        return;
    }
    m->copy_misses = m->copy_misses < SKIPS_MAX / 2 ? (uint8_t)(2 * m->copy_misses + 1) : SKIPS_MAX;
    m->copy_skips = m->copy_misses;
    if (req->stage == WHI_STAGE_ANNOUNCED && !whi_offer_revoke(req))
        whi_send_taken(req);
    else
        whi_copied_keep(req, copy);
}
