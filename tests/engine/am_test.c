// SPDX-License-Identifier: BSD-3-Clause
//
// Active messages that their handler has kept: header and payload stay where the library keeps them,
// whatever becomes of peer, endpoint and worker.  What a message says of its sender's memory, and that it counts once.
#include "engine/test_kit.h"

enum { SMALL = 1000, LARGE = 1 << 20, HEADER = 20, ID = 3 };

static duo d;
static char small[SMALL], large[LARGE], header[HEADER];
static wh_am *kept[2];
static unsigned count;

static wh_status keep_it(wh_am *am, void *arg) {
    (void)arg;
    CHECK(count < 2);
    kept[count++] = am;
    return WH_PENDING;
}

static void begin(void) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    memset(small, 1, sizeof(small));
    memset(large, 2, sizeof(large));
    memset(header, 3, sizeof(header));
    count = 0;
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, keep_it, NULL), WH_OK);
    CHECK_EQ_INT(wh_am_send(d.to, ID, header, HEADER, small, SMALL, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_am_send(d.to, ID, header, HEADER, large, LARGE, NULL, NULL), WH_PENDING);
    UNTIL(&d, count == 2);
}

static void check_kept(void) {
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(kept[i]->id, ID);
        CHECK_EQ_INT(kept[i]->header_size, HEADER);
        CHECK(memcmp(kept[i]->header, header, HEADER) == 0);
    }
    CHECK_EQ_INT(kept[0]->size, SMALL);
    CHECK(memcmp(kept[0]->data, small, SMALL) == 0);
    CHECK_EQ_INT(kept[1]->size, LARGE);
    CHECK(!kept[1]->data);
}

// give_back receives the small message, which is here, and cannot have the large one.
static void give_back(void) {
    static char into[SMALL];
    wh_request *req = NULL;
    memset(into, 0, sizeof(into));
    CHECK_EQ_INT(wh_am_recv(kept[1], large, LARGE, NULL, &req), WH_ECANCELLED);
    check_kept();
    CHECK_EQ_INT(wh_am_recv(kept[0], into, SMALL, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK(memcmp(into, small, SMALL) == 0);
    wh_am_drop(kept[1]);
}

typedef enum end { PEER_ABORTS, PEER_CLOSES, PEER_DIES, WE_ABORT, WE_CLOSE } end;

static void end_as(end how) {
    switch (how) {
    case PEER_ABORTS:
        wh_endpoint_abort(d.to);
        d.to = NULL;
        break;
    case PEER_CLOSES:
        CHECK(wh_endpoint_close(d.to, WH_OP_OPTS(.timeout_ms = 20), NULL) >= 0);
        d.to = NULL;
        break;
    case PEER_DIES:
        wh_endpoint_abort(d.to);
        d.to = NULL;
        wh_worker_destroy(d.client);
        d.client = NULL;
        break;
    case WE_ABORT:
        wh_endpoint_abort(d.from);
        d.from = NULL;
        break;
    case WE_CLOSE:
        CHECK(wh_endpoint_close(d.from, WH_OP_OPTS(.timeout_ms = 20), NULL) >= 0);
        d.from = NULL;
        break;
    }
}

TEST(kept_messages_outlive_their_endpoint) {
    for (int how = PEER_ABORTS; how <= WE_CLOSE; how++) {
        begin();
        check_kept();
        const void *at[] = {kept[0]->header, kept[0]->data, kept[1]->header};
        end_as((end)how);
        duo_for(&d, 60);
        check_kept();
        CHECK(at[0] == kept[0]->header && at[1] == kept[0]->data && at[2] == kept[1]->header);
        give_back();
        duo_end(&d);
    }
}

TEST(kept_messages_outlive_their_worker) {
    begin();
    wh_listener_close(d.listener);
    wh_worker_destroy(d.server);
    d.server = NULL;
    check_kept();
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_am_recv(kept[0], small, SMALL, NULL, &req), WH_ECLOSED);
    check_kept();
    wh_am_drop(kept[0]);
    wh_am_drop(kept[1]);
    wh_endpoint_abort(d.to);
    wh_endpoint_abort(d.from);
    wh_worker_destroy(d.client);
    wh_context_destroy(d.ctx[0]);
    wh_context_destroy(d.ctx[1]);
    wh_log_set_sink(NULL, NULL);
}

// ---- the sender's memory

static wh_mem_kind kind;
static int device;

static wh_status note_memory(wh_am *am, void *arg) {
    (void)arg;
    kind = am->mem;
    device = am->device;
    CHECK(!am->data || memcmp(am->data, small, am->size) == 0);
    count++;
    return WH_OK;
}

static void send_from_device(size_t size, uint64_t features) {
    void *memory = NULL;
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_SIM, 1, size, &memory), WH_OK);
    if (size == SMALL)
        CHECK_EQ_INT(wh_mem_copy(memory, WH_MEM_SIM, small, WH_MEM_HOST, SMALL), WH_OK);
    d.to->link->peer.features = features;
    count = 0;
    kind = WH_MEM_AUTO;
    device = -1;
    CHECK(wh_am_send(d.to, ID, header, HEADER, memory, size, NULL, &req) >= 0);
    UNTIL(&d, count == 1);
    if (req)
        CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_SIM, memory), WH_OK);
}

