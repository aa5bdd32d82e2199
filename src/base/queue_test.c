// SPDX-License-Identifier: BSD-3-Clause
//
// Queues: first in, first out, also after they have been empty.
#include "base/queue.h"

#include "base/test.h"

typedef struct item {
    int number;
    whi_queue_node node;
} item;

static int number(whi_queue_node *node) {
    return node ? whi_container_of(node, item, node)->number : -1;
}

TEST(first_in_first_out) {
    whi_queue queue;
    whi_queue_init(&queue);
    CHECK(whi_queue_empty(&queue));
    CHECK(!whi_queue_pop(&queue) && !whi_queue_first(&queue));
    item items[9];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 9; i++) {
            items[i].number = i + 1;
            whi_queue_push(&queue, &items[i].node);
        }
        CHECK(!whi_queue_empty(&queue));
        for (int i = 0; i < 9; i++) {
            CHECK_EQ_INT(number(whi_queue_first(&queue)), i + 1);
            CHECK_EQ_INT(number(whi_queue_pop(&queue)), i + 1);
        }
        CHECK(!whi_queue_pop(&queue));
    }
}

TEST_MAIN()
