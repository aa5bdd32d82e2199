// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry send`: walks the paths twice, first for the total, then to send.
#include "bench/clock.h"
#include "bench/text.h"
#include "cli/cli.h"
#include "cli/sender.h"
#include "cli/walk.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "send"

static struct send_options {
    const char *secret, *secret_file, *lane;
    bool quiet;
} opt;

static const cli_option options[] = {
    {"--secret", "S", &opt.secret, "the receiver's secret (others can see it in the process list)"},
    {"--secret-file", "F", &opt.secret_file, "file that holds the receiver's secret"},
    {"--lane", "LANE", &opt.lane, "shm, stream, or auto (default)"},
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
    bool told;          // the first walk tells what is skipped, the second would repeat it
    sender *sender;
} send_job;

static void on_skip(const char *path, const char *why, bool failed, void *arg) {
    send_job *job = arg;
    if (job->told)
        return;
    cli_complain(COMMAND, CLI_FAILED, "%s %s: %s", failed ? "cannot send" : "left out", path, why);
    if (failed)
        job->problems++;
    else
        job->skipped++;
}

static bool count_entry(const transfer_entry *entry, const char *path, void *arg) {
    send_job *job = arg;
    (void)path;
    if (entry->head.kind == TRANSFER_FILE) {
        job->files++;
        job->bytes += entry->head.size;
    }
    return true;
}

static bool send_entry(const transfer_entry *entry, const char *path, void *arg) {
    return sender_entry(((send_job *)arg)->sender, entry, path);
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

static void say_sum(const send_job *job, const char *lanes, uint64_t start_ns) {
    char amount[32], rate[32];
    double seconds = (double)(bench_ns() - start_ns) / (double)BENCH_NS_PER_S;
    printf("sent %" PRIu64 " files, %s in %.2f s (%s/s) over %s\n", job->sender->files,
           bench_format_bytes((double)job->sender->bytes, amount, sizeof amount), seconds,
           bench_format_bytes((double)job->sender->bytes / seconds, rate, sizeof rate), lanes);
}

static int say_failure(const send_job *job, wh_endpoint *ep) {
    const sender *done = job->sender;
    const char *why = wh_endpoint_error(ep);
    bar_clear(&job->sender->bar);
    if (cli_interrupted)
        return cli_complain(COMMAND, CLI_INTERRUPTED,
                            "interrupted after %" PRIu64 " of %" PRIu64 " files", done->files,
                            job->files);
    if (!*why)
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
    uint64_t start = bench_ns();
    if (wh_endpoint_lanes(ep, lanes, sizeof lanes) != WH_OK)
        snprintf(lanes, sizeof lanes, "?");
    bool ready = sender_init(job->sender, ep, job->bytes);
    bool good = ready && walk_all(job, send_entry) && sender_end(job->sender);
    bar_clear(&job->sender->bar);
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
    if (code == CLI_OK && (job->problems || job->sender->problems))
        code = CLI_FAILED;
    return code;
}

static int connect_and_send(send_job *job, wh_worker *worker) {
    wh_endpoint *ep;
    wh_endpoint_opts ep_opts = {.size = sizeof ep_opts, .secret = opt.secret};
    wh_status status = wh_endpoint_connect_wait(worker, job->address, &ep_opts, &ep);
    if (status != WH_OK)
        return cli_complain(COMMAND, CLI_FAILED, "cannot connect to %s: %s", job->address,
                            wh_status_text(status));
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
    if (job->problems && !job->files)
        return cli_complain(COMMAND, CLI_FAILED, "there is nothing to send");
    wh_status status = cli_context_create(opt.lane, NULL, opt.secret_file, &ctx);
    if (status != WH_OK)
        return cli_complain(COMMAND, CLI_FAILED, "%s", wh_status_text(status));
    int code;
    status = wh_worker_create(ctx, NULL, &worker);
    if (status != WH_OK) {
        code = cli_complain(COMMAND, CLI_FAILED, "no worker: %s", wh_status_text(status));
    } else {
        code = connect_and_send(job, worker);
        wh_worker_destroy(worker);
    }
    wh_context_destroy(ctx);
    return code;
}

int cli_send(int argc, char **argv) {
    int rest;
    int code = cli_parse(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    if (rest < 2)
        return cli_complain(COMMAND, CLI_USAGE, "it takes at least one path and HOST:PORT");
    if (opt.secret && opt.secret_file)
        return cli_complain(COMMAND, CLI_USAGE, "--secret and --secret-file exclude each other");
    if (!strchr(argv[rest - 1], ':'))
        return cli_complain(COMMAND, CLI_USAGE, "'%s' is not HOST:PORT", argv[rest - 1]);
    send_job job = {.paths = argv, .count = rest - 1, .address = argv[rest - 1]};
    job.sender = malloc(sizeof *job.sender);
    if (!job.sender)
        return cli_complain(COMMAND, CLI_FAILED, "out of memory");
    code = run(&job);
    free(job.sender);
    return code;
}
