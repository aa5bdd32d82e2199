// SPDX-License-Identifier: BSD-3-Clause
//
// Checkpoints from inside: for the files of this folder.
#ifndef WHI_RT_CHARE_CHECKPOINT_H
#define WHI_RT_CHARE_CHECKPOINT_H

#include <wherry/checkpoint.h>

#include "rt/chare/chares.h"
#include "rt/chare/saved.h"

enum { WHI_CHECKPOINT_FOLDER_MAX = 3000 };
#define WHI_CHECKPOINT_INDEX "index"

// whi_checkpoint_name is the name of a PE's file.
void whi_checkpoint_name(char *name, size_t size, uint64_t number, uint32_t pe);

// whi_checkpoint_index reads the index of a folder.  WH_ENOTFOUND: there is none, which is the caller's to judge; all else is logged.
WH_CHECK wh_status whi_checkpoint_index(const char *folder, whi_blob *bytes,
                                        whi_saved_index *index);

// whi_checkpoint_refuse says in the log what a call lacks.
WH_CHECK wh_status whi_checkpoint_refuse(const wh_pe *pe, const char *call, const char *folder,
                                         const wh_callback *callback);

// whi_checkpoint_collect adds the elements of this PE to `to`.  WH_EBUSY, WH_ENOTSUP: an element
// cannot be saved, which is logged.
WH_CHECK wh_status whi_checkpoint_collect(whi_chares *c, whi_blob *to);

// whi_checkpoint_fire carries out a callback with a status.
void whi_checkpoint_fire(whi_chares *c, const wh_callback *callback, wh_status status);

// Messages about writing one, and about reading one.  Fails with what makes the job end.
WH_CHECK wh_status whi_checkpoint_write_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);
WH_CHECK wh_status whi_checkpoint_read_take(whi_chares *c, const whi_head *head, wh_pe_msg *msg);

// whi_checkpoint_end tells of the checkpoints that this PE has asked for and has heard nothing of, as the job ends; `call`: functions of
// this PE are told, too.
void whi_checkpoint_end(whi_chares *c, bool call);
void whi_checkpoint_free(whi_chares *c);  // what is left of one at the end of the PE

#endif
