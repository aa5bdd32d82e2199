// SPDX-License-Identifier: BSD-3-Clause
//
// See ucx.h.  Every wait here has a limit: a perftest that does not come up, or never ends, costs a
// sentence and not a night.
#include "bench/ucx.h"

#include "bench/child.h"
#include "bench/clock.h"
#include "bench/raw.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { START_MS = 5000, RUN_MS = 60000, END_MS = 2000 };

// Without its own network and without warnings on standard output that would disturb the reading.
static const char *const QUIET[] = {"UCX_WARN_UNUSED_ENV_VARS=n", "UCX_LOG_LEVEL=error"};
static const char *const MEMORY[] = {"UCX_TLS=posix,cma,self"};
// What the ucx lane tells UCX.  What the user has set himself goes before it, there and here.
static const char *const LANE[] = {"UCX_TLS=^cma", "UCX_POSIX_FIFO_SIZE=64",
                                   "UCX_SYSV_FIFO_SIZE=64"};
enum { SET_MAX = 8 };

static bool is_set(const char *assignment) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(assignment, "="), assignment);
    return getenv(name) != NULL;
}

// The environment of a run: `set` holds the pointers, which live as long as `ucx`.
static void make_environment(const bench_ucx *ucx, const char *set[SET_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < sizeof QUIET / sizeof *QUIET; i++)
        set[count++] = QUIET[i];
    for (size_t i = 0; !ucx->as_lane && i < sizeof MEMORY / sizeof *MEMORY; i++)
        set[count++] = MEMORY[i];
    for (size_t i = 0; ucx->as_lane && i < sizeof LANE / sizeof *LANE; i++)
        if (!is_set(LANE[i]))
            set[count++] = LANE[i];
    if (*ucx->libraries)
        set[count++] = ucx->libraries;
    set[count] = NULL;
}

// The first "1.13.1" in a text: ucx_info words the line around it differently in each release.
static bool find_version(const char *text, char *version, size_t size) {
    for (; *text; text++) {
        int major, minor, patch;
        if (isdigit((unsigned char)*text) &&
            sscanf(text, "%3d.%3d.%3d", &major, &minor, &patch) == 3) {
            snprintf(version, size, "%d.%d.%d", major, minor, patch);
            return true;
        }
    }
    return false;
}

static bool ask_version(bench_ucx *ucx, const char *info, bench_error *error) {
    char text[2048];
    const char *set[SET_MAX];
    const char *argv[] = {info, "-v", NULL};
    bench_child child;
    make_environment(ucx, set);
    bench_spawn spawn = {.argv = argv, .extra = set, .core = -1, .quiet = true};
    if (!bench_child_start(&child, &spawn))
        return bench_fail(error, "cannot start %s", info);
    bool got = bench_child_output(&child, text, sizeof text, START_MS);
    if (bench_child_end(&child, END_MS) != 0 || !got ||
        !find_version(text, ucx->version, sizeof ucx->version))
        return bench_fail(error, "%s does not tell its version; is UCX installed (ucx-utils)?",
                          info);
    return true;
}

bool bench_ucx_find(bench_ucx *ucx, const char *dir, const int cores[2], bench_error *error) {
    char info[512] = "ucx_info", base[480];
    memset(ucx, 0, sizeof *ucx);
    ucx->cores[0] = cores[0];
    ucx->cores[1] = cores[1];
    snprintf(ucx->program, sizeof ucx->program, "ucx_perftest");
    if (!dir)
        return ask_version(ucx, info, error);

    snprintf(base, sizeof base, "%.470s/libucx", dir);
    if (access(base, X_OK) != 0)
        snprintf(base, sizeof base, "%.470s", dir);
    snprintf(ucx->program, sizeof ucx->program, "%s/bin/ucx_perftest", base);
    snprintf(info, sizeof info, "%s/bin/ucx_info", base);
    snprintf(ucx->libraries, sizeof ucx->libraries, "LD_LIBRARY_PATH=%s/lib", base);
    if (access(ucx->program, X_OK) != 0)
        return bench_fail(error, "%s is not there or not executable", ucx->program);
    return ask_version(ucx, info, error);
}

// Whether somebody listens on `port` of this host: a look into the kernel's table, because a trial
// connection would be taken for the client.
static bool listens(int port) {
    const char *tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    const unsigned LISTEN = 0x0A;
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        char line[256];
        FILE *file = fopen(tables[i], "re");
        while (file && !found && fgets(line, sizeof line, file)) {
            unsigned local, state;
            found =
                sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state) == 2 &&
                local == (unsigned)port && state == LISTEN;
        }
        if (file)
            fclose(file);
    }
    return found;
}

