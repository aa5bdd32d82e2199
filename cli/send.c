// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry send`: walks the paths twice, first for the total, then to send.
#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/sender.h"
#include "cli/text.h"
#include "cli/walk.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "send"

static struct send_options {
    const char *secret, *secret_file, *lane, *timeout;
    bool quiet;
} opt;

static const cli_option options[] = {
    {"--secret", "S", &opt.secret, "the receiver's secret (others can see it in the process list)"},
    {"--secret-file", "F", &opt.secret_file, "file that holds the receiver's secret"},
    {"--lane", "LANE", &opt.lane, "shm, stream, or auto (default)"},
    {"--timeout", "TIME", &opt.timeout,
     "give up on a receiver that takes nothing this long (default 300s; 0: never)"},
    {"--quiet", NULL, &opt.quiet, "no summary"},
    {NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    COMMAND,
    "PATH... HOST:PORT [OPTIONS]",
    "Sends files and directories to a `wherry recv`.  Directories go with all that is in them; links\n"
    "stay links where they lead to something inside of what is sent, and are left out otherwise.\n"
    "The receiver checks a SHA-256 of every file before the file appears.\n",
    options,
};

// The paths of one call and what the first walk found.
typedef struct send_job {
    char **paths;
    int count;
    const char *address;
    uint64_t files, bytes;
    uint64_t skipped;   // because of what they are
    uint64_t problems;  // because they could not be read
    bool told;          // the first walk tells what is skipped, the second only what is new
    uint64_t again;     // problems of the second walk so far
    fold skips;         // what it has told
    uint32_t timeout_ms;
    sender *sender;
} send_job;

static void on_skip(const char *path, const char *why, bool failed, void *arg) {
    send_job *job = arg;
    if (job->told && (!failed || ++job->again <= job->problems))
        return;
    if (fold_show(&job->skips, why))
        cli_complain(COMMAND, CLI_FAILED, "%s %s: %s", failed ? "cannot send" : "left out", path,
                     why);
    if (failed)
        job->problems++;
    else
        job->skipped++;
}

static bool count_entry(const transfer_entry *entry, const walk_at *at, void *arg) {
    send_job *job = arg;
    (void)at;
    if (entry->head.kind == TRANSFER_FILE) {
        job->files++;
        job->bytes += entry->head.size;
    }
    return true;
}

static bool send_entry(const transfer_entry *entry, const walk_at *at, void *arg) {
    return sender_entry(((send_job *)arg)->sender, entry, at);
}

static bool walk_all(send_job *job, walk_fn visit) {
    walk all = {.visit = visit, .skip = on_skip, .arg = job};
    for (int i = 0; i < job->count; i++) {
        if (!walk_path(&all, job->paths[i]))
            return false;
    }
    return true;
}

// Two paths of one name would overwrite one another at the receiver.
static bool names_differ(const send_job *job) {
    char a[NAME_MAX + 1], b[NAME_MAX + 1];
    for (int i = 0; i < job->count; i++) {
        for (int j = 0; j < i; j++) {
            if (walk_base_name(job->paths[i], a, sizeof a) &&
                walk_base_name(job->paths[j], b, sizeof b) && strcmp(a, b) == 0) {
                cli_complain(COMMAND, CLI_USAGE, "%s and %s would both be called %s", job->paths[j],
                             job->paths[i], a);
                return false;
            }
        }
    }
    return true;
}

// What the receiver says that it has stored.
static void say_sum(const send_job *job, const char *lanes, uint64_t start_ns) {
    char amount[32], rate[32], of[32] = "";
    const sender *done = job->sender;
    double seconds = (double)(cli_ns() - start_ns) / (double)CLI_NS_PER_S;
    if (done->stored_files != job->files)
        snprintf(of, sizeof of, " of %" PRIu64, job->files);
    printf("sent %" PRIu64 "%s files, %s in %.2f s (%s/s) over %s", done->stored_files, of,
           cli_format_bytes((double)done->stored_bytes, amount, sizeof amount), seconds,
           cli_format_bytes((double)done->stored_bytes / seconds, rate, sizeof rate), lanes);
    if (done->refused)
        printf("; %" PRIu64 " refused", done->refused);
    printf("\n");
}

static int say_failure(const send_job *job, wh_endpoint *ep) {
    const sender *done = job->sender;
    const char *why = wh_endpoint_error(ep);
    bar_clear(&job->sender->bar);
    if (cli_interrupted)
        return cli_complain(COMMAND, CLI_INTERRUPTED,
                            "interrupted after %" PRIu64 " of %" PRIu64 " files", done->files,
                            job->files);
    if (*done->cut)
        return cli_complain(COMMAND, CLI_FAILED,
                            "the receiver at %s ended it after %" PRIu64 " of %" PRIu64
                            " files: %s",
                            job->address, done->files, job->files, done->cut);
    if (done->lost == WH_ETIMEDOUT && !*why)
        why = "it has taken nothing for longer than --timeout";
    else if (!*why)
        why = wh_status_text(done->lost);
    return cli_complain(COMMAND, CLI_FAILED,
                        "lost the receiver at %s after %" PRIu64 " of %" PRIu64 " files: %s",
                        job->address, done->files, job->files, why);
}

// The transfer itself, over a connected endpoint, which it closes.
static int transfer(send_job *job, wh_endpoint *ep) {
    char lanes[64] = "?";
    int code = CLI_OK;
    wh_worker *worker = wh_endpoint_worker(ep);
    uint64_t start = cli_ns();
    if (wh_endpoint_lanes(ep, lanes, sizeof lanes) != WH_OK)
        snprintf(lanes, sizeof lanes, "?");
    bool ready = sender_init(job->sender, ep, job->bytes, job->timeout_ms);
    bool good = ready && walk_all(job, send_entry) && sender_end(job->sender);
    bar_clear(&job->sender->bar);
    fold_sum(&job->sender->told, COMMAND);
    if (!ready)
        code = cli_complain(COMMAND, CLI_FAILED, "out of memory");
    else if (!good)
        code = say_failure(job, ep);
    else if (!opt.quiet)
        say_sum(job, lanes, start);
    if (!good)
        wh_endpoint_abort(ep);
    else if (wh_endpoint_close_wait(ep, 5000) != WH_OK)
        code = cli_complain(COMMAND, CLI_FAILED, "the receiver confirmed all but did not close");
    wh_worker_progress(worker);  // what the abort has cancelled ends while its buffers are there
    sender_fini(job->sender);
    if (code == CLI_OK &&
        (job->problems || job->sender->problems || job->sender->stored_files != job->sender->files))
        code = CLI_FAILED;
    return code;
}

static int connect_and_send(send_job *job, wh_worker *worker) {
    wh_endpoint *ep;
    wh_endpoint_opts ep_opts = {.size = sizeof ep_opts, .secret = opt.secret};
    wh_status status = wh_endpoint_connect_wait(worker, job->address, &ep_opts, &ep);
    if (status != WH_OK)
        return cli_complain(COMMAND, CLI_FAILED, "cannot connect to %s: %s", job->address,
                            cli_because(status));
    cli_release_log();
    cli_catch_interrupt(worker);
    int code = transfer(job, ep);
    cli_catch_interrupt(NULL);
    return code;
}

static int run(send_job *job) {
    wh_context *ctx;
    wh_worker *worker;
    if (!names_differ(job))
        return CLI_USAGE;
    walk_all(job, count_entry);
    job->told = true;
    fold_sum(&job->skips, COMMAND);
    if (job->problems && !job->files)
        return cli_complain(COMMAND, CLI_FAILED, "there is nothing to send");
    cli_hold_log();
    // The processors have files to read, hash and write: nobody spins.
    wh_status status = cli_context_create(opt.lane, "wait", opt.secret_file, NULL, &ctx);
    if (status != WH_OK)
        return cli_complain(COMMAND, CLI_FAILED, "%s", cli_because(status));
    int code;
    status = wh_worker_create(ctx, NULL, &worker);
    if (status != WH_OK) {
        code = cli_complain(COMMAND, CLI_FAILED, "no worker: %s", cli_because(status));
    } else {
        code = connect_and_send(job, worker);
        wh_worker_destroy(worker);
    }
    wh_context_destroy(ctx);
    cli_release_log();
    return code;
}

int cli_send(int argc, char **argv) {
    int rest;
    int code = cli_parse(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    if (rest < 2)
        return cli_complain(COMMAND, CLI_USAGE, "it takes at least one path and HOST:PORT");
    code = cli_check_secret(COMMAND, opt.secret, opt.secret_file);
    if (code == CLI_GO_ON)
        code = cli_check_lane(COMMAND, opt.lane);
    if (code == CLI_GO_ON)
        code = cli_check_address(COMMAND, argv[rest - 1]);
    if (code != CLI_GO_ON)
        return code;
    send_job job = {
        .paths = argv, .count = rest - 1, .address = argv[rest - 1], .timeout_ms = 300000};
    if (opt.timeout && !cli_parse_timeout(opt.timeout, &job.timeout_ms))
        return cli_complain(COMMAND, CLI_USAGE, "--timeout is a time such as 30s, or 0, not '%s'",
                            opt.timeout);
    job.sender = malloc(sizeof *job.sender);
    if (!job.sender)
        return cli_complain(COMMAND, CLI_FAILED, "out of memory");
    code = run(&job);
    free(job.sender);
    return code;
}
