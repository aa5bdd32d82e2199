// SPDX-License-Identifier: BSD-3-Clause
//
// A job whose last processing element says hello to the first one: wherry run -n 4 rt_hello
#include <stdio.h>

#include <wherry/wherry.h>

static void on_hello(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    printf("PE %d: hello from %d\n", wh_pe_number(pe), msg->source);
    wh_pe_exit(pe, 0);
}

static void start(wh_pe *pe, void *arg) {  // on each PE
    (void)arg;
    int last = wh_rt_pes(wh_pe_rt(pe)) - 1;
    wh_status st = wh_pe_set_handler(pe, 1, on_hello, NULL);
    if (st == WH_OK && wh_pe_number(pe) == last)
        st = wh_pe_send(pe, 0, 1, NULL, 0, NULL, 0, 0);
    if (st != WH_OK)
        wh_pe_exit(pe, 1);
}

int main(void) {
    wh_rt *rt;
    int status = 1;
    if (wh_rt_init(NULL, &rt) != WH_OK)
        return 1;
    wh_status st = wh_rt_run(rt, start, NULL, &status);
    wh_rt_finish(rt);
    return st == WH_OK ? status : 1;
}
