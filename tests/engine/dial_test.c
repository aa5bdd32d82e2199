// SPDX-License-Identifier: BSD-3-Clause
//
// Dialling when the other side, or this one, cannot do its part: the endpoint ends, in time.  What still uses a link that has
// failed is for the address sanitizer to see.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "engine/test_kit.h"
#include "link/address.h"

static duo d;

// A process of this host answers on its local socket only when it progresses.
TEST(local_peer_that_does_not_progress) {
    char blob[WH_ADDRESS_MAX];
    size_t size = sizeof(blob);
    wh_endpoint *ep = NULL;
    duo_begin(&d, NULL, NULL);
    CHECK_EQ_INT(wh_worker_address(d.server, blob, &size), WH_OK);
    wh_endpoint_opts opts = {.size = sizeof(opts), .timeout_ms = 300};
    CHECK_EQ_INT(wh_endpoint_connect_blob(d.client, blob, size, &opts, &ep), WH_OK);
    uint64_t start = whi_clock_ns();
    while (wh_endpoint_status(ep) == WH_PENDING) {
        (void)wh_worker_progress(d.client);
        CHECK(whi_clock_ns() - start < 3 * WHI_NS_PER_S);
    }
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_ETIMEDOUT);
    wh_endpoint_abort(ep);
    duo_end(&d);
}

// address_of returns the address blob of a worker, as a peer of another host takes it.
static whi_blob address_of(wh_worker *worker) {
    uint8_t bytes[WH_ADDRESS_MAX];
    size_t size = sizeof(bytes);
    whi_blob blob;
    CHECK_EQ_INT(wh_worker_address(worker, bytes, &size), WH_OK);
    CHECK_EQ_INT(whi_blob_decode(bytes, size, &blob), WH_OK);
    memset(blob.boot_id, 0xff, sizeof(blob.boot_id));
    blob.count = 1;
    return blob;
}

// accepting_worker returns one to which peers connect by its address blob.
static wh_worker *accepting_worker(void) {
    wh_worker *worker = NULL;
    CHECK_EQ_INT(
        wh_worker_create(d.ctx[0], WH_WORKER_OPTS(.accept = duo_accept, .accept_arg = &d), &worker),
        WH_OK);
    return worker;
}

static wh_endpoint *begin_connect(const whi_blob *blob) {
    uint8_t bytes[WH_ADDRESS_MAX];
    size_t size = whi_blob_encode(blob, bytes, sizeof(bytes));
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect_blob(d.client, bytes, size, NULL, &ep), WH_OK);
    return ep;
}

// settle_one waits until it is open or has failed, while a second server answers too.
static void settle_one(const wh_endpoint *ep, wh_worker *second) {
    KIT_UNTIL(duo_pass(&d);
              wh_worker_progress(second), "settle_one", wh_endpoint_status(ep) != WH_PENDING);
}

static wh_endpoint *connect_to(const whi_blob *blob, wh_worker *second) {
    wh_endpoint *ep = begin_connect(blob);
    settle_one(ep, second);
    return ep;
}

// The port of a worker that has ended may be another's, to which there is a link or not.  It is passed over.
static void port_of_another(bool linked) {
    duo_begin(&d, NULL, NULL);
    wh_worker *meant = accepting_worker();
    if (linked)
        duo_connect(&d);
    unsigned before = d.accepted_count;
    whi_blob blob = address_of(meant);
    whi_sockaddr own = blob.addrs[0];
    blob.addrs[0] = address_of(d.server).addrs[0];
    wh_endpoint *ep = connect_to(&blob, meant);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EREFUSED);
    CHECK(strstr(wh_endpoint_error(ep), "another worker listens there"));
    wh_endpoint_abort(ep);
    CHECK_EQ_INT(d.accepted_count, before);
    blob.addrs[1] = own;
    blob.count = 2;
    ep = connect_to(&blob, meant);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
    wh_endpoint_abort(ep);
    KIT_UNTIL(wh_worker_progress(meant), "accepted", d.accepted_count > before);
    wh_endpoint_abort(d.accepted[before]);
    wh_worker_destroy(meant);
    duo_end(&d);
}

TEST(a_blob_leads_to_no_other_worker) {
    port_of_another(false);
    port_of_another(true);
}

