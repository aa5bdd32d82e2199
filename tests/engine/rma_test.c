// SPDX-License-Identifier: BSD-3-Clause
//
// Remote memory access between honest peers, what the conformance suite cannot see: mappings, fences, keys that were made
// up, other threads, children, and allocations that fail.
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "engine/rma_kit.h"
#include "net/shm/shm.h"

static bool direct_after(wh_rkey *rkey, unsigned ms) {
    duo_for(&d, ms);
    return wh_rkey_direct(rkey);
}

TEST(mapped_where_it_can_be) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    uint64_t word = 42;
    CHECK_EQ_INT(wh_put(rkey, 8, &word, sizeof(word), NULL, NULL), WH_OK);
    CHECK_EQ_INT(*(uint64_t *)(void *)(memory + 8), 42);           // without any progress
    CHECK_EQ_INT(wh_put(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);  // nothing, and from nowhere
    CHECK_EQ_INT(wh_get(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);
    // Several keys of one memory, each asked for when the one before it has come.
    wh_rkey *more[6];
    for (int i = 0; i < 6; i++)
        more[i] = open_key();
    for (int i = 0; i < 6; i++) {
        UNTIL(&d, wh_get(more[i], 8, &word, 8, NULL, NULL) != WH_EAGAIN && duo_pass(&d) + 1 &&
                      wh_rkey_direct(more[i]));
        wh_rkey_close(more[i]);
    }
    duo_for(&d, 20);
    wh_rkey_close(rkey);
    end();
    begin_with(stream_options);
    rkey = open_key();
    CHECK(!direct_after(rkey, 50));
    CHECK_EQ_INT(wh_put(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_get(rkey, SIZE, NULL, 0, NULL, NULL), WH_OK);
    wh_rkey_close(rkey);
    end();
}

// The first word of the memory says that it is gone, before anybody has said so.
TEST(a_mapping_that_was_revoked) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    char bytes[8] = {0};
    uint64_t old;
    CHECK_EQ_INT(wh_put(rkey, 0, bytes, 8, NULL, NULL), WH_EKEY);
    CHECK_EQ_INT(wh_get(rkey, 0, bytes, 8, NULL, NULL), WH_EKEY);
    CHECK_EQ_INT(wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, NULL), WH_EKEY);
    wh_rkey_close(rkey);
    duo_end(&d);
}

// A key outlives its endpoint and its worker, and answers with why they ended.
TEST(a_key_after_the_end) {
    begin_with(options);
    wh_rkey *rkey = open_key(), *other = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    char bytes[8] = {0};
    wh_endpoint_abort(d.to);
    d.to = NULL;
    CHECK_EQ_INT(wh_put(rkey, 0, bytes, 8, NULL, NULL), WH_ECLOSED);
    wh_rkey_close(rkey);
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    duo_end(&d);
    wh_rkey_close(other);
}

// A put, a get or an atomic that waits for a fence goes when what is before it has ended.
TEST(a_fence_holds_what_is_mapped_too) {
    begin_with(options);
    static char from[SIZE], to[SIZE];
    static char users[SIZE];
    wh_mr *served;
    char key[WH_MR_KEY_MAX];
    size_t size;
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], users, SIZE, WH_MEM_HOST, WH_MR_ALL, &served), WH_OK);
    CHECK_EQ_INT(wh_mr_key(served, key, &size), WH_OK);
    wh_rkey *rkey = open_key(), *slow;
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &slow), WH_OK);
    UNTIL(&d, wh_rkey_direct(rkey));
    wh_request *reqs[2] = {NULL};
    memset(from, 7, SIZE);
    CHECK_EQ_INT(wh_put(slow, 0, from, SIZE, NULL, &reqs[0]), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 0, from, 8, NULL, &reqs[1]), WH_PENDING);
    CHECK_EQ_INT(memory[0], 0);
    CHECK_EQ_INT(done_as(&d, reqs[1]), WH_OK);
    CHECK(users[SIZE - 1] == 7 && memory[0] == 7);
    CHECK_EQ_INT(done_as(&d, reqs[0]), WH_OK);
    CHECK_EQ_INT(wh_get(rkey, 0, to, 8, NULL, NULL), WH_OK);  // the fence is behind us
    wh_rkey_close(rkey);
    wh_rkey_close(slow);
    CHECK_EQ_INT(wh_mr_destroy(served), WH_OK);
    end();
}

