// SPDX-License-Identifier: BSD-3-Clause
//
// The exchange of addresses, and what a ucx lane really runs over.
//
// UCX tells the transports of an endpoint since 1.14; before that it prints them for people.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/ucx/ucx_lane.h"

// ---- the address

size_t whi_ucx_lane_address(const whi_lane *lane, void *bytes, size_t size) {
    const whi_ucx_lane *mine = (const whi_ucx_lane *)lane;
    const whi_ucx *ucx = mine->ucx;
    size_t need = sizeof(whi_ucx_address_head) + ucx->address_size;
    if (need > size)
        return need;
    whi_ucx_address_head head = {.format = WHI_UCX_FORMAT,
                                 .ucx_version = whi_ucx_version(),
                                 .token = mine->token,
                                 .eager_max = (uint32_t)mine->eager_max,
                                 .chunk_max = (uint32_t)mine->chunk_max,
                                 .address_size = (uint32_t)ucx->address_size};
    memcpy(bytes, &head, sizeof(head));
    memcpy((char *)bytes + sizeof(head), ucx->address, ucx->address_size);
    return need;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
    (void)ep;
    whi_ucx_lane *lane = arg;
    if (lane->failing == WH_OK && !lane->closed)
        whi_log(WHI_INFO, "I-UCX-06", "%s: UCX has lost the peer: %s", lane->peer,
                whi_ucp.ucs_status_string(status));
    if (lane->failing == WH_OK)
        lane->failing = WH_EPEER;
    whi_ucx_wake(lane);
}

// warn_of_detour tells of a connection that goes through the kernel although both ends are on one host.
static void warn_of_detour(const whi_ucx_lane *lane) {
    char text[160];
    whi_ucx_describe(&lane->lane, text, sizeof(text));
    bool network = strstr(text, "tcp/") != NULL;
    bool memory = strstr(text, "posix/") || strstr(text, "sysv/") || strstr(text, "self/");
    if (lane->same_host && network && !memory && !getenv("UCX_TLS"))
        whi_log_once_per(
            WHI_WARN, "W-UCX-02", 3600,
            "%s: both ends are on one host, but UCX uses %s; do they share /dev/shm and "
            "the System V name space, and is neither UCX one of 1.14 to 1.16?",
            lane->peer, text);
}

static ucs_status_t open_endpoint(whi_ucx_lane *lane, const ucp_address_t *address) {
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_error, .arg = lane}};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread that UCX may start now gets none
    ucs_status_t status = whi_ucp.ucp_ep_create(lane->ucx->worker, &params, &lane->ep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

wh_status whi_ucx_lane_connect(whi_lane *base, const void *bytes, size_t size, const char **why) {
    whi_ucx_lane *lane = whi_ucx_lane_of(base);
    whi_ucx_address_head head;
    if (size >= sizeof(head))
        memcpy(&head, bytes, sizeof(head));
    if (size < sizeof(head) || head.format != WHI_UCX_FORMAT ||
        head.address_size != size - sizeof(head) || !head.address_size ||
        head.eager_max < lane->eager_limit || !head.chunk_max) {
        *why = "the peer's UCX address is not one that this version understands";
        return WH_EPROTOCOL;
    }
    lane->peer_token = head.token;
    if (head.chunk_max < lane->chunk_limit)
        lane->chunk_limit = head.chunk_max;
    // UCX reads words of the address.
    void *address = whi_malloc(head.address_size);
    if (!address) {
        *why = wh_status_text(WH_ENOMEM);
        return WH_ENOMEM;
    }
    memcpy(address, (const char *)bytes + sizeof(head), head.address_size);
    ucs_status_t status = open_endpoint(lane, address);
    whi_free(address);
    if (status != UCS_OK) {
        lane->ep = NULL;
        *why = whi_ucx_explain(
            "UCX %u.%u.%u here and %u.%u.%u there do not connect: %s", whi_ucx_version() >> 16,
            whi_ucx_version() >> 8 & 255, whi_ucx_version() & 255, head.ucx_version >> 16,
            head.ucx_version >> 8 & 255, head.ucx_version & 255, whi_ucp.ucs_status_string(status));
        wh_status mine = whi_ucx_status(status);
        return mine == WH_EPROTOCOL ? WH_ENOLANE : mine;
    }
    warn_of_detour(lane);
    whi_ucx_space(lane);
    return WH_OK;
}

// ---- what it runs over

// What ucp_ep_query fills in since 1.14; the headers that this is built with may be older.
typedef struct transport {
    const char *name, *device;
} transport;

typedef struct endpoint_attr {
    uint64_t field_mask;
    char name[UCP_ENTITY_NAME_MAX];
    struct sockaddr_storage local, remote;
    struct {
        transport *entries;
        unsigned count;
        size_t entry_size;
    } transports;
    void *user_data;
    char rest[256];  // of releases to come
} endpoint_attr;
enum { FIELD_TRANSPORTS = 1 << 3, SINCE = 1 << 16 | 14 << 8 };

// add notes one transport; the same one may serve several purposes.
static void add(char *text, size_t size, const char *name, int name_length) {
    size_t used = strlen(text);
    char word[WHI_UCX_TRANSPORT];
    snprintf(word, sizeof(word), "%.*s", name_length, name);
    if (!strstr(text, word) && used + 3 < size)
        snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

static void ask(const whi_ucx_lane *lane, char *text, size_t size) {
    transport found[WHI_UCX_TRANSPORTS];
    endpoint_attr attr = {.field_mask = FIELD_TRANSPORTS,
                          .transports = {found, WHI_UCX_TRANSPORTS, sizeof(found[0])}};
    if (whi_ucp.ucp_ep_query(lane->ep, (ucp_ep_attr_t *)(void *)&attr) != UCS_OK)
        return;
    for (unsigned i = 0; i < attr.transports.count && i < WHI_UCX_TRANSPORTS; i++) {
        char word[WHI_UCX_TRANSPORT];
        int length = snprintf(word, sizeof(word), "%s/%s", found[i].name, found[i].device);
        add(text, size, word, length);
    }
}

// read_print finds lines such as "#  lane[0]:  3:sysv/memory.0 md[2]  -> ..." in what 1.13 prints.
static void read_print(const whi_ucx_lane *lane, char *text, size_t size) {
    char *print = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&print, &length);
    if (!file)
        return;
    whi_ucp.ucp_ep_print_info(lane->ep, file);
    fclose(file);
    for (const char *at = print; at && (at = strstr(at, "lane["));) {
        const char *colon = strstr(at, "]:"), *name = colon ? strchr(colon + 2, ':') : NULL;
        if (!name)
            break;
        at = name + 1;
        add(text, size, at, (int)strcspn(at, ". \n"));
    }
    free(print);
}

void whi_ucx_over(const whi_ucx_lane *lane, char *text, size_t size) {
    *text = '\0';
    if (lane->ep && !lane->closed && whi_ucx_version() >= SINCE)
        ask(lane, text, size);
    else if (lane->ep && !lane->closed)
        read_print(lane, text, size);
}

void whi_ucx_describe(const whi_lane *base, char *text, size_t size) {
    char over[128];
    whi_ucx_over((const whi_ucx_lane *)base, over, sizeof(over));
    uint32_t version = whi_ucx_version();
    snprintf(text, size, "UCX %u.%u.%u: %s", version >> 16, version >> 8 & 255, version & 255,
             *over ? over : "not connected");
}
