// SPDX-License-Identifier: BSD-3-Clause
//
// Who is at the other end, connect data, and whether the peer has gone.
#include <arpa/inet.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "engine/hostile_kit.h"
#include "link/address.h"
#include "link/listener.h"

static const char *const over_stream[] = {"lanes=stream", NULL};
static duo d;

static wh_peer_info info_of(const wh_endpoint *ep) {
    wh_peer_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_endpoint_peer_info(ep, &info), WH_OK);
    return info;
}

static void same_address(const wh_address *a, const wh_address *b) {
    CHECK_EQ_INT(a->family, b->family);
    CHECK_EQ_INT(a->port, b->port);
    CHECK_EQ_STR(a->host, b->host);
}

static void carries(const wh_endpoint *ep, const void *expected, size_t expected_size) {
    size_t size = 77;
    const void *data = wh_endpoint_peer_data(ep, &size);
    CHECK_EQ_INT(size, expected_size);
    CHECK(!size == !data);
    for (size_t i = 0; i < size; i++)
        CHECK(((const uint8_t *)data)[i] == ((const uint8_t *)expected)[i]);
}

// ---- who

static void both_ends(const char *const *opts, bool vouched) {
    duo_begin(&d, opts, opts);
    duo_connect(&d);
    wh_peer_info to = info_of(d.to), from = info_of(d.from);
    CHECK_MEM(to.uuid, d.server->uuid, 16);
    CHECK_MEM(from.uuid, d.client->uuid, 16);
    same_address(&to.local, &from.remote);
    same_address(&to.remote, &from.local);
    CHECK_EQ_INT(to.remote.family, AF_INET);
    CHECK_EQ_STR(to.remote.host, "127.0.0.1");
    CHECK_EQ_INT(to.remote.port, wh_listener_port(d.listener));
    const wh_peer_info *infos[] = {&to, &from};
    for (int i = 0; i < 2; i++) {
        CHECK(infos[i]->same_host);
        CHECK_EQ_INT(infos[i]->vouched, vouched);
        CHECK_EQ_INT(infos[i]->uid, geteuid());
        CHECK_EQ_INT(infos[i]->pid, getpid());
        char host[64] = "";
        CHECK(gethostname(host, sizeof(host) - 1) == 0);
        CHECK_EQ_STR(infos[i]->host, host);
    }
    duo_end(&d);
}

TEST(both_ends_are_known_over_shm) {
    both_ends(NULL, true);
}

TEST(both_ends_are_known_over_stream) {
    both_ends(over_stream, false);
}

// What was dialled first stays, whatever else is dialled over the link; each listener has its own
// addresses.
TEST(endpoints_of_a_link_share_its_addresses) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    wh_listener *second = NULL;
    CHECK_EQ_INT(wh_listener_open(d.server, "127.0.0.1:0", NULL, duo_accept, &d, &second), WH_OK);
    char address[64];
    CHECK_EQ_INT(wh_listener_address(second, address, sizeof(address)), WH_OK);
    wh_endpoint *ep = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, address, NULL, &ep), WH_OK);
    UNTIL(&d, wh_endpoint_status(ep) == WH_OK);
    wh_peer_info first = info_of(d.to), then = info_of(ep);
    CHECK_MEM(&first, &then, sizeof(first));
    wh_address at;
    CHECK_EQ_INT(wh_listener_sockaddr(second, 0, &at), WH_OK);
    CHECK_EQ_INT(at.port, wh_listener_port(second));
    CHECK(at.port != first.remote.port);
    CHECK_EQ_STR(at.host, "127.0.0.1");
    CHECK_EQ_INT(wh_listener_sockaddr(second, 1, &at), WH_ENOTFOUND);
    CHECK_EQ_INT(wh_listener_sockaddr(second, 0, NULL), WH_EINVAL);
    CHECK_EQ_INT(wh_listener_sockaddr(NULL, 0, &at), WH_EINVAL);
    UNTIL(&d, d.accepted_count == 2);
    wh_endpoint_abort(d.accepted[1]);
    wh_endpoint_abort(ep);
    wh_listener_close(second);
    duo_end(&d);
}

