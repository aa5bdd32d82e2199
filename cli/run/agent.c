// SPDX-License-Identifier: BSD-3-Clause
//
// See agent.h.  One loop over the launcher, the processes' pipes and their ends.
//
// The agent decides nothing: it tells of each end, and the launcher says when the rest is to end.  When the launcher has
// gone, all processes are killed at once.  Output goes up as far as the launcher has passed on what came before, so that a
// slow reader of the job's output slows the processes down and nothing else.
#include "cli/run/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/run/child.h"
#include "cli/run/family.h"
#include "cli/run/link.h"

enum {
    FDS_PER_CHILD = 2 + CHILD_STREAMS,
    FIXED_POLLS = 3,
    AGAIN_MS = 50,        // until those that a kill has orphaned are killed, too
    LEFT_OVER_MS = 2000,  // for those that the processes have left behind
};

typedef struct agent {
    run_link link;
    family family;
    run_job job;
    uint8_t *job_bytes;  // what job points into
    child *children;
    int started;
    struct rlimit files;  // of descriptors, as this process found it
    int signals;
    uint32_t on_the_way;  // bytes of output that the launcher has not passed on
    bool has_job, ending, lost;
    int64_t kill_at;
    struct pollfd *polls;
    int poll_count;
} agent;

// ---- The end.

static void end_all(agent *self, int64_t grace_ms) {
    if (grace_ms > 0) {
        family_signal(&self->family, SIGTERM);
        family_signal(&self->family, SIGCONT);  // those that are stopped, too
    }
    int64_t at = cli_ms() + grace_ms;
    if (!self->ending || at < self->kill_at)
        self->kill_at = at;
    self->ending = true;
}

static void lose_launcher(agent *self) {
    self->lost = true;
    end_all(self, 0);  // nobody is left to ask
}

// ---- What processes say.

