// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what a peer may send once it has a link.
//
// An input is a program of single bytes with arguments: records of every class with nearly right fields, chunks, and, in
// between, operations of the victim's user, of host memory, of layouts and of a device whose copies are late; who has
// registered memory that the peer knows the ids of.  The link runs over a loop lane whose other end only this file has.  In the
// end the peer goes; then every operation on its endpoints must have ended, exactly once, what was posted for
// any source must still be posted, the match tables must count right, and no memory must be in use.
#include <stdlib.h>
#include <string.h>

#include <wherry/wherry.h>

#include "base/log.h"
#include "link/link.h"
#include "mem/sim.h"
#include "message/endpoint.h"
#include "net/loop/loop.h"
#include "rma/rma.h"
#include "worker/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { EPS = 4, OPS = 64, EAGER = 2048, LARGE = 40000, HEAD_MAX = 1 << 28 };
enum { WORD = 8, LATE_NS = 20 * 1000 };
enum {
    MEMORIES = 4,
    FIRST_ID = 0x20
};  // the ids of registered memory, so that an input can name them

static struct {
    const uint8_t *at;
    size_t left;
    wh_context *ctx;
    wh_worker *worker;
    whi_link *link;  // may be gone
    whi_lane *peer;
    uint8_t uuid[16];
    wh_endpoint *eps[EPS];
    unsigned ep_count;
    wh_request *ops[OPS];
    uint8_t *memory[OPS];  // of the receives, each with exactly its size
    wh_mem_kind kind[OPS];
    unsigned op_count;
    unsigned started, told;
    uint32_t seq[2 * EPS + 2];  // by endpoint number
    wh_object *parked;
    size_t parked_index;
    wh_am *kept;
} f;

static uint8_t source[LARGE], *device_source;
static wh_type *spread;  // one word of two
static wh_mr *mrs[MEMORIES];

// ---- input

static uint8_t take_u8(void) {
    if (!f.left)
        return 0;
    f.left--;
    return *f.at++;
}

static uint16_t take_u16(void) {
    uint16_t high = take_u8();
    return (uint16_t)(high << 8 | take_u8());
}

static uint64_t take_number(void) {
    // Small ones in one byte, the large ones that matter in one more, any in eight.
    static const uint64_t special[] = {
        UINT64_MAX, UINT64_MAX / 2,      UINT32_MAX, UINT64_C(1) << 32,
        LARGE,      (uint64_t)LARGE - 1, EAGER,      INT64_MAX};
    uint8_t first = take_u8();
    if (first < 0xf0)
        return first;
    if (first < 0xf8)
        return special[first & 7];
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | take_u8();
    return value;
}

// ---- the victim's callbacks

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    f.told++;
    if (arg && result->status != WH_OK)
        f.parked = NULL;  // an object goes with its receive
    if (result->object)
        wh_object_free(result->object);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    if (f.ep_count < EPS)
        f.eps[f.ep_count++] = ep;
    else
        wh_endpoint_abort(ep);
}

// on_answer does what the first byte of the peer's connect data says, else it gives that back.
static wh_status on_answer(wh_endpoint *ep, void *data, size_t *size, void *arg) {
    (void)arg;
    wh_peer_info info = {.size = sizeof(info)};
    MUST(wh_endpoint_peer_info(ep, &info) == WH_OK && *size == sizeof(f.uuid));
    const char *said = wh_endpoint_peer_data(ep, size);
    MUST(!said == !*size && *size <= WH_CONNECT_DATA_MAX);
    if (said)
        memcpy(data, said, *size);
    switch (said ? said[0] : 0) {
    case 'a': wh_endpoint_abort(ep); return WH_OK;
    case 'c': return wh_endpoint_close(ep, NULL, NULL);
    case 'n': return WH_EPERM;
    default: return WH_OK;
    }
}

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    for (size_t i = 0; i < am->header_size; i++)
        source[0] ^= ((const uint8_t *)am->header)[i];
    for (size_t i = 0; am->data && i < am->size; i++)
        source[0] ^= ((const uint8_t *)am->data)[i];
    if (am->id % 2 || f.kept)
        return WH_OK;
    f.kept = am;
    return WH_PENDING;
}

