// SPDX-License-Identifier: BSD-3-Clause
//
// Which payloads go by the bulk lane, see bulk_lane.h.
//
// With bulk_lane=auto those with a part that is one run of CUDA memory, at either end; with bulk_lane=ucx all that are announced
// for their size.  A lane that is not open yet is not waited for.  One copy from device to device (device_offer.h) comes before it.
#include "message/bulk_lane.h"

#include "mem/mem.h"
#include "message/device_offer.h"
#include "message/endpoint.h"

bool whi_bulk_is_cuda(const whi_buffer *buf) {
    return buf->kind == WH_MEM_CUDA && !buf->type && buf->size &&
           !whi_mem_cuda.foreign->managed(buf->ptr);
}

static bool takes_all(const wh_worker *worker) {
    return worker->ctx->config.bulk_lane == WHI_BULK_LANE_UCX;
}

bool whi_bulk_is_direct(const whi_link *link, const whi_lane *lane, const whi_buffer *buf) {
    return whi_lane_takes(lane, buf->kind) &&
           link->worker->ctx->config.device_path == WHI_DEVICE_PATH_AUTO && whi_bulk_is_cuda(buf);
}

// fits says whether a payload of this size may go so, and is worth it as far as this side knows.
static bool fits(const wh_request *req, uint64_t size) {
    if (size <= req->ep->link->eager_max || !whi_link_bulk_agreed(req->ep->link))
        return false;
    if (takes_all(req->worker))
        return true;
    return req->ops->on_cuda ? req->ops->on_cuda(req) : whi_bulk_is_cuda(&req->buf);
}

bool whi_bulk_wishes(const wh_request *req) {
    uint64_t size = req->ops->follows ? req->ops->follows(req) : req->buf.size;
    if (!fits(req, size))
        return false;
    // Device memory for a device of this host takes no lane; for its host memory, the receiver opens one.
    if (takes_all(req->worker) || !whi_device_offer_may(req->ep->link))
        whi_link_bulk_want(req->ep->link);
    return true;
}

bool whi_bulk_takes(const wh_request *req, uint64_t size) {
    whi_link *link = req->ep->link;
    bool wished = (req->bulk & WHI_BULK_WISHED) && size && whi_link_bulk_agreed(link);
    if (!req->ops->receives || !(wished || fits(req, size)) || whi_device_offer_may_come(req))
        return false;
    whi_link_bulk_want(link);
    return whi_link_bulk(link);
}

wh_status whi_bulk_take_grant(wh_request *req, const whi_hdr *hdr) {
    const whi_link *link = req->ep->link;
    req->bulk = 0;
    if (!(hdr->flags & WHI_FLAG_BULK_LANE))
        return WH_OK;
    bool may = req->ops->cls && hdr->aux == WHI_PART_DATA && hdr->arg;
    if (!may || (link->bulk.state != WHI_BULK_OPEN && link->bulk.state != WHI_BULK_NONE) ||
        !whi_link_bulk_agreed(link))
        return WH_EPROTOCOL;
    if (link->bulk.state == WHI_BULK_NONE && !link->bulk.opened)
        return WH_OK;
    req->bulk = WHI_BULK_GRANTED;
    return link->bulk.state == WHI_BULK_OPEN ? WH_OK : WH_EPEER;
}

void whi_bulk_list(whi_link *link, wh_request *req) {
    whi_link_messages *on = whi_messages_on(link);
    if (whi_bulk_granted(req)) {
        whi_list_push_back(&on->beside, &req->queue_link);
        whi_link_bulk_busy(link);
    } else {
        whi_list_push_back(&on->bulks, &req->queue_link);
        whi_link_mark(link);
    }
}
