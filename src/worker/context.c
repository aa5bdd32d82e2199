// SPDX-License-Identifier: BSD-3-Clause
//
// Context: configuration and what this machine can do, found out once.
#include "worker/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/lane.h"
#include "net/shm/shm.h"
#include "net/ucx/ucx.h"

const char *wh_version(void) {
    return WH_VERSION_STRING;
}

static void report(wh_status status, const char *sentence, void *arg) {
    (void)arg;
    if (status == WH_EINVAL)
        whi_log(WHI_ERROR, "E-CFG-01", "%s", sentence);
    else
        whi_log(WHI_WARN, "W-CFG-01", "%s", sentence);
}

// read_secret_file takes the file's first line.  A secret that other users can read is none.
static wh_status read_secret_file(whi_config *config) {
    int fd = open(config->secret_file, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        whi_log(WHI_ERROR, "E-CFG-02", "secret_file %s cannot be read: %m", config->secret_file);
        if (fd >= 0)
            close(fd);
        return WH_EINVAL;
    }
    ssize_t n = read(fd, config->secret, sizeof(config->secret) - 1);
    close(fd);
    if (st.st_mode & (S_IRGRP | S_IROTH)) {
        whi_log(WHI_ERROR, "E-CFG-03",
                "secret_file %s can be read by other users; run chmod 600 on it",
                config->secret_file);
        return WH_EPERM;
    }
    config->secret[n > 0 ? n : 0] = '\0';
    config->secret[strcspn(config->secret, "\r\n")] = '\0';
    if (!config->secret[0]) {
        whi_log(WHI_ERROR, "E-CFG-04", "secret_file %s holds no secret in its first line",
                config->secret_file);
        return WH_EINVAL;
    }
    return WH_OK;
}

// read_boot_id reads the id that the kernel draws at boot: two processes with the same one share a host.
static void read_boot_id(uint8_t boot_id[16]) {
    memset(boot_id, 0, 16);
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    size_t digits = 0;
    for (ssize_t i = 0; i < n && digits < 32; i++) {
        unsigned nibble;
        if (sscanf((char[]){text[i], 0}, "%1x", &nibble) == 1) {
            boot_id[digits / 2] = (uint8_t)(boot_id[digits / 2] << 4 | nibble);
            digits++;
        }
    }
}

static const struct {
    uint32_t bit;
    const char *name;
} lane_names[] = {
    {WHI_LANE_SHM, "shm"},
    {WHI_LANE_STREAM, "stream"},
    {WHI_LANE_UCX, "ucx"},
};
enum { LANE_COUNT = sizeof(lane_names) / sizeof(lane_names[0]) };

void whi_context_lane_names(uint32_t lanes, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < LANE_COUNT && used < size; i++)
        if (lanes & lane_names[i].bit)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "",
                                     lane_names[i].name);
    if (!used)
        snprintf(text, size, "none");
}

static bool list_names(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; *at;) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, name, length) == 0)
            return true;
        at += word + (at[word] == ',');
    }
    return false;
}

// check_ucx takes the ucx lane back when there is no UCX to be opened.
static void check_ucx(wh_context *ctx) {
    const char *why = NULL;
    if (!(ctx->lanes & WHI_LANE_UCX) || whi_ucx_load(ctx->config.ucx_dir, &why) == WH_OK)
        return;
    snprintf(ctx->ucx_why, sizeof(ctx->ucx_why), "%s", why);
    ctx->lanes &= ~(uint32_t)WHI_LANE_UCX;
    // On a machine with fast networks this costs speed; where the setting names the lane, it is an error of its own below, or
    // the others serve.
    whi_log(WHI_WARN, "W-CFG-08", "the ucx lane is not used: %s", why);
}

