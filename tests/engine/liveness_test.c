// SPDX-License-Identifier: BSD-3-Clause
//
// Liveness of a peer on the same host: how a process may end, and what is no end.
//
// The peer is a child process, forked before the test has made any worker of its own.  It connects, sends one message and
// then does its fate.  The fate that matters most leaves the socket open: a grandchild, forked past the library's handlers,
// keeps it, so that only the pidfd tells of the death.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/test_kit.h"

static duo d;  // its client stays unused
static int port_pipe[2], pid_pipe[2];
static pid_t peer, orphan;

// ---- the peer's side

static void peer_main(void (*fate)(void)) {
    uint16_t port = 0;
    char address[64];
    wh_context *ctx = NULL;
    wh_worker *worker = NULL;
    wh_endpoint *ep = NULL;
    if (read(port_pipe[0], &port, sizeof(port)) != sizeof(port))
        _exit(1);
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    if (wh_context_create(NULL, &ctx) != WH_OK || wh_worker_create(ctx, NULL, &worker) != WH_OK ||
        wh_endpoint_connect_wait(worker, address, NULL, &ep) != WH_OK ||
        wh_tag_send_wait(ep, "here", 4, 1, 10000) != WH_OK ||
        wh_endpoint_flush_wait(ep, 10000) != WH_OK)
        _exit(1);
    fate();
    for (;;) {
        // Whoever has not ended sends a word now and then.
        (void)!wh_worker_wait(worker, 10);
        (void)!wh_tag_send(ep, "on", 2, 2, NULL, NULL);
    }
}

static void die_and_leave_the_socket(void) {
    // Not fork(): its handlers would close the socket in the grandchild.
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        for (;;)
            (void)pause();
    if (write(pid_pipe[1], &pid, sizeof(pid)) != sizeof(pid))
        _exit(1);
    kill(getpid(), SIGKILL);
}

static void become_another_program(void) {
    execl("/bin/sleep", "sleep", "60", (char *)NULL);
    _exit(1);
}

static void die(void) {
    kill(getpid(), SIGKILL);
}

static void stop(void) {
    kill(getpid(), SIGSTOP);
}

// ---- the test's side

// begin starts a peer with this fate and waits for its message.
static void begin(void (*fate)(void)) {
    CHECK(pipe(port_pipe) == 0 && pipe(pid_pipe) == 0);
    fflush(NULL);
    orphan = 0;
    peer = fork();
    CHECK(peer >= 0);
    if (peer == 0)
        peer_main(fate);
    duo_begin(&d, NULL, NULL);
    uint16_t port = wh_listener_port(d.listener);
    CHECK(write(port_pipe[1], &port, sizeof(port)) == sizeof(port));
    UNTIL(&d, d.accepted_count == 1);
    d.from = d.accepted[0];
    wh_request *recv = NULL;
    char word[4];
    wh_status st = wh_tag_recv(d.from, word, sizeof(word), 1, WH_TAG_MASK_ALL, NULL, &recv);
    CHECK_EQ_INT(st == WH_PENDING ? done_as(&d, recv) : st, WH_OK);
    CHECK_EQ_INT(strncmp(word, "here", 4), 0);
}

static void end(void) {
    kill(peer, SIGKILL);
    CHECK_EQ_INT(waitpid(peer, NULL, 0), peer);
    if (orphan)
        kill(orphan, SIGKILL);
    for (int i = 0; i < 2; i++) {
        close(port_pipe[i]);
        close(pid_pipe[i]);
    }
    duo_end(&d);
}

// ends_all checks that what is pending with the peer ends in one error, and a receive from anybody goes on.
static void ends_all(void) {
    wh_request *recv = NULL, *any = NULL;
    char word[8];
    CHECK_EQ_INT(wh_worker_tag_recv(d.server, word, sizeof(word), 9, WH_TAG_MASK_ALL, NULL, &any),
                 WH_PENDING);
    wh_status st = wh_tag_recv(d.from, word, sizeof(word), 8, WH_TAG_MASK_ALL, NULL, &recv);
    if (st == WH_PENDING)
        st = done_as(&d, recv);
    CHECK_EQ_INT(st, WH_EPEER);
    CHECK_EQ_INT(wh_endpoint_status(d.from), WH_EPEER);
    CHECK_EQ_INT(wh_request_status(any), WH_PENDING);
    wh_request_cancel(any);
    CHECK_EQ_INT(done_as(&d, any), WH_ECANCELLED);
}

// Nobody reaps it: a zombie is dead.
TEST(a_killed_peer) {
    begin(die);
    ends_all();
    end();
}

TEST(a_killed_peer_whose_socket_lives_on) {
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        SKIP("no pidfd here");
    close(fd);
    begin(die_and_leave_the_socket);
    CHECK(fcntl(pid_pipe[0], F_SETFL, O_NONBLOCK) == 0);
    UNTIL(&d, read(pid_pipe[0], &orphan, sizeof(orphan)) == sizeof(orphan));
    ends_all();
    CHECK_EQ_INT(kill(orphan, 0), 0);
    end();
}

TEST(a_peer_that_becomes_another_program) {
    begin(become_another_program);
    ends_all();
    end();
}

// A stopped process is slow, not dead: when it goes on, so do its messages.
TEST(a_stopped_peer) {
    begin(stop);
    int status = 0;
    UNTIL(&d, waitpid(peer, &status, WUNTRACED | WNOHANG) == peer);  // its flush needs our progress
    CHECK(WIFSTOPPED(status));
    duo_for(&d, 300);
    CHECK_EQ_INT(wh_endpoint_status(d.from), WH_OK);
    wh_request *recv = NULL;
    char word[8];
    CHECK_EQ_INT(wh_tag_recv(d.from, word, sizeof(word), 2, WH_TAG_MASK_ALL, NULL, &recv),
                 WH_PENDING);
    kill(peer, SIGCONT);
    CHECK_EQ_INT(done_as(&d, recv), WH_OK);
    end();
}

TEST_MAIN()