// Nor is the search over where something else answers with these bytes.
static void past_others(const uint8_t answer[WHI_HELLO_SIZE]) {
    duo_begin(&d, NULL, NULL);
    wh_worker *meant = accepting_worker();
    whi_blob blob = address_of(meant);
    whi_sockaddr *foreign = &blob.addrs[0];
    blob.addrs[1] = blob.addrs[0];
    blob.count = 2;
    int listens = socket(foreign->addr.ss_family, SOCK_STREAM, 0), taken = -1;
    whi_address_set_port(foreign, 0);
    CHECK(bind(listens, (struct sockaddr *)&foreign->addr, foreign->size) == 0);
    CHECK(getsockname(listens, (struct sockaddr *)&foreign->addr, &foreign->size) == 0);
    CHECK(listen(listens, 1) == 0);
    CHECK(fcntl(listens, F_SETFL, O_NONBLOCK) == 0);
    wh_endpoint *ep = begin_connect(&blob);
    KIT_UNTIL(duo_pass(&d), "taken", (taken = accept(listens, NULL, NULL)) >= 0);
    CHECK(write(taken, answer, WHI_HELLO_SIZE) == WHI_HELLO_SIZE);
    settle_one(ep, meant);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_OK);
    wh_endpoint_abort(ep);
    KIT_UNTIL(wh_worker_progress(meant), "accepted", d.accepted_count == 1);
    wh_endpoint_abort(d.accepted[0]);
    close(taken);
    close(listens);
    wh_worker_destroy(meant);
    duo_end(&d);
}

TEST(a_blob_leads_past_others) {
    whi_hello no = {.step = WHI_STEP_REJECT, .status = WH_EAUTH, .text = "a secret is missing"};
    uint8_t bytes[WHI_HELLO_SIZE] = "HTTP/1.1 400 Bad Request";
    past_others(bytes);
    whi_hello_encode(&no, bytes);
    past_others(bytes);
}

// Where nobody else is, the no that was heard says most.
TEST(a_no_is_told_before_what_came_after_it) {
    duo_begin(&d, NULL, NULL);
    wh_worker *secretive = NULL;
    const char *const options[] = {"secret=s", NULL};
    wh_context *ctx = kit_context(options);
    CHECK_EQ_INT(wh_worker_create(ctx, NULL, &secretive), WH_OK);
    whi_blob blob = address_of(secretive);
    blob.addrs[1] = blob.addrs[0];
    whi_address_set_port(&blob.addrs[1], 1);  // nobody listens there
    blob.count = 2;
    wh_endpoint *ep = connect_to(&blob, secretive);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EAUTH);
    wh_endpoint_abort(ep);
    wh_worker_destroy(secretive);
    wh_context_destroy(ctx);
    duo_end(&d);
}

// Both dial, and the link that comes of it fails in its making, because no file may have a size.
TEST(link_that_fails_in_its_making) {
    struct rlimit usual, none;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &usual) == 0);
    none = usual;
    none.rlim_cur = 0;
    for (int round = 0; round < 20; round++) {
        wh_listener *listener = NULL;
        wh_endpoint *eps[2] = {NULL, NULL};
        char address[64];
        duo_begin(&d, NULL, NULL);
        CHECK_EQ_INT(wh_listener_open(d.client, "127.0.0.1:0", NULL, duo_accept, &d, &listener),
                     WH_OK);
        CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
        wh_endpoint_opts opts = {.size = sizeof(opts), .timeout_ms = 300};
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
        CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, &opts, &eps[0]), WH_OK);
        CHECK_EQ_INT(wh_endpoint_connect(d.server, address, &opts, &eps[1]), WH_OK);
        for (int i = 0; i < 2; i++)
            UNTIL(&d, wh_endpoint_status(eps[i]) != WH_PENDING);
        CHECK(setrlimit(RLIMIT_FSIZE, &usual) == 0);
        for (int i = 0; i < 2; i++) {
            CHECK(wh_endpoint_status(eps[i]) < 0);
            wh_endpoint_abort(eps[i]);
        }
        wh_listener_close(listener);
        duo_end(&d);
    }
}

// A peer that dials again at once meets the link that was closing and could not say so yet, because its lane was full.
TEST(link_made_anew_while_the_old_one_closes) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    whi_link *old = d.from->link, *link = NULL;
    CHECK_EQ_INT(whi_link_bare(d.server, old->uuid, false, "a name that is taken", &link),
                 WH_EREFUSED);
    old->closing = true;
    CHECK_EQ_INT(whi_link_bare(d.server, old->uuid, false, "made anew", &link), WH_OK);
    CHECK(old->dead && whi_link_find(d.server, link->uuid) == link);
    whi_link_drop(link);
    duo_end(&d);
}

// ---- many connects at once: those of one target share a handshake

enum { MANY = 100 };
static wh_endpoint *many[2 * MANY];
static size_t most_acceptors;

static void dial_many(wh_endpoint **eps, wh_worker *worker, const char *address, const char *secret,
                      uint32_t timeout_ms) {
    wh_endpoint_opts opts = {.size = sizeof(opts), .secret = secret, .timeout_ms = timeout_ms};
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(wh_endpoint_connect(worker, address, &opts, &eps[i]), WH_OK);
}

