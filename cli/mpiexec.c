// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry mpiexec`: `wherry run` for those who type what MPI's other launchers take.
//
// Each option that people use with hydra's or Open MPI's mpiexec either becomes words of `wherry run`, or is one that has nothing
// to say here and is passed over.  Several programs, with a colon between them, become one: `wherry run-part`, which each
// process begins as, and which starts the program that its rank is for.
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/text.h"

#define COMMAND "mpiexec"

enum { PARTS_MAX = 64, LINE_MAX_BYTES = 1024, RANKS_MAX = 1 << 20, WORDS_STEP = 64 };

typedef enum meaning {
    PASS,  // says nothing here
    COUNT,
    EVERY_PAIR,
    EVERY_WORD,
    EVERY_LIST,
    OWN_PAIR,
    OWN_LIST,
    FOLDER,
    HOSTS,
    HOST_FILE,
    PER_HOST,
    PREFIX,
    TIMEOUT,
    BIND,
    OUTPUT,
    SHELL,
    NO_CLEANUP,
    VIRTUAL,
    MOVABLE,
    RESTART,
    KINDS,
    VERSION,
    HELP,
} meaning;

// Names without their dashes: one and two of them mean the same.
static const struct flag {
    const char *name;
    meaning meaning;
    int values;
} flags[] = {
    {"n", COUNT, 1},
    {"np", COUNT, 1},
    {"c", COUNT, 1},
    {"genv", EVERY_PAIR, 2},
    {"x", EVERY_WORD, 1},
    {"genvlist", EVERY_LIST, 1},
    {"env", OWN_PAIR, 2},
    {"envlist", OWN_LIST, 1},
    {"wdir", FOLDER, 1},
    {"wd", FOLDER, 1},
    {"hosts", HOSTS, 1},
    {"host", HOSTS, 1},
    {"H", HOSTS, 1},
    {"f", HOST_FILE, 1},
    {"hostfile", HOST_FILE, 1},
    {"machinefile", HOST_FILE, 1},
    {"ppn", PER_HOST, 1},
    {"perhost", PER_HOST, 1},
    {"npernode", PER_HOST, 1},
    {"N", PER_HOST, 1},
    {"prepend-rank", PREFIX, 0},
    {"l", PREFIX, 0},
    {"tag-output", PREFIX, 0},
    {"timeout", TIMEOUT, 1},
    {"bind-to", BIND, 1},
    {"output-filename", OUTPUT, 1},
    {"launcher-exec", SHELL, 1},
    {"disable-auto-cleanup", NO_CLEANUP, 0},
    {"vp", VIRTUAL, 1},
    {"movable", MOVABLE, 0},
    {"restart", RESTART, 1},
    {"memory-alloc-kinds", KINDS, 1},
    {"version", VERSION, 0},
    {"V", VERSION, 0},
    {"help", HELP, 0},
    {"h", HELP, 0},
    {"genvall", PASS, 0},
    {"envall", PASS, 0},
    {"launcher", PASS, 1},
    {"rmk", PASS, 1},
    {"oversubscribe", PASS, 0},
    {"nooversubscribe", PASS, 0},
    {"use-hwthread-cpus", PASS, 0},
    {"allow-run-as-root", PASS, 0},
    {"report-bindings", PASS, 0},
    {"display-map", PASS, 0},
    {"get-stack-traces", PASS, 0},
    {"q", PASS, 0},
    {"quiet", PASS, 0},
    {"v", PASS, 0},
    {"verbose", PASS, 0},
    {"print-all-exitcodes", PASS, 0},
    {"iface", PASS, 1},
    {"usize", PASS, 1},
    {"map-by", PASS, 1},
    {"rank-by", PASS, 1},
    {"stdin", PASS, 1},
    {"s", PASS, 1},
    {"mca", PASS, 2},
    {"prtemca", PASS, 2},
    {"pmixmca", PASS, 2},
    {"bootstrap", PASS, 1},
};

// One of the programs, of which a command line has one, most of the time.
typedef struct part {
    uint64_t count;  // of processes; 0: not said
    const char *folder;
    cli_words env;
    char **argv;
    int argc;
} part;

// What becomes of the command line.
static struct plan {
    part parts[PARTS_MAX];
    int count;
    char **words;  // of `wherry run`
    int used;
    bool is_virtual, is_movable, restarts;  // its ranks
} plan;

