// SPDX-License-Identifier: BSD-3-Clause
//
// Elements whose class says that they stay, and elements that it cannot pack: they stay where they are, go on with the others, and
// no checkpoint is written without them.
#include <stdlib.h>
#include <unistd.h>

#include <wherry/checkpoint.h>

#include "rt/chare/balance_kit.h"

static struct {
    bool stay[SITTERS], saved[SITTERS], broken[SITTERS];  // for moves, for checkpoints; not packed
    int asked_saved, status, statuses;
} moods;

static const char *pebble_stays(wh_chare *self, bool saved) {
    int at = self->proxy.index[0];
    moods.asked_saved += saved;
    return (saved ? moods.saved : moods.stay)[at] ? "it is in a mood" : NULL;
}

static size_t pebble_pack(wh_chare *self, void *to) {
    if (!to && moods.broken[self->proxy.index[0]])
        return WH_PACK_FAILED;
    return sitter_pack(self, to);
}

#define PEBBLE_ENTRIES(ENTRY)                                                                      \
    ENTRY(pebble, call, 0)                                                                         \
    ENTRY(pebble, reach, 0)                                                                        \
    ENTRY(pebble, resume, 0)                                                                       \
    ENTRY(pebble, go, 0)
WH_CLASS(pebble, PEBBLE_ENTRIES, .state = sizeof(sitter), .pack = pebble_pack,
         .unpack = sitter_unpack, .stays = pebble_stays);

static void pebble_call(wh_chare *self, const wh_call *call) {
    sitter_call(self, call);
    seen.pe[0][self->proxy.index[0]] = wh_pe_number(self->pe);
}

static void pebble_reach(wh_chare *self, const wh_call *call) {
    sitter_reach(self, call);
}

static void pebble_resume(wh_chare *self, const wh_call *call) {
    sitter_resume(self, call);
}

static void pebble_go(wh_chare *self, const wh_call *call) {
    bool stays = moods.stay[self->proxy.index[0]];
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), stays ? WH_EBUSY : WH_OK);
}

static wh_proxy pebbles(int pes, const char *strategy) {
    memset(&moods, 0, sizeof(moods));
    begin(pes, 1);
    for (int i = 0; i < pes; i++)
        CHECK_EQ_INT(wh_class_register(job.pe[i], &pebble_class), WH_OK);
    return make_array(0, 0, "pebble", pebble_resume_entry, strategy, SITTERS, "all-on-0", 0);
}

static void a_step(wh_proxy array) {
    int before = seen.resumed[0];
    for (int i = 0; i < SITTERS; i++)
        reach(0, at(array, i), 1, 0);
    UNTIL(seen.resumed[0] == before + SITTERS);
    settle();
}

// They are counted as fixed, and go when they may.
TEST(who_stays_in_a_step) {
    const char *const strategies[] = {"greedy", "refine", "distributed"};
    for (int s = 0; s < 3; s++) {
        wh_proxy array = pebbles(3, strategies[s]);
        moods.stay[5] = moods.stay[6] = true;
        a_step(array);
        wh_balance_step last = last_of(2, array);
        CHECK_EQ_INT(last.fixed, 2);
        CHECK(last.moved > SITTERS / 3 && last.moved <= SITTERS - 2);
        CHECK(seen.pe[0][5] == 0 && seen.pe[0][6] == 0);
        moods.stay[5] = moods.stay[6] = false;
        a_step(array);
        CHECK_EQ_INT(last_of(0, array).fixed, 0);
        CHECK_EQ_INT(moods.asked_saved, 0);
        end();
    }
}

// An element that was chosen and cannot be packed is not lost: the step ends, and it takes calls where it was.
TEST(who_cannot_be_packed_in_a_step) {
    const char *const strategies[] = {"greedy", "refine", "distributed"};
    for (int s = 0; s < 3; s++) {
        wh_proxy array = pebbles(3, strategies[s]);
        for (int i = 0; i < SITTERS; i++)
            moods.broken[i] = i % 4 != 1;
        a_step(array);
        wh_balance_step last = last_of(1, array);
        CHECK_EQ_INT(last.elements, SITTERS);
        CHECK(last.fixed > 0 && last.moved <= SITTERS / 4);
        for (int i = 0; i < SITTERS; i++)
            CHECK(i % 4 == 1 || seen.pe[0][i] == 0);
        for (int i = 0; i < SITTERS; i++)
            call(1, at(array, i), pebble_call_entry, 0);
        memset(moods.broken, 0, sizeof(moods.broken));
        a_step(array);
        CHECK_EQ_INT(seen.calls, SITTERS);
        last = last_of(1, array);
        CHECK(last.fixed == 0 && last.max_after < last.mean_after * 2);
        end();
    }
}

TEST(moves_that_are_asked_for) {
    wh_proxy array = pebbles(2, "none");
    moods.stay[1] = moods.broken[2] = true;
    for (int i = 0; i < 3; i++) {
        call(1, at(array, i), pebble_go_entry, 1);
        call(1, at(array, i), pebble_call_entry, 0);
    }
    settle();
    CHECK_EQ_INT(seen.calls, 3);
    CHECK(seen.pe[0][0] == 1 && seen.pe[0][1] == 0 && seen.pe[0][2] == 0);
    moods.broken[2] = false;
    call(1, at(array, 2), pebble_go_entry, 1);  // the one before is not left over
    call(1, at(array, 2), pebble_call_entry, 1);
    settle();
    CHECK_EQ_INT(seen.pe[0][2], 1);
    end();
}

// ---- Checkpoints.

static void on_done(wh_pe *pe, const wh_call *call, void *arg) {
    (void)pe;
    (void)arg;
    int32_t status;
    memcpy(&status, call->args, sizeof(status));
    moods.status = status;
    moods.statuses++;
}

static int save(const char *folder) {
    wh_callback callback = {.kind = WH_CALLBACK_FUNCTION, .function = wh_function_id("done")};
    int before = moods.statuses;
    CHECK_EQ_INT(wh_checkpoint_write(job.pe[0], folder, &callback), WH_OK);
    UNTIL(moods.statuses == before + 1);
    return moods.status;
}

TEST(checkpoints) {
    char folder[100], command[200];
    snprintf(folder, sizeof(folder), "/tmp/wherry-stays-test-%d", (int)getpid());
    wh_proxy array = pebbles(2, "none");
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_function_register(job.pe[i], "done", on_done, NULL), WH_OK);
    for (int i = 0; i < SITTERS; i += 2)
        call(0, at(array, i), pebble_go_entry, 1);
    settle();
    moods.saved[3] = true;
    CHECK_EQ_INT(save(folder), WH_EBUSY);
    moods.saved[3] = false;
    moods.broken[8] = true;
    CHECK_EQ_INT(save(folder), WH_ENOTSUP);
    moods.broken[8] = false;
    moods.stay[4] = true;  // a move would be refused, a checkpoint is not
    CHECK_EQ_INT(save(folder), WH_OK);
    for (int i = 0; i < SITTERS; i++)
        call(1, at(array, i), pebble_call_entry, 0);
    settle();
    CHECK_EQ_INT(seen.calls, SITTERS);
    end();
    snprintf(command, sizeof(command), "rm -r %s", folder);
    CHECK_EQ_INT(system(command), 0);
}

TEST_MAIN()
