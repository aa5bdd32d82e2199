// SPDX-License-Identifier: BSD-3-Clause
//
// Attacks on a listener before a handshake has succeeded, and on a dial.
//
// An honest client is connected all the while and exchanges messages with the victim (hostile_peer.h).  Each attack must end
// in a refusal, cost a bounded number of records and leave a log line that says what it was.
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "engine/hostile_peer.h"
#include "link/local.h"

enum { HANDSHAKE_MAX = 64, HANDSHAKE_MS = 300 };

static const char *const options[] = {"handshake_timeout=300ms", "handshake_max=64", NULL};
static const char *const secret_options[] = {"handshake_timeout=300ms", "secret=right", NULL};

static duo victim;
static uint16_t port;

static void begin_with(const char *const *server, const char *const *client) {
    whi_rng_init(&raw_rng, 1);
    duo_begin(&victim, server, client);
    duo_connect(&victim);
    port = wh_listener_port(victim.listener);
}

static void begin(void) {
    begin_with(options, options);
}

// listen_to_log is for tests that look at the log: a line that repeats itself is left out for a second.
static void listen_to_log(void) {
    pump_for(&victim, 1100);
    kit_log_begin();
}

static void end(void) {
    honest(&victim);
    CHECK_EQ_INT(wh_endpoint_status(victim.to), WH_OK);
    PUMP_UNTIL(&victim, whi_links_of(victim.server)->acceptor_count == 0);
    duo_end(&victim);
}

TEST(random_bytes) {
    begin();
    listen_to_log();
    for (int i = 0; i < 200; i++) {
        int fd = raw_tcp(port);
        uint8_t bytes[1500];
        for (size_t n = 0; n < sizeof(bytes); n++)
            bytes[n] = (uint8_t)whi_rng_u64(&raw_rng);
        if (i % 4 == 0)
            memcpy(bytes, "WHERRY\r\n", 8);
        (void)raw_write(&victim, fd, bytes, 1 + whi_rng_below(&raw_rng, sizeof(bytes)));
        shutdown(fd, SHUT_WR);
        PUMP_UNTIL(&victim, raw_hung_up(fd));
        close(fd);
    }
    CHECK(logged("W-HND-03") && logged("not a Wherry handshake"));
    end();
}

// A port scanner, a web browser and others who have come to the wrong door are sent away at their first bytes.
TEST(other_protocols) {
    static const char *const greetings[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02",
                                            "SSH-2.0-x\r\n", "WHERR1", "W\n"};
    begin();
    for (size_t i = 0; i < sizeof(greetings) / sizeof(*greetings); i++) {
        int fd = raw_tcp(port);
        CHECK(raw_write(&victim, fd, greetings[i], strlen(greetings[i])));
        uint64_t start = whi_clock_ns();
        PUMP_UNTIL(&victim, raw_hung_up(fd));
        CHECK(whi_clock_ns() - start < HANDSHAKE_MS * WHI_NS_PER_MS);
        close(fd);
    }
    end();
}

TEST(port_scan) {
    begin();
    for (int i = 0; i < 1000; i++) {
        int fd = raw_tcp(port);
        if (i % 2) {
            struct linger reset = {.l_onoff = 1, .l_linger = 0};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        }
        close(fd);
        if (i % 8 == 0)
            pump(&victim);
    }
    end();
}

TEST(half_handshakes) {
    begin();
    listen_to_log();
    int fds[3];
    raw r;
    for (int i = 0; i < 3; i++) {
        // Cut off in the record, before it, and after the answer.
        whi_hello hello = raw_says(&victim, WHI_STEP_HELLO);
        uint8_t bytes[WHI_HELLO_SIZE];
        whi_hello_encode(&hello, bytes);
        if (i == 2)
            CHECK(raw_hello(&victim, &r, port, 0));
        fds[i] = i == 2 ? r.fd : raw_tcp(port);
        if (i < 2)
            CHECK(raw_write(&victim, fds[i], bytes, i ? 500 : 8));
    }
    uint64_t start = whi_clock_ns();
    for (int i = 0; i < 3; i++)
        PUMP_UNTIL(&victim, raw_hung_up(fds[i]));
    CHECK(whi_clock_ns() - start > HANDSHAKE_MS / 2 * WHI_NS_PER_MS);
    CHECK(logged("W-HND-04") && logged("did not finish its handshake in time"));
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    end();
}

