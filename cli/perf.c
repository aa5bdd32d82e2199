// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry perf`: reads the options, finds the other end (a process of its own, or another host's),
// measures, reports.
//
// The other end on this host is this program again with --listen, on a core of its own.
#include "cli/perf.h"

#include "bench/child.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "bench/plot.h"
#include "bench/report.h"
#include "bench/text.h"
#include "cli/cli.h"
#include "cli/text.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define COMMAND "perf"
#define PATH_VARIABLE "WHERRY_DEVICE_PATH"

// The options as written; NULL or false: not given.
static struct perf_options {
    const char *sizes, *lane, *mode, *metric, *reps, *seconds, *pin;
    const char *listen, *connect, *host, *secret, *secret_file, *ucx, *bells, *memory, *peers,
        *patience, *plot, *layout, *model, *count;
    bool raw, json, once, child;
} opt;

static const cli_option options[] = {
    {"--sizes", "LIST", &opt.sizes, "message sizes (default 8,1K,64K,1M,64M)"},
    {"--metric", "LIST", &opt.metric,
     "of latency,bandwidth,bidir,rate (default: those that suit each size)"},
    {"--lane", "LANE", &opt.lane, "shm, stream, ucx, or auto (default)"},
    {"--mode", "MODE", &opt.mode, "progress: spin (default), wait or adaptive"},
    {"--reps", "N", &opt.reps, "repetitions (default 5)"},
    {"--time", "SECONDS", &opt.seconds, "time for all repetitions of a cell (default 0.3s)"},
    {"--pin", "A,B", &opt.pin,
     "cores of the two processes, or none (default: two of those allowed)"},
    {"--raw", NULL, &opt.raw, "also measure ucx_perftest, a bare socket, or bare eventfds"},
    {"--ucx", "DIR", &opt.ucx,
     "the UCX of an unpacked libucx wheel: its ucx_perftest, and for the lane"},
    {"--peers", "DIR", &opt.peers,
     "also measure the MPIs that bench/peers/make.py has put into DIR"},
    {"--patience", "SECONDS", &opt.patience,
     "that a run of theirs may take longer than expected (default 10s)"},
    {"--layout", "LIST", &opt.layout,
     "dense (default), vector[:8:16], subarray, struct, indexed, transposed"},
    {"--memory", "LIST", &opt.memory,
     "of messages: host (default), sim, cuda, cuda-staged, managed; alloc, user"},
    {"--plot", "FILE", &opt.plot, "draw latency and bandwidth over size as SVG"},
    {"--model", "LIST", &opt.model,
     "the runtime: of engine, message, entry, buffer, channel, chares"},
    {"--count", "N", &opt.count, "with --model: chares to make (default 1000000)"},
    {"--listen", "PORT", &opt.listen, "be the other end for --connect, until interrupted"},
    {"--once", NULL, &opt.once, "with --listen: end after the first session"},
    {"--host", "H", &opt.host,
     "with --listen: the address (default: 127.0.0.1; with a secret here, all)"},
    {"--secret", "S", &opt.secret, "of both ends (others can see it in the process list)"},
    {"--secret-file", "F", &opt.secret_file, "file that holds the secret"},
    {"--connect", "HOST:PORT", &opt.connect, "measure to the other end there"},
    {"--json", NULL, &opt.json, "a list of rows instead of a table"},
    {"--child", NULL, &opt.child, NULL},     // the other end that perf starts itself
    {"--bells", "FD,FD", &opt.bells, NULL},  // eventfds that it inherits
    {NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    COMMAND,
    "[tag|object|am|put|get|atomic]...|post [OPTIONS]",
    "Measures between two processes: on this host it starts both, over a network one runs with\n"
    "--listen and the other with --connect.  Latency is half of a round trip.  All programs of\n"
    "a cell take turns, so that their ratio (Wherry / raw) is good on a noisy machine too.\n"
    "post: hand-overs between two threads of this process, with --metric, --mode, --reps,\n"
    "--time, --pin and --json only.\n"
    "--model: messages of the runtime between two processes of a job, which it starts.\n",
    options,
};

// All that a run of this end needs.  Large, so it is not on the stack.
typedef struct perf_run {
    bench_plan plan;
    bench_machine machine;
    bench_ucx ucx;
    bench_peer peers[BENCH_PEERS_MAX];
    bench_child child;  // pid 0: the other end is not ours
    bench_bells bells;
    int cores[2];
    char lane[32];   // the one really in use
    char host[256];  // of bare sockets
    char address[300];
    bench_session session;
    perf_memories memories;
    bench_row *rows;  // of all kinds of memory
    size_t row_count;
} perf_run;

// The host of HOST:PORT, without the brackets of IPv6.
static void split_address(perf_run *run) {
    const char *colon = strrchr(opt.connect, ':');
    snprintf(run->address, sizeof run->address, "%s", opt.connect);
    bool bracket = opt.connect[0] == '[' && colon[-1] == ']';
    snprintf(run->host, sizeof run->host, "%.*s", (int)(colon - opt.connect) - 2 * bracket,
             opt.connect + bracket);
    run->bells.fd[0] = run->bells.fd[1] = -1;
}

static bool parse_plan(perf_run *run, char **words, int count, bench_error *error) {
    bench_plan *plan = &run->plan;
    uint64_t reps = 5;
    plan->seconds = 0.3;
    plan->patience = 10;
    plan->mode = opt.mode ? opt.mode : "spin";
    if (cli_one_of("spin|wait|adaptive", plan->mode) < 0)
        return bench_fail(error, "--mode is spin, wait or adaptive, not '%s'", plan->mode);
    if (opt.reps && !cli_parse_uint(opt.reps, 1, BENCH_REPS_MAX, &reps))
        return bench_fail(error, "--reps is a number from 1 to %d", BENCH_REPS_MAX);
    if (opt.seconds && !cli_parse_seconds(opt.seconds, &plan->seconds))
        return bench_fail(error, "--time is a time such as 0.3s, not '%s'", opt.seconds);
    if (opt.patience && !cli_parse_seconds(opt.patience, &plan->patience))
        return bench_fail(error, "--patience is a time such as 10s, not '%s'", opt.patience);
    if (opt.peers && (opt.connect || strcmp(plan->mode, "spin") != 0))
        return bench_fail(error, "--peers compares processes that spin on this host");
    if (opt.listen && opt.connect)
        return bench_fail(error, "--listen and --connect exclude each other");
    if (opt.count && !opt.model)
        return bench_fail(error, "--count goes with --model");
    if (opt.host && !opt.listen)
        return bench_fail(error, "--host goes with --listen");
    if (opt.connect)
        split_address(run);
    plan->reps = (unsigned)reps;
    return perf_parse_sizes(opt.sizes ? opt.sizes : "8,1K,64K,1M,64M", plan, error) &&
           perf_parse_metrics(opt.metric, plan, error) &&
           perf_parse_tests(words, count, plan, error) &&
           perf_parse_layouts(opt.layout, plan, error) &&
           perf_parse_memory(opt.memory, &run->memories, error) &&
           perf_check_buffers(plan, &run->memories, opt.raw, opt.peers, error) &&
           perf_parse_pin(opt.pin, run->cores, error);
}

// A line on standard error that the next one overwrites.
static void show_progress(size_t done, size_t total, const bench_cell *cell, void *arg) {
    char size[24], layout[BENCH_LAYOUT_NAME];
    bool dense = cell->layout.kind == BENCH_DENSE;
    (void)arg;
    fprintf(stderr, "\r[%zu/%zu] %s of %s%s%s\033[K", done + 1, total,
            bench_metric_name(cell->metric), bench_format_size(cell->size, size, sizeof size),
            dense ? "" : ", ",
            dense ? "" : bench_layout_format(&cell->layout, layout, sizeof layout));
    fflush(stderr);
}

// A line of its own about a figure that is missing.
static void show_left_out(const bench_cell *cell, const char *why, void *arg) {
    char size[24];
    (void)arg;
    fprintf(stderr, "%snote: %s of %s: a figure is left out: %s\n",
            isatty(STDERR_FILENO) ? "\r\033[K" : "", bench_metric_name(cell->metric),
            bench_format_size(cell->size, size, sizeof size), why);
}

// What a terminal sends goes to the group of this process only.
static void on_signal(int sig) {
    bench_child_kill_groups();
    (void)signal(sig, SIG_DFL);
    raise(sig);
}

static void end_groups_with_us(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction old;
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)  // as nohup does
            sigaction(ends[i], &act, NULL);
    }
}

