// SPDX-License-Identifier: BSD-3-Clause
//
// Operations behind CUDA streams of the program's, in every place of a message.
//
// Before an operation its stream is given copies that write what is to be sent, or read what a message will replace; after
// the operation has ended, others that replace what was sent, or read what has come.  All of it is submitted, and nothing is
// waited for before the content is looked at: with the test driver's random delays every order that is not demanded happens.
#include <dlfcn.h>

#include "kit.h"

enum { BEFORE = 3, STREAMS = 3, NON_BLOCKING = 1 };

// The driver's functions that a program uses.
typedef struct driver {
    int (*retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*create)(void **stream, unsigned flags);
    int (*copy)(unsigned long long dst, unsigned long long src, size_t size, void *stream);
    int (*synchronize)(void *stream);
    int (*destroy)(void *stream);
} driver;

// A program with its streams, and memory of `size` bytes for each thing that it does.
typedef struct program {
    driver cuda;
    void *context;
    void *streams[STREAMS];
    size_t size;
    char *buf;                // of the operations
    char *old, *new, *other;  // contents
    char *seen, *spare;       // where copies go
} program;

static void *entry(kit_side *me, const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found)
        kit_fail(me, __FILE__, __LINE__, "there is no %s in libcuda.so.1", name);
    return found;
}

static char *device(kit_side *me, size_t size) {
    void *ptr = NULL;
    REQUIRE_STATUS(wh_mem_alloc_kind(WH_MEM_CUDA, 0, size, &ptr), WH_OK);
    return ptr;
}

static void fill(kit_side *me, char *dev, size_t size, uint64_t seed) {
    char *host = kit_alloc(me, size);
    kit_fill(host, size, seed);
    REQUIRE_STATUS(wh_mem_copy(dev, WH_MEM_CUDA, host, WH_MEM_HOST, size), WH_OK);
    free(host);
}

static void check(kit_side *me, const char *dev, size_t size, uint64_t seed) {
    char *host = kit_alloc(me, size);
    REQUIRE_STATUS(wh_mem_copy(host, WH_MEM_HOST, dev, WH_MEM_CUDA, size), WH_OK);
    SAME(host, size, seed);
    free(host);
}

static program begin(kit_side *me, size_t size) {
    program p = {.size = size};
    *(void **)&p.cuda.retain = entry(me, "cuDevicePrimaryCtxRetain");
    *(void **)&p.cuda.push = entry(me, "cuCtxPushCurrent_v2");
    *(void **)&p.cuda.pop = entry(me, "cuCtxPopCurrent_v2");
    *(void **)&p.cuda.create = entry(me, "cuStreamCreate");
    *(void **)&p.cuda.copy = entry(me, "cuMemcpyAsync");
    *(void **)&p.cuda.synchronize = entry(me, "cuStreamSynchronize");
    *(void **)&p.cuda.destroy = entry(me, "cuStreamDestroy_v2");
    char **all[] = {&p.buf, &p.old, &p.new, &p.other, &p.seen, &p.spare};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        *all[i] = device(me, size);
    REQUIRE_INT(p.cuda.retain(&p.context, 0), 0);
    REQUIRE_INT(p.cuda.push(p.context), 0);
    REQUIRE_INT(p.cuda.create(&p.streams[0], NON_BLOCKING), 0);
    REQUIRE_INT(p.cuda.create(&p.streams[1], 0), 0);
    REQUIRE_INT(p.cuda.pop(&p.context), 0);
    p.streams[2] = (void *)1;  // the default one, by the number that it has in array interfaces
    return p;
}

static void end(kit_side *me, program *p) {
    char *all[] = {p->buf, p->old, p->new, p->other, p->seen, p->spare};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        REQUIRE_STATUS(wh_mem_free_kind(WH_MEM_CUDA, all[i]), WH_OK);
    REQUIRE_INT(p->cuda.push(p->context), 0);
    REQUIRE_INT(p->cuda.destroy(p->streams[0]), 0);
    REQUIRE_INT(p->cuda.destroy(p->streams[1]), 0);
    REQUIRE_INT(p->cuda.pop(&p->context), 0);
}

