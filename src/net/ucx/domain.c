// SPDX-License-Identifier: BSD-3-Clause
//
// The domain: UCX as one worker uses it, and the way of an active message to its lane.
//
// What UCX is told to do differently from its defaults stands in `settings`, with reasons; whatever the user has set in
// the environment (UCX_...) goes before it.  The environment itself is never written.  UCX starts a
// thread of its own for its timers: it gets no signals.
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/ucx/ucx_lane.h"

#define LEAVE_NS (500 * WHI_NS_PER_MS)  // for what was sent last, when a domain ends

#define RELEASE(major, minor) ((major) << 16 | (minor) << 8)  // as whi_ucx_version has it

static const struct {
    const char *key, *value;
    uint32_t since;
    enum {
        ALWAYS,
        MEMORY,
        NETWORK,
        LONG_QUEUES,
        SHORT_QUEUES
    } with;  // only where there is shared memory, a network beside the loopback, or such a release
} settings[] = {
    // Without this, endpoints that have to survive their peer's death use no shared memory at all, but TCP on the loopback.
    {"MM_ERROR_HANDLING", "y", 0, MEMORY},
    // CMA reads the peer's memory while the peer may be giving it back; and it was slower here.
    {"TLS", "^cma", 0, SHORT_QUEUES},
    {"TLS", "^sm", 0, LONG_QUEUES},
    // The link's socket tells of the peer's death, at once; UCX's own checks come late and now and then for nothing.
    {"KEEPALIVE_INTERVAL", "inf", 0, ALWAYS},
    // As has_long_queues says.
    {"POSIX_FIFO_SIZE", "64", RELEASE(1, 17), MEMORY},
    {"SYSV_FIFO_SIZE", "64", RELEASE(1, 17), MEMORY},
    // 1.13 aborts when a 1.22 of its host connects to it by the loopback: their addresses of it have different forms.  Older
    // ones than 1.21 cannot be told to leave out a device.
    {"NET_DEVICES", "^lo", RELEASE(1, 21), NETWORK},
};

const char *whi_ucx_explain(const char *format, ...) {
    static _Thread_local char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return text;
}

wh_status whi_ucx_status(ucs_status_t status) {
    switch (status) {
    case UCS_OK: return WH_OK;
    case UCS_INPROGRESS: return WH_PENDING;
    case UCS_ERR_NO_MEMORY: return WH_ENOMEM;
    case UCS_ERR_NO_RESOURCE: return WH_EAGAIN;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE: return WH_EUNREACHABLE;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_REJECTED:
    case UCS_ERR_CANCELED:
    case UCS_ERR_IO_ERROR: return WH_EPEER;
    case UCS_ERR_UNSUPPORTED: return WH_ENOTSUP;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR: return WH_EPROTOCOL;
    default: return WH_ESYSTEM;
    }
}

// without_memory says whether the user allows no shared memory, of whose settings 1.13 then complains.
static bool without_memory(void) {
    static const char *const words[] = {"posix", "sysv", "sm", "shm", "mm", "all", "^"};
    const char *list = getenv("UCX_TLS");
    for (size_t i = 0; list && i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(list, words[i]))
            list = NULL;
    return list != NULL;
}

// without_network says whether this machine has no other interface than its loopback.
static bool without_network(void) {
    struct ifaddrs *all;
    bool none = true;
    if (getifaddrs(&all) != 0)
        return true;
    for (struct ifaddrs *at = all; at; at = at->ifa_next)
        if (at->ifa_addr && (at->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP &&
            (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6))
            none = false;
    freeifaddrs(all);
    return none;
}

// Two UCX whose shared-memory queues differ in length crash each other.  1.13 has 64 places, 1.14 to 1.16 have more, and
// none of them lets itself be told: so the latter use no shared memory.
static bool has_long_queues(void) {
    return whi_ucx_version() >= RELEASE(1, 14) && whi_ucx_version() < RELEASE(1, 17);
}

static void configure(ucp_config_t *config) {
    bool queues = has_long_queues();
    bool without[] = {[ALWAYS] = false,
                      [MEMORY] = queues || without_memory(),
                      [NETWORK] = without_network(),
                      [LONG_QUEUES] = !queues,
                      [SHORT_QUEUES] = queues};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "UCX_%s", settings[i].key);
        if (getenv(name) || whi_ucx_version() < settings[i].since || without[settings[i].with])
            continue;
        ucs_status_t status = whi_ucp.ucp_config_modify(config, settings[i].key, settings[i].value);
        if (status != UCS_OK)
            whi_log(WHI_INFO, "I-UCX-02", "this UCX does not know %s: %s", settings[i].key,
                    whi_ucp.ucs_status_string(status));
    }
}

