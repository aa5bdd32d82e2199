// SPDX-License-Identifier: BSD-3-Clause
//
// Requests of layers (wherry/layer.h): a kind of request whose progress somebody above the engine makes.
//
// It waits in the worker's list of operations of no endpoint, QUEUED from its creation to its completion.  A cancel or a timeout
// is handed to the layer, which completes it; only at the end of the worker, when nothing is left that could lead the layer
// there, does the library do that.
#include <wherry/layer.h>

#include "base/log.h"
#include "base/opts.h"
#include "message/request.h"
#include "message/room.h"
#include "worker/worker.h"

typedef struct layer {
    wh_layer_ops ops;
    void *state;
    bool asked, ended;  // to end it early; with the worker
} layer;
static_assert(sizeof(layer) <= WHI_REQ_OWN, "a layer's part of a request");

static layer *layer_of(wh_request *req) {
    return (layer *)req->own;
}

static wh_status post(wh_request *req) {
    whi_req_accept(req, WHI_STAGE_QUEUED);
    return WH_PENDING;
}

static void withdraw(wh_request *req, wh_status why) {
    layer *own = layer_of(req);
    bool ended = why == WH_ECLOSED;
    if (own->ended || (own->asked && !ended))
        return;
    own->asked = true;
    own->ended = ended;
    own->ops.cancel(req, why, own->state);
}

static const char *text_of(const wh_request *req) {
    return ((const layer *)req->own)->ops.text;
}

static const whi_req_ops layer_ops = {.text = "operation of a layer",
                                      .text_of = text_of,
                                      .post = post,
                                      .withdraw = withdraw,
                                      .match = WHI_MATCH_NONE};

static wh_status create(wh_worker *worker, const wh_layer_ops *ops, void *state,
                        const wh_op_opts *opts, bool wanted, wh_request **out) {
    wh_request *req = whi_req_new(worker, NULL, &layer_ops, opts, wanted);
    if (!req)
        return WH_ENOMEM;
    *layer_of(req) = (layer){.ops = *ops, .state = state};
    *out = req;
    return post(req) == WH_PENDING ? WH_OK : WH_ESYSTEM;
}

wh_status wh_request_create(wh_worker *worker, const wh_layer_ops *ops, void *state,
                            const wh_op_opts *opts, bool wanted, wh_request **req) {
    if (!worker || !ops || !req)
        return WH_EINVAL;
    WHI_OPTS(wh_layer_ops, ops);
    WHI_OP_OPTS(opts);
    if (!ops->cancel || !ops->text) {
        whi_log(WHI_ERROR, "E-REQ-01", "wh_request_create: wh_layer_ops.%s is NULL; set it",
                ops->cancel ? "text" : "cancel");
        return WH_EINVAL;
    }
    return WHI_OWNED(worker, create(worker, ops, state, opts, wanted, req));
}

// is_pending says whether a request is a layer's and waits to be completed by it.
static bool is_pending(const wh_request *req) {
    return req && req->ops == &layer_ops && req->stage == WHI_STAGE_QUEUED;
}

static wh_status complete(wh_request *req, const wh_result *result, const char *sentence) {
    if (!is_pending(req))
        return WH_EINVAL;
    req->result.size = result->size;
    req->result.tag = result->tag;
    if (result->status < 0 && sentence)
        whi_req_explain(req, "%s", sentence);
    whi_req_complete(req, result->status);
    return WH_OK;
}

wh_status wh_request_complete(wh_request *req, const wh_result *result, const char *sentence) {
    if (!req || !result || result->status > WH_OK)
        return WH_EINVAL;
    return WHI_OWNED(req->worker, complete(req, result, sentence));
}

static wh_status discard(wh_request *req) {
    if (!is_pending(req))
        return WH_EINVAL;
    req->worker->counters.pending--;
    whi_req_discard(req);
    return WH_OK;
}

void wh_request_discard(wh_request *req) {
    if (req && WHI_OWNED(req->worker, discard(req)) != WH_OK)
        whi_log(WHI_ERROR, "E-REQ-02",
                "wh_request_discard: this is no pending request of a layer, or another thread "
                "owns its worker; nothing was done");
}

wh_status wh_request_may_wait(const wh_worker *worker) {
    return worker ? whi_req_may_wait(worker) : WH_EINVAL;
}

wh_status wh_request_finish(wh_request *req, int timeout_ms, wh_result *result) {
    return req ? whi_req_wait_result(req, timeout_ms, result) : WH_EINVAL;
}

void whi_layer_end(wh_worker *worker) {
    whi_list_foreach(node, &whi_messages_of(worker)->any_source) {
        wh_request *req = whi_container_of(node, wh_request, op_link);
        if (!is_pending(req))
            continue;
        whi_log(WHI_ERROR, "E-REQ-03",
                "wh_worker_destroy: the layer that made a request (%s) has not completed it",
                whi_req_text(req));
        whi_req_fail(req, WH_ECLOSED, "%s: %s", whi_req_text(req), wh_status_text(WH_ECLOSED));
    }
}
