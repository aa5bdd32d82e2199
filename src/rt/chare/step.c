// SPDX-License-Identifier: BSD-3-Clause
//
// Steps of load balancing: questions down the tree of PEs, answers up.
//
// The root is told when all elements have reached their sync point (reduce.c).  It asks for loads, then has elements moved: by a
// strategy that sees all of them, or by rounds of gossip.  A PE that has sent elements away answers when all of them have arrived, so
// that when the root has all answers, all moves are done.  Then all are resumed.
#include "rt/chare/step.h"
#include "base/alloc.h"
#include "base/log.h"
#include "rt/chare/reduce.h"
#include "rt/chare/why.h"

enum { SUM_SIZE = 40, STEP_SIZE = 64 };

static void next(whi_chares *c, whi_balance *b);

// ---- Answers.

static void send_up(whi_chares *c, whi_balance *b, int parent) {
    uint8_t *sum = whi_blob_add(&b->up, SUM_SIZE);
    if (!sum) {
        whi_balance_fail(c, b, WH_ENOMEM);
        return;
    }
    whi_writer to;
    whi_writer_init(&to, sum, SUM_SIZE);
    whi_writer_f64(&to, b->sum.total);
    whi_writer_f64(&to, b->sum.max);
    whi_writer_u64(&to, b->sum.elements);
    whi_writer_u64(&to, b->sum.fixed);
    whi_writer_u64(&to, b->sum.moved);
    whi_balance_tell(c, b, parent, WHI_BALANCE_ANSWER, b->up.data, b->up.size);
}

// answer answers, once everything is there that this PE waits for.
static void answer(whi_chares *c, whi_balance *b) {
    if (!b->busy || b->below || b->away || b->unheard)
        return;
    b->busy = false;
    int parent = whi_balance_parent(c, b);
    if (parent < 0)
        next(c, b);
    else
        send_up(c, b, parent);
}

// A sum comes behind the loads of elements.
static wh_status take_answer(whi_balance *b, const void *data, size_t size) {
    if (size < SUM_SIZE)
        return WH_EPROTOCOL;
    whi_reader from;
    whi_reader_init(&from, data, size);
    const void *loads = whi_reader_bytes(&from, size - SUM_SIZE);
    double total = whi_reader_f64(&from), max = whi_reader_f64(&from);
    void *to = whi_blob_add(&b->up, size - SUM_SIZE);
    if (!whi_is_load(total) || !whi_is_load(max) || !to)
        return to ? WH_EPROTOCOL : WH_ENOMEM;
    memcpy(to, loads, size - SUM_SIZE);
    b->sum.total += total;
    b->sum.max = max > b->sum.max ? max : b->sum.max;
    b->sum.elements += whi_reader_u64(&from);
    b->sum.fixed += whi_reader_u64(&from);
    b->sum.moved += whi_reader_u64(&from);
    b->below--;
    return WH_OK;
}

// ---- Questions.

// ask has this PE, and those below it, do something.
static void ask(whi_chares *c, whi_balance *b, whi_balance_what what, const void *data,
                size_t size) {
    int pes = c->pe->pes, root = whi_collection_root(c, b->in->def.id);
    b->asked = (uint8_t)what;
    b->busy = what != WHI_BALANCE_RESUME;
    b->below = b->busy ? whi_tree_children((c->pe->number - root + pes) % pes, pes) : 0;
    b->sum = (whi_balance_sum){.total = 0};
    b->up.size = 0;
    if (what == WHI_BALANCE_MOVES)
        whi_balance_tell_moves(c, b, data, size);
    else
        whi_balance_tell_children(c, b, data, size);
    wh_status st = whi_balance_do(c, b, data, size);
    if (st != WH_OK)
        whi_balance_fail(c, b, st);
    else
        answer(c, b);
}

// ---- The root.

static void ask_with_mean(whi_chares *c, whi_balance *b, whi_balance_what what) {
    uint8_t mean[8];
    whi_writer to;
    whi_writer_init(&to, mean, sizeof(mean));
    whi_writer_f64(&to, b->last.mean_before);
    ask(c, b, what, mean, sizeof(mean));
}

