// SPDX-License-Identifier: BSD-3-Clause
//
// Registering when the C library has no memory to remember our handlers.
#include <errno.h>
#include <pthread.h>

#include "base/fork.h"
#include "base/test.h"

// Takes the place of the C library's.
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
    (void)prepare, (void)parent, (void)child;
    return ENOMEM;
}

TEST(a_node_that_was_refused_may_be_unregistered) {
    whi_list stranger;
    whi_list_init(&stranger);
    whi_fork_node node = {.link = {&stranger, &stranger}};  // what the memory held before
    stranger = (whi_list){&node.link, &node.link};
    CHECK_EQ_INT(whi_fork_register(&node), WH_ENOMEM);
    whi_fork_unregister(&node);
    CHECK(stranger.next == &node.link && stranger.prev == &node.link);
}

TEST_MAIN()
