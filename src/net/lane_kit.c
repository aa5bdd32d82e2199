// SPDX-License-Identifier: BSD-3-Clause
//
// The lane test kit: the two ends.
//
// Everything an end says is a function of (seed, number), so the other end needs no copy of it to
// check it.  Bytes are wiped as soon as the lane has said that it no longer needs them, and arrive
// in memory that begins as their complement: bytes that were read too late or never written show.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/lane_kit.h"

#define MUST(cond) WHI_KIT_MUST(end->kit, cond)

enum {
    CLASS_RECORD = 0x20,
    CLASS_NOISE = 0x21,
    CLASS_ECHO = 0x22,
    NOISE_MAX = 64,
    GUARD = 16,  // bytes before and behind a bulk message that nobody may touch
    PATIENCE_S = 30,
};

typedef struct whi_kit_inbox {
    uint8_t *space;   // of a bulk message, with its guards
    uint64_t placed;  // bytes whose place was asked for
    uint64_t got;     // bytes that have landed
    bool done;
} inbox;

// A chunk between sink and landed.
typedef struct whi_kit_chunk {
    struct whi_kit_chunk *next;
    whi_kit_end *end;
    whi_hdr hdr;
    uint64_t consumed;  // bytes that its `move` was given
} kit_chunk;

// A bulk message of which a lane that lends still reads `out` chunks.
typedef struct whi_kit_loan {
    struct whi_kit_loan *next;
    uint32_t number;
    unsigned out;
    bool said;  // wholly: the memory goes with the last chunk
    uint8_t *bulk;
} kit_loan;

// digest mixes seed and number into what all fields and bytes of a message come from.
static uint64_t digest(const whi_kit_plan *plan, unsigned number) {
    uint64_t state = plan->seed ^ (uint64_t)number << 32;
    return whi_splitmix64(&state);
}

static uint8_t byte_at(uint64_t key, uint64_t offset) {
    return (uint8_t)(key + offset + (offset >> 8) * 5 + (offset >> 16) * 3);
}

static void draw(uint8_t *to, uint64_t key, uint64_t size) {
    for (uint64_t i = 0; i < size; i++)
        to[i] = byte_at(key, i);
}

static bool drawn(const uint8_t *from, uint64_t key, uint64_t size) {
    for (uint64_t i = 0; i < size; i++)
        if (from[i] != byte_at(key, i))
            return false;
    return true;
}

static whi_hdr header_of(uint64_t key, uint8_t cls, unsigned number, uint32_t size) {
    return (whi_hdr){.size = size,
                     .cls = cls,
                     .flags = (uint8_t)(key >> 8),
                     .aux = (uint16_t)(key >> 16),
                     .ep = number,
                     .seq = (uint32_t)key,
                     .tag = key,
                     .arg = ~key};
}

// ---- plans

static whi_kit_message no_message(const whi_kit_plan *plan, unsigned number) {
    (void)plan, (void)number;
    return (whi_kit_message){0};
}

const whi_kit_plan whi_kit_silence = {.at = no_message};

// any_record is mostly small, sometimes anything up to the limit.
static whi_kit_message any_record(const whi_kit_plan *plan, unsigned number) {
    uint64_t key = digest(plan, number) >> 8;
    uint64_t most = key % 4 || plan->eager_limit < 100 ? plan->eager_limit : 100;
    return (whi_kit_message){.size = (key >> 8) % (most + 1)};
}

static whi_kit_message any_message(const whi_kit_plan *plan, unsigned number) {
    uint64_t key = digest(plan, number) >> 8;
    if (key % 3)
        return any_record(plan, number);
    uint64_t most = key % 2 ? plan->bulk_max : 2000;
    return (whi_kit_message){.size = 1 + (key >> 8) % most, .bulk = true};
}

whi_kit_plan whi_kit_records(uint64_t seed, unsigned count) {
    return (whi_kit_plan){.at = any_record, .seed = seed, .count = count};
}

whi_kit_plan whi_kit_mixed(uint64_t seed, unsigned count, uint64_t bulk_max) {
    return (whi_kit_plan){.at = any_message, .seed = seed, .count = count, .bulk_max = bulk_max};
}