static void print_help(void) {
    printf(
        "usage: mpiexec [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n\n"
        "Starts the processes of an MPI program, and ends all of them when one fails.  Its exit code is\n"
        "that of the first process that failed.  It is `wherry run` with other names for its options.\n\n"
        "  -n, -np N            processes\n"
        "  -genv NAME VALUE     a variable of all processes; -x NAME[=VALUE], -genvlist A,B,..\n"
        "  -env NAME VALUE      a variable of this program's; -envlist A,B,..\n"
        "  -wdir FOLDER         where the processes begin\n"
        "  -hosts A,B,..        where they run; -f FILE has a host in each line\n"
        "  -ppn K               processes per host\n"
        "  -prepend-rank, -l    each line of output begins with [RANK]; with -vp, [PROCESS]\n"
        "  -output-filename P   files P.RANK.out and .err\n"
        "  -bind-to WHAT        core, numa, none\n"
        "  -timeout SECONDS     end the job, after all ranks have printed what they wait for\n"
        "  -vp N                virtual ranks, dealt out to the processes (mpicc -vp links such programs)\n"
        "  -movable             and they can move between processes (mpicc -movable)\n"
        "  -restart FOLDER      go on from a checkpoint of MPIX_Checkpoint\n"
        "  -memory-alloc-kinds K  the kinds of memory that the program will use, as cuda\n"
        "  -disable-auto-cleanup  when a process fails, the others go on\n"
        "  -launcher-exec P     reaches other hosts: P HOST COMMAND; default ssh\n\n"
        "What says nothing here, as --oversubscribe, --allow-run-as-root, --map-by and --mca, is passed\n"
        "over.  Each name may begin with one dash or two.\n");
}

static void say(const char *word) {
    if (plan.used % WORDS_STEP == 0)
        plan.words = reallocarray(plan.words, (size_t)plan.used + WORDS_STEP, sizeof(char *));
    if (!plan.words)
        exit(cli_complain(COMMAND, CLI_FAILED, "out of memory"));
    plan.words[plan.used++] = (char *)word;
}

static void say_two(const char *option, const char *value) {
    say(option);
    say(value);
}

// A text that lives as long as the process: words of a command line.
__attribute__((format(printf, 1, 2))) static char *text_of(const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0)
        exit(cli_complain(COMMAND, CLI_FAILED, "out of memory"));
    return text;
}

// Variables by their names, with commas between, as they are here; those that are not here are none.
static int take_list(part *one, const char *list) {
    char *rest = text_of("%s", list);
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        if (!getenv(name))
            continue;
        if (!one)
            say_two("--env", name);
        else if (one->env.count == CLI_WORDS_MAX)
            return cli_complain(COMMAND, CLI_USAGE, "at most %d variables of a program",
                                CLI_WORDS_MAX);
        else
            one->env.words[one->env.count++] = text_of("%s=%s", name, getenv(name));
    }
    return CLI_GO_ON;
}

// Hosts with their numbers of processes, `a:4,b:4`: the numbers must be one, which becomes --ppn.
static int take_hosts(const char *list) {
    char *rest = text_of("%s", list), *names = text_of("%s", ""), *slots = NULL;
    for (char *name = strsep(&rest, ","); name; name = strsep(&rest, ",")) {
        char *number = strchr(name, ':');
        if (number)
            *number++ = '\0';
        if (number && slots && strcmp(number, slots) != 0)
            return cli_complain(COMMAND, CLI_USAGE,
                                "%s has %s processes and a host before it %s: every host gets as "
                                "many; give the names alone, and -ppn",
                                name, number, slots);
        slots = number ? number : slots;
        names = text_of("%s%s%s", names, *names ? "," : "", name);
    }
    say_two("--hosts", names);
    if (slots)
        say_two("--ppn", slots);
    return CLI_GO_ON;
}

// One line of a file of hosts, `name`, `name:4` or `name slots=4`, as take_hosts has it; NULL: there is none in it.
static char *host_of(char *line) {
    line[strcspn(line, "#\n")] = '\0';
    char *name = strtok(line, " \t"), *word;
    while (name && (word = strtok(NULL, " \t"))) {
        if (strncmp(word, "slots=", 6) == 0)
            return text_of("%s:%s", name, word + 6);
    }
    return name;
}

static int take_host_file(const char *path) {
    char line[LINE_MAX_BYTES], *list = NULL, *host;
    FILE *file = fopen(path, "r");
    if (!file)
        return cli_complain(COMMAND, CLI_FAILED, "cannot read the hosts in %s: %s", path,
                            strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if ((host = host_of(line)))
            list = list ? text_of("%s,%s", list, host) : text_of("%s", host);
    }
    fclose(file);
    return list ? take_hosts(list)
                : cli_complain(COMMAND, CLI_USAGE, "there is no host in %s", path);
}

