// SPDX-License-Identifier: BSD-3-Clause
//
// What every subcommand that talks to a peer needs: a context from its options, and a clean Ctrl-C.
#include "cli/cli.h"

#include <stdio.h>

wh_status cli_context_create(const char *lane, const char *mode, const char *secret_file,
                             wh_context **ctx) {
    const char *keys[] = {"lanes", "progress", "secret_file"};
    const char *values[] = {lane, mode, secret_file};
    char text[3][4200];
    const char *options[4];
    int count = 0;
    for (int i = 0; i < 3; i++) {
        if (!values[i])
            continue;
        int length = snprintf(text[i], sizeof text[i], "%s=%s", keys[i], values[i]);
        if (length >= (int)sizeof text[i])
            return WH_EINVAL;
        options[count++] = text[i];
    }
    options[count] = NULL;
    return wh_context_create(options, ctx);
}

volatile sig_atomic_t cli_interrupted;
static wh_worker *volatile waiting;  // the worker to wake

static void on_interrupt(int number) {
    cli_interrupted = number;
    if (waiting)
        wh_worker_wake(waiting);
}

void cli_catch_interrupt(wh_worker *worker) {
    struct sigaction action = {.sa_handler = worker ? on_interrupt : SIG_DFL,
                               .sa_flags = (int)SA_RESETHAND};
    waiting = worker;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