static wh_status on_alloc(wh_object *object, size_t index, void **ptr, void *arg) {
    (void)arg;
    size_t size = wh_object_frame(object, index)->size;
    if (size > 1 << 20)
        return WH_ENOMEM;
    if (index % 4 == 1 && !f.parked) {
        f.parked = object;
        f.parked_index = index;
        return WH_PENDING;
    }
    *ptr = malloc(size + 1);
    return *ptr ? WH_OK : WH_ENOMEM;
}

static void on_free(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg) {
    (void)size, (void)kind, (void)device, (void)arg;
    free(ptr);
}

// ---- the peer's end

static wh_status peer_deliver(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link, (void)hdr, (void)payload;
    return WH_OK;
}

static wh_status peer_sink(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link;
    static uint8_t rest[1 << 20];
    *span = (whi_span){.ptr = rest};
    return hdr->size <= sizeof(rest) ? WH_OK : WH_EPROTOCOL;
}

static wh_status peer_landed(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    return WH_OK;
}

static const whi_lane_up peer_up = {
    .deliver = peer_deliver, .sink = peer_sink, .landed = peer_landed};

static void make_link(bool reorders) {
    whi_loop_opts opts = {
        .window = 256, .eager_limit = EAGER, .long_limit = LARGE, .reorder = reorders};
    whi_loop_net *net = NULL;
    whi_lane *lane = NULL;
    for (int i = 0; i < 16; i++)
        f.uuid[i] = (uint8_t)(i + 1);
    MUST(whi_link_bare(f.worker, f.uuid, false, "the peer", &f.link) == WH_OK);
    MUST(whi_loop_net_create(&opts, &net) == WH_OK);
    MUST(whi_loop_pair(net, whi_link_up_of(f.link)->lane_up, f.link, &lane, &peer_up, NULL,
                       &f.peer) == WH_OK);
    whi_loop_net_release(net);
    whi_link_set_lane(f.link, lane);
}

static bool link_lives(void) {
    return whi_link_find(f.worker, f.uuid) != NULL;
}

static void progress(void) {
    for (int i = 0; i < 4; i++) {
        (void)wh_worker_progress(f.worker);
        (void)f.peer->ops->poll(f.peer, 64);
    }
}

// fill_offer writes an offer that is nearly right: of the device memory below, or of what the input says.
static void fill_offer(uint8_t *payload, whi_hdr *hdr) {
    uint8_t how = take_u8();
    uint64_t at = take_number();
    whi_device_offer offer = {
        .size = take_number(),
        .at = how & 0x80 ? at : (uint64_t)(uintptr_t)device_source + at % (2 * LARGE),
        .kind = how & 0x40 ? WH_MEM_CUDA : WH_MEM_SIM,
        .how = how & 3,
        .length = LARGE};
    memcpy(payload, &offer, sizeof(offer));
    hdr->size = how & 0x20 ? hdr->size : sizeof(offer);
}

