// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA memory over the bulk lane, over the test driver, whose memory faults when the CPU touches it.
//
// The UCX of a test machine knows no CUDA.  So it is told here that it does, and what is given to it as device memory passes
// through host memory on its way in and out, by the same calls that a UCX with CUDA would get.  Each looks whether a context is
// current, on which UCX relies.
#include <dlfcn.h>
#include <stdlib.h>

#include "engine/test_kit.h"
#include "mem/cuda_driver.h"
#include "message/bulk_lane.h"
#include "net/ucx/ucx_lane.h"

enum { SIZE = 5 << 20, TAG = 5, BOUNCES = 64 };

static const char *const secret[] = {"lanes=shm,stream", "secret=known to both", NULL};
static const char *const none[] = {"lanes=shm,stream", "secret=known to both", "bulk_lane=none",
                                   NULL};
static const char *const by_host[] = {"lanes=shm,stream", "secret=known to both",
                                      "device_path=staged", NULL};
static const char *const strange[] = {"lanes=shm,stream", NULL};

static duo d;
static unsigned char out[SIZE], in[SIZE];
static whi_ucp_calls real;
static unsigned sent, received, without_context;

static bool is_current(void) {
    whi_cuda_context context = NULL;
    return whi_cuda.cuCtxGetCurrent(&context) == WHI_CUDA_SUCCESS && context;
}

// ---- The UCX that knows CUDA.

// Host memory in the place of device memory.
typedef struct bounce {
    void *device, *host;
    size_t size;
    ucp_am_recv_data_nbx_callback_t then;
    void *arg;
} bounce;

static bounce bounces[BOUNCES];
static unsigned bounce_count;

static bounce *take_bounce(void *device, size_t size) {
    CHECK(bounce_count < BOUNCES);
    bounce *b = &bounces[bounce_count++];
    *b = (bounce){.device = device, .host = malloc(size), .size = size};
    CHECK(b->host);
    without_context += !is_current();
    return b;
}

static ucs_status_t knows_cuda(ucp_context_h context, ucp_context_attr_t *attr) {
    ucs_status_t status = real.ucp_context_query(context, attr);
    attr->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
    return status;
}

static ucs_status_ptr_t send_cuda(ucp_ep_h ep, unsigned id, const void *header, size_t header_size,
                                  const void *buf, size_t size, const ucp_request_param_t *param) {
    ucp_request_param_t with = *param;
    if (param->memory_type == UCS_MEMORY_TYPE_CUDA) {
        bounce *b = take_bounce((void *)(uintptr_t)buf, size);
        CHECK_EQ_INT(wh_mem_copy(b->host, WH_MEM_HOST, buf, WH_MEM_CUDA, size), WH_OK);
        with.memory_type = UCS_MEMORY_TYPE_HOST;
        buf = b->host;
        sent++;
    }
    return real.ucp_am_send_nbx(ep, id, header, header_size, buf, size, &with);
}

static void bring(const bounce *b) {
    CHECK_EQ_INT(wh_mem_copy(b->device, WH_MEM_CUDA, b->host, WH_MEM_HOST, b->size), WH_OK);
    received++;
}

static void brought(void *request, ucs_status_t status, size_t size, void *arg) {
    bounce *b = arg;
    if (status == UCS_OK)
        bring(b);
    b->then(request, status, size, b->arg);
}

static ucs_status_ptr_t recv_cuda(ucp_worker_h worker, void *what, void *buf, size_t size,
                                  const ucp_request_param_t *param) {
    if (param->memory_type != UCS_MEMORY_TYPE_CUDA)
        return real.ucp_am_recv_data_nbx(worker, what, buf, size, param);
    ucp_request_param_t with = *param;
    bounce *b = take_bounce(buf, size);
    b->then = param->cb.recv_am;
    b->arg = param->user_data;
    with.memory_type = UCS_MEMORY_TYPE_HOST;
    with.cb.recv_am = brought;
    with.user_data = b;
    ucs_status_ptr_t request = real.ucp_am_recv_data_nbx(worker, what, b->host, size, &with);
    if (!request)
        bring(b);
    return request;
}