// A record from before a fence is not overtaken by what goes directly after it.
TEST(a_fence_holds_behind_records) {
    begin_with(options);
    static char users[64], from[64];
    wh_mr *served;
    char key[WH_MR_KEY_MAX];
    size_t size;
    CHECK_EQ_INT(wh_mr_register(d.ctx[0], users, sizeof(users), WH_MEM_HOST, WH_MR_ALL, &served),
                 WH_OK);
    CHECK_EQ_INT(wh_mr_key(served, key, &size), WH_OK);
    wh_rkey *rkey = open_key(), *slow;
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &slow), WH_OK);
    UNTIL(&d, wh_rkey_direct(rkey));
    memset(users, 0, sizeof(users));
    memset(from, 7, sizeof(from));
    CHECK_EQ_INT(wh_put(slow, 0, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 0, from, 8, NULL, NULL), WH_OK);
    CHECK(memory[0] == 7 && users[0] == 0);  // without a fence there is no order
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 8, from, 8, NULL, NULL), WH_OK);
    CHECK(memory[8] == 0);
    UNTIL(&d, memory[8]);
    CHECK_EQ_INT(users[0], 7);
    // Whoever has heard of it goes directly again.
    wh_request *req = NULL;
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 16, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[16], 7);
    // So does whoever has got an answer to something later.
    CHECK_EQ_INT(wh_put(slow, 8, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(wh_get(slow, 8, from + 32, 8, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_put(rkey, 24, from, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[24], 7);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &req), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, req), WH_OK);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &req), WH_OK);  // nothing since
    wh_rkey_close(rkey);
    wh_rkey_close(slow);
    CHECK_EQ_INT(wh_mr_destroy(served), WH_OK);
    end();
}

// A message that was granted after one flush is waited for by the next.
TEST(a_flush_after_a_grant) {
    begin_with(options);
    static char from[SIZE], to[SIZE];
    wh_request *send = NULL, *recv = NULL, *flush = NULL;
    memset(from, 9, SIZE);
    CHECK_EQ_INT(wh_tag_send(d.to, from, 100000, 5, NULL, &send), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);  // nobody has asked for it
    CHECK_EQ_INT(wh_tag_recv(d.from, to, SIZE, 5, WH_TAG_MASK_ALL, NULL, &recv), WH_PENDING);
    UNTIL(&d, wh_request_status(send) != WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);
    CHECK_EQ_INT(wh_request_status(recv), WH_OK);
    CHECK_EQ_INT(to[99999], 9);
    wh_request_free(recv);
    wh_request_free(send);
    end();
}

// A flush does not go before a put that its owner has yet to ask for.
TEST(a_flush_after_an_announced_put) {
    static char from[SIZE];
    begin_with(stream_options);
    wh_request *put = NULL, *flush = NULL;
    wh_rkey *rkey = open_key();
    memset(from, 7, SIZE);
    CHECK_EQ_INT(wh_put(rkey, 0, from, SIZE, NULL, &put), WH_PENDING);
    CHECK_EQ_INT(put->stage, WHI_STAGE_ANNOUNCED);
    CHECK_EQ_INT(wh_endpoint_flush(d.to, NULL, &flush), WH_PENDING);
    CHECK_EQ_INT(done_as(&d, flush), WH_OK);
    CHECK_EQ_INT(memory[SIZE - 1], 7);
    CHECK_EQ_INT(done_as(&d, put), WH_OK);
    wh_rkey_close(rkey);
    end();
}