static void send_record(void) {
    static const uint8_t classes[] = {
        WHI_CLASS_TAG,    WHI_CLASS_OBJECT,     WHI_CLASS_AM,        WHI_CLASS_WITHDRAW,
        WHI_CLASS_FLUSH,  WHI_CLASS_CLOSE,      WHI_CLASS_GRANT,     WHI_CLASS_ACK,
        WHI_CLASS_CREDIT, WHI_CLASS_ABORT,      WHI_CLASS_FLUSH_ACK, WHI_CLASS_CLOSE_ACK,
        WHI_CLASS_OPEN,   WHI_CLASS_ACCEPT,     WHI_CLASS_REFUSE,    WHI_CLASS_BYE,
        WHI_CLASS_PUT,    WHI_CLASS_GET,        WHI_CLASS_ATOMIC,    WHI_CLASS_MAP,
        WHI_CLASS_MAPPED, WHI_CLASS_RMA_ANSWER, WHI_CLASS_OFFER,     WHI_CLASS_TAKEN};
    uint8_t payload[EAGER] = {0};
    uint8_t what = take_u8(), mode = take_u8();
    uint8_t which = what < sizeof(classes) ? what : what & 15;
    whi_hdr hdr = {.cls = what & 0x80 ? what % WHI_CLASS_LANE : classes[which],
                   .flags = mode & 3,
                   .aux = mode >> 2 & 1,
                   .ep = (uint32_t)take_number(),
                   .tag = take_number(),
                   .arg = take_number()};
    if (hdr.cls == WHI_CLASS_CHUNK || hdr.cls == WHI_CLASS_LONG)
        return;
    // A head of gigabytes is refused or only reserved, never touched; the fuzzer would take it for a lack of bounds.
    if (hdr.cls == WHI_CLASS_OBJECT && hdr.arg > HEAD_MAX && hdr.arg <= UINT64_C(1) << 34)
        hdr.arg = HEAD_MAX;
    if (hdr.cls == WHI_CLASS_ATOMIC || hdr.cls == WHI_CLASS_RMA_ANSWER) {
        uint8_t aux =
            take_u8();  // the operation and half the bytes of the word, or what is answered
        hdr.aux = hdr.cls == WHI_CLASS_ATOMIC ? (aux & 7) | (aux >> 3) << 9 : aux & 7;
    }
    if (mode & 0x80)  // what the elements of a message are
        hdr.aux = take_u16();
    if (mode & 0x08)  // names of sends and grants: generation and slot
        hdr.tag = (hdr.tag & 0xf) | UINT64_C(1) << 22 | (hdr.tag & 0xf0) << 28 | UINT64_C(1) << 54;
    bool ordered = hdr.cls >= WHI_CLASS_TAG && hdr.cls < WHI_CLASS_UNORDERED;
    uint32_t *next = &f.seq[hdr.ep < 2 * EPS + 2 ? hdr.ep : 0];
    hdr.seq = ordered && !(mode & 0x10) ? (*next)++ : (uint32_t)take_number();
    size_t size = take_u8() * (mode & 0x20 ? 8u : 1u);
    size = size < f.left ? size : f.left;
    if (size)
        memcpy(payload, f.at, size);
    f.at += size;
    f.left -= size;
    hdr.size = (uint32_t)(mode & 0x40 ? (size + 8 < EAGER ? size + 8 : EAGER) : size);
    if (hdr.size > EAGER)
        hdr.size = EAGER;
    if (hdr.cls == WHI_CLASS_OFFER)
        fill_offer(payload, &hdr);
    (void)f.peer->ops->send(f.peer, &hdr, payload);
}

static void send_chunk(void) {
    whi_hdr hdr = {.cls = WHI_CLASS_CHUNK,
                   .ep = (uint32_t)((take_u8() & 15) | 1u << 22),
                   .seq = take_u8(),
                   .arg = take_number()};
    whi_span src = {.ptr = source};
    size_t moved = 0, size = (size_t)(take_number() % LARGE);
    if (size)
        (void)f.peer->ops->push(f.peer, &hdr, &src, size, &moved);
}

static void send_long(void) {
    uint8_t mode = take_u8();
    whi_hdr hdr = {.cls = WHI_CLASS_LONG,
                   .flags = mode & 0x40 ? mode & 3 : 0,
                   .ep = mode & 7,
                   .tag = take_u8(),
                   .aux = mode & 0x20 ? take_u16() : 0,
                   .size = 1 + (uint32_t)(take_number() % LARGE)};
    hdr.seq = mode & 0x80 ? (uint32_t)take_number() : f.seq[hdr.ep]++;
    whi_span src = {.ptr = source};
    if (f.peer->ops->long_limit(f.peer))
        (void)f.peer->ops->send_long(f.peer, NULL, NULL, &hdr, &src);
}

// ---- the victim's user

// note keeps an operation, so that its end can be checked.  It takes the handle by its address, since the call that writes the
// handle stands beside it.
static void note(wh_status st, wh_request *const *req) {
    if (st != WH_PENDING)
        return;
    f.started++;
    f.ops[f.op_count++] = *req;
}

// What the user says of a buffer: bytes, or every other word; of the host, or of a device.
typedef struct shape {
    size_t size;  // bytes, or words
    const wh_type *type;
    wh_mem_kind kind;
} shape;

