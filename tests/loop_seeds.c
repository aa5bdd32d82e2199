// SPDX-License-Identifier: BSD-3-Clause
//
// Random programs over a simulated network: two workers of one thread, joined by the loop lane, and a model that knows
// what must come of each message and each operation.
//
//     loop_seeds [--seeds N] [--first S] [--verbose]
//
// The seed decides the network (delays, window, splitting, reordering, a loss after so many records) and the program:
// sends and receives of every kind, cancels, takes, flushes, aborts, cuts, in any order, with progress of either side in
// between.  Nothing depends on time, so WHERRY_SEED=n repeats one program exactly.
//
// What must come of it is the model's affair (loop_model.h).  On an endpoint to which nothing bad has happened, nothing is
// missing at the end.
#include "loop_model.h"

enum {
    TAG_KINDS = 3,
    DELAY_MAX = 14,  // ticks
    ROUNDS_MAX = 1000000,
};

// ---- steps of a program

static void step_send(int side, int ep, model_kind kind) {
    wh_endpoint *handle = model.eps[ep].handle[side];
    model_op *o =
        handle && model.message_count < MODEL_MESSAGES ? model_new_op(kind, true, side, ep) : NULL;
    if (!o)
        return;
    model_message *m = model_new_message(o, model_draw(TAG_KINDS));
    int id = o->message;
    SAY("side %d sends %s %d on %d: %zu bytes, tag %llu\n", side,
        kind == TAG      ? "message"
        : kind == OBJECT ? "object"
                         : "active message",
        id, ep, m->size, (unsigned long long)m->tag);
    wh_op_opts opts;
    bool sync = model_chance(15), small = m->size <= 4096 || id % 4 == 0;
    model_opts(o, sync ? WH_OP_SYNC : 0, &opts);
    // An empty message has arrived when it is matched, whatever its sender does then.
    o->carried = sync || (kind == OBJECT && small) || m->size == 0;
    wh_request **req = model_chance(70) ? &o->req : NULL;
    wh_frame frames[3];
    for (int i = 0; i < 3; i++)
        frames[i] = (wh_frame){i == 1 ? NULL : o->buf, i == 1 ? 0 : m->size, WH_MEM_AUTO, 0, NULL};
    if (kind == TAG)
        model_began(o, wh_tag_send(handle, o->buf, m->size, m->tag, &opts, req));
    else if (kind == AM)
        model_began(o, wh_am_send(handle, 1, &id, sizeof(id), o->buf, m->size, &opts, req));
    else
        model_began(o, wh_object_send(handle, &id, sizeof(id), frames, (size_t)id % 4,
                                      sizeof(wh_frame), m->tag, &opts, req));
}

static model_op *recv_with(int side, int ep, model_kind kind, uint64_t tag, uint64_t mask,
                           size_t room) {
    wh_endpoint *handle = ep >= 0 ? model.eps[ep].handle[side] : NULL;
    model_op *o = handle || ep < 0 ? model_new_op(kind, false, side, ep) : NULL;
    if (!o)
        return NULL;
    o->any = ep < 0;
    o->tag = tag;
    o->mask = mask;
    o->room = room;
    if (kind == TAG) {
        o->buf = malloc(room + 1);
        CHECK(o->buf);
    }
    SAY("side %d receives %s as operation %d on %d: %zu bytes, tag %llu, mask %llx\n", side,
        kind == TAG ? "a message" : "an object", (int)(o - model.ops), ep, room,
        (unsigned long long)tag, (unsigned long long)mask);
    wh_op_opts opts;
    model_opts(o, 0, &opts);
    wh_request **req = &o->req;
    wh_status st;
    if (kind == TAG)
        st = handle ? wh_tag_recv(handle, o->buf, room, tag, mask, &opts, req)
                    : wh_worker_tag_recv(model.worker[side], o->buf, room, tag, mask, &opts, req);
    else
        st = handle ? wh_object_recv(handle, NULL, 0, 0, tag, mask, &opts, req)
                    : wh_worker_object_recv(model.worker[side], NULL, 0, 0, tag, mask, &opts, req);
    model_began(o, st);
    return o;
}

