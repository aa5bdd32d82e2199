// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided access: memory that is registered with UCX, keys of a peer's memory, and what is done with them.
//
// UCX has the buffer of an access as it has that of a chunk, so both end in the same way (bulk.c, end.c).  A write that has
// ended has left its buffer; that it is in the peer's memory only a flush of the endpoint tells.  There are no atomics
// here: docs/design/rma.md says why.  Invariant: what UCX has registered or opened is in a list of the domain and goes before
// UCX does, however long its owner keeps the handle.
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/ucx/ucx_lane.h"

// ---- memory of ours

struct whi_lane_memory {
    whi_list node;  // in ucx->memories
    whi_ucx *ucx;
    ucp_mem_h handle;  // NULL once taken back
    void *key;         // UCX's
    size_t key_size;
};

bool whi_ucx_all_reliable(const char *over) {
    bool all = *over != '\0';
    for (const char *word = over; word && all; word = strchr(word, ' ')) {
        word += *word == ' ';
        all = strncmp(word, "rc_", 3) == 0;
    }
    return all;
}

static bool guards(const whi_lane *lane) {
    // A reliable connection is the peer's only way to our memory, and ends with our half of it.  Datagrams and dynamic
    // connections know no such half, and over TCP and shared memory UCX's own code would write where it is told.
    char over[WHI_UCX_OVER_MAX];
    whi_ucx_over((const whi_ucx_lane *)lane, over, sizeof(over));
    return whi_ucx_all_reliable(over);
}

static wh_status map(whi_lane *lane, void *ptr, size_t size, whi_lane_memory **out) {
    whi_ucx *ucx = whi_ucx_lane_of(lane)->ucx;
    whi_lane_memory *memory = whi_calloc(1, sizeof(*memory));
    if (!memory)
        return WH_ENOMEM;
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .address = ptr,
                                   .length = size,
                                   .memory_type = UCS_MEMORY_TYPE_HOST};
    ucs_status_t status = whi_ucp.ucp_mem_map(ucx->context, &params, &memory->handle);
    if (status == UCS_OK)
        status =
            whi_ucp.ucp_rkey_pack(ucx->context, memory->handle, &memory->key, &memory->key_size);
    if (status != UCS_OK) {
        whi_log_once_per(WHI_INFO, "I-UCX-08", 1, "%zu bytes of memory are not registered: %s",
                         size, whi_ucp.ucs_status_string(status));
        if (memory->handle)
            (void)whi_ucp.ucp_mem_unmap(ucx->context, memory->handle);
        whi_free(memory);
        return whi_ucx_status(status);
    }
    memory->ucx = ucx;
    whi_list_push_back(&ucx->memories, &memory->node);
    *out = memory;
    return WH_OK;
}

static void take_back(whi_lane_memory *memory) {
    whi_ucp.ucp_rkey_buffer_release(memory->key);
    (void)whi_ucp.ucp_mem_unmap(memory->ucx->context, memory->handle);
    whi_list_remove(&memory->node);
    memory->handle = NULL;
}

static void unmap(whi_lane_memory *memory) {
    if (memory->handle)
        take_back(memory);
    whi_free(memory);
}

static const void *key_of(const whi_lane_memory *memory, size_t *size) {
    assert(memory->handle);
    *size = memory->key_size;
    return memory->key;
}

// ---- memory of a peer's

struct whi_lane_key {
    whi_list node;      // in ucx->keys
    ucp_rkey_h handle;  // NULL once destroyed
};

static wh_status open_key(whi_lane *lane, const void *bytes, size_t size, whi_lane_key **out) {
    whi_ucx_lane *mine = whi_ucx_lane_of(lane);
    whi_lane_key *key = whi_calloc(1, sizeof(*key));
    void *copy = whi_malloc(size);  // UCX reads words of it
    ucs_status_t status = key && copy ? UCS_OK : UCS_ERR_NO_MEMORY;
    if (status == UCS_OK) {
        memcpy(copy, bytes, size);
        status = whi_ucp.ucp_ep_rkey_unpack(mine->ep, copy, &key->handle);
    }
    whi_free(copy);
    if (status != UCS_OK) {
        whi_free(key);
        return whi_ucx_status(status);
    }
    whi_list_push_back(&mine->ucx->keys, &key->node);
    *out = key;
    return WH_OK;
}

static void destroy_key(whi_lane_key *key) {
    whi_ucp.ucp_rkey_destroy(key->handle);
    whi_list_remove(&key->node);
    key->handle = NULL;
}