static shape shape_of(uint8_t what, size_t size) {
    bool laid = what & 0x10;
    return (shape){.size = laid ? size / WORD / 2 : size,
                   .type = laid ? spread : NULL,
                   .kind = what & 0x20 ? WH_MEM_SIM : WH_MEM_HOST};
}

// room_for allocates memory of just that, to be freed with the operation that is begun next.
static void *room_for(const shape *of) {
    size_t size = of->type && of->size ? (2 * of->size - 1) * WORD : of->type ? 1 : of->size + 1;
    void *made = NULL;
    if (of->kind == WH_MEM_HOST)
        made = malloc(size);
    else
        MUST(wh_mem_alloc_kind(of->kind, 0, size, &made) == WH_OK);
    MUST(made);
    f.memory[f.op_count] = made;
    f.kind[f.op_count] = of->kind;
    return made;
}

static void free_room(unsigned op) {
    if (f.kind[op] == WH_MEM_SIM)
        MUST(wh_mem_free_kind(WH_MEM_SIM, f.memory[op]) == WH_OK);
    else
        free(f.memory[op]);
    f.memory[op] = NULL;
    f.kind[op] = WH_MEM_AUTO;
}

static const uint8_t *source_of(const shape *of) {
    return of->kind == WH_MEM_SIM ? device_source : source;
}

// answer_parked gives the parked object's frame its memory, or rejects the object.
static void answer_parked(bool reject) {
    void *memory = reject ? NULL : malloc(1 << 20);
    if (f.parked && wh_object_accept(f.parked, f.parked_index, memory) == WH_OK)
        memory = NULL;
    free(memory);
    f.parked = NULL;
}

// access_peer puts, gets or adds to memory that the peer may or may not have.
static void access_peer(wh_endpoint *ep, uint8_t id, const shape *of) {
    whi_key key = {.magic = {'W', 'H', 'K', '1'}, .access = WH_MR_ALL, .kind = WH_MEM_HOST};
    key.id = id;
    key.size = LARGE;
    static uint64_t old;
    wh_rkey *rkey = NULL;
    wh_request *req = NULL;
    const wh_op_opts *opts = WH_OP_OPTS(.done = on_done, .type = of->type, .mem = of->kind);
    if (wh_rkey_open(ep, &key, sizeof(key), &rkey) != WH_OK)
        return;
    void *into = room_for(of);
    size_t packed = of->type ? of->size * WORD : of->size;
    switch (id & 3) {
    case 0: note(wh_put(rkey, 0, source_of(of), of->size, opts, &req), &req); break;
    case 1: note(wh_get(rkey, LARGE - packed, into, of->size, opts, &req), &req); break;
    case 2: note(wh_atomic(rkey, 8, WH_ATOMIC_ADD, 8, 1, 0, &old, opts, &req), &req); break;
    default: note(wh_atomic(rkey, 4, WH_ATOMIC_SWAP, 4, 1, 0, NULL, opts, &req), &req);
    }
    wh_rkey_close(rkey);
    if (!req)
        free_room(f.op_count);
}

#define TELL WH_OP_OPTS(.done = on_done, .flags = flags)
#define TELL_OF(shape)                                                                             \
    WH_OP_OPTS(.done = on_done, .flags = flags, .type = (shape)->type, .mem = (shape)->kind)
#define TELL_OF_OBJECT WH_OP_OPTS(.done = on_done, .arg = &f)

// give_up ends an endpoint.
static void give_up(uint8_t which, bool abort, uint32_t flags) {
    wh_endpoint *ep = f.eps[which % f.ep_count];
    wh_request *req = NULL;
    f.eps[which % f.ep_count] = f.eps[f.ep_count - 1];
    f.ep_count--;
    if (abort)
        wh_endpoint_abort(ep);
    else
        note(wh_endpoint_close(ep, TELL, &req), &req);
}

