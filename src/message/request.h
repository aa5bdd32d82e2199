// SPDX-License-Identifier: BSD-3-Clause
//
// Request: an operation under way, from its acceptance to its one completion.
//
// Requests come from their worker's pool and belong to its owner thread, save for the fields of the
// completion, which any thread may ask.  A request that another thread has made comes from a locked pool and
// reaches the owner through the submit queue.
//
// A request is freed once, by free_now (request.c), at the later of its completion and the release of its handle; at the
// completion if there is no handle.  A handle that another thread releases goes by the owner.
#ifndef WHI_MESSAGE_REQUEST_H
#define WHI_MESSAGE_REQUEST_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include <wherry/am.h>
#include <wherry/object.h>
#include <wherry/request.h>
#include <wherry/rma.h>
#include <wherry/tag.h>
#include <wherry/worker.h>

#include "base/completion.h"
#include "base/list.h"
#include "base/opts.h"
#include "base/timer.h"
#include "link/wire.h"
#include "message/buffer.h"
#include "worker/worker.h"

typedef struct whi_link whi_link;

// How far a request has come: docs/design/request.md draws it.  Cancelling asks this.
typedef enum whi_req_stage {
    WHI_STAGE_NEW,        // not posted
    WHI_STAGE_QUEUED,     // a send in its endpoint's queue; a receive not matched
    WHI_STAGE_ANNOUNCED,  // a send that waits for its grant
    WHI_STAGE_MOVING,     // granted: the peer may be touching the buffer
    WHI_STAGE_ANSWER,     // all is sent, an acknowledgement is to come
    WHI_STAGE_ASKING,     // an object whose allocators are being called
    WHI_STAGE_PARKED,     // an object whose memory the user has yet to give
    WHI_STAGE_DONE,       // completed; the callback may not have run yet
} whi_req_stage;

// How a request whose buffer a lane uses goes on when the lane has returned it.
typedef enum whi_req_fate {
    WHI_FATE_GOES_ON,     // as if nothing had happened
    WHI_FATE_LAST_CHUNK,  // its endpoint has ended: completes when the chunk in hand is whole
    WHI_FATE_WITHDRAWN,   // its sender has withdrawn it
    WHI_FATE_RETURNED,    // completes with the status `why`
} whi_req_fate;

// Whether device memory may go by offers (device_offer.h).
enum {
    WHI_DEVICE_STAGED,   // it may not
    WHI_DEVICE_DIRECT,   // it may
    WHI_DEVICE_WAITING,  // of a send: for memory to pack a layout in
    WHI_DEVICE_PACKING,  // of a send: a layout is being packed, to be offered
    WHI_DEVICE_OUT,  // it does: of a send, an offer waits for its answer; of a receive, one is being copied
};

// Of a payload that is fetched: what its next bytes are.
enum {
    WHI_FETCHING_NEXT,    // to be read
    WHI_FETCHING_PART,    // read, and more of it is not
    WHI_FETCHING_ALL,     // read, and with them all
    WHI_FETCHING_FAILED,  // not to be read: it has to be asked for
};

enum { WHI_OFFER_PIECES = 32 };  // of one message, at most
enum { WHI_MATCH_NONE = 0xff };  // `match` of what no message is matched with

// Where a piece of an offered payload goes: from an address of the peer's to the beginning of a buffer.
typedef struct whi_place {
    uint64_t from;
    const whi_buffer *to;
    uint64_t size;
} whi_place;

