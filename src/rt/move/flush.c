// SPDX-License-Identifier: BSD-3-Clause
//
// A flush counts, so that it need not know which way messages go.
//
// What a PE sends has one of two colours.  A flush begins with the other one, asks all PEs how many of the former they have
// settled, and is done when they are as many as were sent.  Who was asked tells of later ones by itself.  One flush
// runs at a time; a request meanwhile has the next one begin when it is done.
#include "rt/move/flush.h"

#include "base/alloc.h"

static int index_of(uint8_t colour) {
    return colour ? 1 : 0;
}

wh_status whi_places_flush_init(whi_places *t) {
    t->flush.sources = whi_calloc(t->pes, sizeof(*t->flush.sources));
    return t->flush.sources ? WH_OK : WH_ENOMEM;
}

void whi_places_flush_fini(whi_places *t) {
    whi_free(t->flush.sources);
}

void whi_places_flush_sent(whi_places *t, whi_place_message *message) {
    message->stamp.flags = t->flush.colour;
    t->flush.sent[index_of(t->flush.colour)]++;
}

static void report(whi_places *t, uint32_t source, uint8_t colour) {
    uint64_t *settled = &t->flush.sources[source].settled[index_of(colour)];
    if (!*settled)
        return;
    whi_place_control count = {
        .kind = WHI_PLACE_COUNT,
        .stamp = {.source = t->self, .flags = colour},
        .number = *settled,
    };
    *settled = 0;
    t->ops->control(t->arg, source, &count);
}

void whi_places_flush_settled(whi_places *t, whi_place_message *message) {
    if (message->stamp.flags & WHI_STAMP_COUNTED)
        return;
    message->stamp.flags |= WHI_STAMP_COUNTED;
    uint8_t colour = message->stamp.flags & WHI_STAMP_COLOUR;
    struct whi_flush_source *source = &t->flush.sources[message->stamp.source];
    source->settled[index_of(colour)]++;
    if (source->asks[index_of(colour)])
        report(t, message->stamp.source, colour);
}

static void begin(whi_places *t) {
    whi_flush *flush = &t->flush;
    whi_place_control ask = {
        .kind = WHI_PLACE_ASK,
        .stamp = {.source = t->self, .flags = flush->colour},
    };
    flush->colour ^= WHI_STAMP_COLOUR;
    flush->begun = flush->asked;
    flush->running = true;
    for (uint32_t pe = 0; pe < t->pes; pe++)
        t->ops->control(t->arg, pe, &ask);
}

uint64_t whi_places_flush(whi_places *t) {
    t->flush.asked++;
    if (!t->flush.running)
        begin(t);
    return t->flush.asked;
}

// The colour that a flush waits for is the one that is not sent.
static void look(whi_places *t) {
    whi_flush *flush = &t->flush;
    int old = index_of(flush->colour ^ WHI_STAMP_COLOUR);
    if (!flush->running || flush->counted[old] != flush->sent[old])
        return;
    flush->counted[old] = flush->sent[old] = 0;
    flush->running = false;
    t->ops->flushed(t->arg, flush->begun);
    if (flush->asked != flush->begun)
        begin(t);
}

void whi_places_flush_control(whi_places *t, uint32_t from, const whi_place_control *control) {
    uint8_t colour = control->stamp.flags & WHI_STAMP_COLOUR;
    if (control->kind == WHI_PLACE_COUNT) {
        t->flush.counted[index_of(colour)] += control->number;
        look(t);
        return;
    }
    t->flush.sources[from].asks[index_of(colour)] = true;
    t->flush.sources[from].asks[index_of(colour ^ WHI_STAMP_COLOUR)] = false;
    report(t, from, colour);
    if (from == t->self)
        look(t);  // nothing at all may have been sent
}
