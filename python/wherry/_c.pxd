# SPDX-License-Identifier: BSD-3-Clause
#
# What the binding uses of the public headers; nothing else is declared to C anywhere.
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport FILE

cdef extern from "<stdbool.h>":
    ctypedef unsigned char cbool "bool"

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<dlfcn.h>" nogil:
    ctypedef struct Dl_info:
        const char *dli_fname
    int dladdr(const void *address, Dl_info *info)

cdef extern from "<wherry/status.h>" nogil:
    ctypedef enum wh_status:
        WH_OK
        WH_PENDING
        WH_EINVAL
        WH_ETRUNCATED
        WH_ECANCELLED
        WH_ETIMEDOUT
        WH_ECLOSED
        WH_EPEER
        WH_EBUSY
        WH_EFORKED
        WH_ETHREAD
        WH_ENOTFOUND
    const char *wh_status_text(wh_status status)

cdef extern from "<wherry/context.h>" nogil:
    ctypedef struct wh_context:
        pass
    const char *WH_VERSION_STRING
    const char *wh_version()
    wh_status wh_context_create(const char *const *options, wh_context **ctx)
    void wh_context_destroy(wh_context *ctx)
    ctypedef struct wh_config_item:
        const char *key
        const char *env
        const char *type
        const char *default_value
        const char *value
        const char *source
        const char *doc
    ctypedef struct wh_lane_info:
        const char *name
        cbool usable
        const char *reason

# They call back before they return, with the interpreter's lock as it was.
cdef extern from "<wherry/context.h>":
    void wh_context_config(const wh_context *ctx,
                           void (*fn)(const wh_config_item *item, void *arg), void *arg)
    void wh_context_lanes(const wh_context *ctx,
                          void (*fn)(const wh_lane_info *lane, void *arg), void *arg)

cdef extern from "<wherry/mem.h>" nogil:
    ctypedef enum wh_mem_kind:
        WH_MEM_AUTO
        WH_MEM_HOST
        WH_MEM_CUDA
        WH_MEM_SIM
    ctypedef struct wh_mem_info:
        size_t size
        wh_mem_kind kind
    wh_status wh_mem_query(const void *ptr, wh_mem_info *info)
    const char *wh_mem_kind_name(wh_mem_kind kind)
    wh_status wh_mem_kind_parse(const char *name, wh_mem_kind *kind)
    wh_status wh_mem_alloc_kind(wh_mem_kind kind, int device, size_t size, void **ptr)
    wh_status wh_mem_free_kind(wh_mem_kind kind, void *ptr)
    wh_status wh_mem_copy(void *dst, wh_mem_kind dst_kind, const void *src, wh_mem_kind src_kind,
                          size_t size)

cdef extern from "<wherry/type.h>" nogil:
    ctypedef struct wh_type:
        pass

cdef extern from "<wherry/request.h>" nogil:
    ctypedef struct wh_request:
        pass
    ctypedef struct wh_endpoint:
        pass
    ctypedef struct wh_object:
        pass
    ctypedef struct wh_result:
        wh_status status
        uint64_t size
        uint64_t tag
        wh_endpoint *source
        wh_object *object
    ctypedef void (*wh_done_fn)(wh_request *req, const wh_result *result, void *arg)
    uint32_t WH_OP_SYNC
    ctypedef wh_status (*wh_alloc_fn)(wh_object *object, size_t index, void **ptr, void *arg)
    ctypedef void (*wh_free_fn)(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg)
    ctypedef struct wh_allocator:
        size_t size
        wh_alloc_fn alloc
        wh_free_fn free_fn
        void *arg
        size_t threshold
    ctypedef struct wh_op_opts:
        size_t size
        int32_t timeout_ms
        uint32_t flags
        wh_mem_kind mem
        int device
        wh_done_fn done
        void *arg
        wh_result *result
        const wh_allocator *allocator
        const wh_type *type
        void *stream
    wh_status wh_request_wait(wh_request *req, int timeout_ms)
    const char *wh_request_error(const wh_request *req)
    void wh_request_cancel(wh_request *req)
    void wh_request_free(wh_request *req)