// What the code that makes a kind of request does with it.  No other code knows of kinds: all it may ask is in this table.
// Functions are optional unless said.  Owner's thread.
typedef struct whi_req_ops {
    const char *text;                               // for people: "tag send"
    const char *(*text_of)(const wh_request *req);  // in its place, of one request

    // post starts it: WH_OK done, WH_PENDING accepted, else nothing happened.  Required.
    wh_status (*post)(wh_request *req);

    // withdraw completes it early, at any stage but MOVING.  Required.  withdraw_moving does at MOVING, and says whether it
    // could: if not, the peer has its grace time.
    void (*withdraw)(wh_request *req, wh_status why);
    bool (*withdraw_moving)(wh_request *req, wh_status why);

    // completed follows its completion, which came at `stage`; notified the callback of its user.  fini frees what it holds when
    // it is freed, accepted or not.
    void (*completed)(wh_request *req, whi_req_stage stage);
    void (*notified)(wh_request *req);
    void (*fini)(wh_request *req);

    // adopt makes the owner its holder after another thread has handed it over; refused takes back what that thread has done
    // for it when the queue was full.
    void (*adopt)(wh_request *req);
    void (*refused)(wh_request *req);

    // Of those that go by their endpoint's queue, so that an orderly close waits for them: start is tried when it is the first.
    // WH_OK: done.  WH_PENDING: it is under way, and its stage says how far.  WH_EAGAIN: the lane has no space.  WH_ELIMIT: it
    // waits for what lowers the number of announcements, or gives credit.  WH_EBUSY: it waits for the end of another.
    wh_status (*start)(wh_request *req);

    // Of messages that are sent: their class; what the header of their record says beside it; what goes in front of the
    // buffer, in an announcement too; and how much follows it.
    uint8_t cls;
    void (*describe)(const wh_request *req, whi_hdr *hdr);
    size_t (*prefix)(const wh_request *req, const void **bytes);
    uint64_t (*follows)(const wh_request *req);

    // pieces lists where the payload is that follows its announcement, for an offer (offer.h); 0: it is not all memory that can
    // be read.  NULL: it is the buffer.
    unsigned (*pieces)(const wh_request *req, uint64_t from[WHI_OFFER_PIECES]);

    // on_cuda says whether some part of what follows an announcement is one run of CUDA memory, at this end; NULL: it is the
    // buffer.
    bool (*on_cuda)(const wh_request *req);

    // Of payloads that are sent by chunks: granted checks a grant, and returns WH_EPROTOCOL for one that is not the peer's to
    // give; source returns the part that is being moved, next goes on to the one after it, and after returns the one after
    // part *segment, whose number it becomes, or NULL; moved follows when the lane has all that was granted.
    wh_status (*granted)(const wh_request *req, const whi_hdr *hdr);
    whi_buffer *(*source)(const wh_request *req);
    void (*next)(wh_request *req);
    whi_buffer *(*after)(const wh_request *req, uint32_t *segment);
    void (*moved)(wh_request *req);

    // Of payloads that are received by chunks: where one goes, and that it is there.
    wh_status (*sink)(wh_request *req, const whi_hdr *hdr, whi_span *span);
    wh_status (*landed)(wh_request *req, const whi_hdr *hdr);

    // Of payloads that their receiver may fetch (offer.h): places lists where each piece of the offer goes; 0: it is not all
    // memory into which others' is read.  fetched says that all is here, or that it has to be asked for.
    unsigned (*places)(const wh_request *req, whi_place places[WHI_OFFER_PIECES]);
    void (*fetched)(wh_request *req, bool all);
    // on_device says whether a part of what is received goes to one run of device memory; NULL: what the buffer is.
    bool (*on_device)(const wh_request *req);

    // lendable says whether a lane may be lent its memory, which a lane may keep for good when the peer dies; NULL: it may.
    bool (*lendable)(const wh_request *req);

    // arrived meets a receive with a message of `length` bytes that it has matched: `payload` holds `size` bytes of it, or what
    // came with its announcement.  An error is the peer's fault.  whole says that nothing more of the message is awaited;
    // unclaimed drops a result that nobody can take.
    wh_status (*arrived)(wh_request *req, uint8_t flags, const whi_announce *announce,
                         uint64_t length, const void *payload, size_t size);
    bool (*whole)(const wh_request *req);
    void (*unclaimed)(wh_request *req);

    // reset drops what has come of a message before its receive gets its place back.
    void (*reset)(wh_request *req);

    uint8_t match;          // the match table that a receive waits in, or WHI_MATCH_NONE
    bool receives;          // a message
    bool names_grant;       // the peer names it by its grant id, else by its send id
    bool holds_close;       // an orderly close of the endpoint waits for it
    bool releases_handle;   // the caller has no handle of the endpoint after it
    bool announces_buffer;  // its buffer goes with its announcement if it fits
    bool whole_parts;       // a part is sent whole, never shortened to what was granted
    bool brief;             // needs nothing of what stands behind `accept` before it is granted
} whi_req_ops;

