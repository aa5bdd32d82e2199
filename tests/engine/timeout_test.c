// SPDX-License-Identifier: BSD-3-Clause
//
// Time: operations that time out or are cancelled at every stage, the grace time of a buffer in the peer's hands, waiting in
// each mode, and what wakes a sleeper.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "engine/hostile_peer.h"
#include "message/recv.h"
#include "worker/pollable.h"

static duo d;
static uint8_t large[8 << 20], into[8 << 20];

static uint64_t since_ms(uint64_t start) {
    return (whi_clock_ns() - start) / WHI_NS_PER_MS;
}

static void begin(const char *const *options) {
    duo_begin(&d, options, options);
    duo_connect(&d);
}

// ---- timeouts and cancels of receives

TEST(a_receive_times_out) {
    begin(NULL);
    wh_request *recv = NULL;
    uint64_t start = whi_clock_ns();
    CHECK_EQ_INT(
        wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.timeout_ms = 50), &recv),
        WH_PENDING);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK(since_ms(start) >= 49);
    CHECK(strstr(wh_request_error(recv), "tag receive"));
    CHECK_EQ_INT(done_as(&d, recv), WH_ETIMEDOUT);
    // The message that comes too late is nobody's, and can still be received.
    CHECK_EQ_INT(wh_tag_send(d.to, "late", 4, 1, NULL, NULL), WH_OK);
    UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL, NULL, NULL), WH_OK);
    duo_end(&d);
}

// Why it failed is there for its callback, which comes before wh_request_status tells of the end.
static char heard[200];

static void hear_why(wh_request *req, const wh_result *result, void *arg) {
    (void)arg;
    CHECK_EQ_INT(result->status, WH_ETIMEDOUT);
    CHECK_EQ_INT(wh_request_status(req), WH_PENDING);
    snprintf(heard, sizeof(heard), "%s", wh_request_error(req));
}

TEST(a_callback_is_told_why) {
    begin(NULL);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL,
                             WH_OP_OPTS(.timeout_ms = 10, .done = hear_why), &recv),
                 WH_PENDING);
    CHECK_EQ_STR(wh_request_error(recv), "");
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK(strstr(heard, "tag receive"));
    CHECK_EQ_STR(wh_request_error(recv), heard);
    CHECK_EQ_INT(done_as(&d, recv), WH_ETIMEDOUT);
    duo_end(&d);
}

TEST(cancelled_twice_and_after_the_end) {
    begin(NULL);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    wh_request_cancel(recv);
    wh_request_cancel(recv);
    CHECK_EQ_INT(wh_request_status(recv), WH_ECANCELLED);
    wh_request_cancel(recv);
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    CHECK_EQ_INT(d.server->counters.cancelled, 1);
    duo_end(&d);
}

// ---- sends

// A send that nobody has asked for is withdrawn at once, and the peer forgets it.
TEST(an_announced_send_is_withdrawn) {
    begin(NULL);
    for (int by_time = 0; by_time < 2; by_time++) {
        wh_request *send = NULL;
        wh_op_opts opts = {.size = sizeof(opts), .timeout_ms = by_time ? 30 : 0};
        CHECK_EQ_INT(wh_tag_send(d.to, large, sizeof(large), 1, &opts, &send), WH_PENDING);
        UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
        if (!by_time)
            wh_request_cancel(send);
        CHECK_EQ_INT(done_as(&d, send), by_time ? WH_ETIMEDOUT : WH_ECANCELLED);
        UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_ENOTFOUND);
        CHECK_EQ_INT(d.from->rx_announced, 0);
        CHECK_EQ_INT(d.to->announced, 0);
    }
    duo_end(&d);
}

