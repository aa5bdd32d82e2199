// SPDX-License-Identifier: BSD-3-Clause
//
// A job that begins, hears once of each process, and ends; `wherry run -n 16 bench-hello`.  When all PEs are there, PE 0 asks
// them for their memory.
#include <stdlib.h>

#include <wherry/wherry.h>

#include "bench/charm/pss.h"

enum { THERE = 1, ASK, TELL };  // handlers

static struct {
    int there, told;
    long *kib;  // by PE
} heard;        // on PE 0

static void check(wh_pe *pe, wh_status status) {
    if (status != WH_OK)
        wh_pe_exit(pe, 1);
}

static void on_there(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)msg;
    (void)arg;
    int pes = wh_rt_pes(wh_pe_rt(pe));
    if (++heard.there < pes)
        return;
    heard.kib = calloc((size_t)pes, sizeof(long));
    if (!heard.kib) {
        wh_pe_exit(pe, 1);
        return;
    }
    for (int i = 0; i < pes; i++)
        check(pe, wh_pe_send(pe, i, ASK, NULL, 0, NULL, 0, 0));
}

static void on_ask(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    long kib = bench_pss_kib();
    check(pe, wh_pe_send(pe, msg->source, TELL, &kib, sizeof kib, NULL, 0, 0));
}

static void on_tell(wh_pe *pe, wh_pe_msg *msg, void *arg) {
    (void)arg;
    int pes = wh_rt_pes(wh_pe_rt(pe));
    heard.kib[msg->source] = *(const long *)msg->head;
    if (++heard.told < pes)
        return;
    bench_pss_print(heard.kib, pes);
    free(heard.kib);
    wh_pe_exit(pe, 0);
}

static void start(wh_pe *pe, void *arg) {
    (void)arg;
    check(pe, wh_pe_set_handler(pe, THERE, on_there, NULL));
    check(pe, wh_pe_set_handler(pe, ASK, on_ask, NULL));
    check(pe, wh_pe_set_handler(pe, TELL, on_tell, NULL));
    check(pe, wh_pe_send(pe, 0, THERE, NULL, 0, NULL, 0, 0));
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