// An endpoint that ends while it waits for a mapping does not keep the others of its link from theirs.
TEST(a_mapping_for_an_endpoint_that_ends) {
    begin_with(options);
    wh_endpoint *theirs, *ep = duo_open(&d, &theirs);
    char key[WH_MR_KEY_MAX];
    size_t size;
    wh_rkey *lost, *rkey;
    CHECK_EQ_INT(wh_mr_key(mr, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(ep, key, size, &lost), WH_OK);
    wh_endpoint_abort(theirs);  // before it sees the question
    duo_for(&d, 20);
    rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK(!wh_rkey_direct(lost));
    wh_rkey_close(lost);
    wh_rkey_close(rkey);
    wh_endpoint_abort(ep);
    end();
}

// The memory may come when the endpoint that has asked for it is gone, and its link goes on.
TEST(a_mapping_that_comes_too_late) {
    begin_with(options);
    wh_endpoint *other, *second = duo_open(&d, &other);
    wh_rkey *rkey = open_key();
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(d.server);  // which answers
    CHECK(whi_memory_on(d.to->link)->mapping);
    wh_endpoint_abort(d.to);
    d.to = second;
    duo_for(&d, 20);
    CHECK_EQ_INT(wh_put(rkey, 0, "x", 1, NULL, NULL), WH_ECLOSED);
    wh_rkey_close(rkey);
    rkey = open_key();  // the second one gets its own
    UNTIL(&d, wh_rkey_direct(rkey));
    CHECK_EQ_INT(wh_put(rkey, 0, "x", 1, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[0], 'x');
    wh_rkey_close(rkey);
    wh_endpoint_abort(other);
    end();
}

// What an owner passes instead of its memory may be a socket that keeps whoever closes it waiting.
TEST(a_mapping_that_is_no_memory) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    struct linger linger = {.l_onoff = 1, .l_linger = 60};
    socklen_t size = sizeof(linger);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, size) == 0);
    whi_hdr hdr = {.cls = WHI_CLASS_MAPPED, .ep = d.from->number, .tag = mr->id};
    CHECK_EQ_INT(d.from->link->fast->ops->pass(d.from->link->fast, &hdr, fd), WH_OK);
    while (whi_memory_on(d.to->link)->mapping)
        (void)wh_worker_progress(d.client);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size) == 0 && !linger.l_onoff);
    CHECK(!wh_rkey_direct(rkey));
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    close(fd);
    wh_rkey_close(rkey);
    end();
}

// That a descriptor finds no place here is not the owner's fault.
TEST(a_mapping_without_a_descriptor) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    struct rlimit usual;
    CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0);
    int next = dup(0);
    close(next);
    for (int i = 0; i < 50; i++)
        (void)wh_worker_progress(d.server);  // which answers
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = usual.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    UNTIL(&d, wh_endpoint_status(d.to) != WH_OK);
    CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_ELIMIT);
    wh_rkey_close(rkey);
    end();
}

// A key that was tampered with opens nothing, and costs neither the link nor a crash.
TEST(keys_that_were_tampered_with) {
    begin_with(options);
    whi_key key;
    size_t size;
    wh_rkey *rkey = NULL;
    char bytes[WH_MR_KEY_MAX];
    CHECK_EQ_INT(wh_mr_key(mr, bytes, &size), WH_OK);
    memcpy(&key, bytes, sizeof(key));
    whi_key wrong[6] = {key, key, key, key, key, key};
    wrong[0].magic[3] = '2';
    wrong[1].size = 0;
    wrong[2].access = WH_MR_ALL + 1;
    wrong[3].access = 0;
    wrong[4].align = 1;  // shared memory begins at a page
    wrong[5].kind = WH_MEM_SIM;
    for (int i = 0; i < 6; i++)
        CHECK_EQ_INT(wh_rkey_open(d.to, &wrong[i], sizeof(key), &rkey), WH_EKEY);
    // One that lies about the size is found out by the owner, or when the memory comes.
    const uint64_t sizes[] = {SIZE + 4096, UINT64_MAX, 4096};
    for (int i = 0; i < 3; i++) {
        uint64_t word = 0;
        wh_request *req = NULL;
        wrong[0] = key;
        wrong[0].size = sizes[i];
        CHECK_EQ_INT(wh_rkey_open(d.to, &wrong[0], sizeof(key), &rkey), WH_OK);
        CHECK(!direct_after(rkey, 20));
        CHECK_EQ_INT(wh_get(rkey, sizes[i] - 8, &word, 8, NULL, &req), WH_PENDING);
        CHECK_EQ_INT(done_as(&d, req), sizes[i] > SIZE ? WH_EBOUNDS : WH_OK);
        wh_rkey_close(rkey);
    }
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
    end();
}

typedef struct foreign_put {
    wh_rkey *rkey;
    wh_request *put, *get;
    char byte, back;
} foreign_put;

