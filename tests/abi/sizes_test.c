// SPDX-License-Identifier: BSD-3-Clause
//
// Structs of all sizes at every public call that takes one: an older program's, today's, a newer one's that asks for nothing
// unknown or for something, and garbage.
//
// Both workers have threads of their own, so that this one only calls and waits.  What lies behind a struct's stated size is
// poison: whoever reads it follows a wild pointer.
#include <stdatomic.h>

#include <wherry/wherry.h>

#include "base/test.h"
#include "old.h"

#define SAME_PLACE(type, old, field)                                                               \
    _Static_assert(offsetof(type, field) == offsetof(old, field), #type "." #field " has moved")
SAME_PLACE(wh_op_opts, old_op_opts, size);
SAME_PLACE(wh_op_opts, old_op_opts, timeout_ms);
SAME_PLACE(wh_op_opts, old_op_opts, flags);
SAME_PLACE(wh_op_opts, old_op_opts, mem);
SAME_PLACE(wh_op_opts, old_op_opts, device);
SAME_PLACE(wh_op_opts, old_op_opts, done);
SAME_PLACE(wh_op_opts, old_op_opts, arg);
SAME_PLACE(wh_op_opts, old_op_opts, result);
SAME_PLACE(wh_endpoint_opts, old_endpoint_opts, size);
SAME_PLACE(wh_endpoint_opts, old_endpoint_opts, timeout_ms);
SAME_PLACE(wh_endpoint_opts, old_endpoint_opts, done);
SAME_PLACE(wh_endpoint_opts, old_endpoint_opts, arg);
SAME_PLACE(wh_endpoint_opts, old_endpoint_opts, secret);
SAME_PLACE(wh_listener_opts, old_listener_opts, size);
SAME_PLACE(wh_listener_opts, old_listener_opts, secret);
SAME_PLACE(wh_listener_opts, old_listener_opts, any_user);
SAME_PLACE(wh_worker_opts, old_worker_opts, size);
SAME_PLACE(wh_worker_opts, old_worker_opts, mode);
SAME_PLACE(wh_worker_opts, old_worker_opts, progress_thread);
SAME_PLACE(wh_worker_opts, old_worker_opts, accept);
SAME_PLACE(wh_worker_opts, old_worker_opts, accept_arg);
SAME_PLACE(wh_frame, old_frame, data);
SAME_PLACE(wh_frame, old_frame, size);
SAME_PLACE(wh_frame, old_frame, mem);
SAME_PLACE(wh_frame, old_frame, device);
_Static_assert(sizeof(wh_op_opts) >= sizeof(old_op_opts), "it grows");
_Static_assert(sizeof(wh_endpoint_opts) >= sizeof(old_endpoint_opts), "it grows");
_Static_assert(sizeof(wh_listener_opts) >= sizeof(old_listener_opts), "it grows");
_Static_assert(sizeof(wh_worker_opts) >= sizeof(old_worker_opts), "it grows");
_Static_assert(sizeof(wh_frame) >= sizeof(old_frame), "it grows");
_Static_assert(sizeof(wh_result) == 64, "it has no size of its own, so it stays");

enum { LEAST = 16, ROOM = 2048, WAIT_MS = 20000, POISON = 0xa5 };

// ---- the log, and two workers that are connected

static char heard[2048];

static void hear(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    if (strcmp(level, "error") == 0)
        snprintf(heard, sizeof(heard), "%s %s", id, text);
}

static wh_context *ctx;
static wh_worker *server, *client;
static wh_listener *listener;
static char address[64];
static wh_endpoint *_Atomic accepted;
static wh_am *_Atomic kept;

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    atomic_store(&accepted, ep);
}

static wh_status on_am(wh_am *am, void *arg) {
    (void)arg;
    atomic_store(&kept, am);
    return WH_PENDING;
}