cdef extern from "<wherry/worker.h>" nogil:
    ctypedef struct wh_worker:
        pass
    ctypedef enum wh_progress_mode:
        WH_PROGRESS_DEFAULT
    ctypedef void (*wh_accept_fn)(wh_endpoint *ep, void *arg)
    ctypedef struct wh_worker_opts:
        size_t size
        wh_progress_mode mode
        cbool progress_thread
        wh_accept_fn accept
        void *accept_arg
        const void *accept_data
        size_t accept_data_size
    enum:
        WH_ADDRESS_MAX, WH_CONNECT_DATA_MAX
    wh_status wh_worker_set_allocator(wh_worker *worker, wh_mem_kind kind,
                                      const wh_allocator *allocator)
    ctypedef struct wh_counters:
        size_t size
        uint64_t sent_messages, sent_bytes, received_messages, received_bytes
        uint64_t eager, rendezvous, no_credit, unexpected, cancelled, failed
        uint64_t doorbells, wakeups, sleeps, links, endpoints, pending, packed, unpacked
        uint64_t device_sent, device_received, bulk_lane
    wh_status wh_worker_create(wh_context *ctx, const wh_worker_opts *opts, wh_worker **worker)
    wh_status wh_worker_adopt(wh_worker *worker)
    unsigned wh_worker_progress(wh_worker *worker)
    wh_status wh_worker_wait(wh_worker *worker, int timeout_ms)
    int wh_worker_fd(const wh_worker *worker)
    wh_status wh_worker_arm(wh_worker *worker)
    void wh_worker_wake(wh_worker *worker)
    wh_status wh_worker_call(wh_worker *worker, void (*fn)(void *arg), void *arg)
    wh_status wh_worker_address(wh_worker *worker, void *blob, size_t *size)
    void wh_worker_uuid(const wh_worker *worker, unsigned char *uuid)
    wh_status wh_worker_counters(const wh_worker *worker, wh_counters *counters)
    void wh_worker_dump(const wh_worker *worker, FILE *file)
    void wh_worker_destroy(wh_worker *worker)

cdef extern from "<wherry/endpoint.h>" nogil:
    ctypedef void (*wh_lost_fn)(wh_endpoint *ep, wh_status why, void *arg)
    ctypedef struct wh_endpoint_opts:
        size_t size
        int32_t timeout_ms
        wh_done_fn done
        void *arg
        const char *secret
        const void *data
        size_t data_size
    ctypedef struct wh_address:
        uint16_t family, port
        uint32_t scope_id
        char host[64]
    ctypedef struct wh_peer_info:
        size_t size
        unsigned char uuid[16]
        wh_address local, remote
        bint same_host, vouched
        uint32_t uid, pid
        char host[64]
    wh_status wh_endpoint_peer_info(const wh_endpoint *ep, wh_peer_info *info)
    const void *wh_endpoint_peer_data(const wh_endpoint *ep, size_t *size)
    bint wh_endpoint_lost(const wh_endpoint *ep)
    wh_status wh_endpoint_connect(wh_worker *worker, const char *address,
                                  const wh_endpoint_opts *opts, wh_endpoint **ep)
    wh_status wh_endpoint_connect_blob(wh_worker *worker, const void *blob, size_t size,
                                       const wh_endpoint_opts *opts, wh_endpoint **ep)
    wh_status wh_endpoint_status(const wh_endpoint *ep)
    const char *wh_endpoint_error(const wh_endpoint *ep)
    wh_status wh_endpoint_on_lost(wh_endpoint *ep, wh_lost_fn fn, void *arg)
    wh_status wh_endpoint_lanes(const wh_endpoint *ep, char *text, size_t size)
    wh_status wh_endpoint_peer(const wh_endpoint *ep, char *text, size_t size)
    wh_status wh_endpoint_counters(const wh_endpoint *ep, wh_counters *counters)
    wh_status wh_endpoint_flush(wh_endpoint *ep, const wh_op_opts *opts, wh_request **req)
    wh_status wh_endpoint_close(wh_endpoint *ep, const wh_op_opts *opts, wh_request **req)
    void wh_endpoint_abort(wh_endpoint *ep)

cdef extern from "<wherry/listener.h>" nogil:
    ctypedef struct wh_listener:
        pass
    ctypedef struct wh_listener_opts:
        size_t size
        const char *secret
        cbool any_user
        const void *data
        size_t data_size
    wh_status wh_listener_open(wh_worker *worker, const char *address,
                               const wh_listener_opts *opts, wh_accept_fn accept, void *arg,
                               wh_listener **listener)
    uint16_t wh_listener_port(const wh_listener *listener)
    wh_status wh_listener_sockaddr(const wh_listener *listener, size_t index,
                                   wh_address *address)
    wh_status wh_listener_address(const wh_listener *listener, char *text, size_t size)
    void wh_listener_close(wh_listener *listener)