// settle lets all of them end or be open, and notes how many handshakes the server had at a time.
static void settle(wh_endpoint **eps, int count) {
    most_acceptors = 0;
    for (int i = 0; i < count; i++)
        KIT_UNTIL(duo_pass(&d); if (whi_links_of(d.server)->acceptor_count > most_acceptors)
                                    most_acceptors = whi_links_of(d.server)->acceptor_count,
                                "settle", !eps[i] || wh_endpoint_status(eps[i]) != WH_PENDING);
}

static int count_as(wh_endpoint **eps, int count, wh_status status) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += eps[i] && wh_endpoint_status(eps[i]) == status;
    return found;
}

static void drop_many(wh_endpoint **eps, int count) {
    for (int i = 0; i < count; i++)
        wh_endpoint_abort(eps[i]);
    memset(eps, 0, sizeof(*eps) * (size_t)count);
}

// end_many gives up all handles but those of the kit.
static void end_many(wh_listener *more) {
    drop_many(many, 2 * MANY);
    for (unsigned i = 0; i < d.accepted_count; i++)
        if (d.accepted[i] != d.from)
            wh_endpoint_abort(d.accepted[i]);
    if (more)
        wh_listener_close(more);
    duo_end(&d);
}

static void begin_many(const char *lanes, int handshakes) {
    char bound[32];
    snprintf(bound, sizeof(bound), "handshake_max=%d", handshakes);
    const char *const options[] = {bound, lanes, NULL};
    duo_begin(&d, options, options);
}

// A handshake over TCP takes a second place while it moves to the local socket.
static void all_get_in(const char *lanes, bool linked) {
    begin_many(lanes, 2);
    if (linked)
        duo_connect(&d);
    dial_many(many, d.client, d.address, NULL, 0);
    settle(many, MANY);
    CHECK_EQ_INT(count_as(many, MANY, WH_OK), MANY);
    CHECK(most_acceptors <= 2);
    CHECK_EQ_INT(whi_hash_count(&whi_links_of(d.client)->links), 1);
    end_many(NULL);
}

TEST(many_share_one_handshake) {
    all_get_in("lanes=shm", false);
    all_get_in("lanes=stream", false);
    all_get_in("lanes=shm", true);
    all_get_in("lanes=stream", true);
}

TEST(many_to_the_own_worker) {
    begin_many("lanes=shm", 2);
    dial_many(many, d.server, d.address, NULL, 0);
    settle(many, MANY);
    CHECK_EQ_INT(count_as(many, MANY, WH_OK), MANY);
    end_many(NULL);
}

TEST(many_to_a_name) {
    begin_many("lanes=stream", 2);
    char address[64];
    snprintf(address, sizeof(address), "localhost:%u", wh_listener_port(d.listener));
    dial_many(many, d.client, address, NULL, 0);
    settle(many, MANY);
    CHECK_EQ_INT(count_as(many, MANY, WH_OK), MANY);
    CHECK(most_acceptors <= 2);
    end_many(NULL);
}

TEST(many_to_a_blob) {
    char blob[WH_ADDRESS_MAX];
    size_t size = sizeof(blob);
    begin_many("lanes=shm,stream", 2);
    wh_worker *server = accepting_worker(), *other = d.server;
    d.server = server;
    CHECK_EQ_INT(wh_worker_address(d.server, blob, &size), WH_OK);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(wh_endpoint_connect_blob(d.client, blob, size, NULL, &many[i]), WH_OK);
    settle(many, MANY);
    CHECK_EQ_INT(count_as(many, MANY, WH_OK), MANY);
    CHECK(most_acceptors <= 2);
    d.server = other;
    drop_many(many, MANY);
    for (unsigned i = 0; i < d.accepted_count; i++)
        wh_endpoint_abort(d.accepted[i]);
    wh_worker_destroy(server);
    duo_end(&d);
}

// Each secret is proven once; those with a wrong one fail, each, and hold nobody up.
TEST(many_with_different_secrets) {
    begin_many("lanes=shm", 64);
    wh_listener *listener = NULL;
    char address[64];
    wh_listener_opts opts = {.size = sizeof(opts), .secret = "second"};
    CHECK_EQ_INT(wh_listener_open(d.server, "127.0.0.1:0", &opts, duo_accept, &d, &listener),
                 WH_OK);
    CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
    for (int i = 0; i < MANY; i++) {
        static const char *const secrets[] = {"second", "wrong", NULL};
        int which = i % 3;
        wh_endpoint_opts how = {.size = sizeof(how), .secret = secrets[which]};
        CHECK_EQ_INT(
            wh_endpoint_connect(d.client, which == 2 ? d.address : address, &how, &many[i]), WH_OK);
    }
    settle(many, MANY);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ_INT(wh_endpoint_status(many[i]), i % 3 == 1 ? WH_EAUTH : WH_OK);
    end_many(listener);
}

