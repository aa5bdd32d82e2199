// SPDX-License-Identifier: BSD-3-Clause
//
// Imports: device memory of a link's peer, mapped into this process, and kept so for the messages to come.
//
// An import goes by the allocation's id, which its process never uses again: memory that was freed and allocated anew is
// another one, whatever its address.  A link has few of them, the last used first, and none after its end.  Owner's thread.
#ifndef WHI_MESSAGE_IMPORT_H
#define WHI_MESSAGE_IMPORT_H

#include "mem/mem.h"
#include "message/room.h"

enum { WHI_IMPORTS_MAX = 32 };  // of a link

typedef struct whi_import {
    whi_list link;
    const whi_mem_ops *ops;
    whi_mem_handle handle;
    whi_mem_mapping mapping;
    unsigned uses;  // copies under way
} whi_import;

// whi_import_get maps the peer's memory, or finds that it is mapped, for one more copy, which whi_import_put ends; NULL: it cannot be.
whi_import *whi_import_get(whi_link *link, const whi_mem_ops *ops, const whi_mem_handle *handle,
                           int device);
static inline void whi_import_put(whi_import *import) {
    import->uses--;
}

// whi_import_link_ended unmaps all.
void whi_import_link_ended(whi_link *link);

#endif