TEST(the_memory_of_the_payload_travels) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    memset(small, 1, sizeof(small));
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, note_memory, NULL), WH_OK);
    for (int round = 0; round < 2; round++) {
        size_t size = round ? LARGE : SMALL;
        CHECK(d.to->link->peer.features & WHI_FEATURE_AM_MEMORY);
        uint64_t features = d.to->link->peer.features;
        send_from_device(size, features);
        CHECK_EQ_INT(kind, WH_MEM_SIM);
        CHECK_EQ_INT(device, 1);
        send_from_device(size, 0);  // an older peer would not understand
        CHECK_EQ_INT(kind, WH_MEM_HOST);
        CHECK_EQ_INT(device, 0);
        d.to->link->peer.features = features;
    }
    duo_end(&d);
}

// ---- counting

static void count_one_by(const char *const *options, size_t room) {
    static char into[LARGE];
    duo_begin(&d, options, options);
    duo_connect(&d);
    count = 0;
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, keep_it, NULL), WH_OK);
    wh_request *send = NULL, *recv = NULL;
    CHECK_EQ_INT(wh_am_send(d.to, ID, header, HEADER, large, LARGE, NULL, &send), WH_PENDING);
    UNTIL(&d, count == 1);
    CHECK_EQ_INT(wh_am_recv(kept[0], into, room, NULL, &recv), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), room < LARGE ? WH_ETRUNCATED : WH_OK);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    CHECK_EQ_INT(d.to->counters.sent_messages, 1);
    CHECK_EQ_INT(d.from->counters.received_messages, 1);
    CHECK_EQ_INT(d.from->counters.received_bytes, room);
    duo_end(&d);
}

// However the payload of an announced message comes, it is one message.
TEST(one_that_was_announced_counts_once) {
    static const char *const ways[][3] = {
        {"lanes=shm", "shm_read=always"}, {"lanes=shm", "shm_read=never"}, {"lanes=stream"}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        count_one_by(ways[i], LARGE);
        count_one_by(ways[i], 1000);
        count_one_by(ways[i], 0);
    }
}

static wh_status count_it(wh_am *am, void *arg) {
    CHECK_EQ_INT(am->size, SMALL);
    ++*(unsigned *)arg;
    return WH_OK;
}

static void send_small(uint16_t id) {
    wh_request *flush = NULL;
    CHECK_EQ_INT(wh_am_send(d.to, id, NULL, 0, small, SMALL, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);
}

// Each message goes to the handler that its id has when it comes, and to none where that has been removed.
TEST(a_handler_can_be_replaced_and_removed) {
    enum { OTHER = ID + 1 };
    unsigned first = 0, second = 0, other = 0;
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, count_it, &first), WH_OK);
    CHECK_EQ_INT(wh_worker_set_am(d.server, OTHER, count_it, &other), WH_OK);
    send_small(ID);
    send_small(OTHER);
    send_small(ID);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, count_it, &second), WH_OK);
    send_small(ID);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, NULL, NULL), WH_OK);
    send_small(ID);
    send_small(OTHER);
    CHECK_EQ_INT(wh_worker_set_am(d.server, ID, count_it, &second), WH_OK);
    send_small(ID);
    CHECK_EQ_INT(first, 2);
    CHECK_EQ_INT(second, 2);
    CHECK_EQ_INT(other, 2);
    duo_end(&d);
}

TEST_MAIN()
