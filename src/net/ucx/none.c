// SPDX-License-Identifier: BSD-3-Clause
//
// The ucx lane of a build without UCX's headers: it is not there, and says why.
#include "net/ucx/ucx.h"

static const char absent[] = "this Wherry was built without UCX's headers (libucx-dev)";

wh_status whi_ucx_load(const char *dir, const char **why) {
    (void)dir;
    *why = absent;
    return WH_ENOLANE;
}

uint32_t whi_ucx_version(void) {
    return 0;
}

const char *whi_ucx_path(void) {
    return "";
}

void whi_ucx_transports(char *text, size_t size) {
    (void)size;
    *text = '\0';
}

bool whi_ucx_knows(int kind) {
    (void)kind;
    return false;
}

wh_status whi_ucx_create(whi_ucx **ucx, const char **why) {
    (void)ucx;
    *why = absent;
    return WH_ENOLANE;
}

// Without a domain nothing of what follows can be called.

void whi_ucx_free(whi_ucx *ucx) {
    (void)ucx;
}

int whi_ucx_fd(const whi_ucx *ucx) {
    (void)ucx;
    return -1;
}

wh_status whi_ucx_arm(whi_ucx *ucx) {
    (void)ucx;
    return WH_OK;
}

unsigned whi_ucx_progress(whi_ucx *ucx) {
    (void)ucx;
    return 0;
}

bool whi_ucx_closing(const whi_ucx *ucx) {
    (void)ucx;
    return false;
}

wh_status whi_ucx_lane_create(whi_ucx *ucx, const whi_ucx_opts *opts, const whi_lane_up *up,
                              const whi_ucx_owner *owner, void *link, whi_lane **lane) {
    (void)ucx, (void)opts, (void)up, (void)owner, (void)link, (void)lane;
    return WH_ENOLANE;
}

size_t whi_ucx_lane_address(const whi_lane *lane, void *bytes, size_t size) {
    (void)lane, (void)bytes, (void)size;
    return 0;
}

wh_status whi_ucx_lane_connect(whi_lane *lane, const void *bytes, size_t size, const char **why) {
    (void)lane, (void)bytes, (void)size;
    *why = absent;
    return WH_ENOLANE;
}

void whi_ucx_lane_lost(whi_lane *lane) {
    (void)lane;
}
