// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE has to do and what it waits for, in print.
#include "rt/pe/pe.h"

enum { IDS_MAX = 16 };  // kinds of messages that are told apart

typedef struct count {
    uint16_t id;
    whi_words words;
    size_t messages;
} count;

typedef struct counts {
    count of[IDS_MAX];
    int used;
} counts;

static whi_words words_of(const wh_pe *pe, const whi_msg *msg) {
    const whi_floor *floor = msg->above ? &pe->floors[msg->floor] : NULL;
    if (floor && floor->name && floor->state)
        return floor->name(floor->state, msg);
    return (whi_words){.name = NULL};
}

static void count_one(counts *c, uint16_t id, whi_words words) {
    int at = 0;
    while (at < c->used && (c->of[at].id != id || c->of[at].words.name != words.name ||
                            c->of[at].words.part != words.part))
        at++;
    if (at == IDS_MAX)
        return;
    c->used += at == c->used;
    c->of[at].id = id;
    c->of[at].words = words;
    c->of[at].messages++;
}

static void print_kind(const count *of, FILE *file) {
    if (of->words.name)
        fprintf(file, "%s%s%s", of->words.name, of->words.part ? "." : "",
                of->words.part ? of->words.part : "");
    else if (of->id >= WHI_PE_CHARES)
        fprintf(file, "chares");
    else
        fprintf(file, "handler %u", of->id);
}

static void dump_messages(const wh_pe *pe, whi_dump *to) {
    FILE *file = to->file;
    counts c = {.used = 0};
    for (const whi_queue_node *node = pe->sched.usual.first; node; node = node->next) {
        const whi_msg *msg = whi_container_of(node, whi_msg, link);
        count_one(&c, msg->pub.handler, words_of(pe, msg));
    }
    fprintf(file, "  messages to handle: %zu", pe->sched.count);
    size_t others = pe->sched.count;
    for (int i = 0; i < c.used; i++) {
        fprintf(file, "%s%zu for ", i ? ", " : " (", c.of[i].messages);
        print_kind(&c.of[i], file);
        others -= c.of[i].messages;
    }
    if (others)
        fprintf(file, "%s%zu for others or of other priorities", c.used ? ", " : " (", others);
    fprintf(file, "%s\n", pe->sched.count ? ")" : "");
    to->busy = to->busy || pe->sched.count;
}

static void dump_end(const wh_pe *pe, whi_dump *to) {
    FILE *file = to->file;
    static const char *const states[] = {
        [WHI_END_ASKED] = "asked for, and PE 0 has not answered",
        [WHI_END_STOPPED] = "stopped, and waits for others",
        [WHI_END_GONE] = "gone",
    };
    if (pe->exit.state == WHI_END_NONE)
        return;
    to->busy = true;
    fprintf(file, "  end of the job, status %d: %s", pe->exit.status, states[pe->exit.state]);
    for (int i = 0; i < WHI_TREE_ARITY; i++)
        if (pe->exit.missing >> i & 1)
            fprintf(file, ", PE %d has not answered", whi_tree_first_child(pe->number) + i);
    fputc('\n', file);
}

static void dump_quiet(const wh_pe *pe, whi_dump *to) {
    FILE *file = to->file;
    const whi_quiet *q = &pe->quiet;
    size_t waiting = 0;
    for (const whi_queue_node *node = q->waiting.first; node; node = node->next)
        waiting++;
    fprintf(file, "  sent %llu messages, handled %llu", (unsigned long long)q->made,
            (unsigned long long)q->consumed);
    to->busy = to->busy || waiting;
    if (waiting)
        fprintf(file, ", functions that wait for quiescence: %zu", waiting);
    for (int i = 0; i < WHI_TREE_ARITY; i++)
        if (q->missing >> i & 1)
            fprintf(file, ", PE %d has not answered wave %llu",
                    whi_tree_first_child(pe->number) + i, (unsigned long long)q->wave);
    fputc('\n', file);
}

// Operations of the program's own, which the worker's dump tells of.
static bool has_operations(const wh_pe *pe) {
    wh_counters counters = {.size = sizeof(counters)};
    return wh_worker_counters(pe->worker, &counters) == WH_OK && counters.pending;
}

static void dump_program(const wh_pe *pe, whi_dump *to) {
    wh_dump_found found =
        pe->on_dump ? pe->on_dump(pe, to->file, pe->on_dump_arg) : WH_DUMP_NOTHING;
    to->busy = to->busy || found == WH_DUMP_GOES_ON;
    to->waits = to->waits || found == WH_DUMP_WAITS || has_operations(pe);
}

// dump_idle says what follows when nothing is left to do here.
static void dump_idle(const wh_pe *pe, const whi_dump *to) {
    if (to->busy)
        return;
    if (to->waits)
        fprintf(to->file, "  nothing to do, and nothing is under way here: what waits above waits "
                          "for other PEs, and where all PEs say so, for ever\n");
    else
        fprintf(to->file,
                "  nothing to do, nothing is under way here and nothing waits: if all PEs say so, "
                "was %s forgotten, which ends the job?\n",
                pe->exit_call ? pe->exit_call : "wh_pe_exit");
}

static void dump_head(const wh_pe *pe, whi_dump *to) {
    fprintf(to->file, "PE %d of %d", pe->number, pe->pes);
    to->busy = pe->handling;
    if (pe->handling) {
        count of = {.id = pe->handling->pub.handler, .words = words_of(pe, pe->handling)};
        fprintf(to->file, ", in ");
        print_kind(&of, to->file);
        fprintf(to->file, " of a message of PE %d", pe->handling->pub.source);
    }
    fputc('\n', to->file);
}

void wh_pe_on_dump(wh_pe *pe, wh_pe_dump_fn fn, void *arg, const char *exit_call) {
    pe->on_dump = fn;
    pe->on_dump_arg = arg;
    pe->exit_call = exit_call;
}

void wh_pe_dump(const wh_pe *pe, FILE *file) {
    if (!pe || !file)
        return;
    whi_dump to = {.file = file};
    dump_head(pe, &to);
    dump_messages(pe, &to);
    whi_pe_dump_gates(pe, &to);
    whi_pe_dump_threads(pe, &to);
    whi_pe_dump_timers(pe, &to);
    dump_quiet(pe, &to);
    whi_pe_dump_detectors(pe, &to);
    dump_end(pe, &to);
    for (int i = 0; i < WHI_FLOORS; i++)
        if (pe->floors[i].dump && pe->floors[i].state)
            pe->floors[i].dump(pe->floors[i].state, &to);
    whi_wire_dump(pe->wire, &to);
    dump_program(pe, &to);
    dump_idle(pe, &to);
}
