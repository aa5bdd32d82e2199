// SPDX-License-Identifier: BSD-3-Clause
//
// See child.h.  A pipe that exec closes tells whether it went well.
#include "cli/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/run/bind.h"

enum {
    EXEC_FAILED = 127,
    PMI_FD = 3,  // one digit, so that a shell can use it
    TRACE_FD,    // of a job with a timeline
};

// The ends of a child that is being started: the agent's are the first, the process's the second.
typedef struct ends {
    int pmi[2], in[2], streams[CHILD_STREAMS][2], exec[2];
} ends;

void child_close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_ends(ends *all) {
    int *fds = (int *)all;
    for (size_t i = 0; i < sizeof *all / sizeof *fds; i++)
        child_close_fd(&fds[i]);
}

static void swap(int pair[2]) {
    int first = pair[0];
    pair[0] = pair[1];
    pair[1] = first;
}

int child_files(int count, bool trace) {
    enum { OWN = 5, PAIRS = 5, KEPT = 3 };  // the standard ones, of signals, memory; pmi, out, err
    int last = trace ? TRACE_FD : PMI_FD;
    int starting = 2 * (PAIRS + trace) + last + 2;  // the numbers above the last, and the error's
    return OWN + (count - 1) * (KEPT + trace) + starting;
}

bool child_wants_trace(char *const *env) {
    static const char name[] = "WHERRYRUN_TRACE_START=";
    for (; *env; env++)
        if (strncmp(*env, name, sizeof name - 1) == 0)
            return true;
    return false;
}

static bool open_ends(ends *all, bool input, bool trace) {
    memset(all, 0xff, sizeof *all);
    bool good = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, all->pmi) == 0;
    if (input) {
        good = good && pipe2(all->in, O_CLOEXEC) == 0;
        swap(all->in);
    } else {
        good = good && (all->in[1] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;
    }
    for (int i = 0; i < CHILD_STREAMS; i++)
        good = good && ((i == CHILD_TRACE && !trace) || pipe2(all->streams[i], O_CLOEXEC) == 0);
    return good && pipe2(all->exec, O_CLOEXEC) == 0;
}

// ---- In the new process.

static void set_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

// Memory that all ranks of the job share, where all are here: what they write is there as long as the agent.  It has its size from here, since a rank
// may have a limit of its own (ulimit -f).
enum { MEMORY_SIZE = 4 << 20 };
static int memory = -1;

static void make_memory(const run_job *job) {
    if (memory >= 0 || job->count != job->size || job->count == 1)
        return;
    memory = memfd_create("wherry-ranks", MFD_CLOEXEC);
    if (memory >= 0 && ftruncate(memory, MEMORY_SIZE)) {
        close(memory);
        memory = -1;
    }
}

// What another launcher has said to this one is not for its processes.
static void forget_launchers(void) {
    static const char *const prefixes[] = {"PMI_", "PMIX_", "HYDI_", "MPI_LOCAL", "WHERRYRUN_"};
    for (char **entry = environ; *entry;) {
        size_t i = 0, length = strcspn(*entry, "=");
        while (i < sizeof prefixes / sizeof *prefixes &&
               strncmp(*entry, prefixes[i], strlen(prefixes[i])) != 0)
            i++;
        char name[256];
        if (i == sizeof prefixes / sizeof *prefixes || length >= sizeof name) {
            entry++;
            continue;
        }
        memcpy(name, *entry, length);
        name[length] = '\0';
        unsetenv(name);  // moves the later ones down
    }
}

static void set_environment(const run_job *job, int rank) {
    forget_launchers();
    for (char **entry = job->env; *entry; entry++)
        putenv(*entry);
    set_number("PMI_FD", PMI_FD);
    set_number("PMI_RANK", rank);
    set_number("PMI_SIZE", job->size);
    set_number("MPI_LOCALRANKID", rank - job->first);
    set_number("MPI_LOCALNRANKS", job->count);
    if (memory < 0)
        return;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), memory);
    setenv("MPI_LOCALMEMORY", path, 1);
}

