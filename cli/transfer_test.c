// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the format of transfers: what is encoded is decoded, what is hostile is refused, and no
// bytes whatever are read beyond their end.
#include "bench/expect.h"
#include "cli/transfer.h"

#include <stdlib.h>
#include <string.h>

static transfer_entry entry, back;
static char bytes[TRANSFER_HEADER_MAX];

static void reset(transfer_kind kind, const char *name) {
    memset(&entry, 0, sizeof entry);
    entry.head.kind = (uint8_t)kind;
    snprintf(entry.name, sizeof entry.name, "%s", name);
}

static void test_round_trip(void) {
    reset(TRANSFER_LINK, "a/b");
    snprintf(entry.target, sizeof entry.target, "../c");
    entry.head.mode = 0755;
    size_t size = transfer_encode(&entry, bytes);
    EXPECT(transfer_decode(bytes, size, 0, &back) == NULL);
    EXPECT(strcmp(back.name, "a/b") == 0 && strcmp(back.target, "../c") == 0);
    EXPECT(back.head.mode == 0755);
    EXPECT(transfer_decode(bytes, size - 1, 0, &back) != NULL);
    EXPECT(transfer_decode(bytes, size + 1, 0, &back) != NULL);
    EXPECT(transfer_decode(bytes, size, 1, &back) != NULL);  // a link has no data
    bytes[0] ^= 1;
    EXPECT(transfer_decode(bytes, size, 0, &back) != NULL);
}

// Whether a part of a file of `total` bytes is taken.
static int part(uint64_t total, uint64_t offset, uint64_t data, uint8_t flags) {
    reset(TRANSFER_FILE, "f");
    entry.head.size = total;
    entry.head.offset = offset;
    entry.head.flags = flags;
    return transfer_decode(bytes, transfer_encode(&entry, bytes), data, &back) == NULL;
}

static void test_parts(void) {
    uint64_t max = TRANSFER_PART;
    EXPECT(part(0, 0, 0, TRANSFER_FIRST | TRANSFER_LAST));
    EXPECT(part(10, 0, 10, TRANSFER_FIRST | TRANSFER_LAST));
    EXPECT(part(max + 1, 0, max, TRANSFER_FIRST));
    EXPECT(part(max + 1, max, 1, TRANSFER_LAST));
    EXPECT(!part(10, 0, 11, TRANSFER_FIRST | TRANSFER_LAST));  // more than the file
    EXPECT(!part(10, 11, 0, TRANSFER_LAST));
    EXPECT(!part(10, UINT64_MAX, 2, 0));       // the sum overflows
    EXPECT(!part(10, 0, 10, TRANSFER_FIRST));  // the last that does not say so
    EXPECT(!part(10, 5, 1, TRANSFER_FIRST));
    EXPECT(!part(10, 5, 0, 0));  // would go on for ever
    EXPECT(!part(2 * max, 0, max + 1, TRANSFER_FIRST));
}

static void test_names(void) {
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[255] = '\0';
    EXPECT(transfer_name_is_safe("a") && transfer_name_is_safe("a/b c/...") &&
           transfer_name_is_safe("..a") && transfer_name_is_safe(longest));
    longest[255] = 'x';
    longest[256] = '\0';
    const char *bad[] = {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(!transfer_name_is_safe(bad[i]));
}

static void test_targets(void) {
    EXPECT(transfer_target_is_safe("t/l", "x") && transfer_target_is_safe("t/l", "./x/y"));
    EXPECT(transfer_target_is_safe("t/d/l", "../x") && transfer_target_is_safe("t/d/l", ".."));
    EXPECT(transfer_target_is_safe("t/l", ".") && transfer_target_is_safe("t/l", "./"));
    EXPECT(transfer_target_is_safe("t/l", "x/") && transfer_target_is_safe("t/d/l", "../"));
    EXPECT(transfer_target_is_safe("t/l", "x/./y") && transfer_target_is_safe("t/d/l", "./../x"));
    EXPECT(!transfer_target_is_safe("t/l", "../"));
    EXPECT(!transfer_target_is_safe("t/l", "x/./..") && !transfer_target_is_safe("l", "."));
    EXPECT(!transfer_target_is_safe("t/l", "../x"));  // beside what was sent
    EXPECT(!transfer_target_is_safe("t/d/l", "../../x"));
    EXPECT(!transfer_target_is_safe("t/d/l", "/etc/passwd"));
    EXPECT(!transfer_target_is_safe("t/d/e/l", "link/.."));  // behind a link that leads up
    EXPECT(!transfer_target_is_safe("t/l", ""));
}

// How much of a refusal is the name.
static size_t refused_name(const char *text, const char *why) {
    size_t size;
    EXPECT(strcmp(transfer_refused(text, &size), why) == 0);
    return size;
}

static void test_refusals(void) {
    EXPECT(refused_name("d: why", "why") == 1);
    EXPECT(refused_name("d: e: why not", "why not") == 4);
    EXPECT(refused_name("a/: : why", "why") == 4);
    EXPECT(refused_name(": why", "why") == 0);
    EXPECT(refused_name("nothing", "nothing") == 0);
    EXPECT(refused_name("", "") == 0);
}

// Random bytes and random changes of good ones, each in a block of exactly their size, so that the
// address sanitizer sees a read beyond the end.
static void test_garbage(void) {
    unsigned taken = 0;
    srand(1);
    for (int i = 0; i < 200000; i++) {
        part(10, 0, 10, TRANSFER_FIRST | TRANSFER_LAST);
        size_t size = sizeof(transfer_head) + 1;
        for (int changes = rand() % 4; changes >= 0; changes--)
            bytes[rand() % (int)size] = (char)rand();
        size = (size_t)rand() % (size + 8);
        char *exact = malloc(size + !size);
        memcpy(exact, bytes, size);
        if (!transfer_decode(exact, size, 10, &back)) {
            taken++;
            EXPECT(strlen(back.name) <= TRANSFER_NAME_MAX && back.head.offset <= back.head.size);
        }
        free(exact);
    }
    EXPECT(taken > 0);  // else the changes were too coarse to reach the later checks
}

int main(void) {
    test_round_trip();
    test_parts();
    test_names();
    test_targets();
    test_refusals();
    test_garbage();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
