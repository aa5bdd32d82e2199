// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/env/attr.h"

#include "base/test.h"

// A kind of object that this test makes up: a list and a handle.
static whm_attr *list;
static int told[16], count, fail_on;
static const MPI_Comm handle = (MPI_Comm)0x5000;
#define HOLDER ((whm_holder){&list, handle, WHM_COMM})

static int on_copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)key;
    CHECK(comm == handle);
    CHECK_EQ_INT(*(int *)extra, 42);
    *(void **)out = (char *)in + 100;
    *flag = (intptr_t)in != 7;
    return (intptr_t)in == fail_on ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key;
    CHECK(comm == handle);
    CHECK_EQ_INT(*(int *)extra, 42);
    if ((intptr_t)value == fail_on)
        return MPI_ERR_OTHER;
    told[count++] = (int)(intptr_t)value;
    return MPI_SUCCESS;
}

static int new_key(void) {
    static int extra = 42;
    int key;
    CHECK_EQ_INT(
        whm_key_new(WHM_COMM, (void (*)(void))on_copy, (void (*)(void))on_delete, &extra, &key),
        MPI_SUCCESS);
    return key;
}

static void set(int key, intptr_t value) {
    CHECK_EQ_INT(whm_attr_set(HOLDER, key, (void *)value), MPI_SUCCESS);
}

static intptr_t value_of(whm_attr **of, int key) {
    void *value = NULL;
    int flag;
    CHECK_EQ_INT(whm_attr_get((whm_holder){of, handle, WHM_COMM}, key, &value, &flag), MPI_SUCCESS);
    return flag ? (intptr_t)value : -1;
}

TEST(deleted_last_set_first) {
    int a = new_key(), b = new_key();
    count = 0;
    set(a, 1);
    set(b, 2);
    set(a, 3);
    CHECK_EQ_INT(count, 1);  // setting again deletes what was there
    CHECK_EQ_INT(told[0], 1);
    CHECK_EQ_INT(value_of(&list, a), 3);
    CHECK_EQ_INT(whm_key_free(WHM_COMM, a), MPI_SUCCESS);
    CHECK_EQ_INT(whm_key_free(WHM_COMM, a), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_attr_set(HOLDER, a, NULL), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_attrs_delete(HOLDER), MPI_SUCCESS);
    CHECK_EQ_INT(count, 3);
    CHECK_EQ_INT(told[1], 3);
    CHECK_EQ_INT(told[2], 2);
    CHECK(!list);
    CHECK_EQ_INT(whm_attr_delete(HOLDER, b), MPI_ERR_KEYVAL);
    whm_keys_end(whm_self);
}

TEST(copies_as_callbacks_say) {
    int a = new_key(), b = new_key(), c, d;
    CHECK_EQ_INT(whm_key_new(WHM_COMM, NULL, NULL, NULL, &c), MPI_SUCCESS);
    CHECK_EQ_INT(whm_key_new(WHM_COMM, (void (*)(void))MPI_COMM_DUP_FN, NULL, NULL, &d),
                 MPI_SUCCESS);
    set(a, 1);
    set(b, 7);
    set(c, 3);
    set(d, 4);
    whm_attr *copy = NULL;
    CHECK_EQ_INT(whm_attrs_copy(HOLDER, &copy), MPI_SUCCESS);
    CHECK_EQ_INT(value_of(&copy, a), 101);
    CHECK_EQ_INT(value_of(&copy, b), -1);
    CHECK_EQ_INT(value_of(&copy, c), -1);
    CHECK_EQ_INT(value_of(&copy, d), 4);
    count = 0;
    CHECK_EQ_INT(whm_attrs_delete((whm_holder){&copy, handle, WHM_COMM}), MPI_SUCCESS);
    CHECK_EQ_INT(count, 1);
    fail_on = 7;
    CHECK_EQ_INT(whm_attrs_copy(HOLDER, &copy), MPI_ERR_OTHER);
    CHECK_EQ_INT(value_of(&copy, a), 101);
    CHECK_EQ_INT(whm_attrs_delete((whm_holder){&copy, handle, WHM_COMM}), MPI_SUCCESS);
    CHECK_EQ_INT(whm_attrs_delete(HOLDER), MPI_ERR_OTHER);
    CHECK_EQ_INT(value_of(&list, b), 7);  // stays, and what was set before it
    CHECK_EQ_INT(value_of(&list, a), 1);
    CHECK_EQ_INT(value_of(&list, d), -1);
    fail_on = 0;
    CHECK_EQ_INT(whm_attrs_delete(HOLDER), MPI_SUCCESS);
    whm_keys_end(whm_self);
}

TEST(wrong_keys) {
    int type, flag;
    void *value;
    CHECK_EQ_INT(whm_key_new(WHM_TYPE, NULL, NULL, NULL, &type), MPI_SUCCESS);
    CHECK_EQ_INT(whm_attr_set(HOLDER, type, NULL), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_attr_set(HOLDER, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_attr_get(HOLDER, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_attr_get(HOLDER, type + 1, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_key_free(WHM_COMM, type), MPI_ERR_KEYVAL);
    CHECK_EQ_INT(whm_key_free(WHM_TYPE, type), MPI_SUCCESS);
    whm_keys_end(whm_self);
}

TEST_MAIN()
