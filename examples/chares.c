// SPDX-License-Identifier: BSD-3-Clause
//
// Chares that greet each other around a ring; start it with `wherry run -n 4 chares`.
#include <stdio.h>
#include <string.h>

#include <wherry/wherry.h>

typedef struct greeter {
    int greeted;
} greeter;

#define GREETER_ENTRIES(ENTRY) ENTRY(greeter, greet, 0)
WH_CLASS(greeter, GREETER_ENTRIES, .state = sizeof(greeter));

enum { GREETERS = 8 };

static void greeter_greet(wh_chare *self, const wh_call *call) {
    greeter *me = self->state;
    int next = self->proxy.index[0] + 1;
    me->greeted++;
    printf("greeter %d on PE %d: %s\n", self->proxy.index[0], wh_pe_number(self->pe),
           (const char *)call->args);
    fflush(stdout);
    if (next == GREETERS) {
        wh_pe_exit(self->pe, 0);
        return;
    }
    wh_proxy to = wh_proxy_at(self->proxy, 1, &next);
    if (wh_chare_send(self->pe, to, greeter_greet_entry, call->args, call->size, NULL) != WH_OK)
        wh_pe_exit(self->pe, 1);
}

static void start(wh_pe *pe, void *arg) {  // on each PE; what follows the classes, on PE 0
    (void)arg;
    wh_proxy greeters;
    wh_status st = wh_class_register(pe, &greeter_class);
    if (st == WH_OK && wh_pe_number(pe) == 0) {
        st = wh_array_create(pe, "greeter", WH_ARRAY_OPTS(.dims = 1, .shape = {GREETERS}), NULL, 0,
                             &greeters);
        if (st == WH_OK)
            st = wh_chare_send(pe, wh_proxy_at(greeters, 1, &(int32_t){0}), greeter_greet_entry,
                               "hello", strlen("hello") + 1, NULL);
    }
    if (st != WH_OK)
        wh_pe_exit(pe, 1);
}

int main(void) {
    wh_rt *rt;
    int status = 1;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    if (wh_rt_run(rt, start, NULL, &status) != WH_OK)
        status = 1;
    wh_rt_finish(rt);
    return status;
}
