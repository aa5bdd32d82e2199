// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of refusals: what the log says of a call, and elements that try one.
#ifndef WHI_RT_CHARE_REFUSED_KIT_H
#define WHI_RT_CHARE_REFUSED_KIT_H

#include <wherry/log.h>

#include "rt/chare/chare_kit.h"

static struct {
    int lines;
    char text[1200];
} said;

static void hear(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    said.lines++;
    snprintf(said.text, sizeof(said.text), "%s %s %s", level, id, text);
}

// check_words: one line was logged, which has all words, parted by '|'.
static void check_words(int line, const char *words) {
    char all[400];
    snprintf(all, sizeof(all), "%s", words);
    bool one = said.lines == 1;
    for (char *rest = all, *word; one && (word = strsep(&rest, "|"));)
        if (!strstr(said.text, word))
            whi_test_end(WHI_TEST_FAILED, __FILE__, line, "no \"%s\" in: %s", word, said.text);
    if (!one)
        whi_test_end(WHI_TEST_FAILED, __FILE__, line, "%d lines: %s", said.lines, said.text);
}

#define REFUSED(status, call, words)                                                               \
    do {                                                                                           \
        said.lines = 0;                                                                            \
        CHECK_EQ_INT(call, status);                                                                \
        check_words(__LINE__, words);                                                              \
    } while (0)

static wh_proxy array, group, single;
static void (*inside)(wh_chare *self);  // what `run` does
static int ran;

#define TRIED_ENTRIES(ENTRY)                                                                       \
    ENTRY(tried, run, 0)                                                                           \
    ENTRY(tried, run_threaded, WH_ENTRY_THREADED)                                                  \
    ENTRY(tried, resume, 0)
WH_CLASS(tried, TRIED_ENTRIES, .state = 8);

static void tried_run(wh_chare *self, const wh_call *call) {
    (void)call;
    inside(self);
    ran++;
}

static void tried_run_threaded(wh_chare *self, const wh_call *call) {
    tried_run(self, call);
}

static void tried_resume(wh_chare *self, const wh_call *call) {
    (void)self;
    (void)call;
}

#define MOVER_ENTRIES(ENTRY)                                                                       \
    ENTRY(mover, run, 0)                                                                           \
    ENTRY(mover, run_threaded, WH_ENTRY_THREADED)                                                  \
    ENTRY(mover, resume, 0)
WH_CLASS(mover, MOVER_ENTRIES, .state = 8, .pack = kit_pack, .unpack = kit_unpack);

static void mover_run(wh_chare *self, const wh_call *call) {
    tried_run(self, call);
}

static void mover_run_threaded(wh_chare *self, const wh_call *call) {
    tried_run(self, call);
}

static void mover_resume(wh_chare *self, const wh_call *call) {
    tried_resume(self, call);
}

static inline void start(void) {
    begin(4, 2);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &tried_class), WH_OK);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &mover_class), WH_OK);
    }
    CHECK_EQ_INT(wh_array_create(job.pe[0], "tried", WH_ARRAY_OPTS(.dims = 2, .shape = {2, 2}),
                                 NULL, 0, &array),
                 WH_OK);
    CHECK_EQ_INT(wh_group_create(job.pe[0], "mover", NULL, 0, &group), WH_OK);
    CHECK_EQ_INT(wh_chare_create(job.pe[1], "cell", 0, NULL, 0, &single), WH_OK);
    kit_settle();
    wh_log_set_sink(hear, NULL);
}

static inline void finish(void) {
    wh_log_set_sink(NULL, NULL);
    kit_finish();
}

static inline wh_proxy at(int x, int y) {
    return wh_proxy_at(array, 2, (const int32_t[]){x, y});
}

// within has an element run `fn`.
static inline void within(wh_proxy element, unsigned entry, void (*fn)(wh_chare *self)) {
    inside = fn;
    int before = ran;
    send(0, element, entry, "", 0);
    UNTIL(ran == before + 1);
}

#endif
