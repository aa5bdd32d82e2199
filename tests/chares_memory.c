// SPDX-License-Identifier: BSD-3-Clause
//
// How much memory a chare needs: makes an array of them in one process, calls each, and prints bytes per chare.
//
//     chares-memory [COUNT] [BYTES]     (1000000, and 16 of state)
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include <wherry/wherry.h>

static long count = 1000000, state = 16, called;
static size_t before, most;

static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void atom_touch(wh_chare *self, const wh_call *call) {
    (void)call;
    char *byte = self->state;
    *byte = 1;
    if (++called < count)
        return;
    size_t after = in_use();
    printf("%ld chares of %ld bytes of state: %.0f bytes each\n", count, state,
           (double)(after - before) / (double)count);
    wh_pe_exit(self->pe, after - before <= most * (size_t)count ? 0 : 1);
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    const wh_entry entry = {.name = "touch", .fn = atom_touch};
    const wh_class cls = {.size = sizeof(cls),
                          .name = "atom",
                          .state = (size_t)state,
                          .entries = &entry,
                          .entry_count = 1,
                          .entry_size = sizeof(entry)};
    wh_proxy atoms;
    wh_status st = wh_class_register(pe, &cls);
    before = in_use();
    if (st == WH_OK)
        st = wh_array_create(pe, "atom", WH_ARRAY_OPTS(.dims = 1, .shape = {(int32_t)count}), NULL,
                             0, &atoms);
    if (st == WH_OK)
        st = wh_chare_send(pe, atoms, 0, NULL, 0, NULL);
    if (st != WH_OK)
        wh_pe_exit(pe, 1);
}

int main(int argc, char **argv) {
    wh_rt *rt;
    int status = 1;
    count = argc > 1 ? atol(argv[1]) : count;
    state = argc > 2 ? atol(argv[2]) : state;
    most = (size_t)state + 400;
    if (count < 1 || count > INT32_MAX || state < 1 ||
        wh_rt_init(WH_RT_OPTS(.pes = 1), &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
