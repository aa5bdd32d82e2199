# SPDX-License-Identifier: BSD-3-Clause
#
# What wherry.charm uses of rt.h and chare.h; nothing else is declared to C anywhere.
from libc.stdio cimport FILE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "<stdbool.h>":
    ctypedef unsigned char cbool "bool"

cdef extern from "<wherry/wherry.h>" nogil:
    ctypedef enum wh_status:
        WH_OK
        WH_PENDING
        WH_EINVAL
        WH_EBUSY, WH_ECANCELLED
        WH_ENOTFOUND
        WH_ENOTSUP, WH_EPEER
    const char *wh_status_text(wh_status status)
    const char *wh_log_take_error()
    void wh_log_hold_errors(cbool hold)

    ctypedef struct wh_context:
        pass
    ctypedef struct wh_worker:
        pass
    ctypedef struct wh_config_item:
        const char *key
        const char *value
    int wh_worker_fd(const wh_worker *worker)

    ctypedef struct wh_rt:
        pass
    ctypedef struct wh_pe:
        pass
    ctypedef struct wh_rt_opts:
        size_t size
        int pes
    ctypedef struct wh_pe_msg:
        int source
        const void *head
        size_t head_size
        void *data
        size_t size
    ctypedef void (*wh_pe_main_fn)(wh_pe *pe, void *arg)
    ctypedef void (*wh_pe_msg_fn)(wh_pe *pe, wh_pe_msg *msg, void *arg)
    ctypedef void (*wh_pe_fn)(wh_pe *pe, void *arg)
    wh_status wh_rt_init(const wh_rt_opts *opts, wh_rt **rt)
    int wh_rt_pes(const wh_rt *rt)
    int wh_rt_processes(const wh_rt *rt)
    wh_context *wh_rt_context(const wh_rt *rt)
    wh_status wh_rt_begin(wh_rt *rt, wh_pe_main_fn main_fn, void *arg, wh_pe **first)
    wh_status wh_rt_end(wh_rt *rt, int *status)
    void wh_rt_finish(wh_rt *rt)
    unsigned wh_pe_turn(wh_pe *pe)
    wh_status wh_pe_arm(wh_pe *pe, int *timeout_ms)
    bint wh_pe_ended(const wh_pe *pe)
    int wh_pe_number(const wh_pe *pe)
    wh_worker *wh_pe_worker(const wh_pe *pe)
    void wh_pe_exit(wh_pe *pe, int status)
    ctypedef enum wh_dump_found:
        WH_DUMP_NOTHING
        WH_DUMP_WAITS
        WH_DUMP_GOES_ON
    ctypedef wh_dump_found (*wh_pe_dump_fn)(const wh_pe *pe, FILE *file, void *arg)
    void wh_pe_on_dump(wh_pe *pe, wh_pe_dump_fn fn, void *arg, const char *exit_call)
    void wh_pe_name_span(wh_pe *pe, const char *name, const char *part)
    wh_status wh_pe_set_handler(wh_pe *pe, uint16_t id, wh_pe_msg_fn fn, void *arg)
    wh_status wh_pe_send(wh_pe *pe, int dest, uint16_t handler, const void *head, size_t head_size,
                         const void *data, size_t size, int32_t priority)
    wh_status wh_pe_after(wh_pe *pe, uint64_t delay_us, wh_pe_fn fn, void *arg, uint32_t *id)
    wh_status wh_pe_on_quiescence(wh_pe *pe, wh_pe_fn fn, void *arg)

    ctypedef struct wh_request:
        pass
    ctypedef struct wh_result:
        wh_status status
        uint64_t size
    ctypedef void (*wh_done_fn)(wh_request *req, const wh_result *result, void *arg)
    ctypedef enum wh_mem_kind:
        WH_MEM_AUTO
        WH_MEM_HOST
    ctypedef struct wh_frame:
        void *data
        size_t size
        wh_mem_kind mem

    enum:
        WH_CHARE_DIMS_MAX
        WH_PROXY_SIZE
    ctypedef struct wh_proxy:
        uint32_t collection
        int32_t index[6]
        uint8_t dims
    wh_proxy wh_proxy_at(wh_proxy collection, int dims, const int32_t *index)
    void wh_proxy_encode(const wh_proxy *proxy, void *bytes)
    wh_status wh_proxy_decode(const void *bytes, size_t size, wh_proxy *proxy)

    ctypedef struct wh_chare:
        wh_pe *pe
        void *state
        wh_proxy proxy
    ctypedef struct wh_call:
        const void *args
        size_t size
        int64_t ref
        int source
        const wh_frame *buffers
        size_t count
    ctypedef void (*wh_entry_fn)(wh_chare *self, const wh_call *call)
    ctypedef void (*wh_post_fn)(wh_chare *self, const wh_call *call, wh_frame *buffers)
    ctypedef struct wh_entry:
        const char *name
        wh_entry_fn fn
        uint32_t flags
        wh_post_fn post
    ctypedef struct wh_class:
        size_t size
        const char *name
        size_t state
        wh_entry_fn construct
        void (*destruct)(wh_chare *self)
        const wh_entry *entries
        size_t entry_count
        size_t entry_size
        size_t (*pack)(wh_chare *self, void *to)
        wh_status (*unpack)(wh_chare *self, const void *data, size_t size)
        const char *(*stays)(wh_chare *self, cbool saved)
        const char *(*alias)(const wh_chare *self)
    size_t WH_PACK_FAILED
    wh_status wh_chare_move(wh_chare *self, int to)
    wh_status wh_class_register(wh_pe *pe, const wh_class *cls)
    wh_status wh_chare_create(wh_pe *pe, const char *cls, int where, const void *args, size_t size,
                              wh_proxy *element)
    wh_status wh_group_create(wh_pe *pe, const char *cls, const void *args, size_t size,
                              wh_proxy *group)
    enum:
        WH_ARRAY_INSERTING
    ctypedef struct wh_array_opts:
        size_t size
        int dims
        int32_t shape[6]
        const char *map
        uint32_t flags
        const char *balance
        uint32_t resume
    wh_status wh_array_create(wh_pe *pe, const char *cls, const wh_array_opts *opts, const void *args,
                              size_t size, wh_proxy *array)
    wh_status wh_array_insert(wh_pe *pe, wh_proxy element, const void *args, size_t size)
    wh_status wh_array_done(wh_pe *pe, wh_proxy array)
    ctypedef int (*wh_map_fn)(const int32_t *index, int dims, const int32_t *shape, int pes, void *arg)
    wh_status wh_map_register(wh_pe *pe, const char *name, wh_map_fn fn, void *arg)
    wh_status wh_chare_destroy(wh_pe *pe, wh_proxy proxy)
    ctypedef struct wh_send_opts:
        size_t size
        const wh_frame *buffers
        size_t count
        size_t frame_size
        wh_done_fn done
        void *done_arg
    wh_status wh_chare_send(wh_pe *pe, wh_proxy proxy, unsigned entry, const void *args, size_t size,
                            const wh_send_opts *opts)

    ctypedef enum wh_callback_kind:
        WH_CALLBACK_SEND
        WH_CALLBACK_FUNCTION
    ctypedef struct wh_callback:
        wh_callback_kind kind
        uint32_t entry
        wh_proxy proxy
        int64_t ref
        uint64_t function
        int32_t pe
    ctypedef void (*wh_function_fn)(wh_pe *pe, const wh_call *call, void *arg)
    wh_status wh_function_register(wh_pe *pe, const char *name, wh_function_fn fn, void *arg)
    uint64_t wh_function_id(const char *name)

    wh_status wh_chare_sync(wh_chare *self)
    wh_status wh_chare_set_load(wh_chare *self, double load)
    ctypedef struct wh_balance_step:
        size_t size
        uint64_t number, elements, fixed, moved
        double max_before, mean_before, max_after, mean_after, seconds
    ctypedef struct wh_balance_element:
        double load
        int32_t pe
        uint32_t fixed
    ctypedef wh_status (*wh_balancer_fn)(const wh_balance_element *elements, size_t count, int pes, int32_t *to,
                                         void *arg)
    wh_status wh_balancer_register(wh_pe *pe, const char *name, wh_balancer_fn fn, void *arg)
    wh_status wh_balance_last(wh_pe *pe, wh_proxy array, wh_balance_step *step)
    wh_status wh_checkpoint_write(wh_pe *pe, const char *folder, const wh_callback *callback)
    wh_status wh_checkpoint_read(wh_pe *pe, const char *folder, const wh_callback *callback)

    ctypedef enum wh_type_id:
        WH_TYPE_BOOL, WH_TYPE_INT8, WH_TYPE_INT16, WH_TYPE_INT32, WH_TYPE_INT64, WH_TYPE_UINT8, WH_TYPE_UINT16
        WH_TYPE_UINT32, WH_TYPE_UINT64, WH_TYPE_FLOAT, WH_TYPE_DOUBLE, WH_TYPE_COMPLEX_FLOAT, WH_TYPE_COMPLEX_DOUBLE
    ctypedef struct wh_type:
        pass
    const wh_type *wh_type_basic(wh_type_id id)
    ctypedef enum wh_reduce:
        WH_REDUCE_MAX, WH_REDUCE_MIN, WH_REDUCE_SUM, WH_REDUCE_PROD, WH_REDUCE_LAND, WH_REDUCE_BAND, WH_REDUCE_LOR
        WH_REDUCE_BOR, WH_REDUCE_LXOR, WH_REDUCE_BXOR
    cbool wh_reduce_defined(wh_reduce op, const wh_type *type)
    ctypedef enum wh_reducer:
        WH_REDUCER_OP, WH_REDUCER_SET
    ctypedef struct wh_contribution:
        wh_reducer reducer
        wh_reduce op
        wh_type_id type
        const void *data
        size_t count
    wh_status wh_contribute(wh_chare *self, const wh_contribution *parts, size_t count, size_t part_size,
                            const wh_callback *callback)
    ctypedef struct wh_reduction_item:
        wh_proxy element
        const void *data
        size_t size
    cbool wh_reduction_next(const void *value, size_t size, size_t *cursor, wh_reduction_item *item)

    enum:
        WH_SECTION_SIZE
    ctypedef struct wh_section:
        pass
    wh_status wh_section_create(wh_pe *pe, wh_proxy collection, int dims, const int32_t *indices, size_t count,
                                wh_section *section)
    void wh_section_encode(const wh_section *section, void *bytes)
    wh_status wh_section_decode(const void *bytes, size_t size, wh_section *section)
    wh_status wh_section_send(wh_pe *pe, wh_section section, unsigned entry, const void *args, size_t size,
                              int64_t ref)
    wh_status wh_section_contribute(wh_chare *self, wh_section section, const wh_contribution *parts,
                                    size_t count, size_t part_size, const wh_callback *callback)
    wh_status wh_section_destroy(wh_pe *pe, wh_section section)

    ctypedef struct wh_op_opts:
        size_t size
        wh_mem_kind mem
        wh_done_fn done
        void *arg
        wh_result *result
    ctypedef struct wh_channel:
        pass
    enum:
        WH_CHANNEL_WITHDRAW
    ctypedef struct wh_channel_opts:
        size_t size
        uint32_t window
        uint32_t id
        uint32_t flags
    wh_status wh_channel_open(wh_chare *self, wh_proxy peer, const wh_channel_opts *opts, wh_channel **channel)
    wh_status wh_channel_send(wh_channel *channel, const void *buf, size_t size, const wh_op_opts *opts,
                              wh_request **req)
    wh_status wh_channel_recv(wh_channel *channel, void *buf, size_t size, const wh_op_opts *opts,
                              wh_request **req)
    wh_status wh_callback_fire(wh_pe *pe, const wh_callback *callback, const void *value, size_t size)
    wh_status wh_channel_find(wh_chare *self, uint32_t id, wh_channel **channel)
    void wh_channel_close(wh_channel *channel)

# They call back before they return, with the interpreter's lock as it was.
cdef extern from "<wherry/wherry.h>":
    void wh_context_config(const wh_context *ctx,
                           void (*fn)(const wh_config_item *item, void *arg), void *arg)