static void *put_from_a_thread(void *arg) {
    foreign_put *p = arg;
    CHECK_EQ_INT(wh_put(p->rkey, 5, &p->byte, 1, NULL, &p->put), WH_PENDING);
    CHECK_EQ_INT(wh_endpoint_fence(d.to), WH_OK);
    CHECK_EQ_INT(wh_get(p->rkey, 5, &p->back, 1, NULL, &p->get), WH_PENDING);
    return NULL;
}

// What another thread has started goes on although its key is closed before the owner sees it.
TEST(a_key_that_another_thread_has_used) {
    for (int lanes = 0; lanes < 2; lanes++) {
        begin_with(lanes ? stream_options : options);
        foreign_put p = {.rkey = open_key(), .byte = 33};
        pthread_t thread;
        CHECK_EQ_INT(pthread_create(&thread, NULL, put_from_a_thread, &p), 0);
        CHECK_EQ_INT(pthread_join(thread, NULL), 0);
        wh_rkey_close(p.rkey);
        CHECK_EQ_INT(done_as(&d, p.put), WH_OK);
        CHECK_EQ_INT(done_as(&d, p.get), WH_OK);
        CHECK(p.back == 33 && memory[5] == 33);
        duo_for(&d, 20);
        end();
    }
}

// A forked child has none of it: each call says so, the descriptors are closed, and the parent goes on.
TEST(a_forked_child) {
    begin_with(options);
    wh_rkey *rkey = open_key();
    UNTIL(&d, wh_rkey_direct(rkey));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        char word[8];
        wh_rkey *other;
        char key[WH_MR_KEY_MAX];
        size_t size;
        bool ok = fcntl(mr->fd, F_GETFD) < 0 && wh_mr_destroy(mr) == WH_EFORKED &&
                  wh_put(rkey, 0, word, 8, NULL, NULL) == WH_EFORKED &&
                  wh_get(rkey, 0, word, 0, NULL, NULL) == WH_EFORKED &&
                  wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, word, NULL, NULL) == WH_EFORKED &&
                  wh_endpoint_fence(d.to) == WH_EFORKED && wh_mr_key(mr, key, &size) == WH_OK &&
                  wh_rkey_open(d.to, key, size, &other) == WH_EFORKED;
        wh_rkey_close(rkey);
        wh_worker_destroy(d.client);
        wh_worker_destroy(d.server);
        wh_context_destroy(d.ctx[0]);
        wh_context_destroy(d.ctx[1]);
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ_INT(status, 0);
    uint64_t word = 6;
    CHECK_EQ_INT(wh_put(rkey, 0, &word, 8, NULL, NULL), WH_OK);
    CHECK_EQ_INT(memory[0], 6);
    wh_rkey_close(rkey);
    end();
}

// Each allocation of a life with remote memory fails in turn: an error, never a crash, and all of it can be given back.
static void one_life(void) {
    static char bytes[100000];
    wh_mr *mine = NULL;
    wh_rkey *rkey = NULL;
    wh_request *reqs[4] = {NULL};
    char key[WH_MR_KEY_MAX];
    size_t size;
    uint64_t old;
    if (wh_mr_alloc(d.ctx[0], sizeof(bytes), WH_MR_ALL, &mine) != WH_OK)
        return;
    CHECK_EQ_INT(wh_mr_key(mine, key, &size), WH_OK);
    if (wh_rkey_open(d.to, key, size, &rkey) == WH_OK) {
        (void)!wh_put(rkey, 0, bytes, 8, NULL, &reqs[0]);
        (void)!wh_put(rkey, 0, bytes, sizeof(bytes), NULL, &reqs[1]);
        (void)!wh_endpoint_fence(d.to);
        (void)!wh_get(rkey, 0, bytes, sizeof(bytes), NULL, &reqs[2]);
        (void)!wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, &old, NULL, &reqs[3]);
        for (int i = 0; i < 4; i++)
            if (reqs[i])
                (void)done_as(&d, reqs[i]);
        wh_rkey_close(rkey);
    }
    UNTIL(&d, wh_mr_destroy(mine) == WH_OK);
}

TEST(each_allocation_fails) {
    for (int lanes = 0; lanes < 2; lanes++) {
        for (uint64_t n = 1; n < 60; n++) {
            begin_with(lanes ? stream_options : options);
            whi_alloc_fail_at(n);
            one_life();
            whi_alloc_fail_at(0);
            end();
        }
    }
}

TEST_MAIN()
