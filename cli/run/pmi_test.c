// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the PMI-1 server: what it answers to honest lines and to others.
#include "bench/expect.h"
#include "cli/run/hosts.h"
#include "cli/run/pmi.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

static pmi server;
static char said[RANKS][2048];  // the last answer of each
static int answers;

static void keep(int rank, const char *text, size_t size, void *arg) {
    (void)arg;
    memcpy(said[rank], text, size);
    said[rank][size] = '\0';
    answers++;
}

static void open_server(void) {
    EXPECT(pmi_open(&server, RANKS, "kvs_1", "(0,1,2),(1,1,1)", keep, NULL));
    memset(said, 0, sizeof said);
    answers = 0;
}

static pmi_verdict ask(int rank, const char *text) {
    char *line = strdup(text);
    pmi_verdict verdict = pmi_line(&server, rank, line);
    free(line);
    return verdict;
}

// Whether a line is answered so.
static bool answered(int rank, const char *text, const char *answer) {
    int before = answers;
    said[rank][0] = '\0';
    return ask(rank, text) == PMI_FINE && answers == before + 1 && strcmp(said[rank], answer) == 0;
}

#define INIT "cmd=init pmi_version=1 pmi_subversion=1"
#define WELCOME "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"

static void begin(void) {
    open_server();
    for (int i = 0; i < RANKS; i++)
        EXPECT(answered(i, INIT, WELCOME));
}

