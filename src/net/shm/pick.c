// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing between two ways by trials, see pick.h.
#include "net/shm/pick.h"

enum {
    FIRST_TRIAL = 8,   // transfers before it: what the first ones cost is mostly memory that is new
    WINDOW = 8,        // transfers that end while a cost is measured
    SKIPPED = 2,       // transfers that end in a trial before those that count
    TRIAL_MAX = 2048,  // transfers that begin in a trial: one in which too few end is given up
    SETTLING = 32,     // transfers that end after a trial and do not count: some began in it
    INTERVAL_MIN = 64,
    INTERVAL_MAX = 16384,
    THOROUGH_MAX = 64,  // the most trials between those that may be thorough
    COUNTED = 4,        // of a thorough trial the last one in so many bytes count
    SLOWER = 2,         // what costs so many times as much as at the last trial,
    SLOW_WINDOWS = 8,  // so many times one after the other, calls for one; fewer may be lost slices
    RARE = 6,          // so many at least go the better way for each that begins in a trial
    CLIP = 16          // what lost its time slice counts as so much of the usual
};

static const double smooth = 1.0 / 4;

// The first way is taken when it costs less than this part of the second.
static const double gain = 3.0 / 4;

// One that costs more than so much of the second needs no thorough trial.
static const double hopeless = 2;

void whi_pick_init(whi_pick *pick, bool second) {
    *pick = (whi_pick){
        .second = second, .left = FIRST_TRIAL, .interval = INTERVAL_MIN, .most = TRIAL_MAX};
}

void whi_pick_init_row(whi_pick row[WHI_PICK_SIZES], bool second, uint32_t most,
                       uint64_t thorough) {
    for (int i = 0; i < WHI_PICK_SIZES; i++) {
        whi_pick_init(&row[i], second);
        row[i].thorough = thorough;
        if (most < row[i].most)
            row[i].most = most;
    }
}

bool whi_pick_like(whi_pick *pick, const whi_pick *like) {
    if (pick->begun || !like->tried)
        return false;
    pick->second = like->second;
    pick->left = INTERVAL_MIN;
    return true;
}

static void open_window(whi_pick *pick, uint32_t skipped) {
    pick->skipped = skipped;
    pick->ended = 0;
    pick->cycles = pick->bytes = pick->due = 0;
    pick->goes_on = false;
    pick->unheeded = 0;
}

static void end_trial(whi_pick *pick, bool change) {
    if (pick->goes_on) {
        uint32_t next = pick->thorough_interval ? 2 * pick->thorough_interval : 1;
        pick->thorough_interval = change ? 0 : next < THOROUGH_MAX ? next : THOROUGH_MAX;
        pick->thorough_left = pick->thorough_interval;
    } else if (pick->thorough_left) {
        pick->thorough_left--;
    }
    pick->trial = false;
    if (change) {
        pick->second = !pick->second;
        pick->interval = INTERVAL_MIN;
    } else if (pick->slow < SLOW_WINDOWS && pick->interval < INTERVAL_MAX) {
        pick->interval *= 2;
    }
    uint32_t least = RARE * (pick->in_trial < pick->most ? pick->in_trial : pick->most);
    pick->left = pick->interval > least ? pick->interval : least;
    pick->settled = pick->cost[pick->second];
    pick->slow = 0;
    open_window(pick, SETTLING);
}

// The first trial is the second way's, and the cost of the first way may not be known by then.
static bool second_is_better(const whi_pick *pick) {
    return !(pick->cost[0] > 0 && pick->cost[0] < pick->cost[1] * gain);
}

bool whi_pick_way(const whi_pick *pick) {
    return pick->second != (pick->trial && pick->in_trial <= pick->most);
}

bool whi_pick_choose(whi_pick *pick) {
    pick->begun = true;
    if (pick->left)
        pick->left--;
    pick->in_trial += pick->trial;
    if (pick->trial && !pick->left)
        end_trial(pick, false);
    if (!pick->trial && !pick->left) {
        pick->trial = true;
        pick->in_trial = 1;
        pick->left = TRIAL_MAX;
        open_window(pick, SKIPPED);
    }
    return whi_pick_way(pick);
}

static int place_of(uint64_t size) {
    int place = 0;
    while (place < WHI_PICK_SIZES - 1 && size >> (WHI_PICK_SHIFT + place + 1))
        place++;
    return place;
}

whi_pick *whi_pick_of(whi_pick row[WHI_PICK_SIZES], uint64_t size) {
    return &row[place_of(size)];
}

bool whi_pick_choose_of(whi_pick row[WHI_PICK_SIZES], uint64_t size) {
    int place = place_of(size);
    whi_pick *pick = &row[place];
    bool found = pick->begun;
    for (int far = 1; !found && far < WHI_PICK_SIZES; far++)
        found = (far <= place && whi_pick_like(pick, pick - far)) ||
                (place + far < WHI_PICK_SIZES && whi_pick_like(pick, pick + far));
    return whi_pick_choose(pick);
}

// goes_on says whether a trial becomes a thorough one, given what its first transfers have cost: it must be rare, and not so long that
// it would be given up.
static bool goes_on(const whi_pick *pick, double cost) {
    double size = pick->bytes / pick->ended, thorough = (double)pick->thorough;
    return pick->trial && pick->second && thorough > 0 && !pick->goes_on && !pick->thorough_left &&
           pick->interval * size >= RARE * thorough && TRIAL_MAX * size >= 2 * thorough &&
           cost >= pick->cost[1] * gain && cost <= pick->cost[1] * hopeless;
}

// is_measured says whether there is enough to tell a cost from.
static bool is_measured(const whi_pick *pick) {
    if (pick->goes_on)
        return pick->bytes >= (double)pick->thorough / COUNTED;
    // Many may end at once that have moved together: as many bytes as they have count, not their last ones alone.
    return pick->ended >= WINDOW && pick->bytes >= pick->due;
}

void whi_pick_note(whi_pick *pick, bool second, uint64_t cycles, uint64_t size, uint64_t whole) {
    if (second != (pick->second != pick->trial))
        return;  // it began before a trial, or in one that is over
    if (pick->skipped) {
        pick->skipped -= whole > 0;
        return;
    }
    if (pick->unheeded > 0) {
        pick->unheeded -= (double)size;
        return;
    }
    double most = pick->cost[pick->second] * CLIP * (double)size;
    pick->cycles += most > 0 && (double)cycles > most ? most : (double)cycles;
    pick->bytes += (double)size;
    pick->due += (double)whole;
    pick->ended += whole > 0;
    if (!is_measured(pick))
        return;
    double cost = pick->bytes > 0 ? pick->cycles / pick->bytes : 0;
    if (goes_on(pick, cost)) {
        open_window(pick, 0);
        pick->goes_on = true;
        pick->unheeded = (double)pick->thorough / COUNTED * (COUNTED - 1);
        return;
    }
    double *old = &pick->cost[second];
    *old = *old > 0 && !pick->trial ? *old + (cost - *old) * smooth : cost;
    if (!pick->trial) {
        if (pick->slow < SLOW_WINDOWS)
            pick->slow = pick->settled > 0 && cost > pick->settled * SLOWER ? pick->slow + 1 : 0;
        if (pick->slow == SLOW_WINDOWS)
            pick->left = 1;
        open_window(pick, 0);
        return;
    }
    pick->tried = true;
    end_trial(pick, second_is_better(pick) != pick->second);
}
