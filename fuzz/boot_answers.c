// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what a launcher of PMI-1 answers to a process that joins, gets a value and leaves; the input is all of it, and
// then the launcher hangs up.
//
// Each call ends, no value is longer than the room for it, and a process that has joined has a rank of the job.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "rt/boot/boot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { INPUT_MAX = 64 << 10, VALUE_MAX = 600 };

// Whether the descriptor that the process was given has been taken over.
static bool take_part(void) {
    whi_boot *boot;
    if (whi_boot_join(&boot) != WH_OK)
        return false;
    MUST(whi_boot_rank(boot) == 1 && whi_boot_size(boot) == 2);
    uint8_t *value = malloc(VALUE_MAX);
    size_t size = SIZE_MAX;
    MUST(value);
    // What fails here is the launcher's fault; it must not matter to the get.
    if (whi_boot_put(boot, "v", "abc", 3) == WH_OK && whi_boot_exchange(boot) != WH_OK)
        size = 0;
    if (whi_boot_get(boot, 0, "v", value, VALUE_MAX, &size) == WH_OK)
        MUST(size <= VALUE_MAX);
    free(value);
    whi_boot_leave(boot);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int pair[2];
    char text[16];
    if (size > INPUT_MAX)
        return 0;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    MUST(write(pair[0], data, size) == (ssize_t)size);
    MUST(shutdown(pair[0], SHUT_WR) == 0);
    snprintf(text, sizeof(text), "%d", pair[1]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "2", 1);
    whi_log_set_level(WHI_LOG_OFF);
    if (!take_part())
        close(pair[1]);
    close(pair[0]);
    return 0;
}