#define WAIT_FOR(cond)                                                                             \
    do {                                                                                           \
        for (int waited = 0; !(cond); waited++) {                                                  \
            CHECK(waited < WAIT_MS);                                                               \
            usleep(1000);                                                                          \
        }                                                                                          \
    } while (0)

static void begin(void) {
    wh_log_set_sink(hear, NULL);
    CHECK_EQ_INT(wh_context_create(NULL, &ctx), WH_OK);
    const wh_worker_opts *opts = WH_WORKER_OPTS(.progress_thread = true);
    CHECK_EQ_INT(wh_worker_create(ctx, opts, &server), WH_OK);
    CHECK_EQ_INT(wh_worker_create(ctx, opts, &client), WH_OK);
    CHECK_EQ_INT(wh_listener_open(server, "127.0.0.1:0", NULL, on_accept, NULL, &listener), WH_OK);
    CHECK_EQ_INT(wh_listener_address(listener, address, sizeof(address)), WH_OK);
    CHECK_EQ_INT(wh_worker_set_am(server, 1, on_am, NULL), WH_OK);
}

static void end(void) {
    wh_listener_close(listener);
    wh_worker_destroy(client);
    wh_worker_destroy(server);
    wh_context_destroy(ctx);
    wh_log_set_sink(NULL, NULL);
}

static wh_endpoint *from;

static wh_endpoint *open_pair(void) {
    wh_endpoint *to = NULL;
    atomic_store(&accepted, NULL);
    CHECK_EQ_INT(wh_endpoint_connect_wait(client, address, NULL, &to), WH_OK);
    WAIT_FOR((from = atomic_load(&accepted)));
    return to;
}

static void close_pair(wh_endpoint *to) {
    wh_endpoint_abort(to);
    wh_endpoint_abort(from);
}

// ---- every size, for a call that says how it ended

typedef wh_status (*use_fn)(const void *opts);

// made returns a struct of `size` bytes whose known part is `like`, zero up to its size and poison behind.
static unsigned char *made(const void *like, size_t known, size_t size) {
    static unsigned char room[ROOM] __attribute__((aligned(16)));
    memset(room, POISON, sizeof(room));
    if (size <= ROOM)
        memset(room, 0, size);
    memcpy(room, like, size < known ? size : known);
    memcpy(room, &size, sizeof(size));
    return room;
}

static void try_sizes(const char *name, size_t known, const void *like, use_fn use) {
    for (size_t size = LEAST; size <= known + 64; size += sizeof(size_t)) {
        CHECK_EQ_INT(use(made(like, known, size)), WH_OK);
        for (size_t at = known; at < size; at++) {
            unsigned char *opts = made(like, known, size);
            char place[64];
            opts[at] = 1;
            heard[0] = 0;
            CHECK_EQ_INT(use(opts), WH_ENOTSUP);
            snprintf(place, sizeof(place), "byte %zu is not zero", at);
            CHECK(strstr(heard, name) && strstr(heard, place));
        }
    }
    static const size_t garbage[] = {0,  1,    8,        15,       17,
                                     47, 2000, 1u << 30, SIZE_MAX, 0xa5a5a5a5a5a5a5a5};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        unsigned char *opts = made(like, known, known);
        memcpy(opts, &garbage[i], sizeof(garbage[i]));
        heard[0] = 0;
        CHECK_EQ_INT(use(opts), WH_EINVAL);
        CHECK(strstr(heard, name) && strstr(heard, "which no version of it has"));
    }
}

// ---- the options of making things

static wh_status use_worker(const void *opts) {
    wh_worker *made_now = NULL;
    wh_status st = wh_worker_create(ctx, opts, &made_now);
    CHECK((st == WH_OK) == (made_now != NULL));
    wh_worker_destroy(made_now);
    return st;
}

TEST(worker_options) {
    begin();
    try_sizes("wh_worker_opts", sizeof(wh_worker_opts), WH_WORKER_OPTS(.mode = WH_PROGRESS_WAIT),
              use_worker);
    end();
}

