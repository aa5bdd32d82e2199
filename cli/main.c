// SPDX-License-Identifier: BSD-3-Clause
//
// The `wherry` command: finds the subcommand and lets it do the rest.
//
// A command NAME that is not its own is the program wherry-NAME, wherever PATH leads to it.
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;  // NULL: not shown
} cli_command;

static const cli_command commands[] = {
    {"info", cli_info, "versions, host, lanes, memory kinds, configuration"},
    {"doctor", cli_doctor, "why a lane is or is not used here, and what to change"},
    {"perf", cli_perf, "latency, bandwidth and message rate between two processes"},
    {"send", cli_send, "send files and directories to a receiver"},
    {"recv", cli_recv, "receive files and directories"},
    {"run", cli_run, "start processes that know of each other, here or on several hosts"},
    {"mpiexec", cli_mpiexec, "start an MPI program: run, with the options of MPI's launchers"},
    {"run-agent", cli_run_agent, NULL},  // what `wherry run` starts on each host
    {"run-part", cli_run_part, NULL},    // what processes of several programs begin as
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

enum { OTHER_NAME_MAX = 64 };  // of a program; longer names are no commands that somebody installs

#define OTHER_PREFIX "wherry-"

static void print_help(FILE *file) {
    fprintf(file, "usage: wherry COMMAND [ARGUMENTS]\n\n"
                  "Moves data between any two processes.\n\n"
                  "commands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (commands[i].summary)
            fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file,
            "\n"
            "  wherry COMMAND --help   the arguments of a command\n"
            "  wherry --version        the version of the library\n"
            "  wherry NAME             another NAME: the program wherry-NAME, if there is one,\n"
            "                          as `topo` of the Python package\n\n"
            "Settings come from WHERRY_* variables: `wherry info --config` lists them.\n"
            "Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted.\n");
}

static int say_unknown(const char *name) {
    if (strcmp(name, "topo") == 0)
        fprintf(stderr,
                "wherry: 'topo' comes with the Python package, `pip install .` in the sources, and "
                "wherry-topo is not in PATH; see wherry --help\n");
    else
        fprintf(stderr, "wherry: there is no command '%s'; see wherry --help\n", name);
    return CLI_USAGE;
}

static bool may_be_other(const char *name) {
    size_t length = strlen(name);
    return length > 0 && length < OTHER_NAME_MAX && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

// run_other becomes the program of a command that is not built in.  argv begins with the command's
// name and ends with NULL.  It returns only when there is no such program, or it cannot be started.
static int run_other(char **argv) {
    const char *name = argv[0];
    if (!may_be_other(name))
        return say_unknown(name);
    char program[sizeof OTHER_PREFIX + OTHER_NAME_MAX];
    snprintf(program, sizeof program, OTHER_PREFIX "%s", name);
    argv[0] = program;
    execvp(program, argv);
    // EACCES: of a folder in PATH, most of the time, or of a file that is no program.
    if (errno == ENOENT || errno == EACCES || errno == ENOTDIR)
        return say_unknown(name);
    fprintf(stderr, "wherry: %s cannot be started: %s\n", program, strerror(errno));
    return CLI_FAILED;
}

static int run_help(int argc, char **argv) {
    if (argc < 3) {
        print_help(stdout);
        return CLI_OK;
    }
    char help[] = "--help";
    char *arguments[] = {argv[2], help, NULL};
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[2], commands[i].name) == 0)
            return commands[i].run(2, arguments);
    }
    return run_other(arguments);
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (is_one_of(argv[1], "help", "--help", "-h"))
        return run_help(argc, argv);
    if (is_one_of(argv[1], "version", "--version", "-V")) {
        printf("wherry %s\n", wh_version());
        return CLI_OK;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    return run_other(argv + 1);
}

// Results that did not reach their file, because the disk is full for example, are a failure.
int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN);  // a file that may not be so large is refused, as on a full disk
    int code = run(argc, argv);
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "wherry: standard output could not be written: %s\n",
            errno ? strerror(errno) : "a write failed");
    return code == CLI_OK ? CLI_FAILED : code;
}
