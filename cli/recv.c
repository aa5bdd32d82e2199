// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry recv`: listens, and lets the receiver do the rest until enough senders have come or the user
// ends it.
#include "cli/cli.h"
#include "cli/receiver.h"
#include "cli/text.h"

#include <stdio.h>
#include <string.h>

#define COMMAND "recv"

static struct recv_options {
    const char *port, *host, *count, *secret, *secret_file, *lane, *timeout;
    bool once, any_user;
} opt;

static const cli_option options[] = {
    {"--port", "P", &opt.port, "port to listen on (default: a free one, which is printed)"},
    {"--host", "H", &opt.host, "address to listen at (default: 127.0.0.1; with a secret, all)"},
    {"--once", NULL, &opt.once, "end after one sender"},
    {"--count", "N", &opt.count, "end after N senders (default: go on until interrupted)"},
    {"--secret", "S", &opt.secret, "senders must know it (others can see it in the process list)"},
    {"--secret-file", "F", &opt.secret_file, "file that holds the secret"},
    {"--timeout", "TIME", &opt.timeout,
     "drop a sender that sends nothing for so long (default 300s; 0: never)"},
    {"--any-user", NULL, &opt.any_user, "other users of this host may send"},
    {"--lane", "LANE", &opt.lane, "shm, stream, or auto (default)"},
    {NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    COMMAND,
    "DIR [OPTIONS]",
    "Receives what `wherry send` sends into DIR, which is created if it does not exist.  A file\n"
    "appears when its SHA-256 is right, and replaces one of the same name.  Nothing is written\n"
    "outside of DIR.\n"
    "Exit code 1 when a sender was lost or something was refused.\n",
    options,
};

static int interrupted_code(const receiver *to, unsigned cut) {
    if (cut > 0)
        return CLI_INTERRUPTED;
    return to->failed ? CLI_FAILED : CLI_OK;  // the usual end of a receiver that goes on for ever
}

static int serve(receiver *to, wh_worker *worker, wh_listener *listener, uint64_t count) {
    char what[48];
    while (!cli_interrupted && (count == 0 || to->ended < count)) {
        wh_status status = wh_worker_wait(worker, 200);
        if (status != WH_OK && status != WH_ETIMEDOUT)
            return cli_complain(COMMAND, CLI_FAILED, "%s", wh_status_text(status));
        receiver_reap(to);
        snprintf(what, sizeof what, "%u senders", to->open);
        if (to->open > 0)
            bar_draw(&to->bar, to->bytes, what);
    }
    wh_listener_close(listener);
    unsigned cut = to->open;
    receiver_abort(to);
    for (int i = 0; to->open > 0 && i < 100; i++) {
        if (wh_worker_wait(worker, 20) == WH_OK || i > 0)
            receiver_reap(to);
    }
    if (cli_interrupted)
        return interrupted_code(to, cut);
    return to->failed ? CLI_FAILED : CLI_OK;
}

static int listen_and_serve(receiver *to, wh_worker *worker, const char *host, uint64_t port,
                            uint64_t count) {
    char address[300];
    wh_listener *listener;
    wh_listener_opts how = {.size = sizeof how, .secret = opt.secret, .any_user = opt.any_user};
    bool v6 = strchr(host, ':') && host[0] != '[';
    snprintf(address, sizeof address, v6 ? "[%.255s]:%d" : "%.255s:%d", host, (int)port);
    wh_status status = wh_listener_open(worker, address, &how, receiver_accept, to, &listener);
    if (status != WH_OK)
        return cli_complain(COMMAND, CLI_FAILED, "%s", cli_because(status));
    cli_release_log();
    cli_catch_interrupt(worker);  // before anybody can know that there is something to interrupt
    if (wh_listener_address(listener, address, sizeof address) == WH_OK)
        printf("listening at %s\n", address);
    fflush(stdout);
    bar_begin(&to->bar, 0);
    int code = serve(to, worker, listener, count);
    cli_catch_interrupt(NULL);
    bar_clear(&to->bar);
    return code;
}

static int run(const char *directory, const char *host, uint64_t port, uint64_t count,
               uint32_t timeout_ms) {
    receiver to = {.timeout_ms = timeout_ms};
    wh_context *ctx;
    wh_worker *worker;
    const char *why = store_open(&to.store, directory);
    if (why)
        return cli_complain(COMMAND, CLI_FAILED, "%s: %s", directory, why);
    unsigned swept = store_sweep(&to.store);
    if (swept > 0)
        fprintf(stderr, "wherry recv: removed %u part files that a killed receiver has left\n",
                swept);
    int code = CLI_FAILED;
    cli_hold_log();
    // The processors have files to read, hash and write: nobody spins.
    wh_status status = cli_context_create(opt.lane, "wait", opt.secret_file, "64K", &ctx);
    if (status != WH_OK) {
        code = cli_complain(COMMAND, CLI_FAILED, "%s", cli_because(status));
    } else {
        status = wh_worker_create(ctx, NULL, &worker);
        if (status != WH_OK) {
            cli_complain(COMMAND, CLI_FAILED, "no worker: %s", cli_because(status));
        } else {
            status = receiver_begin(&to, worker);
            code = status == WH_OK ? listen_and_serve(&to, worker, host, port, count)
                                   : cli_complain(COMMAND, CLI_FAILED, "%s", cli_because(status));
            receiver_stop(&to);
            wh_worker_destroy(worker);
            receiver_reap(&to);
        }
        wh_context_destroy(ctx);
    }
    cli_release_log();
    receiver_end(&to);
    store_close(&to.store);
    return code;
}

int cli_recv(int argc, char **argv) {
    uint64_t port = 0, count = 0;
    uint32_t timeout_ms = 300000;
    int rest;
    int code = cli_parse(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    if (rest != 1)
        return cli_complain(COMMAND, CLI_USAGE, "it takes one directory");
    if (opt.port && !cli_parse_uint(opt.port, 0, 65535, &port))
        return cli_complain(COMMAND, CLI_USAGE, "--port is a number up to 65535, not '%s'",
                            opt.port);
    count = opt.once;
    if (opt.count && (opt.once || !cli_parse_uint(opt.count, 1, UINT32_MAX, &count)))
        return cli_complain(COMMAND, CLI_USAGE,
                            "--count is a number of senders, and excludes --once");
    if (opt.timeout && !cli_parse_timeout(opt.timeout, &timeout_ms))
        return cli_complain(COMMAND, CLI_USAGE, "--timeout is a time such as 30s, or 0, not '%s'",
                            opt.timeout);
    code = cli_check_secret(COMMAND, opt.secret, opt.secret_file);
    if (code == CLI_GO_ON)
        code = cli_check_lane(COMMAND, opt.lane);
    if (code != CLI_GO_ON)
        return code;
    bool secret = opt.secret || opt.secret_file;
    const char *host = opt.host ? opt.host : secret ? "*" : "127.0.0.1";
    return run(argv[0], host, port, count, timeout_ms);
}
