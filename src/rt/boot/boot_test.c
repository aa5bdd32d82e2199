// SPDX-License-Identifier: BSD-3-Clause
//
// Jobs of one, and PMI-1 with a launcher on a thread of this process: an honest one, and one that says what a list says.
#include "rt/boot/boot.h"

#include <sys/socket.h>

#include "base/test_child.h"

// ---- A launcher.

enum { RANKS = 3, STORE = 4096 };

typedef struct launcher {
    int fd[RANKS];           // its ends
    int theirs[RANKS];       // the processes'
    const char *const *say;  // answers in place of honest ones, up to a NULL; then it hangs up
    int vallen_max, aborted;
    char *names[STORE], *values[STORE];
    int stored, waiting;
    pthread_t thread;
} launcher;

static launcher l;

static void answer(int fd, const char *text) {
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static char *word(const char *line, const char *key) {
    const char *at = strstr(line, key);
    return at ? strndup(at + strlen(key), strcspn(at + strlen(key), " \n")) : NULL;
}

static void find(int fd, const char *name) {
    char text[4200];
    for (int i = 0; i < l.stored; i++) {
        if (strcmp(l.names[i], name) == 0) {
            snprintf(text, sizeof(text), "cmd=get_result rc=0 msg=success value=%s\n", l.values[i]);
            answer(fd, text);
            return;
        }
    }
    answer(fd, "cmd=get_result rc=-1 msg=key_not_found\n");
}

static void serve(int fd, const char *line) {
    char text[200];
    if (l.say) {
        if (*l.say)
            answer(fd, *l.say++);
        else
            shutdown(fd, SHUT_RDWR);
    } else if (strcmp(line, "cmd=init pmi_version=1 pmi_subversion=1") == 0) {
        answer(fd, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    } else if (strcmp(line, "cmd=get_maxes") == 0) {
        snprintf(text, sizeof(text), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\n",
                 l.vallen_max);
        answer(fd, text);
    } else if (strcmp(line, "cmd=get_my_kvsname") == 0) {
        answer(fd, "cmd=my_kvsname kvsname=kvs_4711_0\n");
    } else if (strncmp(line, "cmd=put kvsname=kvs_4711_0 key=", 31) == 0) {
        l.names[l.stored] = word(line, "key=");
        l.values[l.stored++] = word(line, "value=");
        answer(fd, "cmd=put_result rc=0 msg=success\n");
    } else if (strncmp(line, "cmd=get kvsname=kvs_4711_0 key=", 31) == 0) {
        char *name = word(line, "key=");
        find(fd, name);
        free(name);
    } else if (strcmp(line, "cmd=barrier_in") == 0) {
        if (++l.waiting == RANKS)
            for (int i = 0; i < RANKS; i++)
                answer(l.fd[i], "cmd=barrier_out\n");
    } else if (strcmp(line, "cmd=finalize") == 0) {
        answer(fd, "cmd=finalize_ack\n");
    } else if (strncmp(line, "cmd=abort exitcode=", 19) == 0) {
        l.aborted = atoi(line + 19);
    } else {
        abort();  // it was asked for nothing that exists
    }
}

static void *run_launcher(void *arg) {
    (void)arg;
    static char line[RANKS][8192];
    size_t used[RANKS] = {0};
    int open = RANKS;
    fd_set set;
    while (open) {
        FD_ZERO(&set);
        for (int i = 0; i < RANKS; i++)
            if (l.fd[i] >= 0)
                FD_SET(l.fd[i], &set);
        CHECK(select(FD_SETSIZE, &set, NULL, NULL, NULL) > 0);
        for (int i = 0; i < RANKS; i++) {
            if (l.fd[i] < 0 || !FD_ISSET(l.fd[i], &set))
                continue;
            ssize_t n = read(l.fd[i], line[i] + used[i], sizeof(line[i]) - used[i]);
            if (n <= 0) {
                close(l.fd[i]);
                l.fd[i] = -1;
                open--;
                continue;
            }
            used[i] += (size_t)n;
            for (char *end; (end = memchr(line[i], '\n', used[i]));) {
                *end = '\0';
                CHECK(end - line[i] < 1023);  // as much as Slurm reads
                serve(l.fd[i], line[i]);
                used[i] -= (size_t)(end + 1 - line[i]);
                memmove(line[i], end + 1, used[i]);
            }
        }
    }
    return NULL;
}

static void launch(const char *const *say, int vallen_max) {
    l = (launcher){.say = say, .vallen_max = vallen_max};
    for (int i = 0; i < RANKS; i++) {
        int pair[2];
        CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        l.fd[i] = pair[0];
        l.theirs[i] = pair[1];
    }
    CHECK_EQ_INT(pthread_create(&l.thread, NULL, run_launcher, NULL), 0);
}

static void be_rank(int rank) {
    char text[16];
    snprintf(text, sizeof(text), "%d", l.theirs[rank]);
    setenv("PMI_FD", text, 1);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("PMI_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", RANKS);
    setenv("PMI_SIZE", text, 1);
}

static void end_launcher(int first) {
    for (int i = first; i < RANKS; i++)
        close(l.theirs[i]);
    pthread_join(l.thread, NULL);
    for (int i = 0; i < l.stored; i++) {
        free(l.names[i]);
        free(l.values[i]);
    }
    unsetenv("PMI_FD");
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
}

// ---- Cases.

TEST(alone) {
    whi_boot *boot;
    char value[8];
    size_t size;
    CHECK_EQ_INT(whi_boot_join(&boot), WH_OK);
    CHECK_EQ_INT(whi_boot_rank(boot), 0);
    CHECK_EQ_INT(whi_boot_size(boot), 1);
    CHECK_EQ_STR(whi_boot_launcher(boot), "none");
    CHECK_EQ_INT(whi_boot_put(boot, "address", "abc", 3), WH_OK);
    CHECK_EQ_INT(whi_boot_exchange(boot), WH_OK);
    CHECK_EQ_INT(whi_boot_get(boot, 0, "address", value, 8, &size), WH_OK);
    CHECK_EQ_INT(size, 3);
    CHECK_MEM(value, "abc", 3);
    CHECK_EQ_INT(whi_boot_get(boot, 0, "address", value, 2, &size), WH_ETRUNCATED);
    CHECK_EQ_INT(whi_boot_get(boot, 0, "other", value, 8, &size), WH_ENOTFOUND);
    CHECK_EQ_INT(whi_boot_get(boot, 1, "address", value, 8, &size), WH_EINVAL);
    whi_boot_leave(boot);
}

static void fill(uint8_t *value, size_t size, int rank) {
    for (size_t i = 0; i < size; i++)
        value[i] = (uint8_t)(i * 7 + i / 256 + (size_t)rank * 31);
}

static const size_t sizes[] = {0, 1, 14, 15, 16, 500, 1024};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void *be_process(void *arg) {
    whi_boot *boot = arg;
    uint8_t value[1024], found[1024];
    char name[16];
    size_t size;
    for (int i = 0; i < SIZES; i++) {
        fill(value, sizes[i], whi_boot_rank(boot));
        snprintf(name, sizeof(name), "v%d", i);
        CHECK_EQ_INT(whi_boot_put(boot, name, value, sizes[i]), WH_OK);
    }
    CHECK_EQ_INT(whi_boot_exchange(boot), WH_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < SIZES; i++) {
            fill(value, sizes[i], rank);
            snprintf(name, sizeof(name), "v%d", i);
            CHECK_EQ_INT(whi_boot_get(boot, rank, name, found, sizeof(found), &size), WH_OK);
            CHECK_EQ_INT(size, sizes[i]);
            CHECK_MEM(found, value, size);
        }
    }
    CHECK_EQ_INT(whi_boot_get(boot, 0, "none", found, sizeof(found), &size), WH_ENOTFOUND);
    CHECK_EQ_INT(whi_boot_get(boot, 0, "v6", found, 1023, &size), WH_ETRUNCATED);
    whi_boot_leave(boot);
    return NULL;
}

static void exchange_with(int vallen_max) {
    whi_boot *boot[RANKS];
    pthread_t thread[RANKS];
    launch(NULL, vallen_max);
    for (int i = 0; i < RANKS; i++) {
        be_rank(i);
        CHECK_EQ_INT(whi_boot_join(&boot[i]), WH_OK);
        CHECK_EQ_INT(whi_boot_rank(boot[i]), i);
        CHECK_EQ_INT(whi_boot_size(boot[i]), RANKS);
        CHECK_EQ_STR(whi_boot_launcher(boot[i]), "PMI-1");
    }
    for (int i = 0; i < RANKS; i++)
        CHECK_EQ_INT(pthread_create(&thread[i], NULL, be_process, boot[i]), 0);
    for (int i = 0; i < RANKS; i++)
        pthread_join(thread[i], NULL);
    end_launcher(RANKS);
}

TEST(processes_know_each_other) {
    exchange_with(4096);  // more than a request may have
    exchange_with(1024);
    exchange_with(64);  // in many parts
    exchange_with(65);
}

TEST(abort_is_told) {
    whi_boot *boot;
    launch(NULL, 1024);
    be_rank(0);
    CHECK_EQ_INT(whi_boot_join(&boot), WH_OK);
    whi_boot_abort(boot, 3);
    whi_boot_leave(boot);
    end_launcher(1);
    CHECK_EQ_INT(l.aborted, 3);
}

#define INIT "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define MAXES "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=100\n"
#define KVS "cmd=my_kvsname kvsname=k\n"
#define VALUE(text) "cmd=get_result rc=0 msg=success value=" text "\n"

TEST(launchers_that_say_strange_things) {
    static const struct {
        const char *say[6];
        wh_status join, get;
    } cases[] = {
        {{NULL}, WH_EPEER, 0},
        {{"cmd=hello\n"}, WH_EPROTOCOL, 0},
        {{"cmd=response_to_init rc=-1\n"}, WH_EPROTOCOL, 0},
        {{"cmd=response_to_init pmi_version=1\n"}, WH_EPROTOCOL, 0},
        {{"\n"}, WH_EPROTOCOL, 0},
        {{INIT}, WH_EPEER, 0},
        {{INIT, "cmd=maxes kvsname_max=256 keylen_max=64\n"}, WH_EPROTOCOL, 0},
        {{INIT, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=-1\n"}, WH_EPROTOCOL, 0},
        {{INIT, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=9x\n"}, WH_EPROTOCOL, 0},
        {{INIT, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=99999999999999999999999\n"},
         WH_EPROTOCOL,
         0},
        {{INIT, MAXES, "cmd=my_kvsname\n"}, WH_EPROTOCOL, 0},
        {{INIT, MAXES, KVS}, WH_OK, WH_EPEER},
        {{INIT, MAXES, KVS, VALUE("2:0aff")}, WH_OK, WH_OK},
        {{INIT, MAXES, KVS, VALUE("2:0af")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("1:0aff")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("2:0aFF")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("0aff")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("-1:")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("99999999999999999999:")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("2:0a"), VALUE("")}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("2:0a"), "cmd=get_result rc=-1\n"}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, "cmd=get_result rc=-1\n"}, WH_OK, WH_ENOTFOUND},
        {{INIT, MAXES, KVS, "cmd=get_result rc=0\n"}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, "cmd=put_result rc=0\n"}, WH_OK, WH_EPROTOCOL},
        {{INIT, MAXES, KVS, VALUE("99:")}, WH_OK, WH_ETRUNCATED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        whi_boot *boot;
        uint8_t value[8] = {0};
        size_t size = 0;
        launch(cases[i].say, 0);
        be_rank(0);
        CHECK_EQ_INT(whi_boot_join(&boot), cases[i].join);
        if (cases[i].join != WH_OK) {
            end_launcher(0);
            continue;
        }
        CHECK_EQ_INT(whi_boot_get(boot, 1, "v", value, sizeof(value), &size), cases[i].get);
        if (cases[i].get == WH_OK)
            CHECK(size == 2 && value[0] == 0x0a && value[1] == 0xff);
        whi_boot_leave(boot);
        end_launcher(0);
    }
}

TEST(environments_that_are_none) {
    static const char *const bad[][3] = {{"x", "0", "1"},  {"", "0", "1"},   {"3", "", "1"},
                                         {"3", "1", "1"},  {"3", "-1", "1"}, {"3", "0", "0"},
                                         {"-3", "0", "1"}, {"3", "0", "1e9"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        whi_boot *boot;
        setenv("PMI_FD", bad[i][0], 1);
        setenv("PMI_RANK", bad[i][1], 1);
        setenv("PMI_SIZE", bad[i][2], 1);
        CHECK_EQ_INT(whi_boot_join(&boot), WH_EINVAL);
    }
    unsetenv("PMI_FD");
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
}

static void join_in_pmix(void) {
    whi_boot *boot;
    setenv("PMIX_NAMESPACE", "job@1", 1);  // of mpirun, which has started the launcher
    setenv("PMIX_RANK", "0", 1);
    CHECK_EQ_INT(whi_boot_join(&boot), WH_OK);
    CHECK_EQ_STR(whi_boot_launcher(boot), "PMI-1");
    whi_boot_leave(boot);
}

TEST(inside_a_launcher_of_another_kind) {
    launch(NULL, 1024);
    be_rank(0);
    in_child(join_in_pmix);
    end_launcher(0);
}

TEST(launchers_that_nobody_can_speak_to) {
    static const struct {
        const char *variable, *value;
        wh_status status;
    } cases[] = {
        {"PMI_FD", "1000", WH_ENOTSUP},
        {"PMI_FD", "0", WH_ENOTSUP},  // a file
        {"PMI_PORT", "node:4711", WH_ENOTSUP},
        {"SLURM_STEP_NUM_TASKS", "2", WH_ENOTSUP},
        {"SLURM_STEP_NUM_TASKS", "1", WH_OK},
        {"SLURM_PROCID", "1", WH_ENOTSUP},
        {"SLURM_NTASKS", "2", WH_OK},
        {"SLURM_PROCID", "0", WH_OK},  // a script of sbatch
        {"PALS_RANKID", "1", WH_ENOTSUP},
        {"PALS_RANKID", "0", WH_OK},
        {"JSM_NAMESPACE_SIZE", "4", WH_ENOTSUP},
        {"JSM_NAMESPACE_SIZE", "1", WH_OK},
        {"FLUX_JOB_SIZE", "2", WH_ENOTSUP},
        {"FLUX_JOB_SIZE", "1", WH_OK},
        {"OMPI_COMM_WORLD_SIZE", "2", WH_ENOTSUP},
        {"OMPI_COMM_WORLD_SIZE", "1", WH_OK},
        {"PMI_SIZE", "2", WH_ENOTSUP},
        {"PMI_SIZE", "1", WH_OK},
    };
    CHECK(freopen("/dev/null", "r", stdin));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        whi_boot *boot;
        if (strcmp(cases[i].variable, "PMI_FD") == 0) {
            setenv("PMI_RANK", "0", 1);
            setenv("PMI_SIZE", "2", 1);
        }
        setenv(cases[i].variable, cases[i].value, 1);
        CHECK_EQ_INT(whi_boot_join(&boot), cases[i].status);
        if (cases[i].status == WH_OK) {
            CHECK_EQ_INT(whi_boot_size(boot), 1);
            whi_boot_leave(boot);
        }
        unsetenv(cases[i].variable);
        unsetenv("PMI_RANK");
        unsetenv("PMI_SIZE");
    }
}

TEST_MAIN()
