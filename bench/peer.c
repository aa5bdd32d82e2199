// SPDX-License-Identifier: BSD-3-Clause
//
// See peer.h.  A run is one line to the pair and one back; every wait has a limit.
#include "bench/peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { START_MS = 30000, RUN_MS = 60000, END_MS = 5000 };

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
    while (bench_child_line(&peer->child, text, size, timeout_ms)) {
        if (strncmp(text, word, strlen(word)) == 0)
            return true;
    }
    return false;
}

static bool start(bench_peer *peer, const char *home, size_t which, const int cores[2],
                  bench_error *error) {
    char launcher[600], program[600], core[2][16], text[256];
    snprintf(launcher, sizeof launcher, "%s/bin/mpiexec", home);
    snprintf(program, sizeof program, "%s/bin/wherry-peer", home);
    const char *argv[10];
    size_t count = 0;
    argv[count++] = launcher;
    for (size_t i = 0; i < 4 && known[which].options[i]; i++)
        argv[count++] = known[which].options[i];
    argv[count++] = program;
    for (int i = 0; i < 2; i++) {
        snprintf(core[i], sizeof core[i], "%d", cores[i]);
        argv[count++] = core[i];
    }
    argv[count] = NULL;
    bench_spawn spawn = {.argv = argv, .extra = ENVIRONMENT, .core = -1, .input = true};
    if (!bench_child_start(&peer->child, &spawn))
        return bench_fail(error, "cannot start %s", launcher);
    if (!read_answer(peer, "hello ", text, sizeof text, START_MS) ||
        sscanf(text, "hello %50[0-9.]", text) != 1)
        return bench_fail(error, "%s does not start two processes of %s", launcher, program);
    snprintf(peer->name, sizeof peer->name, "%s %.50s", known[which].name, text);
    return true;
}

bool bench_peers_start(bench_peer *peers, size_t *count, const char *dir, const int cores[2],
                       bench_error *error) {
    *count = 0;
    for (size_t i = 0; i < BENCH_PEERS_MAX; i++) {
        char home[512], program[600];
        snprintf(home, sizeof home, "%.480s/%s", dir, known[i].name);
        snprintf(program, sizeof program, "%s/bin/wherry-peer", home);
        if (access(program, X_OK) != 0) {
            fprintf(stderr, "note: %s is not there: no comparison with %s\n", program,
                    known[i].name);
            continue;
        }
        if (!start(&peers[(*count)++], home, i, cores, error))
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

bool bench_peer_run(bench_peer *peer, const bench_cell *cell, bench_run *run, bench_error *error) {
    char text[256];
    int size = snprintf(text, sizeof text, "run %s %" PRIu64 " %" PRIu64 "\n",
                        bench_metric_name(cell->metric), cell->size, cell->count);
    memset(run, 0, sizeof *run);
    if (!bench_child_write(&peer->child, text, (size_t)size) ||
        !read_answer(peer, "took ", text, sizeof text, RUN_MS) ||
        sscanf(text, "took %lf %lf %lf %lf", &run->seconds, &run->us.median, &run->us.p99,
               &run->us.min) != 4)
        return bench_fail(error, "%s was lost, or hangs, in a run of %s", peer->name,
                          bench_metric_name(cell->metric));
    run->rate = run->seconds > 0 ? (double)cell->count / run->seconds : 0;
    return true;
}
