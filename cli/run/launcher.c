// SPDX-License-Identifier: BSD-3-Clause
//
// See launcher.h.  One loop over the agents, the signals, standard input and what is to be printed.
//
// The first failure decides how the job ends; from then on the agents end the rest, and what comes of that is not a
// failure any more.  The launcher returns when every agent has said that nothing is left.
#include "cli/run/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "cli/run/agent.h"
#include "cli/run/child.h"
#include "cli/run/family.h"
#include "cli/run/hosts.h"
#include "cli/run/launcher_state.h"

enum {
    CODE_TIMEOUT = 124,
    CODE_NOT_STARTED = 127,
    CODE_SIGNAL = 128,     // and the signal's number
    GREETING_MS = 60000,   // until an agent must have said who it is: somebody may type a password
    GIVE_UP_MS = 5000,     // after the last kill, until an agent counts as lost
    DUMP_MS = 500,         // for processes to print what they wait for
    LAST_WORDS_MS = 1000,  // for output that nobody reads, of a job that was told to end
    FIXED_POLLS = 4,
};

// ---- The end.

// end_all ends what runs; grace 0 kills it.
static void end_all(launcher *self, int64_t grace_ms) {
    for (int i = 0; i < self->host_count; i++) {
        if (!self->hosts[i].gone)
            frame_write_number(&self->hosts[i].link.unsent, FRAME_END, 0, (uint32_t)grace_ms);
    }
    self->give_up_at = cli_ms() + grace_ms + GIVE_UP_MS;
}

// What the job ends with is decided once.
static bool decide(launcher *self, int code) {
    if (self->decided)  // the first one has
        return false;
    self->decided = true;
    self->code = self->code ? self->code : code;
    end_all(self, self->options->kill_after_ms);
    return true;
}

#define FAIL(self, code, ...)                                                                      \
    do {                                                                                           \
        if (decide((self), (code)))                                                                \
            output_say(&(self)->output, __VA_ARGS__);                                              \
    } while (0)

// Of a process that has failed: the others may go on.
#define FAIL_RANK(self, number, ...)                                                               \
    do {                                                                                           \
        if (!(self)->options->no_cleanup) {                                                        \
            FAIL((self), (number), __VA_ARGS__);                                                   \
        } else if (!(self)->decided) {                                                             \
            (self)->code = (self)->code ? (self)->code : (number);                                 \
            output_say(&(self)->output, __VA_ARGS__);                                              \
        }                                                                                          \
    } while (0)

static void lose(launcher *self, run_host *host) {
    if (!host->gone) {
        close(host->link.in);
        self->hosts_left--;
    }
    host->gone = true;
    for (int i = host->first; i < host->first + host->count; i++)
        self->ranks[i].ended = true;
}

static void lose_agent(launcher *self, run_host *host) {
    char why[100];
    if (host->gone)
        return;
    hosts_end_text(host, why, sizeof why);
    lose(self, host);
    if (host->greeted)
        FAIL(self, CLI_FAILED, "the agent on %s was lost, and its processes with it: %s",
             host->name, why);
    else
        FAIL(self, CLI_FAILED, "the agent on %s did not start (see --rsh): %s", host->name, why);
}

static void refuse_agent(launcher *self, run_host *host) {
    char text[64];
    const buffer *got = &host->link.received;
    snprintf(text, sizeof text, "%.*s", (int)(buffer_size(got) < 60 ? buffer_size(got) : 60),
             buffer_size(got) ? (const char *)buffer_bytes(got) : "");
    text[strcspn(text, "\r\n")] = '\0';
    lose(self, host);
    FAIL(self, CLI_FAILED,
         "what came from %s is not from an agent of this version ('%s'): its shell may print "
         "something at login, or another wherry is installed there",
         host->name, cli_printable(text));
}

// ---- The processes.

// on_status: a process has ended with another status than 0.  If it was done with the job, the job has most likely agreed on
// that status, for whichever PE's reason: the others get the time for their last words.
static void on_status(launcher *self, int rank, int status) {
    if (!pmi_is_done(&self->pmi, rank) || self->options->no_cleanup) {
        FAIL_RANK(self, status, "%s exited with status %d", launcher_name(self, rank).text, status);
    } else if (!self->decided && !self->end_at) {
        self->code = status;
        self->end_at = cli_ms() + self->options->kill_after_ms;
        output_say(&self->output, "the job ends with status %d: %s is the first to exit with it",
                   status, launcher_name(self, rank).text);
    }
}

