// SPDX-License-Identifier: BSD-3-Clause
//
// The format of a transfer of files: what `wherry send` and `wherry recv` say to each other.
//
// A sender opens an endpoint and sends objects.  The object's header is a transfer_head followed
// by the name and, for a link, its target; an object of file data has one frame.  A file is one or
// more parts in order: the first carries FIRST, the last LAST and the SHA-256 of the whole.  A
// directory comes before what is in it, and once more (LEAVE) behind it, so that a directory that
// may not be written to can be filled first.  END comes last.  The receiver answers with tagged
// messages: a line "refused NAME: why" for each entry that it did not take, except for what lies
// below a directory that it did not take (a name may hold ": ", what follows it does not); "done
// FILES BYTES" to END, with what it has stored; and "cut off: why" before it aborts.
//
// Numbers are little-endian, as on all machines that Wherry supports.  Pure functions.
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRANSFER_MAGIC UINT32_C(0x31464857)  // "WHF1": another format gets another digit

enum {
    TRANSFER_PART = 512 << 10,   // bytes of file data in one object, at most
    TRANSFER_WINDOW = 16,        // objects under way; many, because most files are small
    TRANSFER_NAME_MAX = 32767,   // bytes of a name: a tree may be deeper than PATH_MAX
    TRANSFER_TARGET_MAX = 4095,  // bytes of a target; the kernel has no longer ones
    TRANSFER_DIGEST = 32,        // bytes of SHA-256
    TRANSFER_OBJECT_TAG = 1,     // from the sender
    TRANSFER_ANSWER_TAG = 2,     // to the sender
    TRANSFER_ANSWER_MAX = TRANSFER_NAME_MAX + 1025,  // bytes of an answer
};

typedef enum transfer_kind {
    TRANSFER_FILE = 1,
    TRANSFER_DIR,
    TRANSFER_LEAVE,
    TRANSFER_LINK,
    TRANSFER_END,
} transfer_kind;

enum { TRANSFER_FIRST = 1, TRANSFER_LAST = 2 };  // parts of a file

typedef struct transfer_head {
    uint32_t magic;
    uint8_t kind;
    uint8_t flags;
    uint16_t name_size;
    uint16_t target_size;
    uint16_t mode;      // permissions
    uint32_t reserved;  // 0
    uint64_t size;      // of the whole file; with END: of all files
    uint64_t offset;    // of this part; with END: the number of files
    int64_t mtime_ns;   // since 1970
    uint8_t digest[TRANSFER_DIGEST];
} transfer_head;

static_assert(sizeof(transfer_head) == 72, "the format of a transfer is fixed");

enum {
    TRANSFER_HEADER_MAX = sizeof(transfer_head) + TRANSFER_NAME_MAX + 1 + TRANSFER_TARGET_MAX + 1
};

typedef struct transfer_entry {
    transfer_head head;
    char name[TRANSFER_NAME_MAX + 1];
    char target[TRANSFER_TARGET_MAX + 1];
} transfer_entry;

// transfer_copy copies an entry, and of its names what is used.
void transfer_copy(transfer_entry *to, const transfer_entry *from);

// transfer_encode writes the header of an entry into at least TRANSFER_HEADER_MAX bytes and returns
// how many it took.  Names are at most TRANSFER_NAME_MAX long.
size_t transfer_encode(const transfer_entry *entry, void *bytes);

// transfer_decode reads and checks a header from another process; `data` is the size of the frame
// behind it.  NULL when it is good, else what is wrong with it; then *entry holds nothing useful.
const char *transfer_decode(const void *bytes, size_t size, uint64_t data, transfer_entry *entry);

// transfer_refused finds where the reason begins in "NAME: why", and the length of the name before
// it.
const char *transfer_refused(const char *text, size_t *name_size);

// transfer_name_is_safe says whether a name stays inside the directory that it is relative to: no
// empty, "." or ".." component, not absolute, no component too long for a file system.
bool transfer_name_is_safe(const char *name);

// transfer_target_is_safe says whether a link called `name` with this target stays inside the tree:
// relative, with ".." only at its beginning and not beyond the top.  (Behind another component ".."
// would leave what that component, itself a link, leads to.)
bool transfer_target_is_safe(const char *name, const char *target);

#endif
