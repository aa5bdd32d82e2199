// SPDX-License-Identifier: BSD-3-Clause
//
// See receiver.h.
//
// Receives match in the order of the sends but complete in any order, because a large object takes
// longer than the small one behind it.  So the slots of a session are a ring: what has completed waits
// until all before it has been handled.  A session is freed when no operation holds its memory.
#include "cli/receiver.h"

#include "bench/clock.h"
#include "cli/cli.h"
#include "cli/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Lines that a sender may leave unread before it is cut off.
enum { ANSWERS_MAX = 4096 };

typedef struct answer {
    session *session;
    char text[];
} answer;

static void on_answered(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;  // a sender that does not hear its answer is told so by its own library
    answer *sent = arg;
    sent->session->answers--;
    free(sent);
}

bool session_answer(session *self, const char *text) {
    size_t size = strlen(text);
    answer *sent = malloc(sizeof *sent + size + 1);
    if (!sent || !self->ep || self->answers >= ANSWERS_MAX) {
        free(sent);
        return false;
    }
    sent->session = self;
    memcpy(sent->text, text, size + 1);
    wh_op_opts opts = {.size = sizeof opts, .done = on_answered, .arg = sent};
    wh_status status = wh_tag_send(self->ep, sent->text, size, TRANSFER_ANSWER_TAG, &opts, NULL);
    if (status == WH_PENDING)
        self->answers++;
    else
        free(sent);
    return status == WH_OK || status == WH_PENDING;
}

static void handle_ready(session *self);

static void on_object(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    session_slot *slot = arg;
    slot->posted = false;
    slot->full = true;
    slot->result = *result;
    handle_ready(slot->session);
}

static void post(session_slot *slot) {
    const wh_frame frame = {.data = slot->data, .size = TRANSFER_PART, .mem = WH_MEM_HOST};
    wh_op_opts opts = {
        .size = sizeof opts, .done = on_object, .arg = slot, .result = &slot->result};
    slot->result = (wh_result){.status = WH_OK};
    wh_status status = wh_object_recv(slot->session->ep, &frame, 1, TRANSFER_OBJECT_TAG,
                                      WH_TAG_MASK_ALL, &opts, NULL);
    slot->posted = status == WH_PENDING;
    slot->full = !slot->posted;
    if (status != WH_OK && status != WH_PENDING)
        slot->result = (wh_result){.status = status};
}

// Ends a session: in order when the sender has closed, else at once.
static void finish(session *self, const char *why, bool orderly) {
    wh_endpoint *ep = self->ep;
    self->over = true;
    session_end(self, why);
    self->ep = NULL;
    if (!orderly)
        wh_endpoint_abort(ep);
    else if (wh_endpoint_close(ep, NULL, NULL) < WH_OK)
        cli_complain("recv", CLI_FAILED, "%s could not be closed", self->peer);
}

static void handle_failure(session *self, wh_status status) {
    const char *why = wh_endpoint_error(self->ep);
    if (status == WH_ETRUNCATED)
        finish(self, "it sent more than a part at once", false);
    else if (status == WH_ECLOSED)
        finish(self, NULL, true);
    else
        finish(self, *why ? why : wh_status_text(status), false);
}

static void handle_ready(session *self) {
    while (!self->over && self->slots[self->head].full) {
        session_slot *slot = &self->slots[self->head];
        if (slot->result.status != WH_OK) {
            handle_failure(self, slot->result.status);
            return;
        }
        const char *why = session_handle(self, slot->result.object);
        wh_object_free(slot->result.object);
        slot->result.object = NULL;
        slot->full = false;
        if (why) {
            finish(self, why, false);
            return;
        }
        self->head = (self->head + 1) % TRANSFER_WINDOW;
        post(slot);
    }
}

static void free_session(session *self) {
    for (int i = 0; i < TRANSFER_WINDOW; i++) {
        if (self->slots[i].full && self->slots[i].result.object)
            wh_object_free(self->slots[i].result.object);
        free(self->slots[i].data);
    }
    digest_destroy(self->digest);
    free(self);
}

static session *make_session(receiver *owner, wh_endpoint *ep) {
    session *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->receiver = owner;
    self->ep = ep;
    self->file.fd = -1;
    self->start_ns = bench_ns();
    self->digest = digest_create();
    bool good = self->digest != NULL;
    for (int i = 0; i < TRANSFER_WINDOW; i++) {
        self->slots[i].session = self;
        self->slots[i].data = malloc(TRANSFER_PART);
        good = good && self->slots[i].data;
    }
    if (good)
        return self;
    free_session(self);
    return NULL;
}

void receiver_accept(wh_endpoint *ep, void *arg) {
    receiver *self = arg;
    session *made = make_session(self, ep);
    if (!made) {
        cli_complain("recv", CLI_FAILED, "a sender was turned away: out of memory");
        wh_endpoint_abort(ep);
        return;
    }
    if (wh_endpoint_peer(ep, made->peer, sizeof made->peer) != WH_OK)
        snprintf(made->peer, sizeof made->peer, "a sender");
    cli_printable(made->peer);
    made->next = self->sessions;
    self->sessions = made;
    self->open++;
    for (int i = 0; i < TRANSFER_WINDOW; i++)
        post(&made->slots[i]);
    handle_ready(made);
}

static bool can_be_freed(const session *self) {
    bool held = !self->over || self->answers > 0;
    for (int i = 0; i < TRANSFER_WINDOW; i++)
        held = held || self->slots[i].posted;
    return !held;
}

void receiver_reap(receiver *self) {
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
            finish(one, "interrupted here", false);
    }
}
