// SPDX-License-Identifier: BSD-3-Clause
//
// The test frame tested with itself: each case runs a child whose checks fail, and looks at its
// end.
#include "base/test.h"

#include <sys/wait.h>

// Runs `fn` as the only test of a fresh runner in a child without output; returns its exit status,
// or -1 when a signal ended it.
static int run_alone(void (*fn)(void)) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        whi_test alone = {"alone", fn, NULL};
        memset(&whi_tests, 0, sizeof(whi_tests));
        whi_test_add(&alone);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(2);
        _exit(whi_test_main(""));
    }
    int status;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void passes(void) {
    CHECK(1 + 1 == 2);
    CHECK_EQ_INT(-1, -1);
    CHECK_EQ_STR("a", "a");
    CHECK_MEM("abc", "abd", 2);
}

static void fails_check(void) {
    CHECK(1 + 1 == 3);
}

static void fails_int(void) {
    CHECK_EQ_INT(1, 2);
}

static void fails_str(void) {
    CHECK_EQ_STR("a", "b");
}

static void fails_null(void) {
    const char *none = NULL;
    CHECK_EQ_STR(none, "b");
}

static void fails_mem(void) {
    CHECK_MEM("abc", "abd", 3);
}

static void fails_deep(void) {
    fails_check();
    _exit(0);  // not reached: a failure ends the whole test
}

static void skips(void) {
    SKIP("nothing to do");
}

// A child that fails must not go on as a second runner.
static void fails_in_child(void) {
    pid_t pid = fork();
    if (!pid) {
        CHECK(0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void *check_false(void *arg) {
    CHECK(0);
    return arg;
}

static void fails_on_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, check_false, NULL);
    pthread_join(thread, NULL);
}

TEST(passing) {
    CHECK_EQ_INT(run_alone(passes), 0);
}

TEST(failing) {
    CHECK_EQ_INT(run_alone(fails_check), 1);
    CHECK_EQ_INT(run_alone(fails_int), 1);
    CHECK_EQ_INT(run_alone(fails_str), 1);
    CHECK_EQ_INT(run_alone(fails_null), 1);
    CHECK_EQ_INT(run_alone(fails_mem), 1);
    CHECK_EQ_INT(run_alone(fails_deep), 1);
}

TEST(skipping) {
    CHECK_EQ_INT(run_alone(skips), 77);
}

TEST(other_processes_and_threads) {
    CHECK_EQ_INT(run_alone(fails_in_child), 0);
    CHECK_EQ_INT(run_alone(fails_on_thread), -1);
}

TEST(tests_are_registered_in_file_order) {
    CHECK_EQ_STR(whi_tests.first->name, "passing");
    CHECK_EQ_STR(whi_tests.first->next->name, "failing");
}

TEST_MAIN()
