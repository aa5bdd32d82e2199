// SPDX-License-Identifier: BSD-3-Clause
//
// The ucx lane: the kit between two domains of this process, then what the UCX of a test machine does not do: records
// that come out of order, or twice.
//
// WHERRY_UCX_DIR names another UCX than the system's; without any, all is skipped.
#include "net/ucx/ucx.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/test.h"
#include "net/deaf.h"
#include "net/lane_kit.h"
#include "net/ucx/ucx_lane.h"

static void kit_fail(const char *file, int line, const char *text) {
    whi_test_end(WHI_TEST_FAILED, file, line, "%s", text);
}

static void need_ucx(void) {
    const char *why = NULL;
    if (whi_ucx_load(getenv("WHERRY_UCX_DIR"), &why) != WH_OK)
        SKIP(why);
}

// ---- owners

static void wake(void *link) {
    (void)link;  // the kit polls all the time
}

// How many lanes have told of the end of their connection, and of their own.
static unsigned cuts, ends_of_lanes;

static void disconnected(void *link) {
    (void)link;
    cuts++;
}

static void gone(void *link) {
    (void)link;
    ends_of_lanes++;
}

static const whi_ucx_owner quiet_owner = {
    .wake = wake, .disconnected = disconnected, .closed = gone};

// ---- the kit

// Two domains, and how large things are.
typedef struct way {
    whi_ucx_opts opts;
    whi_ucx *ucx[2];
} way;

static wh_status join(whi_lane *from, whi_lane *to) {
    unsigned char address[WHI_UCX_ADDRESS_MAX];
    const char *why = NULL;
    size_t size = whi_ucx_lane_address(from, address, sizeof(address));
    CHECK(size <= sizeof(address));
    return whi_ucx_lane_connect(to, address, size, &why);
}

static void end_domains(way *over) {
    for (int i = 0; i < 2; i++) {
        if (over->ucx[i])
            whi_ucx_free(over->ucx[i]);
        over->ucx[i] = NULL;
    }
}

static wh_status kit_open(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a,
                          void *link_b, whi_lane **b) {
    way *over = arg;
    const char *why = NULL;
    need_ucx();
    *a = *b = NULL;
    wh_status status = whi_ucx_create(&over->ucx[0], &why);
    if (status == WH_OK)
        status = whi_ucx_create(&over->ucx[1], &why);
    if (status == WH_OK)
        status = whi_ucx_lane_create(over->ucx[0], &over->opts, up, &quiet_owner, link_a, a);
    if (status == WH_OK)
        status = whi_ucx_lane_create(over->ucx[1], &over->opts, up, &quiet_owner, link_b, b);
    if (status == WH_OK)
        status = join(*a, *b);
    if (status == WH_OK)
        status = join(*b, *a);
    if (status != WH_OK) {
        if (*a)
            (*a)->ops->close(*a);
        if (*b)
            (*b)->ops->close(*b);
        end_domains(over);
    }
    return status;
}

static void kit_done(void *arg) {
    way *over = arg;
    // Together, as two processes would: what one has sent last the other takes.
    uint64_t late = whi_clock_ns() + 2 * WHI_NS_PER_S;
    while ((whi_ucx_closing(over->ucx[0]) || whi_ucx_closing(over->ucx[1])) &&
           whi_clock_ns() < late) {
        (void)whi_ucx_progress(over->ucx[0]);
        (void)whi_ucx_progress(over->ucx[1]);
    }
    end_domains(over);
}

static way plain_way = {.opts = {.eager_limit = 8192, .eager_max = 8192}};
static way small_way = {.opts = {.eager_limit = 2048, .eager_max = 2048, .chunk = 20000}};
// UCX tells of a closed peer late or not at all: the link's socket does.
#define KIT_OF(way)                                                                                \
    { .open = kit_open, .done = kit_done, .arg = &(way), .deaf = true, .fail = kit_fail }
static const whi_kit plain = KIT_OF(plain_way), small = KIT_OF(small_way);

