// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the shm lane between two pinned processes: half round trips of small messages, flows
// of large ones, and what one call costs by itself:
// `shm-bench [chunk KiB [chunks [eager limit]]]`.
//
// The parent reports the best and the median of a few short runs, because other programs disturb.
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "net/shm/test_wire.h"

enum { RUNS = 9, LARGEST = 64 << 20 };

typedef struct end {
    whi_lane *lane;
    uint64_t records;  // delivered
    uint64_t landed;   // bytes
    unsigned char *memory;
    unsigned char small[8192];
} end;

static whi_shm_budget budget;
static whi_shm_opts opts = {
    .ring_size = 64 << 10,
    .ring_max = 256 << 10,
    .eager_limit = 8192,
    .chunks = 4,
    .budget = &budget,
    .wire = &test_wire_ops,
};

static void die(const char *what) {
    fprintf(stderr, "shm-bench: %s\n", what);
    _exit(1);
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    end *self = link;
    memcpy(self->small, payload, hdr->size);
    self->records++;
    return WH_OK;
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    end *self = link;
    *span = (whi_span){.ptr = self->memory + hdr->arg};
    return WH_OK;
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    end *self = link;
    self->landed += hdr->size;
    return WH_OK;
}

static const whi_lane_up up = {.deliver = on_deliver, .sink = on_sink, .landed = on_landed};

static void progress(end *self) {
    if (self->lane->ops->poll(self->lane, 16) < 0)
        die("the lane failed");
}

static void send_small(end *self, uint32_t size) {
    whi_hdr hdr = {.size = size, .cls = 0x10};
    wh_status status;
    while ((status = self->lane->ops->send(self->lane, &hdr, self->memory)) == WH_EAGAIN)
        progress(self);
    if (status != WH_OK)
        die("send failed");
}

static void wait_small(end *self, uint64_t until) {
    while (self->records < until)
        progress(self);
}

static void wait_bytes(end *self, uint64_t until) {
    while (self->landed < until)
        progress(self);
}

static void push_all(end *self, uint64_t size) {
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK};
    size_t moved = 0;
    for (hdr.arg = 0; hdr.arg < size; hdr.arg += moved) {
        whi_span src = {.ptr = self->memory + hdr.arg};
        moved = 0;
        wh_status status = self->lane->ops->push(self->lane, &hdr, &src, size - hdr.arg, &moved);
        if (status == WH_EAGAIN)
            progress(self);
        else if (status != WH_OK)
            die("push failed");
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *what, double *runs, bool more_is_better, const char *unit) {
    qsort(runs, RUNS, sizeof(*runs), by_value);
    printf("%-28s median %8.3f   best %8.3f %s\n", what, runs[RUNS / 2],
           more_is_better ? runs[RUNS - 1] : runs[0], unit);
}

static void ping_pong(end *self, bool first, uint32_t size) {
    enum { ROUNDS = 100000 };
    double runs[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t start = whi_clock_ns();
        for (int i = 0; i < ROUNDS; i++) {
            if (first)
                send_small(self, size);
            wait_small(self, self->records + 1);
            if (!first)
                send_small(self, size);
        }
        runs[run] = (double)(whi_clock_ns() - start) / ROUNDS / 2 / 1000;
    }
    char what[64];
    snprintf(what, sizeof(what), "%u B half round trip", size);
    if (first)
        report(what, runs, false, "us");
}

static void message_rate(end *self, bool first, uint32_t size) {
    enum { COUNT = 400000 };
    double runs[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t start = whi_clock_ns();
        if (first) {
            for (int i = 0; i < COUNT; i++)
                send_small(self, size);
            wait_small(self, self->records + 1);
        } else {
            wait_small(self, self->records + COUNT);
            send_small(self, 8);
        }
        runs[run] = (double)(whi_clock_ns() - start) / COUNT;
    }
    char what[64];
    snprintf(what, sizeof(what), "%u B one-way", size);
    if (first)
        report(what, runs, false, "ns per message");
}

static void one_way(end *self, bool first, uint64_t size) {
    uint64_t count = (size < (1 << 20) ? (uint64_t)256 << 20 : (uint64_t)384 << 20) / size;
    double runs[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t start = whi_clock_ns();
        if (first) {
            for (uint64_t i = 0; i < count; i++)
                push_all(self, size);
            wait_small(self, self->records + 1);
        } else {
            wait_bytes(self, self->landed + count * size);
            send_small(self, 8);
        }
        runs[run] = (double)(count * size) / (double)(whi_clock_ns() - start);
    }
    char what[64];
    snprintf(what, sizeof(what), "%zu KiB one-way", (size_t)size >> 10);
    if (first)
        report(what, runs, true, "GB/s");
}