static wh_status use_listener(const void *opts) {
    wh_listener *made_now = NULL;
    wh_status st = wh_listener_open(server, "127.0.0.1:0", opts, on_accept, NULL, &made_now);
    CHECK((st == WH_OK) == (made_now != NULL));
    if (made_now)
        wh_listener_close(made_now);
    return st;
}

TEST(listener_options) {
    begin();
    try_sizes("wh_listener_opts", sizeof(wh_listener_opts), WH_LISTENER_OPTS(.secret = "word"),
              use_listener);
    end();
}

static wh_status connected(wh_status st, wh_endpoint *to) {
    CHECK((st == WH_OK) == (to != NULL));
    if (to)
        wh_endpoint_abort(to);
    return st;
}

static wh_status use_connect(const void *opts) {
    wh_endpoint *to = NULL;
    wh_status st = wh_endpoint_connect(client, address, opts, &to);
    return connected(st, to);
}

static wh_status use_connect_wait(const void *opts) {
    wh_endpoint *to = NULL;
    wh_status st = wh_endpoint_connect_wait(client, address, opts, &to);
    return connected(st, to);
}

static wh_status use_connect_blob(const void *opts) {
    unsigned char blob[WH_ADDRESS_MAX];
    size_t size;
    CHECK_EQ_INT(wh_worker_address(server, blob, &size), WH_OK);
    wh_endpoint *to = NULL;
    wh_status st = wh_endpoint_connect_blob(client, blob, size, opts, &to);
    return connected(st, to);
}

TEST(endpoint_options) {
    begin();
    static const use_fn uses[] = {use_connect, use_connect_wait, use_connect_blob};
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        try_sizes("wh_endpoint_opts", sizeof(wh_endpoint_opts),
                  WH_ENDPOINT_OPTS(.timeout_ms = WAIT_MS), uses[i]);
    end();
}

// ---- the options of operations

static wh_endpoint *to;
static uint8_t word[8], there[8];
static wh_mr *mr;
static wh_rkey *rkey;

// ended waits for an operation that was accepted.
static wh_status ended(wh_status st, wh_request *req) {
    if (st != WH_PENDING)
        return st;
    st = wh_request_wait(req, WAIT_MS);
    wh_request_free(req);
    return st;
}

static void feed(wh_status st) {
    if (st == WH_OK || st == WH_PENDING)
        CHECK_EQ_INT(wh_tag_send_wait(to, word, 8, 1, WAIT_MS), WH_OK);
}

static void eat(wh_status st) {
    if (st == WH_OK)
        CHECK_EQ_INT(wh_tag_recv_wait(from, there, 8, 1, WH_TAG_MASK_ALL, WAIT_MS, NULL), WH_OK);
}

static wh_status use_tag_send(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_tag_send(to, word, 8, 1, opts, &req);
    st = ended(st, req);
    eat(st);
    return st;
}

static wh_status use_tag_recv(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_tag_recv(from, there, 8, 1, WH_TAG_MASK_ALL, opts, &req);
    feed(st);
    return ended(st, req);
}

static wh_status use_worker_tag_recv(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_worker_tag_recv(server, there, 8, 1, WH_TAG_MASK_ALL, opts, &req);
    feed(st);
    return ended(st, req);
}

static wh_status use_message_recv(const void *opts) {
    wh_message *message = NULL;
    wh_request *req = NULL;
    wh_result result;
    memset(&result, POISON, sizeof(result));
    feed(WH_OK);
    WAIT_FOR(wh_tag_take(from, 1, WH_TAG_MASK_ALL, &result, &message) == WH_OK);
    CHECK(result.size == 8 && !result.reserved[0] && !result.reserved[1] && !result.reserved[2]);
    wh_status st = wh_message_recv(message, there, 8, opts, &req);
    if (st < 0)
        wh_message_drop(message);
    return ended(st, req);
}

