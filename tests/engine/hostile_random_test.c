// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks by a peer that has got through the handshake (hostile_kit.h): random records, and rubbish in the shared ring.
#include <sys/mman.h>

#include "engine/hostile_kit.h"
#include "net/shm/ring.h"
#include "net/shm/shm.h"
#include "net/stream/stream.h"

// ---- rubbish

static whi_hdr random_record(void) {
    static const uint32_t sizes[] = {0, 0, 0, 8, 16, 100, 4096};
    whi_hdr hdr;
    uint8_t *raw_hdr = (uint8_t *)&hdr;
    for (size_t i = 0; i < sizeof(hdr); i++)
        raw_hdr[i] = (uint8_t)whi_rng_u64(&raw_rng);
    // Mostly nearly right, so that it gets past the first checks.
    if (whi_rng_chance(&raw_rng, 90))
        hdr.cls = (uint8_t)whi_rng_between(&raw_rng, 0x10, WHI_CLASS_RECALLED);
    if (whi_rng_chance(&raw_rng, 20))
        hdr.cls = WHI_CLASS_CHUNK;
    if (whi_rng_chance(&raw_rng, 5))
        hdr.cls = WHI_CLASS_LONG;
    hdr.size = sizes[whi_rng_below(&raw_rng, 7)];
    hdr.ep = (uint32_t)whi_rng_below(&raw_rng, 4);
    hdr.flags = (uint8_t)whi_rng_below(&raw_rng, 4);
    hdr.aux = (uint16_t)whi_rng_below(&raw_rng, 3);
    if (whi_rng_chance(&raw_rng, 70))
        hdr.tag = whi_rng_below(&raw_rng, 3) | (uint64_t)whi_rng_below(&raw_rng, 3) << 32;
    if (whi_rng_chance(&raw_rng, 70))
        hdr.arg = whi_rng_below(&raw_rng, 5000);
    if (whi_rng_chance(&raw_rng, 95))
        hdr.seq = seq;
    return hdr;
}

// is_numbered says whether a record takes the next number of its endpoint.
static bool is_numbered(const whi_hdr *hdr) {
    return hdr->cls == WHI_CLASS_LONG ||
           (hdr->cls >= WHI_CLASS_TAG && hdr->cls < WHI_CLASS_UNORDERED);
}

// reap waits until each operation that was started has ended, and frees it with what it got.
static void reap(wh_request *const *reqs, int count) {
    for (int i = 0; i < count; i++) {
        if (!reqs[i])
            continue;
        wh_result result;
        PUMP_UNTIL(&victim, wh_request_result(reqs[i], &result) == WH_OK);
        if (result.object)
            wh_object_free(result.object);
        wh_request_free(reqs[i]);
    }
}

// Random records; the endpoint has operations of all kinds pending, which all end.
TEST(random_records) {
    enum { ROUNDS = 300 };
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        attack();
        static uint8_t into[5000], from[200000];
        wh_request *reqs[7] = {NULL};
        (void)!wh_tag_recv(target, into, sizeof(into), 0, 0, NULL, &reqs[0]);
        (void)!wh_object_recv(target, NULL, 0, 0, 0, 0, NULL, &reqs[1]);
        (void)!wh_tag_send(target, from, sizeof(from), 1, NULL, &reqs[2]);
        (void)!wh_tag_send(target, from, 100, 2, WH_OP_OPTS(.flags = WH_OP_SYNC), &reqs[3]);
        (void)!wh_object_send(target, "h", 1, &(wh_frame){.data = from, .size = sizeof(from)}, 1,
                              sizeof(wh_frame), 3, NULL, &reqs[4]);
        (void)!wh_endpoint_flush(target, NULL, &reqs[5]);
        (void)!wh_am_send(target, 4, "h", 1, from, sizeof(from), NULL, &reqs[6]);
        for (int n = 0; n < 60; n++) {
            whi_hdr hdr = random_record();
            if (!raw_send(&victim, &hostile, &hdr, bytes))
                break;
            seq += is_numbered(&hdr);
            if (raw_hung_up(hostile.fd))
                break;
        }
        hang_up();
        PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
        reap(reqs, 7);
        kit_log_begin();
    }
    end();
}

// ---- the shared ring

typedef struct ring_foe {
    whi_lane *stream, *shm;
    int ring_fd, their_fd;
    whi_shm_budget budget;
} ring_foe;

static ring_foe ring;

static wh_status ring_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)payload;
    ring_foe *self = link;
    if (hdr->cls != WHI_CLASS_SWITCH)
        return WH_OK;
    whi_stream_rx_bytes(self->stream);
    self->their_fd = whi_stream_take_fd(self->stream);
    return WH_OK;
}

static wh_status ring_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link, (void)hdr;
    *span = (whi_span){.ptr = bytes};
    return hdr->size <= sizeof(bytes) ? WH_OK : WH_EPROTOCOL;
}

static wh_status ring_landed(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    return WH_OK;
}

static const whi_lane_up ring_up = {
    .deliver = ring_deliver, .sink = ring_sink, .landed = ring_landed};

static wh_status ring_bell(void *arg) {
    return whi_stream_bell(((ring_foe *)arg)->stream);
}

static wh_status ring_pass(void *arg, int fd) {
    return whi_stream_pass_fd(((ring_foe *)arg)->stream, fd);
}

static int ring_take(void *arg) {
    return whi_stream_take_fd(((ring_foe *)arg)->stream);
}