static void step_recv(int side, int ep) {
    uint64_t mask = model_chance(70) ? WH_TAG_MASK_ALL : model_chance(50) ? 0 : 1;
    model_kind kind = model_chance(75) ? TAG : OBJECT;
    static const size_t rooms[] = {0, 1, 100, MODEL_MESSAGES, 5000, 7900, 20000};
    size_t room =
        model_chance(80) ? MODEL_ROOM : rooms[model_draw(sizeof(rooms) / sizeof(rooms[0]))];
    uint64_t tag = model_draw(TAG_KINDS);
    (void)recv_with(side, model_chance(25) ? -1 : ep, kind, tag, mask, room);
}

static void step_cancel(void) {
    model_op *o = model.op_count ? &model.ops[model_draw((uint64_t)model.op_count)] : NULL;
    if (!o || !o->req || o->ended || o->kind == CLOSE)
        return;
    SAY("operation %d is cancelled\n", (int)(o - model.ops));
    o->cancelled = true;
    if (!o->send)
        model_refuse(o);
    if (o->send && o->ep >= 0)
        model.eps[o->ep].cancels = true;
    wh_request_cancel(o->req);
}

// use_taken receives a message that was taken, or drops it.
static void use_taken(const model_taken *p) {
    model_op *o = model_chance(70) ? model_new_op(TAG, false, p->side, p->ep) : NULL;
    if (!o) {
        // What is dropped has arrived, as far as the model goes: it cannot be told which it was.
        model.eps[p->ep].troubled = true;
        wh_message_drop(p->msg);
        return;
    }
    o->room = model_chance(80) || p->size < 4 ? p->size : p->size / 2;
    o->buf = malloc(o->room + 1);
    o->mask = 0;
    o->cancelled = true;  // by its sender, perhaps
    CHECK(o->buf);
    wh_op_opts opts;
    model_opts(o, 0, &opts);
    wh_status st = wh_message_recv(p->msg, o->buf, o->room, &opts, &o->req);
    if (st < 0 && st != WH_ETRUNCATED)
        wh_message_drop(p->msg);  // an error has left it ours
    model_began(o, st);
}

static void step_take(int side, int ep) {
    wh_endpoint *handle = model.eps[ep].handle[side];
    wh_message *msg = NULL;
    wh_result result;
    if (!handle || wh_tag_take(handle, 0, 0, &result, &msg) != WH_OK)
        return;
    model.eps[ep].cancels = true;  // it is out of the order in which receives match
    model_taken p = {msg, side, ep, result.size};
    if (model_chance(40) && model.taken_count < MODEL_PEEKED)
        model.taken[model.taken_count++] = p;
    else
        use_taken(&p);
}

static bool step_taken(void) {
    if (!model.taken_count)
        return false;
    use_taken(&model.taken[--model.taken_count]);
    return true;
}

static void step_flush(int side, int ep) {
    wh_endpoint *handle = model.eps[ep].handle[side];
    model_op *o = handle ? model_new_op(FLUSH, true, side, ep) : NULL;
    if (!o)
        return;
    SAY("side %d flushes %d\n", side, ep);
    wh_op_opts opts;
    model_opts(o, 0, &opts);
    model_began(o, wh_endpoint_flush(handle, &opts, &o->req));
}

static void step_close(int side, int ep) {
    wh_endpoint *handle = model.eps[ep].handle[side];
    model_op *o = handle ? model_new_op(CLOSE, true, side, ep) : NULL;
    if (!o)
        return;
    SAY("side %d closes %d\n", side, ep);
    if (wh_endpoint_status(handle) == WH_PENDING)
        model.eps[ep].troubled = true;  // before it is connected that is an abort
    model.eps[ep].handle[side] = NULL;
    model.eps[ep].closed[side] = true;
    wh_op_opts opts;
    model_opts(o, 0, &opts);
    model_began(o, wh_endpoint_close(handle, &opts, &o->req));
}

void model_abort(int side, int ep) {
    if (!model.eps[ep].handle[side])
        return;
    SAY("side %d aborts %d\n", side, ep);
    wh_endpoint *handle = model.eps[ep].handle[side];
    model.eps[ep].troubled = true;
    wh_endpoint_abort(handle);
    model.eps[ep].handle[side] = NULL;
}

