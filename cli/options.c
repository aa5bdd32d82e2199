// SPDX-License-Identifier: BSD-3-Clause
//
// Options: one table per subcommand is its parser and its help.
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cli_complain(const char *command, int code, const char *format, ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "wherry %s: ", command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (code == CLI_USAGE)
        fprintf(stderr, "; see wherry %s --help", command);
    fputc('\n', stderr);
    return code;
}

char *cli_printable(char *text) {
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    return text;
}

static void print_help(const cli_syntax *syntax) {
    printf("usage: wherry %s %s\n\n%s\n", syntax->command, syntax->usage, syntax->about);
    for (const cli_option *option = syntax->options; option->name; option++) {
        char left[64];
        if (!option->help)
            continue;
        snprintf(left, sizeof left, "%s %s", option->name,
                 option->argument ? option->argument : "");
        printf("  %-22s %s\n", left, option->help);
    }
    printf("  %-22s %s\n", "--help", "this text");
}

// The option that `word` names, up to an equals sign.
static const cli_option *find(const cli_syntax *syntax, const char *word) {
    size_t length = strcspn(word, "=");
    for (const cli_option *option = syntax->options; option->name; option++) {
        if (strlen(option->name) == length && strncmp(word, option->name, length) == 0)
            return option;
    }
    return NULL;
}

static bool may_come_often(const cli_option *option) {
    size_t length = strlen(option->argument);
    return length > 3 && strcmp(option->argument + length - 3, "...") == 0;
}

// Takes the option at argv[*at]; its value may be the next word.
static int take(const cli_syntax *syntax, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    const cli_option *option = find(syntax, word);
    const char *equals = strchr(word, '=');
    const char *command = syntax->command;
    if (!option)
        return cli_complain(command, CLI_USAGE, "there is no option '%s'", word);
    if (!option->argument) {
        if (equals)
            return cli_complain(command, CLI_USAGE, "%s takes no value", option->name);
        *(bool *)option->target = true;
        return CLI_GO_ON;
    }
    if (!equals && *at + 1 >= argc)
        return cli_complain(command, CLI_USAGE, "%s needs a value: %s", option->name,
                            option->argument);
    const char *value = equals ? equals + 1 : argv[++*at];
    if (!may_come_often(option)) {
        *(const char **)option->target = value;
        return CLI_GO_ON;
    }
    cli_words *words = option->target;
    if (words->count == CLI_WORDS_MAX)
        return cli_complain(command, CLI_USAGE, "%s may be given %d times", option->name,
                            CLI_WORDS_MAX);
    words->words[words->count++] = value;
    return CLI_GO_ON;
}

static int parse(const cli_syntax *syntax, int argc, char **argv, bool program, int *rest) {
    bool options_end = false;
    *rest = 0;
    for (int i = 1; i < argc; i++) {
        if (options_end || argv[i][0] != '-' || argv[i][1] == '\0') {
            argv[(*rest)++] = argv[i];
            options_end |= program;
        } else if (strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(syntax);
            return CLI_OK;
        } else {
            int code = take(syntax, argc, argv, &i);
            if (code != CLI_GO_ON)
                return code;
        }
    }
    return CLI_GO_ON;
}

int cli_parse(const cli_syntax *syntax, int argc, char **argv, int *rest) {
    return parse(syntax, argc, argv, false, rest);
}

int cli_parse_program(const cli_syntax *syntax, int argc, char **argv, int *rest) {
    return parse(syntax, argc, argv, true, rest);
}

int cli_one_of(const char *list, const char *word) {
    size_t length = strlen(word);
    for (int place = 0; *list; place++) {
        size_t here = strcspn(list, "|");
        if (here == length && strncmp(list, word, length) == 0)
            return place;
        list += here + (list[here] == '|');
    }
    return -1;
}