// A byte now and then does not buy more time than the whole handshake has.
TEST(slow_peer) {
    begin();
    listen_to_log();
    int fd = raw_tcp(port);
    whi_hello hello = raw_says(&victim, WHI_STEP_HELLO);
    uint8_t bytes[WHI_HELLO_SIZE];
    whi_hello_encode(&hello, bytes);
    uint64_t start = whi_clock_ns();
    size_t sent = 0;
    while (sent < WHI_HELLO_SIZE && !raw_hung_up(fd)) {
        (void)send(fd, bytes + sent++, 1, MSG_NOSIGNAL);
        pump_for(&victim, 20);
    }
    CHECK(sent < WHI_HELLO_SIZE);
    CHECK(whi_clock_ns() - start < 20 * HANDSHAKE_MS * WHI_NS_PER_MS);
    CHECK(logged("W-HND-04"));
    close(fd);
    end();
}

// waits_without_descriptors counts how often the server has something to do while a connection waits that it cannot take.
static unsigned waits_without_descriptors(int fd) {
    enum { MS = 500 };
    struct rlimit usual, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)fd + 1, .rlim_max = usual.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    unsigned count = 0;
    uint64_t end_ns = whi_clock_ns() + MS * WHI_NS_PER_MS;
    while (whi_clock_ns() < end_ns)
        count += wh_worker_wait(victim.server, 10) == WH_OK;
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    return count;
}

// At the limit of descriptors a connection that waits does not keep the worker awake, and is taken when there are some.
TEST(no_descriptors) {
    enum { OFTEN = 50 };
    begin();
    listen_to_log();
    for (int local = 0; local < 2; local++) {
        int fd = local ? raw_local(whi_local_name(victim.server)) : raw_tcp(port);
        CHECK(waits_without_descriptors(fd) < OFTEN);
        PUMP_UNTIL(&victim, whi_links_of(victim.server)->acceptor_count == 1);
        close(fd);
        PUMP_UNTIL(&victim, whi_links_of(victim.server)->acceptor_count == 0);
    }
    CHECK(logged("E-HND-05"));
    end();
}

static void more_descriptors(rlim_t wanted) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_max < wanted)
        SKIP("the limit of descriptors is too low");
    limit.rlim_cur = wanted;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

// newcomer connects one more honest endpoint from a worker of its own while the doors are crowded.
static void newcomer(void) {
    wh_worker *worker = kit_worker(victim.ctx[1]);
    wh_endpoint *ep = NULL;
    unsigned before = victim.accepted_count;
    CHECK_EQ_INT(wh_endpoint_connect(worker, victim.address, NULL, &ep), WH_OK);
    PUMP_UNTIL(&victim, (wh_worker_progress(worker), wh_endpoint_status(ep)) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
    PUMP_UNTIL(&victim, victim.accepted_count > before);
    wh_endpoint_abort(victim.accepted[before]);
    wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
}

// heap_used returns the bytes that this process has from malloc; always 0 under a sanitizer, whose malloc does not tell.
static size_t heap_used(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// Whoever has not finished the handshake costs one small record, silent or with a hello as long as it may be.
TEST(strangers_cost_a_record) {
    enum { STRANGERS = 50, RECORD_MAX = 4096 };
    static const char *const patient[] = {"handshake_timeout=60s", NULL};
    int fds[STRANGERS];
    begin_with(patient, patient);
    size_t before = heap_used();
    whi_alloc_fail_at(UINT64_MAX);
    for (unsigned i = 0; i < STRANGERS; i++) {
        whi_hello hello = raw_says(&victim, WHI_STEP_HELLO);
        uint8_t bytes[WHI_HELLO_SIZE];
        memset(hello.host, 'h', sizeof(hello.host) - 1);
        whi_hello_encode(&hello, bytes);
        fds[i] = raw_tcp(port);
        if (i % 2)
            CHECK(send(fds[i], bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes));
        while (whi_links_of(victim.server)->acceptor_count <= i)
            (void)wh_worker_progress(victim.server);
    }
    for (int i = 1; i < STRANGERS; i += 2) {
        uint8_t answer[WHI_HELLO_SIZE];
        while (recv(fds[i], answer, sizeof(answer), MSG_PEEK) != sizeof(answer))
            (void)wh_worker_progress(victim.server);
    }
    CHECK_EQ_INT(whi_alloc_count(), STRANGERS);
    whi_alloc_fail_at(0);
    CHECK(heap_used() - before <= (size_t)STRANGERS * RECORD_MAX);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    end();
}

enum { CROWD = 2000 };
static int crowd[CROWD];

TEST(two_thousand_that_say_nothing) {
    more_descriptors(2 * CROWD + 1000);
    begin();
    listen_to_log();
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = raw_tcp(port);
        if (i % 16 == 0)
            pump(&victim);
        CHECK(whi_links_of(victim.server)->acceptor_count <= HANDSHAKE_MAX);
    }
    newcomer();
    CHECK(logged("W-HND-06") && logged("handshake_max=64"));
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    end();
}

// All places are taken by peers that have sent a good hello and go no further: they cannot keep them.
TEST(two_thousand_that_only_say_hello) {
    more_descriptors(2 * CROWD + 1000);
    begin();
    unsigned most = 0;  // on a slow machine some of them give up before the last one comes
    for (int i = 0; i < CROWD; i++) {
        whi_hello hello = raw_says(&victim, WHI_STEP_HELLO);
        uint8_t bytes[WHI_HELLO_SIZE];
        crowd[i] = raw_tcp(port);
        (void)raw_hello_write(&victim, crowd[i], &hello, bytes);
        unsigned count = (unsigned)whi_links_of(victim.server)->acceptor_count;
        most = count > most ? count : most;
    }
    CHECK_EQ_INT(most, HANDSHAKE_MAX);
    newcomer();
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    end();
}

// ---- the secret

// dial_fails connects with `secret` from a worker without one of its own; the error must say what `words` are.
static void dial_fails(const char *secret, wh_status expected, const char *word,
                       const char *word2) {
    wh_context *ctx = kit_context(NULL);
    wh_worker *worker = kit_worker(ctx);
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(
        wh_endpoint_connect(worker, victim.address, WH_ENDPOINT_OPTS(.secret = secret), &ep),
        WH_OK);
    PUMP_UNTIL(&victim, (wh_worker_progress(worker), wh_endpoint_status(ep)) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), expected);
    if (!strstr(wh_endpoint_error(ep), word) || !strstr(wh_endpoint_error(ep), word2))
        whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "\"%s\" lacks \"%s\" or \"%s\"",
                     wh_endpoint_error(ep), word, word2);
    wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
}

