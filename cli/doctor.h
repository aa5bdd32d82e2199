// SPDX-License-Identifier: BSD-3-Clause
//
// Findings of `wherry doctor`: what was looked at, what is so, and what to change.
//
// doctor.c runs the checks of this host and calls doctor_cuda.c and, which tries a peer, doctor_peer.c; all report
// through doctor_find.c.  One thread.
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>

#include <wherry/wherry.h>

// GOOD: as it should be.  NOTE: works, but less well than it could.  BAD: something does not work.
typedef enum finding { FINDING_GOOD, FINDING_NOTE, FINDING_BAD } finding;

typedef struct doctor {
    wh_context *ctx;
    int notes, bad;
} doctor;

// doctor_find prints one finding; `fix` is what to change, NULL when nothing need be.
__attribute__((format(printf, 5, 6))) void doctor_find(doctor *self, finding grade,
                                                       const char *where, const char *fix,
                                                       const char *format, ...);

// doctor_cuda reports what CUDA's driver gives.
void doctor_cuda(doctor *self);

// doctor_peer connects to a listener at `address` and reports how far it came.
void doctor_peer(doctor *self, const char *address);

#endif