static void test_questions(void) {
    open_server();
    EXPECT(answered(0, "cmd=init pmi_version=2 pmi_subversion=0",
                    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n"));
    EXPECT(!pmi_is_in(&server, 0));
    EXPECT(answered(0, INIT, WELCOME) && pmi_is_in(&server, 0));
    EXPECT(
        answered(0, "cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"));
    EXPECT(answered(0, "cmd=get_appnum", "cmd=appnum appnum=0\n"));
    EXPECT(answered(1, "cmd=wherry_program number=7", "") && !pmi_is_in(&server, 1));
    EXPECT(answered(1, INIT, WELCOME) && answered(1, "cmd=get_appnum", "cmd=appnum appnum=7\n"));
    EXPECT(ask(2, "cmd=wherry_program number=-1") == PMI_STRANGE);
    EXPECT(answered(0, "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"));
    EXPECT(answered(0, "cmd=get_universe_size", "cmd=universe_size size=3\n"));
    EXPECT(answered(0, "cmd=get kvsname=kvs_1 key=PMI_process_mapping",
                    "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))\n"));
    EXPECT(answered(0, "cmd=finalize", "cmd=finalize_ack\n") && !pmi_is_in(&server, 0));
    pmi_close(&server);
}

#define PUT(name, value) "cmd=put kvsname=kvs_1 key=" name " value=" value
#define GET(name) "cmd=get kvsname=kvs_1 key=" name
#define STORED "cmd=put_result rc=0 msg=success\n"

static void test_store(void) {
    char line[2048], answer[2048], value[1024];
    begin();
    EXPECT(answered(0, PUT("a", "1:2=3"), STORED));
    EXPECT(answered(2, GET("a"), "cmd=get_result rc=0 msg=success value=1:2=3\n"));
    EXPECT(answered(1, PUT("a", ""), STORED));
    EXPECT(answered(2, GET("a"), "cmd=get_result rc=0 msg=success value=\n"));
    EXPECT(answered(2, GET("b"), "cmd=get_result rc=-1 msg=key_not_found\n"));
    EXPECT(answered(2, GET(""), "cmd=get_result rc=-1 msg=key_not_found\n"));
    EXPECT(answered(2, "cmd=get kvsname=other key=a", "cmd=get_result rc=-1 msg=no_such_store\n"));
    EXPECT(answered(2, "cmd=put kvsname=kvs_1 key=a", "cmd=put_result rc=-1 msg=bad_value\n"));
    EXPECT(answered(2, "cmd=put kvsname=kvs_1 value=a", "cmd=put_result rc=-1 msg=bad_key\n"));
    EXPECT(answered(2, "cmd=put key=a value=a", "cmd=put_result rc=-1 msg=no_such_store\n"));
    // The longest value, and one byte more.
    memset(value, 'x', sizeof value);
    value[1023] = '\0';
    snprintf(line, sizeof line, PUT("long", "%s"), value);
    snprintf(answer, sizeof answer, "cmd=get_result rc=0 msg=success value=%s\n", value);
    EXPECT(answered(0, line, STORED) && answered(0, GET("long"), answer));
    snprintf(line, sizeof line, PUT("long", "%sx"), value);
    EXPECT(answered(0, line, "cmd=put_result rc=-1 msg=bad_value\n"));
    snprintf(line, sizeof line, PUT("%.63s", "1"), value);
    EXPECT(answered(0, line, STORED));
    snprintf(line, sizeof line, PUT("%.64s", "1"), value);
    EXPECT(answered(0, line, "cmd=put_result rc=-1 msg=bad_key\n"));
    pmi_close(&server);
}

static void test_store_is_bounded(void) {
    char line[2048], value[1024];
    begin();
    memset(value, 'x', sizeof value);
    value[1023] = '\0';
    int stored = 0;
    do
        snprintf(line, sizeof line, PUT("k%d", "%s"), stored, value);
    while (stored < 10000 && answered(0, line, STORED) && ++stored);
    EXPECT(strcmp(said[0], "cmd=put_result rc=-1 msg=store_is_full\n") == 0);
    EXPECT(stored > RANKS * 900 && stored <= RANKS * 1024);
    // What is there may be put again.
    EXPECT(answered(0, PUT("k0", "y"), STORED));
    pmi_close(&server);
}

static void test_barrier(void) {
    begin();
    for (int round = 0; round < 2; round++) {
        answers = 0;
        EXPECT(ask(1, "cmd=barrier_in") == PMI_FINE && ask(0, "cmd=barrier_in") == PMI_FINE);
        EXPECT(answers == 0);
        EXPECT(ask(2, "cmd=barrier_in") == PMI_FINE && answers == RANKS);
        for (int i = 0; i < RANKS; i++)
            EXPECT(strcmp(said[i], "cmd=barrier_out\n") == 0);
    }
    EXPECT(ask(1, "cmd=barrier_in") == PMI_FINE);
    EXPECT(ask(1, "cmd=get_maxes") == PMI_STRANGE);  // it waits
    pmi_close(&server);
}

// Those who wait for a process that does not come are not left waiting.
static void test_barrier_in_vain(void) {
    begin();
    EXPECT(ask(1, "cmd=barrier_in") == PMI_FINE && pmi_left(&server, 2) == PMI_STRANGE);
    EXPECT(strstr(server.complaint, "rank 2"));
    pmi_close(&server);
    begin();
    EXPECT(pmi_left(&server, 2) == PMI_FINE && ask(1, "cmd=barrier_in") == PMI_STRANGE);
    pmi_close(&server);
    begin();
    EXPECT(ask(1, "cmd=barrier_in") == PMI_FINE && ask(0, "cmd=finalize") == PMI_STRANGE);
    pmi_close(&server);
}

static void test_abort(void) {
    static const struct {
        const char *line;
        int code;
    } cases[] = {{"cmd=abort exitcode=5", 5},
                 {"cmd=abort", 1},
                 {"cmd=abort exitcode=0", 1},
                 {"cmd=abort exitcode=256", 1},
                 {"cmd=abort exitcode=-7", 1},
                 {"cmd=abort exitcode=259 x=y", 3},
                 {"cmd=abort exitcode=99999999999999999999", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        EXPECT(ask(1, cases[i].line) == PMI_ABORT && server.exit_code == cases[i].code);
        pmi_close(&server);
    }
}

static void test_spawn_is_refused(void) {
    begin();
    EXPECT(answered(0, "mcmd=spawn", "") && answered(0, "nprocs=2", ""));
    EXPECT(answered(0, "cmd=get_maxes", "") && answered(0, "", ""));
    EXPECT(answered(0, "endcmd", "cmd=spawn_result rc=-1 status=-1 msg=not_supported\n"));
    EXPECT(answered(0, "cmd=get_appnum", "cmd=appnum appnum=0\n"));
    EXPECT(answered(0, "cmd=publish_name service=a port=b",
                    "cmd=publish_result rc=-1 msg=not_supported\n"));
    EXPECT(answered(0, "cmd=lookup_name service=a", "cmd=lookup_result rc=-1 msg=not_supported\n"));
    pmi_close(&server);
}

static void test_nonsense(void) {
    static const char *const lines[] = {"",
                                        " ",
                                        "=",
                                        "cmd",
                                        "cmd=",
                                        "cmd=fly",
                                        "xcmd=get_maxes",
                                        "endcmd",
                                        "\x1b[2J\x01",
                                        "cmd=initack pmiid=1"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        begin();
        EXPECT(ask(1, lines[i]) == PMI_STRANGE && answers == RANKS);
        EXPECT(strstr(server.complaint, "rank 1") && !strchr(server.complaint, '\x1b'));
        pmi_close(&server);
    }
    open_server();
    EXPECT(ask(0, "cmd=get_maxes") == PMI_STRANGE);  // before it has begun
    pmi_close(&server);
}

static void test_mapping(void) {
    char text[128];
    hosts_mapping(8, 4, text, sizeof text);
    EXPECT(strcmp(text, "(0,2,4)") == 0);
    hosts_mapping(7, 4, text, sizeof text);
    EXPECT(strcmp(text, "(0,1,4),(1,1,3)") == 0);
    hosts_mapping(3, 4, text, sizeof text);
    EXPECT(strcmp(text, "(0,1,3)") == 0);
}

int main(void) {
    test_questions();
    test_store();
    test_store_is_bounded();
    test_barrier();
    test_barrier_in_vain();
    test_abort();
    test_spawn_is_refused();
    test_nonsense();
    test_mapping();
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
