// SPDX-License-Identifier: BSD-3-Clause
//
// Random one-sided operations, and a model that knows what the memory must be after them.
//
//     rma_model [--programs N | --seconds S] [--lane shm|stream|self|loop|ucx] [--verbose]
//
// Without --lane all but ucx, whose connections cost more than a program.
//
// A worker owns several memories, of the library's and of the user's; two initiators with workers of their own put, get, add,
// swap, fence, flush and cancel, each with several operations under way.  All are one thread, so that
// WHERRY_SEED=n repeats a program: exactly over loop, whose network it decides, and nearly so over the others.
//
// The model.  Each byte belongs to one initiator, which keeps for it what it must be and the accesses under way; two that
// touch the same bytes, one of them writing, are started only with a fence or a flush between them.  Then a get has
// one answer, and the memory is known when a flush has ended.  What was cancelled leaves its bytes unknown until
// they are put again.  A word of each memory that both add to must come out as the sum.
#include "kit_loop.h"
#include "proc.h"

enum {
    INITIATORS = 2,
    MEMORIES = 3,   // two of the library's, one of the user's
    SHARED = 64,    // bytes at the start of each memory that all add to
    PART = 200000,  // of each initiator, behind that
    MEMORY = SHARED + INITIATORS * PART,
    OPS = 12,
    STEPS = 150,
    PATIENCE_MS = 20000,
};

typedef enum kind { PUT, GET, ADD, SWAP } kind;

typedef struct op {
    kind kind;
    bool used, cancelled;
    int memory;
    size_t offset, size;  // in the initiator's part
    uint8_t *buf;
    uint8_t *expected;  // what the bytes were to be before it, and which of them are known
    uint64_t old, operand, number;
    wh_request *req;
    wh_result result;
    int ended;
} op;

typedef struct initiator {
    int index;
    wh_worker *worker;
    wh_endpoint *ep;
    wh_rkey *rkeys[MEMORIES];
    uint8_t *must[MEMORIES];   // what our part holds when all is through
    uint8_t *known[MEMORIES];  // 0: nobody can say what a byte is
    op ops[OPS];
    uint64_t epoch, started;
    uint64_t added[MEMORIES];
} initiator;

static struct {
    uint64_t seed, rng;
    bool verbose;
    const char *lane;
    proc_worker owner, other;  // `other` has the initiators' workers, but for the lane to oneself
    wh_listener *listener;
    wh_endpoint *accepted[INITIATORS];
    int accepted_count;
    wh_mr *mrs[MEMORIES];
    uint8_t *memory[MEMORIES];
    uint8_t *users;
    initiator side[INITIATORS];
    wh_worker *second;
    kit_loop *loop[INITIATORS];
} m;

#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (m.verbose)                                                                             \
            printf(__VA_ARGS__);                                                                   \
    } while (0)

static uint64_t draw(uint64_t n) {
    return proc_below(&m.rng, n);
}

static bool chance(unsigned percent) {
    return draw(100) < percent;
}

// progress lets those workers go on that `who` has a bit for, so that at times one is behind the others.
static void progress(unsigned who) {
    wh_worker *workers[] = {m.owner.worker, m.other.worker, m.second};
    for (unsigned i = 0; i < 3; i++)
        if (workers[i] && (who >> i & 1))
            (void)wh_worker_progress(workers[i]);
    for (int i = 0; i < INITIATORS; i++)
        if (m.loop[i])
            kit_loop_tick(m.loop[i]);
}

