// SPDX-License-Identifier: BSD-3-Clause
//
// Forked children have another generation and run each callback once; the parent runs none.
#include "base/fork.h"

#include <fcntl.h>

#include "base/test_child.h"

static int calls[3];

static void count(void *arg) {
    ++*(int *)arg;
}

static whi_fork_node nodes[] = {{.fn = count, .arg = &calls[0]},
                                {.fn = count, .arg = &calls[1]},
                                {.fn = count, .arg = &calls[2]}};

static void register_all(void) {
    memset(calls, 0, sizeof(calls));
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(whi_fork_register(&nodes[i]), WH_OK);
}

static void unregister_all(void) {
    for (int i = 0; i < 3; i++)
        whi_fork_unregister(&nodes[i]);
}

static uint32_t generation;

static void expect_one_call_each(void) {
    CHECK(whi_fork_generation() != generation);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(calls[i], 1);
}

TEST(child_runs_callbacks) {
    register_all();
    generation = whi_fork_generation();
    in_child(expect_one_call_each);
    in_child(expect_one_call_each);
    CHECK_EQ_INT(whi_fork_generation(), generation);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(calls[i], 0);
    unregister_all();
}

static void expect_middle_missing(void) {
    CHECK_EQ_INT(calls[0], 1);
    CHECK_EQ_INT(calls[1], 0);
    CHECK_EQ_INT(calls[2], 1);
}

TEST(unregistered_nodes_are_not_called) {
    register_all();
    whi_fork_unregister(&nodes[1]);
    whi_fork_unregister(&nodes[1]);  // again: nothing happens
    in_child(expect_middle_missing);
    unregister_all();
}

static void fork_again(void) {
    uint32_t before = whi_fork_generation();
    generation = before;
    in_child(expect_one_call_each);  // those of the first fork, not repeated by the second
    // The child may register for its own children.
    whi_fork_unregister(&nodes[0]);
    CHECK_EQ_INT(whi_fork_register(&nodes[0]), WH_OK);
    pid_t pid = fork();
    if (!pid)
        _exit(calls[0] == 2 && calls[1] == 1 ? 0 : 1);
    int status;
    CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
    CHECK_EQ_INT(status, 0);
}

TEST(grandchildren) {
    register_all();
    in_child(fork_again);
    unregister_all();
}

static void unregister_next(void *arg) {
    (void)arg;
    whi_fork_unregister(&nodes[1]);
}

static void expect_first_and_last(void) {
    CHECK_EQ_INT(calls[1], 0);
    CHECK_EQ_INT(calls[2], 1);
}

TEST(callback_may_unregister_others) {
    register_all();
    nodes[0].fn = unregister_next;
    in_child(expect_first_and_last);
    nodes[0].fn = count;
    unregister_all();
}

static int ends[2];

static void close_both(void *arg) {
    (void)arg;
    close(ends[0]);
    close(ends[1]);
}

static void expect_closed(void) {
    CHECK_EQ_INT(fcntl(ends[0], F_GETFD), -1);
    CHECK_EQ_INT(fcntl(ends[1], F_GETFD), -1);
}

TEST(descriptors_close_in_the_child_only) {
    CHECK(pipe(ends) == 0);
    whi_fork_node node = {.fn = close_both};
    CHECK_EQ_INT(whi_fork_register(&node), WH_OK);
    in_child(expect_closed);
    CHECK(fcntl(ends[0], F_GETFD) >= 0);
    whi_fork_unregister(&node);
    close_both(NULL);
}

// Forks while other threads register and unregister: the child must find a whole list.
static _Atomic int stop;

static void nothing(void *arg) {
    (void)arg;
}

static void *churn(void *arg) {
    whi_fork_node node = {.fn = nothing};
    while (!stop) {
        if (whi_fork_register(&node) != WH_OK)
            return arg;
        whi_fork_unregister(&node);
    }
    return arg;
}

static void register_in_child(void) {
    whi_fork_node node = {.fn = nothing};
    CHECK_EQ_INT(whi_fork_register(&node), WH_OK);
    whi_fork_unregister(&node);
}

TEST(forking_while_threads_register) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < 50; i++)
        in_child(register_in_child);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

TEST_MAIN()