#define KIT(name)                                                                                  \
    TEST(plain_##name) {                                                                           \
        whi_kit_##name(&plain);                                                                    \
    }                                                                                              \
    TEST(small_##name) {                                                                           \
        whi_kit_##name(&small);                                                                    \
    }
WHI_KIT_TESTS(KIT)

// ---- one-sided access

enum { SIZE = 300000, OPS = 30 };

static wh_status no_record(void *link, const whi_hdr *hdr, const void *payload) {
    (void)link, (void)hdr, (void)payload;
    return WH_EPROTOCOL;
}

static void not_lent(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
}

static const whi_lane_up quiet = {.deliver = no_record,
                                  .sink = deaf_sink,
                                  .landed = deaf_landed,
                                  .sent = not_lent,
                                  .lost = not_lent};

typedef struct reach {
    way over;
    whi_lane *owner, *initiator;
    unsigned char there[SIZE], here[SIZE];
    whi_lane_memory *memory;
    whi_lane_key *key;
    const whi_lane_access *access;
} reach;

static reach r;

// reach_begin connects two lanes and lets the second one reach the memory of the first.
static void reach_begin(void) {
    const void *bytes;
    size_t size;
    r = (reach){.over = plain_way};
    CHECK_EQ_INT(kit_open(&r.over, &quiet, NULL, &r.owner, NULL, &r.initiator), WH_OK);
    r.access = r.owner->ops->access;
    CHECK_EQ_INT(r.access->map(r.owner, r.there, SIZE, &r.memory), WH_OK);
    bytes = r.access->key(r.memory, &size);
    CHECK_EQ_INT(r.access->open(r.initiator, bytes, size, &r.key), WH_OK);
}

static void both_go_on(void) {
    CHECK(r.owner->ops->poll(r.owner, 64) >= 0);
    CHECK(r.initiator->ops->poll(r.initiator, 64) >= 0);
}

// Ends of accesses: how many, and how many of these were good.
typedef struct ends {
    int all, good;
} ends;

static void count_end(void *arg, bool good) {
    ends *e = arg;
    e->all++;
    e->good += good;
}

// over waits for the end of what was started with `e`.
static void over(wh_status st, ends *e) {
    for (int i = 0; st == WH_PENDING && i < 1000000 && !e->all; i++)
        both_go_on();
    CHECK(st == WH_OK ? !e->all : st == WH_PENDING && e->all == 1 && e->good == 1);
    *e = (ends){.all = 0};
}

static uint64_t address_of(const void *ptr) {
    return (uint64_t)(uintptr_t)ptr;
}

TEST(written_and_read) {
    static const size_t sizes[] = {1, 8, 5000, SIZE};
    ends e = {.all = 0};
    reach_begin();
    CHECK(!r.access->guards(r.initiator));  // there is no such hardware where tests run
    for (int i = 0; i < 4; i++) {
        size_t size = sizes[i];
        uint64_t at = address_of(r.there + SIZE - size);
        memset(r.here, i + 1, size);
        over(r.access->write(r.initiator, r.key, at, r.here, size, count_end, &e), &e);
        over(r.access->settled(r.initiator, count_end, &e), &e);
        CHECK(memcmp(r.there + SIZE - size, r.here, size) == 0);
        memset(r.there + SIZE - size, 50 + i, size);
        over(r.access->read(r.initiator, r.key, at, r.here, size, count_end, &e), &e);
        CHECK(memcmp(r.there + SIZE - size, r.here, size) == 0);
    }
    r.access->close(r.key);
    r.access->unmap(r.memory);
    r.owner->ops->close(r.owner);
    r.initiator->ops->close(r.initiator);
    kit_done(&r.over);
}