// A grant that crosses the withdrawal comes to nothing: the receive has its place again, before one that was posted later.
TEST(a_receive_regains_its_place) {
    begin(NULL);
    wh_request *send = NULL, *first = NULL, *second = NULL;
    char a[8], b[8];
    CHECK_EQ_INT(wh_tag_send(d.to, large, sizeof(large), 1, NULL, &send), WH_PENDING);
    CHECK_EQ_INT(wh_tag_recv(d.from, a, sizeof(a), 1, WH_TAG_MASK_ALL, NULL, &first), WH_PENDING);
    CHECK_EQ_INT(wh_tag_recv(d.from, b, sizeof(b), 1, WH_TAG_MASK_ALL, NULL, &second), WH_PENDING);
    // Only the receiver goes on, so that the grant is on its way when the send is cancelled.
    uint64_t end = whi_clock_ns() + 5 * WHI_NS_PER_S;
    while (first->stage != WHI_STAGE_MOVING && whi_clock_ns() < end)
        (void)wh_worker_progress(d.server);
    CHECK_EQ_INT(first->stage, WHI_STAGE_MOVING);
    wh_request_cancel(send);
    CHECK_EQ_INT(wh_request_status(send), WH_ECANCELLED);
    wh_request_free(send);
    UNTIL(&d, first->stage == WHI_STAGE_QUEUED);
    CHECK_EQ_INT(wh_tag_send(d.to, "1", 1, 1, NULL, NULL), WH_OK);
    CHECK_EQ_INT(done_as(&d, first), WH_OK);
    CHECK_EQ_INT(wh_request_status(second), WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, "2", 1, 1, NULL, NULL), WH_OK);
    CHECK_EQ_INT(done_as(&d, second), WH_OK);
    CHECK(a[0] == '1' && b[0] == '2');
    duo_end(&d);
}

// A message that was withdrawn takes its number with it: what follows is not held up.
TEST(withdrawals_leave_no_gap) {
    begin(NULL);
    for (int i = 0; i < 50; i++) {
        wh_request *send = NULL;
        CHECK_EQ_INT(wh_tag_send(d.to, large, 100000, 1, NULL, &send), WH_PENDING);
        if (i % 3)
            duo_pass(&d);
        wh_request_cancel(send);
        CHECK_EQ_INT(done_as(&d, send), WH_ECANCELLED);
        CHECK_EQ_INT(wh_tag_send(d.to, &i, sizeof(i), 2, NULL, NULL), WH_OK);
        int got = -1;
        wh_request *recv = NULL;
        wh_status st = wh_tag_recv(d.from, &got, sizeof(got), 2, WH_TAG_MASK_ALL, NULL, &recv);
        CHECK_EQ_INT(st == WH_OK ? WH_OK : done_as(&d, recv), WH_OK);
        CHECK_EQ_INT(got, i);
    }
    duo_end(&d);
}

TEST(a_synchronous_send_times_out) {
    begin(NULL);
    wh_request *send = NULL;
    CHECK_EQ_INT(
        wh_tag_send(d.to, "x", 1, 1, WH_OP_OPTS(.flags = WH_OP_SYNC, .timeout_ms = 30), &send),
        WH_PENDING);
    CHECK_EQ_INT(done_as(&d, send), WH_ETIMEDOUT);
    duo_end(&d);
}

TEST(a_connect_times_out) {
    static const char *const quick[] = {"connect_timeout=60ms", NULL};
    duo_begin(&d, quick, quick);
    // A listener that never accepts: the backlog takes the connection and nobody answers.
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, size) == 0 && listen(fd, 4) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&addr, &size) == 0);
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(addr.sin_port));
    wh_endpoint *ep = NULL;
    wh_request *send = NULL;
    uint64_t start = whi_clock_ns();
    CHECK_EQ_INT(wh_endpoint_connect(d.client, address, NULL, &ep), WH_OK);
    CHECK_EQ_INT(wh_tag_send(ep, "x", 1, 1, NULL, &send), WH_PENDING);
    UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
    CHECK(since_ms(start) >= 59);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_ETIMEDOUT);
    CHECK(strstr(wh_endpoint_error(ep), address));
    CHECK_EQ_INT(done_as(&d, send), WH_ETIMEDOUT);
    wh_endpoint_abort(ep);
    close(fd);
    duo_end(&d);
}