cdef extern from "<wherry/tag.h>" nogil:
    wh_status wh_tag_send(wh_endpoint *ep, const void *buf, size_t size, uint64_t tag,
                          const wh_op_opts *opts, wh_request **req)
    wh_status wh_tag_recv(wh_endpoint *ep, void *buf, size_t size, uint64_t tag, uint64_t mask,
                          const wh_op_opts *opts, wh_request **req)
    wh_status wh_worker_tag_recv(wh_worker *worker, void *buf, size_t size, uint64_t tag,
                                 uint64_t mask, const wh_op_opts *opts, wh_request **req)
    wh_status wh_tag_probe(wh_endpoint *ep, uint64_t tag, uint64_t mask, wh_result *result)
    wh_status wh_worker_tag_probe(wh_worker *worker, uint64_t tag, uint64_t mask,
                                  wh_result *result)

    ctypedef struct wh_message:
        pass
    wh_status wh_tag_take(wh_endpoint *ep, uint64_t tag, uint64_t mask, wh_result *result,
                          wh_message **msg)
    wh_status wh_worker_tag_take(wh_worker *worker, uint64_t tag, uint64_t mask,
                                 wh_result *result, wh_message **msg)
    wh_status wh_message_recv(wh_message *msg, void *buf, size_t size, const wh_op_opts *opts,
                              wh_request **req)
    void wh_message_drop(wh_message *msg)

cdef extern from "<wherry/object.h>" nogil:
    ctypedef struct wh_frame:
        void *data
        size_t size
        wh_mem_kind mem
        int device
        const wh_type *type
    wh_status wh_object_send(wh_endpoint *ep, const void *header, size_t header_size,
                             const wh_frame *frames, size_t count, size_t frame_size,
                             uint64_t tag, const wh_op_opts *opts, wh_request **req)
    wh_status wh_object_recv(wh_endpoint *ep, const wh_frame *frames, size_t count,
                             size_t frame_size, uint64_t tag, uint64_t mask,
                             const wh_op_opts *opts, wh_request **req)
    wh_status wh_worker_object_recv(wh_worker *worker, const wh_frame *frames, size_t count,
                                    size_t frame_size, uint64_t tag, uint64_t mask,
                                    const wh_op_opts *opts, wh_request **req)
    wh_status wh_object_probe(wh_endpoint *ep, uint64_t tag, uint64_t mask, wh_result *result)
    wh_status wh_worker_object_probe(wh_worker *worker, uint64_t tag, uint64_t mask,
                                     wh_result *result)
    const void *wh_object_header(const wh_object *object, size_t *size)
    size_t wh_object_count(const wh_object *object)
    uint64_t wh_object_tag(const wh_object *object)
    const wh_frame *wh_object_frame(const wh_object *object, size_t index)
    wh_endpoint *wh_object_endpoint(const wh_object *object)
    void *wh_object_take_frame(wh_object *object, size_t index)
    wh_status wh_endpoint_set_allocator(wh_endpoint *ep, wh_mem_kind kind,
                                        const wh_allocator *allocator)
    wh_status wh_object_accept(wh_object *object, size_t index, void *data)
    void wh_object_free(wh_object *object)

cdef extern from "<wherry/am.h>" nogil:
    enum:
        WH_AM_HEADER_MAX
    ctypedef struct wh_am:
        pass
    ctypedef wh_status (*wh_am_fn)(wh_am *am, void *arg)
    wh_status wh_worker_set_am(wh_worker *worker, uint16_t id, wh_am_fn fn, void *arg)
    wh_status wh_am_send(wh_endpoint *ep, uint16_t id, const void *header, size_t header_size,
                         const void *buf, size_t size, const wh_op_opts *opts, wh_request **req)
    wh_status wh_am_recv(wh_am *am, void *buf, size_t size, const wh_op_opts *opts,
                         wh_request **req)
    void wh_am_drop(wh_am *am)

