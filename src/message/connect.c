// SPDX-License-Identifier: BSD-3-Clause
//
// The public calls that connect an endpoint.  They make the endpoint and its dial; everything else happens in progress.
#include <wherry/endpoint.h>

#include "base/log.h"
#include "base/opts.h"
#include "link/address.h"
#include "link/dial.h"
#include "message/endpoint.h"

// discard frees an endpoint that is not to be: failure gives the caller nothing.
static void discard(wh_endpoint *ep) {
    ep->user_gone = true;
    whi_ep_end(ep, WH_EADDRESS, NULL);
    whi_ep_release(ep);
}

// fail_connect completes a connect early, and ends the endpoint with it.
static void fail_connect(wh_request *req, wh_status why) {
    whi_ep_end(req->ep, why, "connecting was given up");
}

static wh_status never_posted(wh_request *req) {
    (void)req;
    return WH_EINVAL;  // want_done accepts it at once
}

static const whi_req_ops connect_ops = {
    .text = "connect", .post = never_posted, .withdraw = fail_connect, .match = WHI_MATCH_NONE};

// want_done makes the request that tells of the connection; NULL when nobody asks.
static wh_status want_done(wh_endpoint *ep, const wh_endpoint_opts *opts, bool wanted,
                           wh_request **req) {
    if (!opts->done && !wanted)
        return WH_OK;
    wh_op_opts op = {.size = sizeof(op), .done = opts->done, .arg = opts->arg};
    ep->connect_req = whi_req_new(ep->worker, ep, &connect_ops, &op, wanted);
    if (!ep->connect_req)
        return WH_ENOMEM;
    whi_req_accept(ep->connect_req, WHI_STAGE_ANSWER);
    if (req)
        *req = ep->connect_req;
    return WH_OK;
}

static void linked(void *arg, whi_link *link, uint64_t listener) {
    wh_endpoint *ep = arg;
    ep->listener_id = listener;
    whi_ep_bind(ep, link);
}

static void failed(void *arg, wh_status status, const char *sentence) {
    whi_ep_end(arg, status, sentence);
}

static const whi_dial_up dial_up = {.linked = linked, .failed = failed};

// new_endpoint makes an endpoint and its dial.
static wh_status new_endpoint(wh_worker *worker, const wh_endpoint_opts *opts, wh_endpoint **out) {
    wh_endpoint *ep = NULL;
    wh_status st = whi_ep_new(worker, &ep);
    if (st != WH_OK)
        return st;
    st = whi_connect_data_copy(opts->data, opts->data_size, "connect", &ep->own_data);
    if (st == WH_OK)
        st = whi_dial_new(worker, opts->secret, opts->timeout_ms, &dial_up, ep, &ep->dial);
    if (st != WH_OK) {
        discard(ep);
        return st;
    }
    *out = ep;
    return WH_OK;
}

static wh_status connect_address(wh_worker *worker, const char *address,
                                 const wh_endpoint_opts *opts, wh_endpoint **out,
                                 wh_request **req) {
    char host[WHI_HOST_MAX];
    uint16_t port;
    wh_status st = whi_address_split(address, host, &port);
    if (st != WH_OK || !port || !host[0]) {
        whi_log(WHI_ERROR, "E-DIAL-02",
                "\"%s\" is no address to connect to; write host:port or [v6]:port", address);
        return WH_EADDRESS;
    }
    wh_endpoint *ep = NULL;
    st = new_endpoint(worker, opts, &ep);
    if (st != WH_OK)
        return st;
    whi_dial_host(ep->dial, address, host, port);
    st = want_done(ep, opts, req != NULL, req);
    if (st != WH_OK) {
        discard(ep);
        return st;
    }
    *out = ep;
    return WH_OK;
}

static wh_status connect_blob(wh_worker *worker, const void *bytes, size_t size,
                              const wh_endpoint_opts *opts, wh_endpoint **out) {
    whi_blob blob;
    wh_status st = whi_blob_decode(bytes, size, &blob);
    if (st != WH_OK) {
        whi_log(WHI_ERROR, "E-DIAL-03", "these %zu bytes are not the address of a Wherry worker",
                size);
        return st;
    }
    wh_endpoint *ep = NULL;
    st = new_endpoint(worker, opts, &ep);
    if (st != WH_OK)
        return st;
    st = want_done(ep, opts, false, NULL);
    if (st != WH_OK) {
        discard(ep);
        return st;
    }
    whi_dial_blob(ep->dial, &blob);
    *out = ep;
    return WH_OK;
}

static const wh_endpoint_opts default_opts = {.size = sizeof(default_opts)};

wh_status wh_endpoint_connect(wh_worker *worker, const char *address, const wh_endpoint_opts *opts,
                              wh_endpoint **ep) {
    if (!worker || !address || !ep)
        return WH_EINVAL;
    WHI_OPTS(wh_endpoint_opts, opts);
    return WHI_OWNED(worker,
                     connect_address(worker, address, opts ? opts : &default_opts, ep, NULL));
}

wh_status wh_endpoint_connect_blob(wh_worker *worker, const void *blob, size_t size,
                                   const wh_endpoint_opts *opts, wh_endpoint **ep) {
    if (!worker || !blob || !ep)
        return WH_EINVAL;
    WHI_OPTS(wh_endpoint_opts, opts);
    return WHI_OWNED(worker, connect_blob(worker, blob, size, opts ? opts : &default_opts, ep));
}

wh_status wh_endpoint_connect_wait(wh_worker *worker, const char *address,
                                   const wh_endpoint_opts *opts, wh_endpoint **ep) {
    if (!worker || !address || !ep)
        return WH_EINVAL;
    WHI_OPTS(wh_endpoint_opts, opts);
    wh_status st = whi_req_may_wait(worker);
    if (st != WH_OK)
        return st;
    wh_request *req = NULL;
    wh_endpoint *made = NULL;
    st = WHI_OWNED(worker,
                   connect_address(worker, address, opts ? opts : &default_opts, &made, &req));
    if (st != WH_OK)
        return st;
    st = wh_request_wait(req, -1);
    if (st != WH_OK)
        whi_log(WHI_WARN, "W-DIAL-04", "%s", wh_request_error(req));
    wh_request_free(req);
    if (st != WH_OK) {
        wh_endpoint_abort(made);
        return st;
    }
    *ep = made;
    return WH_OK;
}
