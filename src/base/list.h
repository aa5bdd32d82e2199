// SPDX-License-Identifier: BSD-3-Clause
//
// An intrusive doubly linked list: a whi_list is the head of a list, or the member of an object.
//
// The list is a ring through its head, so that pushing, removing and asking need no case for the
// ends, and an object can leave without naming its list.  A node that is in no list points to
// itself.  Nothing is allocated and nothing is locked: a list belongs to one thread or one lock.
#ifndef WHI_BASE_LIST_H
#define WHI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct whi_list {
    struct whi_list *next, *prev;
} whi_list;

// whi_container_of turns a pointer to a member into a pointer to the object around it.
#define whi_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

// whi_list_foreach visits the nodes from first to last.  The body may remove and free the node it
// is given, but no other one.
#define whi_list_foreach(node, head)                                                               \
    for (whi_list *node = (head)->next, *node##_next = node->next; node != (head);                 \
         node = node##_next, node##_next = node->next)

// whi_list_init makes an empty list, or a node that is in no list.
static inline void whi_list_init(whi_list *list) {
    list->next = list->prev = list;
}

// whi_list_insert puts `node`, which is in no list, behind `before`.
static inline void whi_list_insert(whi_list *before, whi_list *node) {
    node->prev = before;
    node->next = before->next;
    before->next->prev = node;
    before->next = node;
}

static inline void whi_list_push_front(whi_list *list, whi_list *node) {
    whi_list_insert(list, node);
}

static inline void whi_list_push_back(whi_list *list, whi_list *node) {
    whi_list_insert(list->prev, node);
}

// whi_list_remove takes a node out of its list.  It leaves the node in no list, so that removing it
// again does nothing.
static inline void whi_list_remove(whi_list *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    whi_list_init(node);
}

static inline bool whi_list_empty(const whi_list *list) {
    return list->next == list;
}

// whi_list_linked says whether an initialised node is in a list.
static inline bool whi_list_linked(const whi_list *node) {
    return node->next != node;
}

// whi_list_first returns the first node, or NULL when the list is empty.
static inline whi_list *whi_list_first(const whi_list *list) {
    return whi_list_empty(list) ? NULL : list->next;
}

static inline whi_list *whi_list_last(const whi_list *list) {
    return whi_list_empty(list) ? NULL : list->prev;
}

// whi_list_pop_front removes and returns the first node, or NULL when the list is empty.
static inline whi_list *whi_list_pop_front(whi_list *list) {
    whi_list *node = whi_list_first(list);
    if (node)
        whi_list_remove(node);
    return node;
}

// whi_list_append moves all nodes of `from` behind those of `to` and leaves `from` empty.
static inline void whi_list_append(whi_list *to, whi_list *from) {
    if (whi_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    whi_list_init(from);
}

// whi_list_take makes `to`, which need not be initialised, a list of all nodes of `from`, and leaves that empty.
static inline void whi_list_take(whi_list *to, whi_list *from) {
    whi_list_init(to);
    whi_list_append(to, from);
}

#endif
