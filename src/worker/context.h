// SPDX-License-Identifier: BSD-3-Clause
//
// Context: what workers share.  Immutable once made, held by its creator and by each worker.
#ifndef WHI_WORKER_CONTEXT_H
#define WHI_WORKER_CONTEXT_H

#include <stdatomic.h>

#include <wherry/context.h>

#include "base/config.h"

// Something of an upper room's that ends with the context.
typedef struct whi_context_part {
    void (*free_fn)(struct whi_context_part *part);
} whi_context_part;

struct wh_context {
    _Atomic uint32_t holds;
    whi_config config;
    uint32_t lanes;  // WHI_LANE_* that configuration and machine allow
    bool rdma;       // the machine has an RDMA device
    bool
        ucx_named;  // the setting names the ucx lane: else it is for peers that have proven a secret
    char ucx_why[256];    // why there is no ucx lane; "" when there is, or nobody wants it
    uint8_t boot_id[16];  // of this host since it was started; zero when unknown
    bool barrier;         // whi_shm_barrier works in this process
    // What the room of registered memory keeps with a context: made at its first use, freed with the context.
    _Atomic(struct whi_context_part *) memory;
};

void whi_context_retain(wh_context *ctx);
void whi_context_release(wh_context *ctx);

// whi_context_lane_names writes the names of the lanes in `lanes`, such as "shm,stream".
void whi_context_lane_names(uint32_t lanes, char *text, size_t size);

#endif