// UCX may choose any of an endpoint's transports, so one that is not guarded is one too many.
TEST(guarded_by_all_transports) {
    CHECK(whi_ucx_all_reliable("rc_mlx5/mlx5_0:1"));
    CHECK(whi_ucx_all_reliable("rc_verbs/mlx5_0:1, rc_mlx5/mlx5_1:1"));
    static const char *const others[] = {"",
                                         "tcp/eth0",
                                         "dc_mlx5/mlx5_0:1",
                                         "ud_mlx5/mlx5_0:1",
                                         "rc_mlx5/mlx5_0:1, tcp/eth0",
                                         "rc_mlx5/mlx5_0:1, ud_mlx5/mlx5_0:1",
                                         "rc_mlx5/mlx5_0:1, posix/memory",
                                         "sysv/memory, rc_mlx5/mlx5_0:1",
                                         "self/memory, rc_mlx5/mlx5_0:1"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK(!whi_ucx_all_reliable(others[i]));
}

// A lane that closes gives each buffer back, once; key and registration may be given up when UCX is gone.
TEST(closed_with_accesses_out) {
    ends e = {.all = 0};
    int out = 0;
    reach_begin();
    for (int i = 0; i < OPS; i++) {
        uint64_t at = address_of(r.there);
        wh_status st = i % 2 ? r.access->read(r.initiator, r.key, at, r.here, SIZE, count_end, &e)
                             : r.access->write(r.initiator, r.key, at, r.here, SIZE, count_end, &e);
        CHECK(st == WH_OK || st == WH_PENDING);
        out += st == WH_PENDING;
    }
    CHECK(out > 0 && e.all == 0);
    whi_ucx_lane_lost(r.initiator);
    r.owner->ops->close(r.owner);
    r.initiator->ops->close(r.initiator);
    kit_done(&r.over);
    CHECK_EQ_INT(e.all, out);
    r.access->close(r.key);
    r.access->unmap(r.memory);
}

// ---- what UCX does not end

static int fake;  // what a request of UCX that never ends is
static ucp_request_param_t close_param;

static ucs_status_ptr_t endless_close(ucp_ep_h ep, const ucp_request_param_t *param) {
    (void)ep;
    close_param = *param;
    return &fake;
}

static ucs_status_ptr_t endless_get(ucp_ep_h ep, void *buf, size_t size, uint64_t address,
                                    ucp_rkey_h key, const ucp_request_param_t *param) {
    (void)ep, (void)buf, (void)size, (void)address, (void)key, (void)param;
    return &fake;
}

static void free_nothing(void *request) {
    (void)request;
}

static void progress_for(whi_ucx *ucx, uint64_t ms) {
    for (uint64_t end = whi_clock_ns() + ms * WHI_NS_PER_MS; whi_clock_ns() < end;)
        (void)whi_ucx_progress(ucx);
}

// The memory of what goes out comes back in any case; but while its connection lives, a lane does not end, with which the peer
// would lose its leases.
TEST(a_connection_that_does_not_close) {
    ends e = {.all = 0};
    int out = 0;
    reach_begin();
    const whi_ucp_calls calls = whi_ucp;
    ucp_ep_h ep = ((whi_ucx_lane *)r.initiator)->ep;
    for (int i = 0; i < OPS; i++)
        out += r.access->write(r.initiator, r.key, address_of(r.there), r.here, SIZE, count_end,
                               &e) == WH_PENDING;
    CHECK(out > 0);
    cuts = ends_of_lanes = 0;
    whi_ucp.ucp_ep_close_nbx = endless_close;
    whi_ucx_lane_lost(r.initiator);
    r.initiator->ops->close(r.initiator);
    progress_for(r.over.ucx[1], 300);
    CHECK_EQ_INT(e.all, out);
    CHECK(cuts == 0 && ends_of_lanes == 0);
    whi_ucp = calls;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = whi_ucp.ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(request))
        whi_ucp.ucp_request_free(request);
    whi_ucp.ucp_request_free = free_nothing;
    close_param.cb.send(&fake, UCS_OK, close_param.user_data);
    whi_ucp = calls;
    progress_for(r.over.ucx[1], 10);
    CHECK(cuts == 1 && ends_of_lanes == 1);
    r.owner->ops->close(r.owner);
    kit_done(&r.over);
    CHECK_EQ_INT(e.all, out);
    r.access->close(r.key);
    r.access->unmap(r.memory);
}

