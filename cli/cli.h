// SPDX-License-Identifier: BSD-3-Clause
//
// What the subcommands of `wherry` share: exit codes, options, complaints, interruption.
//
// A subcommand is one function that gets its own arguments, prints results to standard output and
// complaints to standard error, and returns an exit code.  The process has one thread.
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wherry/wherry.h>

enum {
    CLI_OK = 0,
    CLI_FAILED = 1,         // it was tried and did not work
    CLI_USAGE = 2,          // the command line is wrong; nothing was tried
    CLI_INTERRUPTED = 130,  // Ctrl-C, as shells report it
    CLI_GO_ON = -1,         // of cli_parse: no reason to end
};

int cli_perf(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_send(int argc, char **argv);
int cli_recv(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_run_agent(int argc, char **argv);
int cli_mpiexec(int argc, char **argv);
int cli_run_part(int argc, char **argv);

// cli_complain prints "wherry COMMAND: sentence" to standard error and returns `code`.
__attribute__((format(printf, 3, 4))) int cli_complain(const char *command, int code,
                                                       const char *format, ...);

// cli_printable replaces, in place, what would move a terminal's cursor; for text from strangers.
char *cli_printable(char *text);

// The values of an option that may be given often.
enum { CLI_WORDS_MAX = 256 };
typedef struct cli_words {
    const char *words[CLI_WORDS_MAX];
    int count;
} cli_words;

// One option of a subcommand.  With `argument` it takes a value and `target` is a const char **, or a
// cli_words * if the argument ends in "..."; without, it is a switch and `target` is a bool *.
typedef struct cli_option {
    const char *name;      // "--sizes"; the last row has NULL
    const char *argument;  // "LIST", shown in the help
    void *target;
    const char *help;  // one line, NULL: not shown
} cli_option;

typedef struct cli_syntax {
    const char *command;  // "perf"
    const char *usage;    // what follows the name: "[tag|object|am]... [OPTIONS]"
    const char *about;    // some lines for the help
    const cli_option *options;
} cli_syntax;

// cli_parse reads options wherever they stand and moves the other arguments to the front of argv.
// Returns CLI_GO_ON and their number, CLI_OK after --help, or CLI_USAGE after a complaint.
int cli_parse(const cli_syntax *syntax, int argc, char **argv, int *rest);

// cli_parse_program does the same up to the first argument, which is a program with arguments of its own.
int cli_parse_program(const cli_syntax *syntax, int argc, char **argv, int *rest);

// cli_one_of returns the place of `word` in a list such as "spin|wait|adaptive", or -1.
int cli_one_of(const char *list, const char *word);

// cli_context_create makes a context with lanes and progress mode as given on the command line (NULL:
// as configured), an optional secret file, and the largest head of an object that it takes (NULL: as
// configured).  The library has said why when it fails.
wh_status cli_context_create(const char *lane, const char *mode, const char *secret_file,
                             const char *head_max, wh_context **ctx);

// Checks of what several commands are given.  CLI_GO_ON, or CLI_USAGE after a complaint; NULL, where an
// option was not given, is good.  An empty secret is none: a script whose variable is not set must not
// open the door that it meant to lock.
int cli_check_secret(const char *command, const char *secret, const char *secret_file);
int cli_check_lane(const char *command, const char *lane);
int cli_check_address(const char *command, const char *address);  // HOST:PORT

// cli_may_read says whether local processes of one user may read each other's memory here, and why not.
bool cli_may_read(char *text, size_t size);

// cli_parse_timeout reads "30s" or "500ms" into milliseconds; 0 is no limit.
bool cli_parse_timeout(const char *text, uint32_t *ms);

// cli_hold_log keeps the library's last warning or error from being printed, so that a command can make
// it part of its own complaint instead of saying the same twice.  cli_because returns it, once, or the
// text of `status`.  cli_release_log prints what nobody asked for, and lets the log go its usual way.
void cli_hold_log(void);
const char *cli_because(wh_status status);
void cli_release_log(void);

// cli_catch_interrupt makes SIGINT and SIGTERM set cli_interrupted and wake the worker instead of
// ending the process; a second one of a kind ends it at once.  NULL undoes it, before the worker is
// destroyed.
void cli_catch_interrupt(wh_worker *worker);
extern volatile sig_atomic_t cli_interrupted;

#endif
