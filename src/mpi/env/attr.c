// SPDX-License-Identifier: BSD-3-Clause
//
// Keys are numbered slots of a table of the rank: a number is not used again, so that one kept by mistake is recognised.
#include "mpi/env/attr.h"

#include <stdlib.h>

#include "mpi/base/lock.h"
#include "mpi/base/memory.h"

enum { FIRST_KEY = 0x1000 };

typedef struct key {
    whm_kind kind;
    int number;
    int refs;    // the program's, and one of each attribute
    bool freed;  // by the program: no new attributes
    void (*copy)(void), (*del)(void);
    void *extra;
} key;

struct whm_attr {
    whm_attr *next;
    key *key;
    void *value;
};

struct whm_attrs {
    key **table;  // by number; NULL: freed, and no attribute has it
    int count, room;
};

// The NULL_COPY_FN and NULL_DELETE_FN are 0, the DUP_FN is 1: values that nobody may call.
static bool copies_nothing(void (*fn)(void)) {
    return fn == NULL;
}
static bool copies_value(void (*fn)(void)) {
    return (uintptr_t)fn == 1;
}

// ---- Keys.

static void key_release(key *k) {
    if (--k->refs > 0)
        return;
    whm_self->attrs->table[k->number - FIRST_KEY] = NULL;
    free(k);
}

int whm_key_new(whm_kind kind, void (*copy)(void), void (*del)(void), void *extra, int *number) {
    if (!whm_self->attrs && !(whm_self->attrs = whm_calloc(1, sizeof(*whm_self->attrs))))
        return whm_no_memory();
    struct whm_attrs *all = whm_self->attrs;
    if (all->count == all->room) {
        int room = all->room ? all->room * 2 : 16;
        key **more = whm_realloc(all->table, (size_t)room * sizeof(key *));
        if (!more)
            return whm_no_memory();
        all->table = more;
        all->room = room;
    }
    key *k = whm_malloc(sizeof(*k));
    if (!k)
        return whm_no_memory();
    *k = (key){kind, FIRST_KEY + all->count, 1, false, copy, del, extra};
    all->table[all->count++] = k;
    *number = k->number;
    return MPI_SUCCESS;
}

static int key_find(whm_kind kind, int number, key **found) {
    const struct whm_attrs *all = whm_self->attrs;
    unsigned i = (unsigned)number - FIRST_KEY;
    if (number > 0 && number < FIRST_KEY)
        return whm_fail(MPI_ERR_KEYVAL,
                        "key %d is a predefined one, or none: its value cannot be changed", number);
    key *k = all && i < (unsigned)all->count ? all->table[i] : NULL;
    if (!k)
        return whm_fail(MPI_ERR_KEYVAL, "%d is no key, or one that was freed", number);
    if (k->kind != kind)
        return whm_fail(MPI_ERR_KEYVAL, "key %d was made for %s", number,
                        k->kind == WHM_COMM   ? "communicators"
                        : k->kind == WHM_TYPE ? "datatypes"
                                              : "windows");
    *found = k;
    return MPI_SUCCESS;
}

int whm_key_free(whm_kind kind, int number) {
    key *k = NULL;
    int rc = key_find(kind, number, &k);
    if (rc != MPI_SUCCESS)
        return rc;
    if (k->freed)
        return whm_fail(MPI_ERR_KEYVAL, "key %d was freed before", number);
    k->freed = true;
    key_release(k);
    return MPI_SUCCESS;
}

void whm_keys_end(whm_rank *rank) {
    struct whm_attrs *all = rank->attrs;
    for (int i = 0; all && i < all->count; i++)
        free(all->table[i]);
    if (all)
        free(all->table);
    free(all);
    rank->attrs = NULL;
}

// ---- Callbacks.

static int call_copy(const key *k, void *handle, void *value, void **copied, int *flag) {
    void *extra = k->extra;
    int rc;
    whm_go_out();
    switch (k->kind) {
    case WHM_TYPE:
        rc =
            ((MPI_Type_copy_attr_function *)k->copy)(handle, k->number, extra, value, copied, flag);
        break;
    case WHM_WIN:
        rc = ((MPI_Win_copy_attr_function *)k->copy)(handle, k->number, extra, value, copied, flag);
        break;
    default:
        rc =
            ((MPI_Comm_copy_attr_function *)k->copy)(handle, k->number, extra, value, copied, flag);
        break;
    }
    whm_come_back();
    return rc;
}

