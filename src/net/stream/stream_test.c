// SPDX-License-Identifier: BSD-3-Clause
//
// The stream lane: the kit over TCP, AF_UNIX, sockets with hardly any space, and a relay that cuts
// the stream anywhere; then two threads, and life.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/test.h"
#include "net/lane_kit.h"
#include "net/stream/stream.h"

static void kit_fail(const char *file, int line, const char *text) {
    whi_test_end(WHI_TEST_FAILED, file, line, "%s", text);
}

// ---- pairs of sockets

static void pair_unix(int fds[2]) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
}

static void pair_tcp(int fds[2]) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(name);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&name, length) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&name, &length) == 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fds[0], (struct sockaddr *)&name, length) == 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(fds[1] >= 0);
    close(listener);
}

// The kernel makes of this the least it allows: a few KiB.  Only of the sending side, since a TCP
// receiver with less space than a segment is served by the sender's timers, at 200 ms each.
static void narrow(const int fds[2]) {
    for (int i = 0; i < 2; i++)
        CHECK(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int)) == 0);
}

// over makes lanes of two sockets, or closes both.
static wh_status over(const int fds[2], bool local, const whi_lane_up *up, void *link_a,
                      whi_lane **a, void *link_b, whi_lane **b) {
    whi_stream_opts opts = {.eager_limit = 8192, .chunk = 128 * 1024, .local = local};
    wh_status status = whi_stream_create(fds[0], &opts, up, link_a, a);
    if (status != WH_OK) {
        close(fds[0]);
        close(fds[1]);
        return status;
    }
    status = whi_stream_create(fds[1], &opts, up, link_b, b);
    if (status != WH_OK) {
        (*a)->ops->close(*a);
        close(fds[1]);
    }
    return status;
}

// How the lanes of a kit are joined.
typedef struct way {
    void (*pair)(int fds[2]);
    bool local, narrow;
} way;

static wh_status open_way(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a,
                          void *link_b, whi_lane **b) {
    const way *joined = arg;
    int fds[2];
    joined->pair(fds);
    if (joined->narrow)
        narrow(fds);
    return over(fds, joined->local, up, link_a, a, link_b, b);
}

// ---- a relay between the two, which hands on a few bytes at each step

typedef struct flow {
    int from, to;
    size_t at, end;
    bool over;
    uint8_t bytes[70000];
} flow;

typedef struct relay {
    whi_rng rng;
    size_t most;  // bytes per step
    flow flows[2];
} relay;

// A handful of bytes mostly, with the sizes around a header among them; at times very many.
static size_t portion(relay *between) {
    static const size_t sizes[] = {1, 2, 5, 31, 32, 33, 64, 1000, 8223, 8224, 8225, 70000};
    size_t size = sizes[whi_rng_below(&between->rng, sizeof(sizes) / sizeof(sizes[0]))];
    return size < between->most ? size : between->most;
}

static void relay_flow(relay *between, flow *half) {
    if (half->over)
        return;
    if (half->at == half->end) {
        ssize_t n = recv(half->from, half->bytes, portion(between), MSG_DONTWAIT);
        half->over = n == 0 || (n < 0 && errno != EAGAIN);
        half->at = 0;
        half->end = n > 0 ? (size_t)n : 0;
    }
    ssize_t n =
        send(half->to, half->bytes + half->at, half->end - half->at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        half->at += (size_t)n;
    half->over |= n < 0 && errno != EAGAIN;
    if (half->over) {
        shutdown(half->to, SHUT_WR);
        shutdown(half->from, SHUT_RD);
    }
}

static void relay_step(void *arg) {
    relay *between = arg;
    relay_flow(between, &between->flows[0]);
    relay_flow(between, &between->flows[1]);
}

static wh_status relay_open(void *arg, const whi_lane_up *up, void *link_a, whi_lane **a,
                            void *link_b, whi_lane **b) {
    relay *between = arg;
    int left[2], right[2];
    pair_unix(left);
    pair_unix(right);
    whi_rng_init(&between->rng, 17);
    between->flows[0] = (flow){.from = left[1], .to = right[1]};
    between->flows[1] = (flow){.from = right[1], .to = left[1]};
    wh_status status = over((int[]){left[0], right[0]}, false, up, link_a, a, link_b, b);
    if (status != WH_OK) {
        close(left[1]);
        close(right[1]);
    }
    return status;
}

static void relay_done(void *arg) {
    relay *between = arg;
    close(between->flows[0].from);
    close(between->flows[1].from);
}

// ---- the kit

#define WAY(name, ...)                                                                             \
    static way name##_way = {__VA_ARGS__};                                                         \
    static const whi_kit name = {.open = open_way, .arg = &name##_way, .fail = kit_fail};
WAY(tcp, .pair = pair_tcp)
WAY(local, .pair = pair_unix, .local = true)
WAY(tight_tcp, .pair = pair_tcp, .narrow = true)
WAY(tight_local, .pair = pair_unix, .local = true, .narrow = true)

static relay cutting_relay = {.most = sizeof(cutting_relay.flows[0].bytes)},
             slowest_relay = {.most = 1};
#define RELAY(name)                                                                                \
    {                                                                                              \
        .open = relay_open, .step = relay_step, .done = relay_done, .arg = &name##_relay,          \
        .fail = kit_fail                                                                           \
    }
static const whi_kit cutting = RELAY(cutting), slowest = RELAY(slowest);

#define KIT_ON(name, lanes)                                                                        \
    TEST(lanes##_##name) {                                                                         \
        whi_kit_##name(&lanes);                                                                    \
    }
#define KIT(name)                                                                                  \
    KIT_ON(name, tcp)                                                                              \
    KIT_ON(name, local)                                                                            \
    KIT_ON(name, tight_tcp)                                                                        \
    KIT_ON(name, tight_local)                                                                      \
    KIT_ON(name, cutting)
WHI_KIT_TESTS(KIT)

TEST(one_byte_at_a_time) {
    whi_kit_plan plan_a = whi_kit_mixed(31, 25, 2000), plan_b = whi_kit_mixed(32, 25, 2000);
    whi_kit_end a, b;
    whi_kit_open(&slowest, &plan_a, &plan_b, &a, &b);
    whi_kit_run(&a, &b);
    CHECK(a.heard == 25 && b.heard == 25);
    whi_kit_close(&a, &b);
}

// ---- two threads

typedef struct side {
    whi_kit_end *end;
    atomic_int *through;  // of the two ends
} side;

static void *side_run(void *arg) {
    const side *mine = arg;
    uint64_t late = whi_clock_ns() + 60 * WHI_NS_PER_S;
    bool told = false;
    // Until both are through: what this end has said may still wait for its socket.
    while (atomic_load(mine->through) < 2 && whi_clock_ns() < late)
        if (!whi_kit_turn(mine->end) && !told) {
            atomic_fetch_add(mine->through, 1);
            told = true;
        }
    return NULL;
}

static void two_threads(const whi_kit *kit) {
    whi_kit_plan plan_a = whi_kit_mixed(41, 200, 300000), plan_b = whi_kit_mixed(42, 200, 300000);
    whi_kit_end a, b;
    whi_kit_open(kit, &plan_a, &plan_b, &a, &b);
    atomic_int through = 0;
    side left = {&a, &through}, right = {&b, &through};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, side_run, &right) == 0);
    side_run(&left);
    pthread_join(thread, NULL);
    CHECK(a.heard == plan_b.count && b.heard == plan_a.count);
    whi_kit_close(&a, &b);
}