static unsigned progress_cuda(ucp_worker_h worker) {
    wh_worker *const workers[] = {d.server, d.client};
    for (int i = 0; i < 2; i++) {
        const whi_ucx *ucx = workers[i] ? whi_links_of(workers[i])->ucx : NULL;
        if (ucx && ucx->worker == worker && ucx->device >= 0)
            without_context += !is_current();
    }
    return real.ucp_worker_progress(worker);
}

// ---- The test.

static void begin_as_is(const char *const *server, const char *const *client) {
    const char *why;
    if (whi_ucx_load("", &why) != WH_OK)
        SKIP(why);
    if (!(wh_mem_kinds() & 1u << WH_MEM_CUDA))
        SKIP("no CUDA driver");
    if (!real.ucp_context_query)
        real = whi_ucp;
    whi_ucp.ucp_context_query = knows_cuda;
    whi_ucp.ucp_am_send_nbx = send_cuda;
    whi_ucp.ucp_am_recv_data_nbx = recv_cuda;
    whi_ucp.ucp_worker_progress = progress_cuda;
    CHECK(whi_ucx_knows(WH_MEM_CUDA));
    for (size_t i = 0; i < SIZE; i++)
        out[i] = (unsigned char)(i * 7 + i / 256 + i / 65536 * 3);
    sent = received = without_context = 0;
    duo_begin(&d, server, client);
    duo_connect(&d);
}

// apart has both ends think that they are on two hosts, without copies from device to device.
static void apart(void) {
    whi_link *const links[] = {d.to->link, d.from->link};
    for (int i = 0; i < 2; i++) {
        links[i]->peer.features &= ~(uint64_t)WHI_FEATURE_DEVICE;
        links[i]->peer.boot_id[0] ^= 1;
    }
}

static void begin(const char *const *server, const char *const *client) {
    begin_as_is(server, client);
    apart();
}

static void end(void) {
    CHECK(!is_current());                                    // the caller's own is what it was
    whi_ucp.ucp_worker_progress = real.ucp_worker_progress;  // that one looks at both workers
    duo_end(&d);
    CHECK_EQ_INT(without_context, 0);
    while (bounce_count)
        free(bounces[--bounce_count].host);
}

static void *on_device(const void *content, size_t size) {
    void *ptr = NULL;
    CHECK_EQ_INT(wh_mem_alloc_kind(WH_MEM_CUDA, 0, size, &ptr), WH_OK);
    if (content)
        CHECK_EQ_INT(wh_mem_copy(ptr, WH_MEM_CUDA, content, WH_MEM_HOST, size), WH_OK);
    return ptr;
}

static void give(void *ptr) {
    CHECK_EQ_INT(wh_mem_free_kind(WH_MEM_CUDA, ptr), WH_OK);
}

static void ends_as(wh_request *req, wh_status expected) {
    if (req)
        CHECK_EQ_INT(done_as(&d, req), expected);
}

static wh_counters counted(void) {
    wh_counters counters = {.size = sizeof(counters)};
    CHECK_EQ_INT(wh_endpoint_counters(d.to, &counters), WH_OK);
    return counters;
}

static uint64_t by_bulk(void) {
    return counted().bulk_lane;
}

static void pass(size_t size, bool from_device, bool to_device) {
    void *from = from_device ? on_device(out, size) : out;
    void *into = to_device ? on_device(NULL, size) : in;
    wh_request *recv = NULL, *send_req = NULL;
    memset(in, 0, size);
    CHECK(wh_tag_recv(d.from, into, size, TAG, WH_TAG_MASK_ALL, NULL, &recv) >= 0);
    CHECK(wh_tag_send(d.to, from, size, TAG, NULL, &send_req) >= 0);
    ends_as(recv, WH_OK);
    ends_as(send_req, WH_OK);
    if (to_device)
        CHECK_EQ_INT(wh_mem_copy(in, WH_MEM_HOST, into, WH_MEM_CUDA, size), WH_OK);
    CHECK_MEM(in, out, size);
    if (from_device)
        give(from);
    if (to_device)
        give(into);
}

