// SPDX-License-Identifier: BSD-3-Clause
//
// What a launcher tells its processes: who they are, and a few bytes of each other.
//
// A process puts values before the exchange, and gets those of others after it.  What a launcher says is foreign: it is
// checked, and what is wrong ends the call with a line in the log.  Any thread may get; the rest is for one.
#ifndef WHI_RT_BOOT_H
#define WHI_RT_BOOT_H

#include <stddef.h>

#include <wherry/status.h>

typedef struct whi_boot whi_boot;

enum { WHI_BOOT_VALUE_MAX = 64 << 10 };  // bytes of a value

// whi_boot_join joins the job that this process was started in; where there is no sign of a launcher, a job of one.
// WH_EPEER, WH_EPROTOCOL, WH_ENOTSUP: there is one that cannot be spoken to, which is never taken for a job of one.
WH_CHECK wh_status whi_boot_join(whi_boot **boot);

int whi_boot_rank(const whi_boot *boot);
int whi_boot_size(const whi_boot *boot);
const char *whi_boot_launcher(const whi_boot *boot);  // "PMI-1", "PMIx", "none"

// whi_boot_put says something to all others, under a name of letters, digits and hyphens.
WH_CHECK wh_status whi_boot_put(whi_boot *boot, const char *name, const void *value, size_t size);

// whi_boot_exchange waits until all processes of the job have called it.
WH_CHECK wh_status whi_boot_exchange(whi_boot *boot);

// whi_boot_get reads what `rank` has put, at most `max` bytes, and its size.  WH_ENOTFOUND: nothing; WH_ETRUNCATED: it is
// longer.
WH_CHECK wh_status whi_boot_get(whi_boot *boot, int rank, const char *name, void *value, size_t max,
                                size_t *size);

// whi_boot_abort asks the launcher to end the job with this exit status; whoever calls it should exit.
void whi_boot_abort(whi_boot *boot, int status);

// whi_boot_leave says good-bye to the launcher, after which an end of this process is none of a job's, and frees all.
void whi_boot_leave(whi_boot *boot);

#endif