static wh_status use_object_send(const void *opts) {
    wh_request *req = NULL;
    wh_object *object = NULL;
    wh_frame frame = {.data = word, .size = 8};
    wh_status st = wh_object_send(to, "h", 1, &frame, 1, sizeof(frame), 1, opts, &req);
    st = ended(st, req);
    if (st == WH_OK)
        CHECK_EQ_INT(wh_object_recv_wait(from, 1, WH_TAG_MASK_ALL, WAIT_MS, &object), WH_OK);
    wh_object_free(object);
    return st;
}

static void feed_object(wh_status st) {
    if (st == WH_OK || st == WH_PENDING)
        CHECK_EQ_INT(wh_object_send_wait(to, "h", 1, NULL, 0, 0, 1, WAIT_MS), WH_OK);
}

static wh_status ended_object(wh_status st, wh_request *req) {
    wh_result result = {.object = NULL};
    if (st != WH_PENDING)
        return st;
    st = wh_request_wait(req, WAIT_MS);
    CHECK_EQ_INT(wh_request_result(req, &result), WH_OK);
    wh_object_free(result.object);
    wh_request_free(req);
    return st;
}

static wh_status use_object_recv(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_object_recv(from, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, &req);
    feed_object(st);
    return ended_object(st, req);
}

static wh_status use_worker_object_recv(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_worker_object_recv(server, NULL, 0, 0, 1, WH_TAG_MASK_ALL, opts, &req);
    feed_object(st);
    return ended_object(st, req);
}

static wh_am *next_am(void) {
    wh_am *am = NULL;
    WAIT_FOR((am = atomic_exchange(&kept, NULL)));
    return am;
}

static wh_status use_am_send(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_am_send(to, 1, "h", 1, word, 8, opts, &req);
    st = ended(st, req);
    if (st == WH_OK)
        wh_am_drop(next_am());
    return st;
}

static wh_status use_am_recv(const void *opts) {
    CHECK_EQ_INT(wh_am_send_wait(to, 1, "h", 1, word, 8, WAIT_MS), WH_OK);
    wh_am *am = next_am();
    wh_request *req = NULL;
    wh_status st = wh_am_recv(am, there, 8, opts, &req);
    if (st < 0)
        wh_am_drop(am);
    return ended(st, req);
}

static wh_status use_flush(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_endpoint_flush(to, opts, &req);
    return ended(st, req);
}

static wh_status use_put(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_put(rkey, 0, word, 8, opts, &req);
    return ended(st, req);
}

static wh_status use_get(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_get(rkey, 0, there, 8, opts, &req);
    return ended(st, req);
}

static wh_status use_atomic(const void *opts) {
    wh_request *req = NULL;
    wh_status st = wh_atomic(rkey, 0, WH_ATOMIC_ADD, 8, 1, 0, NULL, opts, &req);
    return ended(st, req);
}

TEST(operation_options) {
    static const use_fn uses[] = {
        use_tag_send,
        use_tag_recv,
        use_worker_tag_recv,
        use_message_recv,
        use_object_send,
        use_object_recv,
        use_worker_object_recv,
        use_am_send,
        use_am_recv,
        use_flush,
        use_put,
        use_get,
        use_atomic,
    };
    begin();
    to = open_pair();
    char key[WH_MR_KEY_MAX];
    size_t size;
    CHECK_EQ_INT(wh_mr_alloc(ctx, 64, WH_MR_ALL, &mr), WH_OK);
    CHECK_EQ_INT(wh_mr_key(mr, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(to, key, size, &rkey), WH_OK);
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        try_sizes("wh_op_opts", sizeof(wh_op_opts), WH_OP_OPTS(.timeout_ms = WAIT_MS), uses[i]);
        heard[0] = 0;
        CHECK_EQ_INT(uses[i](WH_OP_OPTS(.flags = 1u << 31)), WH_ENOTSUP);
        CHECK(strstr(heard, "wh_op_opts.flags asks for 0x80000000"));
    }
    wh_rkey_close(rkey);
    close_pair(to);
    WAIT_FOR(wh_mr_destroy(mr) == WH_OK);
    end();
}