static void resume(whi_chares *c, whi_balance *b) {
    const wh_balance_step *s = &b->last;
    const uint64_t counts[] = {s->elements, s->fixed, s->moved};
    const double figures[] = {s->max_before, s->mean_before, s->max_after, s->mean_after,
                              (double)(whi_clock_ns() - b->began) * 1e-9};
    uint8_t bytes[STEP_SIZE];
    whi_writer to;
    whi_writer_init(&to, bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        whi_writer_u64(&to, counts[i]);
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
        whi_writer_f64(&to, figures[i]);
    ask(c, b, WHI_BALANCE_RESUME, bytes, sizeof(bytes));
}

static void decide(whi_chares *c, whi_balance *b) {
    whi_blob moves = {.data = NULL};
    wh_status st = whi_decide(c, b, &moves);
    if (st != WH_OK)
        whi_balance_fail(c, b, st);
    else if (moves.size)
        ask(c, b, WHI_BALANCE_MOVES, moves.data, moves.size);
    else
        resume(c, b);
    whi_blob_fini(&moves);
}

// warn_of_stones says once for each class, on the root, that its elements cannot move.
WHI_COLD static void warn_of_stones(whi_chares *c, const whi_balance *b) {
    whi_named *cls = whi_named_find(c, b->in->def.cls, WHI_NAMED_CLASS);
    if (cls->told || whi_balancer_kind_of(b->in->def.balance) == WHI_BALANCER_NONE)
        return;
    cls->told = true;
    whi_log(
        WHI_WARN, "W-CHARE-02",
        "%s is balanced, but all of its elements stay where they are: the class has no pack and "
        "unpack (wh_class)",
        whi_say_collection(c, b->in->def.id).text);
}

// have_loads goes on when all PEs have said how much there is to do.
static void have_loads(whi_chares *c, whi_balance *b) {
    double mean = b->sum.total / c->pe->pes;
    b->last = (wh_balance_step){.number = b->step,
                                .elements = b->sum.elements,
                                .fixed = b->sum.fixed,
                                .max_before = b->sum.max,
                                .mean_before = mean,
                                .max_after = b->sum.max,
                                .mean_after = mean};
    b->round = 0;
    if (!b->in->cls->cls.pack)
        warn_of_stones(c, b);
    switch (whi_balancer_kind_of(b->in->def.balance)) {
    case WHI_BALANCER_NONE: resume(c, b); break;
    case WHI_BALANCER_DISTRIBUTED:
        if (b->sum.max > mean * WHI_BALANCE_TOLERANCE)
            ask_with_mean(c, b, WHI_BALANCE_GOSSIP);
        else
            resume(c, b);
        break;
    default: decide(c, b);
    }
}

// next goes on when all PEs have answered.
static void next(whi_chares *c, whi_balance *b) {
    switch ((whi_balance_what)b->asked) {
    case WHI_BALANCE_LOADS: have_loads(c, b); break;
    case WHI_BALANCE_GOSSIP:
        if (++b->round < (uint32_t)whi_gossip_rounds(c->pe->pes))
            ask_with_mean(c, b, WHI_BALANCE_GOSSIP);
        else
            ask_with_mean(c, b, WHI_BALANCE_TRANSFER);
        break;
    case WHI_BALANCE_MOVES:
    case WHI_BALANCE_TRANSFER:
        b->last.moved = b->sum.moved;
        b->last.fixed += b->sum.fixed;  // that were found not to be packed
        if (b->sum.moved)
            ask(c, b, WHI_BALANCE_AFTER, NULL, 0);
        else
            resume(c, b);
        break;
    case WHI_BALANCE_AFTER:
        b->last.max_after = b->sum.max;
        b->last.mean_after = b->sum.total / c->pe->pes;
        resume(c, b);
        break;
    default: break;
    }
}

// All elements are told of it in the scheduler's turn: now an entry may be running.
static void reached(whi_chares *c, whi_collection *in, uint64_t step) {
    whi_balance *b = whi_balance_of(c, in);
    if (!b) {
        whi_pe_fail(c->pe, "there is no memory to balance %s",
                    whi_say_collection(c, in->def.id).text);
        return;
    }
    b->step = step;
    b->began = whi_clock_ns();
    whi_balance_tell(c, b, c->pe->number, WHI_BALANCE_START, NULL, 0);
}

// ---- What comes.

// A question comes from the PE above, and the first one of a step begins it.
static wh_status take_question(whi_chares *c, whi_balance *b, const whi_head *head,
                               const wh_pe_msg *msg) {
    whi_balance_what what = (whi_balance_what)head->balance.what;
    if (what == WHI_BALANCE_LOADS && head->balance.step == b->step + 1)
        b->step++;
    else if (what == WHI_BALANCE_LOADS)
        return WH_EPROTOCOL;
    if (msg->source != whi_balance_parent(c, b) || head->balance.step != b->step || b->busy)
        return WH_EPROTOCOL;
    ask(c, b, what, msg->data, msg->size);
    return WH_OK;
}

static wh_status take(whi_chares *c, whi_balance *b, const whi_head *head, const wh_pe_msg *msg) {
    wh_status st = WH_OK;
    whi_balance_what what = (whi_balance_what)head->balance.what;
    if (what >= WHI_BALANCE_LOADS && what <= WHI_BALANCE_RESUME)
        return take_question(c, b, head, msg);
    if (head->balance.step != b->step)
        return WH_EPROTOCOL;
    switch (what) {
    case WHI_BALANCE_START:
        if (msg->source != c->pe->number || b->busy || b->resumed + 1 != b->step)
            return WH_EPROTOCOL;
        ask(c, b, WHI_BALANCE_LOADS, NULL, 0);
        return WH_OK;
    case WHI_BALANCE_ANSWER:
        st = b->below ? take_answer(b, msg->data, msg->size) : WH_EPROTOCOL;
        break;
    case WHI_BALANCE_ARRIVED:
        if (!b->away)
            return WH_EPROTOCOL;
        b->away--;
        break;
    case WHI_BALANCE_KNOWN:
        st = whi_balance_hear(b, msg->data, msg->size, c->pe->pes);
        whi_balance_tell(c, b, msg->source, WHI_BALANCE_HEARD, NULL, 0);
        break;
    case WHI_BALANCE_HEARD:
        if (!b->unheard)
            return WH_EPROTOCOL;
        b->unheard--;
        break;
    default: return WH_EPROTOCOL;
    }
    if (st == WH_OK)
        answer(c, b);
    return st;
}

void whi_balance_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg) {
    whi_collection *in = whi_collection_find(c, head->balance.collection);
    whi_balance *b = in && in->known && in->def.balance ? whi_balance_of(c, in) : NULL;
    wh_status st = b ? take(c, b, head, msg) : WH_EPROTOCOL;
    if (st != WH_OK)
        whi_pe_fail(c->pe, "a message about balancing %s that PE %d has sent cannot be taken: %s",
                    whi_say_collection(c, head->balance.collection).text, msg->source,
                    wh_status_text(st));
}