static void close_key(whi_lane_key *key) {
    if (key->handle)
        destroy_key(key);
    whi_free(key);
}

void whi_ucx_release_all(whi_ucx *ucx) {
    while (!whi_list_empty(&ucx->keys))
        destroy_key(whi_container_of(whi_list_first(&ucx->keys), whi_lane_key, node));
    while (!whi_list_empty(&ucx->memories))
        take_back(whi_container_of(whi_list_first(&ucx->memories), whi_lane_memory, node));
}

// ---- what is done with it

static void access_ended(void *request, ucs_status_t status, void *arg) {
    whi_ucx_ended(arg, status);
    whi_ucp.ucp_request_free(request);
}

static ucp_request_param_t param_of(whi_ucx_chunk *chunk) {
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .cb.send = access_ended,
                                 .user_data = chunk,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
}

// begin takes a chunk for an access: WH_EAGAIN when there is no space for one.
static wh_status begin(whi_ucx_lane *lane, bool incoming, whi_lane_done_fn done, void *arg,
                       whi_ucx_chunk **out) {
    if (lane->broken != WH_OK || lane->failing != WH_OK)
        return lane->broken != WH_OK ? lane->broken : lane->failing;
    if (lane->accesses >= WHI_UCX_ACCESSES)
        return whi_ucx_refuse(lane);
    whi_ucx_chunk *chunk = whi_ucx_chunk_new(lane, incoming, &lane->accesses);
    if (!chunk) {
        lane->space = true;  // nobody but time will make any
        return WH_EAGAIN;
    }
    chunk->done = done;
    chunk->arg = arg;
    *out = chunk;
    return WH_OK;
}

// posted says what has become of an access that UCX was given.
static wh_status posted(whi_ucx_chunk *chunk, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_PTR(request))
        return WH_PENDING;
    whi_ucx_lane *lane = chunk->lane;
    whi_ucx_chunk_free(chunk);
    if (!request)
        return WH_OK;
    whi_log_once_per(WHI_INFO, "I-UCX-09", 1, "%s: UCX makes no accesses: %s", lane->peer,
                     whi_ucp.ucs_status_string(UCS_PTR_STATUS(request)));
    return whi_ucx_fail(lane, WH_EPEER);
}

static wh_status write_there(whi_lane *lane, const whi_lane_key *key, uint64_t address,
                             const void *buf, size_t size, whi_lane_done_fn done, void *arg) {
    whi_ucx_lane *mine = whi_ucx_lane_of(lane);
    whi_ucx_chunk *chunk = NULL;
    wh_status st = begin(mine, false, done, arg, &chunk);
    if (st != WH_OK)
        return st;
    ucp_request_param_t param = param_of(chunk);
    return posted(chunk, whi_ucp.ucp_put_nbx(mine->ep, buf, size, address, key->handle, &param));
}

static wh_status read_there(whi_lane *lane, const whi_lane_key *key, uint64_t address, void *buf,
                            size_t size, whi_lane_done_fn done, void *arg) {
    whi_ucx_lane *mine = whi_ucx_lane_of(lane);
    whi_ucx_chunk *chunk = NULL;
    wh_status st = begin(mine, true, done, arg, &chunk);
    if (st != WH_OK)
        return st;
    ucp_request_param_t param = param_of(chunk);
    return posted(chunk, whi_ucp.ucp_get_nbx(mine->ep, buf, size, address, key->handle, &param));
}

static wh_status settled(whi_lane *lane, whi_lane_done_fn done, void *arg) {
    whi_ucx_lane *mine = whi_ucx_lane_of(lane);
    if (mine->broken != WH_OK || mine->failing != WH_OK)
        return mine->broken != WH_OK ? mine->broken : mine->failing;
    // Not one of those that are counted: there are few, and whoever asks could not try again.
    whi_ucx_chunk *chunk = whi_ucx_chunk_new(mine, false, &mine->flushes);
    if (!chunk)
        return whi_ucx_fail(mine, WH_ENOMEM);
    chunk->done = done;
    chunk->arg = arg;
    ucp_request_param_t param = param_of(chunk);
    param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    return posted(chunk, whi_ucp.ucp_ep_flush_nbx(mine->ep, &param));
}

const whi_lane_access whi_ucx_access = {.guards = guards,
                                        .map = map,
                                        .unmap = unmap,
                                        .key = key_of,
                                        .open = open_key,
                                        .close = close_key,
                                        .write = write_there,
                                        .read = read_there,
                                        .settled = settled};
