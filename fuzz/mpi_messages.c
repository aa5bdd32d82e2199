// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: what a rank of MPI gets from others, right, wrong or out of place.
//
// Messages with any envelope meet receives of any kind, answers meet synchronous sends, and accesses a window; each has a head and a payload
// of any length, here or still at its sender.  The engine is not there: its functions, below, read what they are given and complete at once.
// Every receive has a buffer of its exact size, and around the window no byte may change.  Accesses that only wait (locks, flushes) are left out.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/log.h>
#include <wherry/pack.h>
#include <wherry/rt.h>

#include "mpi/base/process.h"
#include "mpi/p2p/p2p.h"
#include "mpi/rma/access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

enum { RANKS = 4, MOST = 64, WINDOW = 256, GUARD = 4096, HEAD_MAX = 255 };

// ---- The engine.

typedef struct message {
    wh_am am;
    char *bytes;  // of the payload, wherever it is said to be
} message;

static volatile unsigned read_sum;

static void read_all(const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        read_sum += ((const unsigned char *)bytes)[i];
}

static void drop(message *m) {
    free((void *)(uintptr_t)m->am.header);
    free(m->bytes);
    free(m);
}

void wh_am_drop(wh_am *am) {
    drop((message *)am);
}

// Payloads that are under way, until the step has ended.
static struct transfer {
    message *m;
    void *buf;
    size_t size;
    const wh_type *type;
    wh_done_fn done;
    void *arg;
} under_way[MOST];
static int moving;

wh_status wh_am_recv(wh_am *am, void *buf, size_t size, const wh_op_opts *opts, wh_request **req) {
    MUST(!am->data && am->size && !req && opts->done);
    if (moving == MOST)
        return WH_ENOMEM;
    under_way[moving++] =
        (struct transfer){(message *)am, buf, size, opts->type, opts->done, opts->arg};
    return WH_PENDING;
}

static void move_all(void) {
    for (int i = 0; i < moving; i++) {  // what follows may begin more
        struct transfer t = under_way[i];
        size_t size = t.m->am.size, room = t.type ? (size_t)wh_type_size(t.type) * t.size : t.size;
        size_t some = size < room ? size : room, moved;
        if (t.type && some)
            MUST(wh_unpack(t.m->bytes, some, t.buf, (int64_t)t.size, t.type, 0, 0, &moved) ==
                 WH_OK);
        else if (some)
            memcpy(t.buf, t.m->bytes, some);
        drop(t.m);
        wh_result result = {.status = size > room ? WH_ETRUNCATED : WH_OK, .size = size};
        t.done(NULL, &result, t.arg);
    }
    moving = 0;
}

wh_status wh_am_send_copy(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                          const void *buf, size_t size, const wh_op_opts *opts, wh_request **req) {
    (void)ep, (void)id, (void)opts, (void)req;
    read_all(header, header_size);
    read_all(buf, size);
    return WH_OK;
}

wh_status wh_am_send(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                     const void *buf, size_t size, const wh_op_opts *opts, wh_request **req) {
    return wh_am_send_copy(ep, id, header, header_size, opts->type ? NULL : buf,
                           opts->type ? 0 : size, opts, req);
}

wh_status wh_pe_endpoint(wh_pe *pe, int other, wh_endpoint **ep) {
    (void)pe;
    MUST(other >= 0 && other < RANKS);
    if (other == 0)
        return WH_ENOTSUP;  // this process
    *ep = (wh_endpoint *)(uintptr_t)64;
    return WH_OK;
}

wh_status wh_endpoint_status(const wh_endpoint *ep) {
    (void)ep;
    return WH_OK;
}

static void say_nothing(const char *level, const char *id, const char *text, void *arg) {
    (void)level, (void)id, (void)text, (void)arg;
}

// ---- The rank.

static unsigned char memory[GUARD + WINDOW + GUARD];
static whm_peer peers[RANKS] = {{.world = 0}, {.world = 1}, {.world = 2}, {.world = 3}};
static whm_group group = {.size = RANKS};
static whm_comm comm = {.o = {.refs = 1000}, .group = &group, .context = 1, .size = RANKS};
static whm_win win = {.comm = &comm,
                      .flavor = MPI_WIN_FLAVOR_CREATE,
                      .base = memory + GUARD,
                      .size = WINDOW,
                      .unit = 4,
                      .peer = peers};
static whm_win *windows[4] = {NULL, &win};
static whm_wins wins = {windows, 4};