// word_of returns which of the words, a list that ends with NULL, a text begins with, alone or before a colon; NULL: none.
static const char *word_of(const char *const *words, const char *text) {
    size_t length = strcspn(text, ":");
    while (*words && (strlen(*words) != length || strncmp(text, *words, length) != 0))
        words++;
    return *words;
}

static int take_bind(const char *what) {
    static const char *const known[] = {"core", "numa", "none", NULL};
    // What hydra and Open MPI have besides is not bound to here.
    static const char *const passed[] = {"hwthread", "pu",      "slot",    "socket",  "package",
                                         "l1cache",  "l2cache", "l3cache", "machine", "board",
                                         "rr",       "user",    "map",     NULL};
    const char *word = word_of(known, what);
    if (word)
        say_two("--bind", word);
    else if (!word_of(passed, what))
        return cli_complain(COMMAND, CLI_USAGE, "-bind-to takes core, numa or none, not '%s'",
                            what);
    return CLI_GO_ON;
}

static int take_count(part *one, const char *text) {
    if (cli_parse_uint(text, 1, RANKS_MAX, &one->count))
        return CLI_GO_ON;
    return cli_complain(COMMAND, CLI_USAGE, "-n takes a number of processes, not '%s'", text);
}

static int take_pair(part *one, const char *name, const char *value) {
    if (one->env.count == CLI_WORDS_MAX)
        return cli_complain(COMMAND, CLI_USAGE, "at most %d variables of a program", CLI_WORDS_MAX);
    one->env.words[one->env.count++] = text_of("%s=%s", name, value);
    return CLI_GO_ON;
}

static int take_virtual(const char *text) {
    uint64_t ranks;
    if (!cli_parse_uint(text, 1, RANKS_MAX, &ranks))
        return cli_complain(COMMAND, CLI_USAGE, "-vp takes a number of ranks, not '%s'", text);
    say_two("--env", text_of("WHERRY_MPI_VP=%s", text));
    plan.is_virtual = true;
    return CLI_GO_ON;
}

static int take_restart(const char *folder) {
    say_two("--env", text_of("WHERRY_MPI_RESTART=%s", folder));
    plan.restarts = true;
    return CLI_GO_ON;
}

static int take_every_word(const char *word) {
    if (strchr(word, '=') || getenv(word))
        say_two("--env", word);
    return CLI_GO_ON;
}

static int take(part *one, const struct flag *flag, char **values) {
    switch (flag->meaning) {
    case COUNT: return take_count(one, values[0]);
    case EVERY_PAIR: say_two("--env", text_of("%s=%s", values[0], values[1])); break;
    case EVERY_WORD: return take_every_word(values[0]);
    case EVERY_LIST: return take_list(NULL, values[0]);
    case OWN_PAIR: return take_pair(one, values[0], values[1]);
    case OWN_LIST: return take_list(one, values[0]);
    case FOLDER: one->folder = values[0]; break;
    case HOSTS: return take_hosts(values[0]);
    case HOST_FILE: return take_host_file(values[0]);
    case PER_HOST: say_two("--ppn", values[0]); break;
    case PREFIX: say("--prefix"); break;
    case TIMEOUT: say_two("--timeout", values[0]); break;
    case BIND: return take_bind(values[0]);
    case OUTPUT: say_two("--output", values[0]); break;
    case SHELL: say_two("--rsh", values[0]); break;
    case NO_CLEANUP: say("--no-cleanup"); break;
    case VIRTUAL: return take_virtual(values[0]);
    case MOVABLE: say_two("--env", "WHERRY_MPI_MOVABLE=1"), plan.is_movable = true; break;
    case RESTART: return take_restart(values[0]);
    case KINDS: say_two("--env", text_of("WHERRY_MPI_MEMORY_ALLOC_KINDS=%s", values[0])); break;
    case VERSION: printf("mpiexec (Wherry) %s\n", WH_VERSION_STRING); return CLI_OK;
    case HELP: print_help(); return CLI_OK;
    case PASS: break;
    }
    return CLI_GO_ON;
}

static const struct flag *find(const char *word) {
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, word, length) == 0)
            return &flags[i];
    }
    return NULL;
}