// copy submits a copy, behind some that take their time.
static void copy(kit_side *me, program *p, char *dst, const char *src, void *stream) {
    REQUIRE_INT(p->cuda.push(p->context), 0);
    for (int i = 0; i <= BEFORE; i++) {
        char *to = i < BEFORE ? p->spare : dst;
        REQUIRE_INT(p->cuda.copy((uintptr_t)to, (uintptr_t)src, p->size, stream), 0);
    }
    REQUIRE_INT(p->cuda.pop(&p->context), 0);
}

static void synchronize(kit_side *me, program *p, void *stream) {
    REQUIRE_INT(p->cuda.push(p->context), 0);
    REQUIRE_INT(p->cuda.synchronize(stream), 0);
    REQUIRE_INT(p->cuda.pop(&p->context), 0);
}

// What a message is: a tag, an object's frame, an active message.
typedef enum way { TAG, OBJECT, ACTIVE, WAYS } way;

static const size_t sizes[] = {8, 8192, 30000, 262144, 1000008};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ROUNDS = 3 };

static const wh_op_opts *behind(kit_op *op, void *stream) {
    (void)kit_opts(op);
    op->opts.stream = stream;
    return &op->opts;
}

static void send_one(kit_side *me, program *p, way w, size_t size, void *stream) {
    kit_op op;
    char word[4] = "host";
    wh_frame frames[] = {{.data = word, .size = 4}, {.data = p->buf, .size = size}};
    const wh_op_opts *opts = behind(&op, stream);
    if (w == OBJECT)
        BEGIN(&op, wh_object_send(me->ep, NULL, 0, frames, 2, sizeof(*frames), 1, opts, NULL));
    else if (w == ACTIVE)
        BEGIN(&op, wh_am_send(me->ep, 4, NULL, 0, p->buf, size, opts, NULL));
    else
        BEGIN(&op, wh_tag_send(me->ep, p->buf, size, 1, opts, NULL));
    END(&op, WH_OK);
}

typedef struct taken {  // an active message
    kit_side *me;
    program *p;
    void *_Atomic stream;  // of the next one; a progress thread reads it
    kit_op op;
    _Atomic unsigned count;
} taken;

// prepare_receive has a stream read what a message will replace.
static void prepare_receive(kit_side *me, program *p, void *stream) {
    fill(me, p->buf, p->size, 1);
    fill(me, p->seen, p->size, 2);
    copy(me, p, p->seen, p->buf, stream);
}

static wh_status on_am(wh_am *am, void *arg) {
    taken *t = arg;
    kit_side *me = t->me;
    void *stream = t->stream;
    prepare_receive(me, t->p, stream);
    const wh_op_opts *opts = behind(&t->op, stream);
    BEGIN(&t->op, wh_am_recv(am, t->p->buf, am->size, opts, NULL));
    atomic_fetch_add(&t->count, 1);
    return WH_OK;
}

static void receive_one(kit_side *me, program *p, way w, size_t size, void *stream) {
    kit_op op;
    char word[4];
    wh_frame frames[] = {{.data = word, .size = 4}, {.data = p->buf, .size = size}};
    prepare_receive(me, p, stream);
    const wh_op_opts *opts = behind(&op, stream);
    if (w == OBJECT)
        BEGIN(&op,
              wh_object_recv(me->ep, frames, 2, sizeof(*frames), 1, WH_TAG_MASK_ALL, opts, NULL));
    else
        BEGIN(&op, wh_tag_recv(me->ep, p->buf, size, 1, WH_TAG_MASK_ALL, opts, NULL));
    END(&op, WH_OK);
    if (w == OBJECT)
        wh_object_free(op.result.object);
}

// A copy that was submitted before the receive has read what was there; one that is submitted now reads what has come.
static void check_receive(kit_side *me, program *p, size_t size, uint64_t seed, void *stream) {
    copy(me, p, p->other, p->buf, stream);
    synchronize(me, p, stream);
    check(me, p->seen, p->size, 1);
    check(me, p->other, size, seed);
}