static const char *stack_hint(const launcher *self, int number) {
    return number == SIGSEGV && launcher_virtual(self)
               ? ": if a rank's stack was too small, WHERRY_MPI_STACK=KIB makes it larger"
               : "";
}

static void on_ended(launcher *self, int rank, int status) {
    run_rank *one = &self->ranks[rank];
    one->ended = true;
    pmi_verdict waits = pmi_left(&self->pmi, rank);
    if (self->interrupts && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
        decide(self, CLI_INTERRUPTED);  // as it was asked to
    else if (WIFSIGNALED(status))
        FAIL_RANK(self, CODE_SIGNAL + WTERMSIG(status), "%s was killed by signal %d (%s)%s",
                  launcher_name(self, rank).text, WTERMSIG(status), strsignal(WTERMSIG(status)),
                  stack_hint(self, WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        on_status(self, rank, WEXITSTATUS(status));
    else if (pmi_is_in(&self->pmi, rank))
        FAIL_RANK(
            self, CLI_FAILED,
            "%s has ended without having left the job (MPI_Finalize; of other programs, PMI finalize)",
            launcher_name(self, rank).text);
    else if (waits == PMI_STRANGE)
        FAIL(self, CLI_FAILED, "%s", self->pmi.complaint);
}

static void on_stopped(launcher *self, int rank, int number) {
    if (number != SIGTSTP && !self->decided)
        output_say(&self->output, "%s was stopped by signal %d (%s); SIGCONT lets it go on",
                   launcher_name(self, rank).text, number, strsignal(number));
}

// limit_hint names what to raise, where a system call has run into it.
static const char *limit_hint(int why) {
    return why == EAGAIN ? " (ulimit -u)" : why == EMFILE ? " (ulimit -n)" : "";
}

static void on_refused(launcher *self, int rank, int why) {
    const char *text = strerror(why & ~CHILD_FOLDER);
    const run_host *host = launcher_host(self, rank);
    self->ranks[rank].ended = true;
    if (why & CHILD_FILES)
        FAIL(self, CODE_NOT_STARTED,
             "%s cannot be started: the limit of open files is %d on %s (ulimit -n), and to start "
             "%d processes there takes at least %d",
             self->options->argv[0], why & ~CHILD_FILES, host->name, host->count,
             agent_files(host->count, child_wants_trace(self->options->env)));
    else if (why & CHILD_FOLDER)
        FAIL(self, CODE_NOT_STARTED, "the folder %s cannot be entered on %s: %s", self->folder,
             host->name, text);
    else
        FAIL(self, CODE_NOT_STARTED, "%s cannot be started: %s%s", self->options->argv[0], text,
             limit_hint(why));
}

static void on_request(launcher *self, int rank, const frame *got) {
    char line[FRAME_LINE_MAX + 1];
    for (uint32_t i = 0; i < got->size; i++)
        line[i] = got->bytes[i] ? (char)got->bytes[i] : '?';
    line[got->size] = '\0';
    switch (pmi_line(&self->pmi, rank, line)) {
    case PMI_FINE: return;
    case PMI_ABORT:
        FAIL(self, self->pmi.exit_code, "%s has ended the job with status %d",
             launcher_name(self, rank).text, self->pmi.exit_code);
        return;
    case PMI_STRANGE: FAIL(self, CLI_FAILED, "%s", self->pmi.complaint); return;
    }
}

static void on_answer(int rank, const char *text, size_t size, void *arg) {
    launcher *self = arg;
    run_host *host = launcher_host(self, rank);
    if (!host->gone)
        frame_write(&host->link.unsent, FRAME_PMI, (uint32_t)rank, text, size);
}

static void on_output(launcher *self, run_host *host, int rank, const frame *got) {
    host->owed += got->size;
    if (got->type == FRAME_TRACE)
        trace_add(&self->trace, rank, got->bytes, got->size);
    else
        output_add(&self->output, rank, got->type == FRAME_OUT ? OUTPUT_OUT : OUTPUT_ERR,
                   got->bytes, got->size);
}

// ---- The agents.

static bool take_number(launcher *self, run_host *host, int rank, const frame *got) {
    int number = (int)frame_number(got);
    switch (got->type) {
    case FRAME_STARTED: self->ranks[rank].pid = number; return true;
    case FRAME_REFUSED: on_refused(self, rank, number); return true;
    case FRAME_EXITED: on_ended(self, rank, number); return true;
    case FRAME_STOPPED: on_stopped(self, rank, number); return true;
    case FRAME_CREDIT:
        if (number < 0 || (uint32_t)number > self->input_on_the_way || host != &self->hosts[0])
            return false;
        self->input_on_the_way -= (uint32_t)number;
        return true;
    default: return false;
    }
}

// take does what a frame says; false: no agent says that.
static bool take(launcher *self, run_host *host, const frame *got) {
    int rank = (int)got->rank;
    if (got->type == FRAME_HELLO || !host->greeted) {
        bool first = got->type == FRAME_HELLO && !host->greeted;
        host->greeted |= first;
        return first;
    }
    if (got->type == FRAME_GONE) {
        lose(self, host);
        return true;
    }
    if (got->rank < (uint32_t)host->first || got->rank >= (uint32_t)(host->first + host->count))
        return false;
    if (got->type == FRAME_OUT || got->type == FRAME_ERR || got->type == FRAME_TRACE) {
        on_output(self, host, rank, got);
        return host->owed <= FRAME_WINDOW;
    }
    if (got->type == FRAME_PMI) {
        on_request(self, rank, got);
        return true;
    }
    return take_number(self, host, rank, got);
}

static void hear_agent(launcher *self, run_host *host) {
    bool open = link_fill(&host->link);
    while (!host->gone) {
        frame got;
        int more = link_next(&host->link, &got);
        if (more == 0)
            break;
        if (more < 0 || !take(self, host, &got))
            refuse_agent(self, host);
    }
    if (!open)
        lose_agent(self, host);
}

// What has been printed makes room for more of it.
static void give_credit(launcher *self) {
    if (output_waiting(&self->output) > FRAME_WINDOW)
        return;
    for (int i = 0; i < self->host_count; i++) {
        run_host *host = &self->hosts[i];
        if (host->owed && !host->gone)
            frame_write_number(&host->link.unsent, FRAME_CREDIT, 0, host->owed);
        host->owed = 0;
    }
}

static bool start_agents(launcher *self) {
    const run_options *options = self->options;
    static char ssh[] = "ssh";
    static char *by_ssh[] = {ssh, NULL};
    char *const *rsh = options->rsh ? options->rsh : by_ssh;
    for (int i = 0; i < self->host_count; i++) {
        run_host *host = &self->hosts[i];
        bool here = hosts_is_here(host->name);
        if (!hosts_start(host, here ? NULL : rsh)) {
            int why = errno;
            host->gone = true;
            FAIL(self, CODE_NOT_STARTED, "%s cannot be started: %s%s", here ? "the agent" : rsh[0],
                 strerror(why), limit_hint(why));
            for (; i < self->host_count; i++, self->hosts_left--)
                self->hosts[i].gone = true;
            return false;
        }
        run_job job = {.size = options->size,
                       .first = host->first,
                       .count = host->count,
                       .bind = options->bind,
                       .folder = self->folder,
                       .env = options->env,
                       .argv = options->argv};
        buffer words = {NULL, 0, 0, 0};
        job_write(&words, &job);
        frame_write(&host->link.unsent, FRAME_JOB, 0, buffer_bytes(&words), buffer_size(&words));
        buffer_free(&words);
    }
    return true;
}

// ---- Signals.

static void pass_signal(launcher *self, int number) {
    for (int i = 0; i < self->host_count; i++) {
        if (!self->hosts[i].gone)
            frame_write_number(&self->hosts[i].link.unsent, FRAME_SIGNAL, 0, (uint32_t)number);
    }
}

static void flush_agents(launcher *self) {
    for (int i = 0; i < self->host_count; i++) {
        run_host *host = &self->hosts[i];
        // What it has said before it went is still to be read.
        if (!host->gone && !link_flush(&host->link))
            buffer_drop(&host->link.unsent, buffer_size(&host->link.unsent));
    }
}

static void hear(void *arg, int rank, const char *line, size_t size) {
    launcher *self = arg;
    waits_line(&self->waits, rank, line, size);
}

static void add_silent(launcher *self, const char *(*why)(void *arg, int rank)) {
    int ranks = launcher_virtual(self);
    if (!self->options->output)  // else nothing of what they say comes here
        waits_silent(&self->waits, ranks ? ranks : self->options->size, why, self);
}

// why_absent says why a rank cannot answer: the job has not begun.
static const char *why_absent(void *arg, int rank) {
    const launcher *self = arg;
    const pmi *server = &self->pmi;
    int process = launcher_process(self, rank);
    if (!server->ours || !server->waiting || self->ranks[process].ended)
        return NULL;
    if (pmi_is_waiting(server, process))
        return "waits for all processes (PMI), as in MPI_Init";
    bool begun = pmi_is_in(server, process) || pmi_is_done(server, process);
    return begun ? NULL : "has not joined the job (PMI), as MPI_Init does";
}

// dump has programs of Wherry print what they wait for, and listens to them for a while, in which they are not asked again: `timeout -s USR1`
// sends the signal twice.
static void dump(launcher *self) {
    if (self->told_at)
        return;
    output_listen(&self->output, hear, self);
    self->told_at = cli_ms() + DUMP_MS;
    add_silent(self, why_absent);
    if (!self->waits.count)  // else the signal would end them
        pass_signal(self, SIGUSR1);
}

static void say_wait(void *arg, const char *sentence) {
    launcher *self = arg;
    output_say(&self->output, "%s", sentence);
}

// why_silent says so of a rank whose process has joined the job, and can do what it is asked for.
static const char *why_silent(void *arg, int rank) {
    const launcher *self = arg;
    int process = launcher_process(self, rank);
    bool could = !self->ranks[process].ended && pmi_is_in(&self->pmi, process) &&
                 !pmi_is_waiting(&self->pmi, process);
    return could ? WAITS_SILENT : NULL;
}

static void tell_waits(launcher *self) {
    self->told_at = 0;
    output_listen(&self->output, NULL, NULL);
    add_silent(self, why_silent);
    waits_tell(&self->waits, say_wait, self);
}

// The second request to end is the last: what is left is killed, and output that nobody reads is dropped.  `timeout` sends its signal twice,
// to the command and to the group, which is one request.
static void on_request_to_end(launcher *self, int number) {
    enum { TWICE_MS = 100 };
    int64_t now = cli_ms();
    if (self->interrupts && number == SIGTERM && now - self->asked_at < TWICE_MS)
        return;
    self->asked_at = now;
    if (self->interrupts++) {
        decide(self, CODE_SIGNAL + number);
        end_all(self, 0);
        self->hurry = true;
    } else if (number == SIGINT) {
        pass_signal(self, number);
    } else if (decide(self, CODE_SIGNAL + number)) {
        output_say(&self->output, "ended by signal %d (%s)", number, strsignal(number));
        self->hurry = true;
    }
}

static void on_signal(launcher *self, int number) {
    switch (number) {
    case SIGCHLD: return;  // an agent's end shows in its connection
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
    case SIGQUIT: on_request_to_end(self, number); return;
    case SIGTSTP:
        pass_signal(self, SIGTSTP);
        flush_agents(self);
        raise(SIGSTOP);
        return;
    case SIGUSR1:
        if (self->options->dump)
            dump(self);
        else
            pass_signal(self, number);
        return;
    default: pass_signal(self, number);  // SIGCONT, SIGUSR2
    }
}

// ---- Time.

static void end_for_time(launcher *self) {
    if (self->decided)
        return;
    for (int i = 0; i < self->options->size; i++) {
        if (!self->ranks[i].ended)
            output_say(&self->output, "%s was still there after %g s", launcher_name(self, i).text,
                       (double)self->options->timeout_ms / 1000);
    }
    if (!self->options->dump) {
        output_say(&self->output,
                   "with --dump programs of Wherry print at the timeout what they wait for");
        decide(self, CODE_TIMEOUT);
        self->hurry = true;
        return;
    }
    // It is decided, so that a process which the signal ends has not failed.
    self->decided = true;
    self->code = CODE_TIMEOUT;
    self->dumped_at = cli_ms() + DUMP_MS;
    self->give_up_at = INT64_MAX;
    dump(self);
}

static void end_after_dump(launcher *self) {
    self->dumped_at = 0;
    end_all(self, self->options->kill_after_ms);
    self->hurry = true;
}

static void give_up(launcher *self, const char *why) {
    for (int i = 0; i < self->host_count; i++) {
        run_host *host = &self->hosts[i];
        if (host->gone || (!self->decided && host->greeted))
            continue;
        kill(host->pid, SIGKILL);
        lose(self, host);
        output_say(&self->output, "the agent on %s %s", host->name, why);
    }
    decide(self, CLI_FAILED);
}

static void do_deadlines(launcher *self) {
    int64_t now = cli_ms();
    if (self->timeout_at && now >= self->timeout_at)
        end_for_time(self);
    if (self->told_at && now >= self->told_at)
        tell_waits(self);
    if (self->dumped_at && now >= self->dumped_at)
        end_after_dump(self);
    if (!self->decided && self->end_at && now >= self->end_at)
        (void)decide(self, self->code);
    if (!self->decided && now >= self->greeting_at) {
        self->greeting_at = INT64_MAX;
        for (int i = 0; i < self->host_count; i++) {
            if (!self->hosts[i].greeted) {
                give_up(self, "has said nothing for a minute (see --rsh)");
                break;
            }
        }
    }
    if (self->hurry && !self->hosts_left && !self->hurry_at)
        self->hurry_at = now + LAST_WORDS_MS;
    if (self->decided && self->hosts_left && now >= self->give_up_at)
        give_up(self, "does not answer; processes of the job may be left there");
}

static void earlier(int64_t *at, int64_t other) {
    if (other && other < *at)
        *at = other;
}

static int wait_ms(const launcher *self) {
    int64_t now = cli_ms(), at = INT64_MAX;
    if (!self->decided) {
        earlier(&at, self->timeout_at);
        earlier(&at, self->greeting_at);
        earlier(&at, self->end_at);
    } else {
        earlier(&at, self->hosts_left ? self->give_up_at : 0);
        earlier(&at, self->hurry_at);
        earlier(&at, self->dumped_at);
    }
    earlier(&at, self->told_at);
    if (at == INT64_MAX)
        return -1;
    return at <= now ? 0 : at - now > 60000 ? 60000 : (int)(at - now);
}

// say_unused tells who has asked for virtual ranks of a program that has none: it was linked to another MPI, or to none.
static void say_unused(launcher *self) {
    int ranks = launcher_virtual(self), size = self->options->size;
    if (ranks && !self->pmi.ours && !self->code)
        output_say(
            &self->output,
            "-vp %d was asked for, but no program of this job has used Wherry's MPI library: "
            "%d process%s run, not %d rank%s",
            ranks, size, size > 1 ? "es have" : " has", ranks, ranks > 1 ? "s" : "");
}

// ---- The loop.

static void serve_once(launcher *self) {
    struct pollfd *polls = self->polls;
    struct signalfd_siginfo info;
    flush_agents(self);
    polls[0] = (struct pollfd){.fd = self->signals, .events = POLLIN};
    polls[1] =
        (struct pollfd){.fd = launcher_wants_input(self) ? STDIN_FILENO : -1, .events = POLLIN};
    output_poll(&self->output, &polls[2]);
    for (int i = 0; i < self->host_count; i++) {
        const run_host *host = &self->hosts[i];
        short events = POLLIN | (buffer_size(&host->link.unsent) ? POLLOUT : 0);
        polls[FIXED_POLLS + i] =
            (struct pollfd){.fd = host->gone ? -1 : host->link.in, .events = events};
    }
    if (poll(polls, FIXED_POLLS + (nfds_t)self->host_count, wait_ms(self)) > 0) {
        if (polls[0].revents && read(self->signals, &info, sizeof info) == sizeof info)
            on_signal(self, (int)info.ssi_signo);
        output_flush(&self->output, &polls[2]);
        if (polls[1].revents)
            launcher_read_input(self);
        for (int i = 0; i < self->host_count; i++) {
            if (polls[FIXED_POLLS + i].revents & (POLLIN | POLLHUP | POLLERR))
                hear_agent(self, &self->hosts[i]);
        }
    }
    if (self->output.sinks[OUTPUT_OUT].error || self->output.file_error)
        FAIL(self, CLI_FAILED, "the processes' output could not be written: %s",
             strerror(self->output.file_error ? self->output.file_error
                                              : self->output.sinks[OUTPUT_OUT].error));
    give_credit(self);
    do_deadlines(self);
}

int launcher_run(const run_options *options) {
    launcher self;
    char mapping[128];
    hosts_mapping(options->size, options->per_host, mapping, sizeof mapping);
    if (!launcher_open(&self, options))
        return CLI_FAILED;
    if (!pmi_open(&self.pmi, options->size, self.kvs, mapping, on_answer, &self))
        return cli_complain("run", CLI_FAILED, "out of memory");
    self.greeting_at = cli_ms() + GREETING_MS;
    self.timeout_at = options->timeout_ms ? cli_ms() + options->timeout_ms : 0;
    start_agents(&self);
    while (self.hosts_left)
        serve_once(&self);
    output_finish(&self.output);
    do_deadlines(&self);
    say_unused(&self);
    while (output_waiting(&self.output) && !(self.hurry_at && cli_ms() > self.hurry_at))
        serve_once(&self);
    // Of an agent that was lost.
    launcher_end_family(&self);
    if (!trace_close(&self.trace) && self.code == 0)
        self.code =
            cli_complain("run", CLI_FAILED, "%s of --trace could not be written", options->trace);
    launcher_close(&self);
    return self.code;
}