ucs_memory_type_t whi_ucx_memory_of(int kind) {
    return kind == WH_MEM_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_UNKNOWN;
}

void whi_ucx_enter_for(whi_ucx *ucx, const whi_span *span) {
    wh_mem_info info;
    if (whi_ucx_memory(span) != UCS_MEMORY_TYPE_HOST) {
        whi_mem_query(span->ptr, &info);
        ucx->device = info.device;
    }
    whi_ucx_enter(ucx);
}

ucs_status_t whi_ucx_open_context(ucp_context_h *context, uint64_t *memory_types) {
    ucp_config_t *config;
    ucs_status_t status = whi_ucp.ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    configure(config);
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP};
    // Of a library older than the headers not more is asked than it has: it would warn.
    unsigned minor = whi_ucx_version() >> 8 & 255;
    status = whi_ucp.ucp_init_version(UCP_API_MAJOR, minor < UCP_API_MINOR ? minor : UCP_API_MINOR,
                                      &params, config, context);
    whi_ucp.ucp_config_release(config);
    if (status != UCS_OK)
        return status;
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    bool told = whi_ucp.ucp_context_query(*context, &attr) == UCS_OK;
    *memory_types = told ? attr.memory_types : 0;
    return UCS_OK;
}

static void count_stray(whi_ucx *ucx, const char *what) {
    if (ucx->strays++ == 0)
        whi_log(
            WHI_INFO, "I-UCX-03",
            "a UCX message %s was dropped; that is so with the last ones of a link that has ended",
            what);
}

static whi_ucx_lane *find_lane(whi_ucx *ucx, uint64_t token) {
    whi_ucx_lane *polled = ucx->polled;
    return polled && polled->token == token ? polled : whi_hash_get(&ucx->lanes, token);
}

// expand writes the brief form of a record out.
static void expand(const whi_ucx_lane *lane, const whi_ucx_brief *brief, size_t size,
                   whi_ucx_wire *wire) {
    uint16_t ahead = (uint16_t)(brief->seq - (uint16_t)lane->rx_seq);
    *wire = (whi_ucx_wire){.hdr = {.size = (uint32_t)size,
                                   .cls = brief->cls,
                                   .ep = brief->ep,
                                   .seq = brief->ep_seq,
                                   .tag = brief->tag},
                           .token = brief->token,
                           .seq = lane->rx_seq + ahead};
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_size, void *data,
                               size_t size, const ucp_am_recv_param_t *param) {
    whi_ucx *ucx = arg;
    whi_ucx_brief brief;
    whi_ucx_wire wire;
    bool announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    bool is_brief = header_size == WHI_UCX_BRIEF;
    if (header_size == 0 && !announced && size >= sizeof(wire)) {
        memcpy(&wire, data, sizeof(wire));
        data = (char *)data + sizeof(wire);
        size -= sizeof(wire);
    } else if (__builtin_expect(is_brief || header_size == WHI_UCX_WIRE, 1)) {
        memcpy(is_brief ? (void *)&brief : &wire, header, header_size);
    } else {
        count_stray(ucx, "that is not ours");
        return UCS_OK;
    }
    whi_ucx_lane *lane = find_lane(ucx, is_brief ? brief.token : wire.token);
    if (!lane) {
        count_stray(ucx, "for a lane that is not there");
        return UCS_OK;
    }
    if (is_brief)
        expand(lane, &brief, size, &wire);
    return whi_ucx_arrived(lane, &wire, data, size, announced);
}

static ucs_status_t open_worker(whi_ucx *ucx) {
    // Wherry's workers may pass from thread to thread, which UCX since 1.18 must be told.
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t status = whi_ucp.ucp_worker_create(ucx->context, &params, &ucx->worker);
    if (status != UCS_OK)
        return status;
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                    UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = WHI_UCX_AM,
                                      .cb = on_message,
                                      .arg = ucx};
    status = whi_ucp.ucp_worker_set_am_recv_handler(ucx->worker, &handler);
    if (status == UCS_OK)
        status = whi_ucp.ucp_worker_get_efd(ucx->worker, &ucx->fd);
    if (status == UCS_OK)
        status = whi_ucp.ucp_worker_get_address(ucx->worker, &ucx->address, &ucx->address_size);
    return status;
}

