// SPDX-License-Identifier: BSD-3-Clause
//
// Channels between chares: opened in constructors and entries, waited for in threads, ended with their elements.
#include <wherry/channel.h>

#include "rt/channel/channels.h"
#include "rt/chare/element_kit.h"

enum { CELLS = 12, ROUNDS = 20 };

static struct {
    int done, ended, failed, futures;
    wh_status last;
} seen;

// A cell of a ring: it has a channel to each neighbour.
typedef struct cell {
    wh_channel *left, *right;
    int got[2];
    int given[2];  // one is the last round's, whose message may be under way
} cell;

static void destruct(wh_chare *self) {
    cell *c = self->state;
    wh_channel_close(c->left);  // it may, and need not
    seen.ended++;
}

#define CELL_ENTRIES(ENTRY)                                                                        \
    ENTRY(cell, join, WH_ENTRY_THREADED)                                                           \
    ENTRY(cell, lonely, WH_ENTRY_THREADED)                                                         \
    ENTRY(cell, tell, 0)                                                                           \
    ENTRY(cell, told, 0)                                                                           \
    ENTRY(cell, go, 0)

WH_CLASS(cell, CELL_ENTRIES, .state = sizeof(cell), .destruct = destruct, .pack = kit_pack,
         .unpack = kit_unpack);

static wh_proxy neighbour(const wh_chare *self, int by) {
    int32_t at = (self->proxy.index[0] + by + CELLS) % CELLS;
    return wh_proxy_at(self->proxy, 1, &at);
}

static void exchange(wh_chare *self, cell *c, int round) {
    int me = self->proxy.index[0], *value = &c->given[round % 2];
    wh_wait waits[2] = {{0}};
    wh_channel *ends[] = {c->left, c->right};
    *value = me * 1000 + round;
    for (int i = 0; i < 2; i++) {
        wh_status st = wh_channel_recv(ends[i], &c->got[i], sizeof(int),
                                       WH_OP_OPTS(.done = wh_wait_done, .arg = &waits[i]), NULL);
        waits[i].done = st == WH_OK;
        CHECK(st >= WH_OK);
        CHECK(wh_channel_send(ends[i], value, sizeof(int), NULL, NULL) >= WH_OK);
    }
    for (int i = 0; i < 2; i++)
        CHECK_EQ_INT(wh_pe_wait(self->pe, &waits[i]), WH_OK);
    CHECK_EQ_INT(c->got[0], (me + CELLS - 1) % CELLS * 1000 + round);
    CHECK_EQ_INT(c->got[1], (me + 1) % CELLS * 1000 + round);
}

// join exchanges with both neighbours, round by round.
static void cell_join(wh_chare *self, const wh_call *call) {
    (void)call;
    cell *c = self->state;
    CHECK_EQ_INT(wh_channel_open(self, neighbour(self, -1), NULL, &c->left), WH_OK);
    CHECK_EQ_INT(wh_channel_open(self, neighbour(self, 1), NULL, &c->right), WH_OK);
    for (int round = 0; round < ROUNDS; round++)
        exchange(self, c, round);
    seen.done++;
}

// lonely waits for what never comes.
static void cell_lonely(wh_chare *self, const wh_call *call) {
    cell *c = self->state;
    wh_wait wait = {0};
    int32_t peer;
    memcpy(&peer, call->args, sizeof(peer));
    CHECK_EQ_INT(wh_channel_open(self, wh_proxy_at(self->proxy, 1, &peer), NULL, &c->right), WH_OK);
    CHECK_EQ_INT(wh_channel_recv(c->right, &c->got, sizeof(int),
                                 WH_OP_OPTS(.done = wh_wait_done, .arg = &wait), NULL),
                 WH_PENDING);
    CHECK_EQ_INT(wh_pe_wait(self->pe, &wait), WH_OK);
    seen.last = wait.result.status;
    seen.failed++;
}

// tell sends to, and receives from, a neighbour, with callbacks in the place of functions.
static void cell_tell(wh_chare *self, const wh_call *call) {
    static int value;
    cell *c = self->state;
    wh_callback done;
    int32_t peer = self->proxy.index[0] ^ 1;
    CHECK_EQ_INT(wh_callback_decode(call->args, call->size, &done), WH_OK);
    CHECK_EQ_INT(wh_channel_open(self, wh_proxy_at(self->proxy, 1, &peer),
                                 WH_CHANNEL_OPTS(.window = 2), &c->right),
                 WH_OK);
    wh_callback told = {
        .kind = WH_CALLBACK_SEND, .proxy = self->proxy, .entry = cell_told_entry, .ref = 7};
    value = 42;
    CHECK_EQ_INT(wh_channel_recv_then(c->right, c->got, sizeof(int), NULL, &told), WH_OK);
    CHECK_EQ_INT(wh_channel_send_then(c->right, &value, sizeof(int), NULL, &done), WH_OK);
    CHECK_EQ_INT(wh_channel_send_then(c->right, &value, sizeof(int), NULL, NULL), WH_EINVAL);
}

static void cell_told(wh_chare *self, const wh_call *call) {
    cell *c = self->state;
    wh_result result;
    CHECK_EQ_INT(call->size, sizeof(result));
    memcpy(&result, call->args, sizeof(result));
    CHECK_EQ_INT(result.status, WH_OK);
    CHECK_EQ_INT(result.size, sizeof(int));
    CHECK_EQ_INT(call->ref, 7);
    CHECK_EQ_INT(c->got[0], 42);
    seen.done++;
}

