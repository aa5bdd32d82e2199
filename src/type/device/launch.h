// SPDX-License-Identifier: BSD-3-Clause
//
// One launch: a part of a message between its layout and packed bytes, both of which the device reaches.
//
// Which kernel, of what word, and how many blocks, is decided here.  All arguments have been checked.  Any thread.
#ifndef WHI_TYPE_DEVICE_LAUNCH_H
#define WHI_TYPE_DEVICE_LAUNCH_H

#include <wherry/pack.h>

#include "mem/mem.h"
#include "type/device/args.h"
#include "type/device/image.h"

typedef struct whi_device_job {
    const whi_mem_ops *ops;
    int device;
    void *stream;
    whi_device_image *image;  // of the layout
    uintptr_t memory;         // where the first pass of the first loop begins
    const whi_dim *dims;      // the loops of all elements; a dense message has none
    int ndims;
    bool dense;
    int64_t total;     // packed bytes of all elements
    int64_t from, to;  // not empty
    uintptr_t packed;  // where packed byte `from` lies
    bool unpack;       // else the result goes to the packed side
} whi_device_job;

// whi_device_move moves, whi_device_accumulate combines: into the side that `unpack` says.  They submit to the stream of the
// job.  `grain` divides where each element begins; both ends fall between elements.  `element` is what they are where the
// layout is one run.
WH_CHECK wh_status whi_device_move(const whi_device_job *job);
WH_CHECK wh_status whi_device_accumulate(const whi_device_job *job, wh_reduce op, unsigned grain,
                                         whi_d32 element);

#endif
