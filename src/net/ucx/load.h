// SPDX-License-Identifier: BSD-3-Clause
//
// The functions of UCX that the lane uses, opened at run time.  For the files of this folder.
//
// One list names them; the table of pointers and the code that fills it expand it.  The library may be older than the
// headers: only what 1.13 has is used, and a mask says of each struct which fields are filled in or asked for, so that
// neither side looks at what was added behind them since.
#ifndef WHI_NET_UCX_LOAD_H
#define WHI_NET_UCX_LOAD_H

#include <ucp/api/ucp.h>

enum { WHI_UCX_OLDEST = 13 };  // minor version of UCX 1

// clang-format off
#define WHI_UCP_CALLS(X)                                                                           \
    X(ucp_get_version) X(ucp_get_version_string)                                                   \
    X(ucp_config_read) X(ucp_config_modify) X(ucp_config_release)                                  \
    X(ucp_init_version) X(ucp_context_query) X(ucp_context_print_info) X(ucp_cleanup)             \
    X(ucp_worker_create) X(ucp_worker_destroy) X(ucp_worker_query)                                 \
    X(ucp_worker_get_address) X(ucp_worker_release_address)                                        \
    X(ucp_worker_get_efd) X(ucp_worker_arm) X(ucp_worker_progress)                                 \
    X(ucp_worker_set_am_recv_handler)                                                              \
    X(ucp_ep_create) X(ucp_ep_close_nbx) X(ucp_ep_flush_nbx) X(ucp_ep_query) X(ucp_ep_print_info)  \
    X(ucp_am_send_nbx) X(ucp_am_recv_data_nbx) X(ucp_am_data_release)                              \
    X(ucp_mem_map) X(ucp_mem_unmap) X(ucp_rkey_pack) X(ucp_rkey_buffer_release)                    \
    X(ucp_ep_rkey_unpack) X(ucp_rkey_destroy) X(ucp_put_nbx) X(ucp_get_nbx)                        \
    X(ucp_request_free) X(ucs_status_string)
// clang-format on

typedef struct whi_ucp_calls {
#define WHI_UCP_POINTER(name) __typeof__(&(name)) name;
    WHI_UCP_CALLS(WHI_UCP_POINTER)
#undef WHI_UCP_POINTER
} whi_ucp_calls;

// The table; written once, before anything of UCX can be used.
extern whi_ucp_calls whi_ucp;

#endif