// Takes the option at argv[*at] with its values, and moves on to the next word.
static int take_option(part *one, char **argv, int *at) {
    char *word = argv[*at] + 1 + (argv[*at][1] == '-'), *equals = strchr(word, '=');
    const struct flag *flag = find(word);
    if (!flag)
        return cli_complain(COMMAND, CLI_USAGE, "there is no option '%s'", argv[*at]);
    char **values = argv + *at + 1;
    if (equals) {
        if (flag->values != 1)
            return cli_complain(COMMAND, CLI_USAGE, "-%s takes %s", flag->name,
                                flag->values ? "two words" : "no value");
        equals++;
        *at += 1;
        return take(one, flag, &equals);
    }
    for (int i = 0; i < flag->values; i++) {
        if (!values[i])
            return cli_complain(COMMAND, CLI_USAGE, "-%s needs a value", flag->name);
    }
    *at += 1 + flag->values;
    return take(one, flag, values);
}

// Takes a program with its options, up to a colon or the end.
static int take_part(char **argv, int *at) {
    if (plan.count == PARTS_MAX)
        return cli_complain(COMMAND, CLI_USAGE, "at most %d programs", PARTS_MAX);
    part *one = &plan.parts[plan.count++];
    while (argv[*at] && argv[*at][0] == '-' && argv[*at][1]) {
        int code = take_option(one, argv, at);
        if (code != CLI_GO_ON)
            return code;
    }
    one->argv = argv + *at;
    while (argv[*at] && strcmp(argv[*at], ":") != 0) {
        one->argc++;
        ++*at;
    }
    if (one->argc == 0)
        return cli_complain(COMMAND, CLI_USAGE, "it needs a program to start%s",
                            plan.count > 1 || argv[*at] ? " on each side of a colon" : "");
    *at += argv[*at] != NULL;
    return CLI_GO_ON;
}

static int one_program(void) {
    const part *one = plan.parts;
    if (one->folder && chdir(one->folder) != 0)
        return cli_complain(COMMAND, CLI_FAILED, "cannot go to -wdir %s: %s", one->folder,
                            strerror(errno));
    if (one->count)
        say_two("-n", text_of("%llu", (unsigned long long)one->count));
    for (int i = 0; i < one->env.count; i++)
        say_two("--env", one->env.words[i]);
    for (int i = 0; i < one->argc; i++)
        say(one->argv[i]);
    return CLI_GO_ON;
}

// The words of run-part: for each program its processes, folder, variables and words, with their numbers.
static int several_programs(void) {
    uint64_t all = 0;
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0)
        return cli_complain(COMMAND, CLI_FAILED, "cannot read /proc/self/exe: %s", strerror(errno));
    path[size] = '\0';
    for (int i = 0; i < plan.count; i++) {
        plan.parts[i].count += plan.parts[i].count == 0;
        all += plan.parts[i].count;
    }
    say_two("-n", text_of("%llu", (unsigned long long)all));
    say(text_of("%s", path));
    say("run-part");
    for (int i = 0; i < plan.count; i++) {
        const part *one = &plan.parts[i];
        say(text_of("%llu", (unsigned long long)one->count));
        say(one->folder ? one->folder : "");
        say(text_of("%d", one->env.count));
        for (int j = 0; j < one->env.count; j++)
            say(one->env.words[j]);
        say(text_of("%d", one->argc));
        for (int j = 0; j < one->argc; j++)
            say(one->argv[j]);
    }
    return CLI_GO_ON;
}

int cli_mpiexec(int argc, char **argv) {
    int at = 1, code = CLI_GO_ON;
    say("run");
    say("--dump");  // who has a job that hangs has not thought of it before
    do
        code = take_part(argv, &at);
    while (code == CLI_GO_ON && at < argc);
    if (code == CLI_GO_ON && strcmp(argv[argc - 1], ":") == 0)
        code = cli_complain(COMMAND, CLI_USAGE, "it needs a program to start behind the colon");
    if (code == CLI_GO_ON && plan.is_movable && !plan.is_virtual)
        code = cli_complain(COMMAND, CLI_USAGE,
                            "-movable is for virtual ranks: say with -vp how many there are");
    if (code == CLI_GO_ON && plan.restarts && !plan.is_movable)
        code = cli_complain(COMMAND, CLI_USAGE, "-restart is for ranks that move: say -movable");
    if (code == CLI_GO_ON)
        code = plan.count == 1 ? one_program() : several_programs();
    if (code != CLI_GO_ON)
        return code;
    say(NULL);
    return cli_run(plan.used - 1, plan.words);
}
