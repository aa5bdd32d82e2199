// SPDX-License-Identifier: BSD-3-Clause
//
// How far the stream lane is from a bare socket: both in turn, over TCP loopback and AF_UNIX.
//
// Two processes, each pinned to a processor where there are two.  Each round measures bare and lane
// right after each other, so that a machine that changes its speed changes both; the medians of the
// rounds are printed.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/stream/stream.h"

enum {
    ROUNDS = 11,
    TRIPS = 4000,
    EAGER = 64 * 1024,
    CHUNK = 1024 * 1024,
    VOLUME = 256,  // chunks per round
};

#define MUST(cond) ((cond) ? (void)0 : (perror(#cond), exit(1)))

typedef struct side {
    int fd;
    whi_lane *lane;
    unsigned records, chunks;
    char *memory;
} side;

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)hdr, (void)payload;
    ((side *)link)->records++;
    return WH_OK;
}

static void consume(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy(((side *)ctx)->memory + offset, host, size);
}

static void produce(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy(host, ((side *)ctx)->memory + offset, size);
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    side *self = link;
    if (hdr->ep)
        *span = (whi_span){.move = consume, .ctx = self, .base = hdr->arg};
    else
        *span = (whi_span){.ptr = self->memory + hdr->arg};
    return WH_OK;
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    side *self = link;
    self->chunks += hdr->arg + hdr->size == CHUNK;
    return WH_OK;
}

static const whi_lane_up up = {.deliver = on_deliver, .sink = on_sink, .landed = on_landed};

static void poll_lane(side *self) {
    MUST(self->lane->ops->poll(self->lane, 16) >= 0);
}

// ---- one message there and one back

static void bare_send(const side *self, const void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = send(self->fd, (const char *)data + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        MUST(n > 0 || errno == EAGAIN);
        at += n > 0 ? (size_t)n : 0;
    }
}

static void bare_recv(const side *self, void *data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = recv(self->fd, (char *)data + at, size - at, MSG_DONTWAIT);
        MUST(n > 0 || (n < 0 && errno == EAGAIN));
        at += n > 0 ? (size_t)n : 0;
    }
}

static void bare_trips(side *self, bool first, size_t size) {
    for (int i = 0; i < TRIPS; i++) {
        if (first)
            bare_send(self, self->memory, size);
        bare_recv(self, self->memory, size);
        if (!first)
            bare_send(self, self->memory, size);
    }
}

static void lane_send(side *self, size_t size) {
    whi_hdr hdr = {.cls = 0x20, .size = (uint32_t)size};
    wh_status status;
    while ((status = self->lane->ops->send(self->lane, &hdr, self->memory)) == WH_EAGAIN)
        poll_lane(self);
    MUST(status == WH_OK);
}

static void lane_trips(side *self, bool first, size_t size) {
    self->records = 0;
    for (unsigned i = 1; i <= TRIPS; i++) {
        if (first)
            lane_send(self, size);
        while (self->records < i)
            poll_lane(self);
        if (!first)
            lane_send(self, size);
    }
}

// ---- bulk one way, and a byte back

static void bare_bulk(side *self, bool first, size_t moved) {
    (void)moved;
    for (int i = 0; i < VOLUME; i++)
        if (first)
            bare_send(self, self->memory, CHUNK);
        else
            bare_recv(self, self->memory, CHUNK);
    if (first)
        bare_recv(self, self->memory, 1);
    else
        bare_send(self, self->memory, 1);
}

static void lane_push(side *self, bool moved) {
    size_t at = 0, part = 0;
    while (at < CHUNK) {
        whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .arg = at, .ep = moved};
        whi_span src = {.ptr = self->memory + at};
        if (moved)
            src = (whi_span){.move = produce, .ctx = self, .base = at};
        wh_status status = self->lane->ops->push(self->lane, &hdr, &src, CHUNK - at, &part);
        MUST(status >= 0 || status == WH_EAGAIN);
        if (status >= 0)
            at += part;
        if (status != WH_OK)
            poll_lane(self);
    }
}

static void lane_bulk(side *self, bool first, size_t moved) {
    self->records = self->chunks = 0;
    for (int i = 0; first && i < VOLUME; i++)
        lane_push(self, moved);
    while (first ? self->records == 0 : self->chunks < VOLUME)
        poll_lane(self);
    if (!first)
        lane_send(self, 1);
}

// ---- rounds

typedef void (*measured_fn)(side *self, bool first, size_t size);

static uint64_t timed(measured_fn fn, side *self, bool first, size_t size) {
    uint64_t begin = whi_clock_ns();
    fn(self, first, size);
    return whi_clock_ns() - begin;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t values[ROUNDS]) {
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    return values[ROUNDS / 2];
}

static void compare(side *self, bool first, const char *what, measured_fn bare, measured_fn lane,
                    size_t size, bool bulk) {
    uint64_t bare_ns[ROUNDS], lane_ns[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        bare_ns[i] = timed(bare, self, first, size);
        lane_ns[i] = timed(lane, self, first, size);
    }
    if (!first)
        return;
    double b = (double)median(bare_ns), l = (double)median(lane_ns), bytes = (double)VOLUME * CHUNK;
    if (bulk)
        printf("%-22s bare %6.2f GB/s  lane %6.2f GB/s  lane/bare %.3f\n", what, bytes / b,
               bytes / l, b / l);
    else
        printf("%-22s bare %6.2f us    lane %6.2f us    lane/bare %.3f\n", what, b / TRIPS / 2000,
               l / TRIPS / 2000, l / b);
}

static void run(int fd, bool first, bool local) {
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(first, &cpu);
    (void)sched_setaffinity(0, sizeof(cpu), &cpu);  // with one processor, we measure that
    side self = {.fd = fd, .memory = malloc(CHUNK)};
    MUST(self.memory);
    memset(self.memory, 1, CHUNK);
    whi_stream_opts opts = {.eager_limit = EAGER, .chunk = CHUNK, .local = local};
    MUST(whi_stream_create(fd, &opts, &up, &self, &self.lane) == WH_OK);
    compare(&self, first, "8 B there and back", bare_trips, lane_trips, 8, false);
    compare(&self, first, "1 KiB", bare_trips, lane_trips, 1024, false);
    compare(&self, first, "16 KiB", bare_trips, lane_trips, 16384, false);
    compare(&self, first, "1 MiB chunks", bare_bulk, lane_bulk, false, true);
    compare(&self, first, "1 MiB, both moved", bare_bulk, lane_bulk, true, true);
    self.lane->ops->close(self.lane);
    free(self.memory);
}

static void pair_tcp(int fds[2]) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(name);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(bind(listener, (struct sockaddr *)&name, length) == 0 && listen(listener, 1) == 0);
    MUST(getsockname(listener, (struct sockaddr *)&name, &length) == 0);
    MUST((fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
    MUST(connect(fds[0], (struct sockaddr *)&name, length) == 0);
    MUST((fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    close(listener);
}

static void both(const char *what, const int fds[2], bool local) {
    printf("%s\n", what);
    fflush(stdout);
    pid_t child = fork();
    MUST(child >= 0);
    close(fds[child == 0]);
    run(fds[child != 0], child != 0, local);
    if (child == 0)
        exit(0);
    MUST(waitpid(child, NULL, 0) == child);
}

int main(void) {
    int fds[2];
    pair_tcp(fds);
    both("TCP loopback", fds, false);
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    both("AF_UNIX", fds, true);
    return 0;
}