TEST(a_close_fails_in_time) {
    static const char *const quick[] = {"close_timeout=40ms", NULL};
    begin(quick);
    wh_request *closing = NULL;
    CHECK_EQ_INT(wh_endpoint_close(d.to, NULL, &closing), WH_PENDING);
    d.to = NULL;
    // The peer does not go on.
    uint64_t end = whi_clock_ns() + 10 * WHI_NS_PER_S;
    while (wh_request_status(closing) == WH_PENDING && whi_clock_ns() < end)
        (void)wh_worker_progress(d.client);
    CHECK_EQ_INT(wh_request_status(closing), WH_ETIMEDOUT);
    wh_request_free(closing);
    UNTIL(&d, wh_endpoint_status(d.from) != WH_OK);
    duo_end(&d);
}

// A worker that others keep busy all the time does not hold a wait beyond its end.
static uint64_t busy_until_ns;

static void again(void *arg) {
    (void)arg;
    if (whi_clock_ns() < busy_until_ns)
        CHECK_EQ_INT(wh_worker_call(d.server, again, NULL), WH_OK);
}

TEST(a_wait_ends_though_the_worker_is_busy) {
    begin(NULL);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    static const int times[] = {0, 20};
    for (int i = 0; i < 2; i++) {
        uint64_t start = whi_clock_ns();
        busy_until_ns = start + 4 * WHI_NS_PER_S;
        again(NULL);
        CHECK_EQ_INT(wh_request_wait(recv, times[i]), WH_ETIMEDOUT);
        CHECK(whi_clock_ns() < busy_until_ns);
        busy_until_ns = 0;
        while (wh_worker_progress(d.server)) {
        }
    }
    wh_request_cancel(recv);
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    duo_end(&d);
}

// The three meanings of a close's time: none is the setting's, negative no limit, and 0 at once.
TEST(a_close_without_a_limit) {
    static const char *const quick[] = {"close_timeout=40ms", NULL};
    begin(quick);
    wh_request *closing = NULL;
    CHECK_EQ_INT(wh_endpoint_close(d.to, WH_OP_OPTS(.timeout_ms = -1), &closing), WH_PENDING);
    d.to = NULL;
    uint64_t start = whi_clock_ns();
    while (since_ms(start) < 100)
        (void)wh_worker_progress(d.client);
    CHECK_EQ_INT(wh_request_status(closing), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, closing), WH_OK);
    UNTIL(&d, wh_endpoint_status(d.from) != WH_OK);
    duo_end(&d);
}

TEST(a_close_that_waits_for_nothing) {
    static const char *const slow[] = {"close_timeout=20s", NULL};
    begin(slow);
    uint64_t start = whi_clock_ns();
    CHECK_EQ_INT(wh_endpoint_close_wait(d.to, 0), WH_ETIMEDOUT);
    CHECK(since_ms(start) < 10000);
    d.to = NULL;
    UNTIL(&d, wh_endpoint_status(d.from) != WH_OK);
    duo_end(&d);
}

static void *run_server(void *stop) {
    CHECK_EQ_INT(wh_worker_adopt(d.server), WH_OK);
    while (!atomic_load((_Atomic bool *)stop))
        CHECK(wh_worker_wait(d.server, 20) != WH_EINVAL);
    return NULL;
}

TEST(a_waiting_close_without_a_limit) {
    static const char *const quick[] = {"close_timeout=1ms", NULL};
    begin(quick);
    _Atomic bool stop = false;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_server, (void *)&stop) == 0);
    CHECK_EQ_INT(wh_endpoint_close_wait(d.to, -1), WH_OK);
    d.to = NULL;
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    CHECK_EQ_INT(wh_worker_adopt(d.server), WH_OK);
    duo_end(&d);
}

