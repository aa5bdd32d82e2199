// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzzes what a lane over shared memory makes of the memory and the descriptors of its peer.
//
// The input is a script of the peer's deeds, each an operation byte and its arguments: write into
// the ring, into the words beside it, into the victim's own ring or into bulk memory; pass a
// descriptor; or let the victim poll, send, push or get ready to sleep.  Whatever it does, the
// victim must stay inside its mappings and hold what lane.h promises to its owner.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/shm/shm_lane.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RING = 4096, BULK = 128 << 10, EAGER = 512, LARGEST = 256 << 10 };

// The peer: its ring, its bulk memory, and the descriptor that it passes next.
typedef struct peer {
    whi_region *ring, *bulk;
    int ring_fd, bulk_fd;
    int passed;
} peer;

static unsigned char memory[LARGEST];
static volatile unsigned sum;

static void must(bool condition) {
    if (!condition)
        abort();
}

static wh_status on_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link;
    must(hdr->size <= EAGER && hdr->cls < WHI_CLASS_LANE && hdr->cls != WHI_CLASS_CHUNK &&
         hdr->cls != WHI_CLASS_LONG);
    for (uint32_t i = 0; i < hdr->size; i++)
        sum += ((const unsigned char *)payload)[i];
    return hdr->flags == 0xff ? WH_EPROTOCOL : WH_OK;
}

static wh_status on_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link;
    must(hdr->size > 0 && (hdr->cls == WHI_CLASS_CHUNK ||
                           (hdr->cls == WHI_CLASS_LONG && hdr->size <= WHI_SHM_LONG_MOST)));
    *span = (whi_span){.ptr = memory};
    return hdr->size <= LARGEST ? WH_OK : WH_EPROTOCOL;
}

static wh_status on_landed(void *link, const whi_hdr *hdr) {
    (void)link;
    sum += hdr->size;
    return WH_OK;
}

static wh_status on_bell(void *arg) {
    (void)arg;
    return WH_OK;
}

static wh_status on_send_fd(void *arg, int fd) {
    (void)arg;
    return fcntl(fd, F_GETFD) >= 0 ? WH_OK : WH_EAGAIN;
}

static int on_take_fd(void *arg) {
    peer *self = arg;
    int fd = self->passed;
    self->passed = -1;
    return fd >= 0 ? fd : WH_EAGAIN;
}

static void pass(peer *self, uint8_t which) {
    if (self->passed >= 0)
        close(self->passed);
    switch (which % 4) {
    case 0: self->passed = -1; break;
    case 1: self->passed = fcntl(self->ring_fd, F_DUPFD_CLOEXEC, 0); break;
    case 2: self->passed = fcntl(self->bulk_fd, F_DUPFD_CLOEXEC, 0); break;
    default: self->passed = open("/dev/null", O_RDWR | O_CLOEXEC); break;
    }
}

// Writes 8 bytes of the script anywhere into a region.
static void scribble(const whi_region *region, whi_reader *script) {
    size_t at = whi_reader_u32(script) % (region->size / 8) * 8;
    whi_reader_copy(script, (char *)region->base + at, 8);
}

// Publishes a record where the victim looks next: a class, a size, and payload if that is in the
// ring.
static void publish(whi_ring_rx *rx, bool takes_long, whi_reader *script) {
    static const uint8_t classes[] = {
        0x10,          WHI_CLASS_CHUNK,   WHI_SHM_PAD, WHI_SHM_RING, WHI_SHM_BULK,
        WHI_SHM_CHUNK, WHI_SHM_BULK_GONE, 0xff,        WHI_SHM_REST, WHI_CLASS_LONG};
    uint8_t cls = classes[whi_reader_u8(script) % (sizeof(classes) - (takes_long ? 0 : 2))];
    uint64_t lead = whi_reader_u16(script) | WHI_RING_LIVE | (uint64_t)cls << 32;
    uint64_t arg = cls == WHI_CLASS_LONG ? whi_reader_u32(script) : 0;
    if (arg)
        memcpy(rx->at + offsetof(whi_hdr, arg), &arg, sizeof(arg));
    if ((rx->pos & rx->mask) + 64 <= rx->mask + 1)
        whi_reader_copy(script, rx->at + sizeof(whi_hdr), sizeof(whi_shm_chunk));
    memcpy(rx->at, &lead, sizeof(lead));
}

static int step(whi_shm *lane, peer *self, whi_reader *script) {
    whi_lane *base = &lane->lane;
    uint8_t op = whi_reader_u8(script);
    whi_hdr hdr = {.cls = 0x10, .size = whi_reader_u16(script) % (EAGER + 1)};
    size_t moved = 0;
    switch (op % 10) {
    case 0: scribble(self->ring, script); break;
    case 1: scribble(lane->tx_region, script); break;
    case 2: scribble(self->bulk, script); break;
    case 3: scribble(lane->out_region ? lane->out_region : self->ring, script); break;
    case 4: publish(&lane->rx, lane->takes_long, script); break;
    case 5: pass(self, whi_reader_u8(script)); break;
    case 6: (void)base->ops->send(base, &hdr, memory); break;
    case 7:
        hdr.cls = WHI_CLASS_CHUNK;
        (void)base->ops->push(base, &hdr, &(whi_span){.ptr = memory}, 1 + hdr.size * 400, &moved);
        break;
    case 8:
        base->ops->arm(base, true);
        (void)base->ops->ready(base, true);
        break;
    default: return base->ops->poll(base, 4);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const whi_shm_wire wire = {on_bell, on_send_fd, on_take_fd};
    static const whi_lane_up up = {.deliver = on_deliver, .sink = on_sink, .landed = on_landed};
    whi_log_set_level(WHI_LOG_OFF);
    whi_reader script;
    whi_reader_init(&script, data, size);
    uint8_t shape = whi_reader_u8(&script);

    whi_shm_budget budget;
    whi_shm_budget_init(&budget, 16 << 20);
    peer self = {.passed = -1};
    must(whi_region_create("fuzz", sizeof(whi_ring_shared) + RING, &self.ring, &self.ring_fd) ==
         WH_OK);
    must(whi_region_create("fuzz", sizeof(whi_bulk_shared) + BULK, &self.bulk, &self.bulk_fd) ==
         WH_OK);
    whi_shm_opts opts = {.ring_size = RING,
                         .ring_max = shape & 1 ? 2 * RING : 0,
                         .eager_limit = EAGER,
                         .chunks = shape & 2 ? 2 : 0,
                         .chunk_max = 64 << 10,
                         .asymmetric = shape & 4,
                         .takes_long = shape & 8,
                         .budget = &budget,
                         .wire = &wire,
                         .wire_arg = &self};
    whi_lane *lane = NULL;
    int fd = -1;
    must(whi_shm_create(&opts, &up, &self, &lane, &fd) == WH_OK);
    close(fd);
    must(whi_shm_attach(lane, fcntl(self.ring_fd, F_DUPFD_CLOEXEC, 0)) == WH_OK);

    int events = 0;
    while (events >= 0 && whi_reader_left(&script) > 0)
        events = step((whi_shm *)lane, &self, &script);
    if (events >= 0)
        events = lane->ops->poll(lane, 1000);
    must(events >= 0 || lane->ops->poll(lane, 1) == events);

    lane->ops->close(lane);
    must(budget.used == 0);
    pass(&self, 0);
    whi_region_release(self.ring);
    whi_region_release(self.bulk);
    close(self.ring_fd);
    close(self.bulk_fd);
    return 0;
}
