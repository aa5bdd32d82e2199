// SPDX-License-Identifier: BSD-3-Clause
//
// Random numbers: two seeded generators for tests and faults that can be replayed, and the kernel's
// bytes for whatever a peer must not guess.
//
// splitmix64 turns any 64-bit seed, also a small one, into well mixed numbers and fills the state
// of xoshiro256**, which is the one to draw many numbers from (Blackman and Vigna, public domain
// algorithms).  A generator belongs to one thread.
#ifndef WHI_BASE_RNG_H
#define WHI_BASE_RNG_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/types.h>

#include <wherry/status.h>

typedef struct whi_rng {
    uint64_t s[4];
} whi_rng;

// whi_splitmix64 steps `state` and returns the next number.
static inline uint64_t whi_splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// whi_rng_init starts a generator whose numbers follow from `seed` alone, on every machine.
static inline void whi_rng_init(whi_rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++)
        rng->s[i] = whi_splitmix64(&seed);
}

static inline uint64_t whi_rng_rotate(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
}

// whi_rng_u64 returns the next 64 random bits.
static inline uint64_t whi_rng_u64(whi_rng *rng) {
    uint64_t *s = rng->s;
    uint64_t result = whi_rng_rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = whi_rng_rotate(s[3], 45);
    return result;
}

// whi_rng_below returns a number in [0, bound), each equally likely; bound must not be 0.
static inline uint64_t whi_rng_below(whi_rng *rng, uint64_t bound) {
    // The lowest 2^64 mod bound values would make the small results more likely: draw again.
    uint64_t uneven = -bound % bound;
    uint64_t x;
    do
        x = whi_rng_u64(rng);
    while (x < uneven);
    return x % bound;
}

// whi_rng_between returns a number in [low, high], each equally likely.
static inline uint64_t whi_rng_between(whi_rng *rng, uint64_t low, uint64_t high) {
    uint64_t span = high - low;
    return span == UINT64_MAX ? whi_rng_u64(rng) : low + whi_rng_below(rng, span + 1);
}

// whi_rng_chance is true in `percent` of 100 calls.
static inline int whi_rng_chance(whi_rng *rng, unsigned percent) {
    return whi_rng_below(rng, 100) < percent;
}

// whi_random_bytes fills `data` with bytes that nobody can predict.
//
// Fails with WH_ESYSTEM only where the kernel has no such source.  Any thread.
WH_CHECK static inline wh_status whi_random_bytes(void *data, size_t size) {
    uint8_t *at = data;
    while (size) {
        ssize_t n = getrandom(at, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return WH_ESYSTEM;
        at += n;
        size -= (size_t)n;
    }
    return WH_OK;
}

#endif