enum { WHI_REQ_OWN = 88 };

struct wh_request {
    // The order is that of use: a receive of a small message touches the first lines only.
    whi_completion completion;
    uint8_t stage;   // whi_req_stage
    uint8_t fate;    // whi_req_fate
    uint8_t wanted;  // the user has a handle
    uint8_t timed;   // the timer has been used
    const whi_req_ops *ops;
    wh_worker *worker;
    wh_endpoint
        *ep;  // held until the request is freed; NULL for an any-source receive without a match
    whi_list op_link;  // in the endpoint's or worker's list of pending operations
    whi_list
        queue_link;  // in a send queue, a matching bucket, the bulk list, that of fetches, or that of the completed
    uint64_t tag, mask;
    uint64_t post_number;  // order among the receives of the worker
    whi_buffer buf;        // the payload; of an object: its header, then its envelope
    uint64_t length;       // of the message as its sender gave it
    uint32_t send_id;      // names a send to the peer; of a receive: the peer's
    uint32_t grant_id;     // names a receive to the peer; of a send: the peer's
    wh_result result;
    wh_done_fn done;
    void *arg;
    char *error;       // one sentence, allocated when the request failed
    uint8_t sync;      // a send that completes when matched
    uint8_t foreign;   // from the locked pool
    uint8_t part;      // WHI_PART_*: what was granted last
    uint8_t any;       // a receive from any source: it outlives a peer
    uint8_t no_place;  // a receive of a taken message: it has no place to regain
    uint8_t
        held;  // chunks of it that a lending lane has, and copies: not completed before they are back
    uint8_t disowned;     // an access that has no buffer any more: what comes for it is thrown away
    uint8_t grace;        // the peer's time to return it runs
    uint8_t device;       // WHI_DEVICE_*
    uint32_t timeout_ms;  // 0: none
    uint32_t loan_id;     // names it to a lane that lends, while that has chunks of it
    wh_status why;        // status to complete with: ETIMEDOUT when the timer withdrew it
    uint32_t offered;     // bytes that the offer is of that is out
    // Written by other threads while the owner works on the rest.  In a word of its own, since compilers read several
    // fields of one word by one load, and such a load would race with these.
    struct {
        _Alignas(8) _Atomic bool cancel;  // asked for
        bool released;                    // before the completion; under the worker's foreign_lock
        uint8_t no_other_fields_here[6];
    } others;
    struct wh_message *awaits;  // the message that it has matched and whose payload is on its way
    struct whi_behind *behind;  // behind a stream of the caller's (behind.h); NULL: none, or passed
    struct whi_staged *staged;  // chunks of device memory that is being sent (stage.h); or NULL
    uint64_t arrival;  // of a matched receive: the number of its message, or of the next one kept
    uint64_t accept;   // bytes that were granted
    uint64_t moved;    // of those
    uint64_t serial;   // order of the bulk transfers of an endpoint
    uint64_t offset;   // in the segment that is being moved; of a payload that is fetched
    uint64_t since;    // for the lane, when a payload that was offered was asked for instead
    uint32_t segment;
    uint8_t fetching;  // WHI_FETCHING_*
    uint8_t bulk;      // WHI_BULK_*; set when its announcement is met, and when it is granted
    // What the code that has made it keeps with it.
    _Alignas(8) unsigned char own[WHI_REQ_OWN];
    // In the list of those whose handles other threads have released; of a transfer that we serve: in its memory's.
    whi_list free_link;
    whi_work work;    // what hands it to the owner
    whi_timer timer;  // the operation's timeout, later its grace; set up when it is first used
    // Set up when it is announced, or its announcement is met (offer.h).
    whi_offer offer;                  // of a send: ours; of a receive: the peer's
    uint64_t from;                    // the peer's address of the payload
    struct whi_device_block *packed;  // where a layout is packed, to be offered; or NULL
};

enum { WHI_REQ_LINE = 64, WHI_REQ_FIRST_LINES = 5 };
static_assert(offsetof(wh_request, accept) <= WHI_REQ_FIRST_LINES * WHI_REQ_LINE &&
                  offsetof(wh_request, timer) >= WHI_REQ_FIRST_LINES * WHI_REQ_LINE,
              "whi_req_init");

