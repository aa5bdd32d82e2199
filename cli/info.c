// SPDX-License-Identifier: BSD-3-Clause
//
// `wherry info`: what this build is, where it runs, and how it is configured.
//
// The same facts are gathered once and then written as text or as JSON.
#include "bench/json.h"
#include "bench/machine.h"
#include "cli/cli.h"
#include "cli/cuda.h"
#include "cli/text.h"
#include "cli/topology.h"

#include <stdio.h>
#include <string.h>

#define COMMAND "info"

static struct info_options { bool json, config; } opt;

static const cli_option options[] = {
    {"--json", NULL, &opt.json, "one JSON object instead of text"},
    {"--config", NULL, &opt.config, "the whole configuration table"},
    {NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    COMMAND,
    "[OPTIONS]",
    "Prints versions, host, lanes, memory kinds, and the settings that are not at their default\n"
    "(with --config all of them, with their documentation).\n",
    options,
};

typedef struct info {
    wh_context *ctx;
    bench_machine machine;
    topology topology;
    // Of the UCX that the library has opened; "": none.
    char ucx_version[32], ucx_path[512], ucx_transports[512];
    bench_json json;  // while JSON is written
} info;

static void keep_ucx(const wh_lane_info *lane, void *arg) {
    info *self = arg;
    if (!lane->version)
        return;
    snprintf(self->ucx_version, sizeof self->ucx_version, "%s", lane->version);
    snprintf(self->ucx_path, sizeof self->ucx_path, "%s", lane->path);
    snprintf(self->ucx_transports, sizeof self->ucx_transports, "%s", lane->transports);
}

static void gather(info *self) {
    bench_machine_read(&self->machine);
    topology_read(&self->topology);
    wh_context_lanes(self->ctx, keep_ucx, self);
}

// Text.

static void print_lane(const wh_lane_info *lane, void *arg) {
    (void)arg;
    printf("  %-8s %-4s %s\n", lane->name, lane->usable ? "yes" : "no", lane->reason);
}

static void print_setting(const wh_config_item *item, void *arg) {
    int *shown = arg;
    if (strcmp(item->source, "default") == 0)
        return;
    printf("  %s = %s (%s)\n", item->key, item->value, item->source);
    (*shown)++;
}

static void print_documented(const wh_config_item *item, void *arg) {
    (void)arg;
    printf("%s = %s\n    %s\n    %s; default %s; from: %s; type: %s\n", item->key, item->value,
           item->doc, item->env, *item->default_value ? item->default_value : "(empty)",
           item->source, item->type);
}

static void print_host(const info *self) {
    const bench_machine *machine = &self->machine;
    const topology *topo = &self->topology;
    char memory[32];
    printf("host      %s, %s\n", machine->host, machine->kernel);
    printf("  cpu      %s, %d usable cores, %s\n", machine->cpu, machine->cores, machine->caches);
    printf("  topology %d packages, %d NUMA nodes, %d cores, %d threads (%s)\n", topo->packages,
           topo->numa_nodes, topo->cores, topo->threads, topo->source);
    printf("  memory   %s\n", cli_format_bytes((double)machine->memory, memory, sizeof memory));
    char reading[128];
    (void)cli_may_read(reading, sizeof reading);
    printf("  reading  %s\n", reading);
}

static void print_devices(void) {
    cuda_facts facts;
    char memory[32], has[128];
    cuda_ask(&facts);
    for (int i = 0; i < facts.count; i++) {
        const cuda_device *d = &facts.devices[i];
        printf("    device %-2d %s, compute capability %d.%d, %s; has %s; reaches", i, d->name,
               d->major, d->minor, cli_format_bytes((double)d->memory, memory, sizeof memory),
               cuda_features_text(d, true, has, sizeof has));
        bool any = false;
        for (int other = 0; other < facts.count; other++)
            if (d->reaches[other])
                any = printf(" %d", other) > 0;
        printf("%s\n", any ? "" : " no other");
    }
    if (facts.count)
        printf("    nvrtc     %s\n", *facts.nvrtc ? facts.nvrtc : "none");
}

static void print_kinds(void) {
    unsigned usable = wh_mem_kinds();
    printf("memory\n");
    for (int kind = WH_MEM_HOST; kind <= WH_MEM_SIM; kind++) {
        printf("  %-8s %-4s %s\n", wh_mem_kind_name((wh_mem_kind)kind),
               usable & 1u << kind ? "yes" : "no", wh_mem_kind_reason((wh_mem_kind)kind));
        if (kind == WH_MEM_CUDA)
            print_devices();
    }
}

static void print_text(const info *self) {
    int shown = 0;
    printf("wherry    %s (headers %s)\n", wh_version(), WH_VERSION_STRING);
    if (*self->ucx_version)
        printf("ucx       %s (%s), over %s\n", self->ucx_version, self->ucx_path,
               *self->ucx_transports ? self->ucx_transports : "no transport");
    else
        printf("ucx       none\n");
    print_host(self);
    printf("lanes\n");
    wh_context_lanes(self->ctx, print_lane, NULL);
    print_kinds();
    printf("settings\n");
    wh_context_config(self->ctx, print_setting, &shown);
    if (shown == 0)
        printf("  all at their defaults; `wherry info --config` lists them\n");
}

// JSON.

static void write_lane(const wh_lane_info *lane, void *arg) {
    bench_json *json = arg;
    bench_json_open(json, NULL, '{', true);
    bench_json_string(json, "name", lane->name);
    bench_json_bool(json, "usable", lane->usable);
    bench_json_string(json, "reason", lane->reason);
    bench_json_close(json, '}');
}

static void write_setting(const wh_config_item *item, void *arg) {
    bench_json *json = arg;
    bench_json_open(json, NULL, '{', true);
    bench_json_string(json, "key", item->key);
    bench_json_string(json, "env", item->env);
    bench_json_string(json, "type", item->type);
    bench_json_string(json, "default", item->default_value);
    bench_json_string(json, "value", item->value);
    bench_json_string(json, "source", item->source);
    bench_json_string(json, "doc", item->doc);
    bench_json_close(json, '}');
}

static void write_host(bench_json *json, const info *self) {
    const bench_machine *machine = &self->machine;
    const topology *topo = &self->topology;
    bench_json_open(json, "host", '{', false);
    bench_json_string(json, "name", machine->host);
    bench_json_string(json, "kernel", machine->kernel);
    bench_json_string(json, "cpu", machine->cpu);
    bench_json_string(json, "caches", machine->caches);
    bench_json_int(json, "usable_cores", machine->cores);
    bench_json_int(json, "memory", (int64_t)machine->memory);
    bench_json_int(json, "packages", topo->packages);
    bench_json_int(json, "numa_nodes", topo->numa_nodes);
    bench_json_int(json, "cores", topo->cores);
    bench_json_int(json, "threads", topo->threads);
    bench_json_string(json, "topology", topo->source);
    char reading[128];
    bench_json_bool(json, "reads_memory", cli_may_read(reading, sizeof reading));
    bench_json_close(json, '}');
}

static void write_versions(bench_json *json, const info *self) {
    bench_json_open(json, "versions", '{', false);
    bench_json_string(json, "wherry", wh_version());
    bench_json_string(json, "headers", WH_VERSION_STRING);
    bool ucx = *self->ucx_version;
    bench_json_string(json, "ucx", ucx ? self->ucx_version : NULL);
    bench_json_string(json, "ucx_path", ucx ? self->ucx_path : NULL);
    bench_json_string(json, "ucx_transports", ucx ? self->ucx_transports : NULL);
    bench_json_close(json, '}');
}

static void write_kinds(bench_json *json) {
    unsigned usable = wh_mem_kinds();
    bench_json_open(json, "memory_kinds", '[', true);
    for (int kind = WH_MEM_HOST; kind <= WH_MEM_SIM; kind++)
        if (usable & 1u << kind)
            bench_json_string(json, NULL, wh_mem_kind_name((wh_mem_kind)kind));
    bench_json_close(json, ']');
    bench_json_open(json, "memory", '[', false);
    for (int kind = WH_MEM_HOST; kind <= WH_MEM_SIM; kind++) {
        bench_json_open(json, NULL, '{', true);
        bench_json_string(json, "name", wh_mem_kind_name((wh_mem_kind)kind));
        bench_json_bool(json, "usable", usable & 1u << kind);
        bench_json_string(json, "reason", wh_mem_kind_reason((wh_mem_kind)kind));
        bench_json_close(json, '}');
    }
    bench_json_close(json, ']');
}

static void write_device(bench_json *json, const cuda_facts *facts, int number) {
    static const char *const keys[] = {"ipc", "virtual_memory", "memory_pools", "managed_memory"};
    const cuda_device *d = &facts->devices[number];
    bench_json_open(json, NULL, '{', true);
    bench_json_string(json, "name", d->name);
    bench_json_int(json, "capability_major", d->major);
    bench_json_int(json, "capability_minor", d->minor);
    bench_json_int(json, "memory", (int64_t)d->memory);
    for (int i = 0; i < CUDA_FEATURES; i++)
        bench_json_bool(json, keys[i], d->has[i]);
    bench_json_open(json, "reaches", '[', true);
    for (int other = 0; other < facts->count; other++)
        if (d->reaches[other])
            bench_json_int(json, NULL, other);
    bench_json_close(json, ']');
    bench_json_close(json, '}');
}

static void write_cuda(bench_json *json) {
    cuda_facts facts;
    cuda_ask(&facts);
    bench_json_open(json, "cuda", '{', false);
    bench_json_string(json, "nvrtc", *facts.nvrtc ? facts.nvrtc : NULL);
    bench_json_open(json, "devices", '[', false);
    for (int i = 0; i < facts.count; i++)
        write_device(json, &facts, i);
    bench_json_close(json, ']');
    bench_json_close(json, '}');
}

static void write_json(info *self) {
    bench_json *json = &self->json;
    *json = bench_json_to(stdout);
    bench_json_open(json, NULL, '{', false);
    write_versions(json, self);
    write_host(json, self);
    bench_json_open(json, "lanes", '[', false);
    wh_context_lanes(self->ctx, write_lane, json);
    bench_json_close(json, ']');
    write_kinds(json);
    write_cuda(json);
    bench_json_open(json, "config", '[', false);
    wh_context_config(self->ctx, write_setting, json);
    bench_json_close(json, ']');
    bench_json_close(json, '}');
}

int cli_info(int argc, char **argv) {
    info self = {.ctx = NULL};
    int rest;
    int code = cli_parse(&syntax, argc, argv, &rest);
    if (code != CLI_GO_ON)
        return code;
    if (rest > 0)
        return cli_complain(COMMAND, CLI_USAGE, "it takes no arguments, not '%s'", argv[0]);
    cli_hold_log();
    wh_status status = cli_context_create(NULL, NULL, NULL, NULL, &self.ctx);
    if (status != WH_OK)
        return cli_complain(COMMAND, CLI_FAILED, "the configuration is not valid: %s",
                            cli_because(status));
    cli_release_log();
    gather(&self);
    if (opt.json)
        write_json(&self);
    else if (opt.config)
        wh_context_config(self.ctx, print_documented, NULL);
    else
        print_text(&self);
    wh_context_destroy(self.ctx);
    return CLI_OK;
}