static void progress(int side, unsigned passes) {
    for (unsigned i = 0; i < passes; i++)
        (void)wh_worker_progress(model.worker[side]);
}

// ---- active messages

static void recv_am(wh_am *am, int id, int side, int ep) {
    model_op *o = model_new_op(AM, false, side, ep);
    if (!o) {
        wh_am_drop(am);
        return;
    }
    o->room = am->size;
    o->message = id;
    o->cancelled = true;  // its sender may withdraw it
    o->buf = malloc(o->room + 1);
    CHECK(o->buf);
    wh_op_opts opts;
    model_opts(o, 0, &opts);
    wh_status st = wh_am_recv(am, o->buf, o->room, &opts, &o->req);
    if (st < 0)
        wh_am_drop(am);
    model_began(o, st);
}

static wh_status on_am(wh_am *am, void *arg) {
    int side = arg == &model.worker[1], id;
    CHECK_INT(am->header_size, sizeof(id));
    memcpy(&id, am->header, sizeof(id));
    model_message *m = model_arrive(id, side, AM);
    CHECK_INT(am->size, m->size);
    model_pair *p = &model.eps[m->ep];
    CHECK((uint64_t)id >= p->am_next[side]);  // in the order of the sends
    p->am_next[side] = (uint64_t)id + 1;
    m->whole = am->data != NULL;
    if (am->data)
        CHECK(model_holds(am->data, am->size, am->size, id));
    unsigned way = (unsigned)model_draw(4);
    if (way == 0)
        return WH_OK;
    if (way == 1 && model.kept_count < MODEL_KEPT) {
        model.kept[model.kept_count] = am;
        model.kept_message[model.kept_count++] = id;
        return WH_PENDING;
    }
    recv_am(am, id, side, m->ep);
    return model_chance(50) ? WH_OK : WH_PENDING;
}

static void step_kept(void) {
    if (!model.kept_count)
        return;
    int id = model.kept_message[--model.kept_count];
    wh_am *am = model.kept[model.kept_count];
    const model_message *m = &model.messages[id];
    if (model_chance(50))
        recv_am(am, id, !m->side, m->ep);
    else
        wh_am_drop(am);
}

// ---- a program

static void on_lost(wh_endpoint *ep, wh_status why, void *arg) {
    (void)ep;
    for (int i = 0; i < MODEL_EPS; i++)
        for (int side = 0; side < 2; side++)
            if (arg == &model.eps[i].handle[side])
                model_told(side, i, why);
}

static void on_accept(wh_endpoint *ep, void *arg) {
    (void)arg;
    model.arrived = ep;
}

static void open_pair(void) {
    model_pair *p = &model.eps[model.ep_count];
    int side = (int)model_draw(2);
    *p = (model_pair){.troubled = false};
    model.arrived = NULL;
    CHECK_STATUS(kit_loop_open(model.loop, side, &p->handle[side]), WH_OK);
    model.ep_count++;
    for (int i = 0; i < ROUNDS_MAX && !model.arrived && !model.disconnected; i++) {
        kit_loop_tick(model.loop);
        progress(0, 1);
        progress(1, 1);
        if (wh_endpoint_status(p->handle[side]) == WH_EPEER)
            model.disconnected = true;
    }
    CHECK(model.arrived || model.disconnected);
    p->handle[!side] = model.arrived;
    for (int i = 0; i < 2; i++)
        if (p->handle[i])
            CHECK_STATUS(wh_endpoint_on_lost(p->handle[i], on_lost, &p->handle[i]), WH_OK);
}

static void make_network(void) {
    kit_loop_opts opts = {.seed = model.seed};
    // One choice per statement: compilers differ in the order of arguments, and a seed is to mean the same everywhere.
    opts.delay_max = (uint32_t)model_draw(3);
    opts.delay_max *= (uint32_t)model_draw(DELAY_MAX / 2 + 1);
    opts.window = 1 + (uint32_t)model_draw(40);
    opts.eager_limit = model_chance(50) ? 8192 : 600;
    opts.chunk_max = 200 + model_draw(model_chance(50) ? 70000 : 5000);  // less takes too long
    model.has_long = model.seed % 2;
    opts.long_limit = model.has_long ? opts.chunk_max : 0;
    opts.split = model_chance(50);
    opts.reorder = model_chance(25);
    if (model_chance(20)) {
        opts.drop_after = 5 + (uint32_t)model_draw(300);
        model.may_lose = true;
        opts.truncate = model_chance(50);
        model.faults = true;
    }
    model.loop = kit_loop_join(model.worker[0], model.worker[1], &opts);
    CHECK(model.loop);
}

