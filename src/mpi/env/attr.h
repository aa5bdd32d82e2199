// SPDX-License-Identifier: BSD-3-Clause
//
// Attributes: values that programs attach to communicators, datatypes and windows under keys of their own.
//
// An object has a list of them, the last set first.  The functions below take that list, the handle that callbacks are given and the kind
// of the object, so that they know nothing of the objects.  Callbacks may call any MPI function, also these on the same object.
#ifndef WHM_ENV_ATTR_H
#define WHM_ENV_ATTR_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

typedef struct whm_attr whm_attr;

typedef struct whm_holder {  // an object with attributes
    whm_attr **list;
    void *handle;
    whm_kind kind;  // WHM_COMM, WHM_TYPE or WHM_WIN
} whm_holder;

// whm_attrs_copy asks the copy callbacks of `from` what its duplicate gets, in the order in which the attributes were set, and writes
// those to *copied.  An error of a callback: *copied has those before, for whm_attrs_delete.
int whm_attrs_copy(whm_holder from, whm_attr **copied);

// whm_attrs_delete calls the delete callbacks, of the attribute that was set last first, and frees them.  It ends with the first error of
// a callback; that attribute and those set before it stay.
int whm_attrs_delete(whm_holder of);

// whm_attr_set sets, whm_attr_get reads (false: there is none), whm_attr_delete removes an attribute.  The key is checked.
int whm_attr_set(whm_holder of, int number, void *value);
int whm_attr_get(whm_holder of, int number, void **value, int *flag);
int whm_attr_delete(whm_holder of, int number);

// Keys of a rank.  Their numbers begin behind all predefined ones.  A key that was freed lives on in its attributes.
int whm_key_new(whm_kind kind, void (*copy)(void), void (*del)(void), void *extra, int *number);
int whm_key_free(whm_kind kind, int number);
void whm_keys_end(whm_rank *rank);

#endif
