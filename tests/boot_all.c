// SPDX-License-Identifier: BSD-3-Clause
//
// A process of a job: it tells the others a value, gets that of each, and checks it; then another one.
//
//     wherry run -n 64 boot-all [BYTES [END]]
//
// Rank 0 prints how many processes there are and who has started them.  With an END, the last rank does that at the
// beginning, while the others wait for it: `early` asks the launcher to end the job with status 7, `exit` leaves with 3,
// `quit` with 0, `kill` is killed, `late` takes its time.  `abort` is as `early` after the first exchange, while the others
// are busy.
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt/boot/boot.h"

enum { BYTES = 300, BYTES_MAX = 60000, BUSY = 60 };

#define MUST(cond) ((cond) ? (void)0 : fail(#cond, __LINE__))

static void fail(const char *what, int line) {
    fprintf(stderr, "boot_all.c:%d: not so: %s\n", line, what);
    exit(1);
}

static uint8_t byte_of(int rank, size_t at) {
    return (uint8_t)((size_t)rank * 131 + at * 7 + at / 256);
}

static void check_value(whi_boot *boot, int rank, const char *name, size_t bytes) {
    static uint8_t value[BYTES_MAX];
    size_t size = 0;
    MUST(whi_boot_get(boot, rank, name, value, sizeof(value), &size) == WH_OK);
    MUST(size == bytes);
    for (size_t i = 0; i < size; i++)
        MUST(value[i] == byte_of(rank, i));
}

static void tell_all(whi_boot *boot, const char *name, size_t bytes) {
    static uint8_t value[BYTES_MAX];
    int rank = whi_boot_rank(boot), size = whi_boot_size(boot);
    for (size_t i = 0; i < bytes; i++)
        value[i] = byte_of(rank, i);
    MUST(whi_boot_put(boot, name, value, bytes) == WH_OK);
    MUST(whi_boot_exchange(boot) == WH_OK);
    for (int i = 1; i <= size; i++)
        check_value(boot, (rank + i) % size, name, bytes);
}

static void end_by(whi_boot *boot, const char *how) {
    if (strcmp(how, "early") == 0 || strcmp(how, "abort") == 0) {
        whi_boot_abort(boot, 7);
        sleep(BUSY);  // the launcher ends it
    }
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "late") == 0)
        sleep(BUSY);
    _exit(strcmp(how, "quit") == 0 ? 0 : 3);
}

int main(int argc, char **argv) {
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : BYTES, size;
    whi_boot *boot;
    MUST(bytes <= BYTES_MAX);
    MUST(whi_boot_join(&boot) == WH_OK);
    const char *end = argc > 2 ? argv[2] : NULL;
    bool last = whi_boot_rank(boot) == whi_boot_size(boot) - 1,
         abort_later = end && !strcmp(end, "abort");
    if (end && last && !abort_later)
        end_by(boot, end);
    tell_all(boot, "value", bytes);
    if (abort_later && last)
        end_by(boot, end);
    if (abort_later)
        sleep(BUSY);
    tell_all(boot, "second", bytes / 2);
    MUST(whi_boot_get(boot, 0, "none", &size, sizeof(size), &size) == WH_ENOTFOUND);
    MUST(whi_boot_exchange(boot) == WH_OK);
    if (whi_boot_rank(boot) == 0)
        printf("%d processes, started by %s\n", whi_boot_size(boot), whi_boot_launcher(boot));
    whi_boot_leave(boot);
    return 0;
}
