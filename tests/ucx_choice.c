// SPDX-License-Identifier: BSD-3-Clause
//
// See ucx_choice.h.
#include "ucx_choice.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/wherry.h>

static bool chosen;
static char options[2][PATH_MAX + sizeof("ucx_dir=")];

void ucx_choose(const char *pair) {
    const char *comma = strchr(pair, ',');
    if (!comma || strlen(pair) >= PATH_MAX) {
        fprintf(stderr, "--ucx takes two folders with a comma between, not '%s'\n", pair);
        exit(2);
    }
    snprintf(options[0], sizeof(options[0]), "ucx_dir=%.*s", (int)(comma - pair), pair);
    snprintf(options[1], sizeof(options[1]), "ucx_dir=%s", comma + 1);
    chosen = true;
}

const char *ucx_option(int role) {
    return chosen ? options[role] : NULL;
}

bool ucx_mixed(void) {
    return chosen && strcmp(options[0], options[1]) != 0;
}

static void look(const wh_lane_info *lane, void *usable) {
    if (strcmp(lane->name, "ucx") != 0)
        return;
    *(bool *)usable = lane->usable;
    if (lane->usable)
        printf("ucx: %s\n", lane->reason);
    else
        printf("ucx: skipped: %s\n", lane->reason);
}

// open_here ends a child: its status says whether the role's UCX opens.
static void open_here(int role) {
    const char *const with[] = {"lanes=stream,ucx", "log_level=error", ucx_option(role), NULL};
    wh_context *ctx = NULL;
    bool usable = false;
    if (wh_context_create(with, &ctx) == WH_OK)
        wh_context_lanes(ctx, look, &usable);
    fflush(NULL);
    _exit(usable ? 0 : 1);
}

bool ucx_usable(void) {
    bool usable = true;
    for (int role = 0; role < (ucx_mixed() ? 2 : 1) && usable; role++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            open_here(role);
        int status = 0;
        usable = waitpid(pid, &status, 0) == pid && status == 0;
    }
    return usable;
}
