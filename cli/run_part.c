// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry run-part`: what each process of a job of several programs begins as.  Its words are, for each program: how many
// processes it has, its folder (empty: this one), the number of its variables, these, the number of its words, these.  The
// process becomes the program that its rank is for.
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/pmi.h"

#define COMMAND "run-part"

enum { NOT_FOUND = 127, NOT_STARTED = 126 };  // as shells have it

typedef struct part {
    long count;
    const char *folder;
    char **env;
    int variables;
    char **argv;
    int words;
} part;

// Reads the program whose words begin at argv[*at], and moves on to the next one.
static bool read_part(int argc, char **argv, int *at, part *one) {
    if (argc - *at < 4)
        return false;
    one->count = atol(argv[*at]);
    one->folder = argv[*at + 1];
    one->variables = atoi(argv[*at + 2]);
    *at += 3;
    one->env = argv + *at;
    if (one->variables < 0 || one->variables >= argc - *at)
        return false;
    *at += one->variables;
    one->words = atoi(argv[*at]);
    *at += 1;
    one->argv = argv + *at;
    if (one->words < 1 || one->words > argc - *at)
        return false;
    *at += one->words;
    return true;
}

// Programs of other MPIs ask the launcher which of them they are.  It has no answer to this, so nothing is read.
static void tell_launcher(int number) {
    const char *fd = getenv("PMI_FD");
    if (fd)
        (void)!dprintf(atoi(fd), "cmd=" PMI_PROGRAM " number=%d\n", number);
}

static int become(const part *one, int number) {
    char text[16];
    if (*one->folder && chdir(one->folder) != 0)
        return cli_complain(COMMAND, CLI_FAILED, "cannot go to %s: %s", one->folder,
                            strerror(errno));
    for (int i = 0; i < one->variables; i++)
        putenv(one->env[i]);
    snprintf(text, sizeof text, "%d", number);
    setenv("WHERRYRUN_APPNUM", text, 1);
    tell_launcher(number);
    one->argv[one->words] = NULL;  // the words of the next program are not needed any more
    execvp(one->argv[0], one->argv);
    int why = errno;
    return cli_complain(COMMAND, why == ENOENT ? NOT_FOUND : NOT_STARTED, "cannot start %s: %s",
                        one->argv[0], strerror(why));
}

int cli_run_part(int argc, char **argv) {
    const char *text = getenv("PMI_RANK");
    long rank = text ? atol(text) : -1;
    int at = 1;
    part one;
    for (int number = 0; rank >= 0 && read_part(argc, argv, &at, &one); number++) {
        if (rank < one.count)
            return become(&one, number);
        rank -= one.count;
    }
    return cli_complain(COMMAND, CLI_USAGE, "it is started by `wherry mpiexec`");
}