// Starts the other end and learns its port.  It inherits the eventfds, which therefore must not be
// close-on-exec.
static bool start_child(perf_run *run, bench_error *error) {
    char bells[32], pin[16] = "none", line[32];
    run->bells.fd[0] = eventfd(0, EFD_NONBLOCK);
    run->bells.fd[1] = eventfd(0, EFD_NONBLOCK);
    snprintf(bells, sizeof bells, "%d,%d", run->bells.fd[0], run->bells.fd[1]);
    if (run->cores[1] >= 0)
        snprintf(pin, sizeof pin, "%d", run->cores[1]);
    const char *argv[] = {"/proc/self/exe",
                          COMMAND,
                          "--child",
                          "--listen",
                          "0",
                          "--once",
                          "--bells",
                          bells,
                          "--pin",
                          pin,
                          "--mode",
                          run->plan.mode,
                          "--lane",
                          opt.lane ? opt.lane : "auto",
                          NULL};
    bench_spawn spawn = {.argv = argv, .core = -1};
    int port = 0;
    if (!bench_child_start(&run->child, &spawn))
        return bench_fail(error, "cannot start the other process");
    if (!bench_child_line(&run->child, line, sizeof line, 10000) || sscanf(line, "%d", &port) != 1)
        return bench_fail(error, "the other process did not come up");
    snprintf(run->host, sizeof run->host, "127.0.0.1");
    snprintf(run->address, sizeof run->address, "127.0.0.1:%d", port);
    return true;
}

