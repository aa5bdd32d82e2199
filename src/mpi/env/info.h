// SPDX-License-Identifier: BSD-3-Clause
//
// Info objects: lists of keys and values, both strings, in the order in which the keys were set first.
#ifndef WHM_ENV_INFO_H
#define WHM_ENV_INFO_H

#include "mpi/base/object.h"
#include "mpi/base/rank.h"

typedef struct whm_pair {
    char *key, *value;
} whm_pair;

typedef struct whm_info {
    whm_object o;
    int count, room;
    whm_pair *pair;
} whm_info;

static inline whm_info *whm_info_of(MPI_Info handle) {
    return whm_object_of(handle, WHM_INFO);
}
whm_info *whm_info_new(void);  // NULL: no memory
void whm_info_release(whm_info *info);

// whm_info_value returns the value of a key, or NULL; `info` may be NULL.
const char *whm_info_value(const whm_info *info, const char *key);

// whm_info_put sets a key to a copy of the value.
int whm_info_put(whm_info *info, const char *key, const char *value);

// whm_info_hints merges into *place, an object's own info (NULL: none yet), those keys of `given` that are in `known`, a list that ends with
// NULL: hints that nobody knows are not kept, as the standard has it.
int whm_info_hints(whm_info **place, const whm_info *given, const char *const *known);

// whm_info_copy makes another one with the same pairs; of NULL an empty one.
int whm_info_copy(const whm_info *info, whm_info **copy);

// whm_infos_begin gives a rank its MPI_INFO_ENV.
void whm_infos_begin(whm_rank *rank);

#endif