static wh_endpoint *blob_accepted;

static void accept_blob(wh_endpoint *ep, void *arg) {
    (void)arg;
    blob_accepted = ep;
}

// server_of_blob replaces the server by one that takes endpoints for its address blob.
static size_t server_of_blob(const wh_worker_opts *opts, uint8_t *blob) {
    size_t size;
    wh_listener_close(d.listener);
    wh_worker_destroy(d.server);
    CHECK_EQ_INT(wh_worker_create(d.ctx[0], opts, &d.server), WH_OK);
    duo_listen(&d, NULL);
    CHECK_EQ_INT(wh_worker_address(d.server, blob, &size), WH_OK);
    return size;
}

// By an address blob of this host nobody dials TCP: the addresses are the local name's.
TEST(by_blob_there_is_a_local_name) {
    uint8_t blob[WH_ADDRESS_MAX];
    for (int tcp = 0; tcp < 2; tcp++) {
        const char *const *opts = tcp ? over_stream : NULL;
        duo_begin(&d, opts, opts);
        size_t size = server_of_blob(
            WH_WORKER_OPTS(.accept = accept_blob, .accept_data = "blob", .accept_data_size = 4),
            blob);
        CHECK_EQ_INT(wh_endpoint_connect_blob(d.client, blob, size,
                                              WH_ENDPOINT_OPTS(.data = "me", .data_size = 2),
                                              &d.to),
                     WH_OK);
        UNTIL(&d, wh_endpoint_status(d.to) != WH_PENDING);
        CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
        d.from = blob_accepted;
        carries(d.to, "blob", 4);
        carries(d.from, "me", 2);
        wh_peer_info to = info_of(d.to), from = info_of(d.from);
        CHECK(to.remote.family == (tcp ? to.local.family : AF_UNIX));
        CHECK(tcp || strncmp(to.remote.host, "wherry-", 7) == 0);
        CHECK_EQ_INT(strlen(to.remote.host) == 7 + 32, !tcp);
        CHECK(tcp || (to.remote.port == 0 && to.local.host[0] == '\0'));
        same_address(&to.remote, &from.local);
        CHECK_EQ_INT(to.vouched, !tcp);
        duo_end(&d);
    }
}

TEST(a_worker_knows_itself) {
    duo_begin(&d, NULL, NULL);
    CHECK_EQ_INT(wh_endpoint_connect(d.server, d.address,
                                     WH_ENDPOINT_OPTS(.data = "self", .data_size = 4), &d.to),
                 WH_OK);
    UNTIL(&d, wh_endpoint_status(d.to) != WH_PENDING);
    CHECK_EQ_INT(d.accepted_count, 1);
    d.from = d.accepted[0];
    carries(d.from, "self", 4);
    wh_peer_info to = info_of(d.to), from = info_of(d.from);
    CHECK_MEM(to.uuid, d.server->uuid, 16);
    CHECK_MEM(from.uuid, d.server->uuid, 16);
    CHECK(to.same_host && to.vouched && from.vouched && to.pid == (uint32_t)getpid());
    same_address(&to.local, &from.remote);
    same_address(&to.remote, &from.local);
    CHECK_EQ_INT(to.remote.port, wh_listener_port(d.listener));
    duo_end(&d);
}