static wh_status use_worker_allocator(const void *opts) {
    return wh_worker_set_allocator(server, WH_MEM_HOST, opts);
}

static wh_status use_endpoint_allocator(const void *opts) {
    return wh_endpoint_set_allocator(from, WH_MEM_HOST, opts);
}

static wh_status use_allocator_of_a_receive(const void *opts) {
    return use_object_recv(WH_OP_OPTS(.allocator = opts));
}

TEST(allocators) {
    static const use_fn uses[] = {use_worker_allocator, use_endpoint_allocator,
                                  use_allocator_of_a_receive};
    begin();
    to = open_pair();
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        try_sizes("wh_allocator", sizeof(wh_allocator), WH_ALLOCATOR(.threshold = 5), uses[i]);
    close_pair(to);
    end();
}

// A close gives the handle up whatever it is told.
static wh_status use_close(const void *opts) {
    wh_request *req = NULL;
    wh_endpoint *mine = open_pair();
    wh_status st = wh_endpoint_close(mine, opts, &req);
    st = ended(st, req);
    wh_endpoint_abort(from);
    return st;
}

TEST(close_options) {
    begin();
    try_sizes("wh_op_opts", sizeof(wh_op_opts), WH_OP_OPTS(.timeout_ms = WAIT_MS), use_close);
    end();
}

// ---- arrays, and structs that the library fills in

static wh_status send_frames(const void *frames, size_t frame_size) {
    wh_request *req = NULL;
    wh_object *object = NULL;
    wh_status st = wh_object_send(to, "h", 1, frames, 3, frame_size, 1, NULL, &req);
    st = ended(st, req);
    if (st != WH_OK) {
        CHECK_EQ_INT(wh_object_send_wait(to, "h", 1, frames, 3, frame_size, 1, WAIT_MS), st);
        return st;
    }
    CHECK_EQ_INT(wh_object_recv_wait(from, 1, WH_TAG_MASK_ALL, WAIT_MS, &object), WH_OK);
    CHECK_EQ_INT(wh_object_count(object), 3);
    for (size_t i = 0; i < 3; i++) {
        const wh_frame *frame = wh_object_frame(object, i);
        CHECK(frame->size == i + 1 && memcmp(frame->data, "abc", i + 1) == 0);
    }
    wh_object_free(object);
    return st;
}

static wh_status recv_frames(const void *frames, size_t frame_size, bool any) {
    static char data[] = "abc";
    wh_request *req = NULL;
    wh_status st =
        any ? wh_worker_object_recv(server, frames, 3, frame_size, 1, WH_TAG_MASK_ALL, NULL, &req)
            : wh_object_recv(from, frames, 3, frame_size, 1, WH_TAG_MASK_ALL, NULL, &req);
    if (st != WH_PENDING)
        return st;
    wh_frame sent[3] = {
        {.data = data, .size = 1}, {.data = data, .size = 2}, {.data = data, .size = 3}};
    CHECK_EQ_INT(wh_object_send_wait(to, "h", 1, sent, 3, sizeof(*sent), 1, WAIT_MS), WH_OK);
    return ended_object(st, req);
}

// fill_frames makes three frames of `size` bytes each, with poison behind the last.
static unsigned char *fill_frames(char data[3][4], size_t size) {
    static unsigned char room[ROOM] __attribute__((aligned(16)));
    memset(room, POISON, sizeof(room));
    memset(room, 0, 3 * size);
    for (size_t i = 0; i < 3; i++) {
        wh_frame frame = {.data = data[i], .size = i + 1};
        memcpy(room + i * size, &frame, size < sizeof(frame) ? size : sizeof(frame));
    }
    return room;
}