TEST(wrong_secret) {
    begin_with(secret_options, secret_options);
    dial_fails("wrong", WH_EAUTH, "secret", "another");
    dial_fails("righ", WH_EAUTH, "secret", "another");
    end();
}

TEST(secret_on_the_listening_side_only) {
    begin_with(secret_options, secret_options);
    listen_to_log();
    dial_fails("", WH_EAUTH, "the listener asks for a secret", "connecting side gives none");
    CHECK(logged("W-HND-01") && logged("gives none"));
    end();
}

TEST(secret_on_the_connecting_side_only) {
    begin();
    listen_to_log();
    dial_fails("right", WH_EAUTH, "the listener has no secret", "connecting side has one");
    CHECK(logged("W-HND-01"));
    end();
}

// "" means none, which is likely to be a mistake where the configuration has a secret.
TEST(listener_without_the_configured_secret) {
    wh_listener *open = NULL;
    begin_with(secret_options, secret_options);
    listen_to_log();
    CHECK_EQ_INT(wh_listener_open(victim.server, "127.0.0.1:0", WH_LISTENER_OPTS(.secret = "own"),
                                  duo_accept, &victim, &open),
                 WH_OK);
    wh_listener_close(open);
    CHECK(!logged("W-LST-05"));
    CHECK_EQ_INT(wh_listener_open(victim.server, "127.0.0.1:0", WH_LISTENER_OPTS(.secret = ""),
                                  duo_accept, &victim, &open),
                 WH_OK);
    wh_listener_close(open);
    CHECK(logged("W-LST-05"));
    end();
}

static void hello_with_secret(raw *r) {
    CHECK(raw_hello(&victim, r, port, WHI_HELLO_HAS_SECRET));
}

static void check_refused(const whi_hello *last) {
    CHECK_EQ_INT(last->step, WHI_STEP_REJECT);
    CHECK_EQ_INT(last->status, WH_EAUTH);
}

// The log has a limit for each reason: those who come without a secret hide nobody who guesses.
TEST(a_flood_of_refusals_hides_no_guess) {
    begin_with(secret_options, secret_options);
    listen_to_log();
    for (int i = 0; i < 20; i++) {
        raw r;
        CHECK(!raw_hello(&victim, &r, port, 0));
        close(r.fd);
    }
    raw guess;
    hello_with_secret(&guess);
    whi_hello last = raw_confirm(&victim, &guess, "wrong", 0);
    check_refused(&last);
    close(guess.fd);
    CHECK(logged("gives none") && logged("secret of the connecting side is another one"));
    end();
}

TEST(forged_proofs) {
    begin_with(secret_options, secret_options);
    listen_to_log();
    raw r;
    whi_hello last;
    // None, another secret's, the victim's own sent back, and one that is wrong by a bit.
    static const char *const secrets[] = {"", "wrong"};
    for (int i = 0; i < 2; i++) {
        hello_with_secret(&r);
        last = raw_confirm(&victim, &r, secrets[i], 0);
        check_refused(&last);
        close(r.fd);
    }
    for (int i = 0; i < 2; i++) {
        whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM);
        uint8_t bytes[WHI_HELLO_SIZE];
        hello_with_secret(&r);
        CHECK_EQ_INT(whi_hello_prove("right", WHI_ROLE_CONNECTOR, r.hello, r.answer, confirm.mac),
                     WH_OK);
        confirm.mac[31] ^= 0x80;
        if (i)
            memcpy(confirm.mac, r.peer.mac, sizeof(confirm.mac));
        CHECK(raw_hello_write(&victim, r.fd, &confirm, bytes));
        CHECK(raw_hello_read(&victim, r.fd, &last));
        check_refused(&last);
        close(r.fd);
    }
    CHECK(logged("W-HND-01") && logged("secret of the connecting side is another one"));
    end();
}