// came: an element has moved here.
static void came(whi_chares *c, whi_element *element, int source, bool sent) {
    whi_balance *b = element->collection->balance;
    if (b && sent)
        whi_balance_tell(c, b, source, WHI_BALANCE_ARRIVED, NULL, 0);
    if (b)
        whi_sync_resume(c, b, element);
}

void whi_balance_init(whi_chares *c) {
    c->balance = (whi_balance_ops){.reached = reached, .came = came, .free = whi_balance_free};
}

// ---- In print.

static void end_line(const whi_collection *in, bool begun, FILE *file) {
    if (!begun)
        return;
    whi_collection_print(in, file);
    fputc('\n', file);
}

static void dump_one(const whi_collection *in, whi_dump *to) {
    FILE *file = to->file;
    const whi_balance *b = in->balance;
    uint64_t here = 0, there, members;
    for (const whi_list *node = in->elements.next; node != &in->elements; node = node->next)
        here += whi_container_of(node, whi_element, link)->sync->waits;
    bool missing = in->syncs && whi_reductions_missing(in->syncs, &there, &members);
    bool busy = b && b->busy;
    to->waits = to->waits || here || missing;
    to->busy = to->busy || busy;
    if (here)
        fprintf(file,
                "  %llu of %zu elements here wait at their sync point: ", (unsigned long long)here,
                in->count);
    end_line(in, here, file);
    if (missing)
        fprintf(file,
                "  %llu of %llu elements are at sync point %llu, %llu have not reached it%s: ",
                (unsigned long long)there, (unsigned long long)members,
                (unsigned long long)in->syncs->next + 1, (unsigned long long)(members - there),
                in->syncs->awaited ? ", and elements are still inserted" : "");
    end_line(in, missing, file);
    if (busy)
        fprintf(file,
                "  step %llu of balancing waits for %d PEs below, %zu elements to arrive, "
                "%zu receipts: ",
                (unsigned long long)b->step, b->below, b->away, b->unheard);
    end_line(in, busy, file);
}

void whi_balance_dump(const whi_chares *c, whi_dump *to) {
    size_t cursor = 0;
    uint64_t id;
    const whi_collection *in;
    while ((in = whi_hash_next(&c->collections, &cursor, &id)))
        if (in->known && in->def.balance)
            dump_one(in, to);
}