static bool await_server(int port) {
    uint64_t deadline = bench_ns() + START_MS * UINT64_C(1000000);
    while (!listens(port)) {
        if (bench_ns() > deadline)
            return false;
        usleep(1000);
    }
    return true;
}

// The last line of figures of `ucx_perftest -v`:
// iterations, median, average and overall latency, average and overall bandwidth, and so the rate.
static bool read_figures(const char *text, bench_run *run) {
    bool found = false;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        double count, median, average, overall, rate;
        line += *line == '\n';
        if (sscanf(line, "%lf,%lf,%lf,%lf,%*f,%*f,%*f,%lf", &count, &median, &average, &overall,
                   &rate) != 5)
            continue;
        run->us = (bench_stats){.median = median, .p99 = median, .min = median};
        run->rate = rate;
        found = true;
    }
    return found;
}

static const char *test_of(const char *kind, bench_metric metric) {
    static const struct {
        const char *kind, *latency, *stream;
    } tests[] = {
        {"tag", "tag_lat", "tag_bw"},         {"am", "ucp_am_lat", "ucp_am_bw"},
        {"put", "ucp_put_lat", "ucp_put_bw"}, {"get", "ucp_get", "ucp_get"},
        {"atomic", "ucp_fadd", "ucp_add"},
    };
    size_t i = 0;
    while (strcmp(tests[i].kind, kind) != 0)
        i++;
    return metric == BENCH_LATENCY ? tests[i].latency : tests[i].stream;
}

static bool run_client(const bench_ucx *ucx, const char *const *set, const char *test,
                       const bench_cell *cell, const char *port, bench_run *run) {
    char size[24], count[24], warm[24], window[24], text[4096];
    uint64_t warm_up = cell->count / 10 < 10000 ? cell->count / 10 + 1 : 10000;
    snprintf(size, sizeof size, "%" PRIu64, cell->size);
    snprintf(count, sizeof count, "%" PRIu64, cell->count);
    snprintf(warm, sizeof warm, "%" PRIu64, warm_up);
    // Some tests serve for latency and for rate; the window tells them which.
    snprintf(window, sizeof window, "%d", BENCH_WINDOW);
    bool latency = cell->metric == BENCH_LATENCY;
    const char *argv[] = {ucx->program, "127.0.0.1", "-p",  port, "-t", test, "-s",
                          size,         "-n",        count, "-w", warm, "-v", latency ? NULL : "-O",
                          window,       NULL};
    bench_child client;
    bench_spawn spawn = {.argv = argv, .extra = set, .core = ucx->cores[0], .quiet = true};
    if (!bench_child_start(&client, &spawn))
        return false;
    bool ended = bench_child_output(&client, text, sizeof text, RUN_MS);
    return bench_child_end(&client, ended ? END_MS : 0) == 0 && ended && read_figures(text, run);
}

bool bench_ucx_run(const bench_ucx *ucx, const char *kind, const bench_cell *cell, bench_run *run,
                   bench_error *error) {
    char port_text[16], scrap[256];
    const char *set[SET_MAX];
    int port;
    int holder = bench_socket_listen("127.0.0.1", &port);  // to learn a free port
    if (holder < 0)
        return bench_fail(error, "no free port for ucx_perftest");
    close(holder);
    snprintf(port_text, sizeof port_text, "%d", port);
    make_environment(ucx, set);

    const char *argv[] = {ucx->program, "-p", port_text, NULL};
    bench_spawn spawn = {.argv = argv, .extra = set, .core = ucx->cores[1], .quiet = true};
    bench_child server;
    memset(run, 0, sizeof *run);
    if (!bench_child_start(&server, &spawn))
        return bench_fail(error, "cannot start %s", ucx->program);
    const char *test = test_of(kind, cell->metric);
    uint64_t start = bench_ns();
    bool good = await_server(port) && run_client(ucx, set, test, cell, port_text, run);
    run->seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    if (good)
        good = bench_child_output(&server, scrap, sizeof scrap, END_MS);
    bench_child_end(&server, good ? END_MS : 0);
    return good || bench_fail(error, "ucx_perftest -t %s -s %" PRIu64 " failed or hung (%s)", test,
                              cell->size, ucx->version);
}