// The struct of another version: no byte behind its size is written, and what is unknown is zero.
TEST(the_struct_may_be_another_versions) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    struct {
        wh_peer_info info;
        uint8_t more[64];
    } wide;
    memset(&wide, 0xab, sizeof(wide));
    wide.info.size = sizeof(wide);
    CHECK_EQ_INT(wh_endpoint_peer_info(d.to, &wide.info), WH_OK);
    CHECK_EQ_INT(wide.info.size, sizeof(wide));
    for (size_t i = 0; i < sizeof(wide.more); i++)
        CHECK_EQ_INT(wide.more[i], 0);
    memset(&wide, 0xab, sizeof(wide));
    wide.info.size = offsetof(wh_peer_info, local);
    CHECK_EQ_INT(wh_endpoint_peer_info(d.to, &wide.info), WH_OK);
    CHECK_EQ_INT(wide.info.size, offsetof(wh_peer_info, local));
    CHECK_MEM(wide.info.uuid, d.server->uuid, 16);
    for (size_t i = offsetof(wh_peer_info, local); i < sizeof(wide); i++)
        CHECK_EQ_INT(((uint8_t *)&wide)[i], 0xab);
    wide.info.size = 0;
    CHECK_EQ_INT(wh_endpoint_peer_info(d.to, &wide.info), WH_EINVAL);
    CHECK_EQ_INT(wh_endpoint_peer_info(NULL, &wide.info), WH_EINVAL);
    CHECK_EQ_INT(wh_endpoint_peer_info(d.to, NULL), WH_EINVAL);
    duo_end(&d);
}

TEST(the_peer_is_known_after_its_end) {
    duo_begin(&d, NULL, NULL);
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, NULL, &d.to), WH_OK);
    wh_peer_info info = {.size = sizeof(info)};
    CHECK_EQ_INT(wh_endpoint_peer_info(d.to, &info), WH_PENDING);
    UNTIL(&d, wh_endpoint_status(d.to) == WH_OK && d.accepted_count == 1);
    wh_peer_info before = info_of(d.to);
    wh_endpoint_abort(d.accepted[0]);
    UNTIL(&d, wh_endpoint_status(d.to) == WH_EPEER);
    UNTIL(&d, whi_hash_count(&whi_links_of(d.client)->links) == 0);
    info = info_of(d.to);
    CHECK_MEM(&info, &before, sizeof(info));
    wh_worker_destroy(d.client);
    info = info_of(d.to);
    CHECK_MEM(&info, &before, sizeof(info));
    CHECK(wh_endpoint_lost(d.to));
    wh_endpoint_abort(d.to);
    d.to = NULL;
    d.client = kit_worker(d.ctx[1]);
    // One that never got there has nobody to tell of.
    wh_listener_close(d.listener);
    d.listener = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, NULL, &d.to), WH_OK);
    CHECK(!wh_endpoint_lost(d.to));
    UNTIL(&d, wh_endpoint_status(d.to) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_peer_info(d.to, &info), WH_ECLOSED);
    CHECK(wh_endpoint_lost(d.to));
    duo_end(&d);
}

TEST(addresses_of_every_family) {
    whi_sockaddr addr = {.size = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr.addr;
    *in6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = htons(4711), .sin6_scope_id = if_nametoindex("lo")};
    CHECK_EQ_INT(inet_pton(AF_INET6, "fe80::1:2", &in6->sin6_addr), 1);
    wh_address at;
    memset(&at, 0xab, sizeof(at));
    whi_address_tell(&addr, &at);
    CHECK_EQ_INT(at.family, AF_INET6);
    CHECK_EQ_INT(at.port, 4711);
    CHECK_EQ_INT(at.scope_id, if_nametoindex("lo"));
    CHECK_EQ_STR(at.host, at.scope_id ? "fe80::1:2%lo" : "fe80::1:2");
    // An abstract name as long as one can be, and none.
    addr = (whi_sockaddr){.size = sizeof(struct sockaddr_un)};
    struct sockaddr_un *un = (struct sockaddr_un *)&addr.addr;
    un->sun_family = AF_UNIX;
    memset(un->sun_path + 1, 'x', sizeof(un->sun_path) - 1);
    whi_address_tell(&addr, &at);
    CHECK_EQ_INT(strlen(at.host), sizeof(at.host) - 1);
    addr.size = sizeof(sa_family_t);
    whi_address_tell(&addr, &at);
    CHECK_EQ_INT(at.family, AF_UNIX);
    CHECK_EQ_STR(at.host, "");
    CHECK_EQ_INT(at.port, 0);
}

