// SPDX-License-Identifier: BSD-3-Clause
//
// Data: the user's memory of an operation, (buf, count, type), with what the algorithms ask of it.
#ifndef WHI_RT_COLL_DATA_H
#define WHI_RT_COLL_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include <wherry/pack.h>
#include <wherry/type.h>

typedef struct whi_coll_data {
    char *buf;
    int64_t count;  // elements of one block
    wh_type *type;  // held; NULL: there is none
    uint64_t size;  // packed bytes of one block
    int64_t block;  // from one block to the next
    bool dense;     // the packed bytes lie in memory as they are
} whi_coll_data;

// whi_coll_data_init checks what a user says, `blocks` of which have to be addressable, and holds the type.  `function` and
// `what` name the call and the buffer in the log.
WH_CHECK wh_status whi_coll_data_init(whi_coll_data *data, const void *buf, int64_t count,
                                      const wh_type *type, uint32_t blocks, const char *function,
                                      const char *what);
void whi_coll_data_fini(whi_coll_data *data);

static inline char *whi_coll_data_block(const whi_coll_data *data, uint32_t index) {
    // By integers: a layout may lie at absolute addresses, with NULL as its origin.
    return (char *)((uintptr_t)data->buf + (uintptr_t)(data->block * (int64_t)index));
}

// whi_coll_data_border returns the last place between elements at or before byte `at`.
uint64_t whi_coll_data_border(const whi_coll_data *data, uint64_t at);

#endif