TEST(two_threads_tcp) {
    two_threads(&tcp);
}

TEST(two_threads_local) {
    two_threads(&tight_local);
}

// ---- life

// A lane that was busy and is armed holds no buffer: the next record makes one, those after it
// none.
TEST(rest_costs_nothing) {
    whi_kit_plan plan = whi_kit_records(50, 60);
    whi_kit_end a, b;
    whi_kit_open(&local, &plan, &whi_kit_silence, &a, &b);
    for (int round = 0; round < 10; round++) {
        whi_alloc_fail_at(UINT64_MAX);
        CHECK_EQ_INT(whi_kit_poll(&b, 4), 0);
        CHECK_EQ_INT(whi_alloc_count(), 0);
        for (int i = 0; i < 5; i++) {
            CHECK(whi_kit_say(&a));
            CHECK_EQ_INT(whi_kit_poll(&b, 4), 1);
        }
        CHECK_EQ_INT(whi_alloc_count(), 1);
        whi_alloc_fail_at(0);
        b.lane->ops->arm(b.lane, false);
    }
    whi_kit_close(&a, &b);
}

// Polls that find nothing have the buffer go too, for owners that never sleep.
TEST(quiet_polls_free_the_buffer) {
    whi_kit_plan plan = whi_kit_records(51, 2);
    whi_kit_end a, b;
    whi_kit_open(&local, &plan, &whi_kit_silence, &a, &b);
    CHECK(whi_kit_say(&a));
    CHECK_EQ_INT(whi_kit_poll(&b, 4), 1);
    for (int i = 0; i < 10000; i++)
        CHECK_EQ_INT(whi_kit_poll(&b, 4), 0);
    CHECK(whi_kit_say(&a));
    whi_alloc_fail_at(UINT64_MAX);
    CHECK_EQ_INT(whi_kit_poll(&b, 4), 1);
    CHECK_EQ_INT(whi_alloc_count(), 1);
    whi_alloc_fail_at(0);
    whi_kit_close(&a, &b);
}

TEST(create_refuses) {
    static const whi_lane_up none;
    whi_lane *lane = NULL;
    int fds[2];
    CHECK(pipe(fds) == 0);
    whi_log_set_level(WHI_LOG_OFF);
    whi_stream_opts opts = {.eager_limit = 100, .chunk = 1000};
    CHECK_EQ_INT(whi_stream_create(fds[0], &opts, &none, NULL, &lane), WH_ESYSTEM);
    CHECK_EQ_INT(whi_stream_create(-1, &opts, &none, NULL, &lane), WH_ESYSTEM);
    whi_log_set_level(WHI_WARN);
    opts.chunk = 0;
    CHECK_EQ_INT(whi_stream_create(fds[0], &opts, &none, NULL, &lane), WH_EINVAL);
    CHECK(!lane);
    CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);  // still ours
}

TEST(describe_names_the_peer) {
    whi_kit_end a, b;
    char text[64], want[64];
    whi_kit_open(&tcp, &whi_kit_silence, &whi_kit_silence, &a, &b);
    a.lane->ops->describe(a.lane, text, sizeof(text));
    CHECK(strncmp(text, "tcp 127.0.0.1:", 14) == 0 && atoi(text + 14) > 0);
    whi_kit_close(&a, &b);
    whi_kit_open(&local, &whi_kit_silence, &whi_kit_silence, &a, &b);
    a.lane->ops->describe(a.lane, text, sizeof(text));
    snprintf(want, sizeof(want), "unix pid %d", (int)getpid());
    CHECK_EQ_STR(text, want);
    whi_kit_close(&a, &b);
}

TEST_MAIN()
