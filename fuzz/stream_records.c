// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what a stranger may write into the socket of a stream lane.
//
// The first byte of an input chooses the kind of socket, the budget and the mode; the rest is cut
// into pieces, each behind a byte that says how long it is, whether a descriptor goes with it and
// whether the lane is polled after it.  The upcalls check what a lane promises to its owner
// whatever its peer does.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "net/stream/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    EAGER = 200,
    CHUNK = 3000,
    // First byte.
    LOCAL = 0x01,
    BYTES = 0x02,
    ONE_BY_ONE = 0x04,
    LONG = 0x08,
    // Each piece.
    LENGTH = 0x3f,
    WITH_FD = 0x40,
    THEN_POLL = 0x80,
    // Classes to which the owner reacts.
    CLASS_LAST = 0x10,   // byte mode from here
    CLASS_TAKE = 0x11,   // takes a descriptor
    CLASS_REJECT = 0x12  // does not like it
};

#define MUST(cond) ((cond) ? (void)0 : abort())

typedef struct owner {
    whi_lane *lane;
    bool landing, over, takes_long;
    whi_hdr chunk;
    uint64_t moved;  // bytes that have come through `move`
    uint8_t *memory;
    unsigned sum;  // of all payload bytes, so that each is read
} owner;

static void take(owner *self) {
    int fd = whi_stream_take_fd(self->lane);
    if (fd >= 0)
        MUST(close(fd) == 0);
}

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    owner *self = link;
    MUST(!self->landing && !self->over);
    MUST(hdr->size <= EAGER && hdr->cls < WHI_CLASS_LANE && hdr->cls != WHI_CLASS_CHUNK);
    MUST(hdr->cls != WHI_CLASS_LONG);
    for (uint32_t i = 0; i < hdr->size; i++)
        self->sum += ((const uint8_t *)payload)[i];
    if (hdr->cls == CLASS_LAST) {
        whi_stream_rx_bytes(self->lane);
        self->over = true;
    } else if (hdr->cls == CLASS_TAKE) {
        take(self);
    }
    return hdr->cls == CLASS_REJECT ? WH_EPROTOCOL : WH_OK;
}

static void consume(void *ctx, uint64_t offset, void *host, size_t size) {
    owner *self = ctx;
    MUST(self->landing && size > 0);
    MUST(offset == 7 + self->moved && size <= self->chunk.size - self->moved);
    memcpy(self->memory + self->moved, host, size);
    self->moved += size;
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    owner *self = link;
    MUST(!self->landing && !self->over);
    MUST(hdr->cls == WHI_CLASS_CHUNK || (hdr->cls == WHI_CLASS_LONG && self->takes_long));
    MUST(hdr->size > 0 && hdr->size <= CHUNK);
    if (hdr->flags == 0xff)
        return WH_EPROTOCOL;
    self->landing = true;
    self->chunk = *hdr;
    self->moved = 0;
    free(self->memory);
    self->memory = malloc(hdr->size);  // of just this size: a byte too many is seen
    MUST(self->memory);
    *span = hdr->seq % 2 ? (whi_span){.ptr = self->memory}
                         : (whi_span){.move = consume, .ctx = self, .base = 7};
    return WH_OK;
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    owner *self = link;
    MUST(self->landing && memcmp(hdr, &self->chunk, sizeof(*hdr)) == 0);
    MUST(hdr->seq % 2 || self->moved == hdr->size);
    self->landing = false;
    for (uint32_t i = 0; i < hdr->size && hdr->seq % 2 == 0; i++)
        self->sum += self->memory[i];
    return hdr->aux == 0xffff ? WH_EPROTOCOL : WH_OK;
}

static const whi_lane_up up = {.deliver = on_deliver, .sink = on_sink, .landed = on_landed};

static void put(int to, const uint8_t *bytes, size_t size, int fd) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof(control.space);
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    }
    // What finds the socket full is left out; the rest is as good an attack.
    (void)!sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// poll_lane polls and returns false once the lane has failed, which it then does for good.
static bool poll_lane(owner *self, int budget) {
    whi_lane *lane = self->lane;
    int events = lane->ops->poll(lane, budget);
    if (events < 0) {
        MUST(lane->ops->poll(lane, budget) == events && lane->ops->ready(lane, false));
        return false;
    }
    if (events % 2)
        lane->ops->arm(lane, false);
    if (self->over)
        take(self);
    return true;
}

static void feed(owner *self, int to, const uint8_t *data, size_t size, int budget, int fd) {
    for (size_t at = 0; at < size;) {
        uint8_t how = data[at++];
        size_t length = how & LENGTH;
        length = length < size - at ? length : size - at;
        if (length > 0)
            put(to, data + at, length, how & WITH_FD ? fd : -1);
        at += length;
        if (how & THEN_POLL && !poll_lane(self, budget))
            return;
    }
    shutdown(to, SHUT_WR);
    // Whatever it was, it ends.
    while (poll_lane(self, budget))
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    wh_status level = wh_log_set_level("off");
    MUST(level == WH_OK);
    int sockets[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    owner self = {.over = data[0] & BYTES, .takes_long = data[0] & LONG};
    whi_stream_opts opts = {.eager_limit = EAGER,
                            .chunk = CHUNK,
                            .takes_long = self.takes_long,
                            .local = data[0] & LOCAL};
    MUST(whi_stream_create(sockets[0], &opts, &up, &self, &self.lane) == WH_OK);
    if (self.over)
        whi_stream_rx_bytes(self.lane);
    feed(&self, sockets[1], data + 1, size - 1, data[0] & ONE_BY_ONE ? 1 : 64, fd);
    self.lane->ops->close(self.lane);
    close(sockets[1]);
    close(fd);
    free(self.memory);
    return 0;
}
