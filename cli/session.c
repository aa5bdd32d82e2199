// SPDX-License-Identifier: BSD-3-Clause
//
// See session.h.
//
// An entry that cannot be stored is refused with a reason, and the transfer goes on: one odd name
// among ten thousand files should not cost the rest.  Only a sender that breaks the format is cut off.
#include "cli/session.h"

#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COMMAND "recv"

enum { SMALL = 16 << 10 };  // bytes that are hashed before another thread has woken up

// Whether a name lies below the directory that was refused, or is that directory.
static bool is_blocked(const session *self, const char *name) {
    size_t length = strlen(self->blocked);
    return length > 0 && strncmp(name, self->blocked, length) == 0 &&
           (name[length] == '/' || name[length] == '\0');
}

// One cause is told once: not again for all that lies below a directory that was refused.
static bool refuse(session *self, const char *name, const char *why) {
    char text[TRANSFER_ANSWER_MAX];
    self->refused++;
    if (is_blocked(self, name))
        return true;
    assert(!strstr(why, ": "));  // the sender takes what is behind the last one for the reason
    snprintf(text, sizeof text, "refused %s: %s", name, why);
    bool told = session_answer(self, text);
    if (fold_show(&self->refusals, why))
        receiver_complain(self->receiver, "%s, from %s", cli_printable(text), self->peer);
    return told;
}

static bool refuse_dir(session *self, const char *name, const char *why) {
    bool told = refuse(self, name, why);
    if (!is_blocked(self, name))
        snprintf(self->blocked, sizeof self->blocked, "%s", name);
    return told;
}

// The end of a directory that was refused is not refused once more.
static const char *leave_dir(session *self, const transfer_entry *entry) {
    if (!is_blocked(self, entry->name))
        return store_leave(&self->place, entry);
    if (strcmp(self->blocked, entry->name) == 0)
        self->blocked[0] = '\0';
    return NULL;
}

static void drop_incomplete(session *self) {
    if (self->file.fd < 0)
        return;
    store_drop(&self->file);
    (void)refuse(self, self->now.name, "it came incomplete");
}

static const char *begin_file(session *self, const transfer_entry *entry) {
    drop_incomplete(self);
    transfer_copy(&self->now, entry);
    self->have = 0;
    const char *why = store_begin(&self->place, entry, &self->file);
    if (why)
        (void)refuse(self, entry->name, why);
    return NULL;
}

void session_finish_file(session *self) {
    const transfer_entry *entry = &self->now;
    uint8_t sum[TRANSFER_DIGEST];
    const char *why = NULL;
    self->ending = false;
    if (self->unhashed) {
        why = "libcrypto cannot hash it";
        store_drop(&self->file);
    } else if (!digest_end(self->digest, sum) || memcmp(sum, entry->head.digest, sizeof sum) != 0) {
        why = "its digest is wrong";
        store_drop(&self->file);
    } else {
        why = store_finish(&self->file, entry);
    }
    if (why) {
        (void)refuse(self, entry->name, why);
        return;
    }
    self->files++;
    self->stored += entry->head.size;
}

// Has a part hashed while the next one comes, or at once where that costs less than to hand it over.
static void hash(session *self, session_slot *slot, const wh_frame *frame, bool begin) {
    slot->hashed = true;
    slot->job = (hasher_job){
        .digest = self->digest, .begin = begin, .bytes = frame->data, .size = frame->size};
    if (frame->size <= SMALL && self->kept == 0)
        hasher_do(&slot->job);
    else
        hasher_put(self->receiver->hasher, self->number, &slot->job);
}

// A later part must go on where the last one ended, with the same file.  Parts of a file that was
// refused are passed over.
static const char *take_part(session *self, session_slot *slot, const transfer_entry *entry,
                             const wh_frame *frame) {
    const transfer_head *head = &entry->head;
    if (head->flags & TRANSFER_FIRST)
        begin_file(self, entry);
    else if (strcmp(self->now.name, entry->name) != 0 || head->size != self->now.head.size ||
             head->offset != self->have)
        return "parts of a file are out of order";
    self->have = head->offset + frame->size;
    self->receiver->bytes += frame->size;
    self->bytes += frame->size;
    if (self->file.fd < 0)
        return NULL;
    const char *why = store_write(&self->file, frame->data, frame->size);
    if (why) {
        store_drop(&self->file);
        (void)refuse(self, entry->name, why);
        return NULL;
    }
    hash(self, slot, frame, head->flags & TRANSFER_FIRST);
    if (head->flags & TRANSFER_LAST) {
        transfer_copy(&self->now, entry);
        self->ending = true;
    }
    return NULL;
}