TEST(an_operation_with_a_negative_time_has_no_limit) {
    begin(NULL);
    wh_request *recv = NULL;
    CHECK_EQ_INT(
        wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.timeout_ms = -5), &recv),
        WH_PENDING);
    duo_for(&d, 50);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    CHECK_EQ_INT(wh_tag_send(d.to, "here", 4, 1, NULL, NULL), WH_OK);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    duo_end(&d);
}

// A port that takes the connection and says nothing: the dial waits, however short the setting, and can be given up.
TEST(a_connect_without_a_limit) {
    static const char *const quick[] = {"connect_timeout=40ms", NULL};
    duo_begin(&d, quick, quick);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, size) == 0 && listen(fd, 5) == 0 &&
          getsockname(fd, (struct sockaddr *)&addr, &size) == 0);
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(addr.sin_port));
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, address, WH_ENDPOINT_OPTS(.timeout_ms = -1), &ep),
                 WH_OK);
    duo_for(&d, 200);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_PENDING);
    close(fd);
    UNTIL(&d, wh_endpoint_status(ep) != WH_PENDING);
    CHECK(wh_endpoint_status(ep) != WH_ETIMEDOUT);
    wh_endpoint_abort(ep);
    duo_end(&d);
}

// ---- the grace time

static raw hostile;
static wh_endpoint *target;

// grant_and_stall makes a large receive wait for a payload that its peer has promised and does not send.
static wh_request *grant_and_stall(int timeout_ms) {
    whi_rng_init(&raw_rng, 11);
    raw_link(&d, &hostile, wh_listener_port(d.listener));
    target = raw_open(&d, &hostile);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(target, into, 1000, 5, WH_TAG_MASK_ALL,
                             WH_OP_OPTS(.timeout_ms = timeout_ms), &recv),
                 WH_PENDING);
    whi_announce announcement = {.send_id = 9};
    whi_hdr hdr = {.cls = WHI_CLASS_TAG,
                   .flags = WHI_FLAG_ANNOUNCED,
                   .ep = 1,
                   .size = sizeof(announcement),
                   .tag = 5,
                   .arg = 1000};
    CHECK(raw_send(&d, &hostile, &hdr, &announcement));
    PUMP_UNTIL(&d, recv->stage == WHI_STAGE_MOVING);
    return recv;
}

// The buffer of a cancelled receive that the peer may still write to is not given back before the grace is over; then the
// link goes, and with it the peer's way to the buffer.
TEST(grace_ends_the_link) {
    static const char *const quick[] = {"grace=150ms", NULL};
    begin(quick);
    wh_request *recv = grant_and_stall(0);
    uint64_t start = whi_clock_ns();
    wh_request_cancel(recv);
    pump_for(&d, 50);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    PUMP_UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK(since_ms(start) >= 149);
    CHECK(raw_hung_up(hostile.fd));
    CHECK(logged("within the grace time (150 ms)"));
    wh_request_free(recv);
    wh_endpoint_abort(target);
    close(hostile.fd);
    honest(&d);
    duo_end(&d);
}

// An operation's own timeout, however short, does not end the link: what comes within the grace is taken.
TEST(a_short_timeout_is_no_grace) {
    begin(NULL);
    wh_request *recv = grant_and_stall(0);
    wh_request_cancel(recv);
    pump_for(&d, 50);
    whi_hdr grant;
    CHECK(raw_read(&d, hostile.fd, &grant, sizeof(grant)));
    while (grant.cls != WHI_CLASS_GRANT)
        CHECK(raw_read(&d, hostile.fd, &grant, sizeof(grant)));
    whi_hdr chunk = {.cls = WHI_CLASS_CHUNK, .ep = (uint32_t)(grant.tag >> 32), .size = 1000};
    CHECK(raw_send(&d, &hostile, &chunk, large));
    PUMP_UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(recv), WH_OK);  // it was too late to cancel
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    wh_request_free(recv);
    wh_endpoint_abort(target);
    close(hostile.fd);
    duo_end(&d);
}