static const whi_shm_wire ring_wire = {ring_bell, ring_pass, ring_take};

// attack_locally makes a link over shared memory as an honest library does, and keeps a mapping of both rings.
static void attack_locally(uint8_t **mine, uint8_t **theirs, size_t *size) {
    raw_link_local(&victim, &hostile, port);
    ring = (ring_foe){.their_fd = -1};
    whi_shm_budget_init(&ring.budget, 1 << 20);
    whi_stream_opts stream = {.eager_limit = EAGER, .chunk = 1 << 20, .local = true};
    CHECK_EQ_INT(whi_stream_create(hostile.fd, &stream, &ring_up, &ring, &ring.stream), WH_OK);
    whi_shm_opts shm = {.ring_size = 32 << 10,
                        .eager_limit = EAGER,
                        .takes_long = true,
                        .budget = &ring.budget,
                        .wire = &ring_wire,
                        .wire_arg = &ring};
    CHECK_EQ_INT(whi_shm_create(&shm, &ring_up, &ring, &ring.shm, &ring.ring_fd), WH_OK);
    whi_hdr hdr = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_SHM};
    CHECK_EQ_INT(whi_stream_send_fd(ring.stream, &hdr, ring.ring_fd), WH_OK);
    CHECK_EQ_INT(whi_stream_tx_bytes(ring.stream), WH_OK);
    PUMP_UNTIL(&victim, (ring.stream->ops->poll(ring.stream, 8), ring.their_fd) >= 0);
    *size = sizeof(whi_ring_shared) + (32 << 10);
    *mine = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.ring_fd, 0);
    *theirs = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.their_fd, 0);
    CHECK(*mine != MAP_FAILED && *theirs != MAP_FAILED);
    CHECK_EQ_INT(whi_shm_attach(ring.shm, ring.their_fd), WH_OK);
    unsigned before = victim.accepted_count;
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 1, .seq = 100, .tag = hostile.peer.listener, .arg = 1 << 20};
    CHECK_EQ_INT(ring.shm->ops->send(ring.shm, &open, NULL), WH_OK);
    PUMP_UNTIL(&victim, victim.accepted_count > before);
    target = victim.accepted[before];
    seq = 0;
}

static void scribble(uint8_t *memory, size_t size) {
    uint64_t words[] = {0, whi_rng_u64(&raw_rng), UINT64_MAX,
                        1, WHI_RING_LIVE,         whi_rng_below(&raw_rng, 1 << 16) | WHI_RING_LIVE};
    for (int i = 0; i < 20; i++) {
        // The words at the beginning, the places of records, and anywhere.
        uint64_t step = whi_rng_below(&raw_rng, size / 64) * 64;
        uint64_t at = i % 3 == 0   ? 128 * whi_rng_below(&raw_rng, 3)
                      : i % 3 == 1 ? step
                                   : whi_rng_below(&raw_rng, size / 8) * 8;
        uint64_t word = words[whi_rng_below(&raw_rng, 6)] ^
                        (i % 5 == 0 ? whi_rng_below(&raw_rng, 256) << 32 : 0);
        memcpy(memory + at, &word, sizeof(word));
    }
}

// send_honestly sends a record as an honest lane does.
static wh_status send_honestly(const whi_hdr *hdr) {
    if (hdr->cls == WHI_CLASS_LONG)
        return ring.shm->ops->send_long(ring.shm, NULL, NULL, hdr, &(whi_span){.ptr = bytes});
    return ring.shm->ops->send(ring.shm, hdr, bytes);
}

TEST(rubbish_in_the_shared_ring) {
    if (!whi_shm_available(WHI_RING_MIN, &(const char *){NULL}))
        SKIP("no shared memory here");
    enum { ROUNDS = 60 };
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t *mine, *theirs;
        size_t size;
        attack_locally(&mine, &theirs, &size);
        wh_request *reqs[3] = {NULL};
        static uint8_t into[5000], from[200000];
        (void)!wh_tag_recv(target, into, sizeof(into), 0, 0, NULL, &reqs[0]);
        (void)!wh_tag_send(target, from, sizeof(from), 1, NULL, &reqs[1]);
        (void)!wh_object_recv(target, NULL, 0, 0, 0, 0, NULL, &reqs[2]);
        for (int n = 0; n < 40 && wh_endpoint_status(target) == WH_OK; n++) {
            whi_hdr hdr = random_record();
            // What the lane itself, which is an honest one, can send.
            bool sendable = hdr.cls < WHI_CLASS_LANE && hdr.cls != WHI_CLASS_CHUNK &&
                            (hdr.cls != WHI_CLASS_LONG || hdr.size);
            if (sendable && send_honestly(&hdr) == WH_OK)
                seq += is_numbered(&hdr);
            if (round % 3 != 0 && n > 5)
                scribble(round % 3 == 1 ? mine : theirs, size);
            (void)whi_stream_bell(ring.stream);
            pump(&victim);
            (void)!wh_tag_send(target, from, 100, 3, NULL, NULL);
        }
        ring.shm->ops->close(ring.shm);
        ring.stream->ops->close(ring.stream);
        hostile.fd = -1;  // it was the lane's
        hang_up();
        munmap(mine, size);
        munmap(theirs, size);
        close(ring.ring_fd);
        PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
        reap(reqs, 3);
        kit_log_begin();
    }
    end();
}

TEST_MAIN()
