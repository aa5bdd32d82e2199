// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing between two ways by trials, see pick.h.
#include "net/shm/pick.h"

enum {
    FIRST_TRIAL = 8,  // transfers before it: what the first ones cost is mostly memory that is new
    TRIAL = 8,
    SKIPPED = 2,  // of a trial
    INTERVAL_MIN = 64,
    INTERVAL_MAX = 4096,
    LATER = 1024,  // a trial of which some never end is given up
    CLIP = 16,     // a transfer that lost its time slice counts as so many
    SMOOTH = 32,
    GAIN = 2,
    COST_MAX = 1 << 28
};

void whi_pick_init(whi_pick *pick) {
    *pick = (whi_pick){.left = FIRST_TRIAL, .interval = INTERVAL_MIN};
}

static void end_trial(whi_pick *pick, uint32_t cost) {
    bool other = !pick->second;
    pick->trial = false;
    pick->cost[other] = cost;
    bool second = !pick->cost[0] || pick->cost[0] > pick->cost[1] / GAIN;
    if (second != pick->second) {
        pick->second = second;
        pick->interval = INTERVAL_MIN;
    } else if (pick->interval < INTERVAL_MAX) {
        pick->interval *= 2;
    }
    pick->left = pick->interval;
}

bool whi_pick_choose(whi_pick *pick) {
    if (pick->left)
        pick->left--;
    if (pick->trial) {
        if (pick->left)
            return !pick->second;
        // Until the last transfer of a trial has ended, what is new goes the usual way.
        if (++pick->later == LATER)
            end_trial(pick, COST_MAX);
        return pick->second;
    }
    if (pick->left)
        return pick->second;
    pick->trial = true;
    pick->left = TRIAL;
    pick->noted = 0;
    pick->later = 0;
    pick->sum = 0;
    return !pick->second;
}

static uint32_t smooth(uint32_t old, uint32_t cost) {
    return old ? (uint32_t)(((uint64_t)old * (SMOOTH - 1) + cost) / SMOOTH) + 1 : cost + 1;
}

void whi_pick_note(whi_pick *pick, bool second, uint64_t cycles, uint64_t size) {
    uint64_t exact = size ? cycles / size * 1024 + cycles % size * 1024 / size : 0;
    uint32_t cost = exact < COST_MAX ? (uint32_t)exact : COST_MAX;
    uint32_t usual = pick->cost[pick->second];
    if (usual && cost / CLIP > usual)
        cost = usual * CLIP;
    if (second == pick->second) {
        pick->cost[second] = smooth(usual, cost);
        return;
    }
    if (!pick->trial)
        return;  // late, of one that has ended
    pick->noted++;
    if (pick->noted > SKIPPED)
        pick->sum += cost;
    if (pick->noted == TRIAL)
        end_trial(pick, (uint32_t)(pick->sum / (TRIAL - SKIPPED)) + 1);
}
