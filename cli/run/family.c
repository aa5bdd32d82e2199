// SPDX-License-Identifier: BSD-3-Clause
//
// See family.h.  Children are found in /proc: orphans come without a notice.
#include "cli/run/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/text.h"

typedef void (*child_fn)(pid_t pid, pid_t group, void *arg);

// What /proc/PID/stat says: "PID (NAME) STATE PARENT GROUP ..", and a name may contain anything.
static bool read_stat(const char *pid, char *state, int *parent, int *group) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    if (!cli_read_line(path, text, sizeof text))
        return false;
    const char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %c %d %d", state, parent, group) == 3;
}

static void for_each_child(child_fn fn, void *arg) {
    DIR *folder = opendir("/proc");
    if (!folder)
        return;
    const struct dirent *entry;
    while ((entry = readdir(folder))) {
        uint64_t pid;
        char state;
        int parent, group;
        if (cli_parse_uint(entry->d_name, 1, INT32_MAX, &pid) &&
            read_stat(entry->d_name, &state, &parent, &group) && parent == getpid() && state != 'Z')
            fn((pid_t)pid, group, arg);
    }
    closedir(folder);
}

static void add_stranger(pid_t pid, pid_t group, void *arg) {
    family *self = arg;
    (void)group;
    pid_t *more = realloc(self->strangers, (size_t)(self->count + 1) * sizeof *more);
    if (!more)
        return;
    self->strangers = more;
    self->strangers[self->count++] = pid;
}

void family_open(family *self) {
    *self = (family){NULL, 0};
    for_each_child(add_stranger, self);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void family_close(family *self) {
    free(self->strangers);
}

static bool is_stranger(const family *self, pid_t pid) {
    for (int i = 0; i < self->count; i++) {
        if (self->strangers[i] == pid)
            return true;
    }
    return false;
}

struct signalling {
    const family *self;
    int number;
};

static void signal_child(pid_t pid, pid_t group, void *arg) {
    const struct signalling *how = arg;
    if (is_stranger(how->self, pid))
        return;
    kill(group == pid ? -pid : pid, how->number);
}

void family_signal(const family *self, int number) {
    for_each_child(signal_child, &(struct signalling){self, number});
}

pid_t family_reap(int *status) {
    pid_t pid = waitpid(-1, status, WNOHANG | WUNTRACED);
    return pid > 0 ? pid : 0;
}

static void count_child(pid_t pid, pid_t group, void *arg) {
    struct signalling *how = arg;
    (void)group;
    how->number += !is_stranger(how->self, pid);
}

bool family_is_empty(const family *self) {
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return true;
    struct signalling how = {self, 0};
    if (self->count)
        for_each_child(count_child, &how);
    return self->count && !how.number;
}