// ---- saying

// answer notes what the lane said; true when it has done what was asked.
static bool answer(whi_kit_end *end, wh_status status) {
    if (status == WH_OK)
        return true;
    if (status != WH_EAGAIN) {
        MUST(status < 0 && end->tolerant);
        end->status = status;
    }
    return false;
}

static bool say_record(whi_kit_end *end, uint64_t size) {
    uint64_t key = digest(&end->says, end->said);
    whi_hdr hdr = header_of(key, CLASS_RECORD, end->said, (uint32_t)size);
    draw(end->eager, key, size);
    if (!answer(end, end->lane->ops->send(end->lane, &hdr, size ? end->eager : NULL)))
        return false;
    memset(end->eager, 0xee, size);
    end->said++;
    return true;
}

// say_noise sends a record that is in no plan, at a moment of its own.
static void say_noise(whi_kit_end *end) {
    uint64_t key = digest(&end->says, ~end->noise);
    uint32_t size = key % (NOISE_MAX + 1) & (uint32_t)end->says.eager_limit;
    whi_hdr hdr = header_of(key, CLASS_NOISE, end->noise, size);
    uint8_t payload[NOISE_MAX];
    draw(payload, key, size);
    if (!answer(end, end->lane->ops->send(end->lane, &hdr, payload)))
        return;
    MUST(!end->within);
    end->noise++;
}

static void produce(void *ctx, uint64_t offset, void *host, size_t size) {
    whi_kit_end *end = ctx;
    uint64_t whole = end->says.at(&end->says, end->said).size;
    MUST(offset == end->produced && size > 0 && size <= whole - offset);
    memcpy(host, end->bulk + offset, size);
    end->produced += size;
}

// lend notes that the lane goes on reading `bulk`.
static void lend(whi_kit_end *end) {
    if (!end->loan) {
        end->loan = calloc(1, sizeof(*end->loan));
        MUST(end->loan);
        *end->loan = (kit_loan){.next = end->loans, .number = end->said, .bulk = end->bulk};
        end->loans = end->loan;
    }
    end->loan->out++;
}

// repay ends a loan that is over.
static void repay(whi_kit_end *end, kit_loan *loan) {
    if (loan->out || !loan->said)
        return;
    kit_loan **at = &end->loans;
    while (*at != loan)
        at = &(*at)->next;
    *at = loan->next;
    free(loan->bulk);
    free(loan);
}

static void on_sent(void *link, const whi_hdr *hdr) {
    whi_kit_end *end = link;
    MUST(hdr->cls == WHI_CLASS_CHUNK);
    kit_loan *loan = end->loans;
    while (loan && loan->number != hdr->ep)
        loan = loan->next;
    MUST(loan && loan->out > 0);
    if (!loan)
        return;  // which MUST has not let come to pass
    memset(loan->bulk + hdr->arg, 0xee, hdr->size);
    loan->out--;
    repay(end, loan);
}

// said_bulk frees a message that is wholly said.
static void said_bulk(whi_kit_end *end) {
    if (end->loan) {
        end->loan->said = true;
        repay(end, end->loan);
    } else {
        free(end->bulk);
    }
    end->loan = NULL;
    end->bulk = NULL;
    end->said++;
}

static bool say_bulk(whi_kit_end *end, uint64_t size) {
    uint64_t key = digest(&end->says, end->said);
    if (!end->bulk) {
        end->pushed = 0;
        end->bulk = malloc(size);
        MUST(end->bulk);
        draw(end->bulk, key, size);
    }
    // The kind of source may change at any place, also within a chunk.
    bool direct = whi_rng_chance(&end->rng, 50);
    whi_span src = {.ptr = direct ? end->bulk + end->pushed : NULL,
                    .move = direct ? NULL : produce,
                    .ctx = end,
                    .base = end->pushed};
    whi_hdr hdr = {
        .cls = WHI_CLASS_CHUNK, .ep = end->said, .seq = (uint32_t)key, .arg = end->pushed};
    size_t moved = 0;
    end->produced = end->pushed;
    wh_status status = end->lane->ops->push(end->lane, &hdr, &src, size - end->pushed, &moved);
    if (!answer(end, status == WH_PENDING ? WH_OK : status)) {
        MUST(end->produced == end->pushed || end->status != WH_OK);
        return false;
    }
    end->within = status == WH_PENDING;
    MUST((moved > 0 || end->within) && moved <= size - end->pushed);
    if (direct && end->lane->ops->lends)
        lend(end);
    else
        memset(end->bulk + end->pushed, 0xee, moved);
    end->pushed += moved;
    MUST(direct || end->produced == end->pushed);
    if (end->pushed == size) {
        MUST(!end->within);
        said_bulk(end);
    }
    return true;
}