// ---- connect data

static uint8_t much[WH_CONNECT_DATA_MAX + 1];

TEST(data_that_cannot_be_given) {
    duo_begin(&d, NULL, NULL);
    wh_endpoint *ep = NULL;
    wh_listener *listener = NULL;
    wh_worker *worker = NULL;
    const size_t sizes[] = {sizeof(much), SIZE_MAX, 1};
    for (int i = 0; i < 3; i++) {
        const void *data = i == 2 ? NULL : much;
        CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address,
                                         WH_ENDPOINT_OPTS(.data = data, .data_size = sizes[i]),
                                         &ep),
                     WH_EINVAL);
        CHECK(logged("connect: connect data of"));
        CHECK_EQ_INT(wh_listener_open(d.server, "127.0.0.1:0",
                                      WH_LISTENER_OPTS(.data = data, .data_size = sizes[i]),
                                      duo_accept, &d, &listener),
                     WH_EINVAL);
        CHECK(logged("listener: connect data of"));
        CHECK_EQ_INT(
            wh_worker_create(d.ctx[0],
                             WH_WORKER_OPTS(.accept_data = data, .accept_data_size = sizes[i]),
                             &worker),
            WH_EINVAL);
        CHECK(logged("worker: connect data of"));
    }
    CHECK(!ep && !listener && !worker);
    duo_end(&d);
}

typedef enum answer_way {
    ANSWER_ECHO,
    ANSWER_TOO_MUCH,
    ANSWER_NO,
    ANSWER_ABORT,
    ANSWER_CLOSE,
    ANSWER_ODD,
    ANSWER_SENDS,
    ANSWER_SHUTS,
    ANSWER_WAYS
} answer_way;
static answer_way way;
static unsigned asked;

static wh_status answer(wh_endpoint *ep, void *data, size_t *size, void *arg) {
    CHECK(arg == &d);
    asked++;
    carries(ep, "who?", 4);
    CHECK_EQ_INT(info_of(ep).same_host, true);
    CHECK_EQ_INT(*size, 7);
    CHECK_MEM(data, "default", 7);
    wh_endpoint_set_data(ep, &asked);
    switch (way) {
    case ANSWER_TOO_MUCH: *size = WH_CONNECT_DATA_MAX + 1; return WH_OK;
    case ANSWER_NO: return WH_EAUTH;
    case ANSWER_ABORT: wh_endpoint_abort(ep); return WH_OK;
    case ANSWER_CLOSE: CHECK_EQ_INT(wh_endpoint_close(ep, NULL, NULL), WH_OK); return WH_EAUTH;
    case ANSWER_ODD: return (wh_status)12345;
    case ANSWER_SHUTS:
        wh_listener_close(d.listener);
        d.listener = NULL;
        CHECK(wh_tag_send(ep, "never", 5, 1, NULL, NULL) == WH_PENDING);
        return WH_OK;
    case ANSWER_SENDS: {
        wh_status st = wh_tag_send(ep, "early", 5, 1, NULL, NULL);
        CHECK(st == WH_PENDING);
        return WH_OK;
    }
    default: break;
    }
    memset(data, 'e', WH_CONNECT_DATA_MAX);
    *size = WH_CONNECT_DATA_MAX;
    return WH_OK;
}

static const wh_status answered[ANSWER_WAYS] = {
    [ANSWER_ECHO] = WH_OK,     [ANSWER_TOO_MUCH] = WH_EINVAL, [ANSWER_NO] = WH_EAUTH,
    [ANSWER_ABORT] = WH_EPEER, [ANSWER_CLOSE] = WH_EPEER,     [ANSWER_ODD] = WH_EREFUSED,
    [ANSWER_SENDS] = WH_OK,    [ANSWER_SHUTS] = WH_EREFUSED,
};

