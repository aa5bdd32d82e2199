// SPDX-License-Identifier: BSD-3-Clause
//
// See sender.h.
#include "cli/sender.h"

#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "send"

// Bytes of data in one object on one host: the window stays in the nearer caches of both ends,
// where a part is read, hashed and copied by one core, then copied, written and hashed by another.
// A network needs the whole window to be full.
enum { NEAR_PART = 128 << 10 };

static size_t choose_part(wh_endpoint *ep) {
    char lanes[64] = "";
    bool known = wh_endpoint_lanes(ep, lanes, sizeof lanes) == WH_OK;
    return known && strncmp(lanes, "shm", 3) == 0 ? NEAR_PART : TRANSFER_PART;
}

static void receive_answers(sender *self);

static void note_lost(sender *self, wh_status status) {
    if (self->lost == WH_OK)
        self->lost = status;
}

// Whether the last refusal was of the entry whose name has this length.
static bool is_refused(const sender *self, const char *name, size_t length) {
    return self->refusal_size == length && memcmp(self->refusal, name, length) == 0;
}

static void take_refusal(sender *self, char *text) {
    const char *why = transfer_refused(text, &self->refusal_size);
    memcpy(self->refusal, text, self->refusal_size);
    if (self->now && is_refused(self, self->now, strlen(self->now)))
        self->now = NULL;
    self->problems++;
    self->refused++;
    if (!fold_show(&self->told, why))
        return;
    bar_clear(&self->bar);
    cli_complain(COMMAND, CLI_FAILED, "refused %s", cli_printable(text));
}

static void take_answer(sender *self, const wh_result *result) {
    char *text = self->answer;
    self->waits_ns = cli_ns();
    if (result->status != WH_OK) {
        note_lost(self, result->status);
        return;
    }
    text[result->size] = '\0';
    if (sscanf(text, "done %" SCNu64 " %" SCNu64, &self->stored_files, &self->stored_bytes) == 2)
        self->done = true;
    else if (strncmp(text, "refused ", 8) == 0)
        take_refusal(self, text + 8);
    else if (strncmp(text, "cut off: ", 9) == 0)
        snprintf(self->cut, sizeof self->cut, "%s", cli_printable(text + 9));
    else
        note_lost(self, WH_EPROTOCOL);
}

static void on_answer(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    sender *self = arg;
    self->answering = false;
    take_answer(self, result);
    receive_answers(self);
}

static void receive_answers(sender *self) {
    wh_op_opts opts = {
        .size = sizeof opts, .done = on_answer, .arg = self, .result = &self->result};
    while (!self->answering && !self->done && self->lost == WH_OK) {
        wh_status status = wh_tag_recv(self->ep, self->answer, TRANSFER_ANSWER_MAX,
                                       TRANSFER_ANSWER_TAG, WH_TAG_MASK_ALL, &opts, NULL);
        if (status == WH_OK)
            take_answer(self, &self->result);
        else if (status == WH_PENDING)
            self->answering = true;
        else
            note_lost(self, status);
    }
}

bool sender_init(sender *self, wh_endpoint *ep, uint64_t total, uint32_t timeout_ms) {
    memset(self, 0, sizeof *self);
    self->timeout_ms = timeout_ms;
    self->ep = ep;
    self->worker = wh_endpoint_worker(ep);
    self->part_size = choose_part(ep);
    self->digest = digest_create();
    bool good = self->digest != NULL;
    for (int i = 0; i < TRANSFER_WINDOW; i++) {
        self->slots[i].sender = self;
        self->slots[i].data = malloc(self->part_size);
        good = good && self->slots[i].data;
    }
    if (!good)
        return false;
    bar_begin(&self->bar, total);
    receive_answers(self);
    return true;
}

void sender_fini(sender *self) {
    digest_destroy(self->digest);
    for (int i = 0; i < TRANSFER_WINDOW; i++)
        free(self->slots[i].data);
    bar_clear(&self->bar);
}

static bool can_go_on(const sender *self) {
    return self->lost == WH_OK && !cli_interrupted;
}

static bool step(sender *self) {
    wh_status status = wh_worker_wait(self->worker, 200);
    uint64_t waited_ms = (cli_ns() - self->waits_ns) / 1000000;
    if (status != WH_OK && status != WH_ETIMEDOUT)
        note_lost(self, status);
    else if (self->timeout_ms > 0 && waited_ms >= self->timeout_ms)
        note_lost(self, WH_ETIMEDOUT);
    return can_go_on(self);
}

