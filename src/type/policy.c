// SPDX-License-Identifier: BSD-3-Clause
//
// When stores go around the cache.
//
// Ordinary stores that miss the caches cost a second transfer, the read of the line that is about to
// be overwritten; nontemporal stores avoid it, but leave nothing behind for the next reader.  Machines
// differ: on some the copy of twice the second-level cache is already faster with nontemporal stores,
// because the last level is far away; on others the last level is close, and only what does not
// fit there, source and result together, gains.  One measurement tells the two kinds apart; the cache sizes give the numbers.
#include "type/policy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "type/kernels/kernels.h"

enum {
    L2_DEFAULT = 1 << 20,
    L3_DEFAULT = 32 << 20,
    ROUNDS = 5,
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t second_level(void) {
    long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return size > 0 ? (size_t)size : L2_DEFAULT;
}

// The last level as the kernel sees it: sysconf may add up the caches of all cores.
static size_t last_level(void) {
    size_t kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (file) {
        if (fscanf(file, "%zuK", &kib) != 1)
            kib = 0;
        fclose(file);
    }
    return kib ? kib << 10 : L3_DEFAULT;
}

static uint64_t best_of(char *to, const char *from, size_t size, int nontemporal) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = now_ns();
        if (nontemporal) {
            whi_nontemporal_copy(to, from, (int64_t)size);
            whi_nontemporal_fence();
        } else {
            memcpy(to, from, size);
        }
        uint64_t took = now_ns() - begin;
        best = took < best ? took : best;
    }
    return best;
}

// The footprint from which nontemporal stores pay: 1 where it always does.
static size_t measure(void) {
    size_t size = 2 * second_level(), near = last_level() / 2;
    char *memory = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return near;
    memset(memory, 1, 2 * size);
    uint64_t plain = best_of(memory, memory + size, size, 0);
    uint64_t nontemporal = best_of(memory, memory + size, size, 1);
    munmap(memory, 2 * size);
    return nontemporal + nontemporal / 20 < plain ? 1 : near;
}

bool whi_nontemporal_pays(size_t packed, size_t touched) {
    static _Atomic size_t known;
    if (packed < second_level() / 2)
        return false;  // the result may stay in this core's cache, on any machine
    size_t least = atomic_load_explicit(&known, memory_order_relaxed);
    if (!least) {
        least = measure();
        atomic_store_explicit(&known, least, memory_order_relaxed);
    }
    return packed + touched > least;
}