cdef extern from "<wherry/rma.h>" nogil:
    enum:
        WH_MR_READ
        WH_MR_WRITE
        WH_MR_ATOMIC
        WH_MR_KEY_MAX
    ctypedef struct wh_mr:
        pass
    ctypedef struct wh_rkey:
        pass
    ctypedef enum wh_atomic_op:
        WH_ATOMIC_ADD
        WH_ATOMIC_AND
        WH_ATOMIC_OR
        WH_ATOMIC_XOR
        WH_ATOMIC_SWAP
        WH_ATOMIC_CSWAP
    wh_status wh_mr_register(wh_context *ctx, void *ptr, size_t size, wh_mem_kind kind,
                              unsigned access, wh_mr **mr)
    wh_status wh_mr_alloc(wh_context *ctx, size_t size, unsigned access, wh_mr **mr)
    void *wh_mr_address(const wh_mr *mr)
    size_t wh_mr_size(const wh_mr *mr)
    wh_status wh_mr_key(const wh_mr *mr, void *key, size_t *size)
    wh_status wh_mr_destroy(wh_mr *mr)
    wh_status wh_rkey_open(wh_endpoint *ep, const void *key, size_t size, wh_rkey **rkey)
    uint64_t wh_rkey_size(const wh_rkey *rkey)
    cbool wh_rkey_direct(const wh_rkey *rkey)
    void wh_rkey_close(wh_rkey *rkey)
    wh_status wh_put(wh_rkey *rkey, uint64_t offset, const void *buf, size_t size,
                     const wh_op_opts *opts, wh_request **req)
    wh_status wh_get(wh_rkey *rkey, uint64_t offset, void *buf, size_t size,
                     const wh_op_opts *opts, wh_request **req)
    wh_status wh_atomic(wh_rkey *rkey, uint64_t offset, wh_atomic_op op, size_t size,
                        uint64_t operand, uint64_t compare, void *old, const wh_op_opts *opts,
                        wh_request **req)
    wh_status wh_endpoint_fence(wh_endpoint *ep)

cdef extern from "<wherry/log.h>" nogil:
    wh_status wh_log_set_level(const char *level)
    const char *wh_log_take_error()
    void wh_log_hold_errors(bint hold)

cdef extern from "_crowd.h" nogil:
    ctypedef struct crowd:
        bint wanted
    bint crowd_wants(crowd *c, uint64_t now_ns)


cdef extern from "_park.h" nogil:
    ctypedef struct park:
        pass
    ctypedef struct parked_op:
        void *request
        wh_result result
        uint64_t source
    ctypedef struct parked_loss:
        uint64_t number
        wh_status why
    ctypedef enum parked_kind:
        PARKED_ENDPOINT
        PARKED_AM
    ctypedef struct parked_event:
        parked_kind kind
        uint64_t number
        wh_endpoint *ep
        uint16_t id
        wh_am *kept
        size_t header_size, size
        char *bytes
    ctypedef struct park_door:
        park *home
        uint64_t number
        wh_listener *listener
    void park_door_close(park_door *door)
    void park_door_drop(park_door *door)
    void park_close_dropped(park *p)
    void park_init(park *p)
    uint64_t park_number()
    uint64_t park_number_of(wh_endpoint *ep)
    void park_set_number(wh_endpoint *ep)
    void park_op_init(parked_op *op, park *p, void *request)
    bint park_op_done(const parked_op *op)
    void park_op_wait(parked_op *op)
    parked_op *park_first_waiting(park *p)
    void park_op_end(parked_op *op)
    void park_op_leave(parked_op *op)
    parked_op *park_first(park *p)
    parked_op *park_next(park *p, parked_op *op)
    bint park_has_events(const park *p)
    bint park_empty(const park *p)
    parked_event *park_pop(park *p)
    parked_loss *park_take_loss(parked_op *op)
    void park_drop_losses(park *p)
    void park_on_done(wh_request *req, const wh_result *result, void *arg)
    void park_on_accept(wh_endpoint *ep, void *arg)
    void park_on_lost(wh_endpoint *ep, wh_status why, void *arg)
    wh_status park_on_am(wh_am *am, void *arg)
    wh_object *park_asks(const parked_op *op)
    void park_end_ask(parked_op *op)
    parked_op *park_first_asking(park *p)
    wh_status park_on_alloc(wh_object *object, size_t index, void **ptr, void *arg)
    void park_on_free(void *ptr, size_t size, wh_mem_kind kind, int device, void *arg)
    uint64_t park_clock_ns()
    cdef enum park_news:
        PARK_QUIET
        PARK_ENDED
        PARK_ASKED
        PARK_EVENT
    park_news park_glance(wh_worker *worker, const parked_op *op)
    park_news park_spin(wh_worker *worker, const parked_op *op, uint64_t until_ns)
    bint park_linger(wh_worker *worker, uint64_t until_ns)