// By default device memory goes so, at either end, in whole chunks and in what is left of them; host memory does not.
TEST(messages) {
    begin(secret, secret);
    pass(SIZE, false, false);
    CHECK(by_bulk() == 0 && !whi_links_of(d.client)->ucx);
    pass(SIZE, true, true);
    CHECK_EQ_INT(by_bulk(), 1);
    CHECK(sent == 2 && received == 2);
    pass(SIZE, true, false);
    CHECK(sent == 4 && received == 2);
    pass(SIZE, false, true);
    CHECK(sent == 4 && received == 4);
    pass((4 << 20) + 100, false, true);  // the last bytes come as a record, and are copied
    CHECK(sent == 4 && received == 5);
    pass((4 << 20) + 100, true, true);
    CHECK(sent == 6 && received == 7);
    CHECK_EQ_INT(by_bulk(), 5);
    pass(100, true, true);
    pass(SIZE, false, false);
    CHECK_EQ_INT(by_bulk(), 5);
    end();
}

enum { REST = 100 };

static int (*copy_async)(whi_cuda_ptr, whi_cuda_ptr, size_t, whi_cuda_stream);

static int no_rest(whi_cuda_ptr to, whi_cuda_ptr from, size_t size, whi_cuda_stream stream) {
    return size == REST ? WHI_CUDA_INVALID_VALUE : copy_async(to, from, size, stream);
}

// The last bytes come as a record, which the lane copies; when it cannot, it is lost, and the receive is not held by it.
TEST(a_record_that_cannot_be_copied) {
    begin(secret, secret);
    pass(SIZE, true, true);
    size_t size = (4 << 20) + REST;
    void *into = on_device(NULL, size);
    wh_request *recv = NULL, *send_req = NULL;
    copy_async = whi_cuda.cuMemcpyAsync;
    whi_cuda.cuMemcpyAsync = no_rest;
    CHECK(wh_tag_recv(d.from, into, size, TAG, WH_TAG_MASK_ALL, NULL, &recv) >= 0);
    CHECK(wh_tag_send(d.to, out, size, TAG, NULL, &send_req) >= 0);
    ends_as(recv, WH_EPEER);
    ends_as(send_req, WH_EPEER);
    whi_cuda.cuMemcpyAsync = copy_async;
    CHECK_EQ_INT(by_bulk(), 2);
    give(into);
    pass(SIZE, true, true);
    CHECK_EQ_INT(by_bulk(), 2);
    end();
}

// UCX may keep memory for good that it receives into from a peer of this host, so that the receiver gives it none of a device.
TEST(on_one_host) {
    begin_as_is(secret, secret);
    d.to->link->peer.features &= ~(uint64_t)WHI_FEATURE_DEVICE;
    d.from->link->peer.features &= ~(uint64_t)WHI_FEATURE_DEVICE;
    pass(SIZE, true, true);
    CHECK(by_bulk() == 1 && sent == 2 && received == 0);
    end();
}

// What is not trusted, or not wanted by one side, is staged.
TEST(staged) {
    const char *const *const ways[][2] = {
        {strange, strange}, {none, none}, {by_host, by_host}, {by_host, secret}, {secret, by_host}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        begin(ways[i][0], ways[i][1]);
        pass(SIZE, true, true);
        pass(SIZE, true, true);
        CHECK(by_bulk() == 0 && sent + received == 0);
        CHECK(!whi_links_of(d.server)->ucx && !whi_links_of(d.client)->ucx);
        end();
    }
}

// From device to device of this host one copy is better, and UCX is not opened for it; host memory has no other way.
TEST(after_one_copy) {
    begin_as_is(secret, secret);
    pass(SIZE, true, true);
    pass(SIZE, true, true);
    CHECK(by_bulk() == 0 && sent + received == 0 && counted().device_sent == 2);
    CHECK(!whi_links_of(d.server)->ucx && !whi_links_of(d.client)->ucx);
    pass(SIZE, true, false);  // the receiver opens it
    UNTIL(&d, whi_link_bulk(d.from->link) && whi_link_bulk(d.to->link));
    pass(SIZE, true, false);
    CHECK(by_bulk() == 1 && sent == 2 && received == 0);
    pass(SIZE, true, true);
    CHECK(by_bulk() == 1 && counted().device_sent == 3);
    end();
}

