// SPDX-License-Identifier: BSD-3-Clause
//
// The change from the socket to the ring: SWITCH is the socket's last record, and the ring is opened behind it.
//
// The peer is made by hand (hostile_peer.h).  It writes a batch of records with SWITCH at its end in one call, so that the
// ring's descriptor is there long before SWITCH has been read; what is in the ring by then must wait.
#include "engine/hostile_peer.h"
#include "net/deaf.h"
#include "net/shm/ring.h"
#include "net/shm/shm.h"

enum { IN_SOCKET = 150, IN_RING = 50, EAGER = 8192 };  // a poll takes 64 records

static duo victim;
static raw hostile;
static whi_lane *ring;
static int ring_fd;
static whi_shm_budget budget;

static wh_status nothing_comes(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link, (void)hdr, (void)payload;
    return WH_OK;
}

static wh_status bell(void *arg) {
    (void)arg;
    char byte = 0;
    (void)!send(hostile.fd, &byte, 1, MSG_NOSIGNAL);
    return WH_OK;
}

static wh_status pass_no_fd(void *arg, int fd) {
    (void)arg, (void)fd;
    return WH_EAGAIN;
}

static int take_no_fd(void *arg) {
    (void)arg;
    return WH_EAGAIN;
}

static const whi_lane_up up = {.deliver = nothing_comes, .sink = deaf_sink, .landed = deaf_landed};
static const whi_shm_wire wire = {bell, pass_no_fd, take_no_fd};

static void begin(void) {
    if (!whi_shm_available(WHI_RING_MIN, &(const char *){NULL}))
        SKIP("no shared memory here");
    whi_rng_init(&raw_rng, 17);
    duo_begin(&victim, NULL, NULL);
    duo_connect(&victim);
    raw_link_local(&victim, &hostile, wh_listener_port(victim.listener));
    whi_shm_budget_init(&budget, 1 << 20);
    whi_shm_opts opts = {
        .ring_size = 64 << 10, .eager_limit = EAGER, .budget = &budget, .wire = &wire};
    CHECK_EQ_INT(whi_shm_create(&opts, &up, NULL, &ring, &ring_fd), WH_OK);
}

static void end(void) {
    honest(&victim);
    CHECK_EQ_INT(wh_endpoint_status(victim.to), WH_OK);
    while (victim.accepted_count > 1)  // the first one is the honest client's
        wh_endpoint_abort(victim.accepted[--victim.accepted_count]);
    ring->ops->close(ring);
    close(ring_fd);
    duo_end(&victim);
}

static whi_hdr numbered(uint32_t seq) {
    return (whi_hdr){.cls = WHI_CLASS_TAG, .ep = 1, .seq = seq, .tag = 5, .size = sizeof(seq)};
}

// write_with_switch writes an OPEN, the first messages and SWITCH with the ring's descriptor, all in one call.
static void write_with_switch(void) {
    static uint8_t bytes[(IN_SOCKET + 2) * (sizeof(whi_hdr) + sizeof(uint32_t))];
    size_t size = 0;
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 1, .seq = 100, .tag = hostile.peer.listener, .arg = 1 << 20};
    memcpy(bytes, &open, sizeof(open));
    size += sizeof(open);
    for (uint32_t i = 0; i < IN_SOCKET; i++) {
        whi_hdr hdr = numbered(i);
        memcpy(bytes + size, &hdr, sizeof(hdr));
        memcpy(bytes + size + sizeof(hdr), &i, sizeof(i));
        size += sizeof(hdr) + sizeof(i);
    }
    whi_hdr last = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_SHM};
    memcpy(bytes + size, &last, sizeof(last));
    size += sizeof(last);

    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.head), &ring_fd, sizeof(ring_fd));
    struct iovec piece = {bytes, size};
    struct msghdr msg = {.msg_iov = &piece,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control.space)};
    CHECK(sendmsg(hostile.fd, &msg, MSG_NOSIGNAL) == (ssize_t)size);
}

static void write_ring(void) {
    for (uint32_t i = IN_SOCKET; i < IN_SOCKET + IN_RING; i++) {
        whi_hdr hdr = numbered(i);
        CHECK_EQ_INT(ring->ops->send(ring, &hdr, &i), WH_OK);
    }
}

// receive_all checks that all messages come, in order.
static void receive_all(wh_endpoint *ep) {
    for (uint32_t i = 0; i < IN_SOCKET + IN_RING; i++) {
        uint32_t got = UINT32_MAX;
        wh_request *recv = NULL;
        wh_status st = wh_tag_recv(ep, &got, sizeof(got), 5, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK_EQ_INT(st == WH_PENDING ? done_as(&victim, recv) : st, WH_OK);
        CHECK_EQ_INT(got, i);
    }
}

TEST(the_ring_waits_for_the_switch) {
    begin();
    write_ring();
    write_with_switch();
    bell(NULL);
    uint64_t end_ns = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
    while (victim.accepted_count < 2 && whi_clock_ns() < end_ns) {
        victim.server->countdown =
            0;  // sockets are looked at in each pass, between two looks at the lane
        (void)wh_worker_progress(victim.server);
    }
    CHECK_EQ_INT(victim.accepted_count, 2);
    receive_all(victim.accepted[1]);
    close(hostile.fd);
    end();
}

// Whoever says all it has to say and goes is heard to its last word.
TEST(a_peer_that_switches_and_leaves) {
    begin();
    write_ring();
    write_with_switch();
    close(hostile.fd);
    PUMP_UNTIL(&victim, victim.accepted_count == 2);
    PUMP_UNTIL(&victim, wh_endpoint_status(victim.accepted[1]) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(victim.accepted[1]), WH_EPEER);
    receive_all(victim.accepted[1]);
    end();
}

// There is one change: from the ring there is no way on.
TEST(a_second_switch_is_refused) {
    begin();
    write_with_switch();
    PUMP_UNTIL(&victim, victim.accepted_count == 2);
    write_ring();
    receive_all(victim.accepted[1]);
    whi_hdr again = {.cls = WHI_CLASS_SWITCH, .aux = WHI_LANE_SHM};
    CHECK_EQ_INT(ring->ops->send(ring, &again, NULL), WH_OK);
    bell(NULL);
    PUMP_UNTIL(&victim, wh_endpoint_status(victim.accepted[1]) != WH_OK);
    CHECK_EQ_INT(wh_endpoint_status(victim.accepted[1]), WH_EPROTOCOL);
    CHECK(logged("lane was not agreed on"));
    close(hostile.fd);
    end();
}

TEST_MAIN()