// Whoever has listened to a good handshake gains nothing by saying the same again.
TEST(replayed_handshake) {
    begin_with(secret_options, secret_options);
    raw good;
    hello_with_secret(&good);
    whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM), last;
    uint8_t recorded[WHI_HELLO_SIZE];
    CHECK_EQ_INT(whi_hello_prove("right", WHI_ROLE_CONNECTOR, good.hello, good.answer, confirm.mac),
                 WH_OK);
    CHECK(raw_hello_write(&victim, good.fd, &confirm, recorded));
    CHECK(raw_hello_read(&victim, good.fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_READY);
    close(good.fd);
    PUMP_UNTIL(&victim, whi_link_find(victim.server, good.me.uuid) == NULL);

    int fd = raw_tcp(port);
    CHECK(raw_write(&victim, fd, good.hello, WHI_HELLO_SIZE));
    CHECK(raw_hello_read(&victim, fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_ANSWER);
    CHECK(memcmp(last.nonce, good.peer.nonce, sizeof(last.nonce)) != 0);
    CHECK(raw_write(&victim, fd, recorded, WHI_HELLO_SIZE));
    CHECK(raw_hello_read(&victim, fd, &last));
    check_refused(&last);
    close(fd);
    end();
}

// A listener's secret cannot be got round by way of another listener of the same worker.
TEST(no_way_round_a_listeners_secret) {
    begin();
    listen_to_log();
    wh_listener *closed = NULL;
    CHECK_EQ_INT(wh_listener_open(victim.server, "127.0.0.1:0", WH_LISTENER_OPTS(.secret = "right"),
                                  duo_accept, &victim, &closed),
                 WH_OK);
    raw r;
    raw_link(&victim, &r, port);
    unsigned before = victim.accepted_count;
    for (uint64_t id = 0; id < 5; id++) {
        whi_hdr open = {.cls = WHI_CLASS_OPEN,
                        .ep = (uint32_t)(2 * id + 1),
                        .seq = 100,
                        .tag = id,
                        .arg = 1 << 16};
        CHECK(raw_send(&victim, &r, &open, NULL));
        whi_hdr reply;
        char text[WHI_CONTROL_MAX];
        CHECK(raw_read(&victim, r.fd, &reply, sizeof(reply)));
        CHECK(reply.size <= sizeof(text) && raw_read(&victim, r.fd, text, reply.size));
        // Only the listener that was connected to is open to this peer.
        CHECK_EQ_INT(reply.cls, id == r.peer.listener ? WHI_CLASS_ACCEPT : WHI_CLASS_REFUSE);
    }
    CHECK_EQ_INT(victim.accepted_count, before + 1);
    CHECK(logged("W-LST-04") && logged("has not proven"));
    close(r.fd);
    PUMP_UNTIL(&victim, wh_endpoint_status(victim.accepted[before]) != WH_OK);
    wh_endpoint_abort(victim.accepted[before]);
    wh_listener_close(closed);
    end();
}

// An honest worker that knows both secrets gets in at both, over its one link.
TEST(two_listeners_with_secrets_of_their_own) {
    begin();
    wh_listener *other[2];
    static const char *const secrets[] = {"one", "two"};
    wh_endpoint *eps[4];
    char address[2][64];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(wh_listener_open(victim.server, "127.0.0.1:0",
                                      WH_LISTENER_OPTS(.secret = secrets[i]), duo_accept, &victim,
                                      &other[i]),
                     WH_OK);
        CHECK_EQ_INT(wh_listener_address(other[i], address[i], sizeof(address[i])), WH_OK);
    }
    unsigned before = victim.accepted_count;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(wh_endpoint_connect(victim.client, address[i % 2],
                                         WH_ENDPOINT_OPTS(.secret = secrets[i % 2]), &eps[i]),
                     WH_OK);
        PUMP_UNTIL(&victim, wh_endpoint_status(eps[i]) != WH_PENDING);
        CHECK_EQ_STR(wh_endpoint_error(eps[i]), "");
        CHECK_EQ_INT(wh_endpoint_status(eps[i]), WH_OK);
    }
    wh_endpoint *wrong = NULL;
    CHECK_EQ_INT(
        wh_endpoint_connect(victim.client, address[1], WH_ENDPOINT_OPTS(.secret = "three"), &wrong),
        WH_OK);
    PUMP_UNTIL(&victim, wh_endpoint_status(wrong) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(wrong), WH_EAUTH);
    wh_endpoint_abort(wrong);
    CHECK_EQ_INT(whi_hash_count(&whi_links_of(victim.server)->links), 1);
    PUMP_UNTIL(&victim, victim.accepted_count == before + 4);
    for (int i = 0; i < 4; i++) {
        wh_endpoint_abort(victim.accepted[before + (unsigned)i]);
        wh_endpoint_abort(eps[i]);
    }
    wh_listener_close(other[0]);
    wh_listener_close(other[1]);
    end();
}

