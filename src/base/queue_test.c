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

static void push_all(whi_queue *queue, item *items, int count) {
    for (int i = 0; i < count; i++) {
        items[i].number = i + 1;
        whi_queue_push(queue, &items[i].node);
    }
}

TEST(any_node_can_be_taken_out_and_others_pushed_behind) {
    for (int taken = 0; taken < 3; taken++) {
        whi_queue queue;
        whi_queue_init(&queue);
        item items[4];
        push_all(&queue, items, 3);
        whi_queue_node **at = &queue.first;
        for (int i = 0; i < taken; i++)
            at = &(*at)->next;
        CHECK_EQ_INT(number(whi_queue_take_out(&queue, at)), taken + 1);
        CHECK(!items[taken].node.next);
        items[3].number = 4;
        whi_queue_push(&queue, &items[3].node);
        for (int i = 0; i < 4; i++)
            if (i != taken)
                CHECK_EQ_INT(number(whi_queue_pop(&queue)), i + 1);
        CHECK(whi_queue_empty(&queue));
    }
}

TEST(all_nodes_can_be_taken) {
    whi_queue from, to;
    item items[3], more;
    whi_queue_init(&from);
    whi_queue_take(&to, &from);
    CHECK(whi_queue_empty(&to));
    push_all(&from, items, 3);
    whi_queue_take(&to, &from);
    CHECK(whi_queue_empty(&from));
    more.number = 4;
    whi_queue_push(&to, &more.node);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(number(whi_queue_pop(&to)), i + 1);
    CHECK(whi_queue_empty(&from) && whi_queue_empty(&to));
}

TEST_MAIN()
