// SPDX-License-Identifier: BSD-3-Clause
//
// Peers that break the rules of accesses and of the ucx lane: each may hurt its own link, and nothing beyond it.
#include <pthread.h>

#include "engine/hostile_peer.h"
#include "link/ucx.h"
#include "net/ucx/ucx.h"
#include "net/ucx/ucx_lane.h"
#include "rma/rma.h"

enum { FIRST_ID = 1u << WHI_IDMAP_SLOT_BITS };

static duo d;
static raw hostile;

static wh_rkey *open_key(wh_endpoint *ep, uint64_t size) {
    whi_key key = {
        .magic = {'W', 'H', 'K', '1'}, .access = 7, .kind = WH_MEM_HOST, .id = 99, .size = size};
    wh_rkey *rkey;
    CHECK_EQ_INT(wh_rkey_open(ep, &key, sizeof(key), &rkey), WH_OK);
    return rkey;
}

static whi_hdr chunk_for(uint32_t id, size_t size) {
    return (whi_hdr){.cls = WHI_CLASS_CHUNK, .size = (uint32_t)size, .ep = id};
}

// A get that fails inside the call has had a name.  A chunk for it, which the hostile peer has sent before, must not find the
// operation of an honest peer that has got the memory since.
TEST(name_of_an_access_that_failed) {
    static char buf[80000], in[80000], out[80000], evil[4096];  // sends of 64 KiB do not wait
    whi_rng_init(&raw_rng, 5);
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    raw_lanes = WHI_LANE_STREAM;
    raw_link_local(&d, &hostile, wh_listener_port(d.listener));
    wh_endpoint *target = raw_open(&d, &hostile);
    wh_rkey *rkey = open_key(target, 1 << 20);
    CHECK(shutdown(hostile.fd, SHUT_RD) == 0);
    memset(evil, 'X', sizeof(evil));
    whi_hdr chunk = chunk_for(FIRST_ID, sizeof(evil));
    CHECK(send(hostile.fd, &chunk, sizeof(chunk), MSG_NOSIGNAL) == sizeof(chunk));
    CHECK(send(hostile.fd, evil, sizeof(evil), MSG_NOSIGNAL) == sizeof(evil));
    wh_request *get = NULL, *recv = NULL, *send_req = NULL;
    CHECK_EQ_INT(wh_get(rkey, 0, buf, sizeof(buf), NULL, &get), WH_EPEER);
    CHECK(!whi_idmap_get(&whi_messages_on(target->link)->grants, FIRST_ID));
    memset(out, 'o', sizeof(out));
    CHECK_EQ_INT(wh_tag_send(d.to, out, sizeof(out), 5, NULL, &send_req), WH_PENDING);
    for (int i = 0; i < 3; i++)
        (void)wh_worker_progress(d.client);
    CHECK_EQ_INT(wh_tag_recv(d.from, in, sizeof(in), 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK_EQ_INT(done_as(&d, send_req), WH_OK);
    CHECK(memcmp(in, out, sizeof(in)) == 0);
    wh_rkey_close(rkey);
    wh_endpoint_abort(target);
    close(hostile.fd);
    duo_end(&d);
}

static void produce(void *ctx, uint64_t offset, void *to, size_t size) {
    (void)ctx, (void)offset;
    memset(to, 'X', size);
}

// begin_over_ucx connects over UCX; the server then plays the hostile peer, by its own lane.
static whi_link *begin_over_ucx(void) {
    static const char *const options[] = {"grace=1s", "lanes=ucx", NULL};
    const char *why;
    if (whi_ucx_load("", &why) != WH_OK)
        SKIP(why);
    duo_begin(&d, options, options);
    duo_connect(&d);
    UNTIL(&d, d.from->link->tx == d.from->link->fast);
    return d.from->link;
}

static size_t push_chunk(whi_link *link) {
    whi_hdr hdr = chunk_for(FIRST_ID, 0);
    whi_span src = {.move = produce};
    size_t moved;
    CHECK_EQ_INT(link->tx->ops->push(link->tx, &hdr, &src, 1 << 20, &moved), WH_OK);
    return moved;
}

// The owner refuses a get of which a chunk is landing.
TEST(refusal_of_a_get_that_lands) {
    static char buf[8 << 20], then[8 << 20];
    whi_link *link = begin_over_ucx();
    wh_rkey *rkey = open_key(d.to, sizeof(buf));
    wh_request *get = NULL;
    CHECK_EQ_INT(wh_get(rkey, 0, buf, sizeof(buf), NULL, &get), WH_PENDING);
    CHECK(push_chunk(link) > 0);
    whi_hdr no = {.cls = WHI_CLASS_RMA_ANSWER,
                  .aux = WHI_ANSWER_GET_FAILED,
                  .ep = d.to->number,
                  .tag = FIRST_ID,
                  .arg = (uint64_t)(int64_t)WH_EKEY};
    CHECK_EQ_INT(link->tx->ops->send(link->tx, &no, NULL), WH_OK);
    UNTIL(&d, wh_request_status(get) != WH_PENDING);
    memcpy(then, buf, sizeof(buf));
    duo_for(&d, 300);
    CHECK(memcmp(then, buf, sizeof(buf)) == 0);
    wh_request_free(get);
    wh_rkey_close(rkey);
    duo_end(&d);
}

// A chunk for a name that is only given out while it lands.
TEST(chunk_ahead_of_its_name) {
    static char buf[8 << 20];
    whi_link *link = begin_over_ucx();
    wh_rkey *rkey = open_key(d.to, sizeof(buf));
    CHECK(push_chunk(link) > 0);
    UNTIL(&d, whi_messages_on(d.to->link)->held);
    wh_request *get = NULL;
    CHECK_EQ_INT(wh_get(rkey, 0, buf, sizeof(buf), NULL, &get), WH_PENDING);
    uint64_t start = whi_clock_ns();
    while (whi_messages_on(d.to->link)->held && whi_clock_ns() - start < 5 * WHI_NS_PER_S)
        (void)duo_pass(&d);
    CHECK_EQ_INT(whi_messages_on(d.to->link)->held, 0);
    CHECK_EQ_INT(get->held, 0);
    wh_rkey_close(rkey);
    wh_endpoint_abort(d.to);
    d.to = NULL;
    UNTIL(&d, wh_request_status(get) != WH_PENDING);
    wh_request_free(get);
    duo_end(&d);
}

// A number ahead of its turn is kept, but only once.
TEST(number_sent_twice) {
    whi_link *link = begin_over_ucx();
    whi_ucx_lane *lane = whi_ucx_lane_of(link->tx);
    uint32_t ahead = lane->tx_seq + 1;
    for (int i = 0; i < 2; i++) {
        whi_hdr hdr = {.cls = WHI_CLASS_TAG, .ep = d.from->number, .size = 6};
        lane->tx_seq = ahead;
        CHECK_EQ_INT(link->tx->ops->send(link->tx, &hdr, "twice!"), WH_OK);
    }
    UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_EPROTOCOL);
    CHECK(logged("one number twice"));
    duo_end(&d);
}

// A stranger without a secret does not get UCX opened where nobody has named it.
TEST(stranger_who_has_ucx_only) {
    const char *why;
    if (whi_ucx_load("", &why) != WH_OK)
        SKIP(why);
    duo_begin(&d, NULL, NULL);
    for (int i = 0; i < 2; i++) {  // as on machines with an RDMA device
        d.ctx[i]->rdma = true;
        d.ctx[i]->lanes |= WHI_LANE_UCX;
    }
    CHECK(!(whi_worker_lanes(d.server, false) & WHI_LANE_UCX));
    CHECK(whi_worker_lanes(d.server, true) & WHI_LANE_UCX);
    d.ctx[1]->lanes = WHI_LANE_UCX;
    d.ctx[1]->ucx_named = true;
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, NULL, &ep), WH_OK);
    UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_ENOLANE);
    CHECK(!whi_links_of(d.server)->ucx && logged("W-LNK-05"));
    wh_endpoint_abort(ep);
    duo_end(&d);
}

TEST_MAIN()