static wh_status choose_lanes(wh_context *ctx) {
    const char *list = ctx->config.lanes;
    ctx->rdma = whi_ucx_has_rdma();
    if (strcmp(list, "auto") == 0) {
        ctx->lanes = WHI_LANE_SHM | WHI_LANE_STREAM | (ctx->rdma ? WHI_LANE_UCX : 0);
    } else {
        for (size_t i = 0; i < LANE_COUNT; i++)
            if (list_names(list, lane_names[i].name))
                ctx->lanes |= lane_names[i].bit;
        ctx->ucx_named = (ctx->lanes & WHI_LANE_UCX) != 0;
    }
    check_ucx(ctx);
    const char *why = NULL;
    if ((ctx->lanes & WHI_LANE_SHM) && !whi_shm_available(ctx->config.ring_size, &why)) {
        whi_log(WHI_INFO, "I-SHM-01", "the shm lane is not used: %s", why);
        ctx->lanes &= ~(uint32_t)WHI_LANE_SHM;
    }
    if (!ctx->lanes) {
        whi_log(WHI_ERROR, "E-CFG-06", "lanes=%s leaves no lane that works here: %s", list,
                why             ? why
                : *ctx->ucx_why ? ctx->ucx_why
                                : "name shm or stream");
        return WH_ENOLANE;
    }
    return WH_OK;
}

static wh_status apply_options(whi_config *config, const char *const *options) {
    char error[WHI_CONFIG_ERROR_MAX], key[64];
    for (; options && *options; options++) {
        const char *equals = strchr(*options, '=');
        if (!equals || (size_t)(equals - *options) >= sizeof(key)) {
            whi_log(WHI_ERROR, "E-CFG-01", "option \"%s\" is not of the form key=value", *options);
            return WH_EINVAL;
        }
        memcpy(key, *options, (size_t)(equals - *options));
        key[equals - *options] = '\0';
        if (whi_config_set(config, key, equals + 1, error, sizeof(error)) != WH_OK) {
            whi_log(WHI_ERROR, "E-CFG-01", "%s", error);
            return WH_EINVAL;
        }
    }
    return WH_OK;
}

static size_t power_of_two(size_t size) {
    size_t power = 1;
    while (power < size)
        power *= 2;
    return power;
}

// shape_rings makes sizes such as rings and bulk memory can have.
static void shape_rings(whi_config *config) {
    const size_t page = 4096, chunk_min = 32768, bulk_min = 4 * chunk_min;
    const size_t bulk_max = (size_t)1 << 30;  // what a peer accepts
    config->ring_size = power_of_two(config->ring_size);
    config->ring_max = power_of_two(config->ring_max);
    if (!config->bulk_chunk)
        return;
    config->bulk_chunk = (config->bulk_chunk + page - 1) & ~(page - 1);
    if (config->bulk_chunk < chunk_min)
        config->bulk_chunk = chunk_min;
    if (config->bulk_chunk * config->bulk_chunks < bulk_min)
        config->bulk_chunks = bulk_min / config->bulk_chunk;
    if (config->bulk_chunks > bulk_max / config->bulk_chunk)
        config->bulk_chunks = bulk_max / config->bulk_chunk;
}

static wh_status context_init(wh_context *ctx, const char *const *options) {
    whi_config_init(&ctx->config);
    wh_status st = apply_options(&ctx->config, options);
    if (st == WH_OK)
        st = whi_config_load_env(&ctx->config, environ, report, NULL);
    if (st != WH_OK)
        return st;
    if (ctx->config.source[WHI_CONFIG_log_level] != WHI_FROM_DEFAULT)
        whi_log_set_level((whi_log_level)ctx->config.log_level);
    if (ctx->config.secret_file[0] && !ctx->config.secret[0])
        st = read_secret_file(&ctx->config);
    shape_rings(&ctx->config);
    if (st == WH_OK && ctx->config.eager_max > ctx->config.ring_size / 4) {
        whi_log(WHI_ERROR, "E-CFG-07", "eager_max must be at most a quarter of ring_size");
        st = WH_EINVAL;
    }
    if (st == WH_OK)
        st = choose_lanes(ctx);
    read_boot_id(ctx->boot_id);
    ctx->barrier = whi_shm_barrier_init();
    return st;
}

