// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/vp/elf.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

typedef struct words {  // where a sentence goes
    char *at;
    size_t size;
} words;

__attribute__((format(printf, 2, 3))) static bool no(words why, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why.at, why.size, format, args);
    va_end(args);
    return false;
}

static size_t page_down(size_t at) {
    return at & ~(size_t)(PAGE - 1);
}
static size_t page_up(size_t at) {
    return page_down(at + PAGE - 1);
}

// ---- Looking at the program.

static const ElfW(Phdr) * headers(int *count) {
    *count = (int)getauxval(AT_PHNUM);
    return (const void *)getauxval(AT_PHDR);
}

static bool add_load(whm_elf *elf, const ElfW(Phdr) * h, words why) {
    size_t end = page_up(h->p_vaddr + h->p_memsz);
    if (h->p_align > PAGE && h->p_vaddr % PAGE != h->p_offset % PAGE)
        return no(why, "its segments are not aligned to pages");
    elf->span = end > elf->span ? end : elf->span;
    if (!(h->p_flags & PF_W))
        return true;
    if (elf->parts == WHM_PARTS)
        return no(why, "it has too many segments");
    elf->writable[elf->parts++] = (whm_part){page_down(h->p_vaddr), end - page_down(h->p_vaddr)};
    return true;
}

// frames_of reads where the frames begin from the header that the linker has made for them (GNU's .eh_frame_hdr, version 1).
static size_t frames_of(const whm_elf *elf, size_t header) {
    enum { RELATIVE_INT = 0x1b };  // DW_EH_PE_pcrel | DW_EH_PE_sdata4
    const unsigned char *at = (const unsigned char *)elf->map->l_addr + header;
    int32_t distance;
    if (at[0] != 1 || at[1] != RELATIVE_INT)
        return 0;
    memcpy(&distance, at + 4, sizeof(distance));
    return header + 4 + (size_t)(intptr_t)distance;
}

static bool look(whm_elf *elf, words why) {
    int count;
    const ElfW(Phdr) *all = headers(&count);
    for (int i = 0; i < count; i++) {
        const ElfW(Phdr) *h = &all[i];
        switch (h->p_type) {
        case PT_LOAD:
            if (!add_load(elf, h, why))
                return false;
            break;
        case PT_DYNAMIC: elf->dynamic = h->p_vaddr; break;
        case PT_GNU_EH_FRAME: elf->frames = frames_of(elf, h->p_vaddr); break;
        case PT_TLS:
            elf->tls_size = h->p_memsz;
            elf->tls_align = h->p_align;
            elf->tls_image = h->p_vaddr;
            elf->tls_filled = h->p_filesz;
            break;
        default: break;
        }
    }
    return elf->dynamic || no(why, "it has no dynamic section");
}

