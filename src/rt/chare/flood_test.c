// SPDX-License-Identifier: BSD-3-Clause
//
// One of 512 receivers does not take what it is sent: the others go on as before, however much that is by then, and only what is
// for that one takes memory.  Delays are counted in passes of both PEs, not in time.
#include <wherry/channel.h>

#include "base/alloc.h"
#include "rt/channel/channels.h"
#include "rt/chare/element_kit.h"

enum {
    RECEIVERS = 512,
    FLOODED = 7,     // the one that does not take
    PER_PASS = 16,   // calls to it in each pass: fewer than a turn handles
    DELAY_MAX = 20,  // passes
    BIG = 100 << 10
};

static struct {
    int64_t probe;  // the last one that has come
    int taken, received, ended;
    wh_channel *ends[RECEIVERS][2];
} seen;

#define SINK_ENTRIES(ENTRY)                                                                        \
    ENTRY(sink, probe, 0)                                                                          \
    ENTRY(sink, never, WH_ENTRY_WHEN) ENTRY(sink, take, 0) ENTRY(sink, open, 0)
WH_CLASS(sink, SINK_ENTRIES);

static void sink_probe(wh_chare *self, const wh_call *call) {
    CHECK(self->proxy.index[0] != FLOODED);
    CHECK_EQ_INT(call->ref, seen.probe + 1);
    seen.probe = call->ref;
}

static void sink_never(wh_chare *self, const wh_call *call) {
    CHECK_EQ_INT(self->proxy.index[0], FLOODED);
    CHECK_EQ_INT(call->ref, seen.taken++);
    for (size_t i = 0; i < call->size; i += 100)
        CHECK(((const char *)call->args)[i] == (char)call->ref);
}

static void sink_take(wh_chare *self, const wh_call *call) {
    for (int64_t i = 0; i < call->ref; i++)
        CHECK_EQ_INT(wh_chare_when(self, sink_never_entry, WH_REF_ANY), WH_OK);
}

// open opens a channel to the element with the same index of the other array.
static void sink_open(wh_chare *self, const wh_call *call) {
    wh_proxy peer;
    CHECK_EQ_INT(wh_proxy_decode(call->args, call->size, &peer), WH_OK);
    CHECK_EQ_INT(wh_channel_open(self, wh_proxy_at(peer, 1, self->proxy.index), NULL,
                                 &seen.ends[self->proxy.index[0]][call->ref]),
                 WH_OK);
}

static int on_pe(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg) {
    (void)index;
    (void)dims;
    (void)shape;
    return *(const int *)arg % pes;
}

static wh_proxy sinks[2];  // on PE 0 and on PE 1

static void begin(int ppn) {
    static int zero = 0, one = 1;
    memset(&seen, 0, sizeof(seen));
    kit_begin(2, ppn);
    for (int i = 0; i < 2; i++) {
        whi_channels_attach(job.pe[i]);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &sink_class), WH_OK);
        CHECK_EQ_INT(wh_map_register(job.pe[i], "zero", on_pe, &zero), WH_OK);
        CHECK_EQ_INT(wh_map_register(job.pe[i], "one", on_pe, &one), WH_OK);
    }
    kit_count_errors();
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_array_create(
                         job.pe[0], "sink",
                         WH_ARRAY_OPTS(.dims = 1, .shape = {RECEIVERS}, .map = i ? "one" : "zero"),
                         NULL, 0, &sinks[i]),
                     WH_OK);
    kit_settle();
}

static wh_proxy at(int array, int32_t index) {
    return wh_proxy_at(sinks[array], 1, &index);
}

static whi_chares *chares(int pe) {
    return job.pe[pe]->floors[WHI_FLOOR_CHARE].state;
}

// probe returns how many passes a call to another receiver takes, its own pass included.
static int probe(int64_t number) {
    int32_t index = (int32_t)(number * 31 % RECEIVERS);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], at(1, index == FLOODED ? 0 : index), sink_probe_entry, "",
                               0, WH_SEND_OPTS(.ref = number)),
                 WH_OK);
    int passes = 0;
    for (; seen.probe < number; passes++) {
        CHECK(passes < DELAY_MAX);
        kit_turn();
    }
    return passes;
}