#define UNTIL(cond)                                                                                \
    do {                                                                                           \
        uint64_t until_end = proc_now_ms() + PATIENCE_MS;                                          \
        while (!(cond)) {                                                                          \
            progress(7);                                                                           \
            if (proc_now_ms() > until_end)                                                         \
                proc_fail(__FILE__, __LINE__, "this does not come: %s", #cond);                    \
        }                                                                                          \
    } while (0)

// ---- how an operation ends

static void forget(const initiator *in, const op *o) {
    memset(in->known[o->memory] + o->offset, 0, o->size);
}

static void check_get(const initiator *in, const op *o) {
    (void)in;
    for (size_t i = 0; i < o->size; i++)
        if (o->expected[o->size + i] && o->buf[i] != o->expected[i])
            proc_fail(__FILE__, __LINE__,
                      "get %llu: byte %zu of %zu at %zu of memory %d is %d, not %d",
                      (unsigned long long)o->number, i, o->size, o->offset, o->memory, o->buf[i],
                      o->expected[i]);
}

static void end_op(initiator *in, op *o) {
    wh_status st = o->result.status;
    SAY("  %d: operation %llu ends: %s\n", in->index, (unsigned long long)o->number,
        wh_status_name(st));
    CHECK_INT(o->ended, 1);
    if (st == WH_ECANCELLED && o->cancelled) {
        // Its bytes are unknown since it was cancelled.
    } else if (st != WH_OK) {
        proc_fail(__FILE__, __LINE__, "operation %llu (%d) ended with %s",
                  (unsigned long long)o->number, o->kind, wh_status_name(st));
    } else if (o->kind == GET) {
        check_get(in, o);
    } else if ((o->kind == ADD || o->kind == SWAP) && o->expected[8]) {
        uint64_t before;
        memcpy(&before, o->expected, 8);
        CHECK(o->old == before);
    }
    wh_request_free(o->req);
    free(o->buf);
    free(o->expected);
    *o = (op){.used = false};
}

static void on_done(wh_request *req, const wh_result *result, void *arg) {
    op *o = arg;
    (void)req;
    o->result = *result;
    o->ended++;
}

static void reap(initiator *in) {
    for (int i = 0; i < OPS; i++)
        if (in->ops[i].used && in->ops[i].ended)
            end_op(in, &in->ops[i]);
}

// ---- what is started

// A put that is done may still be on its way.  So of each grain of memory it is known since which fence it was written and read.
static uint64_t *writers[INITIATORS][MEMORIES], *readers[INITIATORS][MEMORIES];

enum { GRAIN = 8, GRAINS = PART / GRAIN };

static bool writes(kind k) {
    return k == PUT || k == ADD || k == SWAP;
}

// conflicts says whether an access needs a fence before it: an epoch is kept one higher, so that 0 is none.
static bool conflicts(const initiator *in, kind k, int memory, size_t offset, size_t size) {
    for (size_t g = offset / GRAIN; g <= (offset + size - 1) / GRAIN; g++) {
        if (writers[in->index][memory][g] == in->epoch + 1)
            return true;
        if (writes(k) && readers[in->index][memory][g] == in->epoch + 1)
            return true;
    }
    return false;
}

static void note(const initiator *in, const op *o) {
    uint64_t *grains =
        writes(o->kind) ? writers[in->index][o->memory] : readers[in->index][o->memory];
    for (size_t g = o->offset / GRAIN; g <= (o->offset + o->size - 1) / GRAIN; g++)
        grains[g] = in->epoch + 1;
}

static void fence(initiator *in) {
    SAY("%d: fence\n", in->index);
    CHECK_STATUS(wh_endpoint_fence(in->ep), WH_OK);
    in->epoch++;
}

static op *new_op(initiator *in, kind k) {
    for (int i = 0; i < OPS; i++) {
        op *o = &in->ops[i];
        if (o->used)
            continue;
        *o = (op){.kind = k, .used = true, .number = ++in->started};
        return o;
    }
    return NULL;
}

static size_t draw_size(void) {
    static const size_t bases[] = {1, 8, 200, 4000, 8192, 9000, 70000, 150000};
    return 1 + (size_t)draw(bases[draw(sizeof(bases) / sizeof(bases[0]))]);
}

static void began(initiator *in, op *o, wh_status st) {
    if (st != WH_PENDING) {
        CHECK_STATUS(st, WH_OK);
        CHECK(!o->req);
        o->result.status = st;
        o->ended++;
    } else if (chance(6)) {
        SAY("%d: operation %llu is cancelled\n", in->index, (unsigned long long)o->number);
        o->cancelled = true;
        if (writes(o->kind))
            forget(in, o);
        wh_request_cancel(o->req);
    }
    reap(in);
}

static void choose_place(initiator *in, op *o) {
    o->memory = (int)draw(MEMORIES);
    bool word = o->kind == ADD || o->kind == SWAP;
    o->size = word ? 8 : draw_size();
    o->offset = (size_t)draw(chance(50) ? 500 : PART - o->size);
    if (o->offset + o->size > PART)
        o->offset = PART - o->size;
    if (word)
        o->offset &= ~(size_t)7;
    // Most conflicts get their fence; the others go elsewhere.
    if (conflicts(in, o->kind, o->memory, o->offset, o->size))
        fence(in);
    note(in, o);
}

// expect remembers what the bytes must be before the access, and which are known.
static void expect(const initiator *in, op *o) {
    o->expected = malloc(2 * o->size);
    o->buf = malloc(o->size);
    CHECK(o->expected && o->buf);
    memcpy(o->expected, in->must[o->memory] + o->offset, o->size);
    memcpy(o->expected + o->size, in->known[o->memory] + o->offset, o->size);
}

static uint64_t place(const initiator *in, const op *o) {
    return SHARED + (uint64_t)in->index * PART + o->offset;
}

static void step_move(initiator *in, kind k) {
    op *o = new_op(in, k);
    if (!o)
        return;
    choose_place(in, o);
    expect(in, o);
    SAY("%d: operation %llu %s %zu bytes at %zu of memory %d\n", in->index,
        (unsigned long long)o->number, k == PUT ? "puts" : "gets", o->size, o->offset, o->memory);
    const wh_op_opts *opts = WH_OP_OPTS(.done = on_done, .arg = o);
    if (k == GET) {
        began(in, o, wh_get(in->rkeys[o->memory], place(in, o), o->buf, o->size, opts, &o->req));
        return;
    }
    for (size_t i = 0; i < o->size; i++)
        o->buf[i] = (uint8_t)(o->number * 31 + i);
    memcpy(in->must[o->memory] + o->offset, o->buf, o->size);
    memset(in->known[o->memory] + o->offset, 1, o->size);
    began(in, o, wh_put(in->rkeys[o->memory], place(in, o), o->buf, o->size, opts, &o->req));
}

static void step_word(initiator *in, kind k) {
    op *o = new_op(in, k);
    if (!o)
        return;
    choose_place(in, o);
    expect(in, o);
    uint64_t word;
    memcpy(&word, in->must[o->memory] + o->offset, 8);
    o->operand = proc_random(&m.rng);
    word = k == ADD ? word + o->operand : o->operand;
    bool whole = k == SWAP || memchr(in->known[o->memory] + o->offset, 0, 8) == NULL;
    memcpy(in->must[o->memory] + o->offset, &word, 8);
    memset(in->known[o->memory] + o->offset, whole, 8);
    o->expected[8] = memchr(o->expected + 8, 0, 8) == NULL;
    SAY("%d: operation %llu %s at %zu of memory %d\n", in->index, (unsigned long long)o->number,
        k == ADD ? "adds" : "swaps", o->offset, o->memory);
    const wh_op_opts *opts = WH_OP_OPTS(.done = on_done, .arg = o);
    bool fetch = chance(60);
    o->expected[8] &= fetch;
    began(in, o,
          wh_atomic(in->rkeys[o->memory], place(in, o), k == ADD ? WH_ATOMIC_ADD : WH_ATOMIC_SWAP,
                    8, o->operand, 0, fetch ? &o->old : NULL, opts, &o->req));
}

// step_shared adds to the word that all add to.  It is never cancelled, so that the sum is known.
static void step_shared(initiator *in) {
    int memory = (int)draw(MEMORIES);
    uint64_t operand = draw(1000), old;
    wh_request *req = NULL;
    wh_status st = wh_atomic(in->rkeys[memory], 8, WH_ATOMIC_ADD, 8, operand, 0,
                             chance(50) ? &old : NULL, NULL, &req);
    if (st == WH_PENDING) {
        UNTIL(wh_request_status(req) != WH_PENDING);
        st = wh_request_status(req);
        wh_request_free(req);
    }
    CHECK_STATUS(st, WH_OK);
    in->added[memory] += operand;
}

static bool busy(const initiator *in) {
    for (int i = 0; i < OPS; i++)
        if (in->ops[i].used)
            return true;
    return false;
}

// check_memory compares our parts with the model; nothing may be under way.
static void check_memory(const initiator *in) {
    for (int k = 0; k < MEMORIES; k++) {
        const uint8_t *part = m.memory[k] + SHARED + (size_t)in->index * PART;
        if (!memchr(in->known[k], 0, PART) && memcmp(part, in->must[k], PART) == 0)
            continue;
        for (size_t i = 0; i < PART; i++)
            if (in->known[k][i] && part[i] != in->must[k][i])
                proc_fail(__FILE__, __LINE__, "byte %zu of initiator %d in memory %d is %d, not %d",
                          i, in->index, k, part[i], in->must[k][i]);
    }
}

// step_flush flushes and looks at the memory itself: behind the flush all must be there.
static void step_flush(initiator *in) {
    wh_request *req = NULL;
    SAY("%d: flush\n", in->index);
    wh_status st = wh_endpoint_flush(in->ep, NULL, &req);
    if (st == WH_PENDING) {
        UNTIL(wh_request_status(req) != WH_PENDING);
        st = wh_request_status(req);
        wh_request_free(req);
    }
    CHECK_STATUS(st, WH_OK);
    reap(in);
    in->epoch++;  // it is a fence, too, for whoever waits for it and for what it waited for
    UNTIL((reap(in), !busy(in)));
    check_memory(in);
}

static void open_key(initiator *in, int memory) {
    char key[WH_MR_KEY_MAX];
    size_t size;
    CHECK_STATUS(wh_mr_key(m.mrs[memory], key, &size), WH_OK);
    CHECK_STATUS(wh_rkey_open(in->ep, key, size, &in->rkeys[memory]), WH_OK);
}

// step_reopen opens a key again, so that its memory is mapped with accesses under way.
static void step_reopen(initiator *in) {
    int memory = (int)draw(MEMORIES);
    wh_rkey_close(in->rkeys[memory]);
    open_key(in, memory);
}

// is_direct says whether a memory is reached without its owner's help; what is not is asked for when it is used.
static bool is_direct(initiator *in, int memory) {
    uint64_t word;
    wh_request *req = NULL;
    wh_status st = wh_get(in->rkeys[memory], 8, &word, sizeof(word), NULL, &req);
    if (st == WH_PENDING) {
        UNTIL(wh_request_status(req) != WH_PENDING);
        st = wh_request_status(req);
        wh_request_free(req);
    }
    CHECK_STATUS(st, WH_OK);
    return wh_rkey_direct(in->rkeys[memory]);
}

static void step(initiator *in) {
    switch (draw(19)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5: step_move(in, PUT); break;
    case 6:
    case 7:
    case 8: step_move(in, GET); break;
    case 9: step_word(in, ADD); break;
    case 10: step_word(in, SWAP); break;
    case 11: step_shared(in); break;
    case 12: fence(in); break;
    case 13:
        if (chance(20))
            step_flush(in);
        break;
    case 14: step_reopen(in); break;
    default:;
        unsigned who = (unsigned)draw(8);
        for (uint64_t i = draw(20); i > 0; i--)
            progress(who);
    }
    reap(in);
}

// ---- the whole

static void make_memories(void) {
    m.users = malloc(MEMORY);
    CHECK(m.users);
    memset(m.users, 0, MEMORY);
    for (int k = 0; k < MEMORIES; k++) {
        if (k < MEMORIES - 1)
            CHECK_STATUS(wh_mr_alloc(m.owner.ctx, MEMORY, WH_MR_ALL, &m.mrs[k]), WH_OK);
        else
            CHECK_STATUS(
                wh_mr_register(m.owner.ctx, m.users, MEMORY, WH_MEM_HOST, WH_MR_ALL, &m.mrs[k]),
                WH_OK);
        m.memory[k] = wh_mr_address(m.mrs[k]);
    }
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    CHECK(m.accepted_count < INITIATORS);
    m.accepted[m.accepted_count++] = ep;
}

static void make_endpoint(initiator *in) {
    char address[64];
    if (strcmp(m.lane, "loop") == 0) {
        kit_loop_opts opts = {.seed = m.seed * 2 + (uint64_t)in->index,
                              .delay_max = (uint32_t)draw(14),
                              .window = (uint32_t)draw(60) + 4,
                              .split = chance(50),
                              .reorder = chance(60)};
        m.loop[in->index] = kit_loop_join(in->worker, m.owner.worker, &opts);
        CHECK(m.loop[in->index]);
        CHECK_STATUS(kit_loop_open(m.loop[in->index], 0, &in->ep), WH_OK);
    } else {
        snprintf(address, sizeof(address), "127.0.0.1:%u", wh_listener_port(m.listener));
        CHECK_STATUS(wh_endpoint_connect(in->worker, address, NULL, &in->ep), WH_OK);
    }
    if (chance(50))
        UNTIL(wh_endpoint_status(in->ep) != WH_PENDING);
}

static void make_initiator(int index, wh_worker *worker) {
    initiator *in = &m.side[index];
    *in = (initiator){.index = index, .worker = worker};
    make_endpoint(in);
    for (int k = 0; k < MEMORIES; k++) {
        open_key(in, k);
        in->must[k] = calloc(1, PART);
        in->known[k] = malloc(PART);
        writers[index][k] = calloc(GRAINS + 1, sizeof(uint64_t));
        readers[index][k] = calloc(GRAINS + 1, sizeof(uint64_t));
        CHECK(in->must[k] && in->known[k] && writers[index][k] && readers[index][k]);
        memset(in->known[k], 1, PART);
    }
}

static void end_initiator(initiator *in) {
    for (int k = 0; k < MEMORIES; k++) {
        wh_rkey_close(in->rkeys[k]);
        free(in->must[k]);
        free(in->known[k]);
        free(writers[in->index][k]);
        free(readers[in->index][k]);
    }
    wh_endpoint_abort(in->ep);
}

static void open_all(void) {
    bool self = strcmp(m.lane, "self") == 0, loop = strcmp(m.lane, "loop") == 0;
    const char *lane = self || loop ? "stream" : m.lane;
    static const char *const options[] = {"eager_max=8K", "ucx_rma=native", NULL};
    proc_open(&m.owner, lane, "spin", options);
    if (loop) {  // whose endpoints come without a listener
        wh_worker_destroy(m.owner.worker);
        CHECK_STATUS(
            wh_worker_create(m.owner.ctx, WH_WORKER_OPTS(.accept = on_accept), &m.owner.worker),
            WH_OK);
    }
    make_memories();
    CHECK_STATUS(
        wh_listener_open(m.owner.worker, "127.0.0.1:0", NULL, on_accept, NULL, &m.listener), WH_OK);
    // The second initiator has a worker of its own, unless all talk to themselves.
    m.second = NULL;
    m.other = (proc_worker){.ctx = NULL};
    if (!self) {
        proc_open(&m.other, lane, "spin", options);
        CHECK_STATUS(wh_worker_create(m.other.ctx, NULL, &m.second), WH_OK);
    }
    make_initiator(0, self ? m.owner.worker : m.other.worker);
    make_initiator(1, self ? m.owner.worker : m.second);
}

static void close_all(void) {
    for (int i = 0; i < INITIATORS; i++)
        end_initiator(&m.side[i]);
    while (m.accepted_count)
        wh_endpoint_abort(m.accepted[--m.accepted_count]);
    wh_listener_close(m.listener);
    if (m.second)
        wh_worker_destroy(m.second);
    if (m.other.ctx)
        proc_close(&m.other);
    m.second = m.other.worker = NULL;
    for (int k = 0; k < MEMORIES; k++)
        UNTIL(wh_mr_destroy(m.mrs[k]) != WH_EBUSY);
    proc_close(&m.owner);
    for (int i = 0; i < INITIATORS; i++)
        kit_loop_free(m.loop[i]);
    memset(m.loop, 0, sizeof(m.loop));
    free(m.users);
}

static void run(const char *lane, uint64_t seed) {
    m.lane = lane;
    m.seed = m.rng = seed;
    proc_context("over %s, WHERRY_SEED=%llu", lane, (unsigned long long)seed);
    open_all();
    for (int i = 0; i < STEPS; i++)
        step(&m.side[draw(INITIATORS)]);
    for (int i = 0; i < INITIATORS; i++) {
        step_flush(&m.side[i]);
        // If that were not so, all this would have been about records only.
        for (int k = 0; k < MEMORIES && strcmp(lane, "ucx") == 0; k++)
            UNTIL(is_direct(&m.side[i], k));
    }
    for (int k = 0; k < MEMORIES; k++) {
        uint64_t sum;
        memcpy(&sum, m.memory[k] + 8, 8);
        CHECK(sum == m.side[0].added[k] + m.side[1].added[k]);
    }
    close_all();
}

int main(int argc, char **argv) {
    static const char *const lanes[] = {"shm", "stream", "self", "loop", "ucx"};
    const char *lane = NULL;
    uint64_t programs = 200, seconds = 0;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--programs") == 0 && more)
            programs = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--seconds") == 0 && more)
            seconds = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--lane") == 0 && more)
            lane = argv[++i];
        else if (strcmp(argv[i], "--verbose") == 0)
            m.verbose = true;
        else
            return 2;
    }
    bool given;
    uint64_t first = proc_seed(seconds ? proc_now_us() : 1, &given), done = 0;
    uint64_t end = proc_now_ms() + seconds * 1000;
    do {
        for (int i = 0; i < 5; i++)
            if (lane ? strcmp(lane, lanes[i]) == 0 : i < 4)
                run(lanes[i], first + done);
        done++;
    } while (!given && (seconds ? proc_now_ms() < end : done < programs));
    printf("%llu programs from seed %llu on each lane\n", (unsigned long long)done,
           (unsigned long long)first);
    return 0;
}