static int call_delete(const key *k, void *handle, void *value) {
    int rc;
    if (!k->del)
        return MPI_SUCCESS;
    whm_go_out();
    switch (k->kind) {
    case WHM_TYPE:
        rc = ((MPI_Type_delete_attr_function *)k->del)(handle, k->number, value, k->extra);
        break;
    case WHM_WIN:
        rc = ((MPI_Win_delete_attr_function *)k->del)(handle, k->number, value, k->extra);
        break;
    default:
        rc = ((MPI_Comm_delete_attr_function *)k->del)(handle, k->number, value, k->extra);
        break;
    }
    whm_come_back();
    return rc;
}

// ---- Lists.

static whm_attr *find(whm_attr *list, int number) {
    while (list && list->key->number != number)
        list = list->next;
    return list;
}

static int add(whm_attr **list, key *k, void *value) {
    whm_attr *attr = whm_malloc(sizeof(*attr));
    if (!attr)
        return whm_no_memory();
    *attr = (whm_attr){*list, k, value};
    k->refs++;
    *list = attr;
    return MPI_SUCCESS;
}

static void unlink_attr(whm_attr **list, whm_attr *attr) {
    while (*list && *list != attr)
        list = &(*list)->next;
    if (*list)
        *list = attr->next;
}

// end_one calls the delete callback of an attribute, which stays in the list meanwhile, as the callback may look at it.
static int end_one(whm_holder of, whm_attr *attr) {
    key *k = attr->key;
    int number = k->number;
    k->refs++;
    int rc = call_delete(k, of.handle, attr->value);
    // The callback may have deleted it itself.
    attr = rc == MPI_SUCCESS ? find(*of.list, number) : NULL;
    if (attr) {
        unlink_attr(of.list, attr);
        free(attr);
        k->refs--;
    }
    key_release(k);
    return rc;
}

int whm_attrs_delete(whm_holder of) {
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && *of.list)
        rc = end_one(of, *of.list);
    return rc;
}

// copy_one does what the key's copy callback says for one attribute.
static int copy_one(whm_holder from, key *k, void *value, whm_attr **copied) {
    int rc = MPI_SUCCESS, flag = 1;
    void *copy = value;
    if (copies_nothing(k->copy))
        return MPI_SUCCESS;
    if (!copies_value(k->copy)) {
        flag = 0;
        rc = call_copy(k, from.handle, value, &copy, &flag);
    }
    return rc == MPI_SUCCESS && flag ? add(copied, k, copy) : rc;
}

int whm_attrs_copy(whm_holder from, whm_attr **copied) {
    int count = 0, rc = MPI_SUCCESS;
    for (whm_attr *a = *from.list; a; a = a->next)
        count++;
    // A callback may change the list: this holds what it was.
    whm_attr *was = count ? whm_malloc((size_t)count * sizeof(*was)) : NULL;
    if (count && !was)
        return whm_no_memory();
    int i = 0;
    for (whm_attr *a = *from.list; a; a = a->next, i++) {
        was[i] = *a;
        a->key->refs++;
    }
    for (i = count; i-- > 0;) {
        if (rc == MPI_SUCCESS)
            rc = copy_one(from, was[i].key, was[i].value, copied);
        key_release(was[i].key);
    }
    free(was);
    return rc;
}

int whm_attr_set(whm_holder of, int number, void *value) {
    key *k = NULL;
    int rc = key_find(of.kind, number, &k);
    if (rc == MPI_SUCCESS && k->freed)
        rc = whm_fail(MPI_ERR_KEYVAL, "key %d was freed", number);
    whm_attr *attr = rc == MPI_SUCCESS ? find(*of.list, number) : NULL;
    if (attr)
        rc = end_one(of, attr);  // the standard: as if it were deleted first
    return rc == MPI_SUCCESS ? add(of.list, k, value) : rc;
}

int whm_attr_get(whm_holder of, int number, void **value, int *flag) {
    key *k = NULL;
    int rc = key_find(of.kind, number, &k);
    if (rc != MPI_SUCCESS)
        return rc;
    const whm_attr *attr = find(*of.list, number);
    *flag = attr != NULL;
    if (attr)
        *value = attr->value;
    return MPI_SUCCESS;
}

int whm_attr_delete(whm_holder of, int number) {
    key *k = NULL;
    int rc = key_find(of.kind, number, &k);
    if (rc != MPI_SUCCESS)
        return rc;
    whm_attr *attr = find(*of.list, number);
    return attr ? end_one(of, attr)
                : whm_fail(MPI_ERR_KEYVAL, "there is no attribute of key %d", number);
}
