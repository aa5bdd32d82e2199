// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry doctor`: what on this host decides which lanes work and how well.
//
// Each check looks at one thing by using it, not by guessing from versions, and says what to change.
#include "cli/doctor.h"

#include "cli/cli.h"
#include "cli/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COMMAND "doctor"

static const cli_option options[] = {{NULL, NULL, NULL, NULL}};

static const cli_syntax syntax = {
    COMMAND,
    "[HOST:PORT]",
    "Checks what the lanes rest on here: shared memory, limits, settings, ports.  With the address\n"
    "of a listener it connects there and says what happened, which lanes are in use, and how long\n"
    "a round trip takes.  Exit code 0 when all works, 1 when something does not.\n",
    options,
};

static void check_lane(const wh_lane_info *lane, void *arg) {
    doctor *self = arg;
    // A lane that is not there is no problem by itself: the others carry everything.
    doctor_find(self, lane->usable ? FINDING_GOOD : FINDING_NOTE, lane->name, NULL, "lane %s: %s",
                lane->usable ? "usable" : "not used", lane->reason);
}

static void check_memfd(doctor *self) {
    int fd = memfd_create("wherry-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool good = fd >= 0 && ftruncate(fd, 4096) == 0 &&
                fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    doctor_find(
        self, good ? FINDING_GOOD : FINDING_BAD, "memfd",
        "the sandbox or kernel must allow memfd_create with seals, or set WHERRY_LANES=stream",
        good ? "sealed shared memory can be created" : "no sealed shared memory: %s",
        strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void check_membarrier(doctor *self) {
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    bool good = commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    doctor_find(self, good ? FINDING_GOOD : FINDING_NOTE, "membarrier",
                "Linux 4.16 or newer with membarrier allowed makes small messages cheaper",
                good ? "expedited barriers are available"
                     : "no expedited barriers: rings fall back to a fence per message");
}

static void check_pidfd(doctor *self) {
    long fd = syscall(SYS_pidfd_open, getpid(), 0);
    doctor_find(
        self, fd >= 0 ? FINDING_GOOD : FINDING_NOTE, "pidfd",
        "Linux 5.3 or newer with pidfd_open allowed",
        fd >= 0 ? "the death of a local peer is noticed through its process"
                : "no pidfd_open: the death of a local peer is noticed through its socket only");
    if (fd >= 0)
        close((int)fd);
}

static void check_files(doctor *self) {
    const rlim_t few = 4096;  // a link on one host needs about four descriptors
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    doctor_find(self, limit.rlim_cur < few ? FINDING_NOTE : FINDING_GOOD, "RLIMIT_NOFILE",
                "for hundreds of peers: ulimit -n 65536, or LimitNOFILE= of the service",
                "%llu descriptors (up to %llu): about %llu local links",
                (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max,
                (unsigned long long)limit.rlim_cur / 4);
}

static void check_memlock(doctor *self) {
    char text[32];
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    bool any = limit.rlim_cur == RLIM_INFINITY;
    cli_format_bytes((double)limit.rlim_cur, text, sizeof text);
    doctor_find(self, FINDING_GOOD, "RLIMIT_MEMLOCK", NULL,
                "%s; RDMA networks, which the ucx lane uses, want no limit",
                any ? "no limit" : text);
}

// A number in /proc/sys; -1 when it is not there.
static long read_number(const char *path) {
    char line[64];
    return cli_read_line(path, line, sizeof line) ? strtol(line, NULL, 10) : -1;
}

static void check_somaxconn(doctor *self) {
    long most = read_number("/proc/sys/net/core/somaxconn");
    if (most < 0)
        return;
    doctor_find(self, most < 1024 ? FINDING_NOTE : FINDING_GOOD, "somaxconn",
                "sysctl -w net.core.somaxconn=4096, when hundreds of peers connect at once",
                "%ld connections may wait to be accepted", most);
}

static void check_buffers(doctor *self) {
    const char *tables[] = {"/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"};
    for (int i = 0; i < 2; i++) {
        char line[128];
        long least, usual, most;
        if (!cli_read_line(tables[i], line, sizeof line) ||
            sscanf(line, "%ld %ld %ld", &least, &usual, &most) != 3)
            continue;
        doctor_find(self, most < 1 << 20 ? FINDING_NOTE : FINDING_GOOD, i ? "tcp_wmem" : "tcp_rmem",
                    "sysctl -w net.ipv4.tcp_rmem='4096 131072 16777216' (and tcp_wmem)",
                    "socket buffers grow up to %ld KiB", most / 1024);
    }
}

static void check_reading(doctor *self) {
    char text[128];
    bool good = cli_may_read(text, sizeof text);
    doctor_find(self, good ? FINDING_GOOD : FINDING_NOTE, "reading memory",
                "sysctl -w kernel.yama.ptrace_scope=0, or a seccomp profile that allows "
                "process_vm_readv, saves local peers a copy of large messages",
                "%s", text);
}

typedef struct known_variable {
    const char *name;
    bool found;
} known_variable;

static void compare_variable(const wh_config_item *item, void *arg) {
    known_variable *variable = arg;
    size_t length = strlen(item->env);
    if (strncmp(variable->name, item->env, length) == 0 && variable->name[length] == '=')
        variable->found = true;
}

static void check_environment(doctor *self) {
    int set = 0, unknown = 0;
    for (char **at = environ; *at; at++) {
        known_variable variable = {.name = *at};
        if (strncmp(*at, "WHERRY_", 7) != 0)
            continue;
        wh_context_config(self->ctx, compare_variable, &variable);
        set++;
        if (variable.found)
            continue;
        unknown++;
        doctor_find(self, FINDING_BAD, "environment", "`wherry info --config` lists all settings",
                    "%.*s is not a setting and has no effect", (int)strcspn(*at, "="), *at);
    }
    if (unknown == 0)
        doctor_find(self, FINDING_GOOD, "environment", NULL, "%d WHERRY_* variables, all known",
                    set);
}

static void ignore_endpoint(wh_endpoint *ep, void *arg) {
    (void)arg;
    wh_endpoint_abort(ep);
}

static bool few_files(void) {
    const rlim_t least = 64;
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < least;
}

// Opens a listener as any program would, and a connection to it from here.
static void check_port(doctor *self) {
    wh_worker *worker;
    wh_listener *listener;
    wh_endpoint *ep;
    char address[128] = "";
    const char *fix = few_files()
                          ? "ulimit -n 65536: few descriptors are left here"
                          : "a firewall, a sandbox or WHERRY_INTERFACE forbids sockets here";
    if (wh_worker_create(self->ctx, NULL, &worker) != WH_OK) {
        doctor_find(self, FINDING_BAD, "worker",
                    few_files() ? "ulimit -n 65536: few descriptors are left here"
                                : "the log above says why",
                    "no worker can be made");
        return;
    }
    wh_status status =
        wh_listener_open(worker, "127.0.0.1:0", NULL, ignore_endpoint, NULL, &listener);
    if (status == WH_OK) {
        bool named = wh_listener_address(listener, address, sizeof address) == WH_OK;
        status = named ? wh_endpoint_connect_wait(worker, address, NULL, &ep) : WH_EADDRESS;
        if (status == WH_OK)
            wh_endpoint_abort(ep);
        wh_listener_close(listener);
    }
    doctor_find(self, status == WH_OK ? FINDING_GOOD : FINDING_BAD, "ports", fix,
                status == WH_OK ? "can listen and connect on this host (%s)"
                                : "cannot listen and connect on this host: %s",
                status == WH_OK ? address : wh_status_text(status));
    wh_worker_destroy(worker);
}

int cli_doctor(int argc, char **argv) {
    doctor self = {.ctx = NULL};
    int rest;
    int code = cli_parse(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    if (rest > 1)
        return cli_complain(COMMAND, CLI_USAGE, "it takes one HOST:PORT at most");
    if (rest == 1 && (code = cli_check_address(COMMAND, argv[0])) != CLI_GO_ON)
        return code;
    cli_hold_log();
    wh_status status = cli_context_create(NULL, NULL, NULL, NULL, &self.ctx);
    if (status != WH_OK) {
        doctor_find(&self, FINDING_BAD, "settings", "`wherry info --config` lists all settings",
                    "the configuration is not valid: %s", cli_because(status));
        return CLI_FAILED;
    }
    cli_release_log();
    wh_context_lanes(self.ctx, check_lane, &self);
    doctor_cuda(&self);
    check_memfd(&self);
    check_membarrier(&self);
    check_pidfd(&self);
    check_reading(&self);
    check_files(&self);
    check_memlock(&self);
    check_somaxconn(&self);
    check_buffers(&self);
    check_environment(&self);
    check_port(&self);
    if (rest == 1)
        doctor_peer(&self, argv[0]);
    wh_context_destroy(self.ctx);
    printf("\n%d %s, %d %s\n", self.bad, self.bad == 1 ? "problem" : "problems", self.notes,
           self.notes == 1 ? "note" : "notes");
    return self.bad ? CLI_FAILED : CLI_OK;
}
