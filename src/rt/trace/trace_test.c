// SPDX-License-Identifier: BSD-3-Clause
//
// The timeline of elements that move while they are called: each message that goes between PEs is an arrow with two ends, each of
// which lies in a span that is called as the program calls it.
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "rt/chare/element_kit.h"

enum { LINES_MAX = 40000, HOPPERS = 8, STEPS = 60 };

typedef struct event {
    char kind;  // X, s, f
    char id[32], name[64];
    int pe;
    double at, lasts;
} event;

static event events[LINES_MAX];
static int count;

static int renamed;

#define HOPPER_ENTRIES(ENTRY)                                                                      \
    ENTRY(hopper, hop, 0)                                                                          \
    ENTRY(hopper, ping, 0)                                                                         \
    ENTRY(hopper, renamed, 0)                                                                      \
    ENTRY(hopper, slow, WH_ENTRY_THREADED)
static const char *hopper_alias(const wh_chare *self) {
    return *(const char *)self->state ? "Jumper" : NULL;
}
WH_CLASS(hopper, HOPPER_ENTRIES, .state = 8, .pack = kit_pack, .unpack = kit_unpack,
         .alias = hopper_alias);

static void hopper_hop(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

static void hopper_ping(wh_chare *self, const wh_call *call) {
    int next = (self->proxy.index[0] + 1) % HOPPERS;
    if (call->ref)
        CHECK_EQ_INT(wh_chare_send(self->pe, wh_proxy_at(self->proxy, 1, &next), hopper_ping_entry,
                                   NULL, 0, WH_SEND_OPTS(.ref = call->ref - 1)),
                     WH_OK);
}

// The first name counts, and what it calls has its own.
static void hopper_renamed(wh_chare *self, const wh_call *call) {
    (void)call;
    renamed++;
    wh_pe_name_span(self->pe, "own", "words");
    wh_pe_name_span(self->pe, "other", NULL);
}

static void hopper_slow(wh_chare *self, const wh_call *call) {
    (void)call;
    wh_pe_yield(self->pe);
}

static void begin(int pes, int ppn, FILE *file) {
    char fd[16];
    snprintf(fd, sizeof(fd), "%d", fileno(file));
    setenv("WHERRYRUN_TRACE_FD", fd, 1);
    setenv("WHERRYRUN_TRACE_START", "0", 1);
    kit_begin(pes, ppn);
    for (int i = 0; i < pes; i++) {
        CHECK_EQ_INT(wh_class_register(job.pe[i], &hopper_class), WH_OK);
        CHECK((job.pe[i]->trace = whi_trace_open(i / ppn, i, pes)) != NULL);
    }
    unsetenv("WHERRYRUN_TRACE_FD");
    kit_count_errors();
}

static void read_line(const char *line) {
    event *e = &events[count];
    const char *at = strstr(line, "\"tid\":"), *ts = strstr(line, "\"ts\":");
    const char *lasts = strstr(line, "\"dur\":"), *id = strstr(line, "\"id\":\"");
    if (!at || !ts)
        return;
    CHECK(count++ < LINES_MAX - 1);
    CHECK(sscanf(line, "{\"name\":\"%63[^\"]\"", e->name) == 1);
    CHECK(!id || sscanf(id, "\"id\":\"%31[^\"]\"", e->id) == 1);
    e->kind = lasts ? 'X' : strstr(line, "\"ph\":\"s\"") ? 's' : 'f';
    e->pe = atoi(at + 6);
    e->at = strtod(ts + 5, NULL);
    e->lasts = lasts ? strtod(lasts + 6, NULL) : 0;
}

static void read_events(FILE *file) {
    char line[600];
    count = 0;
    rewind(file);
    while (fgets(line, sizeof(line), file))
        read_line(line);
}

// all_have_come says whether each arrow has its end: what quiescence does not count may be under way when all else is quiet.
static bool all_have_come(FILE *file) {
    int open = 0;
    for (int i = 0; i < job.pes; i++)
        whi_trace_flush(job.pe[i]->trace);
    read_events(file);
    for (int i = 0; i < count; i++)
        open += (events[i].kind == 's') - (events[i].kind == 'f');
    return open == 0;
}

static int by_id(const void *one, const void *other) {
    const event *a = one, *b = other;
    int order = strcmp(a->id, b->id);
    return order ? order : b->kind - a->kind;  // s before f
}

static int spans_of(const char *name) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += events[i].kind == 'X' && strcmp(events[i].name, name) == 0;
    return found;
}

