// SPDX-License-Identifier: BSD-3-Clause
//
// What debuggers need to know of a process of virtual ranks: its libraries, and the file that images are copies of.
//
// They find the libraries by DT_DEBUG in the program's dynamic section.  Linkers do not write it into shared objects, which programs are here, but
// leave some entries free; the loader's address goes into one of these.  A debugger that has started the program looks at the libraries
// whenever the loader says that one has come, and must not see a name change, as it would take breakpoints in it for gone.  So the entry is written
// before the last image is loaded, when the others have their names; that one keeps the name by which it was loaded, and its descriptor.
#include "mpi/vp/debug.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

// dynamic_size returns the bytes of the program's dynamic section.
static size_t dynamic_size(void) {
    const ElfW(Phdr) *at = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    for (unsigned long i = 0; at && i < getauxval(AT_PHNUM); i++)
        if (at[i].p_type == PT_DYNAMIC)
            return at[i].p_memsz;
    return 0;
}

void whm_debug_program(void) {
    ElfW(Dyn) *d = _r_debug.r_map->l_ld;
    const ElfW(Dyn) *end = d + dynamic_size() / sizeof(*d);
    for (; d + 1 < end && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_DEBUG)
            return;
    if (d + 1 >= end || d[1].d_tag != DT_NULL)
        return;  // the linker has left no entry
    // It may be read-only by now.
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)d & ~(page - 1);
    if (mprotect((void *)first, (uintptr_t)(d + 1) - first, PROT_READ | PROT_WRITE))
        return;
    d->d_un.d_ptr = (uintptr_t)&_r_debug;
    d->d_tag = DT_DEBUG;
}

size_t whm_spell(char *path, size_t size, int number) {
    size_t n = 0;
    for (; number && n + 16 < size; number >>= 1)
        n += (size_t)snprintf(path + n, size - n, number & 1 ? "././" : ".//");
    return n;
}

void whm_debug_image(struct link_map *map, int number) {
    char file[4096], path[sizeof(file) + 128];
    ssize_t length = readlink("/proc/self/exe", file, sizeof(file) - 1);
    if (length <= 0)
        return;
    file[length] = 0;
    const char *name = strrchr(file, '/') + 1;
    size_t n = (size_t)snprintf(path, sizeof(path), "%.*s", (int)(name - file), file);
    n += whm_spell(path + n, sizeof(path) - n, number);
    snprintf(path + n, sizeof(path) - n, "%s", name);
    char *copy = strdup(path);
    if (copy)  // the loader's own name, which it has taken the number of a descriptor for, is of no use to anybody else
        map->l_name = copy;
}