static void ask_one(const char *const *opts) {
    duo_begin(&d, opts, opts);
    wh_listener_close(d.listener);
    duo_listen(&d, WH_LISTENER_OPTS(.data = "default", .data_size = 7, .answer = answer));
    asked = 0;
    char got[8];
    wh_request *recv = NULL;
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address,
                                     WH_ENDPOINT_OPTS(.data = "who?", .data_size = 4), &d.to),
                 WH_OK);
    CHECK_EQ_INT(wh_tag_recv(d.to, got, sizeof(got), 1, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    UNTIL(&d, wh_endpoint_status(d.to) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(d.to), answered[way]);
    CHECK_EQ_INT(asked, 1);
    CHECK_EQ_INT(d.accepted_count, answered[way] == WH_OK);
    if (answered[way] == WH_OK) {
        d.from = d.accepted[0];
        CHECK(wh_endpoint_data(d.from) == &asked);
        size_t size;
        const uint8_t *data = wh_endpoint_peer_data(d.to, &size);
        CHECK_EQ_INT(size, way == ANSWER_ECHO ? WH_CONNECT_DATA_MAX : 7);
        CHECK_EQ_INT(data[0], way == ANSWER_ECHO ? 'e' : 'd');
        if (way == ANSWER_ECHO)
            wh_request_cancel(recv);
        CHECK_EQ_INT(done_as(&d, recv), way == ANSWER_ECHO ? WH_ECANCELLED : WH_OK);
    } else {
        CHECK_EQ_INT(done_as(&d, recv), answered[way]);
        // The link had no other endpoint.
        UNTIL(&d, whi_hash_count(&whi_links_of(d.client)->links) == 0 &&
                      whi_hash_count(&whi_links_of(d.server)->links) == 0);
        wh_counters counters = {.size = sizeof(counters)};
        CHECK_EQ_INT(wh_worker_counters(d.server, &counters), WH_OK);
        CHECK_EQ_INT(counters.endpoints, 0);
    }
    duo_end(&d);
}

TEST(the_answer_decides) {
    for (int i = 0; i < 2 * ANSWER_WAYS; i++) {
        way = (answer_way)(i / 2);
        ask_one(i % 2 ? over_stream : NULL);
    }
}

// Whatever cannot be said at once is kept, with its data.
TEST(data_waits_for_room) {
    enum { MANY = 12000 };  // more than the sockets take
    whi_rng_init(&raw_rng, 7);
    duo_begin(&victim, over_stream, over_stream);
    wh_listener_close(victim.listener);
    memset(much, 'm', sizeof(much));
    duo_listen(&victim,
               WH_LISTENER_OPTS(.data = much, .data_size = WH_CONNECT_DATA_MAX, .answer = NULL));
    raw_features = WHI_FEATURE_DATA;
    raw r;
    raw_link(&victim, &r, wh_listener_port(victim.listener));
    whi_hdr open = {.cls = WHI_CLASS_OPEN, .seq = 100, .tag = r.peer.listener, .arg = 1 << 20};
    const whi_link *link = NULL;
    for (uint32_t i = 0; i < MANY; i++) {
        open.ep = 2 * i + 1;
        open.size = i % (WH_CONNECT_DATA_MAX + 1);
        CHECK(raw_send(&victim, &r, &open, much));
        while (victim.accepted_count > 1)  // the first one keeps the link
            wh_endpoint_abort(victim.accepted[--victim.accepted_count]);
    }
    link = whi_link_find(victim.server, r.me.uuid);
    CHECK(link && link->control_count > 100 && link->control_bytes > 100 * WH_CONNECT_DATA_MAX);
    uint8_t in[WH_CONNECT_DATA_MAX];
    for (uint32_t i = 0; i < MANY; i++) {
        whi_hdr hdr = raw_hear(&victim, &r, WHI_CLASS_ACCEPT, in, sizeof(in));
        CHECK_EQ_INT(hdr.ep, 2 * i + 1);
        CHECK_EQ_INT(hdr.size, WH_CONNECT_DATA_MAX);
        CHECK_MEM(in, much, sizeof(in));
        while (victim.accepted_count > 1)
            wh_endpoint_abort(victim.accepted[--victim.accepted_count]);
    }
    PUMP_UNTIL(&victim, link->control_count == 0);
    CHECK_EQ_INT(link->control_bytes, 0);
    wh_endpoint_abort(victim.accepted[0]);
    raw_features = 0;
    close(r.fd);
    duo_end(&victim);
}

// ---- peers that do not keep to it

TEST(hostile_data) {
    static uint8_t too_large[WH_CONNECT_DATA_MAX + 8];
    begin();
    // Of a peer that has said it knows of no connect data.
    attack();
    whi_hdr open = {
        .cls = WHI_CLASS_OPEN, .ep = 3, .seq = 9, .tag = hostile.peer.listener, .size = 4};
    CHECK(raw_send(&victim, &hostile, &open, "data"));
    refused("knows of none");
    raw_features = WHI_FEATURE_DATA;
    attack();
    open.size = WH_CONNECT_DATA_MAX + 1;
    CHECK(raw_send(&victim, &hostile, &open, too_large));
    refused("that payload");
    // Twice for one endpoint.
    attack();
    open.size = 4;
    CHECK(raw_send(&victim, &hostile, &open, "data") && raw_send(&victim, &hostile, &open, "more"));
    refused("not the peer's to give");
    raw_features = 0;
    end();
}

// An ACCEPT with data that was not agreed on, with too much, and twice; the victim has opened
// endpoint 2.
TEST(hostile_answers) {
    static uint8_t too_large[WH_CONNECT_DATA_MAX + 8];
    static const char *const why[] = {"knows of none", "that payload", "open already"};
    begin();
    for (int i = 0; i < 3; i++) {
        raw_features = i ? WHI_FEATURE_DATA : 0;
        attack();
        wh_endpoint *ep = NULL;
        CHECK_EQ_INT(whi_ep_new(victim.server, &ep), WH_OK);
        whi_link *link = whi_link_find(victim.server, hostile.me.uuid);
        CHECK(link);
        whi_ep_bind(ep, link);
        CHECK_EQ_INT(hear(WHI_CLASS_OPEN).ep, 2);
        whi_hdr yes = {.cls = WHI_CLASS_ACCEPT,
                       .ep = 2,
                       .seq = 9,
                       .arg = 1 << 20,
                       .size = i == 1 ? sizeof(too_large) : 4};
        CHECK(raw_send(&victim, &hostile, &yes, too_large));
        if (i == 2) {
            PUMP_UNTIL(&victim, wh_endpoint_status(ep) == WH_OK);
            carries(ep, too_large, 4);
            CHECK(raw_send(&victim, &hostile, &yes, too_large));
        }
        refused(why[i]);
        CHECK_EQ_INT(wh_endpoint_status(ep), WH_EPROTOCOL);
        CHECK(wh_endpoint_lost(ep));
        wh_endpoint_abort(ep);
    }
    raw_features = 0;
    end();
}

// ---- an older library at the other end

TEST(an_older_peer_connects) {
    begin();
    raw_features = 0;
    wh_listener_close(victim.listener);
    duo_listen(&victim, WH_LISTENER_OPTS(.data = "news", .data_size = 4));
    port = wh_listener_port(victim.listener);
    raw_link(&victim, &hostile, port);
    whi_hdr open = {.cls = WHI_CLASS_OPEN, .ep = 1, .seq = 9, .tag = hostile.peer.listener};
    CHECK(raw_send(&victim, &hostile, &open, NULL));
    CHECK_EQ_INT(hear(WHI_CLASS_ACCEPT).size, 0);
    carries(victim.accepted[1], NULL, 0);
    hang_up();
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.server)->links) == 1);
    end();
}