static_assert(sizeof(wh_result) == 64, "callers allocate it, and it does not say its size");

enum { WHI_OP_FLAGS = WH_OP_SYNC | WH_OP_UNTYPED };  // all that there are

// whi_op_opts_strange says whether options must be taken over before they can be read: they are of another version's size, or
// ask for what is unknown.  One compare for those of today.
static inline bool whi_op_opts_strange(const wh_op_opts *opts) {
    return __builtin_expect(
        opts && ((opts->size ^ sizeof(*opts)) | (opts->flags & ~(uint32_t)WHI_OP_FLAGS)), 0);
}

// whi_op_opts_take copies strange options, or says why they cannot be.
WH_CHECK wh_status whi_op_opts_take(wh_op_opts *taken, const wh_op_opts *opts);

// WHI_OP_OPTS makes the options of an operation good to read, as WHI_OPTS does.
#define WHI_OP_OPTS(opts)                                                                          \
    wh_op_opts opts##_taken;                                                                       \
    do {                                                                                           \
        if (whi_op_opts_strange(opts)) {                                                           \
            wh_status opts##_st = whi_op_opts_take(&opts##_taken, (opts));                         \
            if (opts##_st != WH_OK)                                                                \
                return opts##_st;                                                                  \
            (opts) = &opts##_taken;                                                                \
        }                                                                                          \
    } while (0)

// whi_req_buffer makes the buffer of an operation from what its caller says of it: `size` bytes or, with a type, elements.
static inline wh_status whi_req_buffer(whi_buffer *buffer, const void *ptr, uint64_t size,
                                       const wh_op_opts *opts) {
    if (!opts)
        return whi_buffer_resolve(buffer, ptr, size, WH_MEM_AUTO, 0, NULL);
    wh_status st = whi_buffer_resolve(buffer, ptr, size, opts->mem, opts->device, opts->type);
    if (opts->flags & WH_OP_UNTYPED)
        buffer->signature = 0;
    return st;
}

// whi_req_no_buffer says that a pointer is missing; a layout may lie at absolute addresses.
static inline bool whi_req_no_buffer(const void *ptr, size_t size, const wh_op_opts *opts) {
    return __builtin_expect(!ptr, 0) && size && !(opts && opts->type);
}

// whi_req_done_now answers a call whose operation is done without a request.
static inline wh_status whi_req_done_now(uint64_t size, uint64_t tag, const wh_op_opts *opts,
                                         wh_request **out) {
    if (out)
        *out = NULL;
    if (opts && opts->result)
        *opts->result = (wh_result){.status = WH_OK, .size = size, .tag = tag};
    return WH_OK;
}

// whi_req_init fills in a request whose memory was just taken: not foreign, posted nowhere, without a hold on `ep`.  `brief` is
// that of its operations, which the caller may know.
static inline void whi_req_init(wh_request *req, wh_worker *worker, wh_endpoint *ep,
                                const whi_req_ops *ops, bool brief, const wh_op_opts *opts,
                                bool wanted) {
    // In pieces, because for one large block compilers choose the string instruction, which costs more than all the rest.
    char *at = (char *)req;
    memset(at, 0, WHI_REQ_LINE);
    memset(at + WHI_REQ_LINE, 0, WHI_REQ_LINE);
    memset(at + 2 * WHI_REQ_LINE, 0, WHI_REQ_LINE);
    memset(at + 3 * WHI_REQ_LINE, 0, WHI_REQ_LINE);
    memset(at + 4 * WHI_REQ_LINE, 0, WHI_REQ_LINE);
    // Tagged messages need nothing of what lies behind `accept` before they are granted, which sets it.
    if (!brief) {
        at = (char *)&req->accept;
        memset(at, 0, WHI_REQ_LINE);
        memset(at + WHI_REQ_LINE, 0, WHI_REQ_LINE);
        memset(at + 2 * WHI_REQ_LINE, 0, (char *)&req->timer - at - 2 * WHI_REQ_LINE);
    }
    whi_completion_init(&req->completion);
    req->worker = worker;
    req->ep = ep;
    req->ops = ops;
    req->wanted = wanted;
    whi_list_init(&req->op_link);
    whi_list_init(&req->queue_link);
    if (opts) {
        req->sync = (opts->flags & WH_OP_SYNC) != 0;
        req->done = opts->done;
        req->arg = opts->arg;
        req->timeout_ms = opts->timeout_ms > 0 ? (uint32_t)opts->timeout_ms : 0;
    }
}

// whi_req_new takes a request of the worker, held by the library and, when `wanted`, by the user; NULL when
// memory is out.  `opts` may be NULL.
wh_request *whi_req_new(wh_worker *worker, wh_endpoint *ep, const whi_req_ops *ops,
                        const wh_op_opts *opts, bool wanted);

// whi_req_discard frees a request that nobody will hear of: it was not accepted, or was done at once.
void whi_req_discard(wh_request *req);

// whi_req_complete completes a request: out of all lists, its result kept, its callback run later in this progress.
void whi_req_complete(wh_request *req, wh_status status);

// whi_req_complete_when_returned does so now, or when the lane that has its buffer has returned that.
void whi_req_complete_when_returned(wh_request *req, wh_status status);

// whi_req_fail completes with an error and a sentence.
void whi_req_fail(wh_request *req, wh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// whi_req_explain notes the sentence of an operation that fails, now or when its buffer has been returned.
void whi_req_explain(wh_request *req, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// whi_req_run_completed runs the callbacks of what has completed and returns how many requests those were.
unsigned whi_req_run_completed(wh_worker *worker);

// whi_req_accept makes a request pending at `stage`: it is in its endpoint's or worker's list and its timeout runs.
void whi_req_accept(wh_request *req, whi_req_stage stage);

// whi_req_withdraw tries to complete an operation early with `why` (ECANCELLED, ETIMEDOUT).  This is the one place that
// decides whether a cancel or a timeout takes effect: by the stage, then by `withdraw` or `withdraw_moving` of the table of
// operations.
void whi_req_withdraw(wh_request *req, wh_status why);

// whi_req_start_grace gives the peer its time with an operation that is to complete with `why`, unless that runs already: the
// buffer is only ours again when it has returned it, and if it does not, the link fails.
void whi_req_start_grace(wh_request *req, wh_status why);

// whi_req_go_on does so, if it was withdrawn before, with an operation that has waited for a stream of its caller's.
void whi_req_go_on(wh_request *req);

// whi_req_reap_foreign frees those whose handles other threads have released.
void whi_req_reap_foreign(wh_worker *worker);

// whi_req_free_foreign does so at the worker's end, under its foreign_lock.
void whi_req_free_foreign(wh_worker *worker);

// whi_req_start posts a request, or hands it to the owner from another thread, as the public calls promise: on
// WH_OK opts->result is filled and the request is gone, on WH_PENDING *out is the handle, on an error it
// is gone too.
WH_CHECK wh_status whi_req_start(wh_request *req, const wh_op_opts *opts, wh_request **out);

// whi_req_cancel_asked withdraws those operations of a list that other threads want cancelled.
void whi_req_cancel_asked(whi_list *list);

// whi_req_dump_all prints a list of pending operations, each line behind `indent`.
void whi_req_dump_all(const whi_list *ops, FILE *file, const char *indent);

// whi_req_may_wait says whether the calling thread may wait for an operation of this worker now.
WH_CHECK wh_status whi_req_may_wait(const wh_worker *worker);

// whi_req_wait_result waits for `req`, which it frees, and returns how it completed.  It asks for a cancel when the time is
// over, and then waits for the completion.  `result` may be NULL.
WH_CHECK wh_status whi_req_wait_result(wh_request *req, int timeout_ms, wh_result *result);

// whi_layer_end completes the requests of layers (wherry/layer.h) that are still pending, at the worker's end.
void whi_layer_end(wh_worker *worker);

// whi_req_stop_awaiting parts a receive from the message whose payload it waits for.
void whi_req_stop_awaiting(wh_request *req);

// whi_req_text names it for people: "tag send".
static inline const char *whi_req_text(const wh_request *req) {
    return req->ops->text_of ? req->ops->text_of(req) : req->ops->text;
}

#endif