// ---- versions and lanes

TEST(another_version) {
    begin();
    listen_to_log();
    whi_hello hello = raw_says(&victim, WHI_STEP_HELLO), last;
    uint8_t bytes[WHI_HELLO_SIZE];
    hello.version_min = 7;
    hello.version_max = 9;
    int fd = raw_tcp(port);
    CHECK(raw_hello_write(&victim, fd, &hello, bytes));
    CHECK(raw_hello_read(&victim, fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
    CHECK_EQ_INT(last.status, WH_EVERSION);
    CHECK(strstr(last.text, "versions 1 to 1 at the listener") && strstr(last.text, "7 to 9"));
    CHECK(logged("W-HND-01") && logged("7 to 9"));
    close(fd);
    end();
}

TEST(no_lane_in_common) {
    static const char *const shm_only[] = {"lanes=shm", NULL};
    static const char *const stream_only[] = {"lanes=stream", NULL};
    begin_with(shm_only, shm_only);
    wh_context *ctx = kit_context(stream_only);
    wh_worker *worker = kit_worker(ctx);
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(worker, victim.address, NULL, &ep), WH_OK);
    PUMP_UNTIL(&victim, (wh_worker_progress(worker), wh_endpoint_status(ep)) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_ENOLANE);
    CHECK(strstr(wh_endpoint_error(ep), "lanes=shm") &&
          strstr(wh_endpoint_error(ep), "lanes=stream"));
    wh_endpoint_abort(ep);
    wh_worker_destroy(worker);
    wh_context_destroy(ctx);
    end();
}

// ---- the local socket

TEST(wrong_token) {
    begin();
    listen_to_log();
    raw r;
    CHECK(raw_hello(&victim, &r, port, 0));
    CHECK(r.peer.local_name[0]);
    whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM), last;
    uint8_t bytes[WHI_HELLO_SIZE];
    confirm.flags = WHI_HELLO_LOCAL;
    memcpy(confirm.token, r.peer.token, sizeof(confirm.token));
    confirm.token[15] ^= 1;
    int fd = raw_local(r.peer.local_name);
    CHECK(raw_hello_write(&victim, fd, &confirm, bytes));
    CHECK(raw_hello_read(&victim, fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
    CHECK(strstr(last.text, "token"));
    CHECK(logged("W-HND-01") && logged("token was not given out"));
    close(fd);
    close(r.fd);
    end();
}

// Who confirms and hangs up before the listener looks, as a dial does whose time for this address is over, is refused nothing.
TEST(gave_up_before_it_was_looked_at) {
    begin();
    CHECK_EQ_INT(wh_log_set_level("debug"), WH_OK);
    listen_to_log();
    raw r;
    CHECK(raw_hello(&victim, &r, port, 0));
    whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM);
    uint8_t bytes[WHI_HELLO_SIZE];
    confirm.flags = WHI_HELLO_LOCAL;
    memcpy(confirm.token, r.peer.token, sizeof(confirm.token));
    close(r.fd);
    PUMP_UNTIL(&victim, whi_links_of(victim.server)->acceptor_count == 0);
    int fd = raw_local(r.peer.local_name);
    whi_hello_encode(&confirm, bytes);
    CHECK(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes));
    close(fd);
    PUMP_UNTIL(&victim, logged("D-HND-07"));
    CHECK(!logged("W-HND-01"));
    end();
    CHECK_EQ_INT(wh_log_set_level("warn"), WH_OK);
}

