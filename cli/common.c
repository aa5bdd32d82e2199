// SPDX-License-Identifier: BSD-3-Clause
//
// What every subcommand that talks to a peer needs: its options checked, a context from them, the
// library's log joined with its own complaints, and a clean Ctrl-C.
#include "cli/cli.h"
#include "cli/text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Whether a regular file's first line is empty.  Others, such as a pipe, can be read only once.
static bool holds_nothing(int fd) {
    struct stat st;
    char first;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    return pread(fd, &first, 1, 0) != 1 || first == '\n' || first == '\r' || first == '\0';
}

int cli_check_secret(const char *command, const char *secret, const char *secret_file) {
    if (secret && secret_file)
        return cli_complain(command, CLI_USAGE, "--secret and --secret-file exclude each other");
    if (secret && !*secret)
        return cli_complain(
            command, CLI_USAGE,
            "--secret is empty, which means no secret: give one, or leave the option out");
    if (!secret_file)
        return CLI_GO_ON;
    int fd = open(secret_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cli_complain(command, CLI_USAGE, "--secret-file '%s' cannot be read: %s",
                            secret_file, strerror(errno));
    bool empty = holds_nothing(fd);
    close(fd);
    return empty ? cli_complain(command, CLI_USAGE,
                                "--secret-file '%s' holds no secret in its first line", secret_file)
                 : CLI_GO_ON;
}

int cli_check_lane(const char *command, const char *lane) {
    if (!lane || cli_one_of("shm|stream|ucx|auto", lane) >= 0)
        return CLI_GO_ON;
    return cli_complain(command, CLI_USAGE, "--lane is shm, stream, ucx or auto, not '%s'", lane);
}

int cli_check_address(const char *command, const char *address) {
    uint64_t port;
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address)
        return cli_complain(command, CLI_USAGE, "'%s' is not HOST:PORT", address);
    if (!cli_parse_uint(colon + 1, 1, 65535, &port))
        return cli_complain(command, CLI_USAGE,
                            "'%s' is not HOST:PORT: a port is a number from 1 to 65535", address);
    if (address[0] != '[' && memchr(address, ':', (size_t)(colon - address)))
        return cli_complain(command, CLI_USAGE,
                            "'%s' is not HOST:PORT: write an IPv6 address as [%.*s]:%s", address,
                            (int)(colon - address), address, colon + 1);
    return CLI_GO_ON;
}

bool cli_parse_timeout(const char *text, uint32_t *ms) {
    const double most = 30 * 24 * 3600;
    double seconds = 0;
    if (strcmp(text, "0") != 0 && (!cli_parse_seconds(text, &seconds) || seconds > most))
        return false;
    *ms = (uint32_t)(seconds * 1000);
    return *ms > 0 || seconds == 0;
}

// The log while it is held.  The library's own threads may log too.
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char held[1024];

static void print_held(void) {
    if (*held)
        fprintf(stderr, "wherry: %s\n", held);
    *held = '\0';
}

static void hold_line(const char *level, const char *id, const char *text, void *arg) {
    (void)arg;
    (void)id;
    pthread_mutex_lock(&log_lock);
    if (strcmp(level, "error") == 0 || strcmp(level, "warn") == 0) {
        print_held();
        snprintf(held, sizeof held, "%s", text);
    } else {
        fprintf(stderr, "wherry: %s: %s\n", level, text);
    }
    pthread_mutex_unlock(&log_lock);
}

void cli_hold_log(void) {
    wh_log_set_sink(hold_line, NULL);
}

const char *cli_because(wh_status status) {
    static const char connecting[] = "connect: connecting to ";  // ADDRESS: why; as callers say too
    static char text[sizeof held];
    pthread_mutex_lock(&log_lock);
    snprintf(text, sizeof text, "%s", *held ? held : wh_status_text(status));
    *held = '\0';
    pthread_mutex_unlock(&log_lock);
    bool known = strncmp(text, connecting, sizeof connecting - 1) == 0;
    const char *why = known ? strstr(text + sizeof connecting, ": ") : NULL;
    return why ? why + 2 : text;
}

void cli_release_log(void) {
    wh_log_set_sink(NULL, NULL);
    pthread_mutex_lock(&log_lock);
    print_held();
    pthread_mutex_unlock(&log_lock);
}

wh_status cli_context_create(const char *lane, const char *mode, const char *secret_file,
                             const char *head_max, wh_context **ctx) {
    const char *keys[] = {"lanes", "progress", "secret_file", "object_head_max"};
    const char *values[] = {lane, mode, secret_file, head_max};
    char text[4][4200];
    const char *options[5];
    int count = 0;
    if (secret_file)
        unsetenv("WHERRY_SECRET");  // what the command line says comes first
    for (int i = 0; i < 4; i++) {
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
