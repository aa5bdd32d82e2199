// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of device memory from process to process: CUDA's, over the driver of tests/cuda.
//
// The test's process opens no driver.  Each case starts a sender and a receiver, which tell each other by a page of shared memory
// how far they have come; one of them may be killed in the middle.
#ifndef DEVICE_PROCESS_KIT_H
#define DEVICE_PROCESS_KIT_H

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "engine/test_kit.h"

enum { SIZE = 1 << 20, SLOW_US = 300 * 1000 };

static struct {
    _Atomic int port;
    _Atomic int step[2];  // of the sender, of the receiver
} * page;

// What a process of a case has.
static wh_worker *worker;
static wh_endpoint *ep;
static unsigned char pattern[SIZE], found[SIZE];

#define CUTEST(result, name, types, ...)                                                           \
    ((result(*) types)dlsym(dlopen("libcuda.so.1", RTLD_NOW), name))(__VA_ARGS__)

__attribute__((unused)) static unsigned long calls(const char *entry) {
    return CUTEST(unsigned long, "cutest_calls", (const char *), entry);
}

__attribute__((unused)) static long allocations(void) {
    return CUTEST(long, "cutest_allocations", (void));
}

__attribute__((unused)) static void fill(int seed) {
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (unsigned char)(i * 7 + i / 256 + (size_t)seed);
}

__attribute__((unused)) static unsigned char *device(int number, int seed) {
    void *ptr = NULL;
    fill(seed);
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, number, SIZE, &ptr), WH_OK);
    CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_CUDA, pattern, WH_MEM_HOST, SIZE), WH_OK);
    return ptr;
}

__attribute__((unused)) static void give(void *ptr) {
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, ptr), WH_OK);
}

__attribute__((unused)) static void check_device(const void *ptr, size_t size, int seed) {
    fill(seed);
    CHECK_EQ_INT(wh_mem_copy(found, WH_MEM_HOST, ptr, WH_MEM_CUDA, size), WH_OK);
    CHECK_MEM(found, pattern, size);
}

__attribute__((unused)) static void on_accept(wh_endpoint *accepted, void *arg) {
    (void)arg;
    ep = accepted;
}

#define PROGRESS_UNTIL(cond) KIT_UNTIL(wh_worker_progress(worker), "UNTIL(" #cond ")", cond)

__attribute__((unused)) static void be(int role) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    kit_log_begin();
    worker = kit_worker(kit_context(NULL));
    if (role == 1) {
        wh_listener *listener = NULL;
        CHECK_EQ_INT(wh_listener_open(worker, "127.0.0.1:0", NULL, on_accept, NULL, &listener),
                     WH_OK);
        atomic_store(&page->port, wh_listener_port(listener));
        PROGRESS_UNTIL(ep != NULL);
        return;
    }
    char address[64];
    while (!atomic_load(&page->port))
        usleep(100);
    snprintf(address, sizeof(address), "127.0.0.1:%d", atomic_load(&page->port));
    CHECK_EQ_INT(wh_endpoint_connect(worker, address, NULL, &ep), WH_OK);
    PROGRESS_UNTIL(wh_endpoint_status(ep) == WH_OK);
}

__attribute__((unused)) static void come_to(int role, int step) {
    atomic_store(&page->step[role], step);
}

// wait_for lets the other side come to a step, and does what there is to do meanwhile.
__attribute__((unused)) static void wait_for(int role, int step) {
    PROGRESS_UNTIL(atomic_load(&page->step[role]) >= step);
}

__attribute__((unused)) static wh_status ends(wh_request *req) {
    PROGRESS_UNTIL(wh_request_status(req) != WH_PENDING);
    wh_status st = wh_request_status(req);
    wh_request_free(req);
    return st;
}

__attribute__((unused)) static wh_request *send(const void *from, size_t size) {
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_tag_send(ep, from, size, 1, NULL, &req), WH_PENDING);
    return req;
}

__attribute__((unused)) static wh_request *receive(void *into, size_t size) {
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_tag_recv(ep, into, size, 1, WH_TAG_MASK_ALL, NULL, &req), WH_PENDING);
    return req;
}

__attribute__((unused)) static const whi_message_room *room(void) {
    return whi_messages_of(worker);
}

__attribute__((unused)) static wh_counters counters(void) {
    wh_counters c = {.size = sizeof(c)};
    CHECK_EQ_INT(wh_worker_counters(worker, &c), WH_OK);
    return c;
}

typedef void (*role_fn)(void);

__attribute__((unused)) static void start(pid_t pids[2], role_fn sender, role_fn receiver) {
    if (!page) {
        page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
    }
    memset(page, 0, sizeof(*page));
    fflush(NULL);
    for (int role = 0; role < 2; role++) {
        pids[role] = fork();
        CHECK(pids[role] >= 0);
        if (pids[role])
            continue;
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library || !dlsym(library, "cutest_calls"))
            _exit(77);
        be(role);
        (role ? receiver : sender)();
        _exit(0);
    }
}

__attribute__((unused)) static void ended_well(pid_t pid) {
    int status = 0;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("this driver cannot do that");
    CHECK_EQ_INT(status, 0);
}

__attribute__((unused)) static void run(role_fn sender, role_fn receiver) {
    pid_t pids[2];
    start(pids, sender, receiver);
    ended_well(pids[0]);
    ended_well(pids[1]);
}

__attribute__((unused)) static unsigned lines_of(const char *word) {
    unsigned count = 0;
    for (const char *at = kit_log.text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

__attribute__((unused)) static void slow(void) {
    CUTEST(void, "cutest_delay", (uint64_t, unsigned), 7, SLOW_US);
}

// one_dies kills one of the two in the middle of a copy; the other one ends well.
__attribute__((unused)) static void one_dies(int role, void (*sender)(void),
                                             void (*receiver)(void)) {
    pid_t pids[2];
    start(pids, sender, receiver);
    KIT_UNTIL(usleep(100), "the copy",
              atomic_load(&page->step[1]) == 1 || waitpid(pids[1], NULL, WNOHANG) != 0);
    if (atomic_load(&page->step[1]) != 1)
        SKIP("this driver cannot do that");
    kill(pids[role], SIGKILL);
    CHECK_EQ_INT(waitpid(pids[role], NULL, 0), pids[role]);
    ended_well(pids[1 - role]);
}

#endif