static bool any_dense(const bench_plan *plan) {
    for (size_t i = 0; i < plan->layout_count; i++) {
        if (plan->layouts[i].kind == BENCH_DENSE)
            return true;
    }
    return false;
}

// Which bare contenders suit the lane in use: UCX spins over shared memory; two sleepers on one host
// are measured by eventfds; the stream lane by a socket.  Peers run over shared memory.
static bool choose_bare(perf_run *run, bench_error *error) {
    bool shm = strcmp(run->lane, "shm") == 0;
    bool ucx = strcmp(run->lane, "ucx") == 0;
    bool sleeps = strcmp(run->plan.mode, "wait") == 0;
    if (opt.peers && !shm)
        return bench_fail(error, "--peers compares over shared memory, and the lane is %s",
                          run->lane);
    run->plan.peers = run->peers;
    if (opt.peers || opt.raw)
        end_groups_with_us();
    if (opt.peers &&
        !bench_peers_start(run->peers, &run->plan.peer_count, opt.peers, run->cores, error))
        return false;
    if (!opt.raw)
        return true;
    run->plan.packed = true;
    if (!any_dense(&run->plan))
        return true;
    run->plan.copy = shm;
    run->plan.socket = !shm && !ucx;
    run->plan.bells = shm && sleeps && run->bells.fd[0] >= 0;
    if (run->plan.socket || sleeps)
        return true;
    run->plan.ucx = &run->ucx;
    const char *dir = opt.ucx ? opt.ucx : ucx ? getenv("WHERRY_UCX_DIR") : NULL;
    if (!bench_ucx_find(&run->ucx, dir, run->cores, error))
        return false;
    run->ucx.as_lane = ucx;
    return true;
}

// keep adds the rows of one kind of memory to those of the others.
static bool keep(perf_run *run, bench_row *rows, size_t count, bench_error *error) {
    bench_row *all = realloc(run->rows, (run->row_count + count + 1) * sizeof *all);
    if (!all)
        return bench_fail(error, "out of memory");
    if (count)
        memcpy(all + run->row_count, rows, count * sizeof *all);
    run->rows = all;
    run->row_count += count;
    return true;
}

static void report(const perf_run *run) {
    if (run->row_count == 0 && !opt.json)
        return;  // the complaint that follows says why
    if (opt.json) {
        bench_report_json(stdout, run->rows, run->row_count);
    } else {
        bench_report_machine(stdout, &run->machine, run->cores);
        bench_report_table(stdout, run->rows, run->row_count);
    }
    fflush(stdout);
}

static bool plot(const perf_run *run, bench_error *error) {
    FILE *file = fopen(opt.plot, "we");
    if (!file)
        return bench_fail(error, "cannot write %s", opt.plot);
    bench_plot_svg(file, run->rows, run->row_count, &run->machine);
    return fclose(file) == 0 || bench_fail(error, "cannot write %s", opt.plot);
}