CASE(device_streams, KIT_CUDA) {
    static taken each[2];  // of a role: both may be threads of one process
    taken *takes = &each[me->role];
    uint64_t seed = 10;
    for (size_t s = 0; s < SIZES; s++) {
        program p = begin(me, sizes[s]);
        if (me->role == 1) {
            takes->me = me;
            takes->p = &p;
            atomic_store(&takes->count, 0);
            REQUIRE_STATUS(wh_worker_set_am(me->worker, 4, on_am, takes), WH_OK);
        }
        for (unsigned i = 0; i < WAYS * ROUNDS; i++, seed++) {
            void *stream = p.streams[(i + s) % STREAMS];
            way w = (way)(i / ROUNDS);
            takes->stream = stream;
            SYNC();
            if (me->role == 0) {
                if (i % 2)
                    kit_idle(me, 1);  // its receive is there already
                fill(me, p.buf, sizes[s], 1);
                fill(me, p.new, sizes[s], seed);
                fill(me, p.old, sizes[s], 2);
                copy(me, &p, p.buf, p.new, stream);
                send_one(me, &p, w, sizes[s], stream);
                copy(me, &p, p.buf, p.old, stream);  // what was sent is not looked at any more
                synchronize(me, &p, stream);
            } else if (w == ACTIVE) {
                UNTIL(atomic_load(&takes->count) == i % ROUNDS + 1);
                END(&takes->op, WH_OK);
                check_receive(me, &p, sizes[s], seed, stream);
            } else {
                receive_one(me, &p, w, sizes[s], stream);
                check_receive(me, &p, sizes[s], seed, stream);
            }
        }
        SYNC();
        if (me->role == 1)
            REQUIRE_STATUS(wh_worker_set_am(me->worker, 4, NULL, NULL), WH_OK);
        end(me, &p);
    }
}

static wh_mr *own_memory(kit_side *me, size_t size) {
    wh_mr *mr = NULL;
    char key[WH_MR_KEY_MAX];
    size_t key_size;
    REQUIRE_STATUS(wh_mr_alloc(wh_worker_context(me->worker), size, WH_MR_READ | WH_MR_WRITE, &mr),
                   WH_OK);
    REQUIRE_STATUS(wh_mr_key(mr, key, &key_size), WH_OK);
    kit_send(me, me->ep, &key_size, sizeof(key_size), 2);
    kit_send(me, me->ep, key, key_size, 2);
    return mr;
}

static wh_rkey *open_memory(kit_side *me) {
    wh_rkey *rkey = NULL;
    char key[WH_MR_KEY_MAX];
    size_t key_size;
    kit_recv(me, me->ep, &key_size, sizeof(key_size), 2);
    kit_recv(me, me->ep, key, key_size, 2);
    REQUIRE_STATUS(wh_rkey_open(me->ep, key, key_size, &rkey), WH_OK);
    return rkey;
}

// A put takes what its stream has written; a get leaves what its stream still reads.
static void put_and_get(kit_side *me, program *p, wh_rkey *rkey, uint64_t seed, void *stream) {
    kit_op op;
    fill(me, p->buf, p->size, 1);
    fill(me, p->new, p->size, seed);
    copy(me, p, p->buf, p->new, stream);
    const wh_op_opts *opts = behind(&op, stream);
    BEGIN(&op, wh_put(rkey, 0, p->buf, p->size, opts, NULL));
    END(&op, WH_OK);
    opts = kit_opts(&op);
    BEGIN(&op, wh_endpoint_flush(me->ep, opts, NULL));
    END(&op, WH_OK);
    fill(me, p->buf, p->size, 1);
    copy(me, p, p->seen, p->buf, stream);
    opts = behind(&op, stream);
    BEGIN(&op, wh_get(rkey, 0, p->buf, p->size, opts, NULL));
    END(&op, WH_OK);
    check_receive(me, p, p->size, seed, stream);
}

CASE(device_streams_of_accesses, KIT_CUDA) {
    if (me->role == 1) {
        wh_mr *mr = own_memory(me, sizes[SIZES - 1]);
        SYNC();
        wh_status st;
        UNTIL_POLLED((st = wh_mr_destroy(mr)) != WH_EBUSY);
        REQUIRE_STATUS(st, WH_OK);
        return;
    }
    wh_rkey *rkey = open_memory(me);
    for (unsigned i = 0; i < SIZES * STREAMS; i++) {
        program p = begin(me, sizes[i / STREAMS]);
        put_and_get(me, &p, rkey, 10 + i, p.streams[i % STREAMS]);
        end(me, &p);
    }
    SYNC();
    wh_rkey_close(rkey);
}