static void large_latency(end *self, bool first, uint64_t size) {
    uint64_t count = ((uint64_t)256 << 20) / size;
    double runs[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t start = whi_clock_ns();
        for (uint64_t i = 0; i < count; i++) {
            if (first)
                push_all(self, size);
            wait_bytes(self, self->landed + size);
            if (!first)
                push_all(self, size);
        }
        runs[run] = (double)(whi_clock_ns() - start) / (double)count / 2 / 1000;
    }
    char what[64];
    snprintf(what, sizeof(what), "%zu KiB half round trip", (size_t)size >> 10);
    if (first)
        report(what, runs, false, "us");
}

static void idle_poll(end *self) {
    enum { POLLS = 10000000 };
    double runs[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t start = whi_clock_ns();
        for (int i = 0; i < POLLS; i++)
            progress(self);
        runs[run] = (double)(whi_clock_ns() - start) / POLLS;
    }
    report("idle poll", runs, false, "ns");
}

// Both ends in one process: what send and poll execute, without the transfer of cache lines.
static void own_work(void) {
    enum { COUNT = 100, ROUNDS = 20000 };
    test_wire wires[2];
    end ends[2] = {0};
    int fds[2];
    test_wire_pair(wires);
    for (int i = 0; i < 2; i++) {
        opts.wire_arg = &wires[i];
        ends[i].memory = ends[i].small;
        if (whi_shm_create(&opts, &up, &ends[i], &ends[i].lane, &fds[i]) != WH_OK)
            die("create failed");
    }
    if (whi_shm_attach(ends[0].lane, fds[1]) != WH_OK ||
        whi_shm_attach(ends[1].lane, fds[0]) != WH_OK)
        die("attach failed");
    double sends[RUNS], polls[RUNS];
    for (int run = 0; run < RUNS; run++) {
        uint64_t send_ns = 0, poll_ns = 0;
        for (int round = 0; round < ROUNDS; round++) {
            uint64_t start = whi_clock_ns();
            for (int i = 0; i < COUNT; i++)
                send_small(&ends[0], 8);
            uint64_t middle = whi_clock_ns();
            for (int i = 0; i < COUNT; i += 16)
                progress(&ends[1]);
            send_ns += middle - start;
            poll_ns += whi_clock_ns() - middle;
        }
        sends[run] = (double)send_ns / COUNT / ROUNDS;
        polls[run] = (double)poll_ns / COUNT / ROUNDS;
    }
    report("own work of an 8 B send", sends, false, "ns");
    report("own work of its delivery", polls, false, "ns");
    idle_poll(&ends[0]);
    for (int i = 0; i < 2; i++)
        ends[i].lane->ops->close(ends[i].lane);
}

static void connect_ends(end *self, test_wire *wire) {
    opts.wire_arg = wire;
    int fd = -1;
    if (whi_shm_create(&opts, &up, self, &self->lane, &fd) != WH_OK ||
        test_wire_send_fd(wire, fd) != WH_OK)
        die("create failed");
    close(fd);
    while ((fd = test_wire_take_fd(wire)) < 0)
        sched_yield();
    if (whi_shm_attach(self->lane, fd) != WH_OK)
        die("attach failed");
}

static void run(bool first, test_wire *wire) {
    static end self;
    pin(first ? 0 : 1);
    self.memory = malloc(LARGEST);
    if (!self.memory)
        die("out of memory");
    memset(self.memory, 1, LARGEST);
    connect_ends(&self, wire);
    ping_pong(&self, first, 8);
    ping_pong(&self, first, 1008);
    message_rate(&self, first, 8);
    message_rate(&self, first, 1008);
    for (uint64_t size = 64 << 10; size <= LARGEST; size *= size < (1 << 20) ? 4 : 8)
        one_way(&self, first, size);
    for (uint64_t size = 64 << 10; size <= LARGEST; size *= 16)
        large_latency(&self, first, size);
    one_way(&self, first, LARGEST);
    free(self.memory);
}

int main(int argc, char **argv) {
    whi_shm_budget_init(&budget, (size_t)256 << 20);
    if (argc > 1)
        opts.chunk_max = strtoul(argv[1], NULL, 0) << 10;
    if (argc > 2)
        opts.chunks = (unsigned)strtoul(argv[2], NULL, 0);
    if (argc > 3)
        opts.eager_limit = strtoul(argv[3], NULL, 0);
    opts.asymmetric = whi_shm_barrier_init();
    own_work();
    test_wire wires[2];
    test_wire_pair(wires);
    pid_t child = fork();
    if (child == 0) {
        opts.asymmetric = whi_shm_barrier_init();
        run(false, &wires[1]);
        _exit(0);
    }
    run(true, &wires[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
}