cdef extern from "<wherry/type.h>" nogil:
    ctypedef enum wh_type_id:
        WH_TYPE_BYTE
        WH_TYPE_IDS
    ctypedef enum wh_type_kind:
        WH_KIND_BASIC
    ctypedef enum wh_order:
        WH_ORDER_C
        WH_ORDER_FORTRAN
    ctypedef enum wh_distrib:
        WH_DIST_NONE
        WH_DIST_BLOCK
        WH_DIST_CYCLIC
    int64_t WH_DIST_DEFAULT
    ctypedef struct wh_type_info:
        size_t size
        int64_t packed_size
        int64_t lb
        int64_t extent
        int64_t true_lb
        int64_t true_extent
        int64_t basics
        int64_t runs
        int64_t align

    const wh_type *wh_type_basic(wh_type_id id)
    const char *wh_type_error()
    wh_status wh_type_create_contig(int64_t count, const wh_type *old, wh_type **type)
    wh_status wh_type_create_vector(int64_t count, int64_t blocklength, int64_t stride,
                                    const wh_type *old, wh_type **type)
    wh_status wh_type_create_hvector(int64_t count, int64_t blocklength, int64_t stride,
                                     const wh_type *old, wh_type **type)
    wh_status wh_type_create_indexed(int64_t count, const int64_t *blocklengths,
                                     const int64_t *displacements, const wh_type *old,
                                     wh_type **type)
    wh_status wh_type_create_hindexed(int64_t count, const int64_t *blocklengths,
                                      const int64_t *displacements, const wh_type *old,
                                      wh_type **type)
    wh_status wh_type_create_indexed_block(int64_t count, int64_t blocklength,
                                           const int64_t *displacements, const wh_type *old,
                                           wh_type **type)
    wh_status wh_type_create_hindexed_block(int64_t count, int64_t blocklength,
                                            const int64_t *displacements, const wh_type *old,
                                            wh_type **type)
    wh_status wh_type_create_struct(int64_t count, const int64_t *blocklengths,
                                    const int64_t *displacements, const wh_type **types,
                                    wh_type **type)
    wh_status wh_type_create_subarray(int ndims, const int64_t *sizes, const int64_t *subsizes,
                                      const int64_t *starts, wh_order order, const wh_type *old,
                                      wh_type **type)
    wh_status wh_type_create_darray(int64_t size, int64_t rank, int ndims, const int64_t *gsizes,
                                    const int64_t *distribs, const int64_t *dargs,
                                    const int64_t *psizes, wh_order order, const wh_type *old,
                                    wh_type **type)
    wh_status wh_type_create_resized(const wh_type *old, int64_t lb, int64_t extent,
                                     wh_type **type)
    wh_status wh_type_create_strided(int ndims, const int64_t *shape, const int64_t *strides,
                                     const wh_type *old, wh_type **type)
    wh_status wh_type_dup(const wh_type *old, wh_type **type)
    wh_status wh_type_commit(const wh_type *type)
    wh_type *wh_type_retain(wh_type *type)
    void wh_type_release(wh_type *type)
    int64_t wh_type_size(const wh_type *type)
    wh_status wh_type_get_info(const wh_type *type, wh_type_info *info)
    wh_status wh_type_get_envelope(const wh_type *type, wh_type_kind *kind, size_t *nargs,
                                   size_t *nchildren)
    wh_status wh_type_get_contents(const wh_type *type, size_t max_args, int64_t *args,
                                   size_t max_children, const wh_type **children)
    wh_status wh_type_equal(const wh_type *a, const wh_type *b, cbool *equal)
    wh_status wh_type_signature(const wh_type *type, int64_t count, uint64_t *hash,
                                int64_t *basics)
    wh_status wh_type_get_elements(const wh_type *type, int64_t size, int64_t *basics)
    wh_status wh_type_get_border(const wh_type *type, int64_t size, int64_t *border,
                                 int64_t *basics)
    wh_status wh_type_flatten(const wh_type *type, void *data, size_t max, size_t *actual)
    wh_status wh_type_unflatten(const void *data, size_t size, size_t *used, wh_type **type)