static void user_operation(void) {
    uint8_t what = take_u8(), which = take_u8();
    uint64_t tag = which >> 4, mask = what & 0x80 ? 0 : WH_TAG_MASK_ALL;
    uint32_t flags = what & 0x40 ? WH_OP_SYNC : 0;
    wh_endpoint *ep = f.ep_count ? f.eps[which % f.ep_count] : NULL;
    wh_request *req = NULL;
    if (f.op_count == OPS)
        return;
    size_t size = (size_t)(take_number() % LARGE);
    shape of = shape_of(what, size);
    wh_frame frames[2] = {{(void *)(uintptr_t)source_of(&of), of.size, of.kind, 0, of.type},
                          {.data = source, .size = 3}};
    void *into = NULL;
    switch (what & 15) {
    case 0:
    case 1:
        into = room_for(&of);
        note(what & 1 || !ep
                 ? wh_worker_tag_recv(f.worker, into, of.size, tag, mask, TELL_OF(&of), &req)
                 : wh_tag_recv(ep, into, of.size, tag, mask, TELL_OF(&of), &req),
             &req);
        if (!req)
            free_room(f.op_count);
        return;
    case 2:
        note(wh_worker_object_recv(f.worker, NULL, 0, 0, tag, mask, TELL_OF_OBJECT, &req), &req);
        return;
    case 3:
        if (f.op_count)
            wh_request_cancel(f.ops[which % f.op_count]);
        return;
    case 4: answer_parked(which & 1); return;
    case 5:
        if (f.kept)
            wh_am_drop(f.kept);
        f.kept = NULL;
        return;
    default: break;
    }
    if (!ep)
        return;
    switch (what & 15) {
    case 6: note(wh_tag_send(ep, source_of(&of), of.size, tag, TELL_OF(&of), &req), &req); return;
    case 7:
        note(wh_object_send(ep, source, size % 3000, frames, 2, sizeof(wh_frame), tag, TELL, &req),
             &req);
        return;
    case 8: {
        size_t given = what & 0x30 ? 1 : 0;
        frames[0].data = given ? room_for(&of) : NULL;
        note(wh_object_recv(ep, frames, given, sizeof(wh_frame), tag, mask, TELL_OF_OBJECT, &req),
             &req);
        if (!req)
            free_room(f.op_count);
        return;
    }
    case 9:
        note(wh_am_send(ep, 1, source, size % 1000, source_of(&of), of.size, TELL_OF(&of), &req),
             &req);
        return;
    case 10: note(wh_endpoint_flush(ep, TELL, &req), &req); return;
    case 13: access_peer(ep, which, &of); return;
    case 14: MUST(wh_endpoint_fence(ep) != WH_ENOMEM); return;
    default: give_up(which, what & 1, flags);
    }
}

// ---- the whole

// register_memory registers host memory with and without rights, and a device's, each under an id that is known.
static void register_memory(wh_context *ctx) {
    static const unsigned rights[MEMORIES] = {WH_MR_ALL, WH_MR_READ, WH_MR_ALL, WH_MR_ALL};
    for (unsigned i = 0; i < MEMORIES; i++) {
        size_t size = i % 2 ? LARGE : 100;
        void *ptr = i == 2 ? NULL : malloc(size);
        wh_mem_kind kind = i == 2 ? WH_MEM_SIM : WH_MEM_HOST;
        if (i == 2)
            MUST(wh_mem_alloc_kind(WH_MEM_SIM, 0, size, &ptr) == WH_OK);
        MUST(ptr && wh_mr_register(ctx, ptr, size, kind, rights[i], &mrs[i]) == WH_OK);
        MUST(whi_hash_remove(&mrs[i]->table->mrs, mrs[i]->id) == mrs[i]);
        mrs[i]->id = FIRST_ID + i;
        MUST(whi_hash_put(&mrs[i]->table->mrs, mrs[i]->id, mrs[i]) == WH_OK);
    }
}

static void begin(void) {
    static wh_context *ctx;
    if (!ctx) {
        static const char *const options[] = {"credit=64K",
                                              "announce_max=20",
                                              "eager_max=2K",
                                              "lanes=stream",
                                              "stage_chunk=64K",
                                              "stage_max=256K",
                                              NULL};
        MUST(wh_log_set_level("off") == WH_OK && wh_context_create(options, &ctx) == WH_OK);
        register_memory(ctx);
        void *memory = NULL;
        MUST(wh_mem_alloc_kind(WH_MEM_SIM, 0, LARGE, &memory) == WH_OK);
        device_source = memory;
        MUST(wh_type_create_resized(wh_type_basic(WH_TYPE_INT64), 0, 2 * WORD, &spread) == WH_OK);
        whi_sim_set_delay(LATE_NS);
    }
    f.ctx = ctx;
    MUST(wh_worker_create(ctx,
                          WH_WORKER_OPTS(.accept = on_accept, .answer = on_answer,
                                         .accept_data = source, .accept_data_size = sizeof(f.uuid)),
                          &f.worker) == WH_OK);
    for (uint16_t id = 0; id < 4; id++)
        MUST(wh_worker_set_am(f.worker, id, on_am, NULL) == WH_OK);
    MUST(wh_worker_set_allocator(f.worker, WH_MEM_HOST,
                                 WH_ALLOCATOR(.alloc = on_alloc, .free_fn = on_free)) == WH_OK);
}