// What has failed while a lane that lends has a part of it ends when that is back.  Its own timeout begins the grace, and is
// not the end of one.
TEST(a_timeout_of_what_has_failed) {
    begin(NULL);
    wh_request *recv = grant_and_stall(50);
    recv->held = 1;
    whi_recv_withdrawn(target, recv->send_id, true);
    pump_for(&d, 100);
    CHECK_EQ_INT(wh_endpoint_status(target), WH_OK);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    CHECK(recv->grace);
    recv->held = 0;
    whi_recv_end_withdrawn(recv);
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    wh_endpoint_abort(target);
    close(hostile.fd);
    duo_end(&d);
}

// A withdrawn payload gives the cancelled receive its buffer back at once.
TEST(a_withdrawal_ends_the_grace) {
    begin(NULL);
    wh_request *recv = grant_and_stall(0);
    wh_request_cancel(recv);
    whi_hdr withdraw = {.cls = WHI_CLASS_WITHDRAW, .ep = 1, .seq = 1, .tag = 9};
    CHECK(raw_send(&d, &hostile, &withdraw, NULL));
    PUMP_UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    CHECK_EQ_INT(wh_request_status(recv), WH_ECANCELLED);
    wh_request_free(recv);
    wh_endpoint_abort(target);
    close(hostile.fd);
    duo_end(&d);
}

// A head that is too large for a record is fetched first; a cancel in that phase ends with it, not with the grace.
TEST(a_cancel_while_the_head_is_fetched) {
    begin(NULL);
    wh_request *send = NULL, *recv = NULL;
    wh_frame frame = {.data = large, .size = sizeof(large)};
    CHECK_EQ_INT(wh_object_send(d.to, large, 4 << 20, &frame, 1, sizeof(wh_frame), 1, NULL, &send),
                 WH_PENDING);
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    uint64_t end = whi_clock_ns() + 5 * WHI_NS_PER_S;
    while (send->stage != WHI_STAGE_MOVING && whi_clock_ns() < end)
        duo_pass(&d);
    CHECK_EQ_INT(send->stage, WHI_STAGE_MOVING);
    wh_request_cancel(send);
    uint64_t start = whi_clock_ns();
    UNTIL(&d, wh_request_status(send) != WH_PENDING);
    CHECK(since_ms(start) < 15000);
    wh_status st = wh_request_status(send);
    CHECK(st == WH_ECANCELLED || st == WH_OK);
    wh_request_free(send);
    wh_request_cancel(recv);
    wh_result result;
    UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
    if (result.object)
        wh_object_free(result.object);
    wh_request_free(recv);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    duo_end(&d);
}

