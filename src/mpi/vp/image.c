// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/vp/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/base/files.h"
#include "mpi/vp/debug.h"

static int loaded;  // so far

// path_of writes a path of a descriptor that no other copy was loaded by: the loader takes the same path for the same object, though
// the number has been closed meanwhile.
static void path_of(int fd, char *path, size_t size) {
    // A debugger opens it, too, and its own descriptors are others.
    char self[32];
    ssize_t length = readlink("/proc/self", self, sizeof(self));
    size_t n = length > 0 ? (size_t)snprintf(path, size, "/proc/%.*s/fd/", (int)length, self)
                          : (size_t)snprintf(path, size, "/proc/self/fd/");
    n += whm_spell(path + n, size - n, loaded);
    snprintf(path + n, size - n, "%d", fd);
}

// copy_program returns a descriptor of a copy in memory; -1: errno says why.
static int copy_program(void) {
    struct stat st;
    off_t at = 0;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = from < 0 ? -1 : memfd_create("mpi-rank", MFD_CLOEXEC);
    bool good = to >= 0 && fstat(from, &st) == 0 && whm_may_have_file((size_t)st.st_size);
    while (good && at < st.st_size)
        good = sendfile(to, from, &at, (size_t)(st.st_size - at)) > 0;
    int saved = errno;
    if (from >= 0)
        close(from);
    if (!good && to >= 0)
        close(to);
    errno = saved;
    return good ? to : -1;
}

// ---- What is not the C library's for ranks.

typedef struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * rela[2];
    size_t rela_size[2];
} tables;

static uintptr_t place(const struct link_map *map, uintptr_t address) {
    return address < map->l_addr ? map->l_addr + address
                                 : address;  // the loader may have moved it already
}

static tables tables_of(const struct link_map *map) {
    tables t = {0};
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_SYMTAB: t.symbols = (const void *)place(map, d->d_un.d_ptr); break;
        case DT_STRTAB: t.names = (const void *)place(map, d->d_un.d_ptr); break;
        case DT_RELA: t.rela[0] = (const void *)place(map, d->d_un.d_ptr); break;
        case DT_RELASZ: t.rela_size[0] = d->d_un.d_val; break;
        case DT_JMPREL: t.rela[1] = (const void *)place(map, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: t.rela_size[1] = d->d_un.d_val; break;
        default: break;
        }
    return t;
}

static void set(uintptr_t at, uintptr_t value) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = at & ~(page - 1);
    // It may be read-only since the loader has filled it in (RELRO).
    if (mprotect((void *)begin, page, PROT_READ | PROT_WRITE) == 0)
        memcpy((void *)at, &value, sizeof(value));
}

static const whm_redirected *find(const whm_redirected *all, const char *name) {
    while (all->name && strcmp(all->name, name) != 0)
        all++;
    return all->name ? all : NULL;
}

// redirect has the copy's references lead elsewhere.
static void redirect(const struct link_map *map, const whm_redirected *all) {
    tables t = tables_of(map);
    for (int i = 0; i < 2 && t.symbols && t.names; i++)
        for (size_t k = 0; t.rela[i] && k < t.rela_size[i] / sizeof(ElfW(Rela)); k++) {
            const ElfW(Rela) *r = &t.rela[i][k];
            const char *name = t.names + t.symbols[ELF64_R_SYM(r->r_info)].st_name;
            const whm_redirected *to = ELF64_R_SYM(r->r_info) ? find(all, name) : NULL;
            if (to)
                set(map->l_addr + r->r_offset, (uintptr_t)to->fn);
        }
}

// map returns a copy's file in memory, for munmap; MAP_FAILED: it cannot be.
static char *map(int fd, size_t *size) {
    struct stat st;
    if (fstat(fd, &st))
        return MAP_FAILED;
    *size = (size_t)st.st_size;
    return mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

// keep_apart has the loader look for a C++ program's inline variables, and statics of templates and inline functions, in this copy.  The compiler has
// bound them to one object for all of a process (STB_GNU_UNIQUE).
static void keep_apart(char *file) {
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Shdr) *section = (const void *)(file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        ElfW(Sym) *symbols = (void *)(file + section[i].sh_offset);
        size_t count = section[i].sh_type == SHT_DYNSYM ? section[i].sh_size / sizeof(*symbols) : 0;
        for (size_t k = 0; k < count; k++)
            if (ELF64_ST_BIND(symbols[k].st_info) == STB_GNU_UNIQUE)
                symbols[k].st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbols[k].st_info));
    }
}

static ElfW(Dyn) * dynamic_of(char *file) {
    const ElfW(Ehdr) *head = (const void *)file;
    const ElfW(Phdr) *segment = (const void *)(file + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (segment[i].p_type == PT_DYNAMIC)
            return (void *)(file + segment[i].p_offset);
    return NULL;
}

// leave_out_constructors has the loader call nothing of this copy.
static void leave_out_constructors(char *file) {
    for (ElfW(Dyn) *d = dynamic_of(file); d && d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_INIT:
        case DT_INIT_ARRAY:
        case DT_INIT_ARRAYSZ:
        case DT_FINI:
        case DT_FINI_ARRAY:
        case DT_FINI_ARRAYSZ: d->d_tag = DT_LOOS; break;  // which is passed over
        default: break;
        }
}

// open_copy returns a descriptor of a copy, ready to be loaded by `path`, with its constructors or without; -1: `why` says the reason.
static int open_copy(bool constructors, char *path, size_t path_size, char *why, size_t size) {
    int fd = copy_program();
    if (fd < 0) {
        snprintf(why, size, "the program cannot be copied: %s%s", strerror(errno),
                 errno == EFBIG ? " (ulimit -f)" : "");
        return -1;
    }
    size_t length;
    char *file = map(fd, &length);
    if (file != MAP_FAILED) {
        keep_apart(file);
        if (!constructors)
            leave_out_constructors(file);
        munmap(file, length);
    }
    path_of(fd, path, path_size);
    return fd;
}

// behind returns a sentence of the loader without the path that it begins with, which is none of the program's.
static const char *behind(const char *sentence, const char *path) {
    size_t n = strlen(path);
    return !strncmp(sentence, path, n) && !strncmp(sentence + n, ": ", 2) ? sentence + n + 2
                                                                          : sentence;
}

bool whm_image_begin_libraries(char *why, size_t size) {
    char path[256];
    int fd = open_copy(false, path, sizeof(path), why, size);
    if (fd < 0)
        return false;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(fd);
    if (handle)
        dlclose(handle);
    else
        snprintf(why, size, "%s", behind(dlerror(), path));
    return handle != NULL;
}

whm_main_fn *whm_image_load(const whm_redirected *redirected, bool last, char *why, size_t size) {
    char path[256];
    int fd = open_copy(true, path, sizeof(path), why, size);
    if (fd < 0)
        return NULL;
    if (last)
        whm_debug_program();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!last)
        close(fd);
    struct link_map *map = NULL;
    whm_main_fn *fn = NULL;
    if (handle && dlinfo(handle, RTLD_DI_LINKMAP, (void *)&map) == 0) {
        void *symbol = dlsym(handle, "main");
        memcpy(&fn, &symbol, sizeof(fn));
    }
    if (!fn) {
        snprintf(
            why, size,
            "the program cannot be loaded a second time: %s: compile all of it with -fPIC, and "
            "link it with mpicc -vp, or give each rank a process (mpiexec -n N, without --vp)",
            handle ? "it has no main function that can be found" : behind(dlerror(), path));
        return NULL;
    }
    loaded++;
    if (!last)
        whm_debug_image(map, loaded);
    redirect(map, redirected);
    return fn;
}
