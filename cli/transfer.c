// SPDX-License-Identifier: BSD-3-Clause
//
// See transfer.h.  Everything decoded here was written by a stranger.
#include "cli/transfer.h"

#include <string.h>

enum { COMPONENT_MAX = 255 };

size_t transfer_encode(const transfer_entry *entry, void *bytes) {
    transfer_head head = entry->head;
    char *at = bytes;
    head.magic = TRANSFER_MAGIC;
    head.name_size = (uint16_t)strlen(entry->name);
    head.target_size = (uint16_t)strlen(entry->target);
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    memcpy(at, entry->name, head.name_size);
    at += head.name_size;
    memcpy(at, entry->target, head.target_size);
    return sizeof head + head.name_size + head.target_size;
}

void transfer_copy(transfer_entry *to, const transfer_entry *from) {
    to->head = from->head;
    memcpy(to->name, from->name, strlen(from->name) + 1);
    memcpy(to->target, from->target, strlen(from->target) + 1);
}

// Copies a text that must hold no NUL.
static bool take_text(char *to, const char *from, size_t size) {
    memcpy(to, from, size);
    to[size] = '\0';
    return strlen(to) == size;
}

static const char *check_part(const transfer_head *head, uint64_t data) {
    bool first = head->flags & TRANSFER_FIRST, last = head->flags & TRANSFER_LAST;
    if (data > TRANSFER_PART)
        return "a part is too large";
    if (head->offset > head->size || data > head->size - head->offset)
        return "a part lies outside of its file";
    if (first != (head->offset == 0) || last != (head->offset + data == head->size))
        return "the first or last part of a file is not where it should be";
    if (data == 0 && head->size > 0)
        return "a part is empty";
    return NULL;
}

static const char *check(const transfer_entry *entry, uint64_t data) {
    const transfer_head *head = &entry->head;
    if (head->kind < TRANSFER_FILE || head->kind > TRANSFER_END || head->mode > 07777)
        return "an entry is of no known kind";
    if (head->kind == TRANSFER_FILE)
        return check_part(head, data);
    if (data > 0)
        return "an entry without data has some";
    if ((head->kind == TRANSFER_LINK) != (head->target_size > 0))
        return "a link has no target";
    return NULL;
}

const char *transfer_decode(const void *bytes, size_t size, uint64_t data, transfer_entry *entry) {
    const char *at = bytes;
    transfer_head *head = &entry->head;
    if (size < sizeof *head)
        return "a header is too short";
    memcpy(head, at, sizeof *head);
    if (head->magic != TRANSFER_MAGIC)
        return "it is not a `wherry send` of this version";
    if (head->name_size > TRANSFER_NAME_MAX || head->target_size > TRANSFER_TARGET_MAX ||
        size != sizeof *head + head->name_size + head->target_size)
        return "a name is too long";
    at += sizeof *head;
    if (!take_text(entry->name, at, head->name_size) ||
        !take_text(entry->target, at + head->name_size, head->target_size))
        return "a name holds a NUL";
    return check(entry, data);
}

const char *transfer_refused(const char *text, size_t *name_size) {
    const char *why = text;
    *name_size = 0;
    for (const char *at = text; (at = strstr(at, ": ")); at++) {
        *name_size = (size_t)(at - text);
        why = at + 2;
    }
    return why;
}

// The length of the first component, and whether it is "..".
static size_t component(const char *path, bool *up) {
    size_t length = strcspn(path, "/");
    *up = length == 2 && path[0] == '.' && path[1] == '.';
    return length;
}

bool transfer_name_is_safe(const char *name) {
    for (const char *at = name;; at++) {
        bool up;
        size_t length = component(at, &up);
        if (length == 0 || length > COMPONENT_MAX || up || (length == 1 && *at == '.'))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

bool transfer_target_is_safe(const char *name, const char *target) {
    int depth = 0;  // directories of the tree above the link
    for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
        depth++;
    // The top of the tree is what was sent, not the directory that it was put into.
    bool up, below = false;
    size_t length;
    if (*target == '/' || *target == '\0')
        return false;
    for (const char *at = target; *at; at += length + (at[length] == '/')) {
        length = component(at, &up);
        if (length == 0 || (length == 1 && *at == '.'))
            continue;  // "a//b", "a/.", "a/" lead where "a" leads
        if (up ? below || --depth < 1 : length > COMPONENT_MAX)
            return false;
        below = below || !up;
    }
    return below || depth >= 1;
}
