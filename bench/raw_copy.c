// SPDX-License-Identifier: BSD-3-Clause
//
// See raw.h.  What a put or a get costs at least when it moves bytes by the processor: one memcpy.
#include "bench/clock.h"
#include "bench/raw.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(bench_copy *copy, size_t size) {
    if (copy->hist && copy->room >= size)
        return true;
    bench_copy_free(copy);
    copy->room = (size + 4095) & ~(size_t)4095;
    copy->hist = malloc(sizeof *copy->hist);
    copy->from = aligned_alloc(4096, copy->room);
    copy->to = aligned_alloc(4096, copy->room);
    if (!copy->hist || !copy->from || !copy->to) {
        bench_copy_free(copy);
        return false;
    }
    memset(copy->from, 'w', copy->room);
    memset(copy->to, 'w', copy->room);
    return true;
}

bool bench_copy_run(bench_copy *copy, const bench_cell *cell, bench_run *run) {
    if (!reserve(copy, cell->size))
        return false;
    bench_hist_clear(copy->hist);
    uint64_t start = bench_ns(), before = bench_ticks();
    for (uint64_t i = 0; i < cell->count; i++) {
        memcpy(copy->to, copy->from, cell->size);
        __asm__ volatile("" : : "r"(copy->to) : "memory");  // or the compiler drops all but one
        uint64_t now = bench_ticks();
        bench_hist_add(copy->hist, now - before);
        before = now;
    }
    run->seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    run->rate = run->seconds > 0 ? (double)cell->count / run->seconds : 0;
    run->us = bench_hist_stats(copy->hist, bench_ns_per_tick() / 1000);
    return true;
}

void bench_copy_free(bench_copy *copy) {
    free(copy->hist);
    free(copy->from);
    free(copy->to);
    *copy = (bench_copy){0};
}
