// SPDX-License-Identifier: BSD-3-Clause
//
// See receiver.h.
//
// Receives match in the order of the sends but complete in any order, because a large object takes
// longer than the small one behind it.  So the slots of a session are a ring: what has completed waits
// until all before it has been handled.  A session is freed when no operation holds its memory.
//
// The worker's allocator sees the head of each object before a byte of its frames is taken, so it is
// the place where too much is turned down.
#include "cli/receiver.h"

#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SESSIONS_MAX = 256,     // in total
    PEER_SESSIONS_MAX = 4,  // of one connection; `wherry send` opens one
    WINDOWS_MAX = 512,      // receives of all sessions, of 512 KiB; one more for each session
    FIRST_WORD_MS = 10000,  // from the connection to the first object
    SPARES_MAX = 32,        // buffers that are kept for the next frame
    SMALL = 64 << 10,       // frames up to this are left to malloc
};

typedef struct spare {
    struct spare *next;
} spare;

// Memory of frames.

static wh_status give_memory(wh_object *object, size_t index, void **ptr, void *arg) {
    receiver *self = arg;
    size_t header_size, size = wh_object_frame(object, index)->size;
    (void)wh_object_header(object, &header_size);
    if (header_size > TRANSFER_HEADER_MAX || wh_object_count(object) > 1 || size > TRANSFER_PART)
        return WH_ETRUNCATED;
    spare *kept = size > SMALL ? self->spare : NULL;
    if (kept) {
        self->spare = kept->next;
        self->spares--;
        *ptr = kept;
        return WH_OK;
    }
    void *made = malloc(size > SMALL ? TRANSFER_PART : size ? size : 1);
    if (!made)
        return WH_ENOMEM;
    *ptr = made;
    return WH_OK;
}

static void take_memory(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    receiver *self = arg;
    (void)kind;
    (void)device;
    if (size <= SMALL || self->spares == SPARES_MAX) {
        free(ptr);
        return;
    }
    spare *kept = ptr;
    kept->next = self->spare;
    self->spare = kept;
    self->spares++;
}

// A file's data has no business in the memory of a device.
static wh_status give_nothing(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)object;
    (void)index;
    (void)ptr;
    (void)arg;
    return WH_ETRUNCATED;
}

static void wake(void *arg) {
    wh_worker_wake(arg);
}

wh_status receiver_begin(receiver *self, wh_worker *worker) {
    for (int kind = WH_MEM_HOST; kind <= WH_MEM_SIM; kind++) {
        bool host = kind == WH_MEM_HOST;
        wh_status status =
            wh_worker_set_allocator(worker, (wh_mem_kind)kind,
                                    WH_ALLOCATOR(.alloc = host ? give_memory : give_nothing,
                                                 .free_fn = take_memory, .arg = self));
        if (status != WH_OK)
            return status;
    }
    self->hasher = hasher_create(wake, worker);
    return self->hasher ? WH_OK : WH_ENOMEM;
}

void receiver_stop(receiver *self) {
    hasher_destroy(self->hasher);
    self->hasher = NULL;
}

void receiver_end(receiver *self) {
    while (self->spare) {
        spare *kept = self->spare;
        self->spare = kept->next;
        free(kept);
    }
    self->spares = 0;
}

static void handle_ready(session *self);

static void on_object(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    session_slot *slot = arg;
    slot->posted = false;
    slot->full = true;
    slot->result = *result;
    slot->session->heard_ns = cli_ns();
    handle_ready(slot->session);
}

static void post(session_slot *slot) {
    wh_op_opts opts = {
        .size = sizeof opts, .done = on_object, .arg = slot, .result = &slot->result};
    slot->result = (wh_result){.status = WH_OK};
    wh_status status = wh_object_recv(slot->session->ep, NULL, 0, 0, TRANSFER_OBJECT_TAG,
                                      WH_TAG_MASK_ALL, &opts, NULL);
    slot->posted = status == WH_PENDING;
    slot->full = !slot->posted;
    if (status != WH_OK && status != WH_PENDING)
        slot->result = (wh_result){.status = status};
}

// Ends a session: in order when the sender has closed, else at once, but not without telling it why:
// what was sent before an abort still comes.
static void finish(session *self, const char *why, bool orderly) {
    char text[256];
    wh_endpoint *ep = self->ep;
    if (!orderly && why) {
        snprintf(text, sizeof text, "cut off: %s", why);
        (void)session_answer(self, text);
    }
    self->over = true;
    session_end(self, why);
    self->ep = NULL;
    if (!orderly)
        wh_endpoint_abort(ep);
    else if (wh_endpoint_close(ep, NULL, NULL) < WH_OK)
        receiver_complain(self->receiver, "%s could not be closed", self->peer);
}

static void handle_failure(session *self, wh_status status) {
    const char *why = wh_endpoint_error(self->ep);
    self->began = self->began || status == WH_ETRUNCATED;  // not in silence
    if (status == WH_ETRUNCATED)
        finish(self, "it sent more than a part at once", false);
    else if (status == WH_ECLOSED)
        finish(self, NULL, true);
    else
        finish(self, *why ? why : wh_status_text(status), false);
}

// After its first good object a session gets a window, as wide as the others have left.  Receives match
// in the order in which they are posted, so the slot that was first comes last.
static void widen(session *self) {
    receiver *all = self->receiver;
    unsigned left = all->windows < WINDOWS_MAX ? WINDOWS_MAX - all->windows : 0;
    unsigned more = left < TRANSFER_WINDOW - 1 ? left : TRANSFER_WINDOW - 1;
    self->window += more;
    all->windows += more;
    for (unsigned i = 1; i < self->window; i++)
        post(&self->slots[i]);
}

