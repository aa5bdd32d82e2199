// SPDX-License-Identifier: BSD-3-Clause
//
// See remote.h.
#include "bench/remote.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Whole pages, all of them present, for empty accesses too.
static wh_status make_memory(bench_remote *remote, wh_context *ctx, size_t size) {
    if (size > SIZE_MAX - 4096)
        return WH_ENOMEM;
    size_t room = (size + 4096) & ~(size_t)4095;
    wh_status status;
    if (remote->kind != WH_MEM_HOST) {
        status = wh_mem_alloc_kind(remote->kind, 0, room, &remote->buffer);
        return status != WH_OK ? status
                               : wh_mr_register(ctx, remote->buffer, room, remote->kind, WH_MR_ALL,
                                                &remote->mr);
    }
    if (remote->user) {
        remote->buffer = aligned_alloc(4096, room);
        if (!remote->buffer)
            return WH_ENOMEM;
        status = wh_mr_register(ctx, remote->buffer, room, WH_MEM_HOST, WH_MR_ALL, &remote->mr);
    } else {
        status = wh_mr_alloc(ctx, room, WH_MR_ALL, &remote->mr);
    }
    if (status == WH_OK)
        memset(wh_mr_address(remote->mr), 0, room);
    return status;
}

wh_status bench_remote_offer(bench_remote *remote, wh_worker *worker, size_t size, char *text) {
    unsigned char key[WH_MR_KEY_MAX];
    size_t key_size = 0;
    wh_status status = make_memory(remote, wh_worker_context(worker), size);
    if (status == WH_OK)
        status = wh_mr_key(remote->mr, key, &key_size);
    if (status != WH_OK) {
        bench_remote_close(remote, worker);
        return status;
    }
    for (size_t i = 0; i < key_size; i++)
        sprintf(text + 2 * i, "%02x", key[i]);
    return WH_OK;
}

wh_status bench_remote_open(bench_remote *remote, wh_endpoint *ep, const char *text) {
    unsigned char key[WH_MR_KEY_MAX];
    size_t size = strlen(text) / 2;
    if (size > sizeof key)
        return WH_EKEY;
    for (size_t i = 0; i < size; i++) {
        if (sscanf(text + 2 * i, "%2hhx", &key[i]) != 1)
            return WH_EKEY;
    }
    return wh_rkey_open(ep, key, size, &remote->rkey);
}

void bench_remote_close(bench_remote *remote, wh_worker *worker) {
    wh_rkey_close(remote->rkey);
    // An access that a lead began and did not live to end is over when its endpoint has ended.
    while (remote->mr && wh_mr_destroy(remote->mr) == WH_EBUSY)
        wh_worker_progress(worker);
    if (remote->buffer && remote->kind != WH_MEM_HOST) {
        if (wh_mem_free_kind(remote->kind, remote->buffer) != WH_OK)
            abort();  // it is one of ours
    } else {
        free(remote->buffer);
    }
    remote->rkey = NULL;
    remote->mr = NULL;
    remote->buffer = NULL;
}
