// SPDX-License-Identifier: BSD-3-Clause
//
// doctor_cuda, see doctor.h: what CUDA's driver gives, and what to do about what it does not.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cuda.h"
#include "cli/doctor.h"
#include "cli/text.h"

static void check_device(doctor *self, const cuda_device *device, int number) {
    char where[32], memory[32], has[128], lacks[128];
    snprintf(where, sizeof where, "cuda %d", number);
    (void)cuda_features_text(device, true, has, sizeof has);
    (void)cuda_features_text(device, false, lacks, sizeof lacks);
    bool whole = strcmp(lacks, "nothing") == 0;
    doctor_find(self, whole ? FINDING_GOOD : FINDING_NOTE, where,
                device->has[CUDA_IPC] ? "what is missing is not needed: transfers take another way"
                                      : "in a container: start it with --ipc=host; without IPC "
                                        "transfers between processes go through host memory",
                "%s, compute capability %d.%d, %s: %s%s%s", device->name, device->major,
                device->minor, cli_format_bytes((double)device->memory, memory, sizeof memory), has,
                whole ? "" : "; not ", whole ? "" : lacks);
}

static void check_peers(doctor *self, const cuda_facts *facts) {
    int pairs = 0, reach = 0;
    for (int i = 0; i < facts->count; i++)
        for (int j = 0; j < facts->count; j++) {
            pairs += i != j;
            reach += facts->devices[i].reaches[j];
        }
    if (pairs)
        doctor_find(self, reach == pairs ? FINDING_GOOD : FINDING_NOTE, "cuda peers",
                    "`nvidia-smi topo -p2p r` says why; copies between them pass through the host",
                    "%d of %d pairs of devices reach each other's memory", reach, pairs);
}

static void check_nvrtc(doctor *self, const cuda_facts *facts) {
    bool found = *facts->nvrtc;
    doctor_find(self, found ? FINDING_GOOD : FINDING_NOTE, "nvrtc",
                "pip install nvidia-cuda-nvrtc-cu12, and put its folder into LD_LIBRARY_PATH",
                found ? "kernels can be compiled at run time: %s" : "no library libnvrtc.so%s",
                facts->nvrtc);
}

static void check_ucx(const wh_lane_info *lane, void *arg) {
    doctor *self = arg;
    if (!lane->version)
        return;
    bool cuda = lane->transports && strstr(lane->transports, "cuda");
    doctor_find(self, cuda ? FINDING_GOOD : FINDING_NOTE, "ucx, cuda",
                "pip install libucx-cu12; `ucx_info -d` must list cuda_copy",
                cuda ? "UCX %s has transports for memory of GPUs"
                     : "UCX %s has no transport for memory of GPUs",
                lane->version);
}

void doctor_cuda(doctor *self) {
    cuda_facts facts;
    bool usable = wh_mem_kinds() & 1u << WH_MEM_CUDA;
    // Without a GPU there is nothing to do about it.
    doctor_find(self, usable ? FINDING_GOOD : FINDING_NOTE, "cuda", NULL, "memory of GPUs: %s",
                wh_mem_kind_reason(WH_MEM_CUDA));
    if (!usable)
        return;
    cuda_ask(&facts);
    for (int i = 0; i < facts.count; i++)
        check_device(self, &facts.devices[i], i);
    check_peers(self, &facts);
    check_nvrtc(self, &facts);
    wh_context_lanes(self->ctx, check_ucx, self);
}