// A token is good for one link.
TEST(used_token) {
    begin();
    raw r;
    raw_link_local(&victim, &r, port);
    whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM), last;
    uint8_t bytes[WHI_HELLO_SIZE];
    confirm.flags = WHI_HELLO_LOCAL;
    memcpy(confirm.token, r.peer.token, sizeof(confirm.token));
    int fd = raw_local(r.peer.local_name);
    CHECK(raw_hello_write(&victim, fd, &confirm, bytes));
    CHECK(raw_hello_read(&victim, fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
    close(fd);
    close(r.fd);
    end();
}

// A peer that goes away before the last word leaves nothing behind, neither of its local socket nor of the one that it came by.
TEST(gone_before_ready) {
    begin();
    raw r;
    CHECK(raw_hello(&victim, &r, port, 0));
    whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM);
    uint8_t bytes[WHI_HELLO_SIZE];
    confirm.flags = WHI_HELLO_LOCAL;
    memcpy(confirm.token, r.peer.token, sizeof(confirm.token));
    int fd = raw_local(r.peer.local_name);
    CHECK(shutdown(fd, SHUT_RD) == 0);
    whi_hello_encode(&confirm, bytes);
    CHECK(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes));
    uint64_t start = whi_clock_ns();
    PUMP_UNTIL(&victim, whi_links_of(victim.server)->acceptor_count == 0);
    CHECK(whi_clock_ns() - start < HANDSHAKE_MS / 2 * WHI_NS_PER_MS);
    close(fd);
    close(r.fd);
    end();
}

TEST(confirmation_without_a_hello) {
    begin();
    raw r;
    CHECK(raw_hello(&victim, &r, port, 0));
    const int fds[2] = {raw_tcp(port), raw_local(r.peer.local_name)};
    for (int i = 0; i < 2; i++) {
        whi_hello confirm = raw_says(&victim, WHI_STEP_CONFIRM), last;
        uint8_t bytes[WHI_HELLO_SIZE];
        confirm.flags = i ? 0 : WHI_HELLO_LOCAL;  // the flag means nothing on TCP
        CHECK(raw_hello_write(&victim, fds[i], &confirm, bytes));
        CHECK(raw_hello_read(&victim, fds[i], &last));
        CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
        close(fds[i]);
    }
    close(r.fd);
    end();
}