static void make_workers(void) {
    static const char *const credits[] = {"credit=64K", "credit=256K"};
    static const char *const bounds[] = {"announce_max=2", "announce_max=16", "announce_max=65536"};
    const char *credit = credits[model_draw(2)], *bound = bounds[model_draw(3)];
    const char *options[] = {credit, bound, "close_timeout=1h", NULL};
    CHECK_STATUS(wh_context_create(options, &model.ctx), WH_OK);
    for (int side = 0; side < 2; side++) {
        CHECK_STATUS(wh_worker_create(model.ctx,
                                      WH_WORKER_OPTS(.mode = WH_PROGRESS_SPIN, .accept = on_accept),
                                      &model.worker[side]),
                     WH_OK);
        CHECK_STATUS(wh_worker_set_am(model.worker[side], 1, on_am, &model.worker[side]), WH_OK);
    }
}

static void step(void) {
    int side = (int)model_draw(2), ep = (int)model_draw((uint64_t)model.ep_count);
    uint64_t what = model_draw(100);
    if (model.closes && model_chance(1))
        step_close(side, ep);
    else if (model_chance(5))
        (void)memory_step();
    else if (model_chance(2))
        (void)step_taken();
    else if (what < 22)
        step_send(side, ep, TAG);
    else if (what < 30)
        step_send(side, ep, OBJECT);
    else if (what < 36)
        step_send(side, ep, AM);
    else if (what < 58)
        step_recv(side, ep);
    else if (what < 63)
        step_cancel();
    else if (what < 65)
        step_flush(side, ep);
    else if (what < 67)
        step_take(side, ep);
    else if (what < 69)
        step_kept();
    else if (what < 90)
        progress(side, 1 + (unsigned)model_draw(3));
    else if (what < 98)
        kit_loop_tick(model.loop);
    else if (model.faults && what == 98)
        model_abort(side, ep);
    else if (model.faults && model_chance(20)) {
        SAY("the connection is lost\n");
        model.disconnected = true;
        kit_loop_disconnect(model.loop);
    }
}

// settle progresses until nothing moves for longer than any record is under way.  Handlers may keep messages all the while.
static void settle(void) {
    int quiet = 0;
    for (int i = 0; quiet <= DELAY_MAX; i++) {
        if (i == ROUNDS_MAX)
            proc_fail(__FILE__, __LINE__, "the workers do not come to rest");
        while (model.kept_count)
            step_kept();
        while (memory_step() || step_taken()) {
        }
        kit_loop_tick(model.loop);
        unsigned events = wh_worker_progress(model.worker[0]) + wh_worker_progress(model.worker[1]);
        quiet = events ? 0 : quiet + 1;
    }
}

// note_loss finds out whether the network has lost the connection by itself.
static void note_loss(void) {
    for (int i = 0; i < model.ep_count; i++)
        for (int side = 0; side < 2; side++)
            if (model.eps[i].handle[side] &&
                wh_endpoint_status(model.eps[i].handle[side]) == WH_EPEER)
                model.disconnected = model.disconnected || !model.eps[i].troubled;
}

// fetch_given_back receives what cancelled receives have given back, which holds a place of those that may be announced.
static void fetch_given_back(const model_message *behind) {
    for (int i = 0; i < model.message_count; i++) {
        const model_message *m = &model.messages[i];
        if (m->refused && !m->received && m->ep == behind->ep && m->side == behind->side)
            (void)recv_with(!m->side, m->ep, m->kind, m->tag, WH_TAG_MASK_ALL, MODEL_ROOM);
    }
    settle();
}