// Memory into which UCX may still write keeps its lane for good, but not the memory that the peer could reach.
TEST(a_read_that_does_not_end) {
    ends e = {.all = 0};
    reach_begin();
    const whi_ucp_calls calls = whi_ucp;
    whi_ucp.ucp_get_nbx = endless_get;
    CHECK_EQ_INT(r.access->read(r.initiator, r.key, address_of(r.there), r.here, 8, count_end, &e),
                 WH_PENDING);
    whi_ucp = calls;
    cuts = ends_of_lanes = 0;
    whi_ucx_lane_lost(r.initiator);
    r.initiator->ops->close(r.initiator);
    progress_for(r.over.ucx[1], 300);
    CHECK(cuts == 1 && ends_of_lanes == 0 && e.all == 0);
    r.owner->ops->close(r.owner);
    kit_done(&r.over);
    CHECK(ends_of_lanes == 2 && e.all == 1 && e.good == 0);
    r.access->close(r.key);
    r.access->unmap(r.memory);
}

enum { CHUNK = 100000 };
static unsigned char landing[CHUNK];
static bool staged;  // whether the lane is to write memory of its own
static unsigned losses;

static void move_in(void *ctx, uint64_t offset, void *host, size_t size) {
    memcpy((char *)ctx + offset, host, size);
}

static wh_status take_chunk(void *link, const whi_hdr *hdr, whi_span *span) {
    (void)link, (void)hdr;
    *span = staged ? (whi_span){.move = move_in, .ctx = landing} : (whi_span){.ptr = landing};
    return WH_OK;
}

static void lose_chunk(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    losses++;
}

static ucs_status_ptr_t endless_recv(ucp_worker_h worker, void *what, void *buf, size_t count,
                                     const ucp_request_param_t *param) {
    (void)buf, (void)count, (void)param;
    whi_ucp.ucp_am_data_release(worker, what);
    return &fake;
}

// Into memory of ours UCX may write for as long as it likes: the owner hears once that the chunk is lost, and the lane ends.
TEST(a_chunk_that_does_not_end) {
    static const whi_lane_up up = {.deliver = no_record,
                                   .sink = take_chunk,
                                   .landed = deaf_landed,
                                   .sent = not_lent,
                                   .lost = lose_chunk};
    for (int i = 0; i < 2; i++) {
        way over = plain_way;
        whi_lane *from, *to;
        size_t moved;
        CHECK_EQ_INT(kit_open(&over, &up, NULL, &from, NULL, &to), WH_OK);
        const whi_ucp_calls calls = whi_ucp;
        whi_ucx_lane *lane = (whi_ucx_lane *)to;
        whi_span span = {.ptr = r.here};
        whi_hdr hdr = {.cls = WHI_CLASS_CHUNK, .ep = 1};
        staged = i;
        cuts = ends_of_lanes = losses = 0;
        CHECK_EQ_INT(from->ops->push(from, &hdr, &span, CHUNK, &moved), WH_OK);
        whi_ucp.ucp_am_recv_data_nbx = endless_recv;
        while (!lane->chunks_in) {
            CHECK(from->ops->poll(from, 64) >= 0);
            CHECK(to->ops->poll(to, 64) >= 0);
        }
        whi_ucp = calls;
        whi_ucx_lane_lost(to);
        to->ops->close(to);
        progress_for(over.ucx[1], 300);
        CHECK_EQ_INT(cuts, 1);
        CHECK(losses == (unsigned)i && ends_of_lanes == (unsigned)i);
        whi_ucx_lane_lost(from);
        from->ops->close(from);
        kit_done(&over);
        CHECK(losses == 1 && ends_of_lanes == 2);
    }
}

