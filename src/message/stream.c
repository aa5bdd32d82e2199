// SPDX-License-Identifier: BSD-3-Clause
//
// An operation that is only the waiting for a stream of the caller's (behind.h).  It belongs to no endpoint.
#include "mem/mem.h"
#include "message/behind.h"
#include "message/request.h"
#include "message/room.h"

static void passed(wh_request *req) {
    wh_status st = whi_behind_ask(req);
    if (st == WH_OK)
        whi_req_complete(req, WH_OK);
    else
        whi_req_fail(req, st, "the work in the stream has failed: %s", wh_status_text(st));
}

static wh_status post(wh_request *req) {
    wh_status st = whi_behind_ask(req);
    if (st != WH_PENDING)
        return st;
    whi_req_accept(req, WHI_STAGE_QUEUED);
    whi_behind_await(req, passed);
    return WH_PENDING;
}

static void withdraw(wh_request *req, wh_status why) {
    whi_req_fail(req, why, "wait for a stream: %s", wh_status_text(why));
}

static const whi_req_ops stream_ops = {
    .text = "wait for a stream", .post = post, .withdraw = withdraw, .match = WHI_MATCH_NONE};

wh_status wh_worker_flush_stream(wh_worker *worker, wh_mem_kind kind, void *stream,
                                 const wh_op_opts *opts, wh_request **out) {
    WHI_OP_OPTS(opts);
    if (!worker || kind <= WH_MEM_HOST || (int)kind >= WHI_MEM_KINDS)
        return WH_EINVAL;
    const whi_mem_ops *ops = whi_mem_ops_of(kind);
    if (!ops)
        return WH_ENOTSUP;
    wh_request *req = whi_req_new(worker, NULL, &stream_ops, opts, out != NULL);
    if (!req)
        return WH_ENOMEM;
    wh_status st = whi_behind_begin(req, kind, stream);
    if (st != WH_OK) {
        whi_req_discard(req);
        return st;
    }
    return whi_req_start(req, opts, out);
}
