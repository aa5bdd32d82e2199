// SPDX-License-Identifier: BSD-3-Clause
//
// The `wherry` command: finds the subcommand and lets it do the rest.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} cli_command;

static const cli_command commands[] = {
    {"info", cli_info, "versions, host, lanes, memory kinds, configuration"},
    {"doctor", cli_doctor, "why a lane is or is not used here, and what to change"},
    {"perf", cli_perf, "latency, bandwidth and message rate between two processes"},
    {"send", cli_send, "send files and directories to a receiver"},
    {"recv", cli_recv, "receive files and directories"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_help(FILE *file) {
    fprintf(file, "usage: wherry COMMAND [ARGUMENTS]\n\n"
                  "Moves data between any two processes.\n\n"
                  "commands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(file, "\n"
                  "  wherry COMMAND --help   the arguments of a command\n"
                  "  wherry --version        the version of the library\n\n"
                  "Settings come from WHERRY_* variables: `wherry info --config` lists them.\n"
                  "Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted.\n");
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
    fprintf(stderr, "wherry: there is no command '%s'; see wherry --help\n", argv[2]);
    return CLI_USAGE;
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
    fprintf(stderr, "wherry: there is no command '%s'; see wherry --help\n", argv[1]);
    return CLI_USAGE;
}

// Results that did not reach their file, because the disk is full for example, are a failure.
int main(int argc, char **argv) {
    int code = run(argc, argv);
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "wherry: standard output could not be written: %s\n",
            errno ? strerror(errno) : "a write failed");
    return code == CLI_OK ? CLI_FAILED : code;
}