bool whi_kit_say(whi_kit_end *end) {
    if (end->said == end->says.count || end->status != WH_OK)
        return false;
    whi_kit_message message = end->says.at(&end->says, end->said);
    return message.bulk ? say_bulk(end, message.size) : say_record(end, message.size);
}

// ---- hearing

// expect finds the place of a message that arrives, and sees that it is its turn.
static inbox *expect(whi_kit_end *end, const whi_hdr *hdr, bool bulk) {
    MUST(hdr->ep < end->hears.count);
    if (!end->lane->ops->reorders) {
        MUST(hdr->ep == end->begun || (bulk && hdr->ep + 1 == end->begun));
        end->begun += hdr->ep == end->begun;
    }
    inbox *place = &end->inbox[hdr->ep];
    whi_kit_message message = end->hears.at(&end->hears, hdr->ep);
    MUST(!place->done && message.bulk == bulk);
    return place;
}

static void hear_noise(whi_kit_end *end, const whi_hdr *hdr, const void *payload) {
    uint64_t key = digest(&end->hears, ~hdr->ep);
    whi_hdr want = header_of(key, CLASS_NOISE, hdr->ep, hdr->size);
    MUST(memcmp(hdr, &want, sizeof(want)) == 0);
    MUST(hdr->size <= NOISE_MAX && drawn(payload, key, hdr->size));
    MUST(end->lane->ops->reorders || hdr->ep == end->noise_heard);
    end->noise_heard++;
}

static void hear_record(whi_kit_end *end, const whi_hdr *hdr, const void *payload) {
    inbox *place = expect(end, hdr, false);
    uint64_t key = digest(&end->hears, hdr->ep);
    uint64_t size = end->hears.at(&end->hears, hdr->ep).size;
    whi_hdr want = header_of(key, CLASS_RECORD, hdr->ep, (uint32_t)size);
    MUST(memcmp(hdr, &want, sizeof(want)) == 0);
    MUST(drawn(payload, key, size));
    place->done = true;
    end->heard++;
}

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    whi_kit_end *end = link;
    end->upcalls++;
    MUST(!end->landing || end->lane->ops->reorders || end->lane->ops->lends);
    if (end->deliver != WH_OK)
        return end->deliver;
    switch (hdr->cls) {
    case CLASS_NOISE: hear_noise(end, hdr, payload); break;
    case CLASS_ECHO: end->echoes++; break;
    default: hear_record(end, hdr, payload); break;
    }
    if (end->echo) {
        whi_hdr back = *hdr;
        back.cls = CLASS_ECHO;
        MUST(end->lane->ops->send(end->lane, &back, payload) == WH_OK);
    }
    return WH_OK;
}

static uint8_t *space_of(whi_kit_end *end, inbox *place, const whi_hdr *hdr, uint64_t size) {
    if (!place->space) {
        place->space = malloc(size + 2 * GUARD);
        MUST(place->space);
        uint64_t key = digest(&end->hears, hdr->ep);
        memset(place->space, 0xa5, size + 2 * GUARD);
        for (uint64_t i = 0; i < size; i++)
            place->space[GUARD + i] = (uint8_t)~byte_at(key, i);
    }
    return place->space + GUARD;
}