TEST(frames) {
    begin();
    to = open_pair();
    char data[3][4] = {"abc", "abc", "abc"};
    for (size_t size = LEAST; size <= sizeof(wh_frame) + 40; size += 8) {
        unsigned char *frames = fill_frames(data, size);
        memcpy(data, (char[3][4]){"abc", "abc", "abc"}, sizeof(data));
        CHECK_EQ_INT(send_frames(frames, size), WH_OK);
        for (int any = 0; any < 2; any++) {
            memset(data, 0, sizeof(data));
            CHECK_EQ_INT(recv_frames(frames, size, any), WH_OK);
            CHECK(data[0][0] == 'a' && data[1][1] == 'b' && data[2][2] == 'c' && !data[2][3]);
        }
        if (size <= sizeof(wh_frame))
            continue;
        frames[3 * size - 1] = 1;
        heard[0] = 0;
        CHECK_EQ_INT(send_frames(frames, size), WH_ENOTSUP);
        CHECK(strstr(heard, "wh_frame has") && strstr(heard, "is not zero"));
        CHECK_EQ_INT(recv_frames(frames, size, false), WH_ENOTSUP);
        CHECK_EQ_INT(recv_frames(frames, size, true), WH_ENOTSUP);
    }
    static const size_t garbage[] = {0, 1, 8, 15, 4096, SIZE_MAX};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        unsigned char *frames = fill_frames(data, sizeof(wh_frame));
        heard[0] = 0;
        CHECK_EQ_INT(send_frames(frames, garbage[i]), WH_EINVAL);
        CHECK(strstr(heard, "give sizeof(wh_frame)"));
        CHECK_EQ_INT(recv_frames(frames, garbage[i], false), WH_EINVAL);
        CHECK_EQ_INT(recv_frames(frames, garbage[i], true), WH_EINVAL);
    }
    close_pair(to);
    end();
}

static wh_status ask_worker(const void *out) {
    return wh_worker_counters(server, (wh_counters *)(uintptr_t)out);
}

static wh_status ask_endpoint(const void *out) {
    return wh_endpoint_counters(to, (wh_counters *)(uintptr_t)out);
}

static wh_status ask_type(const void *out) {
    return wh_type_get_info(wh_type_basic(WH_TYPE_INT), (wh_type_info *)(uintptr_t)out);
}

static wh_status ask_memory(const void *out) {
    return wh_mem_query(word, (wh_mem_info *)(uintptr_t)out);
}

static void try_outputs(size_t known, use_fn ask) {
    unsigned char room[ROOM] __attribute__((aligned(16)));
    for (size_t size = LEAST; size <= known + 64; size += sizeof(size_t)) {
        memset(room, POISON, sizeof(room));
        memcpy(room, &size, sizeof(size));
        CHECK_EQ_INT(ask(room), WH_OK);
        CHECK_EQ_INT(memcmp(room, &size, sizeof(size)), 0);
        for (size_t at = size; at < size + 128; at++)
            CHECK_EQ_INT(room[at], POISON);
        for (size_t at = known; at < size; at++)
            CHECK_EQ_INT(room[at], 0);
    }
    static const size_t garbage[] = {0, 8, 17, 4096, SIZE_MAX};
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        memset(room, POISON, sizeof(room));
        memcpy(room, &garbage[i], sizeof(garbage[i]));
        CHECK_EQ_INT(ask(room), WH_EINVAL);
        for (size_t at = sizeof(size_t); at < sizeof(room); at++)
            CHECK_EQ_INT(room[at], POISON);
    }
}

TEST(what_the_library_fills_in) {
    begin();
    to = open_pair();
    try_outputs(sizeof(wh_counters), ask_worker);
    try_outputs(sizeof(wh_counters), ask_endpoint);
    try_outputs(sizeof(wh_type_info), ask_type);
    try_outputs(sizeof(wh_mem_info), ask_memory);
    close_pair(to);
    end();
}

TEST_MAIN()