// No more are out than a lane has places for; whoever was refused is told when there is space.
TEST(refused_accesses) {
    ends e = {.all = 0};
    int out = 0;
    wh_status st;
    reach_begin();
    while ((st = r.access->read(r.initiator, r.key, address_of(r.there), r.here, 8, count_end,
                                &e)) == WH_PENDING)
        out++;
    CHECK_EQ_INT(st, WH_EAGAIN);
    CHECK(out > 1 && !r.initiator->ops->ready(r.initiator, true));
    while (e.all < out)
        both_go_on();
    CHECK_EQ_INT(e.good, out);
    r.access->close(r.key);
    r.access->unmap(r.memory);
    r.owner->ops->close(r.owner);
    r.initiator->ops->close(r.initiator);
    kit_done(&r.over);
}

// ---- the order of records

enum { RECORDS = 5 };

typedef struct inbox {
    uint64_t got[RECORDS];
    unsigned count;
} inbox;

static wh_status deliver(void *link, const whi_hdr *hdr, const void *payload) {
    inbox *in = link;
    CHECK(in->count < RECORDS && hdr->size == sizeof(uint64_t));
    memcpy(&in->got[in->count++], payload, sizeof(uint64_t));
    return WH_OK;
}

static void no_lending(void *link, const whi_hdr *hdr) {
    (void)link, (void)hdr;
    CHECK(false);
}

// A lane without a peer, to which messages are handed as UCX would.
typedef struct alone {
    inbox in;
    whi_ucx *ucx;
    whi_lane *lane;
} alone;

static void open_alone(alone *it) {
    static const whi_lane_up up = {.deliver = deliver,
                                   .sink = deaf_sink,
                                   .landed = deaf_landed,
                                   .sent = no_lending,
                                   .lost = no_lending};
    const char *why = NULL;
    need_ucx();
    CHECK(whi_ucx_create(&it->ucx, &why) == WH_OK);
    CHECK(whi_ucx_lane_create(it->ucx, &plain_way.opts, &up, &quiet_owner, &it->in, &it->lane) ==
          WH_OK);
}

static void close_alone(alone *it) {
    it->lane->ops->close(it->lane);
    whi_ucx_free(it->ucx);
}

static void arrive(alone *it, uint32_t seq) {
    uint64_t payload = seq;
    whi_ucx_wire wire = {.hdr = {.size = sizeof(payload), .cls = WHI_CLASS_CHUNK + 1}, .seq = seq};
    CHECK(whi_ucx_arrived((whi_ucx_lane *)it->lane, &wire, &payload, sizeof(payload), false) ==
          UCS_OK);
}

TEST(records_of_several_rails_are_put_in_order) {
    static const uint32_t order[RECORDS] = {3, 1, 4, 2, 0};
    alone it = {0};
    open_alone(&it);
    for (unsigned i = 0; i < RECORDS - 1; i++)
        arrive(&it, order[i]);
    CHECK(it.lane->ops->poll(it.lane, 64) == 0 && it.in.count == 0);  // the first is missing
    arrive(&it, order[RECORDS - 1]);
    CHECK(it.lane->ops->poll(it.lane, 2) == 2 && it.in.count == 2);  // no more than were asked for
    CHECK(it.lane->ops->poll(it.lane, 64) == RECORDS - 2);
    for (unsigned i = 0; i < RECORDS; i++)
        CHECK(it.in.got[i] == i);
    close_alone(&it);
}

TEST(records_far_from_their_turn_are_a_violation) {
    static const uint32_t wrong[] = {UINT32_MAX, WHI_UCX_AHEAD, 0};
    for (unsigned i = 0; i < 3; i++) {
        alone it = {0};
        open_alone(&it);
        arrive(&it, 0);
        CHECK(it.lane->ops->poll(it.lane, 64) == 1);
        arrive(&it, i == 1 ? wrong[i] + 1 : wrong[i]);  // the last one: once more
        CHECK(it.lane->ops->poll(it.lane, 64) == WH_EPROTOCOL && it.in.count == 1);
        close_alone(&it);
    }
}