wh_status wh_context_create(const char *const *options, wh_context **ctx) {
    if (!ctx)
        return WH_EINVAL;
    wh_context *made = whi_calloc(1, sizeof(*made));
    if (!made)
        return WH_ENOMEM;
    atomic_store(&made->holds, 1);
    wh_status st = context_init(made, options);
    if (st != WH_OK) {
        whi_context_release(made);
        return st;
    }
    *ctx = made;
    return WH_OK;
}

void whi_context_retain(wh_context *ctx) {
    atomic_fetch_add(&ctx->holds, 1);
}

void whi_context_release(wh_context *ctx) {
    if (atomic_fetch_sub(&ctx->holds, 1) != 1)
        return;
    whi_context_part *memory = atomic_load(&ctx->memory);
    if (memory)
        memory->free_fn(memory);
    explicit_bzero(ctx->config.secret, sizeof(ctx->config.secret));
    whi_free(ctx);
}

void wh_context_destroy(wh_context *ctx) {
    if (ctx)
        whi_context_release(ctx);
}

void wh_context_config(const wh_context *ctx, void (*fn)(const wh_config_item *item, void *arg),
                       void *arg) {
    whi_config_entry entry;
    for (size_t i = 0; whi_config_entry_at(&ctx->config, i, &entry); i++) {
        bool words = strcmp(entry.type, "choice") == 0 || strcmp(entry.type, "list") == 0;
        wh_config_item item = {.key = entry.key,
                               .env = entry.env,
                               .type = words ? entry.low : entry.type,
                               .default_value = entry.def,
                               .value = entry.value,
                               .source = entry.source,
                               .doc = entry.doc};
        fn(&item, arg);
    }
}

// tell_ucx says what there is of UCX, and when it is used.
static void tell_ucx(const wh_context *ctx, void (*fn)(const wh_lane_info *lane, void *arg),
                     void *arg) {
    const char *why = ctx->ucx_why;
    bool on = ctx->lanes & WHI_LANE_UCX;
    char text[640], release[32], transports[512];
    wh_lane_info info = {.name = "ucx", .usable = on};
    if (!*why && whi_ucx_load(ctx->config.ucx_dir, &why) == WH_OK) {
        uint32_t version = whi_ucx_version();
        snprintf(release, sizeof(release), "%u.%u.%u", version >> 16, version >> 8 & 255,
                 version & 255);
        whi_ucx_transports(transports, sizeof(transports));
        info.version = release;
        info.path = whi_ucx_path();
        info.transports = transports;
        snprintf(text, sizeof(text), "UCX %s (%s); %s", release, info.path,
                 ctx->rdma ? "for peers with an RDMA device, as this machine has"
                 : on      ? "used where no other lane is in the setting lanes"
                           : "no RDMA device here, and not in the setting lanes");
        why = text;
    }
    info.reason = why;
    fn(&info, arg);
}

void wh_context_lanes(const wh_context *ctx, void (*fn)(const wh_lane_info *lane, void *arg),
                      void *arg) {
    const char *why = NULL;
    bool shm = whi_shm_available(ctx->config.ring_size, &why);
    bool shm_on = (ctx->lanes & WHI_LANE_SHM) != 0;
    fn(&(wh_lane_info){.name = "shm",
                       .usable = shm && shm_on,
                       .reason = !shm     ? why
                                 : shm_on ? "memfd rings between processes of this host"
                                          : "not in the setting lanes"},
       arg);
    bool stream_on = (ctx->lanes & WHI_LANE_STREAM) != 0;
    fn(&(wh_lane_info){.name = "stream",
                       .usable = stream_on,
                       .reason = stream_on
                                     ? "TCP, and AF_UNIX sockets on this host"
                                     : "not in the setting lanes; used for the handshake only"},
       arg);
    tell_ucx(ctx, fn, arg);
}
