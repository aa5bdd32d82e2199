// SPDX-License-Identifier: BSD-3-Clause
//
// What the receiver says: answers to a sender, and complaints to the user.  Both are bounded,
// because strangers cause them.  Below receiver.c and session.c, which both call it.
#include "cli/cli.h"
#include "cli/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWERS_MAX = 4096,          // lines that a sender may leave unread before it is cut off
    ANSWER_BYTES_MAX = 1 << 20,  // and bytes in them
    LINES_PER_SECOND = 50,       // of complaints
};

void receiver_complain(receiver *self, const char *format, ...) {
    char line[TRANSFER_ANSWER_MAX + 256];
    va_list args;
    if (!fold_rate_show(&self->lines, LINES_PER_SECOND))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    bar_clear(&self->bar);
    cli_complain("recv", CLI_FAILED, "%s", line);
}

typedef struct answer {
    session *session;
    size_t size;
    char text[];
} answer;

static void on_answered(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;  // a sender that does not get its answer has an error from its own library
    answer *sent = arg;
    sent->session->answers--;
    sent->session->answer_bytes -= sent->size;
    free(sent);
}

bool session_answer(session *self, const char *text) {
    size_t size = strlen(text);
    answer *sent = malloc(sizeof *sent + size + 1);
    if (!sent || !self->ep || self->answers >= ANSWERS_MAX ||
        self->answer_bytes + size > ANSWER_BYTES_MAX) {
        free(sent);
        return false;
    }
    sent->session = self;
    sent->size = size;
    memcpy(sent->text, text, size + 1);
    wh_op_opts opts = {.size = sizeof opts, .done = on_answered, .arg = sent};
    wh_status status = wh_tag_send(self->ep, sent->text, size, TRANSFER_ANSWER_TAG, &opts, NULL);
    if (status == WH_PENDING) {
        self->answers++;
        self->answer_bytes += size;
    } else {
        free(sent);
    }
    return status == WH_OK || status == WH_PENDING;
}
