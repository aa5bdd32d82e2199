// SPDX-License-Identifier: BSD-3-Clause
//
// For the walks of chares: a job in which they run.
#ifndef WHI_RT_CHARE_WALK_WORLD_H
#define WHI_RT_CHARE_WALK_WORLD_H

#include "rt/chare/walk_pipe.h"

static void on_error(wh_pe *pe, const wh_proxy *proxy, const char *sentence, void *arg) {
    (void)pe;
    (void)arg;
    if (!proxy || proxy->collection != walk.array.collection || proxy->dims != 1)
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "%s", sentence);
    int number = proxy->index[0];
    CHECK(number >= walk.immortals && number < walk.walkers);
    if (strstr(sentence, "there already")) {  // its home does not know of its end yet
        CHECK(walk.life[number] == COMING);
        walk.life[number] = AWAY;
        walk.refused++;
        return;
    }
    if (!strstr(sentence, "has called entry"))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "%s", sentence);
    walk.rejected[number]++;
}

static wh_proxy make_array(const char *cls, int count, const char *map) {
    wh_proxy made;
    CHECK_EQ_INT(wh_array_create(net_pe(any_pe()), cls,
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {count}, .map = map), "with", 4,
                                 &made),
                 WH_OK);
    return made;
}

static void walk_begin(uint64_t seed, bool channels) {
    static const int pes[] = {16, 2, 16, 5};
    memset(&walk, 0, sizeof(walk));
    net_begin(seed, pes[seed % 4]);
    walk.channels = channels;
    walk.walkers = channels ? 6 : PICK(6, 40, 300, 1000);
    walk.members = PICK(3, 20);
    walk.immortals = walk.walkers / PICK(2, 3);
    walk.lag = PICK(0, 2, 4);
    walk.ahead = (unsigned)PICK(0, 0, 3);
    walk.pipes = channels || chance(3) ? PIPES : 0;
    net.never_asleep = walk.pipes;  // what comes over endpoints wakes nobody here
    for (int i = 0; i < job.pes; i++) {
        whi_channels_attach(job.pe[i]);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &walker_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &pipe_class), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "result", on_reduced, NULL), WH_OK);
        CHECK_EQ_INT(wh_function_register(job.pe[i], "shared", on_shared, NULL), WH_OK);
        CHECK_EQ_INT(wh_chare_on_error(job.pe[i], on_error, NULL), WH_OK);
    }
    static const char *const maps[] = {"block", "round-robin"};
    walk.array = make_array("walker", walk.walkers, maps[draw(2)]);
    walk.member = make_array("walker", walk.members, maps[draw(2)]);
    if (walk.pipes)
        walk.pipe = make_array("pipe", walk.pipes, "round-robin");
}

#endif