bool whm_elf_open(whm_elf *elf, char *at, size_t size) {
    words why = {at, size};
    *elf = (whm_elf){.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    if (elf->fd < 0)
        return no(why, "its file cannot be read: %s", strerror(errno));
    void *program = dlopen(NULL, RTLD_NOW), *symbol = program ? dlsym(program, "main") : NULL;
    if (!program || dlinfo(program, RTLD_DI_LINKMAP, (void *)&elf->map) || !symbol)
        return no(why, "it has no main function that can be found");
    elf->main = (uintptr_t)symbol - elf->map->l_addr;
    return look(elf, why);
}

// ---- Mapping an image.

static bool map_load(const whm_elf *elf, char *base, const ElfW(Phdr) * h) {
    size_t from = page_down(h->p_vaddr), in_page = h->p_vaddr - from;
    size_t file = in_page + h->p_filesz, all = page_up(in_page + h->p_memsz);
    int can = (h->p_flags & PF_R ? PROT_READ : 0) | (h->p_flags & PF_W ? PROT_WRITE : 0) |
              (h->p_flags & PF_X ? PROT_EXEC : 0);
    if (file && mmap(base + from, file, can, MAP_PRIVATE | MAP_FIXED, elf->fd,
                     (off_t)(h->p_offset - in_page)) == MAP_FAILED)
        return false;
    if (!(h->p_flags & PF_W) || h->p_memsz == h->p_filesz)
        return true;
    size_t mapped = page_up(file);
    memset(base + from + file, 0, (mapped < all ? mapped : all) - file);
    return mapped >= all || mmap(base + from + mapped, all - mapped, can,
                                 MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

bool whm_elf_map(const whm_elf *elf, char *base, char *at, size_t size) {
    int count;
    const ElfW(Phdr) *all = headers(&count);
    for (int i = 0; i < count; i++)
        if (all[i].p_type == PT_LOAD && !map_load(elf, base, &all[i]))
            return no((words){at, size}, "it cannot be mapped: %s", strerror(errno));
    return true;
}

// ---- Linking it.

typedef struct linked {
    const whm_elf *elf;
    char *base, *tls;
    const whm_redirected *redirected;
    const ElfW(Sym) * symbols;
    const char *names;
    words why;
} linked;

// The system's loader may have added the program's address to what the dynamic section says.
static char *place(const linked *l, uintptr_t at) {
    uintptr_t origin = l->elf->map->l_addr;
    return l->base + (at >= origin && origin ? at - origin : at);
}

static uintptr_t entry(const linked *l, ElfW(Sxword) tag) {
    const ElfW(Dyn) *d = (const void *)(l->elf->map->l_addr + l->elf->dynamic);
    while (d->d_tag != DT_NULL && d->d_tag != tag)
        d++;
    return d->d_tag == tag ? d->d_un.d_val : 0;
}

static void *resolved(uintptr_t resolver) {
    void *(*fn)(void);
    memcpy(&fn, &resolver, sizeof(fn));
    return fn();
}

static bool find(const linked *l, size_t index, uintptr_t *value) {
    const ElfW(Sym) *sym = &l->symbols[index];
    const char *name = l->names + sym->st_name;
    if (sym->st_shndx != SHN_UNDEF) {
        *value = (uintptr_t)l->base + sym->st_value;
        if (ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC)
            *value = (uintptr_t)resolved(*value);
        return true;
    }
    for (const whm_redirected *r = l->redirected; r->name; r++)
        if (!strcmp(r->name, name)) {
            memcpy(value, &r->fn, sizeof(*value));
            return true;
        }
    *value = (uintptr_t)dlsym(RTLD_DEFAULT, name);
    return *value || ELF64_ST_BIND(sym->st_info) == STB_WEAK ||
           no(l->why, "no library has its symbol %s", name);
}

#if defined(__x86_64__)
// is_standard tells of the thread-local variables of C++'s library, which std::call_once fills in for a moment: they are the thread's.
static bool is_standard(const linked *l, size_t index) {
    const ElfW(Sym) *sym = &l->symbols[index];
    return index && sym->st_shndx == SHN_UNDEF && !strncmp(l->names + sym->st_name, "_ZSt", 4);
}

// loaded is what the system's loader has put there for the program.
static uintptr_t loaded(const linked *l, const ElfW(Rela) * r) {
    uintptr_t value;
    memcpy(&value, (const char *)l->elf->map->l_addr + r->r_offset, sizeof(value));
    return value;
}

static bool relocate(const linked *l, const ElfW(Rela) * r) {
    size_t index = ELF64_R_SYM(r->r_info);
    uintptr_t value = 0, *at = (uintptr_t *)(l->base + r->r_offset);
    unsigned kind = (unsigned)ELF64_R_TYPE(r->r_info);
    switch (kind) {
    case R_X86_64_NONE: return true;
    case R_X86_64_RELATIVE: *at = (uintptr_t)l->base + (uintptr_t)r->r_addend; return true;
    case R_X86_64_IRELATIVE:
        *at = (uintptr_t)resolved((uintptr_t)l->base + (uintptr_t)r->r_addend);
        return true;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        if (!find(l, index, &value))
            return false;
        *at = value + (kind == R_X86_64_64 ? (uintptr_t)r->r_addend : 0);
        return true;
    case R_X86_64_DTPMOD64:
        if (is_standard(l, index)) {
            *at = loaded(l, r);
            return true;
        }
        if (index && l->symbols[index].st_shndx == SHN_UNDEF)
            return no(l->why, "it uses the thread-local variable %s of a library",
                      l->names + l->symbols[index].st_name);
        *at = (uintptr_t)l->tls;
        return true;
    case R_X86_64_DTPOFF64:
        if (is_standard(l, index)) {
            *at = loaded(l, r);
            return true;
        }
        *at = l->symbols[index].st_value + (uintptr_t)r->r_addend;
        return true;
    case R_X86_64_TPOFF64:
    case R_X86_64_TLSDESC:
        return no(l->why, "it has thread-local variables that are not addressed through "
                          "__tls_get_addr: compile all of it with -fPIC, and without "
                          "-ftls-model=initial-exec and -mtls-dialect=gnu2");
    default: return no(l->why, "it has relocations of kind %u", kind);
    }
}
#else
static bool relocate(const linked *l, const ElfW(Rela) * r) {
    (void)r;
    return no(l->why, "that is there for x86-64 only");
}
#endif

static bool relocate_all(const linked *l, ElfW(Sxword) table, ElfW(Sxword) size) {
    const ElfW(Rela) *r = (const void *)place(l, entry(l, table));
    for (size_t n = entry(l, size) / sizeof(*r); n; n--, r++)
        if (!relocate(l, r))
            return false;
    return true;
}

bool whm_elf_link(const whm_elf *elf, char *base, char *tls, const whm_redirected *redirected,
                  char *at, size_t size) {
    linked l = {.elf = elf, .base = base, .tls = tls, .redirected = redirected, .why = {at, size}};
    l.symbols = (const void *)place(&l, entry(&l, DT_SYMTAB));
    l.names = place(&l, entry(&l, DT_STRTAB));
    if (entry(&l, DT_RELRSZ))
        return no(l.why, "its relocations are packed: link it without -z pack-relative-relocs");
    if (!relocate_all(&l, DT_RELA, DT_RELASZ) || !relocate_all(&l, DT_JMPREL, DT_PLTRELSZ))
        return false;
    memcpy(tls, base + elf->tls_image, elf->tls_filled);
    return true;
}

// ---- Using it.

typedef void begin_fn(int argc, char **argv, char **envp);
typedef void end_fn(void);

void whm_elf_start(const whm_elf *elf, char *base, int argc, char **argv, char **envp) {
    linked l = {.elf = elf, .base = base};
    begin_fn *fn;
    uintptr_t init = entry(&l, DT_INIT), all = entry(&l, DT_INIT_ARRAY);
    if (init) {
        char *at = place(&l, init);
        memcpy(&fn, &at, sizeof(fn));
        fn(argc, argv, envp);
    }
    for (size_t i = 0; all && i < entry(&l, DT_INIT_ARRAYSZ) / sizeof(fn); i++) {
        memcpy(&fn, place(&l, all) + i * sizeof(fn), sizeof(fn));
        fn(argc, argv, envp);
    }
}

void whm_elf_finish(const whm_elf *elf, char *base) {
    linked l = {.elf = elf, .base = base};
    end_fn *fn;
    uintptr_t fini = entry(&l, DT_FINI), all = entry(&l, DT_FINI_ARRAY);
    for (size_t i = all ? entry(&l, DT_FINI_ARRAYSZ) / sizeof(fn) : 0; i; i--) {
        memcpy(&fn, place(&l, all) + (i - 1) * sizeof(fn), sizeof(fn));
        fn();
    }
    if (fini) {
        char *at = place(&l, fini);
        memcpy(&fn, &at, sizeof(fn));
        fn();
    }
}

whm_main_fn *whm_elf_main(const whm_elf *elf, char *base) {
    char *at = base + elf->main;
    whm_main_fn *fn;
    memcpy(&fn, &at, sizeof(fn));
    return fn;
}

static void *function(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

void whm_elf_frames(const whm_elf *elf, char *base, bool on) {
    void *change = function(on ? "__register_frame" : "__deregister_frame");
    void *search = function("_Unwind_Find_FDE");
    void (*change_fn)(void *);
    const void *(*search_fn)(void *, void *);
    if (!change || !elf->frames)
        return;
    memcpy(&change_fn, &change, sizeof(change_fn));
    change_fn(base + elf->frames);
    if (!on || !search)
        return;
    // It sorts them at the first search, into memory that would otherwise be that of the first rank to throw.
    void *found[3];  // struct dwarf_eh_bases
    memcpy(&search_fn, &search, sizeof(search_fn));
    (void)search_fn(base + elf->main + 1, found);
}

typedef void *tls_fn(uintptr_t *module_and_offset);
extern tls_fn __tls_get_addr;

void *whm_tls_get_addr(uintptr_t *module_and_offset) {
    // Modules of the system's loader are numbered from 1 on; an image's is the address of its variables.
    uintptr_t module = module_and_offset[0];
    return module < PAGE ? __tls_get_addr(module_and_offset)
                         : (char *)module + module_and_offset[1];
}