TEST(steps_out_of_turn) {
    begin();
    listen_to_log();
    static const whi_hello_step steps[] = {WHI_STEP_ANSWER, WHI_STEP_READY, WHI_STEP_EXISTING,
                                           WHI_STEP_REJECT};
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        whi_hello hello = raw_says(&victim, steps[i]), last;
        uint8_t bytes[WHI_HELLO_SIZE];
        int fd = raw_tcp(port);
        CHECK(raw_hello_write(&victim, fd, &hello, bytes));
        CHECK(raw_hello_read(&victim, fd, &last));
        CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
        close(fd);
    }
    raw r;  // two hellos
    CHECK(raw_hello(&victim, &r, port, 0));
    whi_hello last;
    CHECK(raw_write(&victim, r.fd, r.hello, WHI_HELLO_SIZE));
    CHECK(raw_hello_read(&victim, r.fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
    close(r.fd);
    CHECK(logged("out of turn"));
    end();
}

// A peer of this host that says it is somebody else's is sent away, over TCP too.
TEST(another_user_by_its_own_word) {
    begin();
    raw r = {.fd = raw_tcp(port), .me = raw_says(&victim, WHI_STEP_HELLO)};
    whi_hello last;
    r.me.uid++;
    CHECK(raw_hello_write(&victim, r.fd, &r.me, r.hello));
    CHECK(raw_hello_read(&victim, r.fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_REJECT);
    CHECK_EQ_INT(last.status, WH_EPERM);
    CHECK(strstr(last.text, "local_uid"));
    close(r.fd);
    // On another host the numbers of users mean nothing.
    r = (raw){.fd = raw_tcp(port), .me = raw_says(&victim, WHI_STEP_HELLO)};
    r.me.uid++;
    r.me.boot_id[0] ^= 1;
    CHECK(raw_hello_write(&victim, r.fd, &r.me, r.hello));
    CHECK(raw_hello_read(&victim, r.fd, &last));
    CHECK_EQ_INT(last.step, WHI_STEP_ANSWER);
    CHECK_EQ_STR(last.local_name, "");
    close(r.fd);
    end();
}

// as_another_user runs `fn` in a child of user 65534 and returns whether it was content.
static bool as_another_user(bool (*fn)(const raw *r), const raw *r) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        bool dropped = setgid(65534) == 0 && setuid(65534) == 0;
        _exit(dropped && fn(r) ? 0 : 1);
    }
    int status = 0;
    PUMP_UNTIL(&victim, waitpid(pid, &status, WNOHANG) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// In the child nothing of the library is used but the codec, on a socket that blocks.
static bool rejected_for_its_user(int fd, const whi_hello *hello) {
    uint8_t bytes[WHI_HELLO_SIZE];
    whi_hello last;
    fcntl(fd, F_SETFL, 0);
    whi_hello_encode(hello, bytes);
    if (send(fd, bytes, WHI_HELLO_SIZE, MSG_NOSIGNAL) != WHI_HELLO_SIZE ||
        recv(fd, bytes, WHI_HELLO_SIZE, MSG_WAITALL) != WHI_HELLO_SIZE)
        return false;
    return whi_hello_decode(bytes, &last) == WH_OK && last.step == WHI_STEP_REJECT &&
           last.status == WH_EPERM && strstr(last.text, "65534");
}

static bool hello_over_tcp(const raw *r) {
    whi_hello hello = r->me;
    hello.uid = 65534;
    return rejected_for_its_user(raw_tcp(port), &hello);
}

// The kernel's word counts on the local socket, not the peer's.
static bool hello_over_local(const raw *r) {
    whi_hello hello = r->me;
    return rejected_for_its_user(raw_local(r->peer.local_name), &hello);
}

static bool token_over_local(const raw *r) {
    whi_hello confirm = r->me;
    confirm.step = WHI_STEP_CONFIRM;
    confirm.flags = WHI_HELLO_LOCAL;
    memcpy(confirm.token, r->peer.token, sizeof(confirm.token));
    return rejected_for_its_user(raw_local(r->peer.local_name), &confirm);
}

TEST(another_user) {
    if (geteuid() != 0)
        SKIP("only root can become somebody else");
    // A token must outlive three forks of a program that a sanitizer has made large.
    static const char *const patient[] = {"handshake_timeout=60s", NULL};
    begin_with(patient, patient);
    listen_to_log();
    raw r;
    CHECK(raw_hello(&victim, &r, port, 0));
    CHECK(as_another_user(hello_over_tcp, &r));
    CHECK(as_another_user(hello_over_local, &r));
    CHECK(as_another_user(token_over_local, &r));
    CHECK(logged("65534"));
    close(r.fd);
    end();
}

// ---- names

// Whoever claims the name of a worker that is linked, or the victim's own, gets nothing and harms nobody.
TEST(claimed_names) {
    begin();
    listen_to_log();
    uint8_t names[3][16];
    memcpy(names[0], victim.client->uuid, 16);
    memcpy(names[1], victim.server->uuid, 16);
    for (int i = 0; i < 16; i++)
        names[2][i] = (uint8_t)~victim.server->uuid[i];
    for (int i = 0; i < 3; i++) {
        raw r = {.fd = raw_tcp(port), .me = raw_says(&victim, WHI_STEP_HELLO)};
        memcpy(r.me.uuid, names[i], 16);
        CHECK(raw_hello_write(&victim, r.fd, &r.me, r.hello));
        CHECK(raw_read(&victim, r.fd, r.answer, WHI_HELLO_SIZE));
        CHECK_EQ_INT(whi_hello_decode(r.answer, &r.peer), WH_OK);
        CHECK_EQ_INT(r.peer.step, i ? WHI_STEP_ANSWER : WHI_STEP_EXISTING);
        if (i)
            CHECK_EQ_INT(raw_confirm(&victim, &r, "", 0).step, WHI_STEP_REJECT);
        close(r.fd);
    }
    CHECK(logged("claims to be the listener"));
    CHECK_EQ_INT(whi_hash_count(&whi_links_of(victim.server)->links), 1);
    end();
}

// ---- a hostile listener

static int bare_listener(uint16_t *at) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, size) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&addr, &size) == 0);
    *at = ntohs(addr.sin_port);
    return fd;
}

typedef enum lie {
    LIE_GARBAGE,
    LIE_SILENCE,
    LIE_HANG_UP,
    LIE_VERSION,
    LIE_NO_EAGER,
    LIE_NO_CHUNK,
    LIE_NO_LANE,
    LIE_READY_AT_ONCE,
    LIE_TWO_ANSWERS,
    LIE_EXISTING,
    LIE_REJECT,
    LIE_READY_IS_RUBBISH,
    LIES
} lie;

static void lie_to(int fd, lie what) {
    whi_hello hello = raw_says(&victim, WHI_STEP_ANSWER), last;
    uint8_t bytes[WHI_HELLO_SIZE];
    switch (what) {
    case LIE_GARBAGE: (void)raw_write(&victim, fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28); return;
    case LIE_SILENCE: return;
    case LIE_HANG_UP: shutdown(fd, SHUT_RDWR); return;
    case LIE_VERSION: hello.version_min = hello.version_max = 12; break;
    case LIE_NO_EAGER: hello.eager_max = 0; break;
    case LIE_NO_CHUNK: hello.chunk_max = 1; break;
    case LIE_NO_LANE: hello.lanes = WHI_LANE_UCX; break;
    case LIE_READY_AT_ONCE: hello.step = WHI_STEP_READY; break;
    case LIE_EXISTING: hello.step = WHI_STEP_EXISTING; break;
    case LIE_REJECT:
        hello.step = WHI_STEP_REJECT;
        hello.status = 12345;
        memcpy(hello.text, "\x1b[2J", 5);
        break;
    default: break;
    }
    CHECK(raw_hello_read(&victim, fd, &last));
    (void)raw_hello_write(&victim, fd, &hello, bytes);
    if (what == LIE_TWO_ANSWERS)
        (void)raw_hello_write(&victim, fd, &hello, bytes);
    if (what == LIE_READY_IS_RUBBISH) {
        memset(bytes, 'x', sizeof(bytes));
        (void)raw_write(&victim, fd, bytes, sizeof(bytes));
    }
}