// flood sends calls to the one that does not take, and probes in between.
static void flood(int ppn, size_t size, int rounds) {
    static char data[BIG];
    begin(ppn);
    size_t before = whi_pool_out(&chares(1)->calls);
    int sent = 0, slowest = 0;
    for (int round = 1; round <= rounds; round++) {
        for (int i = 0; i < PER_PASS; i++, sent++) {
            memset(data, (char)sent, size);
            CHECK_EQ_INT(wh_chare_send(job.pe[0], at(1, FLOODED), sink_never_entry, data, size,
                                       WH_SEND_OPTS(.ref = sent)),
                         WH_OK);
        }
        int passes = probe(round);
        slowest = passes > slowest ? passes : slowest;
    }
    kit_settle();
    CHECK_EQ_INT(seen.taken, 0);
    // What waits is the flooded one's own: nothing of the sender's credit, of the inbox, or of others.
    CHECK_EQ_INT(whi_pool_out(&chares(1)->calls), before + (size_t)sent);
    CHECK_EQ_INT(job.wires[1]->inbox, 0);
    CHECK_EQ_INT(whi_pool_out(&chares(0)->calls), 0);
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_worker_counters(job.pe[0]->worker, &counters), WH_OK);
    CHECK_EQ_INT(counters.no_credit, 0);
    CHECK_EQ_INT(
        wh_chare_send(job.pe[0], at(1, FLOODED), sink_take_entry, "", 0, WH_SEND_OPTS(.ref = sent)),
        WH_OK);
    UNTIL(seen.taken == sent);
    CHECK_EQ_INT(whi_pool_out(&chares(1)->calls), before);
    CHECK_EQ_INT(kit_errors.count, 0);
    printf(
        "        %d calls of %zu bytes to one that does not take: others wait %d passes at most\n",
        sent, size, slowest);
    kit_finish();
}

TEST(a_chare_that_does_not_take_small_calls) {
    flood(1, 64, 4000);
    flood(2, 64, 4000);
}

TEST(a_chare_that_does_not_take_large_calls) {
    flood(1, BIG, 40);
    flood(2, BIG, 40);
}

// ---- Channels.

static void on_received(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    CHECK_EQ_INT(result->status, WH_OK);
    CHECK_EQ_INT(*(const int *)arg, 77);
    seen.received++;
}

static void on_flooded(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    (void)result;
    (void)arg;
    seen.ended++;
}

static int exchange(int index) {
    static int in, out = 77;
    int before = seen.received, passes = 0;
    in = 0;
    wh_result done = {.status = wh_channel_recv(seen.ends[index][1], &in, sizeof(in),
                                                WH_OP_OPTS(.done = on_received, .arg = &in), NULL)};
    CHECK_EQ_INT(done.status, WH_PENDING);
    CHECK(wh_channel_send(seen.ends[index][0], &out, sizeof(out), NULL, NULL) >= WH_OK);
    for (; seen.received == before; passes++) {
        CHECK(passes < DELAY_MAX);
        kit_turn();
    }
    return passes;
}

static void open_all(void) {
    uint8_t bytes[WH_PROXY_SIZE];
    for (int i = 0; i < 2; i++) {
        wh_proxy_encode(&sinks[!i], bytes);
        for (int at_ = 0; at_ < RECEIVERS; at_++)
            CHECK_EQ_INT(wh_chare_send(job.pe[i], at(i, at_), sink_open_entry, bytes, sizeof(bytes),
                                       WH_SEND_OPTS(.ref = i)),
                         WH_OK);
    }
    kit_settle();
    kit_turns(20);
}

// An end that does not receive holds up its own channel, at its window, and no other.
static void flood_channel(int ppn) {
    static char data[4096];
    int slowest = 0, pending = 0;
    begin(ppn);
    open_all();
    for (int round = 0; round < 400; round++) {
        for (int i = 0; i < PER_PASS; i++)
            pending += wh_channel_send(seen.ends[FLOODED][0], data, sizeof(data),
                                       WH_OP_OPTS(.done = on_flooded), NULL) == WH_PENDING;
        int index = round * 31 % RECEIVERS, passes = exchange(index == FLOODED ? 0 : index);
        slowest = passes > slowest ? passes : slowest;
    }
    CHECK(pending - seen.ended >= 400 * PER_PASS - 64);
    CHECK_EQ_INT(seen.ends[FLOODED][0]->sent, 64);
    printf("        %d messages to an end that does not receive: others wait %d passes at most\n",
           400 * PER_PASS, slowest);
    kit_finish();
}

TEST(an_end_of_a_channel_that_does_not_receive) {
    flood_channel(1);
    flood_channel(2);
}

TEST_MAIN()
