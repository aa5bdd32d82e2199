// SPDX-License-Identifier: BSD-3-Clause
//
// A worker in a forked child: every call is refused, nothing of the parent's conversation is touched, and no descriptor of it
// is left open in the child.
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/hostile_peer.h"

static duo d;

// in_child runs `fn` in a child and checks that it was content.
static void in_child(void (*fn)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fn();
        _exit(0);
    }
    int status = 0;
    PUMP_UNTIL(&d, waitpid(pid, &status, WNOHANG) == pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ_INT(WEXITSTATUS(status), 0);
}

static void call_everything(void) {
    wh_worker *w = d.server, *made = NULL;
    wh_endpoint *ep = d.from, *out = NULL;
    wh_request *req = NULL;
    wh_listener *listener = NULL;
    wh_counters counters = {.size = sizeof(counters)};
    uint8_t blob[WH_ADDRESS_MAX];
    size_t size;
    char text[100];
    CHECK_EQ_INT(wh_worker_progress(w), 0);
    CHECK_EQ_INT(wh_worker_wait(w, 10), WH_EFORKED);
    CHECK_EQ_INT(wh_worker_arm(w), WH_EFORKED);
    CHECK_EQ_INT(wh_worker_adopt(w), WH_EFORKED);
    CHECK_EQ_INT(wh_worker_counters(w, &counters), WH_EFORKED);
    CHECK_EQ_INT(wh_worker_address(w, blob, &size), WH_EFORKED);
    CHECK_EQ_INT(wh_worker_set_am(w, 1, NULL, NULL), WH_EFORKED);
    CHECK_EQ_INT(wh_listener_open(w, ":0", NULL, duo_accept, &d, &listener), WH_EFORKED);
    CHECK_EQ_INT(wh_endpoint_connect(w, d.address, NULL, &out), WH_EFORKED);
    CHECK_EQ_INT(wh_endpoint_status(ep), WH_EFORKED);
    CHECK_EQ_INT(wh_endpoint_lanes(ep, text, sizeof(text)), WH_EFORKED);
    CHECK_EQ_INT(wh_tag_send(ep, "x", 1, 1, NULL, &req), WH_EFORKED);
    CHECK_EQ_INT(wh_tag_send_wait(ep, "x", 1, 1, 10), WH_EFORKED);
    CHECK_EQ_INT(wh_tag_recv(ep, text, 1, 1, 0, NULL, &req), WH_EFORKED);
    CHECK_EQ_INT(wh_object_send(ep, "x", 1, NULL, 0, 0, 1, NULL, &req), WH_EFORKED);
    CHECK_EQ_INT(wh_am_send(ep, 1, "x", 1, NULL, 0, NULL, &req), WH_EFORKED);
    CHECK_EQ_INT(wh_endpoint_flush(ep, NULL, &req), WH_EFORKED);
    CHECK_EQ_INT(wh_endpoint_close(ep, NULL, NULL), WH_EFORKED);
    CHECK(!req && !out && !listener);
    wh_endpoint_abort(ep);
    wh_worker_destroy(w);
    // The child may have a worker of its own.
    CHECK_EQ_INT(wh_worker_create(d.ctx[0], NULL, &made), WH_OK);
    CHECK_EQ_INT(wh_worker_wait(made, 1), WH_ETIMEDOUT);
    wh_worker_destroy(made);
}

TEST(calls_are_refused) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    in_child(call_everything);
    honest(&d);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    duo_end(&d);
}

static unsigned allowed[1024], allowed_count;

// sockets lists this process's sockets by their inodes.
static unsigned sockets(unsigned inodes[1024]) {
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    unsigned count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        char path[300], to[100];
        snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, to, sizeof(to) - 1);
        if (n <= 0)
            continue;
        to[n] = '\0';
        if (sscanf(to, "socket:[%u]", &inodes[count]) == 1 && count < 1023)
            count++;
    }
    closedir(dir);
    return count;
}

static void no_new_sockets(void) {
    unsigned now[1024], count = sockets(now);
    for (unsigned i = 0; i < count; i++) {
        bool known = false;
        for (unsigned k = 0; k < allowed_count; k++)
            known = known || allowed[k] == now[i];
        CHECK(known);
    }
}

