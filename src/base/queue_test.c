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

static int sum(const whi_queue *queue) {
    int all = 0;
    whi_queue_foreach(node, queue) all = all * 10 + number(node);
    return all;
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
        CHECK_EQ_INT(sum(&queue), 123456789);
        for (int i = 0; i < 9; i++) {
            CHECK_EQ_INT(number(whi_queue_first(&queue)), i + 1);
            CHECK_EQ_INT(number(whi_queue_pop(&queue)), i + 1);
        }
        CHECK(!whi_queue_pop(&queue));
    }
}

TEST(push_front) {
    whi_queue queue;
    whi_queue_init(&queue);
    item a = {.number = 1}, b = {.number = 2}, c = {.number = 3};
    whi_queue_push_front(&queue, &b.node);  // into an empty one: the end must move too
    whi_queue_push(&queue, &c.node);
    whi_queue_push_front(&queue, &a.node);
    CHECK_EQ_INT(sum(&queue), 123);
    whi_queue_push_front(&queue, whi_queue_pop(&queue));
    CHECK_EQ_INT(sum(&queue), 123);
}

TEST(append) {
    whi_queue to, from;
    whi_queue_init(&to);
    whi_queue_init(&from);
    item a = {.number = 1}, b = {.number = 2}, c = {.number = 3}, d = {.number = 4};
    whi_queue_append(&to, &from);
    CHECK(whi_queue_empty(&to));
    whi_queue_push(&from, &a.node);
    whi_queue_push(&from, &b.node);
    whi_queue_append(&to, &from);
    CHECK(whi_queue_empty(&from));
    whi_queue_push(&from, &d.node);
    whi_queue_push(&to, &c.node);
    whi_queue_append(&to, &from);
    CHECK_EQ_INT(sum(&to), 1234);
    CHECK_EQ_INT(sum(&from), 0);
}

TEST_MAIN()
