// SPDX-License-Identifier: BSD-3-Clause
//
// A checkpoint as bytes: an index, and a file for each PE that wrote it.  Values, no input or output; any thread.
//
// Files are not trusted: each begins with what it is and ends with a hash of all before it.
#ifndef WHI_RT_CHARE_SAVED_H
#define WHI_RT_CHARE_SAVED_H

#include "base/blob.h"
#include "rt/chare/head.h"

enum { WHI_SAVED_PES_MAX = 1 << 20 };

typedef struct whi_saved_collection {
    whi_collection_def def;
    uint64_t members;  // of its reductions
} whi_saved_collection;

typedef struct whi_saved_file {
    uint64_t size, hash;
} whi_saved_file;

typedef struct whi_saved_index {
    uint64_t number;      // of the checkpoint, which is in the names of its files
    uint32_t pes, local;  // that have written it; of a process
    uint32_t count;       // of collections
    whi_saved_collection *collections;
    whi_saved_file *files;  // by PE
} whi_saved_index;

typedef struct whi_saved_element {
    whi_place_key key;
    uint8_t reduces;
    const void *data;  // what its class has packed
    size_t size;
} whi_saved_element;

// whi_saved_hash is what a file ends with.
uint64_t whi_saved_hash(const void *data, size_t size);

// whi_saved_index_encode adds an index.  WH_ENOMEM.
WH_CHECK wh_status whi_saved_index_encode(const whi_saved_index *index, whi_blob *to);

// whi_saved_index_decode reads one; whi_saved_index_fini frees it.  WH_EPROTOCOL: it is none, and *why says what is wrong.
WH_CHECK wh_status whi_saved_index_decode(const void *data, size_t size, whi_saved_index *index,
                                          const char **why);
void whi_saved_index_fini(whi_saved_index *index);

// A PE's file is begun, elements are added, it is ended.  WH_ENOMEM.
WH_CHECK wh_status whi_saved_begin(whi_blob *to, uint32_t pe, uint64_t number);
// whi_saved_add makes space for an element, of element->size bytes, which the caller fills.  NULL: no memory.
void *whi_saved_add(whi_blob *to, const whi_saved_element *element);
WH_CHECK wh_status whi_saved_end(whi_blob *to);

// whi_saved_open checks a PE's file as a whole; whi_saved_next reads one element after the other.  WH_EPROTOCOL: *why says what
// is wrong.
WH_CHECK wh_status whi_saved_open(whi_reader *from, const void *data, size_t size, uint32_t pe,
                                  const whi_saved_index *index, const char **why);
WH_CHECK wh_status whi_saved_next(whi_reader *from, const whi_saved_index *index,
                                  whi_saved_element *element, const char **why);

#endif