// Links over both kinds of socket, listeners, dials and handshakes in all states: the child has none of them.
TEST(no_socket_is_inherited) {
    static const char *const stream[] = {"lanes=stream", NULL};
    allowed_count = sockets(allowed);
    for (int round = 0; round < 2; round++) {
        duo_begin(&d, round ? stream : NULL, round ? stream : NULL);
        duo_connect(&d);
        whi_rng_init(&raw_rng, 2);
        uint16_t port = wh_listener_port(d.listener);
        raw answered;
        CHECK(raw_hello(&d, &answered, port, 0));
        int silent = raw_tcp(port);
        PUMP_UNTIL(&d, whi_links_of(d.server)->acceptor_count == 2);
        wh_endpoint *dialling = NULL;
        CHECK_EQ_INT(wh_endpoint_connect(d.client, "10.255.255.1:9", NULL, &dialling), WH_OK);
        duo_pass(&d);
        // The test's own ends are not the library's to close.
        unsigned before = allowed_count;
        unsigned own[2];
        const int fds[2] = {answered.fd, silent};
        for (int i = 0; i < 2; i++) {
            char path[64], to[100];
            snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[i]);
            ssize_t n = readlink(path, to, sizeof(to) - 1);
            CHECK(n > 0);
            to[n] = '\0';
            CHECK_EQ_INT(sscanf(to, "socket:[%u]", &own[i]), 1);
            allowed[allowed_count++] = own[i];
        }
        in_child(no_new_sockets);
        allowed_count = before;
        close(answered.fd);
        close(silent);
        wh_endpoint_abort(dialling);
        honest(&d);
        duo_end(&d);
    }
}

// The numbers of the descriptors that the child has closed become other files', which a call must not write to.
static int old_event_fd;

static void wake_with_a_file_there(void) {
    int fd;
    do
        fd = memfd_create("other", MFD_CLOEXEC);
    while (fd >= 0 && fd < old_event_fd);
    wh_worker_wake(d.client);
    struct stat info;
    CHECK(fstat(old_event_fd, &info) == 0);
    CHECK_EQ_INT(info.st_size, 0);
}

TEST(a_child_writes_to_no_other_file) {
    duo_begin(&d, NULL, NULL);
    old_event_fd = d.client->event_fd;
    in_child(wake_with_a_file_there);
    duo_end(&d);
}

static void submit(void) {
    alarm(5);
    CHECK_EQ_INT(wh_tag_send(d.to, "x", 1, 1, NULL, NULL), WH_EFORKED);
    wh_endpoint_abort(d.to);
}

// A fork while another thread of the parent is in the middle of a submit.
TEST(a_child_waits_for_no_lock) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    pthread_mutex_lock(&d.client->foreign_lock);
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        submit();
        _exit(0);
    }
    pthread_mutex_unlock(&d.client->foreign_lock);
    int status;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    CHECK_EQ_INT(status, 0);
    duo_end(&d);
}

// A fork while another thread of the parent is in the middle of changing the worker's lists: the child must not follow them.
TEST(a_child_follows_no_list) {
    duo_begin(&d, NULL, NULL);
    duo_connect(&d);
    whi_list whole = whi_links_of(d.client)->dials, listeners = whi_links_of(d.server)->listeners;
    whi_hash links = whi_links_of(d.client)->links;
    whi_list *torn = (void *)(uintptr_t)8;
    whi_links_of(d.client)->dials.next = whi_links_of(d.server)->listeners.next = torn;
    memset(&whi_links_of(d.client)->links, 0x55, sizeof(whi_links_of(d.client)->links));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    whi_links_of(d.client)->dials = whole;
    whi_links_of(d.server)->listeners = listeners;
    whi_links_of(d.client)->links = links;
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_EQ_INT(status, 0);
    honest(&d);
    duo_end(&d);
}

// The end of the parent's side is seen by its peer although the child lives on.
static void live_a_while(void) {
    usleep(1500 * 1000);
}

TEST(a_child_does_not_keep_a_link_alive) {
    static const char *const stream[] = {"lanes=stream", NULL};
    duo_begin(&d, stream, stream);
    duo_connect(&d);
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        live_a_while();
        _exit(0);
    }
    wh_worker_destroy(d.client);
    uint64_t start = whi_clock_ns();
    while (wh_endpoint_status(d.from) == WH_OK && whi_clock_ns() - start < 5 * WHI_NS_PER_S)
        (void)wh_worker_progress(d.server);
    CHECK(whi_clock_ns() - start < WHI_NS_PER_S);
    int status;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    wh_endpoint_abort(d.to);
    wh_endpoint_abort(d.from);
    wh_listener_close(d.listener);
    wh_worker_destroy(d.server);
    wh_context_destroy(d.ctx[0]);
    wh_context_destroy(d.ctx[1]);
    wh_log_set_sink(NULL, NULL);
}

TEST_MAIN()