static uint32_t old_uid;  // the user that it says it runs as

// connect_to_old connects to a listener whose library has no connect data, and returns how that
// went.
static wh_endpoint *connect_to_old(int listener, uint16_t at, const void *data, int *fd) {
    char address[64];
    uint8_t record[WHI_HELLO_SIZE];
    whi_hello hello;
    wh_endpoint *ep = NULL;
    snprintf(address, sizeof(address), "127.0.0.1:%u", at);
    CHECK_EQ_INT(wh_endpoint_connect(victim.client, address,
                                     WH_ENDPOINT_OPTS(.data = data, .data_size = data ? 4 : 0),
                                     &ep),
                 WH_OK);
    PUMP_UNTIL(&victim, (*fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0);
    CHECK(raw_hello_read(&victim, *fd, &hello));
    CHECK(hello.features & WHI_FEATURE_DATA);
    whi_hello old = raw_says(&victim, WHI_STEP_ANSWER);
    old.uid = old_uid;
    CHECK(raw_hello_write(&victim, *fd, &old, record));
    CHECK(raw_hello_read(&victim, *fd, &hello));
    CHECK_EQ_INT(hello.step, WHI_STEP_CONFIRM);
    old.step = WHI_STEP_READY;
    CHECK(raw_hello_write(&victim, *fd, &old, record));
    return ep;
}

static int old_listener(uint16_t *at) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&addr, size) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&addr, &size) == 0);
    *at = ntohs(addr.sin_port);
    raw_features = 0;
    old_uid = geteuid();
    return fd;
}