static bool measure(perf_run *run, wh_endpoint *ep, bench_error *error) {
    bench_load before, after;
    bench_row *rows = NULL;
    size_t count = 0;
    if (wh_endpoint_lanes(ep, run->lane, sizeof run->lane) != WH_OK)
        return bench_fail(error, "%s", wh_endpoint_error(ep));
    run->lane[strcspn(run->lane, " ,")] = '\0';
    run->plan.lane = run->lane;
    if (isatty(STDERR_FILENO))
        run->plan.progress = show_progress;
    run->plan.left_out = show_left_out;
    bench_load_read(&before, run->child.pid);
    if (!choose_bare(run, error) ||
        !bench_session_open(&run->session, ep, run->plan.mode, &run->bells, error)) {
        bench_peers_stop(run->peers, run->plan.peer_count);
        return false;
    }
    run->session.remote.user = opt.memory && strcmp(opt.memory, "user") == 0;
    const char *host = run->plan.socket ? run->host : NULL;
    bool good = bench_session_lead(&run->session, run->plan.mode, host, &run->plan.memory, error) &&
                bench_measure(&run->session, &run->plan, &rows, &count, error);
    bench_peers_stop(run->peers, run->plan.peer_count);
    bench_load_read(&after, run->child.pid);
    if (run->plan.progress)
        fprintf(stderr, "\r\033[K");
    if (count)
        bench_report_load(stderr, &before, &after);
    good = keep(run, rows, count, error) && good;
    if (good)
        bench_session_bye(&run->session);
    free(rows);
    return good;
}

// Connects, measures, and takes leave.
static bool lead(perf_run *run, wh_worker *worker, bench_error *error) {
    wh_endpoint *ep;
    wh_endpoint_opts how = {.size = sizeof how, .secret = opt.secret};
    wh_status status = wh_endpoint_connect_wait(worker, run->address, &how, &ep);
    if (status != WH_OK)
        return bench_fail(error, "cannot connect to %s: %s", run->address, cli_because(status));
    cli_release_log();
    bool good = measure(run, ep, error);
    if (!good)
        wh_endpoint_abort(ep);
    else if (wh_endpoint_close_wait(ep, 2000) != WH_OK)
        good = bench_fail(error, "the other side did not close in time");
    wh_worker_progress(
        worker);  // completes what the abort has cancelled, while the session is there
    if (run->session.side.ep)
        bench_session_close(&run->session);
    return good;
}

// lead_with measures with one kind of memory, between processes and over a connection of its own.
static bool lead_with(perf_run *run, bench_error *error) {
    wh_context *ctx = NULL;
    wh_worker *worker = NULL;
    bool good = opt.connect || start_child(run, error);
    if (good && !bench_pin(run->cores[0]))
        good = bench_fail(error, "cannot run on core %d", run->cores[0]);
    if (good) {
        cli_hold_log();
        wh_status status =
            cli_context_create(opt.lane, run->plan.mode, opt.secret_file, NULL, &ctx);
        if (status == WH_OK)
            status = wh_worker_create(ctx, NULL, &worker);
        good = status == WH_OK ? lead(run, worker, error)
                               : bench_fail(error, "no worker: %s", cli_because(status));
    }
    if (worker)
        wh_worker_destroy(worker);
    if (ctx)
        wh_context_destroy(ctx);
    cli_release_log();
    bench_child_end(&run->child, good ? 5000 : 500);
    return good;
}

// choose_path has device memory go through host memory, or as `given`, which the environment said at first; NULL: nothing.
static void choose_path(const bench_memory *memory, const char *given) {
    const char *path = memory->staged ? "staged" : given;
    if (path)
        setenv(PATH_VARIABLE, path, 1);
    else
        unsetenv(PATH_VARIABLE);
}

static int run_lead(perf_run *run) {
    bench_error error = {""};
    bool good = true;
    char *given = getenv(PATH_VARIABLE) ? strdup(getenv(PATH_VARIABLE)) : NULL;
    cpu_set_t allowed;
    bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    bench_machine_read(&run->machine);
    if (!opt.connect && run->cores[0] >= 0 && run->cores[0] == run->cores[1])
        fprintf(stderr,
                "warning: both processes share one core: latencies include a context switch\n");
    for (size_t i = 0; i < run->memories.count && good; i++) {
        run->plan.memory = run->memories.all[i];
        choose_path(&run->plan.memory, given);
        if (known)  // the next child is pinned to a core that this process has left
            (void)sched_setaffinity(0, sizeof allowed, &allowed);
        memset(&run->session, 0, sizeof run->session);
        good = lead_with(run, &error);
    }
    report(run);
    if (good && opt.plot)
        good = plot(run, &error);
    free(run->rows);
    free(given);
    return good ? CLI_OK : cli_complain(COMMAND, CLI_FAILED, "%s", error.text);
}

