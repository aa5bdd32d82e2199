// SPDX-License-Identifier: BSD-3-Clause
//
// Elements that move although receives of their channels are posted: the receives end first, each once.
#include <wherry/channel.h>

#include "rt/channel/channels.h"
#include "rt/chare/element_kit.h"

enum { PES = 3, AHEAD = 3, LARGE = 200 << 10, GOT_MAX = 64 };

static struct {
    int got, cancelled, other;  // ends of receives
    int value[GOT_MAX];         // of small messages, in the order of their receives' ends
    int large;
    int open;    // receives that have not ended
    int sent;    // sends that have
    int packed;  // open ones when an element was packed last
    wh_status wrong[2];
    uint8_t out[LARGE];
} seen;

// What a receive gets is the program's and not the element's: it stays when the element has gone.
typedef struct slot {
    bool used;
    uint8_t bytes[LARGE];
} slot;
static slot slots[2 * AHEAD + 2];

typedef struct reader {
    wh_channel *to;
} reader;

#define READER_ENTRIES(ENTRY)                                                                      \
    ENTRY(reader, meet, 0)                                                                         \
    ENTRY(reader, post, 0)                                                                         \
    ENTRY(reader, push, 0)                                                                         \
    ENTRY(reader, push_large, 0)                                                                   \
    ENTRY(reader, go, 0)                                                                           \
    ENTRY(reader, shut, 0)

static size_t reader_pack(wh_chare *self, void *to) {
    (void)self;
    (void)to;
    seen.packed = seen.open;
    return 1;
}

static wh_status reader_unpack(wh_chare *self, const void *data, size_t size) {
    reader *r = self->state;
    (void)data;
    CHECK_EQ_INT(size, 1);
    return wh_channel_find(self, 1, &r->to);
}

WH_CLASS(reader, READER_ENTRIES, .state = sizeof(reader), .pack = reader_pack,
         .unpack = reader_unpack);

static void reader_meet(wh_chare *self, const wh_call *call) {
    reader *r = self->state;
    int32_t peer = self->proxy.index[0] ^ 1;
    wh_proxy to = wh_proxy_at(self->proxy, 1, &peer);
    (void)call;
    seen.wrong[0] =
        wh_channel_open(self, to, WH_CHANNEL_OPTS(.flags = WH_CHANNEL_WITHDRAW), &r->to);
    seen.wrong[1] = wh_channel_open(self, to, WH_CHANNEL_OPTS(.id = 1, .flags = 2), &r->to);
    CHECK_EQ_INT(
        wh_channel_open(
            self, to, WH_CHANNEL_OPTS(.window = 4, .id = 1, .flags = WH_CHANNEL_WITHDRAW), &r->to),
        WH_OK);
}

static void ended(slot *s, const wh_result *result) {
    seen.open--;
    s->used = false;
    seen.cancelled += result->status == WH_ECANCELLED;
    seen.other += result->status != WH_OK && result->status != WH_ECANCELLED;
    if (result->status != WH_OK)
        return;
    seen.large += result->size == LARGE && s->bytes[0] == 0x5A && s->bytes[LARGE - 1] == 0x5A;
    memcpy(&seen.value[seen.got++], s->bytes, sizeof(int));
}

static void on_ended(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    ended(arg, result);
}

static slot *unused(void) {
    slot *s = slots;
    while (s->used)
        s++;
    CHECK(s < slots + sizeof(slots) / sizeof(slots[0]));
    *s = (slot){.used = true};
    return s;
}

// post begins as many receives as the reference number says, each second one with a request of its own because of its time.
static void reader_post(wh_chare *self, const wh_call *call) {
    const reader *r = self->state;
    for (int64_t i = 0; i < call->ref; i++) {
        slot *s = unused();
        wh_result result = {.status = WH_OK};
        seen.open++;
        wh_status st = wh_channel_recv(r->to, s->bytes, sizeof(s->bytes),
                                       WH_OP_OPTS(.done = on_ended, .arg = s, .result = &result,
                                                  .timeout_ms = i % 2 ? 100000 : 0),
                                       NULL);
        CHECK(st == WH_OK || st == WH_PENDING);
        if (st == WH_OK)
            ended(s, &result);
    }
}

static int numbers[GOT_MAX];

static void on_sent(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)arg;
    CHECK_EQ_INT(result->status, WH_OK);
    seen.sent++;
}

static void send(const reader *r, const void *data, size_t size) {
    wh_result done = {.status =
                          wh_channel_send(r->to, data, size, WH_OP_OPTS(.done = on_sent), NULL)};
    if (done.status != WH_PENDING)
        on_sent(NULL, &done, NULL);
}

static void reader_push(wh_chare *self, const wh_call *call) {
    const reader *r = self->state;
    int *value = &numbers[call->ref];
    *value = (int)call->ref;
    send(r, value, sizeof(*value));
}

static void reader_push_large(wh_chare *self, const wh_call *call) {
    const reader *r = self->state;
    (void)call;
    memset(seen.out, 0x5A, LARGE);
    send(r, seen.out, LARGE);
}

static void reader_go(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(wh_chare_move(self, (int)call->ref), WH_OK);
}