static bool is_hashing(const session_slot *slot) {
    return slot->hashed && !atomic_load_explicit(&slot->job.done, memory_order_acquire);
}

static void let_go(session *self, session_slot *slot) {
    if (slot->hashed)
        self->unhashed = !slot->job.good || (self->unhashed && !slot->job.begin);
    slot->hashed = false;
    wh_object_free(slot->result.object);
    slot->result.object = NULL;
}

// Posts the slots again whose objects are needed no more, in their order, which is that of matching.
static void post_again(session *self) {
    while (!self->over && self->kept > 0) {
        session_slot *slot = &self->slots[(self->head + self->window - self->kept) % self->window];
        if (is_hashing(slot))
            return;
        let_go(self, slot);
        self->kept--;
        post(slot);
    }
    if (!self->over && self->ending)
        session_finish_file(self);
}

static bool handle_next(session *self) {
    session_slot *slot = &self->slots[self->head];
    if (self->over || self->ending || !slot->full)
        return false;
    if (slot->result.status != WH_OK) {
        handle_failure(self, slot->result.status);
        return false;
    }
    const char *why = session_handle(self, slot);
    slot->full = false;
    if (why) {
        finish(self, why, false);
        return false;
    }
    if (self->window == 1)
        widen(self);
    self->head = (self->head + 1) % self->window;
    self->kept++;
    return true;
}

static void handle_ready(session *self) {
    do
        post_again(self);
    while (handle_next(self));
}

static void free_session(session *self) {
    for (int i = 0; i < TRANSFER_WINDOW; i++)
        wh_object_free(self->slots[i].result.object);
    self->receiver->windows -= self->window;
    digest_destroy(self->digest);
    free(self);
}

static session *make_session(receiver *owner, wh_endpoint *ep) {
    session *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->receiver = owner;
    self->number = owner->accepted++;
    self->ep = ep;
    self->file.fd = -1;
    store_place_init(&self->place, &owner->store);
    self->start_ns = self->heard_ns = cli_ns();
    self->window = 1;
    owner->windows++;
    for (int i = 0; i < TRANSFER_WINDOW; i++)
        self->slots[i].session = self;
    self->digest = digest_create();
    if (self->digest)
        return self;
    free_session(self);
    return NULL;
}

static void turn_away(receiver *self, wh_endpoint *ep, const char *peer, const char *text) {
    receiver_complain(self, "%s was turned away: %s", peer, strchr(text, ':') + 2);
    wh_status ignored = wh_tag_send(ep, text, strlen(text), TRANSFER_ANSWER_TAG, NULL, NULL);
    (void)ignored;
    wh_endpoint_abort(ep);
}

// Of those that have not said a word the one that has waited longest makes room: whoever fills all
// places must not be able to keep them.
static bool make_room(receiver *self) {
    session *victim = NULL;
    for (session *one = self->sessions; one; one = one->next) {
        if (!one->began && !one->over)
            victim = one;
    }
    if (victim)
        finish(victim, "there are too many senders", false);
    return victim != NULL;
}

// NULL, or why there is no place for one more, as an answer.
static const char *no_place(receiver *self, const char *peer) {
    unsigned same = 0, all = 0;
    for (session *one = self->sessions; one; one = one->next) {
        same += strcmp(one->peer, peer) == 0;
        all += !one->over;
    }
    if (same >= PEER_SESSIONS_MAX)
        return "cut off: there are too many transfers over one connection";
    if (self->open >= 2 * SESSIONS_MAX || (all >= SESSIONS_MAX && !make_room(self)))
        return "cut off: there are too many senders";
    return NULL;
}

void receiver_accept(wh_endpoint *ep, void *arg) {
    receiver *self = arg;
    char peer[sizeof((session *)0)->peer];
    if (wh_endpoint_peer(ep, peer, sizeof peer) != WH_OK)
        snprintf(peer, sizeof peer, "a sender");
    cli_printable(peer);
    const char *why = no_place(self, peer);
    session *made = why ? NULL : make_session(self, ep);
    if (!made) {
        turn_away(self, ep, peer, why ? why : "cut off: out of memory");
        return;
    }
    memcpy(made->peer, peer, sizeof peer);
    made->next = self->sessions;
    self->sessions = made;
    self->open++;
    post(&made->slots[0]);
    handle_ready(made);
}

static bool can_be_freed(const session *self) {
    bool held = !self->over || self->answers > 0;
    for (int i = 0; i < TRANSFER_WINDOW; i++)
        held = held || self->slots[i].posted || is_hashing(&self->slots[i]);
    return !held;
}

static void end_if_silent(session *self) {
    char why[64];
    uint32_t limit = self->receiver->timeout_ms;
    if (!self->began && (limit == 0 || limit > FIRST_WORD_MS))
        limit = FIRST_WORD_MS;
    uint64_t silent_ms = (cli_ns() - self->heard_ns) / 1000000;
    if (limit == 0 || silent_ms < limit)
        return;
    snprintf(why, sizeof why, "it said nothing for %.3g s", limit / 1000.0);
    finish(self, why, false);
}

void receiver_reap(receiver *self) {
    fold_rate_sum(&self->lines, "recv");
    for (session *one = self->sessions; one; one = one->next) {
        handle_ready(one);
        if (!one->over)
            end_if_silent(one);
    }
    session **at = &self->sessions;
    while (*at) {
        session *one = *at;
        if (!can_be_freed(one)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free_session(one);
        self->open--;
    }
}

void receiver_abort(receiver *self) {
    for (session *one = self->sessions; one; one = one->next) {
        if (!one->over)
            finish(one, "the receiver was interrupted", false);
    }
}