TEST(hostile_listener) {
    static const wh_status expected[LIES] = {
        [LIE_GARBAGE] = WH_EPEER,         [LIE_SILENCE] = WH_ETIMEDOUT,
        [LIE_HANG_UP] = WH_EPEER,         [LIE_VERSION] = WH_EVERSION,
        [LIE_NO_EAGER] = WH_EPROTOCOL,    [LIE_NO_CHUNK] = WH_EPROTOCOL,
        [LIE_NO_LANE] = WH_ENOLANE,       [LIE_READY_AT_ONCE] = WH_EPROTOCOL,
        [LIE_TWO_ANSWERS] = WH_EPROTOCOL, [LIE_EXISTING] = WH_ETIMEDOUT,
        [LIE_REJECT] = WH_EREFUSED,       [LIE_READY_IS_RUBBISH] = WH_EPROTOCOL};
    begin();
    uint16_t there;
    int listener = bare_listener(&there);
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", there);
    for (int what = 0; what < LIES; what++) {
        wh_endpoint *ep = NULL;
        CHECK_EQ_INT(
            wh_endpoint_connect(victim.client, address, WH_ENDPOINT_OPTS(.timeout_ms = 700), &ep),
            WH_OK);
        int fd = -1;
        PUMP_UNTIL(&victim, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0);
        lie_to(fd, (lie)what);
        if (what == LIE_GARBAGE)
            shutdown(fd, SHUT_WR);
        PUMP_UNTIL(&victim, wh_endpoint_status(ep) != WH_PENDING);
        if (wh_endpoint_status(ep) != expected[what])
            fprintf(stderr, "lie %d: %s\n", what, wh_endpoint_error(ep));
        CHECK_EQ_INT(wh_endpoint_status(ep), expected[what]);
        for (const char *c = wh_endpoint_error(ep); *c; c++)
            CHECK(*c >= ' ' && *c <= '~');
        wh_endpoint_abort(ep);
        close(fd);
        int again;  // a dial may have tried more than once
        while ((again = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
            close(again);
    }
    close(listener);
    end();
}

// A listener that does not know the secret is found out before anything is proven to it.
TEST(a_listener_without_the_secret) {
    static const char *const names[] = {"no proof", "another secret", "the wrong role",
                                        "no secret"};
    begin_with(secret_options, secret_options);
    uint16_t there;
    int listener = bare_listener(&there);
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%u", there);
    for (int what = 0; what < 5; what++) {
        wh_endpoint *ep = NULL;
        uint8_t first[WHI_HELLO_SIZE], answer[WHI_HELLO_SIZE];
        whi_hello hello = raw_says(&victim, WHI_STEP_ANSWER);
        CHECK_EQ_INT(wh_endpoint_connect(victim.client, address, NULL, &ep), WH_OK);
        int fd = -1;
        PUMP_UNTIL(&victim, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0);
        CHECK(raw_read(&victim, fd, first, sizeof(first)));
        hello.flags = what == 3 ? 0 : WHI_HELLO_HAS_SECRET;
        whi_hello_encode(&hello, answer);
        if (what == 1 || what == 2 || what == 4)
            CHECK_EQ_INT(whi_hello_prove(what == 1 ? "wrong" : "right",
                                         what == 2 ? WHI_ROLE_CONNECTOR : WHI_ROLE_ACCEPTOR, first,
                                         answer, hello.mac),
                         WH_OK);
        CHECK(raw_hello_write(&victim, fd, &hello, answer));
        uint8_t proof[WHI_HELLO_SIZE];
        if (what == 4) {
            CHECK(raw_read(&victim, fd, proof, sizeof(proof)));
            wh_endpoint_abort(ep);
            close(fd);
            continue;
        }
        PUMP_UNTIL(&victim, wh_endpoint_status(ep) != WH_PENDING);
        if (wh_endpoint_status(ep) != WH_EAUTH)
            whi_test_end(WHI_TEST_FAILED, __FILE__, __LINE__, "%s: %s", names[what],
                         wh_endpoint_error(ep));
        CHECK(!raw_read(&victim, fd, proof, 1));
        wh_endpoint_abort(ep);
        close(fd);
    }
    close(listener);
    end();
}

TEST_MAIN()