static void close_ucp(whi_ucx *ucx) {
    whi_ucx_release_all(ucx);
    if (ucx->address)
        whi_ucp.ucp_worker_release_address(ucx->worker, ucx->address);
    if (ucx->worker)
        whi_ucp.ucp_worker_destroy(ucx->worker);
    if (ucx->context)
        whi_ucp.ucp_cleanup(ucx->context);
}

wh_status whi_ucx_create(whi_ucx **out, const char **why) {
    if (!whi_ucx_version()) {
        *why = "UCX is not open";
        return WH_ENOLANE;
    }
    whi_ucx *ucx = whi_calloc(1, sizeof(*ucx));
    if (!ucx) {
        *why = wh_status_text(WH_ENOMEM);
        return WH_ENOMEM;
    }
    ucx->device = -1;
    whi_hash_init(&ucx->lanes);
    whi_list_init(&ucx->closing);
    whi_list_init(&ucx->retired);
    whi_list_init(&ucx->memories);
    whi_list_init(&ucx->keys);
    whi_pool_init(&ucx->chunks, sizeof(whi_ucx_chunk), 0, "ucx chunk");
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ucs_status_t status = whi_ucx_open_context(&ucx->context, &ucx->memory_types);
    if (status == UCS_OK)
        status = open_worker(ucx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == UCS_OK && ucx->address_size + sizeof(whi_ucx_address_head) > WHI_UCX_ADDRESS_MAX)
        status = UCS_ERR_EXCEEDS_LIMIT;
    if (status != UCS_OK) {
        *why = whi_ucx_explain("UCX cannot be set up: %s", whi_ucp.ucs_status_string(status));
        close_ucp(ucx);
        whi_free(ucx);
        return whi_ucx_status(status) == WH_ENOMEM ? WH_ENOMEM : WH_ENOLANE;
    }
    *out = ucx;
    return WH_OK;
}

int whi_ucx_fd(const whi_ucx *ucx) {
    return ucx->fd;
}

wh_status whi_ucx_arm(whi_ucx *ucx) {
    whi_ucx_enter(ucx);
    ucs_status_t status = whi_ucp.ucp_worker_arm(ucx->worker);
    whi_ucx_leave(ucx);
    return status == UCS_OK ? WH_OK : WH_EBUSY;
}

bool whi_ucx_closing(const whi_ucx *ucx) {
    return !whi_list_empty(&ucx->closing);
}

unsigned whi_ucx_progress(whi_ucx *ucx) {
    whi_ucx_listen(ucx);
    unsigned events = 0;
    whi_list_foreach(node, &ucx->closing) {
        whi_ucx_lane *lane = whi_container_of(node, whi_ucx_lane, node);
        events += (unsigned)whi_ucx_settle(lane);
        whi_ucx_close_on(lane);
    }
    return events;
}

// give_back ends what UCX, which is gone, will never end.
static void give_back(whi_ucx *ucx) {
    whi_list *node;
    whi_list_append(&ucx->closing, &ucx->retired);
    while ((node = whi_list_first(&ucx->closing))) {
        whi_ucx_lane *lane = whi_container_of(node, whi_ucx_lane, node);
        whi_list_append(&lane->ended, &lane->out);
        (void)whi_ucx_settle(lane);
        whi_ucx_lane_end(lane);
    }
}

void whi_ucx_free(whi_ucx *ucx) {
    uint64_t late = whi_clock_ns() + LEAVE_NS;
    while (whi_ucx_closing(ucx) && whi_clock_ns() < late)
        (void)whi_ucx_progress(ucx);
    assert(whi_hash_count(&ucx->lanes) == 0);
    whi_ucx_enter(ucx);
    close_ucp(ucx);
    whi_ucx_leave(ucx);
    give_back(ucx);
    whi_hash_fini(&ucx->lanes);
    (void)whi_pool_fini(&ucx->chunks);
    whi_free(ucx);
}