static void reader_shut(wh_chare *self, const wh_call *call) {
    const reader *r = self->state;
    (void)call;
    wh_channel_close(r->to);
}

static int on_0(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg) {
    (void)index, (void)dims, (void)shape, (void)pes, (void)arg;
    return 0;
}

static wh_proxy readers;

static void tell(int32_t to, unsigned entry, int64_t ref) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], wh_proxy_at(readers, 1, &to), entry, NULL, 0,
                               WH_SEND_OPTS(.ref = ref)),
                 WH_OK);
}

static void begin(void) {
    kit_begin(PES, 1);
    memset(&seen, 0, sizeof(seen));
    memset(slots, 0, sizeof(slots));
    for (int i = 0; i < PES; i++) {
        whi_channels_attach(job.pe[i]);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &reader_class), WH_OK);
        CHECK_EQ_INT(wh_map_register(job.pe[i], "on-0", on_0, NULL), WH_OK);
    }
    CHECK_EQ_INT(wh_array_create(job.pe[0], "reader",
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {2}, .map = "on-0"), NULL, 0,
                                 &readers),
                 WH_OK);
    tell(0, reader_meet_entry, 0);
    tell(1, reader_meet_entry, 0);
    kit_settle();
    kit_turns(20);
}

static size_t left(void) {
    size_t n = 0;
    for (int i = 0; i < job.pes; i++) {
        whi_channels *channels = job.pe[i]->floors[WHI_FLOOR_CHANNEL].state;
        n += channels ? whi_hash_count(&channels->ends) + whi_hash_count(&channels->elements) : 0;
    }
    return n;
}

static void end(void) {
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], readers), WH_OK);
    UNTIL(!left());
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
    CHECK_EQ_INT(seen.open, 0);
}

TEST(receives_end_before_the_element_goes) {
    begin();
    CHECK_EQ_INT(seen.wrong[0], WH_EINVAL);  // without an id
    CHECK_EQ_INT(seen.wrong[1], WH_EINVAL);  // of an unknown bit
    for (int round = 1; round < 7; round++) {
        tell(1, reader_post_entry, AHEAD);
        kit_settle();
        CHECK_EQ_INT(seen.open, AHEAD);
        tell(1, reader_go_entry, round % PES);
        kit_settle();
        CHECK_EQ_INT(seen.packed, 0);
        CHECK_EQ_INT(seen.cancelled, AHEAD * round);
        CHECK_EQ_INT(seen.open, 0);
    }
    CHECK_EQ_INT(seen.got + seen.other, 0);
    tell(0, reader_push_entry, 5);
    tell(1, reader_post_entry, 1);
    UNTIL(seen.got == 1);
    CHECK_EQ_INT(seen.value[0], 5);
    end();
}

// Both move again and again while receives wait on both, and messages come at all times: each once, and in order.
TEST(messages_come_once_and_in_order) {
    for (int pause = 0; pause < 10; pause++) {
        int next = 0;
        begin();
        for (int round = 0; round < 12; round++) {
            tell(0, reader_post_entry, 1);  // never gets any
            tell(1, reader_post_entry, 1 + round % AHEAD);
            tell(0, reader_push_entry, next++);
            kit_turns((unsigned)pause);
            tell(0, reader_push_entry, next++);
            UNTIL(seen.sent == next);  // else it stays
            tell(1, reader_go_entry, (round + 1) % PES);
            tell(0, reader_go_entry, (2 * round + 1) % PES);
            kit_turns((unsigned)pause);
            kit_settle();
        }
        while (seen.got < next) {
            int had = seen.got;
            tell(1, reader_post_entry, 1);
            UNTIL(seen.got == had + 1);
        }
        for (int i = 0; i < next; i++)
            CHECK_EQ_INT(seen.value[i], i);
        CHECK_EQ_INT(seen.other, 0);
        end();
    }
}

// A receive that has matched gets its message, for which the element waits.
TEST(a_large_message_on_its_way) {
    for (int pause = 0; pause < 12; pause++) {
        begin();
        tell(1, reader_go_entry, 1);
        kit_settle();
        tell(1, reader_post_entry, 2);
        tell(0, reader_push_large_entry, 0);
        kit_turns((unsigned)pause);
        tell(1, reader_go_entry, 2);
        kit_settle();
        CHECK_EQ_INT(seen.packed, 0);
        if (!seen.got) {
            tell(1, reader_post_entry, 1);
            UNTIL(seen.got == 1);
        }
        CHECK_EQ_INT(seen.large, 1);
        for (int i = 0; i < 6; i++) {  // its credit is said behind the move
            tell(0, reader_push_entry, i);
            tell(1, reader_post_entry, 1);
            UNTIL(seen.got == i + 2 && seen.sent == i + 2);
        }
        end();
    }
}

TEST(closed_by_the_other_end) {
    begin();
    tell(1, reader_post_entry, 2);
    tell(0, reader_push_entry, 3);
    tell(0, reader_shut_entry, 0);
    tell(1, reader_go_entry, 2);
    kit_settle();
    UNTIL(!seen.open);
    if (!seen.got)
        tell(1, reader_post_entry, 1);
    UNTIL(seen.got == 1);
    CHECK_EQ_INT(seen.value[0], 3);
    end();
}

TEST_MAIN()
