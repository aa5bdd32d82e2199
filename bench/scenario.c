// SPDX-License-Identifier: BSD-3-Clause
//
// See scenario.h.  A side posts its next receive right after its send, while the message flies.
#include "bench/scenario.h"

#include "bench/clock.h"

static wh_status drain_sends(bench_side *side) {
    while (side->sent < side->started) {
        if (!bench_side_step(side))
            break;
    }
    return side->failed;
}

static bool wait_received(bench_side *side, uint64_t count) {
    while (side->received < count) {
        if (!bench_side_step(side))
            return false;
    }
    return true;
}

wh_status bench_pingpong_lead(bench_side *side, uint64_t count, bench_hist *hist) {
    uint64_t before = bench_ticks(), took = 0;
    for (uint64_t i = 0; i < count; i++) {
        bench_side_send(side);
        bench_side_post(side);
        if (i)
            bench_hist_add(hist, took);  // the last round's, while this one's message flies
        if (!wait_received(side, i + 1))
            return side->failed;
        uint64_t now = bench_ticks();
        took = now - before;
        before = now;
    }
    if (count)
        bench_hist_add(hist, took);
    return drain_sends(side);
}

wh_status bench_pingpong_follow(bench_side *side, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (!wait_received(side, i + 1))
            return side->failed;
        bench_side_send(side);
        if (i + 1 < count)
            bench_side_post(side);
    }
    return drain_sends(side);
}

wh_status bench_windowed(bench_side *side, uint64_t out) {
    // A sender that never progresses would not see the credit that its peer gives back.
    enum { SENDS_BETWEEN_PROGRESS = 16 };
    while (side->started < out || side->received < side->post_up_to) {
        if (side->started == out || side->started - side->sent >= BENCH_WINDOW) {
            if (!bench_side_step(side))
                return side->failed;
            continue;
        }
        bench_side_send(side);
        if (side->started % SENDS_BETWEEN_PROGRESS == 0)
            wh_worker_progress(side->worker);
    }
    return drain_sends(side);
}

wh_status bench_access(bench_side *side, uint64_t count, bench_hist *hist) {
    uint64_t before = bench_ticks();
    for (uint64_t i = 0; i < count; i++) {
        bench_side_send(side);
        if (side->kind->flush)
            bench_side_flush(side);
        if (drain_sends(side) != WH_OK)
            return side->failed;
        uint64_t now = bench_ticks();
        bench_hist_add(hist, now - before);
        before = now;
    }
    return side->failed;
}

wh_status bench_access_windowed(bench_side *side, uint64_t count) {
    wh_status status = bench_windowed(side, count);
    if (status != WH_OK)
        return status;
    bench_side_flush(side);
    return drain_sends(side);
}
