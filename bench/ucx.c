// SPDX-License-Identifier: BSD-3-Clause
//
// See ucx.h.  Every wait here has a limit: a perftest that does not come up, or never ends, costs a
// sentence and not a night.
#include "bench/ucx.h"

#include "bench/child.h"
#include "bench/clock.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { START_MS = 5000, END_MS = 2000, PORTS_MAX = 3 };

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

// A port that nobody uses on any address, which is what ucx_perftest will listen on; 0: there is none.
static int free_port(void) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t size = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&any, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&any, &size) == 0;
    if (fd >= 0)
        close(fd);
    return good ? ntohs(any.sin_port) : 0;
}

static bool await_server(const bench_child *server, int port) {
    uint64_t deadline = bench_ns() + START_MS * UINT64_C(1000000);
    while (!listens(port)) {
        if (bench_ns() > deadline || !bench_child_runs(server))
            return false;
        usleep(1000);
    }
    return true;
}

// The last line of figures of `ucx_perftest -v`:
// iterations, median, average and overall latency, average and overall bandwidth, and so the rate.
// The one that the metric is about must be one that a run can have.
static bool read_figures(const char *text, bench_metric metric, bench_run *run) {
    bool found = false;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        double count, median, average, overall, rate;
        line += *line == '\n';
        if (sscanf(line, "%lf,%lf,%lf,%lf,%*f,%*f,%*f,%lf", &count, &median, &average, &overall,
                   &rate) != 5)
            continue;
        double figure = metric == BENCH_LATENCY ? median : rate;
        if (!isfinite(figure) || figure <= 0)
            continue;
        run->us = (bench_stats){.median = median, .p99 = median, .min = median};
        run->rate = rate;
        found = true;
    }
    return found;
}

static const char *test_of(const char *kind, bench_metric metric) {
    static const struct {
        const char *kind, *latency, *flow;
    } tests[] = {
        {"tag", "tag_lat", "tag_bw"},         {"am", "ucp_am_lat", "ucp_am_bw"},
        {"put", "ucp_put_lat", "ucp_put_bw"}, {"get", "ucp_get", "ucp_get"},
        {"atomic", "ucp_fadd", "ucp_add"},
    };
    size_t i = 0;
    while (strcmp(tests[i].kind, kind) != 0)
        i++;
    return metric == BENCH_LATENCY ? tests[i].latency : tests[i].flow;
}

// One run: what the two processes are started with.  The texts hold the arguments.
typedef struct trial {
    const bench_ucx *ucx;
    const char *set[SET_MAX];
    char port[16], size[24], count[24], warm[24], window[24];
    const char *server[4], *client[18];
    bench_metric metric;
    int port_number;
    bool up;       // the server has listened
    char why[64];  // there are no figures
} trial;

static void prepare(trial *t, const bench_ucx *ucx, const char *test, const bench_cell *cell,
                    int port) {
    uint64_t warm_up = cell->count / 10 < 10000 ? cell->count / 10 + 1 : 10000;
    *t = (trial){.ucx = ucx, .metric = cell->metric, .port_number = port};
    make_environment(ucx, t->set);
    snprintf(t->port, sizeof t->port, "%d", port);
    snprintf(t->size, sizeof t->size, "%" PRIu64, cell->size);
    snprintf(t->count, sizeof t->count, "%" PRIu64, cell->count);
    snprintf(t->warm, sizeof t->warm, "%" PRIu64, warm_up);
    // Some tests serve for latency and for rate; the window tells them which.
    snprintf(t->window, sizeof t->window, "%d", BENCH_WINDOW);
    bool latency = cell->metric == BENCH_LATENCY;
    memcpy(t->server, (const char *[]){ucx->program, "-p", t->port, NULL}, sizeof t->server);
    const char *client[] = {
        ucx->program, "127.0.0.1", "-p",     t->port, "-t",    test, "-s",
        t->size,      "-n",        t->count, "-w",    t->warm, "-v", latency ? NULL : "-O",
        t->window,    NULL};
    memcpy(t->client, client, sizeof client);
}

__attribute__((format(printf, 2, 3))) static bool blame(trial *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(t->why, sizeof t->why, format, args);
    va_end(args);
    return false;
}

static bool run_client(trial *t, int limit_ms, bench_run *run) {
    char text[4096];
    bench_child client;
    bench_spawn spawn = {
        .argv = t->client, .extra = t->set, .core = t->ucx->cores[0], .quiet = true, .group = true};
    if (!bench_child_start(&client, &spawn))
        return blame(t, "cannot be started");
    bool ended = bench_child_output(&client, text, sizeof text, limit_ms);
    int code = bench_child_end(&client, ended ? END_MS : 0);
    if (!ended)
        return blame(t, "was not done after %.3g s", limit_ms / 1e3);
    if (code != 0)
        return code < 0 ? blame(t, "died") : blame(t, "ended with code %d", code);
    return read_figures(text, t->metric, run) || blame(t, "printed no figure that can be");
}

static bool run_pair(trial *t, int limit_ms, bench_run *run) {
    char scrap[256];
    bench_child server;
    bench_spawn spawn = {
        .argv = t->server, .extra = t->set, .core = t->ucx->cores[1], .quiet = true, .group = true};
    if (!bench_child_start(&server, &spawn))
        return blame(t, "cannot be started");
    uint64_t start = bench_ns();
    t->up = await_server(&server, t->port_number);
    bool good = t->up ? run_client(t, limit_ms, run)
                : bench_child_runs(&server)
                    ? blame(t, "as a server did not listen within %d s", START_MS / 1000)
                    : blame(t, "as a server ended at once");
    run->seconds = (double)(bench_ns() - start) / (double)BENCH_NS_PER_S;
    if (good)
        good = bench_child_output(&server, scrap, sizeof scrap, END_MS) ||
               blame(t, "as a server did not end");
    bench_child_end(&server, good ? END_MS : 0);
    return good;
}

// tell writes what has failed, and how to see it by hand.
static bool tell(const trial *t, bench_error *error) {
    bench_fail(error, "ucx_perftest %s %s; to see it: env", t->ucx->version, t->why);
    bench_fail_more(error, t->set + sizeof QUIET / sizeof *QUIET);
    bench_fail_more(error, t->server);
    bench_fail_more(error, (const char *[]){"& sleep 1; env", NULL});
    bench_fail_more(error, t->set + sizeof QUIET / sizeof *QUIET);
    bench_fail_more(error, t->client);
    return false;
}

bool bench_ucx_run(const bench_ucx *ucx, const char *kind, const bench_cell *cell, int limit_ms,
                   bench_run *run, bench_error *error) {
    trial t = {.up = false};
    memset(run, 0, sizeof *run);
    // Somebody else may take the port before the server does.
    for (int tries = 0; tries < PORTS_MAX && !t.up; tries++) {
        int port = free_port();
        if (port == 0)
            return bench_fail(error, "no free port for ucx_perftest");
        prepare(&t, ucx, test_of(kind, cell->metric), cell, port);
        if (run_pair(&t, limit_ms, run))
            return true;
    }
    return tell(&t, error);
}
