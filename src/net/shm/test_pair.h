// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of the shm lane: two lanes of one thread, joined by a socket pair.
//
// A `way` says how the lanes are made and holds what is between them.  An `ear` is one end: its
// lane, what it has heard, and the memory into which chunks go.
#ifndef WHI_NET_SHM_TEST_PAIR_H
#define WHI_NET_SHM_TEST_PAIR_H

#include "base/test.h"
#include "net/shm/shm_lane.h"
#include "net/shm/test_wire.h"

// How the lanes of a pair are made, and what joins them.
typedef struct way {
    whi_shm_opts opts;
    size_t limit;  // of the budget
    whi_shm_budget budget;
    test_wire wires[2];
} way;

static void hang_up(way *over) {
    close(over->wires[0].fd);
    close(over->wires[1].fd);
}

// Makes one lane; its ring goes to the other end of the wire.
static wh_status make_lane(way *over, int side, const whi_lane_up *up, void *link,
                           whi_lane **lane) {
    whi_shm_opts opts = over->opts;
    opts.budget = &over->budget;
    opts.wire = &test_wire_ops;
    opts.wire_arg = &over->wires[side];
    int fd = -1;
    wh_status status = whi_shm_create(&opts, up, link, lane, &fd);
    if (status != WH_OK)
        return status;
    unsigned refuse = over->wires[side].refuse;
    over->wires[side].refuse = 0;
    CHECK(test_wire_send_fd(&over->wires[side], fd) == WH_OK);
    over->wires[side].refuse = refuse;
    close(fd);
    return WH_OK;
}

static wh_status attach(way *over, int side, whi_lane *lane) {
    int fd = test_wire_take_fd(&over->wires[side]);
    CHECK(fd >= 0);
    return whi_shm_attach(lane, fd);
}

__attribute__((unused)) static wh_status open_lanes(void *arg, const whi_lane_up *up, void *link_a,
                                                    whi_lane **a, void *link_b, whi_lane **b) {
    way *over = arg;
    whi_shm_budget_init(&over->budget, over->limit);
    test_wire_pair(over->wires);
    *a = *b = NULL;
    wh_status status = make_lane(over, 0, up, link_a, a);
    if (status == WH_OK)
        status = make_lane(over, 1, up, link_b, b);
    if (status == WH_OK)
        status = attach(over, 0, *a);
    if (status == WH_OK)
        status = attach(over, 1, *b);
    if (status != WH_OK) {
        if (*a)
            (*a)->ops->close(*a);
        if (*b)
            (*b)->ops->close(*b);
        hang_up(over);
    }
    return status;
}

__attribute__((unused)) static void close_way(void *arg) {
    way *over = arg;
    CHECK_EQ_INT(over->budget.used, 0);
    CHECK(whi_list_empty(&over->budget.lanes));
    hang_up(over);
}

enum { MEMORY = 512 << 10 };

typedef struct ear {
    whi_lane *lane;
    unsigned heard;
    bool unsent;
    uint64_t landed;
    unsigned char memory[MEMORY];
} ear;

static wh_status ear_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    ear *self = link;
    (void)payload;
    CHECK_EQ_INT(hdr->seq, self->heard);
    self->heard++;
    return WH_OK;
}

static wh_status ear_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    ear *self = link;
    CHECK(hdr->arg + hdr->size <= MEMORY);
    *span = (whi_span){.ptr = self->memory + hdr->arg};
    return WH_OK;
}

static wh_status ear_landed(void *link, const whi_hdr *hdr) {
    ((ear *)link)->landed += hdr->size;
    return WH_OK;
}

static void ear_unsent(void *link) {
    ((ear *)link)->unsent = true;
}

static const whi_lane_up ear_up = {
    .deliver = ear_deliver, .sink = ear_sink, .landed = ear_landed, .unsent = ear_unsent};

static ear ears[4];

__attribute__((unused)) static void open_pair(way *over, ear *a, ear *b) {
    *a = *b = (ear){0};
    CHECK(open_lanes(over, &ear_up, a, &a->lane, b, &b->lane) == WH_OK);
}

__attribute__((unused)) static void close_pair(way *over, ear *a, ear *b) {
    a->lane->ops->close(a->lane);
    b->lane->ops->close(b->lane);
    close_way(over);
}

__attribute__((unused)) static wh_status say(ear *self, uint32_t number, uint32_t size) {
    static unsigned char payload[8192];
    whi_hdr hdr = {.size = size, .cls = 0x10, .seq = number};
    return self->lane->ops->send(self->lane, &hdr, payload);
}

// Says what the lane takes, and returns how many records that were.
__attribute__((unused)) static unsigned say_all(ear *self, uint32_t first, uint32_t size) {
    unsigned count = 0;
    while (say(self, first + count, size) == WH_OK)
        count++;
    return count;
}

__attribute__((unused)) static int poll_all(ear *self) {
    int events, sum = 0;
    while ((events = self->lane->ops->poll(self->lane, 16)) > 0)
        sum += events;
    CHECK(events == 0);
    return sum;
}

__attribute__((unused)) static wh_status push(ear *self, uint64_t offset, uint64_t size,
                                              size_t *moved) {
    static unsigned char bytes[MEMORY];
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .arg = offset};
    whi_span src = {.ptr = bytes + offset};
    return self->lane->ops->push(self->lane, &hdr, &src, size, moved);
}

__attribute__((unused)) static void push_through(ear *from, ear *to, uint64_t size) {
    uint64_t before = to->landed;
    for (uint64_t offset = 0; offset < size;) {
        size_t moved = 0;
        if (push(from, offset, size - offset, &moved) == WH_OK)
            offset += moved;
        else
            CHECK(poll_all(to) > 0 && poll_all(from) == 1);
    }
    (void)poll_all(to);
    CHECK_EQ_INT(to->landed - before, size);
}

#endif