static int run_serve(perf_run *run) {
    char address[300];
    bool secret = opt.secret || opt.secret_file;
    const char *host = opt.host ? opt.host : secret ? "*" : "127.0.0.1";
    bool v6 = strchr(host, ':') && host[0] != '[';
    perf_serve serve = {.address = address,
                        .secret = opt.secret,
                        .secret_file = opt.secret_file,
                        .lane = opt.lane,
                        .mode = run->plan.mode,
                        .bare_host = strcmp(host, "*") == 0 ? NULL : host,
                        .bells = {{-1, -1}},
                        .core = opt.pin ? run->cores[0] : -1,
                        .once = opt.once,
                        .quiet = opt.child};
    uint64_t port;
    if (!cli_parse_uint(opt.listen, 0, 65535, &port))
        return cli_complain(COMMAND, CLI_USAGE, "--listen takes a port, 0 for a free one");
    if (opt.bells && sscanf(opt.bells, "%d,%d", &serve.bells.fd[0], &serve.bells.fd[1]) != 2)
        return cli_complain(COMMAND, CLI_USAGE, "--bells takes two descriptors");
    snprintf(address, sizeof address, v6 ? "[%.255s]:%d" : "%.255s:%d", host, (int)port);
    return perf_serve_run(&serve);
}

static int run_post(const perf_run *run) {
    if (opt.sizes || opt.lane || opt.listen || opt.connect || opt.host || opt.secret ||
        opt.secret_file || opt.ucx || opt.memory || opt.layout || opt.peers || opt.patience ||
        opt.plot || opt.raw || opt.once)
        return cli_complain(COMMAND, CLI_USAGE,
                            "post takes --metric, --mode, --reps, --time, --pin and --json only");
    return perf_post_run(&run->plan, run->cores, opt.mode, opt.json);
}

static int run_model(perf_run *run) {
    perf_model_words words = {opt.model,   opt.sizes, opt.lane,  opt.mode,   opt.reps,
                              opt.seconds, opt.pin,   opt.count, opt.memory, opt.json};
    const char *test = run->plan.tests[0];  // NULL, or the default: none is named
    if (run->plan.test_count > 1 || (test && strcmp(test, "tag") != 0) || opt.metric ||
        opt.listen || opt.connect || opt.host || opt.secret || opt.secret_file || opt.ucx ||
        opt.layout || opt.peers || opt.patience || opt.plot || opt.raw || opt.once)
        return cli_complain(COMMAND, CLI_USAGE,
                            "--model takes --sizes, --lane, --mode, --reps, --time, --pin, "
                            "--memory, --count and --json only");
    if (run->memories.count > 1)
        return cli_complain(COMMAND, CLI_USAGE, "--model takes one kind of --memory at a time");
    choose_path(&run->memories.all[0], getenv(PATH_VARIABLE));
    run->plan.memory = run->memories.all[0];
    return opt.child ? perf_model_run(&words, &run->plan, run->cores)
                     : perf_model_launch(&words, &run->plan);
}

int cli_perf(int argc, char **argv) {
    bench_error error = {""};
    int rest;
    int code = cli_parse(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    code = cli_check_secret(COMMAND, opt.secret, opt.secret_file);
    if (code == CLI_GO_ON)
        code = cli_check_lane(COMMAND, opt.lane);
    if (code == CLI_GO_ON && opt.connect)
        code = cli_check_address(COMMAND, opt.connect);
    if (code != CLI_GO_ON)
        return code;
    perf_run *run = calloc(1, sizeof *run);
    if (!run)
        return cli_complain(COMMAND, CLI_FAILED, "out of memory");
    // Both ends and the bare contender are to use the same UCX.
    if (opt.ucx && opt.lane && strcmp(opt.lane, "ucx") == 0)
        setenv("WHERRY_UCX_DIR", opt.ucx, 1);
    if (!parse_plan(run, argv, rest, &error))
        code = cli_complain(COMMAND, CLI_USAGE, "%s", error.text);
    else if (run->plan.tests[0] && strcmp(run->plan.tests[0], "post") == 0)
        code = run_post(run);
    else if (opt.model)
        code = run_model(run);
    else
        code = opt.listen ? run_serve(run) : run_lead(run);
    free(run);
    return code;
}
