// SPDX-License-Identifier: BSD-3-Clause
//
// Lists: order, removal from anywhere, and nodes that know whether they are in one.
#include "base/list.h"

#include "base/test.h"

typedef struct item {
    int number;
    whi_list link;
} item;

static whi_list list;
static item items[5];

static int number(whi_list *node) {
    return whi_container_of(node, item, link)->number;
}

// Fills the list with 0 to 4 in order.
static void fill(void) {
    whi_list_init(&list);
    for (int i = 0; i < 5; i++) {
        items[i].number = i;
        whi_list_init(&items[i].link);
        whi_list_push_back(&list, &items[i].link);
    }
}

// Compares the list with a number whose digits are the items, as 1 + digits so that 0 may lead.
static int digits(whi_list *head) {
    int all = 1;
    whi_list_foreach(node, head) all = all * 10 + number(node);
    return all;
}

TEST(empty) {
    whi_list_init(&list);
    CHECK(whi_list_empty(&list));
    CHECK(!whi_list_first(&list));
    CHECK(!whi_list_last(&list));
    CHECK(!whi_list_pop_front(&list));
    CHECK_EQ_INT(digits(&list), 1);
}

TEST(order) {
    fill();
    CHECK_EQ_INT(digits(&list), 101234);
    CHECK_EQ_INT(number(whi_list_first(&list)), 0);
    CHECK_EQ_INT(number(whi_list_last(&list)), 4);
    item front = {.number = 9};
    whi_list_push_front(&list, &front.link);
    CHECK_EQ_INT(digits(&list), 1901234);
    item middle = {.number = 8};
    whi_list_insert(&items[1].link, &middle.link);
    CHECK_EQ_INT(digits(&list), 19018234);
}

TEST(remove_from_anywhere) {
    fill();
    whi_list_remove(&items[2].link);
    CHECK_EQ_INT(digits(&list), 10134);
    whi_list_remove(&items[0].link);
    whi_list_remove(&items[4].link);
    CHECK_EQ_INT(digits(&list), 113);
    CHECK(!whi_list_linked(&items[2].link));
    CHECK(whi_list_linked(&items[3].link));
    whi_list_remove(&items[2].link);  // again: nothing happens
    CHECK_EQ_INT(digits(&list), 113);
    CHECK_EQ_INT(number(whi_list_pop_front(&list)), 1);
    CHECK_EQ_INT(number(whi_list_pop_front(&list)), 3);
    CHECK(whi_list_empty(&list));
}

TEST(remove_while_visiting) {
    fill();
    whi_list_foreach(node, &list) if (number(node) % 2 == 0) {
        whi_list_remove(node);
        whi_container_of(node, item, link)->number = -1;
    }
    CHECK_EQ_INT(digits(&list), 113);
}

TEST(append) {
    fill();
    whi_list other;
    whi_list_init(&other);
    whi_list_append(&other, &list);
    CHECK(whi_list_empty(&list));
    CHECK_EQ_INT(digits(&other), 101234);
    whi_list_append(&other, &list);  // of nothing
    CHECK_EQ_INT(digits(&other), 101234);
    item last = {.number = 7};
    whi_list_push_back(&list, &last.link);
    whi_list_append(&other, &list);
    CHECK_EQ_INT(digits(&other), 1012347);
    CHECK_EQ_INT(number(whi_list_last(&other)), 7);
}

TEST_MAIN()
