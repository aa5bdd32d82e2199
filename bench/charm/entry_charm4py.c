// SPDX-License-Identifier: BSD-3-Clause
//
// Half round trips between entries over charm4py's runtime alone, without Python: entry_charm4py CORES SECONDS SIZE...
//
// The runtime is the libcharm.so of charm4py's wheel, which has no headers; run.py compiles this against it.  Element 0 of a
// group calls element 1, which answers with the same bytes.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Of libcharm.so: what charm4py calls, and what it is called back by.
void StartCharmExt(int argc, char **argv);
int CkMyPeHook(void);
int CkNumPesHook(void);
void realCkExit(int code);
void CkRegisterReadonlyExt(const char *name, const char *type, size_t size, char *msg);
void CkRegisterMainChareExt(const char *name, int entries, int *chare, int *first_entry);
void CkRegisterGroupExt(const char *name, int entries, int *chare, int *first_entry);
int CkCreateGroupExt(int chare, int entry, int count, char **buffers, int *sizes);
void CkGroupExtSend(int group, int count, int *pes, int entry, char *msg, int size);
void registerCkRegisterMainModuleCallback(void (*fn)(void));
void registerMainchareCtorExtCallback(void (*fn)(int, void *, int, int, char **));
void registerReadOnlyRecvExtCallback(void (*fn)(int, char *));
void registerGroupMsgRecvExtCallback(void (*fn)(int, int, int, char *, int));

enum { CONSTRUCT = 0, PLAY, ENTRIES };  // of the group, counted from its first one
enum { FIRST_ROUNDS = 8 };              // then twice as many, until they take the seconds asked for

static struct {
    int chare, entry, group;
    const char *cores;
    double seconds;  // of a size
    char **sizes;    // those to come, up to NULL
    char *data;
    int size;
    long rounds, done;
    double *stamps;  // before the first round and after each
} game;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void send_to(int pe, char *data, int size) {
    CkGroupExtSend(game.group, 1, &pe, game.entry + PLAY, data, size);
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void begin_rounds(long rounds) {
    game.stamps = realloc(game.stamps, ((size_t)rounds + 1) * sizeof(double));
    if (!game.stamps) {
        realCkExit(1);
        return;
    }
    game.rounds = rounds;
    game.done = 0;
    game.stamps[0] = now();
    send_to(1, game.data, game.size);
}

static void begin_size(void) {
    game.size = atoi(*game.sizes++);
    free(game.data);
    game.data = calloc((size_t)game.size, 1);
    if (game.data)
        begin_rounds(FIRST_ROUNDS);
    else
        realCkExit(1);
}

// end_rounds prints the median of half a round.
static void end_rounds(void) {
    if (game.stamps[game.rounds] - game.stamps[0] < game.seconds) {
        begin_rounds(2 * game.rounds);
        return;
    }
    for (long i = 0; i < game.rounds; i++)
        game.stamps[i] = game.stamps[i + 1] - game.stamps[i];
    qsort(game.stamps, (size_t)game.rounds, sizeof(double), by_time);
    printf("\"%d\": %.6f%s", game.size, game.stamps[game.rounds / 2] / 2 * 1e6,
           *game.sizes ? ", " : "}}\n");
    fflush(stdout);
    if (*game.sizes)
        begin_size();
    else
        realCkExit(0);
}

static void on_group_msg(int group, int entry, int size, char *msg, int start) {
    (void)start;
    game.group = group;
    if (entry != game.entry + PLAY)
        return;  // it was made
    if (CkMyPeHook() == 1) {
        send_to(0, msg, size);
        return;
    }
    game.stamps[++game.done] = now();
    if (game.done < game.rounds)
        send_to(1, msg, size);
    else
        end_rounds();
}

static void pin(void) {
    int core[2];
    cpu_set_t set;
    if (sscanf(game.cores, "%d,%d", &core[0], &core[1]) != 2)
        return;
    CPU_ZERO(&set);
    CPU_SET(core[CkMyPeHook() % 2], &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void on_register(void) {
    int main_chare, main_entry;
    if (CkMyPeHook() != 0)
        CkRegisterReadonlyExt("none", "none", 0, NULL);
    CkRegisterMainChareExt("main", 1, &main_chare, &main_entry);
    CkRegisterGroupExt("player", ENTRIES, &game.chare, &game.entry);
    pin();
}

static void on_main(int pe, void *object, int entry, int argc, char **argv) {
    (void)pe, (void)object, (void)entry, (void)argc, (void)argv;
    char nothing[8] = {0}, *buffers[] = {nothing};
    int size = sizeof nothing;
    CkRegisterReadonlyExt("nothing", "nothing", sizeof nothing, nothing);
    if (CkNumPesHook() != 2) {
        realCkExit(1);
        return;
    }
    game.group = CkCreateGroupExt(game.chare, game.entry + CONSTRUCT, 1, buffers, &size);
    printf("{\"entry\": {");
    begin_size();
}

static void on_readonly(int size, char *msg) {
    (void)size;
    (void)msg;
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    game.cores = argv[1];
    game.seconds = atof(argv[2]);
    game.sizes = argv + 3;
    registerCkRegisterMainModuleCallback(on_register);
    registerMainchareCtorExtCallback(on_main);
    registerReadOnlyRecvExtCallback(on_readonly);
    registerGroupMsgRecvExtCallback(on_group_msg);
    StartCharmExt(argc, argv);
    return 0;
}