static void check_quiet(void) {
    size_t receives = 0, posted = 0;
    for (whi_list *node = whi_messages_of(f.worker)->any_source.next;
         node != &whi_messages_of(f.worker)->any_source; node = node->next) {
        receives++;
        // The others have an object that is here, and wait for its memory.
        posted += whi_container_of(node, wh_request, op_link)->stage == WHI_STAGE_QUEUED;
    }
    MUST(whi_messages_of(f.worker)->match[WHI_MATCH_TAG].receives +
             whi_messages_of(f.worker)->match[WHI_MATCH_OBJECT].receives ==
         posted);
    MUST(f.worker->counters.pending == receives);
    MUST(whi_list_empty(&whi_messages_of(f.worker)->stage.under_way));
    MUST(f.started - f.told == receives);
    for (int i = 0; i < WHI_MATCH_COUNT; i++)
        MUST(whi_messages_of(f.worker)->match[i].exact_any <=
             whi_messages_of(f.worker)->match[i].receives);
}

static void end(void) {
    f.peer->ops->close(f.peer);
    for (int i = 0; i < 100 && link_lives(); i++)
        (void)wh_worker_progress(f.worker);
    for (int i = 0; i < 10; i++)
        (void)wh_worker_progress(f.worker);
    MUST(!link_lives());
    check_quiet();
    for (unsigned i = 0; i < MEMORIES; i++)
        MUST(mrs[i]->accesses == 0);
    for (unsigned i = 0; i < f.ep_count; i++)
        MUST(whi_memory_at(f.eps[i])->active == 0 && whi_memory_at(f.eps[i])->fences == 0);
    if (f.kept)
        wh_am_drop(f.kept);
    while (f.ep_count)
        wh_endpoint_abort(f.eps[--f.ep_count]);
    wh_worker_destroy(f.worker);
    MUST(f.started == f.told);
    for (unsigned i = 0; i < f.op_count; i++) {
        MUST(wh_request_status(f.ops[i]) != WH_PENDING);
        wh_request_free(f.ops[i]);
        free_room(i);
    }
}

// open_endpoints opens two, so that not every input has to find out how.
static void open_endpoints(void) {
    for (uint32_t number = 1; number <= 3; number += 2) {
        whi_hdr open = {.cls = WHI_CLASS_OPEN, .ep = number, .seq = 10, .arg = 1 << 20};
        MUST(f.peer->ops->send(f.peer, &open, NULL) == WH_OK);
    }
    progress();
}

// open_own has the victim's user open endpoint 2, with connect data.
static void open_own(void) {
    wh_endpoint *ep = NULL;
    MUST(whi_ep_new(f.worker, &ep) == WH_OK);
    MUST(whi_connect_data_copy(source, WH_CONNECT_DATA_MAX, "the test", &ep->own_data) == WH_OK);
    whi_ep_bind(ep, f.link);
    f.eps[f.ep_count++] = ep;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    memset(&f, 0, sizeof(f));
    f.at = data;
    f.left = size;
    begin();
    uint8_t how = take_u8();
    make_link(how & 1);
    if (how & 2)
        open_endpoints();
    if (how & 4)
        open_own();
    while (f.left && link_lives()) {
        uint8_t what = take_u8();
        if (what < 0x80)
            send_record();
        else if (what < 0x98)
            send_chunk();
        else if (what < 0xa0)
            send_long();
        else if (what < 0xe0)
            user_operation();
        else
            progress();
    }
    progress();
    end();
    return 0;
}
