// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of remote memory access: two workers of this process, and memory of the server's that the client reaches.
#ifndef WHI_COMM_RMA_KIT_H
#define WHI_COMM_RMA_KIT_H

#include "engine/hostile_peer.h"
#include "rma/rma.h"

enum { ANNOUNCE_MAX = 50, SIZE = 1 << 20 };

static const char *const options[] = {"announce_max=50", "grace=1s", NULL};
static const char *const stream_options[] = {"announce_max=50", "lanes=stream", NULL};

static duo d;
static wh_mr *mr;  // the server's
static unsigned char *memory;

__attribute__((unused)) static void begin_with(const char *const *opts) {
    whi_rng_init(&raw_rng, 5);
    duo_begin(&d, opts, opts);
    duo_connect(&d);
    CHECK_EQ_INT(wh_mr_alloc(d.ctx[0], SIZE, WH_MR_READ | WH_MR_WRITE | WH_MR_ATOMIC, &mr), WH_OK);
    memory = wh_mr_address(mr);
}

__attribute__((unused)) static void end(void) {
    CHECK_EQ_INT(wh_mr_destroy(mr), WH_OK);
    duo_end(&d);
}

__attribute__((unused)) static wh_rkey *open_key(void) {
    char key[WH_MR_KEY_MAX];
    size_t size;
    wh_rkey *rkey = NULL;
    CHECK_EQ_INT(wh_mr_key(mr, key, &size), WH_OK);
    CHECK_EQ_INT(wh_rkey_open(d.to, key, size, &rkey), WH_OK);
    return rkey;
}

// all_served waits until neither side counts an access any more.
__attribute__((unused)) static void all_served(void) {
    UNTIL(&d, !d.to->announced && !whi_memory_at(d.to)->active && !d.from->rx_announced);
    CHECK_EQ_INT(wh_endpoint_status(d.to), WH_OK);
}

#endif
