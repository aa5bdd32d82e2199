// SPDX-License-Identifier: BSD-3-Clause
//
// Codes equal those of RFC 4231, and a process may end while its threads compute some.
#include "link/mac.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/test_child.h"

enum { ENDED = 7, THREADS = 2, TRIES = 40 };

static atomic_int computed;

static void *compute(void *arg) {
    uint8_t mac[WHI_MAC_SIZE];
    for (;; atomic_fetch_add(&computed, 1))
        CHECK_EQ_INT(whi_mac("Jefe", "what do ya want for nothing?", 28, mac), WH_OK);
    return arg;
}

static void start(void) {
    pthread_t thread;
    int before = atomic_load(&computed);
    CHECK_EQ_INT(pthread_create(&thread, NULL, compute, NULL), 0);
    while (atomic_load(&computed) == before)
        sched_yield();
}

TEST(a_known_code) {  // RFC 4231, test case 2
    static const uint8_t expected[WHI_MAC_SIZE] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                                   0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                                   0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                                   0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    uint8_t mac[WHI_MAC_SIZE];
    CHECK_EQ_INT(whi_mac("Jefe", "what do ya want for nothing?", 28, mac), WH_OK);
    CHECK_MEM(mac, expected, sizeof(mac));
}

TEST(a_process_ends_while_others_compute) {
    for (int i = 0; i < TRIES; i++) {
        pid_t pid = child_begin();
        if (!pid) {
            for (int t = 0; t < THREADS; t++)
                start();
            exit(ENDED);
        }
        CHECK_EQ_INT(child_end(pid), ENDED << 8);
    }
}

TEST_MAIN()