// Both sides dial at once, many times: one link comes of it.
TEST(many_that_cross) {
    for (int round = 0; round < 5; round++) {
        begin_many(round % 2 ? "lanes=shm" : "lanes=stream", 64);
        wh_listener *listener = NULL;
        char address[64];
        duo back = {.server = NULL};
        CHECK_EQ_INT(wh_listener_open(d.client, "127.0.0.1:0", NULL, duo_accept, &back, &listener),
                     WH_OK);
        CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
        dial_many(many, d.client, d.address, NULL, 0);
        dial_many(many + MANY, d.server, address, NULL, 0);
        settle(many, 2 * MANY);
        CHECK_EQ_INT(count_as(many, 2 * MANY, WH_OK), 2 * MANY);
        CHECK_EQ_INT(whi_hash_count(&whi_links_of(d.client)->links), 1);
        UNTIL(&d, back.accepted_count == MANY && d.accepted_count == MANY);
        for (unsigned i = 0; i < back.accepted_count; i++)
            wh_endpoint_abort(back.accepted[i]);
        end_many(listener);
    }
}

// The one whose handshake is under way fails, or is given up: the others go on by themselves.
TEST(others_go_on_without_the_first) {
    begin_many("lanes=shm", 2);
    for (int gone = 0; gone < 10; gone++) {
        dial_many(many, d.client, d.address, NULL, 0);
        for (int i = 0; i < gone; i++)
            (void)wh_worker_progress(d.client);
        for (int i = 0; i <= gone; i++) {  // the first, and some that wait
            wh_endpoint_abort(many[i * 3]);
            many[i * 3] = NULL;
        }
        settle(many, MANY);
        CHECK_EQ_INT(count_as(many, MANY, WH_OK), MANY - gone - 1);
        drop_many(many, MANY);
        duo_for(&d, 1);
        for (unsigned i = 0; i < d.accepted_count; i++)
            wh_endpoint_abort(d.accepted[i]);
        d.accepted_count = 0;
    }
    end_many(NULL);
}

// One that waits keeps to its own time.
TEST(those_that_wait_time_out) {
    begin_many("lanes=shm", 2);
    dial_many(many, d.client, d.address, NULL, 5000);
    dial_many(many + MANY, d.client, d.address, NULL, 50);
    uint64_t start = whi_clock_ns();
    while (count_as(many + MANY, MANY, WH_ETIMEDOUT) < MANY) {  // the server does not progress
        (void)wh_worker_progress(d.client);
        CHECK(whi_clock_ns() - start < 4 * WHI_NS_PER_S);
    }
    CHECK_EQ_INT(count_as(many, MANY, WH_PENDING), MANY);
    settle(many, MANY);
    CHECK_EQ_INT(count_as(many, MANY, WH_OK), MANY);
    end_many(NULL);
}

TEST(all_are_refused) {
    begin_many("lanes=shm", 2);
    wh_listener_close(d.listener);
    d.listener = NULL;
    dial_many(many, d.client, d.address, NULL, 0);
    settle(many, MANY);
    CHECK_EQ_INT(count_as(many, MANY, WH_EREFUSED), MANY);
    drop_many(many, MANY);
    dial_many(many, d.client, d.address, NULL, 0);  // and a worker that ends with all of them
    for (int i = 0; i < 3; i++)
        (void)wh_worker_progress(d.client);
    end_many(NULL);
}

// Who has to make room is told why.
TEST(the_bound_of_handshakes_is_named) {
    begin_many("lanes=shm", 1);
    wh_worker *others[3];
    wh_endpoint *eps[3];
    for (int i = 0; i < 3; i++) {
        others[i] = kit_worker(d.ctx[1]);
        CHECK_EQ_INT(wh_endpoint_connect(others[i], d.address, NULL, &eps[i]), WH_OK);
        for (int k = 0; k < 5; k++)
            (void)wh_worker_progress(others[i]);
    }
    int named = 0;
    for (int i = 0; i < 3; i++) {
        KIT_UNTIL(duo_pass(&d); for (int k = 0; k < 3; k++)(void) wh_worker_progress(others[k]),
                                "the end of a connect", wh_endpoint_status(eps[i]) != WH_PENDING);
        named += wh_endpoint_status(eps[i]) == WH_ELIMIT &&
                 strstr(wh_endpoint_error(eps[i]), "handshake_max=1") != NULL;
    }
    CHECK(named > 0);
    for (int i = 0; i < 3; i++) {
        wh_endpoint_abort(eps[i]);
        wh_worker_destroy(others[i]);
    }
    end_many(NULL);
}

TEST_MAIN()
