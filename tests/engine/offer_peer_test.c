// SPDX-License-Identifier: BSD-3-Clause
//
// Offers of another process: it dies, stops or closes its memory between the announcement and the read.
//
// The peer is a child, forked before the test has made any worker of its own.  It announces a large message and then does
// its fate; the test sees the announcement first, and receives after that.  Root may read everything, so the
// test gives its rights up before it begins.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "engine/offer_kit.h"

enum { TURNS = 3, LARGE = TURNS * WHI_LANE_TURN, NOBODY = 65534 };

static duo d;  // its client stays unused
static int port_pipe[2], go_pipe[2];
static pid_t peer;
static uint8_t in[LARGE];

// ---- the peer's side

static void announce_and(void (*fate)(wh_worker *worker)) {
    static uint8_t out[LARGE];
    uint16_t port = 0;
    char address[64];
    wh_context *ctx = NULL;
    wh_worker *worker = NULL;
    wh_endpoint *ep = NULL;
    wh_request *req = NULL;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);  // a test that fails leaves nothing behind
    memset(out, 0x5a, LARGE);
    if (read(port_pipe[0], &port, sizeof(port)) != sizeof(port))
        _exit(1);
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    if (wh_context_create(kit_reading, &ctx) != WH_OK ||
        wh_worker_create(ctx, NULL, &worker) != WH_OK ||
        wh_endpoint_connect_wait(worker, address, NULL, &ep) != WH_OK ||
        wh_tag_send_wait(ep, out, LARGE, 1, 10000) != WH_OK ||
        wh_tag_send(ep, out, LARGE, 2, NULL, &req) != WH_PENDING)
        _exit(1);
    fate(worker);
    _exit(0);
}

static void wait_for_go(void) {
    char byte;
    if (read(go_pipe[0], &byte, 1) != 1)
        _exit(1);
}

static void die(wh_worker *worker) {
    (void)worker;
    wait_for_go();
    kill(getpid(), SIGKILL);
}

static void stop(wh_worker *worker) {
    (void)worker;
    kill(getpid(), SIGSTOP);
}

static void close_memory(wh_worker *worker) {
    wait_for_go();
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        _exit(1);
    for (;;)
        (void)!wh_worker_wait(worker, 10);
}

// ---- the test's side

static void give_rights_up(void) {
    if (geteuid() == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0)
        CHECK_EQ_INT(setresuid(NOBODY, NOBODY, NOBODY), 0);
    CHECK_EQ_INT(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);  // which that has changed
}

static wh_request *recv_from_peer(uint64_t tag) {
    wh_request *req = NULL;
    memset(in, 0, LARGE);
    wh_status st = wh_tag_recv(d.from, in, LARGE, tag, WH_TAG_MASK_ALL, NULL, &req);
    CHECK_EQ_INT(st, WH_PENDING);
    return req;
}

static bool is_whole(void) {
    for (int i = 0; i < LARGE; i++)
        if (in[i] != 0x5a)
            return false;
    return true;
}

// begin starts a peer with this fate, and returns when its announcement is here.
static void begin(void (*fate)(wh_worker *worker)) {
    give_rights_up();
    if (!kit_can_read())
        SKIP("process_vm_readv is not to be had here");
    kit_reads = 0;
    CHECK(pipe(port_pipe) == 0 && pipe(go_pipe) == 0);
    fflush(NULL);
    peer = fork();
    CHECK(peer >= 0);
    if (peer == 0)
        announce_and(fate);
    duo_begin(&d, kit_reading, kit_reading);
    uint16_t port = wh_listener_port(d.listener);
    CHECK(write(port_pipe[1], &port, sizeof(port)) == sizeof(port));
    UNTIL(&d, d.accepted_count == 1);
    d.from = d.accepted[0];
    CHECK_EQ_INT(done_as(&d, recv_from_peer(1)), WH_OK);
    CHECK(is_whole());
    UNTIL(&d, wh_tag_probe(d.from, 2, WH_TAG_MASK_ALL, NULL) == WH_OK);
    if (!kit_reads)
        SKIP("the kernel keeps the memory of other processes closed");
}

static void end(void) {
    kill(peer, SIGKILL);
    (void)waitpid(peer, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(port_pipe[i]);
        close(go_pipe[i]);
    }
    duo_end(&d);
}

TEST(a_peer_that_dies) {
    begin(die);
    CHECK(write(go_pipe[1], "", 1) == 1);
    int status = 0;
    CHECK_EQ_INT(waitpid(peer, &status, 0), peer);
    wh_request *recv = recv_from_peer(2);  // before this side has heard of it
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, TURNS + 1);
    CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
    end();
}

TEST(a_peer_that_dies_between_two_turns) {
    begin(die);
    wh_request *recv = recv_from_peer(2);
    CHECK(wh_worker_progress(d.server) > 0);
    CHECK_EQ_INT(kit_reads, TURNS + 1);
    CHECK(write(go_pipe[1], "", 1) == 1);
    int status = 0;
    CHECK_EQ_INT(waitpid(peer, &status, 0), peer);
    CHECK_EQ_INT(wh_request_status(recv), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, recv), WH_EPEER);
    CHECK(kit_reads <= TURNS + 2);
    end();
}

// What a stopped peer has announced needs nothing more of it.
TEST(a_peer_that_stops) {
    begin(stop);
    int status = 0;
    CHECK_EQ_INT(waitpid(peer, &status, WUNTRACED), peer);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ_INT(done_as(&d, recv_from_peer(2)), WH_OK);
    CHECK(is_whole());
    CHECK_EQ_INT(kit_reads, 2 * TURNS);
    end();
}

TEST(a_peer_that_closes_its_memory) {
    begin(close_memory);
    CHECK(write(go_pipe[1], "", 1) == 1);
    wh_request *recv = NULL;
    // Until the peer has done it, nothing is there to be refused.
    int fd = -1;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)peer);
    KIT_UNTIL(usleep(1000), "undumpable", (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || close(fd));
    recv = recv_from_peer(2);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    CHECK(is_whole());
    CHECK_EQ_INT(kit_reads, TURNS + 1);
    char text[128];
    d.from->link->fast->ops->describe(d.from->link->fast, text, sizeof(text));
    CHECK(!strstr(text, "reads"));
    end();
}

TEST_MAIN()
