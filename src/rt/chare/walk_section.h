// SPDX-License-Identifier: BSD-3-Clause
//
// For the walks of chares: sections of walkers that move and end, called and reduced over.
//
// Each section has a walker or a member of its array that never ends, so that all of its reductions end.  One that belongs to a
// section is not inserted anew.
#ifndef WHI_RT_CHARE_WALK_SECTION_H
#define WHI_RT_CHARE_WALK_SECTION_H

#include "rt/chare/walk_model.h"

typedef struct shout {
    int32_t section, serial, from;
    uint8_t bytes[WH_SECTION_SIZE];
} shout;

static void result_to(wh_callback *to, int section) {
    *to = (wh_callback){.kind = WH_CALLBACK_FUNCTION,
                        .function = wh_function_id("shared"),
                        .pe = section % job.pes,
                        .ref = section};
}

// share takes a call of a section, each once and those of a sender's PE in order, and contributes what nobody else does.
static void walker_share(wh_chare *self, const wh_call *call) {
    walker *w = self->state;
    shout s;
    CHECK_EQ_INT(call->size, sizeof(s));
    memcpy(&s, call->args, sizeof(s));
    walk_section *of = &walk.sections[s.section];
    CHECK(of->has[w->number]);
    CHECK_EQ_INT(s.serial, ++w->heard[s.section][s.from]);
    int64_t k = w->shared[s.section]++;
    int64_t value[3] = {1, w->number + 1, k};
    wh_contribution sum = {.reducer = WH_REDUCER_OP,
                           .op = WH_REDUCE_SUM,
                           .type = WH_TYPE_INT64,
                           .data = value,
                           .count = 3};
    wh_callback then;
    wh_section section;
    result_to(&then, s.section);
    CHECK_EQ_INT(wh_section_decode(s.bytes, sizeof(s.bytes), &section), WH_OK);
    CHECK(k < ROUNDS_MAX);
    of->contributed[k]++;
    of->sum[k] += w->number + 1;
    CHECK_EQ_INT(wh_section_contribute(self, section, &sum, 1, sizeof(sum), &then), WH_OK);
}

// Reductions of a section end in order, each with what all have contributed to it.
static void on_shared(wh_pe *pe, const wh_call *call, void *arg) {
    int64_t value[3];
    (void)arg;
    CHECK(call->ref < walk.section_count && wh_pe_number(pe) == call->ref % job.pes);
    walk_section *of = &walk.sections[call->ref];
    CHECK_EQ_INT(call->size, sizeof(value));
    memcpy(value, call->args, sizeof(value));
    CHECK(value[0] > 0);
    int64_t k = value[2] / value[0];
    CHECK_EQ_INT(value[2], k * value[0]);
    CHECK(k < ROUNDS_MAX);
    CHECK_EQ_INT(value[0], of->contributed[k]);
    CHECK_EQ_INT(value[1], of->sum[k]);
    of->contributed[k] = -1;  // once
    of->fired++;
}

static void step_section_make(void) {
    int32_t indices[SECTION_MAX];
    size_t count = 0;
    if (walk.section_count == SECTIONS_MAX)
        return;
    bool members = chance(40);
    int first = members ? walk.walkers : 0, many = members ? walk.members : walk.walkers;
    walk_section *of = &walk.sections[walk.section_count];
    for (int left = PICK(1, 4, SECTION_MAX); left > 0; left--) {
        int i = (int)draw((uint64_t)(left == 1 ? (members ? many : walk.immortals) : many));
        if (of->has[first + i] || walk.life[first + i] == COMING)
            continue;
        of->has[first + i] = walk.sectioned[first + i] = true;
        indices[count++] = i;
    }
    if (!count || (!members && indices[count - 1] >= walk.immortals)) {
        memset(of, 0, sizeof(*of));
        return;
    }
    CHECK_EQ_INT(wh_section_create(net_pe(any_pe()), members ? walk.member : walk.array, 1, indices,
                                   count, &of->section),
                 WH_OK);
    walk.section_count++;
}

static void step_section(void) {
    if (!walk.section_count || chance(5)) {
        step_section_make();
        return;
    }
    int from = any_pe();
    shout s = {.section = (int32_t)draw((uint64_t)walk.section_count), .from = from};
    walk_section *of = &walk.sections[s.section];
    if (of->rounds == ROUNDS_MAX)
        return;
    of->rounds++;
    s.serial = ++of->serials[from];
    wh_section_encode(&of->section, s.bytes);
    CHECK_EQ_INT(
        wh_section_send(net_pe(from), of->section, walker_share_entry, &s, sizeof(s), s.serial),
        WH_OK);
}

static void check_sections(void) {
    for (int i = 0; i < walk.section_count; i++)
        CHECK_EQ_INT(walk.sections[i].fired, walk.sections[i].rounds);
}

#endif