TEST(an_older_peer_is_connected_to) {
    begin();
    uint16_t at;
    int fd = -1, listener = old_listener(&at);
    wh_endpoint *ep = connect_to_old(listener, at, "data", &fd);
    PUMP_UNTIL(&victim, wh_endpoint_status(ep) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_ENOTSUP);
    CHECK(strstr(wh_endpoint_error(ep), "too old"));
    // Nothing stays of the link that nobody needs.
    PUMP_UNTIL(&victim, whi_hash_count(&whi_links_of(victim.client)->links) == 1);
    wh_endpoint_abort(ep);
    close(fd);
    // Without data it is a peer like any other.
    ep = connect_to_old(listener, at, NULL, &fd);
    whi_hdr hdr;
    CHECK(raw_read(&victim, fd, &hdr, sizeof(hdr)));
    CHECK_EQ_INT(hdr.cls, WHI_CLASS_OPEN);
    CHECK_EQ_INT(hdr.size, 0);
    whi_hdr yes = {.cls = WHI_CLASS_ACCEPT, .ep = hdr.ep, .seq = 9, .arg = 1 << 20};
    CHECK(raw_write(&victim, fd, &yes, sizeof(yes)));
    PUMP_UNTIL(&victim, wh_endpoint_status(ep) == WH_OK);
    carries(ep, NULL, 0);
    wh_endpoint_abort(ep);
    close(fd);
    close(listener);
    end();
}

// Who was dialled and says that it is another user of this host asks for that user's rights here.
TEST(a_dialled_peer_of_another_user) {
    for (int other = 0; other < 2; other++) {
        begin();
        uint16_t at;
        int fd = -1, listener = old_listener(&at);
        wh_listener *own = NULL;
        CHECK_EQ_INT(
            wh_listener_open(victim.client, "127.0.0.1:0", NULL, duo_accept, &victim, &own), WH_OK);
        old_uid = geteuid() + (uint32_t)other;
        wh_endpoint *ep = connect_to_old(listener, at, NULL, &fd);
        whi_hdr hdr;
        CHECK(raw_read(&victim, fd, &hdr, sizeof(hdr)));
        whi_hdr yes = {.cls = WHI_CLASS_ACCEPT, .ep = hdr.ep, .seq = 9, .arg = 1 << 20};
        CHECK(raw_write(&victim, fd, &yes, sizeof(yes)));
        PUMP_UNTIL(&victim, wh_endpoint_status(ep) == WH_OK);
        CHECK_EQ_INT(info_of(ep).uid, old_uid);
        CHECK(!info_of(ep).vouched);
        whi_hdr open = {.cls = WHI_CLASS_OPEN, .ep = 2, .seq = 9, .tag = whi_listener_id(own)};
        CHECK(raw_write(&victim, fd, &open, sizeof(open)));
        CHECK(raw_read(&victim, fd, &hdr, sizeof(hdr)));
        CHECK_EQ_INT(hdr.cls, other ? WHI_CLASS_REFUSE : WHI_CLASS_ACCEPT);
        CHECK(!other || (int64_t)hdr.arg == WH_EPERM);
        while (victim.accepted_count > 1)
            wh_endpoint_abort(victim.accepted[--victim.accepted_count]);
        wh_endpoint_abort(ep);
        wh_listener_close(own);
        close(fd);
        close(listener);
        end();
    }
}

