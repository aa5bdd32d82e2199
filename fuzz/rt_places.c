// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: messages, controls and states that other PEs send to the table of elements' places.  The input is steps:
// what (1 byte), who (1), the length of what follows (1), and that: bytes of a message, a control or a state, or the index
// of an element that this PE's owner does something to.
//
// What decodes encodes to the same bytes; each message is delivered, rejected or passed on once, and never one that is
// incomplete is passed on or delivered.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rt/move/places.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { PES = 4, SELF = 1, MESSAGES = 4096, LOOPED = 64 };

static whi_places *t;
static whi_place_message messages[MESSAGES];
static bool mine[MESSAGES];  // not the table's
static int message_count;
static whi_place_control looped[LOOPED];
static int looped_count;
static int element;

static uint32_t home(void *arg, const whi_place_key *key) {
    (void)arg;
    return (uint32_t)key->index[0] % PES;
}

static void give_back(whi_place_message *message) {
    long at = message - messages;
    MUST(at >= 0 && at < message_count && !mine[at]);
    mine[at] = true;
}

static void forward(void *arg, uint32_t pe, whi_place_message *message) {
    (void)arg;
    MUST(pe < PES && pe != SELF && !message->incomplete);
    uint8_t bytes[WHI_PLACE_ENCODED_MAX];
    MUST(whi_place_message_encode(message, bytes) > 0);
    give_back(message);
}

static void deliver(void *arg, void *to, whi_place_message *message) {
    (void)arg;
    MUST(to == &element && !message->incomplete);
    give_back(message);
}

static void reject(void *arg, whi_place_message *message) {
    (void)arg;
    give_back(message);
}

// One to this PE comes back after the step.
static void control(void *arg, uint32_t pe, const whi_place_control *c) {
    (void)arg;
    MUST(pe < PES);
    uint8_t bytes[WHI_PLACE_ENCODED_MAX];
    whi_place_control read;
    size_t size = whi_place_control_encode(c, bytes);
    wh_status status = whi_place_control_decode(bytes, size, SELF, PES, &read);
    if (pe == SELF && status == WH_OK && looped_count < LOOPED)
        looped[looped_count++] = read;
}

static bool awaited(void *arg, const whi_place_key *key) {
    (void)arg;
    return key->collection % 2;
}

static const whi_place_ops ops = {home, forward, control, deliver, reject, awaited};

static void message_comes(const uint8_t *data, size_t size, uint32_t from) {
    uint8_t again[WHI_PLACE_ENCODED_MAX];
    size_t used;
    whi_place_message *message = &messages[message_count];
    if (message_count == MESSAGES ||
        whi_place_message_decode(data, size, from, PES, message, &used) != WH_OK)
        return;
    MUST(used <= size && whi_place_message_encode(message, again) == used);
    MUST(memcmp(again, data, used) == 0);
    message->incomplete = used < size && data[used];
    mine[message_count++] = false;
    if (whi_places_arrive(t, message) != WH_OK)
        give_back(message);
}

static void control_comes(const uint8_t *data, size_t size, uint32_t from) {
    uint8_t again[WHI_PLACE_ENCODED_MAX];
    whi_place_control read;
    if (whi_place_control_decode(data, size, from, PES, &read) != WH_OK)
        return;
    MUST(whi_place_control_encode(&read, again) == size && memcmp(again, data, size) == 0);
    wh_status status = whi_places_control(t, from, &read);
    MUST(status == WH_OK || status == WH_EPROTOCOL);
}

static void send_one(const whi_place_key *key) {
    if (message_count == MESSAGES)
        return;
    messages[message_count] = (whi_place_message){.key = *key};
    mine[message_count++] = false;
    MUST(whi_places_send(t, &messages[message_count - 1]) == WH_OK);
}

static void complete_one(size_t which) {
    if (!message_count)
        return;
    which %= (size_t)message_count;
    if (!mine[which] && messages[which].incomplete)
        MUST(whi_places_complete(t, &messages[which]) == WH_OK);
}

static void owner_acts(unsigned what, uint32_t who, const whi_place_key *key) {
    void *state = NULL;
    size_t size;
    wh_status status = WH_OK;
    switch (what) {
    case 3: status = whi_places_insert(t, key, &element); break;
    case 4: status = whi_places_begin_move(t, key, who, NULL, &state, &size); break;
    case 5: status = whi_places_end_move(t, key); break;
    case 6: status = whi_places_install(t, key, &element); break;
    case 7: status = whi_places_remove(t, key, &state, &size); break;
    case 8: send_one(key); break;
    case 9: whi_places_reject_awaited(t, key->collection); break;
    }
    MUST(status == WH_OK || status == WH_EINVAL);
    if (status == WH_OK)
        free(state);
}

static void step(unsigned what, uint32_t who, const uint8_t *data, size_t size) {
    whi_place_key key;
    if (what == 0)
        message_comes(data, size, who);
    else if (what == 1)
        control_comes(data, size, who);
    else if (what == 2)
        (void)!whi_places_expect(t, data, size, &key);
    else if (what == 11)
        complete_one(size ? data[0] : 0);
    else if (whi_place_key_make(size > 1 ? data[1] : 0, (int32_t[]){size ? data[0] : 0}, 1, &key) ==
             WH_OK)
        owner_acts(what, who, &key);
    for (int i = 0; i < looped_count; i++)
        MUST(whi_places_control(t, SELF, &looped[i]) != WH_ENOMEM);
    looped_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    whi_log_set_level(WHI_LOG_OFF);
    whi_places_opts opts = {.self = SELF, .pes = PES, .routes_max = 2, .told_max = 2};
    MUST(whi_places_create(&opts, &ops, NULL, &t) == WH_OK);
    message_count = looped_count = 0;
    while (size >= 3) {
        unsigned what = data[0] % 12, who = data[1] % PES;
        size_t length = data[2] < size - 3 ? data[2] : size - 3;
        // In memory of its own, so that a byte beyond it is noticed.
        uint8_t *copy = malloc(length + !length);
        MUST(copy);
        memcpy(copy, data + 3, length);
        step(what, who, copy, length);
        free(copy);
        data += 3 + length;
        size -= 3 + length;
    }
    whi_places_destroy(t);
    for (int i = 0; i < message_count; i++)
        MUST(mine[i]);
    return 0;
}
