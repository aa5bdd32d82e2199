// SPDX-License-Identifier: BSD-3-Clause
//
// A way to speak to a launcher: texts by name, and what goes around them.
#ifndef WHI_RT_BOOT_OPS_H
#define WHI_RT_BOOT_OPS_H

#include "rt/boot/boot.h"

// What a way has found out about the job when it has joined.
typedef struct whi_boot_job {
    void *state;  // the way's own
    int rank, size;
    size_t name_max, text_max;  // of a name and of a text, without the end
} whi_boot_job;

typedef struct whi_boot_ops {
    const char *launcher;

    // join: WH_ENOTFOUND when there is no sign of such a launcher.
    wh_status (*join)(whi_boot_job *job);
    wh_status (*put)(whi_boot_job *job, const char *name, const char *text);
    wh_status (*exchange)(whi_boot_job *job);
    // get writes at most job->text_max bytes and an end.  WH_ENOTFOUND: `rank` has not put it.
    wh_status (*get)(whi_boot_job *job, int rank, const char *name, char *text);
    void (*abort)(whi_boot_job *job, int status);
    void (*leave)(whi_boot_job *job);
} whi_boot_ops;

extern const whi_boot_ops whi_boot_pmi1, whi_boot_pmix;

#endif