static bool in_a_span(const event *arrow) {
    for (int i = 0; i < count; i++) {
        const event *e = &events[i];
        if (e->kind == 'X' && e->pe == arrow->pe && e->at <= arrow->at + 0.002 &&
            e->at + e->lasts >= arrow->at - 0.002 && strcmp(e->name, "idle") != 0)
            return true;
    }
    return false;
}

static int check_arrows(void) {
    int arrows = 0;
    for (int i = 0; i < count; i++)
        if (events[i].kind != 'X')
            CHECK(in_a_span(&events[i]));
    qsort(events, (size_t)count, sizeof(*events), by_id);
    for (int i = 0; i < count; i++) {
        if (events[i].kind == 'X')
            continue;
        CHECK(i + 1 < count && events[i].kind == 's' && events[i + 1].kind == 'f');
        CHECK_EQ_STR(events[i].id, events[i + 1].id);
        CHECK(events[i].at <= events[i + 1].at);
        arrows++;
        i++;
    }
    return arrows;
}

static void hop_about(int pes, int ppn, uint64_t seed) {
    FILE *file = tmpfile();
    whi_rng rng;
    wh_proxy array;
    CHECK(file);
    whi_rng_init(&rng, seed);
    begin(pes, ppn, file);
    CHECK_EQ_INT(wh_array_create(job.pe[0], "hopper", WH_ARRAY_OPTS(.dims = 1, .shape = {HOPPERS}),
                                 NULL, 0, &array),
                 WH_OK);
    for (int i = 0; i < STEPS; i++) {
        int element = (int)whi_rng_below(&rng, HOPPERS);
        unsigned entry = i % 3 ? hopper_ping_entry : hopper_hop_entry;
        int64_t ref = (int64_t)whi_rng_below(&rng, (unsigned)pes);
        CHECK_EQ_INT(wh_chare_send(job.pe[whi_rng_below(&rng, (unsigned)pes)],
                                   wh_proxy_at(array, 1, &element), entry, NULL, 0,
                                   WH_SEND_OPTS(.ref = ref + (i % 3 ? 5 : 0))),
                     WH_OK);
        if (i % 7 == 0)
            kit_turns(1);
    }
    kit_settle();
    UNTIL(all_have_come(file));
    kit_end();
    read_events(file);
    fclose(file);
    CHECK(check_arrows() > STEPS / 2);
    CHECK(spans_of("hopper.ping") > 0);
}

TEST(arrows_of_elements_that_move) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        hop_about(4, 1, seed);
        hop_about(4, 2, seed);
    }
}

TEST(names) {
    FILE *file = tmpfile();
    wh_proxy one;
    CHECK(file);
    begin(1, 1, file);
    wh_pe_name_span(job.pe[0], "outside", NULL);
    CHECK_EQ_INT(wh_chare_create(job.pe[0], "hopper", 0, NULL, 0, &one), WH_OK);
    kit_settle();
    whi_place_key key;
    CHECK_EQ_INT(whi_place_key_make(one.collection, one.index, one.dims, &key), WH_OK);
    const whi_chares *c = whi_chares_get(job.pe[0]);
    whi_element *element = whi_places_find(c->places, &key);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(wh_chare_send(job.pe[0], one, hopper_renamed_entry, NULL, 0, NULL), WH_OK);
        CHECK_EQ_INT(wh_chare_send(job.pe[0], one, hopper_ping_entry, NULL, 0, NULL), WH_OK);
        CHECK_EQ_INT(wh_chare_send(job.pe[0], one, hopper_slow_entry, NULL, 0, NULL), WH_OK);
        kit_settle();
        element->state[0] = 1;
    }
    kit_end();
    read_events(file);
    fclose(file);
    CHECK_EQ_INT(renamed, 2);
    CHECK_EQ_INT(spans_of("own.words"), 2);
    CHECK_EQ_INT(spans_of("other") + spans_of("outside"), 0);
    CHECK_EQ_INT(spans_of("hopper.ping"), 1);
    CHECK_EQ_INT(spans_of("Jumper.ping"), 1);
    CHECK_EQ_INT(spans_of("hopper.slow") + spans_of("Jumper.slow"), 4);
}

TEST_MAIN()