// fetch_rest receives what has come and was not received, on endpoints to which nothing bad has happened.
static void fetch_rest(void) {
    for (int rounds = 0; rounds < 3 * MODEL_MESSAGES; rounds++) {
        settle();
        note_loss();
        const model_message *m = model_missing();
        if (!m)
            return;
        CHECK(m->kind != AM);  // they need no receive
        model_op *o = recv_with(!m->side, m->ep, m->kind, m->tag, WH_TAG_MASK_ALL, MODEL_ROOM);
        CHECK(o);
        settle();
        if (!o->ended)
            fetch_given_back(m);
        if (!o->ended && !m->received && !model.disconnected)
            proc_fail(__FILE__, __LINE__, "message %d has not arrived", (int)(m - model.messages));
    }
    CHECK(false);
}

static void cancel_rest(void) {
    for (int i = 0; i < model.op_count; i++) {
        model_op *o = &model.ops[i];
        if (o->ended || o->send)
            continue;
        o->cancelled = true;
        CHECK(o->req);
        wh_request_cancel(o->req);
    }
}

static void close_all(void) {
    for (int i = 0; i < model.ep_count; i++)
        for (int side = 0; side < 2; side++) {
            wh_endpoint *handle = model.eps[i].handle[side];
            model_op *o =
                handle && model.op_count < MODEL_OPS ? model_new_op(CLOSE, true, side, i) : NULL;
            if (!handle)
                continue;
            model.eps[i].handle[side] = NULL;
            model.eps[i].closed[side] = true;
            if (!o || (model.faults && model_chance(30))) {
                model.op_count -= o != NULL;
                model.eps[i].troubled = true;
                wh_endpoint_abort(handle);
                continue;
            }
            wh_op_opts opts;
            model_opts(o, 0, &opts);
            model_began(o, wh_endpoint_close(handle, &opts, &o->req));
        }
}

static void run_seed(uint64_t seed, bool verbose) {
    memset(&model, 0, sizeof(model));
    model.seed = model.rng = seed;
    model.verbose = verbose;
    model.faults = model_chance(30);
    model.closes = model_chance(40);
    proc_context("seed %llu", (unsigned long long)seed);
    make_workers();
    make_network();
    memory_begin();
    for (uint64_t i = 1 + model_draw(MODEL_EPS); i > 0 && !model.disconnected; i--)
        open_pair();
    for (uint64_t steps = 50 + model_draw(400); steps > 0; steps--)
        step();
    bool destroys = model_chance(15), early = destroys && model_chance(50);
    if (!early) {
        fetch_rest();
        model_check_order();
        cancel_rest();
    }
    if (!destroys) {
        settle();
        close_all();
        settle();
    } else {
        model.disconnected = model.destroyed = true;
    }
    wh_counters counters = {.size = sizeof(counters)};
    for (int side = 0; side < 2 && !destroys; side++) {
        CHECK_STATUS(wh_worker_counters(model.worker[side], &counters), WH_OK);
        if (counters.pending && model.verbose)
            wh_worker_dump(model.worker[side], stdout);
        CHECK_INT(counters.pending, 0);
        CHECK_INT(counters.endpoints, 0);
    }
    for (int side = 0; side < 2; side++)
        wh_worker_destroy(model.worker[side]);
    while (model.kept_count)
        wh_am_drop(model.kept[--model.kept_count]);
    while (model.taken_count)
        wh_message_drop(model.taken[--model.taken_count].msg);
    model_end();
    memory_end();
    for (int i = 0; i < model.ep_count; i++)
        for (int side = 0; side < 2; side++)
            wh_endpoint_abort(model.eps[i].handle[side]);
    kit_loop_free(model.loop);
    wh_context_destroy(model.ctx);
}

static void silent(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    if (model.verbose)
        printf("%s %s %s\n", level, id, text);
}

int main(int argc, char **argv) {
    uint64_t seeds = 2000, first = 1;
    bool given, verbose = false;
    uint64_t only = proc_seed(0, &given);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
            seeds = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--first") && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--verbose"))
            verbose = true;
    }
    wh_log_set_sink(silent, NULL);
    if (given) {
        first = only;
        seeds = 1;
    }
    uint64_t start_ms = proc_now_ms();
    for (uint64_t i = 0; i < seeds; i++) {
        proc_alarm(60);
        run_seed(first + i, verbose);
    }
    printf("%llu seeds from %llu, %.1f s\n", (unsigned long long)seeds, (unsigned long long)first,
           (double)(proc_now_ms() - start_ms) / 1000);
    return 0;
}