// arrive_large hands over a record of the largest size.
static void arrive_large(alone *it, uint32_t seq) {
    static unsigned char payload[8192];
    whi_ucx_wire wire = {.hdr = {.size = sizeof(payload), .cls = WHI_CLASS_CHUNK + 1}, .seq = seq};
    CHECK(whi_ucx_arrived((whi_ucx_lane *)it->lane, &wire, payload, sizeof(payload), false) ==
          UCS_OK);
}

// What is kept is bounded in bytes, also where its number is allowed.
TEST(too_many_bytes_ahead_of_their_turn) {
    alone it = {0};
    open_alone(&it);
    uint32_t most = WHI_UCX_KEPT_MAX / 8192 + 2;
    CHECK(most < WHI_UCX_AHEAD / 2);
    for (uint32_t seq = 1; seq < most; seq++)
        arrive_large(&it, seq);
    CHECK(it.lane->ops->poll(it.lane, 64) == WH_EPROTOCOL && it.in.count == 0);
    close_alone(&it);
}

// ---- a peer that is faster than its receiver

static wh_status take_any(void *link, const whi_hdr *hdr, const void *payload) {
    (void)hdr, (void)payload;
    ++*(unsigned *)link;
    return WH_OK;
}

// It is held back by the network, and breaks no rule: what the receiver keeps is bounded, also by the polls of other lanes.
TEST(a_peer_that_is_too_fast) {
    enum { SENT = 100000, WORD = 8 };
    static const whi_lane_up up = {.deliver = take_any,
                                   .sink = deaf_sink,
                                   .landed = deaf_landed,
                                   .sent = no_lending,
                                   .lost = no_lending};
    unsigned counts[2] = {0}, sent = 0;
    uint64_t word = 0;
    way over = plain_way;
    whi_lane *from, *to;
    CHECK_EQ_INT(kit_open(&over, &up, &counts[0], &from, &counts[1], &to), WH_OK);
    while (counts[1] < SENT) {
        whi_hdr hdr = {.size = WORD, .cls = WHI_CLASS_CHUNK + 1};
        for (int i = 0; i < 500 && sent < SENT && from->ops->send(from, &hdr, &word) == WH_OK; i++)
            sent++;
        CHECK(from->ops->poll(from, 64) >= 0);
        for (int i = 0; i < 50; i++)
            (void)whi_ucx_progress(over.ucx[1]);  // as the polls of its other links do
        CHECK(to->ops->poll(to, 8) >= 0);
        CHECK(((whi_ucx_lane *)to)->kept_size < 2 * WHI_UCX_CROWD);
    }
    CHECK_EQ_INT(over.ucx[1]->crowds, 0);
    from->ops->close(from);
    to->ops->close(to);
    kit_done(&over);
}

// A lane that is closed while others wait for it holds up nobody any more.
TEST(a_crowd_that_is_left) {
    alone it = {0};
    open_alone(&it);
    CHECK(it.lane->ops->poll(it.lane, 64) == 0);
    for (uint32_t seq = 0; seq < WHI_UCX_CROWD / 8192 + 1; seq++)
        arrive_large(&it, seq);
    CHECK_EQ_INT(it.ucx->crowds, 1);
    it.lane->ops->close(it.lane);
    CHECK_EQ_INT(it.ucx->crowds, 0);
    whi_ucx_free(it.ucx);
}

// Nor does one that its link does not read yet: its peer alone decides when that changes.
TEST(a_crowd_that_is_not_read) {
    alone it = {0};
    open_alone(&it);
    CHECK(it.lane->ops->poll(it.lane, 0) == 0);
    for (uint32_t seq = 0; seq < WHI_UCX_CROWD / 8192 + 1; seq++)
        arrive_large(&it, seq);
    CHECK_EQ_INT(it.ucx->crowds, 0);
    close_alone(&it);
}

TEST_MAIN()