// A receive that has matched completes: cancelling it while the head is fetched must not throw the message away.
TEST(a_cancel_too_late_loses_nothing) {
    begin(NULL);
    wh_request *send = NULL, *recv = NULL;
    wh_frame frame = {.data = large, .size = 100000};
    memset(large, 7, sizeof(large));
    CHECK_EQ_INT(wh_object_send(d.to, large, 4 << 20, &frame, 1, sizeof(wh_frame), 1, NULL, &send),
                 WH_PENDING);
    CHECK_EQ_INT(wh_object_recv(d.from, NULL, 0, 0, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    uint64_t end = whi_clock_ns() + 5 * WHI_NS_PER_S;
    while (recv->stage != WHI_STAGE_MOVING && whi_clock_ns() < end)
        duo_pass(&d);
    CHECK_EQ_INT(recv->stage, WHI_STAGE_MOVING);
    wh_request_cancel(recv);
    wh_result result;
    UNTIL(&d, wh_request_result(recv, &result) == WH_OK);
    CHECK_EQ_INT(result.status, WH_OK);
    CHECK_MEM(wh_object_frame(result.object, 0)->data, large, frame.size);
    wh_object_free(result.object);
    wh_request_free(recv);
    CHECK_EQ_INT(done_as(&d, send), WH_OK);
    duo_end(&d);
}

// ---- waiting

static uint64_t cpu_ms(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

TEST(waits_end_in_time) {
    static const wh_progress_mode modes[] = {WH_PROGRESS_WAIT, WH_PROGRESS_SPIN,
                                             WH_PROGRESS_ADAPTIVE};
    wh_context *ctx = kit_context(NULL);
    for (int i = 0; i < 3; i++) {
        wh_worker *worker = NULL;
        CHECK_EQ_INT(wh_worker_create(ctx, WH_WORKER_OPTS(.mode = modes[i]), &worker), WH_OK);
        while (wh_worker_progress(worker)) {
        }
        uint64_t start = whi_clock_ns(), cpu = cpu_ms();
        CHECK_EQ_INT(wh_worker_wait(worker, 200), WH_ETIMEDOUT);
        CHECK(since_ms(start) >= 199);
        if (modes[i] != WH_PROGRESS_SPIN)
            CHECK(cpu_ms() - cpu < 100);  // it slept
        CHECK_EQ_INT(wh_worker_wait(worker, 0), WH_ETIMEDOUT);
        wh_worker_wake(worker);
        start = whi_clock_ns();
        CHECK_EQ_INT(wh_worker_wait(worker, 10000), WH_OK);
        CHECK(since_ms(start) < 5000);
        wh_worker_destroy(worker);
    }
    wh_context_destroy(ctx);
}

static unsigned passes;

static unsigned count_pass(whi_pollable *pollable) {
    (void)pollable;
    passes++;
    return 0;
}

// Whoever asks without waiting gets one pass, in each mode, and says nothing about whether spinning pays.
TEST(a_wait_of_no_time_is_one_pass) {
    static const wh_progress_mode modes[] = {WH_PROGRESS_WAIT, WH_PROGRESS_SPIN,
                                             WH_PROGRESS_ADAPTIVE};
    static const whi_pollable_ops ops = {.pass = count_pass};
    wh_context *ctx = kit_context(NULL);
    for (int i = 0; i < 3; i++) {
        wh_worker *worker = NULL;
        CHECK_EQ_INT(wh_worker_create(ctx, WH_WORKER_OPTS(.mode = modes[i]), &worker), WH_OK);
        whi_pollable pollable;
        whi_pollable_init(&pollable, &ops);
        whi_pollable_heat(worker, &pollable);
        int luck = worker->spin_luck;
        passes = 0;
        for (unsigned n = 1; n <= 20; n++) {
            CHECK_EQ_INT(wh_worker_wait(worker, 0), WH_ETIMEDOUT);
            CHECK_EQ_INT(passes, n);
        }
        CHECK_EQ_INT(worker->spin_luck, luck);
        whi_pollable_cool(worker, &pollable);
        wh_worker_destroy(worker);
    }
    wh_context_destroy(ctx);
}

// A sleeper keeps its own deadlines: nothing but the timer wakes it here.
TEST(a_timeout_wakes_a_sleeper) {
    static const char *const waits[] = {"progress=wait", NULL};
    begin(waits);
    wh_request *recv = NULL;
    CHECK_EQ_INT(
        wh_tag_recv(d.from, into, 10, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.timeout_ms = 60), &recv),
        WH_PENDING);
    uint64_t start = whi_clock_ns();
    CHECK_EQ_INT(wh_request_wait(recv, 10000), WH_ETIMEDOUT);
    CHECK(since_ms(start) >= 59 && since_ms(start) < 5000);
    wh_request_free(recv);
    duo_end(&d);
}

// ready says whether the worker's descriptor is readable.
static bool ready(wh_worker *worker, int timeout_ms) {
    struct pollfd p = {.fd = wh_worker_fd(worker), .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static void arm(wh_worker *worker) {
    uint64_t end = whi_clock_ns() + 10 * WHI_NS_PER_S;
    while (wh_worker_arm(worker) == WH_EBUSY) {
        (void)wh_worker_progress(worker);
        CHECK(whi_clock_ns() < end);
    }
}

// A foreign event loop: armed, the descriptor tells of messages, of work that is left over, and of timers.
TEST(the_descriptor_tells) {
    begin(NULL);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 100, 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    duo_for(&d, 20);
    arm(d.server);
    while (ready(d.server, 20)) {  // it looks once more before it rests
        (void)wh_worker_progress(d.server);
        arm(d.server);
    }
    CHECK_EQ_INT(wh_tag_send(d.to, "ding", 4, 1, NULL, NULL), WH_OK);
    CHECK(ready(d.server, 10000));
    uint64_t end = whi_clock_ns() + 10 * WHI_NS_PER_S;
    while (wh_request_status(recv) == WH_PENDING && whi_clock_ns() < end)
        (void)wh_worker_progress(d.server);
    CHECK_EQ_INT(wh_request_status(recv), WH_OK);
    wh_request_free(recv);
    CHECK_EQ_INT(
        wh_tag_recv(d.from, into, 100, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.timeout_ms = 50), &recv),
        WH_PENDING);
    arm(d.server);
    CHECK(ready(d.server, 10000));
    while (wh_request_status(recv) == WH_PENDING && whi_clock_ns() < end)
        (void)wh_worker_progress(d.server);
    CHECK_EQ_INT(wh_request_status(recv), WH_ETIMEDOUT);
    wh_request_free(recv);
    duo_end(&d);
}

static unsigned done_calls;
static void count_done(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)result, (void)arg;
    done_calls++;
}

// What has ended and has not been told yet keeps a worker from sleeping.
TEST(no_sleep_with_work_left) {
    begin(NULL);
    wh_request *recv = NULL;
    duo_for(&d, 20);
    arm(d.server);
    done_calls = 0;
    CHECK_EQ_INT(
        wh_tag_recv(d.from, into, 100, 1, WH_TAG_MASK_ALL, WH_OP_OPTS(.done = count_done), &recv),
        WH_PENDING);
    arm(d.server);
    wh_request_cancel(recv);
    wh_request_cancel(recv);  // has ended, though nobody was told
    CHECK_EQ_INT(wh_worker_arm(d.server), WH_EBUSY);
    (void)wh_worker_progress(d.server);
    CHECK_EQ_INT(done_calls, 1);
    CHECK_EQ_INT(d.server->counters.pending, 0);
    arm(d.server);
    wh_request_free(recv);
    // A message that comes to one who is armed rings; to one who is awake, and has not seen it yet, arm tells of it.
    CHECK_EQ_INT(wh_tag_send(d.to, "x", 1, 1, NULL, NULL), WH_OK);
    CHECK(ready(d.server, 10000));
    UNTIL(&d, wh_tag_probe(d.from, 1, WH_TAG_MASK_ALL, NULL) == WH_OK);
    CHECK_EQ_INT(wh_tag_send(d.to, "y", 1, 2, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_worker_arm(d.server), WH_EBUSY);
    duo_end(&d);
}

static wh_status inside;
static void wait_inside(wh_request *req, const wh_result *result, void *arg) {
    (void)req, (void)result;
    inside = wh_worker_wait(arg, 1000);
    CHECK_EQ_INT(wh_worker_progress(arg), 0);
    wh_worker_destroy(arg);
}

TEST(callbacks_may_not_wait) {
    begin(NULL);
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_tag_recv(d.from, into, 100, 1, WH_TAG_MASK_ALL,
                             WH_OP_OPTS(.done = wait_inside, .arg = d.server), &recv),
                 WH_PENDING);
    wh_request_cancel(recv);
    CHECK_EQ_INT(done_as(&d, recv), WH_ECANCELLED);
    CHECK_EQ_INT(inside, WH_EBUSY);
    CHECK(logged("called from a callback"));
    duo_end(&d);
}

TEST_MAIN()
