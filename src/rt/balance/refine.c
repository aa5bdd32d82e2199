// SPDX-License-Identifier: BSD-3-Clause
//
// Refining: from the PE that has most to the PE that has least, one element at a time, the one that makes the larger of the two
// smallest.  An element of load x moves only if 0 < x < the difference of the two, so both are below the former maximum
// afterwards.  What has moved stays, so there are at most as many moves as elements.
#include "base/alloc.h"
#include "rt/balance/strategy.h"

typedef struct table {
    double *load;   // by PE
    size_t *first;  // by PE, and one more: where its elements lie in `order`
    size_t *order;  // elements by the PE where they were
    int pes;
} table;

static void table_fini(table *t) {
    whi_free(t->load);
    whi_free(t->first);
    whi_free(t->order);
}

static bool table_init(table *t, const wh_balance_element *elements, size_t count, int pes) {
    *t = (table){.load = whi_calloc((size_t)pes, sizeof(*t->load)),
                 .first = whi_calloc((size_t)pes + 2, sizeof(*t->first)),
                 .order = whi_calloc(count + 1, sizeof(*t->order)),
                 .pes = pes};
    if (!t->load || !t->first || !t->order)
        return false;
    for (size_t i = 0; i < count; i++) {
        t->load[elements[i].pe] += elements[i].load;
        t->first[elements[i].pe + 2]++;
    }
    for (int i = 2; i <= pes; i++)
        t->first[i] += t->first[i - 1];
    for (size_t i = 0; i < count; i++)
        t->order[t->first[elements[i].pe + 1]++] = i;
    return true;
}

static int heaviest(const table *t) {
    int at = 0;
    for (int i = 1; i < t->pes; i++)
        at = t->load[i] > t->load[at] ? i : at;
    return at;
}

static int lightest(const table *t) {
    int at = 0;
    for (int i = 1; i < t->pes; i++)
        at = t->load[i] < t->load[at] ? i : at;
    return at;
}

// choose returns the element of PE `from` whose move to `into` is best, or `none`.
static size_t choose(const table *t, const wh_balance_element *elements, const int32_t *to,
                     int from, int into, size_t none) {
    double gap = t->load[from] - t->load[into], best = gap;
    size_t found = none;
    for (size_t i = t->first[from]; i < t->first[from + 1]; i++) {
        const wh_balance_element *e = &elements[t->order[i]];
        double larger = e->load > gap - e->load ? e->load : gap - e->load;  // above load[into]
        if (e->fixed || to[t->order[i]] != e->pe || e->load <= 0 || larger >= best)
            continue;
        best = larger;
        found = t->order[i];
    }
    return found;
}

wh_status whi_balance_refine(const wh_balance_element *elements, size_t count, int pes, int32_t *to,
                             void *arg) {
    (void)arg;
    table t;
    bool ok = table_init(&t, elements, count, pes);
    double mean = 0;
    for (int i = 0; ok && i < pes; i++)
        mean += t.load[i] / pes;
    while (ok) {
        int from = heaviest(&t), into = lightest(&t);
        size_t moved = t.load[from] > mean * WHI_BALANCE_TOLERANCE
                           ? choose(&t, elements, to, from, into, count)
                           : count;
        if (moved == count)
            break;
        to[moved] = into;
        t.load[from] -= elements[moved].load;
        t.load[into] += elements[moved].load;
    }
    table_fini(&t);
    return ok ? WH_OK : WH_ENOMEM;
}
