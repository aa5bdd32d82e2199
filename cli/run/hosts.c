// SPDX-License-Identifier: BSD-3-Clause
//
// See hosts.h.  An agent is this same program, here and elsewhere: at the same path.
#include "cli/run/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGENT_COMMAND "run-agent"

enum { RSH_WORDS_MAX = 64, EXEC_FAILED = 127, END_LOOKS = 20, END_LOOK_MS = 10 };

bool hosts_is_here(const char *name) {
    char own[256];
    return strcmp(name, "localhost") == 0 ||
           (gethostname(own, sizeof own) == 0 && strcmp(name, own) == 0);
}

void hosts_mapping(int ranks, int per_host, char *text, size_t size) {
    int full = ranks / per_host, rest = ranks % per_host, used = 0;
    text[0] = '\0';
    if (full)
        used = snprintf(text, size, "(0,%d,%d)", full, per_host);
    if (rest)
        snprintf(text + used, size - (size_t)used, "%s(%d,1,%d)", full ? "," : "", full, rest);
}

// A remote shell gets one text; this program's path is a word of it.
static void quote(const char *path, char *word, size_t size) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-";
    size_t used = 0;
    bool quotes = strspn(path, plain) != strlen(path);
    if (quotes)
        word[used++] = '\'';
    for (; *path && used + 8 < size; path++) {
        if (*path == '\'')
            used += (size_t)snprintf(word + used, size - used, "'\\''");
        else
            word[used++] = *path;
    }
    if (quotes)
        word[used++] = '\'';
    word[used] = '\0';
}

static void become(const run_host *self, char *const *rsh, int fd) {
    static const int groups[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2};
    char path[PATH_MAX], word[2 * PATH_MAX], command[] = AGENT_COMMAND;
    char *words[RSH_WORDS_MAX + 4];
    int count = 0;
    sigset_t none;
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0 || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return;
    path[size] = '\0';
    // What the whole group gets, by Ctrl-C or `timeout`, is the launcher's, which passes it on.  Processes begin without that.
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        signal(groups[i], SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (rsh) {
        quote(path, word, sizeof word);
        while (rsh[count] && count < RSH_WORDS_MAX) {
            words[count] = rsh[count];
            count++;
        }
        words[count++] = (char *)self->name;
        words[count++] = word;
    } else {
        words[count++] = path;
    }
    words[count++] = command;
    words[count] = NULL;
    execvp(words[0], words);
}

bool hosts_start(run_host *self, char *const *rsh) {
    int pair[2], report[2], why = 0;
    if (pipe2(report, O_CLOEXEC) != 0)
        return false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        why = errno;
        close(report[0]);
        close(report[1]);
        errno = why;
        return false;
    }
    self->pid = fork();
    if (self->pid == 0) {
        become(self, rsh, pair[1]);
        why = errno;
        (void)!write(report[1], &why, sizeof why);
        _exit(EXEC_FAILED);
    }
    if (self->pid < 0)
        why = errno;
    close(report[1]);
    close(pair[1]);
    if (self->pid > 0 && read(report[0], &why, sizeof why) < 0)
        why = errno;
    close(report[0]);
    if (why) {
        close(pair[0]);
        errno = why;
        return false;
    }
    self->link = link_open(pair[0], pair[0]);
    return true;
}

void hosts_end_text(const run_host *self, char *text, size_t size) {
    int status;
    snprintf(text, size, "its connection was closed");
    for (int i = 0; i < END_LOOKS; i++) {
        if (waitpid(self->pid, &status, WNOHANG) != self->pid) {
            usleep(END_LOOK_MS * 1000);
            continue;
        }
        if (WIFSIGNALED(status))
            snprintf(text, size, "it was killed by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        else
            snprintf(text, size, "it exited with status %d", WEXITSTATUS(status));
        return;
    }
}
