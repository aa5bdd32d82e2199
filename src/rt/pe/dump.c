// SPDX-License-Identifier: BSD-3-Clause
//
// What a PE has to do and what it waits for, in print.
#include "rt/pe/pe.h"

enum { IDS_MAX = 16 };  // handlers that are told apart

typedef struct count {
    uint16_t id;
    size_t messages;
} count;

typedef struct counts {
    count of[IDS_MAX];
    int used;
} counts;

static void count_one(counts *c, uint16_t id) {
    int at = 0;
    while (at < c->used && c->of[at].id != id)
        at++;
    if (at == IDS_MAX)
        return;
    c->used += at == c->used;
    c->of[at].id = id;
    c->of[at].messages++;
}

static void dump_messages(const wh_pe *pe, FILE *file) {
    counts c = {.used = 0};
    for (const whi_queue_node *node = pe->sched.usual.first; node; node = node->next)
        count_one(&c, whi_container_of(node, whi_msg, link)->pub.handler);
    fprintf(file, "  messages to handle: %zu", pe->sched.count);
    for (int i = 0; i < c.used; i++)
        fprintf(file, "%s%zu for handler %u", i ? ", " : " (", c.of[i].messages, c.of[i].id);
    size_t others = pe->sched.count;
    for (int i = 0; i < c.used; i++)
        others -= c.of[i].messages;
    if (others)
        fprintf(file, "%s%zu for others or of other priorities", c.used ? ", " : " (", others);
    fprintf(file, "%s\n", pe->sched.count ? ")" : "");
}

static void dump_threads(const wh_pe *pe, FILE *file) {
    size_t suspended = 0, ready = 0;
    whi_list_foreach(node, (whi_list *)(uintptr_t)&pe->suspended) suspended++;
    for (const whi_queue_node *node = pe->ready.first; node; node = node->next)
        ready++;
    fprintf(file, "  threads that wait: %zu, ready to run: %zu\n", suspended, ready);
}

static void dump_end(const wh_pe *pe, FILE *file) {
    static const char *const states[] = {
        [WHI_END_ASKED] = "asked for, and PE 0 has not answered",
        [WHI_END_STOPPED] = "stopped, and waits for others",
        [WHI_END_GONE] = "gone",
    };
    if (pe->exit.state == WHI_END_NONE)
        return;
    fprintf(file, "  end of the job, status %d: %s", pe->exit.status, states[pe->exit.state]);
    for (int i = 0; i < WHI_TREE_ARITY; i++)
        if (pe->exit.missing >> i & 1)
            fprintf(file, ", PE %d has not answered", whi_tree_first_child(pe->number) + i);
    fputc('\n', file);
}

static void dump_quiet(const wh_pe *pe, FILE *file) {
    const whi_quiet *q = &pe->quiet;
    size_t waiting = 0;
    for (const whi_queue_node *node = q->waiting.first; node; node = node->next)
        waiting++;
    fprintf(file, "  sent %llu messages, handled %llu", (unsigned long long)q->made,
            (unsigned long long)q->consumed);
    if (waiting)
        fprintf(file, ", functions that wait for quiescence: %zu", waiting);
    for (int i = 0; i < WHI_TREE_ARITY; i++)
        if (q->missing >> i & 1)
            fprintf(file, ", PE %d has not answered wave %llu",
                    whi_tree_first_child(pe->number) + i, (unsigned long long)q->wave);
    fputc('\n', file);
}

void wh_pe_dump(const wh_pe *pe, FILE *file) {
    if (!pe || !file)
        return;
    fprintf(file, "PE %d of %d", pe->number, pe->pes);
    if (pe->handling)
        fprintf(file, ", in handler %u of a message of PE %d", pe->handling->pub.handler,
                pe->handling->pub.source);
    fputc('\n', file);
    dump_messages(pe, file);
    whi_pe_dump_gates(pe, file);
    dump_threads(pe, file);
    whi_pe_dump_timers(pe, file);
    dump_quiet(pe, file);
    dump_end(pe, file);
    for (int i = 0; i < WHI_FLOORS; i++)
        if (pe->floors[i].dump && pe->floors[i].state)
            pe->floors[i].dump(pe->floors[i].state, file);
    whi_wire_dump(pe->wire, file);
}