typedef struct operation {
    whm_transfer t;
    void *buf;
    bool ended;
} operation;
static operation *operations[MOST];
static int begun;

static void on_done(whm_transfer *t) {
    operation *o = (operation *)t;
    MUST(!o->ended);
    o->ended = true;
}

static void begin(void) {
    static whm_rank *here[1];
    static whm_way ways[RANKS];
    if (!whm_self->types) {
        wh_log_set_sink(say_nothing, NULL);
        MUST(whm_types_begin(whm_self) == MPI_SUCCESS);
    }
    here[0] = whm_self;
    whm_process_here.rank = here;
    whm_process_here.local = 1;
    whm_process_here.ranks = whm_process_here.processes = RANKS;
    whm_process_here.to = ways;
    whm_self->wins = &wins;
    win.rank = whm_self;
    MUST(whm_match_begin(whm_self) == MPI_SUCCESS);
    memset(memory, 0x5A, sizeof(memory));
    begun = 0;
}

static void end(void) {
    for (int i = 0; i < begun; i++) {
        operation *o = operations[i];
        if (!o->t.complete && !(o->t.state & WHM_IS_SEND))
            whm_transfer_cancel(&o->t);
    }
    whm_match_end(whm_self);
    for (int i = 0; i < begun; i++) {
        free(operations[i]->buf);
        free(operations[i]);
    }
    for (int i = 0; i < GUARD; i++)
        MUST(memory[i] == 0x5A && memory[GUARD + WINDOW + i] == 0x5A);
}

// ---- What an input says.

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static uint8_t byte_of(input *in) {
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

// bytes_of takes up to `size` bytes into memory of exactly as many.
static void *bytes_of(input *in, size_t size, size_t *got) {
    *got = size < in->left ? size : in->left;
    char *bytes = malloc(*got ? *got : 1);
    MUST(bytes);
    memcpy(bytes, in->at, *got);
    in->at += *got;
    in->left -= *got;
    return bytes;
}

static operation *operation_new(size_t size) {
    operation *o = calloc(1, sizeof(*o));
    MUST(o && (o->buf = calloc(1, size ? size : 1)));
    o->t.done = on_done;
    operations[begun++] = o;
    return o;
}

static void receive(input *in) {
    static const MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE_INT};
    if (begun == MOST)
        return;
    whm_type *type = whm_type_of(types[byte_of(in) % 3]);
    int count = byte_of(in) % 32, source = byte_of(in) % (RANKS + 1), tag = byte_of(in) % 5;
    operation *o = operation_new((size_t)(count * type->extent));
    MUST(whm_recv(&o->t, &comm, WHM_POINT, o->buf, count, type,
                  source == RANKS ? MPI_ANY_SOURCE : source,
                  tag == 4 ? MPI_ANY_TAG : tag) == MPI_SUCCESS);
}

static void send_synchronous(input *in) {
    if (begun == MOST)
        return;
    operation *o = operation_new(8);
    MUST(whm_send(&o->t, &comm, WHM_POINT, o->buf, 8, whm_type_of(MPI_BYTE),
                  1 + byte_of(in) % (RANKS - 1), 1, WHM_SYNC) == MPI_SUCCESS);
}

static void arrive(input *in, wh_am_fn fn, size_t head_size, bool is_access) {
    size_t size, shape = byte_of(in);
    message *m = calloc(1, sizeof(*m));
    MUST(m);
    m->am.header = bytes_of(in, shape & 1 ? byte_of(in) : head_size, &m->am.header_size);
    m->bytes = bytes_of(in, byte_of(in), &size);
    m->am.size = size;
    m->am.data = shape & 2 || !size ? NULL : m->bytes;
    uint8_t kind = is_access && m->am.header_size ? *(const uint8_t *)m->am.header : 0;
    bool waits = kind == WHM_FLUSH || kind == WHM_LOCK || kind == WHM_UNLOCK;
    if (waits || fn(&m->am, NULL) != WH_PENDING)
        drop(m);
}

static void step(input *in) {
    switch (byte_of(in) % 6) {
    case 0: receive(in); break;
    case 1: send_synchronous(in); break;
    case 2: arrive(in, whm_on_message, sizeof(whm_envelope), false); break;
    case 3: arrive(in, whm_on_matched, 2 * sizeof(uint32_t), false); break;
    case 4: arrive(in, whm_on_access, sizeof(whm_access), true); break;
    default: arrive(in, whm_on_answer, sizeof(whm_answer), false); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    begin();
    while (in.left) {
        step(&in);
        move_all();
    }
    end();
    return 0;
}
