// SPDX-License-Identifier: BSD-3-Clause
//
// See peer.h.  A run is one line to the pair and one back; every wait has a limit.
#include "bench/peer.h"

#include "bench/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { START_MS = 30000, END_MS = 5000 };

// Where the wheels have their programs, and what makes their launchers start two processes that bind
// themselves, as root too.
static const struct {
    const char *name;
    const char *options[4];
} known[BENCH_PEERS_MAX] = {
    {"mpich", {"-n", "2"}},
    {"openmpi", {"-n", "2", "--bind-to", "none"}},
};
static const char *const ENVIRONMENT[] = {
    "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};

// A launcher may talk on its way up, so lines that do not begin with `word` are passed over.
static bool read_answer(bench_peer *peer, const char *word, char *text, size_t size,
                        int timeout_ms) {
    uint64_t start = bench_ns();
    int left = timeout_ms;
    while (left > 0 && bench_child_line(&peer->child, text, size, left)) {
        if (strncmp(text, word, strlen(word)) == 0)
            return true;
        left = timeout_ms - (int)((bench_ns() - start) / 1000000);
    }
    return false;
}

// The command line of a pair; the texts hold what it points to.
typedef struct command {
    char launcher[600], program[600], core[2][16];
    const char *argv[10];
} command;

static void make_command(const bench_peer *peer, command *cmd) {
    size_t count = 0;
    snprintf(cmd->launcher, sizeof cmd->launcher, "%s/bin/mpiexec", peer->home);
    snprintf(cmd->program, sizeof cmd->program, "%s/bin/wherry-peer", peer->home);
    cmd->argv[count++] = cmd->launcher;
    for (size_t i = 0; i < 4 && known[peer->which].options[i]; i++)
        cmd->argv[count++] = known[peer->which].options[i];
    cmd->argv[count++] = cmd->program;
    for (int i = 0; i < 2; i++) {
        snprintf(cmd->core[i], sizeof cmd->core[i], "%d", peer->cores[i]);
        cmd->argv[count++] = cmd->core[i];
    }
    cmd->argv[count] = NULL;
}

static bool start(bench_peer *peer, bench_error *error) {
    char text[256];
    command cmd;
    make_command(peer, &cmd);
    bench_spawn spawn = {
        .argv = cmd.argv, .extra = ENVIRONMENT, .core = -1, .input = true, .group = true};
    if (!bench_child_start(&peer->child, &spawn))
        return bench_fail(error, "cannot start %s", cmd.launcher);
    if (!read_answer(peer, "hello ", text, sizeof text, START_MS) ||
        sscanf(text, "hello %50[0-9.]", text) != 1)
        return bench_fail(error, "%s does not start two processes of %s", cmd.launcher,
                          cmd.program);
    snprintf(peer->name, sizeof peer->name, "%s %.50s", known[peer->which].name, text);
    return true;
}

bool bench_peers_start(bench_peer *peers, size_t *count, const char *dir, const int cores[2],
                       bench_error *error) {
    *count = 0;
    for (size_t i = 0; i < BENCH_PEERS_MAX; i++) {
        char program[600];
        bench_peer *peer = &peers[*count];
        *peer = (bench_peer){.which = i, .cores = {cores[0], cores[1]}};
        snprintf(peer->home, sizeof peer->home, "%.480s/%s", dir, known[i].name);
        snprintf(program, sizeof program, "%s/bin/wherry-peer", peer->home);
        if (access(program, X_OK) != 0) {
            fprintf(stderr, "note: %s is not there: no comparison with %s\n", program,
                    known[i].name);
            continue;
        }
        (*count)++;
        if (!start(peer, error))
            return false;
    }
    return *count > 0 ||
           bench_fail(error, "no peers in %s: bench/peers/make.py installs and compiles them", dir);
}

void bench_peers_stop(bench_peer *peers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        // Told, because a launcher may spin on an input that has ended.
        bool told = peers[i].child.pid > 0 && bench_child_write(&peers[i].child, "end\n", 4);
        bench_child_end(&peers[i].child, told ? END_MS : 0);
    }
}

static bool is_time(double value) {
    return isfinite(value) && value > 0;
}

// Only a run of latency has times of its messages.
static bool read_figures(const char *text, bench_metric metric, bench_run *run) {
    bench_stats *us = &run->us;
    int found =
        sscanf(text, "took %lf %lf %lf %lf", &run->seconds, &us->median, &us->p99, &us->min);
    return found == 4 && is_time(run->seconds) &&
           (metric != BENCH_LATENCY ||
            (is_time(us->median) && is_time(us->p99) && is_time(us->min)));
}

// fail ends the pair, and writes what has failed and how to see it by hand.
static bool fail(bench_peer *peer, const char *order, const char *why, bench_error *error) {
    command cmd;
    make_command(peer, &cmd);
    bench_child_end(&peer->child, 0);
    bench_fail(error, "%s %s; to see it: (echo %s; echo end) |", peer->name, why, order);
    if (geteuid() == 0)
        bench_fail_more(error, ENVIRONMENT);
    bench_fail_more(error, cmd.argv);
    return false;
}

// A layout has an order of its own: a program of before there were layouts takes it for an error.
static void write_order(const bench_cell *cell, char *order, size_t size) {
    char layout[BENCH_LAYOUT_NAME];
    bool dense = cell->layout.kind == BENCH_DENSE;
    snprintf(order, size, "%s%s %s %" PRIu64 " %" PRIu64, dense ? "run" : "lay ",
             dense ? "" : bench_layout_format(&cell->layout, layout, sizeof layout),
             bench_metric_name(cell->metric), cell->size, cell->count);
}

bool bench_peer_run(bench_peer *peer, const bench_cell *cell, int limit_ms, bench_run *run,
                    bench_error *error) {
    char order[96 + BENCH_LAYOUT_NAME], line[sizeof order + 4], text[256], late[64];
    memset(run, 0, sizeof *run);
    if (peer->child.pid == 0 && !start(peer, error)) {
        bench_child_end(&peer->child, 0);
        peer->gone = true;
        return false;
    }
    write_order(cell, order, sizeof order);
    snprintf(late, sizeof late, "was not done after %.3g s", limit_ms / 1e3);
    int size = snprintf(line, sizeof line, "%s\n", order);
    uint64_t start_ns = bench_ns();
    if (!bench_child_write(&peer->child, line, (size_t)size) ||
        !read_answer(peer, "took ", text, sizeof text, limit_ms)) {
        bool slow = (bench_ns() - start_ns) / 1000000 >= (uint64_t)limit_ms;
        return fail(peer, order, slow ? late : "was lost", error);
    }
    if (!read_figures(text, cell->metric, run))
        return fail(peer, order, "printed no figure that can be", error);
    run->rate = (double)cell->count / run->seconds;
    return true;
}
