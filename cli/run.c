// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry run`: the options of the launcher, and `wherry run-agent`, which it starts.
#include "cli/cli.h"
#include "cli/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/run/agent.h"
#include "cli/run/launcher.h"

#define COMMAND "run"

enum { KILL_AFTER_MS = 2000, HOSTS_MAX = 4096 };

static struct run_words {
    const char *count, *hosts, *per_host, *bind, *rsh, *output, *trace, *timeout, *kill_after;
    cli_words env;
    bool prefix, dump, no_cleanup;
} opt;

static const cli_option options[] = {
    {"-n", "N", &opt.count, "processes; default 1 for each host, or K"},
    {"-np", "N", &opt.count, NULL},
    {"--hosts", "A,B,..", &opt.hosts, "where; default this host"},
    {"--ppn", "K", &opt.per_host, "processes per host; default N shared out evenly"},
    {"--bind", "WHAT", &opt.bind, "core, numa, none; default core if there are enough"},
    {"--env", "NAME[=VALUE]...", &opt.env, "a variable of the processes; may be given often"},
    {"--rsh", "PROGRAM", &opt.rsh, "reaches other hosts: PROGRAM HOST COMMAND; default ssh"},
    {"--output", "PREFIX", &opt.output, "files PREFIX.RANK.out and .err"},
    {"--trace", "FILE", &opt.trace,
     "a timeline of what programs of Wherry do, for ui.perfetto.dev"},
    {"--prefix", NULL, &opt.prefix, "each line begins with [RANK]"},
    {"--timeout", "TIME", &opt.timeout, "end the job after 30s, 500ms (status 124)"},
    {"--dump", NULL, &opt.dump,
     "at the timeout, and at SIGUSR1, programs of Wherry print what they wait for"},
    {"--no-cleanup", NULL, &opt.no_cleanup,
     "when a process fails, the others go on; the exit code is that of the first"},
    {"--kill-after", "TIME", &opt.kill_after, "from SIGTERM to SIGKILL; default 2s"},
    {NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    COMMAND,
    "[OPTIONS] PROGRAM [ARGUMENTS]",
    "Starts processes of a program that know of each other (PMI-1), here or on several hosts, and ends\n"
    "all of them when one fails.  Its exit code is that of the first process that failed.\n",
    options,
};

static int parse_time(const char *name, const char *text, int64_t standard, int64_t *ms) {
    double seconds;
    *ms = standard;
    if (!text)
        return CLI_GO_ON;
    if (!cli_parse_seconds(text, &seconds))
        return cli_complain(COMMAND, CLI_USAGE, "%s takes a time such as 30s or 500ms, not '%s'",
                            name, text);
    *ms = (int64_t)(seconds * 1000);
    *ms += *ms == 0;
    return CLI_GO_ON;
}

static int parse_count(const char *name, const char *text, int *count) {
    uint64_t value = 0;
    if (text && !cli_parse_uint(text, 1, RUN_RANKS_MAX, &value))
        return cli_complain(COMMAND, CLI_USAGE, "%s takes a number from 1 to %d, not '%s'", name,
                            RUN_RANKS_MAX, text);
    *count = (int)value;
    return CLI_GO_ON;
}

// Cuts a text into words in place; their number, or -1 when they are too many or one is empty.
static int cut(char *text, char separator, char **words, int max) {
    int count = 0;
    for (char *word = text; word; count++) {
        char *end = strchr(word, separator);
        if (end)
            *end++ = '\0';
        if (!*word || count == max)
            return -1;
        words[count] = word;
        word = end;
    }
    words[count] = NULL;
    return count;
}

static int parse_hosts(char **hosts, int *count) {
    static char own[256];
    gethostname(own, sizeof own - 1);
    hosts[0] = own;
    *count = 1;
    if (opt.hosts)
        *count = cut(strdup(opt.hosts), ',', hosts, HOSTS_MAX);
    for (int i = 0; i < *count; i++) {
        if (hosts[i][0] == '-')
            *count = -1;
    }
    if (*count <= 0)
        return cli_complain(COMMAND, CLI_USAGE,
                            "--hosts takes names with commas between, at most %d, not '%s'",
                            HOSTS_MAX, opt.hosts);
    return CLI_GO_ON;
}

static int share(run_options *run, int hosts) {
    int code = parse_count("-n", opt.count, &run->size);
    if (code == CLI_GO_ON)
        code = parse_count("--ppn", opt.per_host, &run->per_host);
    if (code != CLI_GO_ON)
        return code;
    if (!run->size)
        run->size = hosts * (run->per_host ? run->per_host : 1);
    if (!run->per_host)
        run->per_host = (run->size + hosts - 1) / hosts;
    if (run->size > RUN_RANKS_MAX)
        return cli_complain(COMMAND, CLI_USAGE, "%d processes are too many: at most %d", run->size,
                            RUN_RANKS_MAX);
    if ((int64_t)hosts * run->per_host < run->size)
        return cli_complain(COMMAND, CLI_USAGE,
                            "-n %d is more than --ppn %d on each of %d host%s: raise --ppn",
                            run->size, run->per_host, hosts, hosts > 1 ? "s" : "");
    return CLI_GO_ON;
}

// The variables for the processes on all hosts: the settings of this library, and those that --env names.
static int gather_env(run_options *run) {
    static char **env;
    int count = 0, own = 0;
    while (environ[own])
        own++;
    run->env = env = calloc((size_t)(own + opt.env.count) + 4, sizeof *env);
    if (!env)
        return cli_complain(COMMAND, CLI_FAILED, "out of memory");
    for (int i = 0; i < own; i++) {
        if (strncmp(environ[i], "WHERRY_", 7) == 0)
            env[count++] = environ[i];
    }
    for (int i = 0; i < opt.env.count; i++) {
        const char *word = opt.env.words[i], *value = getenv(word);
        size_t name = strcspn(word, "=");
        if (name == 0)
            return cli_complain(COMMAND, CLI_USAGE, "--env takes NAME=VALUE, not '%s'", word);
        if (word[name] == '=')
            env[count++] = (char *)word;
        else if (!value)
            return cli_complain(COMMAND, CLI_USAGE, "--env %s: there is no such variable here",
                                word);
        else if (asprintf(&env[count++], "%s=%s", word, value) < 0)
            return cli_complain(COMMAND, CLI_FAILED, "out of memory");
    }
    static char dump[] = "WHERRY_SIGUSR1_DUMP=yes";
    if (opt.dump)
        env[count++] = dump;
    static char no_cleanup[] = "WHERRYRUN_NO_CLEANUP=yes";
    if (opt.no_cleanup)
        env[count++] = no_cleanup;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (opt.trace && asprintf(&env[count], "WHERRYRUN_TRACE_START=%lld%09ld", (long long)now.tv_sec,
                              now.tv_nsec) < 0)
        return cli_complain(COMMAND, CLI_FAILED, "out of memory");
    return CLI_GO_ON;
}

// check_virtual: each process would say so for itself.
static int check_virtual(const run_options *run) {
    static const char name[] = "WHERRY_MPI_VP=";
    for (int i = 0; i < opt.env.count; i++) {
        const char *word = opt.env.words[i];
        if (strncmp(word, name, sizeof name - 1) == 0 && atoi(word + sizeof name - 1) < run->size)
            return cli_complain(COMMAND, CLI_USAGE,
                                "%d ranks cannot be dealt out to %d processes: ask for more",
                                atoi(word + sizeof name - 1), run->size);
    }
    return CLI_GO_ON;
}

static int parse_words(run_options *run) {
    static char *rsh[64 + 1];
    int code = parse_time("--timeout", opt.timeout, 0, &run->timeout_ms);
    if (code == CLI_GO_ON)
        code = parse_time("--kill-after", opt.kill_after, KILL_AFTER_MS, &run->kill_after_ms);
    if (code != CLI_GO_ON)
        return code;
    int bind = opt.bind ? cli_one_of(RUN_BIND_WORDS, opt.bind) : RUN_BIND_AUTO;
    if (bind < 0 || (opt.bind && bind == RUN_BIND_AUTO))
        return cli_complain(COMMAND, CLI_USAGE, "--bind is core, numa or none, not '%s'", opt.bind);
    run->bind = (run_bind)bind;
    if (opt.rsh && cut(strdup(opt.rsh), ' ', rsh, 64) < 0)
        return cli_complain(COMMAND, CLI_USAGE,
                            "--rsh takes a program and its arguments, one blank between, not '%s'",
                            opt.rsh);
    run->rsh = opt.rsh ? rsh : NULL;
    if (opt.output && !*opt.output)
        return cli_complain(COMMAND, CLI_USAGE, "--output is empty: it is the beginning of names");
    if (opt.trace && !*opt.trace)
        return cli_complain(COMMAND, CLI_USAGE, "--trace is empty: it is a file's name");
    if (opt.output && opt.prefix)
        return cli_complain(COMMAND, CLI_USAGE, "--output and --prefix exclude each other");
    return CLI_GO_ON;
}

int cli_run(int argc, char **argv) {
    static char *hosts[HOSTS_MAX + 1];
    int rest, host_count;
    int code = cli_parse_program(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    if (rest == 0)
        return cli_complain(COMMAND, CLI_USAGE, "it needs a program to start");
    argv[rest] = NULL;
    run_options run = {.hosts = (const char *const *)hosts,
                       .output = opt.output,
                       .prefix = opt.prefix,
                       .trace = opt.trace,
                       .dump = opt.dump,
                       .no_cleanup = opt.no_cleanup,
                       .argv = argv};
    code = parse_words(&run);
    if (code == CLI_GO_ON)
        code = parse_hosts(hosts, &host_count);
    if (code == CLI_GO_ON && host_count > 0)
        code = share(&run, host_count);
    if (code == CLI_GO_ON)
        code = gather_env(&run);
    if (code == CLI_GO_ON)
        code = check_virtual(&run);
    return code == CLI_GO_ON ? launcher_run(&run) : code;
}

int cli_run_agent(int argc, char **argv) {
    if (argc > 1)
        return cli_complain("run-agent", CLI_USAGE,
                            "it takes no arguments, not '%s': it is started "
                            "by `wherry run`",
                            argv[1]);
    if (isatty(STDIN_FILENO))
        return cli_complain("run-agent", CLI_FAILED, "it is started by `wherry run`");
    return agent_run();
}
