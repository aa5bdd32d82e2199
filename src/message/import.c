// SPDX-License-Identifier: BSD-3-Clause
//
// The peer's device memory as it is mapped here, see import.h.
#include "message/import.h"

#include "base/alloc.h"
#include "base/log.h"

static whi_import *import_of(whi_list *node) {
    return whi_container_of(node, whi_import, link);
}

static void drop(whi_link_messages *on, whi_import *import) {
    whi_list_remove(&import->link);
    on->import_count--;
    import->ops->sharing->close(&import->mapping);
    whi_free(import);
}

// overlaps says whether two allocations have had addresses in common: the peer has freed one of them, then.
static bool overlaps(const whi_mem_handle *a, const whi_mem_handle *b) {
    return a->base - b->base < b->length || b->base - a->base < a->length;
}

// find returns the import of an allocation, and drops those that the peer has freed since.
static whi_import *find(whi_link_messages *on, const whi_mem_ops *ops,
                        const whi_mem_handle *handle) {
    whi_import *found = NULL;
    whi_list_foreach(node, &on->imports) {
        whi_import *import = import_of(node);
        if (import->ops != ops)
            continue;
        if (import->handle.id == handle->id && import->handle.descriptor == handle->descriptor)
            found = import;
        else if (!import->uses && overlaps(&import->handle, handle))
            drop(on, import);
    }
    return found;
}

// make_space drops the import that was used the longest time ago.  False: all are in use.
static bool make_space(whi_link_messages *on) {
    whi_import *oldest = NULL;
    if (on->import_count < WHI_IMPORTS_MAX)
        return true;
    whi_list_foreach(node, &on->imports) {
        if (!import_of(node)->uses)
            oldest = import_of(node);
    }
    if (oldest)
        drop(on, oldest);
    return oldest;
}

// failed notes that memory could not be mapped.  Where that has never gone well, it is not tried again.
static void failed(const whi_link *link, whi_imports *imports, bool descriptor) {
    if (imports->done || imports->never)
        return;
    imports->never = true;
    if (descriptor)
        whi_log(
            WHI_WARN, "W-MEM-02",
            "%s: its virtual device memory cannot be opened, and is copied through the host from now on; the kernel must "
            "let this process copy the peer's descriptors (/proc/sys/kernel/yama/ptrace_scope, containers), and both see "
            "the same devices",
            link->name);
    else
        whi_log(
            WHI_WARN, "W-MEM-01",
            "%s: its device memory cannot be opened, and is copied through the host from now on; do both processes have "
            "the same IPC namespace and see the same devices?",
            link->name);
}

whi_import *whi_import_get(whi_link *link, const whi_mem_ops *ops, const whi_mem_handle *handle,
                           int device) {
    whi_link_messages *on = whi_messages_on(link);
    whi_imports *alike = &on->by_handle[handle->descriptor];
    whi_import *import = find(on, ops, handle);
    if (import) {
        whi_list_remove(&import->link);
    } else {
        import = !alike->never && make_space(on) ? whi_calloc(1, sizeof(*import)) : NULL;
        if (!import)
            return NULL;
        import->ops = ops;
        import->handle = *handle;
        wh_status st = ops->sharing->open(handle, device, &import->mapping);
        if (st != WH_OK) {
            whi_free(import);
            if (st != WH_ENOTFOUND)
                failed(link, alike, handle->descriptor);
            return NULL;
        }
        alike->done = true;
        on->import_count++;
    }
    whi_list_push_front(&on->imports, &import->link);
    import->uses++;
    return import;
}

void whi_import_link_ended(whi_link *link) {
    whi_list *node;
    while ((node = whi_list_first(&whi_messages_on(link)->imports)))
        drop(whi_messages_on(link), import_of(node));
}