static void consume(void *ctx, uint64_t offset, void *host, size_t size) {
    kit_chunk *landing = ctx;
    whi_kit_end *end = landing->end;
    const whi_hdr *chunk = &landing->hdr;
    MUST(size > 0 && offset >= chunk->arg);
    MUST(offset - chunk->arg <= chunk->size && size <= chunk->size - (offset - chunk->arg));
    memcpy(end->inbox[chunk->ep].space + GUARD + offset, host, size);
    landing->consumed += size;
}

static kit_chunk *begin_landing(whi_kit_end *end, const whi_hdr *hdr) {
    kit_chunk *chunk = calloc(1, sizeof(*chunk));
    MUST(chunk);
    *chunk = (kit_chunk){.next = end->chunks, .end = end, .hdr = *hdr};
    end->chunks = chunk;
    end->landing++;
    return chunk;
}

// end_landing finds the chunk that a lane names and returns what its `move` was given.
static uint64_t end_landing(whi_kit_end *end, const whi_hdr *hdr) {
    kit_chunk **at = &end->chunks;
    while (*at && memcmp(&(*at)->hdr, hdr, sizeof(*hdr)) != 0)
        at = &(*at)->next;
    kit_chunk *chunk = *at;
    MUST(chunk);
    if (!chunk)
        return 0;  // which MUST has not let come to pass
    uint64_t consumed = chunk->consumed;
    *at = chunk->next;
    free(chunk);
    end->landing--;
    return consumed;
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    whi_kit_end *end = link;
    end->upcalls++;
    MUST((!end->landing || end->lane->ops->lends) && hdr->cls == WHI_CLASS_CHUNK);
    if (end->sink != WH_OK)
        return end->sink;
    inbox *place = expect(end, hdr, true);
    uint64_t size = end->hears.at(&end->hears, hdr->ep).size;
    MUST(hdr->seq == (uint32_t)digest(&end->hears, hdr->ep));
    MUST(hdr->size > 0 && hdr->arg < size && hdr->size <= size - hdr->arg);
    MUST(end->lane->ops->reorders || hdr->arg == place->placed);
    place->placed += hdr->size;
    uint8_t *space = space_of(end, place, hdr, size);
    kit_chunk *chunk = begin_landing(end, hdr);
    if (whi_rng_chance(&end->rng, 50))
        *span = (whi_span){.ptr = space + hdr->arg};
    else
        *span = (whi_span){.move = consume, .ctx = chunk, .base = hdr->arg};
    return WH_OK;
}

// check_bulk sees that a message that is all there is what was said, and nothing beside it.
static void check_bulk(whi_kit_end *end, const inbox *place, const whi_hdr *hdr, uint64_t size) {
    MUST(drawn(place->space + GUARD, digest(&end->hears, hdr->ep), size));
    for (int i = 0; i < GUARD; i++)
        MUST(place->space[i] == 0xa5 && place->space[GUARD + size + (uint64_t)i] == 0xa5);
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    whi_kit_end *end = link;
    uint64_t consumed = end_landing(end, hdr);
    MUST(consumed == 0 || consumed == hdr->size);
    if (end->landed != WH_OK)
        return end->landed;
    inbox *place = &end->inbox[hdr->ep];
    uint64_t size = end->hears.at(&end->hears, hdr->ep).size;
    place->got += hdr->size;
    MUST(place->got <= size);
    if (place->got < size)
        return WH_OK;
    check_bulk(end, place, hdr, size);
    free(place->space);
    place->space = NULL;
    place->done = true;
    end->heard++;
    return WH_OK;
}

static void on_lost(void *link, const whi_hdr *hdr) {
    (void)end_landing(link, hdr);
}

static const whi_lane_up kit_up = {
    .deliver = on_deliver, .sink = on_sink, .landed = on_landed, .sent = on_sent, .lost = on_lost};

// ---- turns

int whi_kit_poll(whi_kit_end *end, int budget) {
    if (end->status != WH_OK)
        return 0;
    unsigned before = end->upcalls;
    int events = end->lane->ops->poll(end->lane, budget);
    MUST(end->upcalls - before <= (unsigned)budget);
    if (events >= 0)
        return events;
    (void)answer(end, (wh_status)events);
    return 0;
}