static void reset_signals(void) {
    // The kernel's own call, since the C library does not let go of the signals that its threads use.
    static const char usual[64];  // its struct of zeros: SIG_DFL, no flags, nothing blocked
    enum { KERNEL_SET = 8, SIGNALS = 64 };
    sigset_t none;
    for (int i = 1; i <= SIGNALS; i++)
        (void)syscall(SYS_rt_sigaction, i, usual, NULL, (size_t)KERNEL_SET);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become(ends *all, const run_job *job, int rank, const struct rlimit *files,
                   pid_t agent) {
    cpu_set_t processors;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent)
        _exit(EXEC_FAILED);
    setpgid(0, 0);
    // First numbers above those that are about to be overwritten.
    bool traced = all->streams[CHILD_TRACE][1] >= 0;
    int last = traced ? TRACE_FD : PMI_FD;
    int error_fd = fcntl(all->exec[1], F_DUPFD_CLOEXEC, last + 1);
    int from[TRACE_FD + 1] = {all->in[1], all->streams[CHILD_OUT][1], all->streams[CHILD_ERR][1],
                              all->pmi[1], all->streams[CHILD_TRACE][1]};
    bool good = error_fd >= 0;
    for (int i = 0; i <= last && good; i++)
        good = (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, last + 1)) >= 0;
    for (int i = 0; i <= last; i++)
        good = good && dup2(from[i], i) == i;
    bool inside = good && chdir(job->folder) == 0;
    if (inside) {
        set_environment(job, rank);
        if (traced)
            set_number("WHERRYRUN_TRACE_FD", TRACE_FD);
        if (bind_choose(job->bind, rank - job->first, job->count, &processors))
            sched_setaffinity(0, sizeof processors, &processors);
        setrlimit(RLIMIT_NOFILE, files);
        reset_signals();
        execvp(job->argv[0], job->argv);
    }
    int why = good && !inside ? errno | CHILD_FOLDER : errno;
    (void)!write(error_fd >= 0 ? error_fd : all->exec[1], &why, sizeof why);
    _exit(EXEC_FAILED);
}

// ---- In the agent.

// Waits until the process has become the program, or has not.
static int outcome(int fd) {
    int why = 0;
    ssize_t n;
    do
        n = read(fd, &why, sizeof why);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof why ? why : 0;
}

static int keep(int *fd) {
    int kept = *fd;
    *fd = -1;
    if (kept >= 0)
        fcntl(kept, F_SETFL, fcntl(kept, F_GETFL) | O_NONBLOCK);
    return kept;
}

int child_start(child *self, const run_job *job, int rank, const struct rlimit *files) {
    ends all;
    pid_t agent = getpid(), pid = -1;
    make_memory(job);
    if (open_ends(&all, rank == 0, child_wants_trace(job->env)))
        pid = fork();
    int why = errno;
    if (pid == 0)
        become(&all, job, rank, files, agent);
    if (pid > 0) {
        setpgid(pid, pid);  // whoever of the two comes first
        child_close_fd(&all.exec[1]);
        why = outcome(all.exec[0]);
    }
    if (pid < 0 || why) {
        close_ends(&all);
        return why == EMFILE ? (int)CHILD_FILES | (int)files->rlim_max : why;
    }
    *self = (child){.rank = rank, .pid = pid, .pmi = keep(&all.pmi[0]), .in = keep(&all.in[0])};
    for (int i = 0; i < CHILD_STREAMS; i++)
        self->streams[i] = keep(&all.streams[i][0]);
    close_ends(&all);
    return 0;
}

void child_close(child *self) {
    child_close_fd(&self->pmi);
    child_close_fd(&self->in);
    for (int i = 0; i < CHILD_STREAMS; i++)
        child_close_fd(&self->streams[i]);
    buffer_free(&self->asking);
    buffer_free(&self->answers);
    buffer_free(&self->input);
}
