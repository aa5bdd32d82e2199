// SPDX-License-Identifier: BSD-3-Clause
//
// Completion detection: is a part of the work done, while the rest of the job goes on?
//
// Quiescence (rt.h) is about all messages of the job.  A detector knows only what the program tells it: each piece of work (a
// message, a transfer of a channel or to a device, a task) is produced once, before it goes on its way, and consumed once, by whoever
// has done it, on any PE.  Work may produce more work, before it is consumed itself.  The work is complete when all producers are
// done, that is, will begin nothing of their own any more, and as much is consumed as was produced.
//
// Threads: as those of rt.h; inside handlers, entries and completions of operations.
#ifndef WHERRY_DETECT_H
#define WHERRY_DETECT_H

#include <wherry/rt.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WH_DETECTORS_MAX 65536  // that a PE knows of at a time

typedef struct wh_detector {  // plain data, the same on each PE: pass it on in messages
    int32_t pe;               // that has made it
    uint32_t id;
} wh_detector;

// `status` is WH_OK, or WH_EPEER: a PE is lost, or knows of WH_DETECTORS_MAX others, or has no memory, and nobody knows what it counts.
typedef void (*wh_detector_fn)(wh_pe *pe, wh_status status, void *arg);

// wh_detector_create makes a detector, which calls `fn` once, on this PE, in a turn of its own, when the work is complete.
//
// `producers`, at least one, is how many calls of wh_detector_done there will be.  With the call of `fn` the detector has ended; what
// is counted later is forgotten only with the job.  WH_EINVAL, WH_ENOMEM, WH_ELIMIT: there are WH_DETECTORS_MAX.
WH_API WH_CHECK wh_status wh_detector_create(wh_pe *pe, uint32_t producers, wh_detector_fn fn,
                                             void *arg, wh_detector *detector);

// wh_detector_produce and wh_detector_consume count `count` pieces, on any PE.  They send nothing.  WH_EINVAL: there was never such a
// detector.
WH_API WH_CHECK wh_status wh_detector_produce(wh_pe *pe, wh_detector detector, uint64_t count);
WH_API WH_CHECK wh_status wh_detector_consume(wh_pe *pe, wh_detector detector, uint64_t count);

// wh_detector_done says that one of the producers will begin no more work, except as part of work that is not consumed yet.
WH_API WH_CHECK wh_status wh_detector_done(wh_pe *pe, wh_detector detector);

#ifdef __cplusplus
}
#endif
#endif
