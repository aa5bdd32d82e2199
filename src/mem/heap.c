// SPDX-License-Identifier: BSD-3-Clause
#include "mem/heap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic uintptr_t whi_heap_begin, whi_heap_end;

// begin_of_heap reads it from /proc/self/stat (proc_pid_stat(5): start_brk); UINTPTR_MAX: the kernel does not tell.
static uintptr_t begin_of_heap(void) {
    enum { NAME = 2, START_BRK = 47 };  // fields
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return UINTPTR_MAX;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = 0;
    const char *at = strrchr(text, ')');  // what ends the name, which may have blanks
    for (int field = NAME; at && field < START_BRK; field++)
        at = strchr(at + 1, ' ');
    uintptr_t begin = at ? strtoul(at, NULL, 10) : 0;
    return begin ? begin : UINTPTR_MAX;
}

void whi_heap_look(void) {
    if (!atomic_load_explicit(&whi_heap_begin, memory_order_relaxed))
        atomic_store_explicit(&whi_heap_begin, begin_of_heap(), memory_order_relaxed);
    atomic_store_explicit(&whi_heap_end, (uintptr_t)sbrk(0), memory_order_relaxed);
}
