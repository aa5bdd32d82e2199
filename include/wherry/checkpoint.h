// SPDX-License-Identifier: BSD-3-Clause
//
// Checkpoints: all arrays and groups (chare.h) written to files, and made again by a later job, on any number of PEs.
//
// An element is written by the `pack` of its class and made again by `unpack`; proxies stay the same.  The folder must be
// the same for all processes of a job.  Writing leaves the last whole checkpoint in place until the new one is whole, so a
// job that ends in the middle can be begun again from there.
//
// Threads: as those of chare.h.  Processes wait for the disk while they read or write.
#ifndef WHERRY_CHECKPOINT_H
#define WHERRY_CHECKPOINT_H

#include <wherry/chare.h>

#ifdef __cplusplus
extern "C" {
#endif

// wh_checkpoint_write writes a checkpoint to a folder, which is made if it does not exist, as soon as the job is quiet
// (wh_pe_on_quiescence), and then carries out the callback.  Its value is an int32_t, a wh_status; what failed is logged, with the
// file or element, and the last checkpoint is still whole.  `folder` is copied.
//
// Elements are saved, with the members of their reductions; messages are not, so these are errors: an element that waits (by
// wh_chare_when, in a thread, for buffers, at a sync point), a reduction that some have contributed to and others have not, an array whose
// elements are still inserted (WH_EBUSY); an element that has a channel, a collection of which there are sections (WH_EBUSY); a single chare,
// or one of a class without `pack`, or that it cannot pack (WH_ENOTSUP); one whose class says that it stays (WH_EBUSY).  Futures and readonlies are not saved.
// Where the job ends first (wh_pe_exit), the log says so, and the callback, if it is a function of this PE, gets WH_ECANCELLED; any other
// is a message, which nobody handles any more.
// The callback's status is also WH_EBUSY when another checkpoint is being written, WH_ESYSTEM: a file cannot be written.
// Returns WH_EINVAL: `folder` or `callback` is missing, or the folder's name is longer than 3000 bytes.
WH_API WH_CHECK wh_status wh_checkpoint_write(wh_pe *pe, const char *folder,
                                              const wh_callback *callback);

// wh_checkpoint_read makes all collections of a checkpoint again, in a job that has made none yet.  One PE calls it, when all PEs have
// registered classes, maps and balancers under the same names as before: in its `main_fn`, say.  When all elements are there,
// the callback is carried out; its value is an int32_t, a wh_status.  Until then nothing may be sent to them.
//
// Elements of arrays begin where the map puts them.  An element of a group takes the state of the same PE; where the job has more
// PEs than the one that wrote, PE i takes that of PE i modulo their number; where it has fewer, the states of the others are left
// out.  Reductions and sync points count from 0 again.
//
// The callback's status: WH_ENOTFOUND: a file is missing.  WH_EINVAL: a class, map or balancer is not registered on another PE.  WH_EPROTOCOL: a file is none of a checkpoint, or was changed or cut off; or
// `unpack` said so.  WH_ESYSTEM: it cannot be read.  The log names the file and what is wrong.  A job cannot go on after an error:
// some elements may be there.
// Returns WH_ENOTFOUND: there is no checkpoint, or no such folder, which is information in the log; WH_EINVAL as above, or a class, map
// or balancer is not registered here, which is logged; WH_EBUSY: this PE knows a collection already; WH_EPROTOCOL, WH_ESYSTEM: the
// index cannot be read.
WH_API WH_CHECK wh_status wh_checkpoint_read(wh_pe *pe, const char *folder,
                                             const wh_callback *callback);

#ifdef __cplusplus
}
#endif
#endif
