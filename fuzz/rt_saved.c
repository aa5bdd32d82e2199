// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: the files of a checkpoint: the index, and what a PE has written.
//
// Their hash would stop a fuzzer, so it is put right first.  What is read as an index is written as the same bytes again.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "rt/chare/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond) ((cond) ? (void)0 : abort())

static void put_hash(uint8_t *data, size_t size) {
    whi_writer to;
    if (size < 8)
        return;
    whi_writer_init(&to, data + size - 8, 8);
    whi_writer_u64(&to, whi_saved_hash(data, size - 8));
}

static void check_index(const uint8_t *data, size_t size) {
    whi_saved_index index;
    whi_blob again = {.data = NULL};
    const char *why = NULL;
    wh_status st = whi_saved_index_decode(data, size, &index, &why);
    MUST(st == WH_OK || (st == WH_EPROTOCOL && why && !index.files && !index.collections));
    if (st == WH_OK) {
        MUST(whi_saved_index_encode(&index, &again) == WH_OK);
        MUST(again.size == size && memcmp(again.data, data, size) == 0);
    }
    whi_blob_fini(&again);
    whi_saved_index_fini(&index);
}

static void check_data(const uint8_t *data, size_t size) {
    whi_saved_collection collections[] = {
        {.def = {.id = 1 << 20, .kind = WHI_ARRAY, .dims = 2}},
        {.def = {.id = (1 << 20) + 1, .kind = WHI_GROUP, .dims = 1}}};
    whi_saved_file files[4];
    whi_saved_index index = {
        .number = 3, .pes = 4, .local = 2, .count = 2, .collections = collections, .files = files};
    for (int i = 0; i < 4; i++)
        files[i] = (whi_saved_file){.size = size, .hash = whi_saved_hash(data, size)};
    const char *why = NULL;
    whi_saved_element element;
    whi_reader from;
    wh_status st = whi_saved_open(&from, data, size, 1, &index, &why);
    while (st == WH_OK && whi_reader_left(&from)) {
        st = whi_saved_next(&from, &index, &element, &why);
        MUST(st != WH_OK || ((const uint8_t *)element.data >= data &&
                             (const uint8_t *)element.data + element.size <= data + size));
    }
    MUST(st == WH_OK || (st == WH_EPROTOCOL && why));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + 1);  // of its size, but for the byte that malloc(0) needs
    MUST(copy);
    memcpy(copy, data, size);
    check_index(copy, size);
    check_data(copy, size);
    put_hash(copy, size);
    check_index(copy, size);
    check_data(copy, size);
    free(copy);
    return 0;
}
