// SPDX-License-Identifier: BSD-3-Clause
//
// Greedy balancing: the largest element first, each on the PE that has least so far (R. L. Graham 1969, "longest processing time
// first").  PEs lie in a binary heap by their loads; the place of each in the heap is known, so that an element can stay where
// it is when no PE has less.
#include <stdlib.h>

#include "base/alloc.h"
#include "rt/balance/strategy.h"

typedef struct heap {
    double *load;  // by PE
    int *pe;       // by place in the heap
    int *place;    // by PE
    int count;
} heap;

static bool is_less(const heap *h, int a, int b) {
    return h->load[a] < h->load[b] || (h->load[a] == h->load[b] && a < b);
}

static void swap(heap *h, int i, int j) {
    int a = h->pe[i], b = h->pe[j];
    h->pe[i] = b;
    h->pe[j] = a;
    h->place[a] = j;
    h->place[b] = i;
}

// sink puts a PE whose load has grown into its place.
static void sink(heap *h, int at) {
    for (;;) {
        int least = at, child = 2 * at + 1;
        for (int i = child; i < child + 2 && i < h->count; i++)
            if (is_less(h, h->pe[i], h->pe[least]))
                least = i;
        if (least == at)
            return;
        swap(h, at, least);
        at = least;
    }
}

static void add(heap *h, int pe, double load) {
    h->load[pe] += load;
    sink(h, h->place[pe]);
}

static bool heap_init(heap *h, int pes) {
    size_t count = (size_t)pes;
    *h = (heap){.load = whi_calloc(count, sizeof(*h->load)),
                .pe = whi_calloc(count, sizeof(*h->pe)),
                .place = whi_calloc(count, sizeof(*h->place)),
                .count = pes};
    if (!h->load || !h->pe || !h->place)
        return false;
    for (int i = 0; i < pes; i++)
        h->pe[i] = h->place[i] = i;
    return true;
}

static void heap_fini(heap *h) {
    whi_free(h->load);
    whi_free(h->pe);
    whi_free(h->place);
}

typedef struct item {
    double load;
    size_t index;
} item;

static int larger_first(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->load != y->load)
        return x->load > y->load ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

// sort_free lists the elements that may move, and puts the others on their PEs.
static size_t sort_free(heap *h, const wh_balance_element *elements, size_t count, item *items) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (elements[i].fixed)
            add(h, elements[i].pe, elements[i].load);
        else
            items[used++] = (item){elements[i].load, i};
    }
    qsort(items, used, sizeof(*items), larger_first);
    return used;
}

wh_status whi_balance_greedy(const wh_balance_element *elements, size_t count, int pes, int32_t *to,
                             void *arg) {
    (void)arg;
    heap h;
    item *items = whi_calloc(count + 1, sizeof(*items));
    bool ok = heap_init(&h, pes) && items;
    size_t used = ok ? sort_free(&h, elements, count, items) : 0;
    for (size_t i = 0; i < used; i++) {
        const wh_balance_element *e = &elements[items[i].index];
        int least = h.load[e->pe] <= h.load[h.pe[0]] ? e->pe : h.pe[0];
        to[items[i].index] = least;
        add(&h, least, e->load);
    }
    heap_fini(&h);
    whi_free(items);
    return ok ? WH_OK : WH_ENOMEM;
}