static void send_stream(agent *self, child *one, int which) {
    uint8_t bytes[FRAME_DATA_MAX];
    static const frame_type types[CHILD_STREAMS] = {FRAME_OUT, FRAME_ERR, FRAME_TRACE};
    ssize_t n = read(one->streams[which], bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    frame_write(&self->link.unsent, types[which], (uint32_t)one->rank, bytes,
                n > 0 ? (size_t)n : 0);
    if (n > 0)
        self->on_the_way += (uint32_t)n;
    else
        child_close_fd(&one->streams[which]);
}

static bool may_send(const agent *self) {
    return !self->lost && self->on_the_way <= FRAME_WINDOW - FRAME_DATA_MAX;
}

// One line at a time goes up, and the next when that has its answer.
static void ask_next(agent *self, child *one) {
    size_t size = buffer_size(&one->asking);
    char *line = (char *)buffer_bytes(&one->asking);
    const char *end = size ? memchr(line, '\n', size) : NULL;
    if (one->asked || (!end && size <= FRAME_LINE_MAX))
        return;
    // A line that is too long goes up as far as it may, and is no request there.
    size_t length = end ? (size_t)(end - line) : size;
    frame_write(&self->link.unsent, FRAME_PMI, (uint32_t)one->rank, line,
                length < FRAME_LINE_MAX ? length : FRAME_LINE_MAX);
    one->asked = true;
    buffer_drop(&one->asking, end ? length + 1 : size);
}

static void hear_requests(agent *self, child *one) {
    ssize_t n = read(one->pmi, buffer_reserve(&one->asking, FRAME_LINE_MAX), FRAME_LINE_MAX);
    if (n > 0)
        buffer_extend(&one->asking, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        child_close_fd(&one->pmi);
    ask_next(self, one);
}

// ---- What they are told.

static void give_answers(child *one) {
    ssize_t n =
        send(one->pmi, buffer_bytes(&one->answers), buffer_size(&one->answers), MSG_NOSIGNAL);
    if (n > 0)
        buffer_drop(&one->answers, (size_t)n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        child_close_fd(&one->pmi);
}

static void give_input(agent *self, child *one) {
    size_t size = buffer_size(&one->input);
    if (size && one->in >= 0) {
        ssize_t n = write(one->in, buffer_bytes(&one->input), size);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            child_close_fd(&one->in);  // it takes no more: the rest is for nobody
        else
            size = (size_t)n;
    }
    if (size) {
        buffer_drop(&one->input, size);
        frame_write_number(&self->link.unsent, FRAME_CREDIT, (uint32_t)one->rank, (uint32_t)size);
    }
    if (one->in_over && !buffer_size(&one->input))
        child_close_fd(&one->in);
}

// ---- What the launcher says.

// poll takes no more of them than may be open, counting those that are not.
int agent_files(int count, bool trace) {
    int polls = count * FDS_PER_CHILD + FIXED_POLLS, files = child_files(count, trace);
    return polls > files ? polls : files;
}

static bool start_all(agent *self, const frame *got) {
    if (self->has_job || !(self->job_bytes = malloc(got->size)))
        return false;
    memcpy(self->job_bytes, got->bytes, got->size);
    if (!job_read(self->job_bytes, got->size, &self->job))
        return false;
    self->has_job = true;
    self->children = calloc((size_t)self->job.count, sizeof *self->children);
    self->polls =
        calloc((size_t)self->job.count * FDS_PER_CHILD + FIXED_POLLS, sizeof *self->polls);
    if (!self->children || !self->polls)
        return false;
    if ((rlim_t)agent_files(self->job.count, child_wants_trace(self->job.env)) >
        self->files.rlim_max) {
        frame_write_number(&self->link.unsent, FRAME_REFUSED, (uint32_t)self->job.first,
                           (uint32_t)CHILD_FILES | (uint32_t)self->files.rlim_max);
        return true;
    }
    for (int i = 0; i < self->job.count; i++) {
        int rank = self->job.first + i;
        int why = child_start(&self->children[i], &self->job, rank, &self->files);
        if (why) {
            frame_write_number(&self->link.unsent, FRAME_REFUSED, (uint32_t)rank, (uint32_t)why);
            end_all(self, 0);
            break;
        }
        self->started++;
        frame_write_number(&self->link.unsent, FRAME_STARTED, (uint32_t)rank,
                           (uint32_t)self->children[i].pid);
    }
    return true;
}

static bool is_ours(const agent *self, const frame *got) {
    return got->rank >= (uint32_t)self->job.first &&
           got->rank < (uint32_t)(self->job.first + self->started);
}

static void pass_signal(agent *self, int number) {
    for (int i = 0; i < self->started; i++) {
        if (self->children[i].pid)
            kill(-self->children[i].pid, number);
    }
}

static bool take(agent *self, const frame *got) {
    child *one = self->has_job && is_ours(self, got)
                     ? &self->children[got->rank - (uint32_t)self->job.first]
                     : NULL;
    switch (got->type) {
    case FRAME_JOB: return start_all(self, got);
    case FRAME_PMI:
        if (!one || !one->asked)
            return false;
        one->asked = false;
        buffer_add(&one->answers, got->bytes, got->size);
        ask_next(self, one);
        return true;
    case FRAME_IN:
        if (!one || one->in_over || buffer_size(&one->input) + got->size > FRAME_WINDOW)
            return false;
        buffer_add(&one->input, got->bytes, got->size);
        one->in_over = got->size == 0;
        give_input(self, one);
        return true;
    case FRAME_CREDIT:
        if (frame_number(got) > self->on_the_way)
            return false;
        self->on_the_way -= frame_number(got);
        return true;
    case FRAME_SIGNAL:
        if (frame_number(got) == 0 || frame_number(got) >= NSIG)
            return false;
        pass_signal(self, (int)frame_number(got));
        return true;
    case FRAME_END: end_all(self, frame_number(got)); return true;
    default: return false;
    }
}

static void hear_launcher(agent *self) {
    frame got;
    int more = 0;
    if (!link_fill(&self->link)) {
        lose_launcher(self);
        return;
    }
    while (!self->lost && (more = link_next(&self->link, &got)) > 0) {
        if (!take(self, &got))
            more = -1;
        if (more < 0)
            break;
    }
    if (more < 0) {
        fprintf(stderr, "wherry run-agent: what came is not from `wherry run`, or from another "
                        "version of it; it starts this command by itself\n");
        lose_launcher(self);
    }
}

// ---- Ends of processes.

static child *child_of(agent *self, pid_t pid) {
    for (int i = 0; i < self->started; i++) {
        if (self->children[i].pid == pid)
            return &self->children[i];
    }
    return NULL;
}

static void reap(agent *self) {
    int status;
    pid_t pid;
    while ((pid = family_reap(&status))) {
        child *one = child_of(self, pid);
        if (!one)
            continue;
        if (WIFSTOPPED(status)) {
            frame_write_number(&self->link.unsent, FRAME_STOPPED, (uint32_t)one->rank,
                               (uint32_t)WSTOPSIG(status));
            continue;
        }
        one->pid = 0;
        // What it has said last comes before its end, as far as it may.
        for (int i = 0; i < CHILD_STREAMS; i++) {
            if (one->streams[i] >= 0 && may_send(self))
                send_stream(self, one, i);
        }
        if (one->pmi >= 0)  // and what it has asked for: a good-bye may lie there
            hear_requests(self, one);
        frame_write_number(&self->link.unsent, FRAME_EXITED, (uint32_t)one->rank, (uint32_t)status);
    }
}

static bool all_have_ended(const agent *self) {
    for (int i = 0; i < self->started; i++) {
        if (self->children[i].pid)
            return false;
    }
    return self->has_job;
}

static void do_ends(agent *self) {
    reap(self);
    if (!self->ending && all_have_ended(self) && !family_is_empty(&self->family))
        end_all(self, LEFT_OVER_MS);
    if (self->ending && cli_ms() >= self->kill_at) {
        family_signal(&self->family, SIGKILL);
        self->kill_at = cli_ms() + AGAIN_MS;
        reap(self);
    }
}

// finish sends what is left in the pipes; nobody writes to them any more.  False: later, for the launcher is slow.
static bool finish(agent *self) {
    for (int i = 0; i < self->started; i++) {
        for (int which = 0; which < CHILD_STREAMS; which++) {
            int *fd = &self->children[i].streams[which];
            while (*fd >= 0 && may_send(self)) {
                struct pollfd poll_one = {.fd = *fd, .events = POLLIN};
                // Somebody outside the job may hold its other end.
                if (poll(&poll_one, 1, 0) == 0)
                    child_close_fd(fd);
                else
                    send_stream(self, &self->children[i], which);
            }
            if (*fd >= 0 && !self->lost)
                return false;
        }
    }
    return true;
}

// ---- The loop.

static struct pollfd *add_poll(agent *self, int fd, int events) {
    struct pollfd *added = &self->polls[self->poll_count++];
    *added = (struct pollfd){.fd = events ? fd : -1, .events = (short)events};
    return added;
}

static void set_polls(agent *self) {
    self->poll_count = 0;
    add_poll(self, self->signals, POLLIN);
    add_poll(self, self->link.in, self->lost ? 0 : POLLIN);
    add_poll(self, self->link.out, !self->lost && buffer_size(&self->link.unsent) ? POLLOUT : 0);
    for (int i = 0; i < self->started; i++) {
        child *one = &self->children[i];
        bool answers = buffer_size(&one->answers) > 0;
        add_poll(self, one->pmi, answers ? POLLOUT : one->asked ? 0 : POLLIN);
        add_poll(self, one->in, buffer_size(&one->input) ? POLLOUT : 0);
        for (int which = 0; which < CHILD_STREAMS; which++)
            add_poll(self, one->streams[which], may_send(self) ? POLLIN : 0);
    }
}

static int wait_ms(const agent *self) {
    if (!self->ending)
        return -1;
    int64_t left = self->kill_at - cli_ms();
    return left < 0 ? 0 : left > AGAIN_MS ? AGAIN_MS : (int)left;
}

static void serve_child(agent *self, child *one, const struct pollfd *polls) {
    if (polls[0].revents && one->pmi >= 0) {
        if (buffer_size(&one->answers))
            give_answers(one);
        else
            hear_requests(self, one);
    }
    if (polls[1].revents && one->in >= 0)
        give_input(self, one);
    for (int which = 0; which < CHILD_STREAMS; which++) {
        if (polls[2 + which].revents && one->streams[which] >= 0 && may_send(self))
            send_stream(self, one, which);
    }
}

static void serve_once(agent *self) {
    struct signalfd_siginfo info;
    set_polls(self);
    int served = self->started;
    if (poll(self->polls, (nfds_t)self->poll_count, wait_ms(self)) > 0) {
        if (self->polls[0].revents)
            (void)!read(self->signals, &info, sizeof info);
        for (int i = 0; i < served; i++)
            serve_child(self, &self->children[i], &self->polls[FIXED_POLLS + i * FDS_PER_CHILD]);
        if (self->polls[1].revents)
            hear_launcher(self);
    }
    do_ends(self);
    if (!self->lost && !link_flush(&self->link))
        lose_launcher(self);
}

static void open_agent(agent *self) {
    static struct pollfd first[FIXED_POLLS];
    static const int ignored[] = {SIGINT, SIGQUIT, SIGTSTP, SIGHUP, SIGPIPE};
    sigset_t set;
    *self = (agent){.link = link_open(STDIN_FILENO, STDOUT_FILENO), .polls = first};
    // A terminal's signals are the launcher's, which passes them on.
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    self->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    getrlimit(RLIMIT_NOFILE, &self->files);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){self->files.rlim_max, self->files.rlim_max});
    family_open(&self->family);
    frame_write(&self->link.unsent, FRAME_HELLO, 0, FRAME_GREETING, sizeof FRAME_GREETING - 1);
}

int agent_run(void) {
    agent self;
    open_agent(&self);
    // Nothing was started, or everything has gone and said its last.
    while (!((self.has_job || self.lost) && family_is_empty(&self.family) && finish(&self)))
        serve_once(&self);
    frame_write(&self.link.unsent, FRAME_GONE, 0, NULL, 0);
    while (!self.lost && buffer_size(&self.link.unsent))
        serve_once(&self);
    for (int i = 0; i < self.started; i++)
        child_close(&self.children[i]);
    free(self.children);
    if (self.has_job) {
        job_free(&self.job);
        free(self.polls);
    }
    free(self.job_bytes);
    buffer_free(&self.link.received);
    buffer_free(&self.link.unsent);
    family_close(&self.family);
    return self.lost ? CLI_FAILED : CLI_OK;
}
