// SPDX-License-Identifier: BSD-3-Clause
//
// See launcher_state.h.
#include "cli/run/launcher_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/clock.h"

// OWN_FILES: the standard ones, of signals, and the pipe and the pair of sockets of an agent that is being started.
enum { FIXED_POLLS = 4, OWN_FILES = 7, LAST_GRACE_MS = 20, LAST_MS = 1000, LAST_LOOK_MS = 10 };

static int open_signals(void) {
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};
    sigset_t set;
    sigemptyset(&set);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        // A signal that was ignored when the command began stays so: nohup, a job in the background of a script.
        if (sigaction(numbers[i], NULL, &now) != 0 || now.sa_handler != SIG_IGN)
            sigaddset(&set, numbers[i]);
    }
    sigprocmask(SIG_SETMASK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Descriptors 0 to 2 must exist, or others would get their numbers.
static void open_standard(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
        fcntl(fd, F_SETFD, 0);
    if (fd > STDERR_FILENO)
        close(fd);
}

static void share_ranks(launcher *self) {
    const run_options *options = self->options;
    for (int i = 0; i < self->host_count; i++) {
        int first = i * options->per_host, rest = options->size - first;
        self->hosts[i] = (run_host){.name = options->hosts[i],
                                    .first = first,
                                    .count = rest < options->per_host ? rest : options->per_host};
    }
}

bool launcher_open(launcher *self, const run_options *options) {
    struct rlimit files;
    int hosts = (options->size + options->per_host - 1) / options->per_host;
    open_standard();
    *self = (launcher){.options = options, .host_count = hosts, .hosts_left = hosts};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && options->output) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < (rlim_t)hosts + OWN_FILES) {
        cli_complain("run", CLI_FAILED,
                     "it cannot begin: the limit of open files is %d (ulimit -n), and %d host%s "
                     "%d",
                     (int)files.rlim_cur, hosts, hosts > 1 ? "s take" : " takes",
                     hosts + OWN_FILES);
        return false;
    }
    // The agents' program, and what has come of processes, are found there.
    if (access("/proc/self/exe", F_OK) != 0) {
        cli_complain("run", CLI_FAILED, "it cannot begin: /proc is not mounted");
        return false;
    }
    snprintf(self->kvs, sizeof self->kvs, "kvs_%d_0", (int)getpid());
    self->folder = getcwd(NULL, 0);
    self->hosts = calloc((size_t)hosts, sizeof *self->hosts);
    self->ranks = calloc((size_t)options->size, sizeof *self->ranks);
    self->polls = calloc((size_t)hosts + FIXED_POLLS, sizeof *self->polls);
    if (!self->folder || !self->hosts || !self->ranks || !self->polls) {
        cli_complain("run", CLI_FAILED, "it cannot begin: %s", strerror(errno));
        return false;
    }
    if (!output_open(&self->output, options->size, options->prefix, options->output)) {
        cli_complain("run", CLI_FAILED, "a file of --output %s cannot be made: %s",
                     options->output ? options->output : "", strerror(errno));
        return false;
    }
    if (!trace_open(&self->trace, options->size, options->trace)) {
        cli_complain("run", CLI_FAILED, "%s of --trace cannot be made: %s", options->trace,
                     strerror(errno));
        return false;
    }
    share_ranks(self);
    self->signals = open_signals();
    family_open(&self->family);
    return true;
}

run_host *launcher_host(const launcher *self, int rank) {
    return &self->hosts[rank / self->options->per_host];
}

int launcher_virtual(const launcher *self) {
    static const char name[] = "WHERRY_MPI_VP=";
    int found = 0;
    for (char **word = self->options->env; *word; word++)
        if (!strncmp(*word, name, sizeof name - 1))
            found = atoi(*word + sizeof name - 1);
    return found >= self->options->size ? found : 0;
}

// first_of is the first rank of a process, as the library deals `ranks` out to `size` processes.
static int first_of(int process, int ranks, int size) {
    int more = ranks % size;
    return process * (ranks / size) + (process < more ? process : more);
}

int launcher_process(const launcher *self, int rank) {
    int ranks = launcher_virtual(self), process = 0;
    if (!ranks)
        return rank;
    while (first_of(process + 1, ranks, self->options->size) <= rank)
        process++;
    return process;
}

launcher_words launcher_name(const launcher *self, int rank) {
    launcher_words words;
    const char *host = launcher_host(self, rank)->name;
    int pid = self->ranks[rank].pid, ranks = launcher_virtual(self), size = self->options->size;
    int first = first_of(rank, ranks, size), last = first_of(rank + 1, ranks, size) - 1;
    if (!ranks)
        snprintf(words.text, sizeof words.text, "rank %d (pid %d on %s)", rank, pid, host);
    else if (first == last)
        snprintf(words.text, sizeof words.text, "process %d (rank %d, pid %d on %s)", rank, first,
                 pid, host);
    else
        snprintf(words.text, sizeof words.text, "process %d (ranks %d-%d, pid %d on %s)", rank,
                 first, last, pid, host);
    return words;
}

// ---- Standard input.

// A terminal whose foreground belongs to another job would stop this one.
static bool may_read(void) {
    pid_t foreground = tcgetpgrp(STDIN_FILENO);
    return foreground < 0 || foreground == getpgrp();
}

bool launcher_wants_input(const launcher *self) {
    return !self->input_over && !self->decided && self->ranks[0].pid && !self->ranks[0].ended &&
           self->input_on_the_way <= FRAME_WINDOW - FRAME_DATA_MAX && may_read();
}

void launcher_read_input(launcher *self) {
    uint8_t bytes[FRAME_DATA_MAX];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        self->input_over = true;
    else
        self->input_on_the_way += (uint32_t)n;
    frame_write(&self->hosts[0].link.unsent, FRAME_IN, 0, bytes, n > 0 ? (size_t)n : 0);
}

// ---- The end.

// Until a child ends, but not for long: that of an earlier one may have been taken by signalfd.
static void await_child(void) {
    struct timespec most = {.tv_nsec = LAST_LOOK_MS * 1000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    (void)sigtimedwait(&set, NULL, &most);
}

void launcher_end_family(launcher *self) {
    int status;
    for (int64_t begin = cli_ms(), now = begin;
         now - begin < LAST_MS && !family_is_empty(&self->family); now = cli_ms()) {
        // An agent that has said its last ends by itself.
        if (now - begin >= LAST_GRACE_MS)
            family_signal(&self->family, SIGKILL);
        await_child();
        while (family_reap(&status))
            continue;
    }
}

void launcher_close(launcher *self) {
    output_close(&self->output);
    pmi_close(&self->pmi);
    for (int i = 0; i < self->host_count; i++) {
        buffer_free(&self->hosts[i].link.received);
        buffer_free(&self->hosts[i].link.unsent);
    }
    family_close(&self->family);
    free(self->hosts);
    free(self->ranks);
    free(self->polls);
    free(self->folder);
}