// go asks to move, which an element that has a channel cannot, nor one that others have opened one to.
static void cell_go(wh_chare *self, const wh_call *call) {
    cell *c = self->state;
    wh_status st = wh_chare_move(self, 1);
    seen.last = st;
    if (st == WH_OK)
        CHECK_EQ_INT(wh_channel_open(self, neighbour(self, 1), NULL, &c->left), WH_EBUSY);
    (void)call;
    seen.done++;
}

static wh_proxy cells;

static void begin(int pes, int ppn) {
    kit_begin(pes, ppn);
    memset(&seen, 0, sizeof(seen));
    for (int i = 0; i < pes; i++) {
        whi_channels_attach(job.pe[i]);
        CHECK_EQ_INT(wh_class_register(job.pe[i], &cell_class), WH_OK);
    }
    CHECK_EQ_INT(wh_array_create(job.pe[0], "cell",
                                 WH_ARRAY_OPTS(.dims = 1, .shape = {CELLS}, .map = "round-robin"),
                                 NULL, 0, &cells),
                 WH_OK);
}

static size_t left(void) {
    size_t n = 0;
    for (int i = 0; i < job.pes; i++) {
        whi_channels *channels = job.pe[i]->floors[WHI_FLOOR_CHANNEL].state;
        if (channels)
            n += whi_hash_count(&channels->ends) + whi_hash_count(&channels->elements);
    }
    return n;
}

static void ring(int pes, int ppn) {
    begin(pes, ppn);
    CHECK_EQ_INT(wh_chare_send(job.pe[0], cells, cell_join_entry, NULL, 0, NULL), WH_OK);
    UNTIL(seen.done == CELLS);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[0], cells), WH_OK);
    UNTIL(seen.ended == CELLS && !left());
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(a_ring_of_cells) {
    ring(1, 1);
    ring(2, 1);
    ring(4, 2);
    ring(5, 1);
}

static wh_proxy at(int32_t index) {
    return wh_proxy_at(cells, 1, &index);
}

static void lonely(int32_t index, int32_t peer) {
    CHECK_EQ_INT(wh_chare_send(job.pe[0], at(index), cell_lonely_entry, &peer, sizeof(peer), NULL),
                 WH_OK);
}

TEST(an_element_that_ends_ends_its_threads_and_its_peers) {
    begin(2, 1);
    lonely(0, 1);
    lonely(1, 0);
    kit_turns(50);
    CHECK_EQ_INT(seen.failed, 0);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[1], at(1)), WH_OK);
    UNTIL(seen.failed == 2 && seen.ended == 1);
    CHECK_EQ_INT(wh_chare_destroy(job.pe[1], at(0)), WH_OK);
    UNTIL(seen.ended == 2 && !left());
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(an_element_that_does_not_exist) {
    begin(3, 1);
    lonely(0, CELLS + 1);
    UNTIL(seen.failed == 1);
    CHECK_EQ_INT(seen.last, WH_EPEER);
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

static void go(int32_t index, wh_status expected) {
    int before = seen.done;
    CHECK_EQ_INT(wh_chare_send(job.pe[0], at(index), cell_go_entry, NULL, 0, NULL), WH_OK);
    UNTIL(seen.done == before + 1);
    CHECK_EQ_INT(seen.last, expected);
}

TEST(elements_with_channels_do_not_move) {
    begin(2, 1);
    lonely(3, 2);
    UNTIL(left() == 3);  // the end, and what both elements have of it
    go(2, WH_EBUSY);
    go(4, WH_OK);
    go(4, WH_OK);  // it follows
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

// What a channel needs of a PE that is lost fails, also where it has not been met.
TEST(a_lost_pe_ends_its_channels) {
    begin(3, 1);
    for (int i = 0; i < 3; i++)
        job.pe[i]->lost = kit_lost;
    lonely(0, 1);
    lonely(1, 0);
    lonely(3, 4);
    kit_turns(100);
    CHECK_EQ_INT(seen.failed, 0);
    whi_pe_destroy(job.pe[1]);
    job.pe[1] = NULL;
    UNTIL(seen.failed == 2);
    CHECK(seen.last < 0);
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST(callbacks_and_futures) {
    uint8_t bytes[WH_CALLBACK_SIZE];
    wh_future futures[2];
    begin(2, 1);
    for (int32_t i = 0; i < 2; i++) {
        CHECK_EQ_INT(wh_future_create(job.pe[0], &futures[i]), WH_OK);
        wh_callback_encode(&(wh_callback){.kind = WH_CALLBACK_FUTURE, .future = futures[i]}, bytes);
        CHECK_EQ_INT(wh_chare_send(job.pe[0], at(i), cell_tell_entry, bytes, sizeof(bytes), NULL),
                     WH_OK);
    }
    const void *value[2];
    size_t size;
    UNTIL(seen.done == 2 && wh_future_get(job.pe[0], futures[0], &value[0], &size) == WH_OK &&
          wh_future_get(job.pe[0], futures[1], &value[1], &size) == WH_OK);
    CHECK_EQ_INT(size, sizeof(wh_result));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(((const wh_result *)value[i])->status, WH_OK);
        wh_future_free(job.pe[0], futures[i]);
    }
    CHECK_EQ_INT(job.failures, 0);
    kit_end();
}

TEST_MAIN()