static const char *take_end(session *self) {
    char text[64];
    drop_incomplete(self);
    self->complete = true;
    snprintf(text, sizeof text, "done %" PRIu64 " %" PRIu64, self->files, self->stored);
    return session_answer(self, text) ? NULL : "it does not take answers";
}

static const char *handle(session *self, session_slot *slot, const transfer_entry *entry,
                          const wh_frame *frame) {
    const char *why = NULL;
    switch ((transfer_kind)entry->head.kind) {
    case TRANSFER_FILE: return frame ? take_part(self, slot, entry, frame) : "a file has no frame";
    case TRANSFER_END: return take_end(self);
    case TRANSFER_DIR: why = store_dir(&self->place, entry); break;
    case TRANSFER_LEAVE: why = leave_dir(self, entry); break;
    case TRANSFER_LINK: why = store_link(&self->place, entry); break;
    }
    bool dir = entry->head.kind == TRANSFER_DIR;
    if (why && !(dir ? refuse_dir : refuse)(self, entry->name, why))
        return "it does not take answers";
    return NULL;
}

const char *session_handle(session *self, session_slot *slot) {
    const wh_object *object = slot->result.object;
    transfer_entry entry;
    size_t header_size;
    if (!object)
        return "what it sent was lost on its way";
    const void *header = wh_object_header(object, &header_size);
    size_t frames = wh_object_count(object);
    self->began = true;
    if (self->complete) {
        self->complete = false;
        return "it went on after its end";
    }
    if (frames > 1)
        return "an object has too many frames";
    const wh_frame *frame = frames ? wh_object_frame(object, 0) : NULL;
    const char *why = transfer_decode(header, header_size, frame ? frame->size : 0, &entry);
    return why ? why : handle(self, slot, &entry, frame);
}

static void say_sum(const session *self) {
    char amount[32], rate[32];
    double seconds = (double)(cli_ns() - self->start_ns) / (double)CLI_NS_PER_S;
    printf("received %" PRIu64 " files, %s in %.2f s (%s/s) from %s", self->files,
           cli_format_bytes((double)self->stored, amount, sizeof amount), seconds,
           cli_format_bytes((double)self->stored / seconds, rate, sizeof rate), self->peer);
    if (self->refused)
        printf("; %" PRIu64 " refused", self->refused);
    printf("\n");
    fflush(stdout);
}

// The library names the peer too: "PEER, over LANE: why".
static const char *without_peer(const session *self, const char *why) {
    size_t length = strlen(self->peer);
    bool names = strncmp(why, self->peer, length) == 0 && strncmp(why + length, ", ", 2) == 0;
    return names ? why + length + 2 : why;
}

static void say_lost(session *self, const char *why) {
    char have[32], size[32];
    if (self->file.fd < 0) {
        receiver_complain(self->receiver, "lost %s after %" PRIu64 " files: %s", self->peer,
                          self->files, why);
        return;
    }
    receiver_complain(self->receiver,
                      "lost %s after %" PRIu64 " files, in %s at %s of %s (removed): %s",
                      self->peer, self->files, cli_printable(self->now.name),
                      cli_format_bytes((double)self->have, have, sizeof have),
                      cli_format_bytes((double)self->now.head.size, size, sizeof size), why);
}

void session_end(session *self, const char *why) {
    store_place_fini(&self->place);
    if (why)
        why = without_peer(self, why);
    if (!self->began) {
        if (why)
            receiver_complain(self->receiver, "dropped %s, which sent nothing: %s", self->peer,
                              why);
        return;
    }
    fold_sum(&self->refusals, COMMAND);
    bar_clear(&self->receiver->bar);
    self->receiver->ended++;
    if (self->complete)
        say_sum(self);
    else
        say_lost(self, why ? why : "it closed before its end");
    store_drop(&self->file);
    self->receiver->failed += !self->complete || self->refused;
}
