// SPDX-License-Identifier: BSD-3-Clause
//
// See child.h.
//
// The process is made by vfork: a plain fork would write-protect the measured buffers of the parent
// for copy-on-write, and the next repetition would pay a fault for each of their pages.
#include "bench/child.h"

#include "bench/clock.h"
#include "bench/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NO_PROGRAM = 127, GROUPS_MAX = 8 };

// Who leads a group now, 0: nobody; for the handler of a signal.
static _Atomic pid_t leaders[GROUPS_MAX];

// The child's ends of what connects it.
enum { OUT, IN, NONE, ENDS };

// The environment and `extra`, which wins over a former value of the same name.
static char **environment_with(const char *const *extra) {
    size_t have = 0, more = 0;
    while (environ[have])
        have++;
    while (extra && extra[more])
        more++;
    char **all = calloc(have + more + 1, sizeof *all);
    size_t count = 0;
    for (size_t i = 0; all && i < have; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool replaced = false;
        for (size_t j = 0; j < more; j++)
            replaced |= strncmp(environ[i], extra[j], name) == 0;
        if (!replaced)
            all[count++] = environ[i];
    }
    for (size_t j = 0; all && j < more; j++)
        memcpy(&all[count++], &extra[j], sizeof *all);  // execvpe does not write to it
    return all;
}

// In the child, which shares the parent's memory until exec: system calls only.
__attribute__((noreturn)) static void become(const bench_spawn *spawn, char *const *argv,
                                             char *const *env, const int *ends, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || (spawn->group && setpgid(0, 0) != 0))
        _exit(EXIT_NO_PROGRAM);
    dup2(ends[OUT], STDOUT_FILENO);
    if (spawn->quiet)
        dup2(ends[NONE], STDERR_FILENO);
    if (spawn->input)
        dup2(ends[IN], STDIN_FILENO);
    if (bench_pin(spawn->core))
        execvpe(argv[0], argv, env);
    _exit(EXIT_NO_PROGRAM);
}

// A frame of its own for vfork, because the child runs in it until exec.
__attribute__((noinline)) static pid_t launch(const bench_spawn *spawn, char *const *argv,
                                              char *const *env, const int *ends) {
    pid_t parent = getpid();
    pid_t pid = vfork();
    // More than exec is safe here, because `become` makes system calls only and never returns.
    if (pid == 0)
        become(spawn, argv, env, ends, parent);  // NOLINT(clang-analyzer-unix.Vfork)
    return pid;
}

static void close_some(const int *fds, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

// Makes both sides' ends.  The input is a socket, because writing to one that nobody reads does not
// kill.
static bool connect_ends(bench_child *child, int *ends, bool input) {
    int pair[2];
    child->in = child->out = ends[OUT] = ends[IN] = -1;
    ends[NONE] = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (pipe2(pair, O_CLOEXEC) != 0)
        return false;
    child->out = pair[0];
    ends[OUT] = pair[1];
    if (!input)
        return true;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    child->in = pair[0];
    ends[IN] = pair[1];
    return true;
}

// Puts `now` into the list of leaders where `before` stands.
static bool note_leader(pid_t before, pid_t now) {
    for (int i = 0; i < GROUPS_MAX; i++) {
        pid_t expected = before;
        if (atomic_compare_exchange_strong(&leaders[i], &expected, now))
            return true;
    }
    return false;
}

void bench_child_kill_groups(void) {
    for (int i = 0; i < GROUPS_MAX; i++) {
        pid_t leader = atomic_load(&leaders[i]);
        if (leader > 0)
            kill(-leader, SIGKILL);
    }
}

bool bench_child_start(bench_child *child, const bench_spawn *spawn) {
    int ends[ENDS];
    char *const *argv;
    memcpy(&argv, &spawn->argv, sizeof argv);  // execvpe takes it without const for old times' sake
    bool good = connect_ends(child, ends, spawn->input);
    char **env = environment_with(spawn->extra);
    pid_t pid = good && env ? launch(spawn, argv, env, ends) : -1;
    free(env);
    close_some(ends, ENDS);
    child->pid = pid < 0 ? 0 : pid;
    child->group = pid > 0 && spawn->group;
    if (child->group)
        (void)note_leader(0, pid);
    if (pid > 0)
        return true;
    close_some((int[]){child->in, child->out}, 2);
    return false;
}

bool bench_child_write(bench_child *child, const char *text, size_t size) {
    while (size > 0) {
        ssize_t sent = send(child->in, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        text += sent < 0 ? 0 : sent;
        size -= sent < 0 ? 0 : (size_t)sent;
    }
    return true;
}

// Milliseconds left until `deadline`, 0 when it is over.
static int left_ms(uint64_t deadline) {
    uint64_t now = bench_ns();
    return now >= deadline ? 0 : (int)((deadline - now + 999999) / 1000000);
}

static uint64_t deadline_in(int timeout_ms) {
    return bench_ns() + (uint64_t)timeout_ms * 1000000;
}

// One read with a deadline: the number of bytes, 0 at the end, -1 when time is up.
static ssize_t read_some(int fd, char *text, size_t size, uint64_t deadline) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    for (;;) {
        int ready = poll(&wait, 1, left_ms(deadline));
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return -1;
        ssize_t got = ready > 0 ? read(fd, text, size) : -1;
        if (got >= 0 || (ready > 0 && errno != EINTR))
            return got;
    }
}

bool bench_child_line(bench_child *child, char *text, size_t size, int timeout_ms) {
    uint64_t deadline = deadline_in(timeout_ms);
    size_t used = 0;
    while (used + 1 < size) {
        if (read_some(child->out, text + used, 1, deadline) != 1)
            return false;
        if (text[used] == '\n') {
            text[used] = '\0';
            return true;
        }
        used++;
    }
    return false;
}

bool bench_child_output(bench_child *child, char *text, size_t size, int timeout_ms) {
    uint64_t deadline = deadline_in(timeout_ms);
    char scrap[4096];
    size_t used = 0;
    for (;;) {
        bool full = used + 1 >= size;
        ssize_t got = read_some(child->out, full ? scrap : text + used,
                                full ? sizeof scrap : size - 1 - used, deadline);
        if (got <= 0) {
            text[used] = '\0';
            return got == 0;
        }
        used += full ? 0 : (size_t)got;
    }
}

// Whether a process has ended, which still is to be waited for.
static bool has_ended(pid_t pid) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

bool bench_child_runs(const bench_child *child) {
    return child->pid > 0 && !has_ended(child->pid);
}

int bench_child_end(bench_child *child, int timeout_ms) {
    int status = 0;
    if (child->pid <= 0)
        return 0;
    uint64_t deadline = deadline_in(timeout_ms);
    while (!has_ended(child->pid) && left_ms(deadline) > 0)
        usleep(500);
    if (child->group)
        (void)note_leader(child->pid, 0);
    // Nobody else can have its number, or its group's, before it is waited for.
    kill(child->group ? -child->pid : child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    close_some((int[]){child->in, child->out}, 2);
    child->pid = 0;
    child->in = child->out = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