// Managed memory moves by itself, so that no network reads it where it is.
TEST(managed_memory_is_staged) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    int (*make)(void **, size_t, unsigned);
    int (*end_of)(void *);
    *(void **)&make = dlsym(library, "cuMemAllocManaged");
    *(void **)&end_of = dlsym(library, "cuMemFree_v2");
    begin(secret, secret);
    void *from = NULL;
    CHECK_EQ_INT(whi_mem_cuda.foreign->enter(0), WH_OK);
    CHECK_EQ_INT(make(&from, SIZE, 1), 0);
    whi_mem_cuda.foreign->leave();
    CHECK_EQ_INT(wh_mem_copy(from, WH_MEM_CUDA, out, WH_MEM_HOST, SIZE), WH_OK);
    wh_request *recv = NULL, *send_req = NULL;
    memset(in, 0, SIZE);
    CHECK(wh_tag_recv(d.from, in, SIZE, TAG, WH_TAG_MASK_ALL, NULL, &recv) >= 0);
    CHECK(wh_tag_send(d.to, from, SIZE, TAG, NULL, &send_req) >= 0);
    ends_as(recv, WH_OK);
    ends_as(send_req, WH_OK);
    CHECK_MEM(in, out, SIZE);
    CHECK(by_bulk() == 0 && sent + received == 0);
    CHECK_EQ_INT(whi_mem_cuda.foreign->enter(0), WH_OK);
    CHECK_EQ_INT(end_of(from), 0);
    whi_mem_cuda.foreign->leave();
    end();
}

TEST(an_object_of_both) {
    begin(secret, secret);
    void *device = on_device(out, SIZE / 2);
    wh_frame frames[] = {{.data = out, .size = SIZE / 2, .mem = WH_MEM_HOST},
                         {.data = device, .size = SIZE / 2, .mem = WH_MEM_CUDA}};
    wh_request *send_req = NULL, *recv = NULL;
    CHECK(wh_object_send(d.to, "head", 4, frames, 2, sizeof(frames[0]), TAG, NULL, &send_req) >= 0);
    CHECK(wh_object_recv(d.from, NULL, 0, sizeof(frames[0]), TAG, WH_TAG_MASK_ALL, NULL, &recv) >=
          0);
    UNTIL(&d, wh_request_status(recv) != WH_PENDING);
    wh_result result;
    CHECK_EQ_INT(wh_request_result(recv, &result), WH_OK);
    CHECK_MEM(wh_object_frame(result.object, 0)->data, out, SIZE / 2);
    CHECK_EQ_INT(wh_mem_copy(in, WH_MEM_HOST, wh_object_frame(result.object, 1)->data, WH_MEM_AUTO,
                             SIZE / 2),
                 WH_OK);
    CHECK_MEM(in, out, SIZE / 2);
    CHECK(by_bulk() == 1 && sent == 1);
    wh_object_free(result.object);
    wh_request_free(recv);
    ends_as(send_req, WH_OK);
    give(device);
    end();
}

// The whole link over UCX takes device memory in the same way.
TEST(a_link_over_ucx) {
    static const char *const over_ucx[] = {"lanes=ucx", NULL};
    static const char *const over_host[] = {"lanes=ucx", "device_path=staged", NULL};
    begin(over_ucx, over_ucx);
    pass(SIZE, true, true);
    CHECK(by_bulk() == 0 && sent == 2 && received == 2);
    end();
    begin(over_host, over_ucx);
    pass(SIZE, true, true);
    CHECK(sent == 2 && received == 0);
    end();
    begin(over_ucx, over_host);
    pass(SIZE, true, true);
    CHECK(sent == 0 && received >= 2);  // in the pieces of staging
    end();
}

TEST_MAIN()