cdef extern from "<wherry/pack.h>" nogil:
    unsigned WH_PACK_CACHED
    unsigned WH_PACK_STREAM
    wh_status wh_pack(const void *buf, int64_t count, const wh_type *type, size_t offset,
                      void *packed, size_t max, unsigned flags, size_t *actual)
    wh_status wh_unpack(const void *packed, size_t size, void *buf, int64_t count,
                        const wh_type *type, size_t offset, unsigned flags, size_t *actual)
    wh_status wh_pack_set_threads(unsigned count)
    ctypedef struct wh_cursor:
        pass
    wh_status wh_cursor_create(void *buf, int64_t count, const wh_type *type, unsigned flags,
                               wh_cursor **cursor)
    wh_status wh_cursor_pack(wh_cursor *cursor, size_t offset, void *packed, size_t max,
                             size_t *actual)
    wh_status wh_cursor_unpack(wh_cursor *cursor, size_t offset, const void *packed, size_t size,
                               size_t *actual)
    wh_status wh_cursor_flush(wh_cursor *cursor)
    void wh_cursor_destroy(wh_cursor *cursor)
    wh_status wh_type_copy(void *to, int64_t to_count, const wh_type *to_type, const void *source,
                           int64_t from_count, const wh_type *from_type, size_t *actual)
    wh_status wh_iov_len(int64_t count, const wh_type *type, int64_t *len)
    wh_status wh_iov_len_max(int64_t count, const wh_type *type, int64_t max_bytes, int64_t *len,
                             int64_t *bytes)
    wh_status wh_iov(const void *buf, int64_t count, const wh_type *type, int64_t first,
                     iovec *iov, int64_t max, int64_t *actual)
    wh_status wh_iov_bytes(const void *buf, int64_t count, const wh_type *type, size_t offset,
                           size_t max_bytes, iovec *iov, int64_t max, int64_t *actual,
                           size_t *bytes)
    ctypedef enum wh_reduce:
        WH_REDUCE_MAX
        WH_REDUCE_MIN
        WH_REDUCE_SUM
        WH_REDUCE_PROD
        WH_REDUCE_LAND
        WH_REDUCE_BAND
        WH_REDUCE_LOR
        WH_REDUCE_BOR
        WH_REDUCE_LXOR
        WH_REDUCE_BXOR
        WH_REDUCE_MINLOC
        WH_REDUCE_MAXLOC
        WH_REDUCE_REPLACE
        WH_REDUCE_NO_OP
    bint wh_reduce_defined(wh_reduce op, const wh_type *type)
    wh_status wh_accumulate(const void *packed, size_t size, void *buf, int64_t count,
                            const wh_type *type, size_t offset, wh_reduce op, size_t *actual)
    wh_status wh_pack_accumulate(const void *buf, int64_t count, const wh_type *type,
                                 size_t offset, void *packed, size_t max, wh_reduce op,
                                 size_t *actual)
    ctypedef struct wh_accumulator:
        pass
    wh_status wh_accumulator_create(void *buf, int64_t count, const wh_type *type, wh_reduce op,
                                    wh_accumulator **acc)
    wh_status wh_accumulator_add(wh_accumulator *acc, size_t offset, const void *packed,
                                 size_t size)
    size_t wh_accumulator_pending(const wh_accumulator *acc)
    void wh_accumulator_destroy(wh_accumulator *acc)
    int64_t wh_external_size(int64_t count, const wh_type *type)
    wh_status wh_external_pack(const void *buf, int64_t count, const wh_type *type, void *packed,
                               size_t max, size_t *actual)
    wh_status wh_external_unpack(const void *packed, size_t size, void *buf, int64_t count,
                                 const wh_type *type, size_t *actual)

# The X-lists, expanded by the C compiler: Cython does not see macros.
cdef extern from *:
    """
    #define NAME_OF(name, text) #name,
    static const char *const type_names[] = {WH_TYPE_LIST(NAME_OF)};
    #undef NAME_OF
    #define NAME_OF(name, number, text) #name,
    static const char *const status_names[] = {WH_STATUS_LIST(NAME_OF)};
    #undef NAME_OF
    #define NUMBER_OF(name, number, text) number,
    static const int status_numbers[] = {WH_STATUS_LIST(NUMBER_OF)};
    #undef NUMBER_OF
    enum { STATUSES = sizeof(status_numbers) / sizeof(status_numbers[0]) };
    """
    const char **type_names
    const char **status_names
    const int *status_numbers
    const int STATUSES
    # Sums of 64-bit products; C computes them, Cython only needs to know that it is an integer.
    ctypedef long long int128 "__int128"