// ---- lost

static unsigned told;

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)why, (void)arg;
    CHECK(wh_endpoint_lost(ep));
    told++;
}

static void on_end(wh_request *req, const wh_result *result, void *arg) {
    (void)req;
    CHECK(result->status < 0);
    CHECK(wh_endpoint_lost(arg));
    told++;
}

// Whatever tells of the end finds the endpoint lost.
TEST(lost_before_anything_tells) {
    for (int how = 0; how < 3; how++) {
        char got[8];
        duo_begin(&d, NULL, NULL);
        duo_connect(&d);
        told = 0;
        CHECK_EQ_INT(wh_endpoint_on_lost(d.from, on_lost, NULL), WH_OK);
        CHECK_EQ_INT(wh_tag_recv(d.from, got, sizeof(got), 1, WH_TAG_MASK_ALL,
                                 WH_OP_OPTS(.done = on_end, .arg = d.from), NULL),
                     WH_PENDING);
        CHECK(!wh_endpoint_lost(d.from) && !wh_endpoint_lost(d.to));
        if (how == 0)
            CHECK(wh_endpoint_close(d.to, NULL, NULL) == WH_PENDING);
        else if (how == 1)
            wh_endpoint_abort(d.to);
        else
            whi_link_fail(d.to->link, WH_EPEER, "the test says so");
        if (how < 2)
            d.to = NULL;
        UNTIL(&d, told == 2);
        CHECK(wh_endpoint_lost(d.from));
        CHECK(!d.to || wh_endpoint_lost(d.to));
        duo_end(&d);
    }
    CHECK(!wh_endpoint_lost(NULL));
    CHECK(!wh_endpoint_peer_data(NULL, NULL));
}

static void *ask_until_lost(void *arg) {
    const wh_endpoint *ep = arg;
    uint64_t end_ns = whi_clock_ns() + KIT_PATIENCE_S * WHI_NS_PER_S;
    size_t size = 0;
    const char *data;
    do
        data = wh_endpoint_peer_data(ep, &size);
    while (!wh_endpoint_lost(ep) && whi_clock_ns() < end_ns);
    // This thread may not have run at all while the endpoint was there.
    data = wh_endpoint_peer_data(ep, &size);
    return data && size == 5 && data[4] == 'a' && wh_endpoint_lost(ep) ? arg : NULL;
}

// Another thread asks while the owner connects, and until the peer closes.
TEST(any_thread_may_ask) {
    duo_begin(&d, NULL, NULL);
    wh_listener_close(d.listener);
    duo_listen(&d, WH_LISTENER_OPTS(.data = "idata", .data_size = 5));
    CHECK_EQ_INT(wh_endpoint_connect(d.client, d.address, NULL, &d.to), WH_OK);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ask_until_lost, d.to) == 0);
    UNTIL(&d, wh_endpoint_status(d.to) == WH_OK && d.accepted_count == 1);
    duo_for(&d, 20);
    wh_endpoint_abort(d.accepted[0]);
    UNTIL(&d, wh_endpoint_lost(d.to));
    void *found = NULL;
    pthread_join(thread, &found);
    CHECK(found == d.to);
    duo_end(&d);
}

TEST_MAIN()