bool whi_kit_turn(whi_kit_end *end) {
    for (uint64_t n = whi_rng_below(&end->rng, 8); n > 0 && whi_kit_say(end); n--)
        ;
    if (end->status == WH_OK && whi_rng_chance(&end->rng, 10))
        say_noise(end);
    if (end->status == WH_OK && whi_rng_chance(&end->rng, 10)) {
        bool want_space = whi_rng_chance(&end->rng, 50);
        end->lane->ops->arm(end->lane, want_space);
        (void)end->lane->ops->ready(end->lane, want_space);
    }
    (void)whi_kit_poll(end, 1 + (int)whi_rng_below(&end->rng, 16));
    return end->status == WH_OK && (end->said < end->says.count || end->heard < end->hears.count);
}

void whi_kit_run(whi_kit_end *a, whi_kit_end *b) {
    const whi_kit *kit = a->kit;
    uint64_t late = whi_clock_ns() + PATIENCE_S * WHI_NS_PER_S;
    for (;;) {
        bool more_a = whi_kit_turn(a), more_b = whi_kit_turn(b);
        if ((!more_a && !more_b) || a->status != WH_OK || b->status != WH_OK)
            return;
        if (kit->step)
            kit->step(kit->arg);
        WHI_KIT_MUST(kit, whi_clock_ns() < late);
    }
}

// ---- life

static void end_init(whi_kit_end *end, const whi_kit *kit, uint64_t seed) {
    *end = (whi_kit_end){.kit = kit};
    whi_rng_init(&end->rng, seed);
}

// end_plan settles what is said and heard once the lanes and their limits are known.
static void end_plan(whi_kit_end *end, const whi_kit_plan *says, const whi_kit_plan *hears,
                     const whi_lane *peer) {
    end->says = *says;
    end->hears = *hears;
    end->says.eager_limit = end->lane->ops->eager_limit(end->lane);
    end->hears.eager_limit = peer->ops->eager_limit(peer);
    end->eager = malloc(end->says.eager_limit + 1);
    end->inbox = calloc(hears->count + 1, sizeof(*end->inbox));
    MUST(end->eager && end->inbox);
}

wh_status whi_kit_try(const whi_kit *kit, const whi_kit_plan *says_a, const whi_kit_plan *says_b,
                      whi_kit_end *a, whi_kit_end *b) {
    end_init(a, kit, says_a->seed + 1);
    end_init(b, kit, says_b->seed + 2);
    wh_status status = kit->open(kit->arg, &kit_up, a, &a->lane, b, &b->lane);
    if (status != WH_OK)
        return status;
    end_plan(a, says_a, says_b, b->lane);
    end_plan(b, says_b, says_a, a->lane);
    return WH_OK;
}

void whi_kit_open(const whi_kit *kit, const whi_kit_plan *says_a, const whi_kit_plan *says_b,
                  whi_kit_end *a, whi_kit_end *b) {
    WHI_KIT_MUST(kit, whi_kit_try(kit, says_a, says_b, a, b) == WH_OK);
}

void whi_kit_hang_up(whi_kit_end *end) {
    if (end->lane)
        end->lane->ops->close(end->lane);
    end->lane = NULL;
}

static void end_fini(whi_kit_end *end, bool lends) {
    // A lane that lends has brought all back; of any other, what was landing when it was closed stays with us.
    MUST(!lends || !end->landing);
    while (end->chunks)
        (void)end_landing(end, &end->chunks->hdr);
    if (end->loan)
        said_bulk(end);
    MUST(!end->loans);
    for (unsigned i = 0; i < end->hears.count; i++)
        free(end->inbox[i].space);
    free(end->inbox);
    free(end->bulk);
    free(end->eager);
}

void whi_kit_close(whi_kit_end *a, whi_kit_end *b) {
    const whi_kit *kit = a->kit;
    const whi_lane *open = a->lane ? a->lane : b->lane;
    bool lends = open && open->ops->lends;
    whi_kit_hang_up(a);
    whi_kit_hang_up(b);
    if (kit->done)
        kit->done(kit->arg);
    end_fini(a, lends);
    end_fini(b, lends);
}