// The next free slot, waiting for one; NULL when the transfer cannot go on.
static sender_slot *free_slot(sender *self) {
    self->waits_ns = cli_ns();
    while (can_go_on(self)) {
        for (int i = 0; i < TRANSFER_WINDOW; i++) {
            if (!self->slots[i].busy)
                return &self->slots[i];
        }
        step(self);
    }
    return NULL;
}

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    sender_slot *slot = arg;
    slot->busy = false;
    slot->sender->waits_ns = cli_ns();
    if (result->status != WH_OK)
        note_lost(slot->sender, result->status);
}

// Sends what lies in a slot: `size` bytes of data behind the header of `entry`.
static bool send_slot(sender *self, sender_slot *slot, const transfer_entry *entry, size_t size) {
    wh_op_opts opts = {.size = sizeof opts, .mem = WH_MEM_HOST, .done = on_sent, .arg = slot};
    const wh_frame frame = {.data = slot->data, .size = size, .mem = WH_MEM_HOST};
    size_t header_size = transfer_encode(entry, slot->header);
    size_t frames = entry->head.kind == TRANSFER_FILE ? 1 : 0;
    wh_status status = wh_object_send(self->ep, slot->header, header_size, frames ? &frame : NULL,
                                      frames, sizeof(wh_frame), TRANSFER_OBJECT_TAG, &opts, NULL);
    slot->busy = status == WH_PENDING;
    if (status != WH_OK && status != WH_PENDING)
        note_lost(self, status);
    wh_worker_progress(self->worker);  // so that what is under way moves while the next is read
    return can_go_on(self);
}

// A file that cannot be read to its end stays without a last part, and the receiver drops it.
static bool give_up_file(sender *self, const char *path, const char *why) {
    bar_clear(&self->bar);
    cli_complain(COMMAND, CLI_FAILED, "cannot send %s: %s", path, why);
    self->problems++;
    return can_go_on(self);
}

static bool send_part(sender *self, sender_slot *slot, transfer_entry *part, size_t size) {
    transfer_head *head = &part->head;
    head->flags = 0;
    if (head->offset == 0)
        head->flags |= TRANSFER_FIRST;
    if (head->offset + size == head->size)
        head->flags |= TRANSFER_LAST;
    if (!digest_add(self->digest, slot->data, size) ||
        ((head->flags & TRANSFER_LAST) && !digest_end(self->digest, head->digest)))
        return give_up_file(self, part->name, "libcrypto cannot hash it");
    bool good = send_slot(self, slot, part, size);
    head->offset += size;
    self->bytes += size;
    bar_draw(&self->bar, self->bytes + self->passed, part->name);
    return good;
}

static bool send_data(sender *self, transfer_entry *part, source *from, const char *path) {
    transfer_head *head = &part->head;
    if (!digest_begin(self->digest))
        return give_up_file(self, path, "libcrypto cannot hash it");
    do {
        size_t size;
        sender_slot *slot = free_slot(self);
        if (!slot)
            return false;
        const char *why = source_read(from, slot->data, self->part_size, &size);
        if (why)
            return give_up_file(self, path, why);
        head->size = from->size;
        if (!send_part(self, slot, part, size))
            return false;
    } while (head->offset < head->size && self->now);
    self->passed += head->size - head->offset;
    self->files += head->offset == head->size;
    return true;
}

static bool send_file(sender *self, const transfer_entry *entry, const walk_at *at) {
    source from;
    bool good;
    const char *why = source_open(&from, at, entry->head.size);
    if (why) {
        good = give_up_file(self, at->path, why);
    } else {
        transfer_copy(&self->part, entry);
        self->now = self->part.name;
        good = send_data(self, &self->part, &from, at->path);
        self->now = NULL;
    }
    source_close(&from);
    return good;
}

// Whether the entry lies below a directory that was refused: the receiver would refuse it too.
static bool is_below_refused(const sender *self, const char *name) {
    for (const char *slash = name; self->refusal_size && (slash = strchr(slash, '/')); slash++) {
        if (is_refused(self, name, (size_t)(slash - name)))
            return true;
    }
    return false;
}

bool sender_entry(sender *self, const transfer_entry *entry, const walk_at *at) {
    if (is_below_refused(self, entry->name)) {
        self->passed += entry->head.size;
        return can_go_on(self);
    }
    if (entry->head.kind == TRANSFER_FILE)
        return send_file(self, entry, at);
    sender_slot *slot = free_slot(self);
    return slot && send_slot(self, slot, entry, 0);
}

bool sender_end(sender *self) {
    static transfer_entry end;
    end.head.kind = TRANSFER_END;
    end.head.size = self->bytes;
    end.head.offset = self->files;
    if (!sender_entry(self, &end, NULL))
        return false;
    self->waits_ns = cli_ns();
    while (!self->done && step(self))
        continue;
    return self->done;
}
