// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks move only between processes that are alike: a rank has addresses of the libraries, of functions in them, too.
//
// Each process makes one number of all that must be the same; a checkpoint has that of the job that wrote it.  Whether a library is the same is
// seen by its build id, and if its linker gave it none, by its code and constants.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <wherry/coll.h>

#include "mpi/vp/movable.h"

static void add_word(uint64_t *sum, uint64_t word) {
    *sum = (*sum ^ word) * 0x9E3779B97F4A7C15u;
    *sum ^= *sum >> 32;
}

static void add_bytes(uint64_t *sum, const void *from, size_t size) {
    const char *at = from;
    for (uint64_t word = 0; size; at += sizeof(word)) {
        size_t n = size < sizeof(word) ? size : sizeof(word);
        memcpy(&word, at, n);
        add_word(sum, word);
        size -= n;
    }
}

static bool has_build_id(const char *notes, size_t size) {
    ElfW(Nhdr) note;
    for (size_t at = 0; at + sizeof(note) <= size;) {
        memcpy(&note, notes + at, sizeof(note));
        const char *name = notes + at + sizeof(note);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(name, "GNU", 4))
            return true;
        at += sizeof(note) + ((note.n_namesz + 3) & ~3u) + ((note.n_descsz + 3) & ~3u);
    }
    return false;
}

// add_library adds the program or a library of it: its name, where it lies, its segments, and what it is.
static int add_library(struct dl_phdr_info *info, size_t unused, void *arg) {
    (void)unused;
    uint64_t *sum = arg;
    bool named = false;
    const char *base = strrchr(info->dlpi_name, '/');
    base = base ? base : info->dlpi_name;
    add_bytes(sum, base, strlen(base));
    add_word(sum, info->dlpi_addr);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        add_bytes(sum, h, sizeof(*h));
        if (h->p_type != PT_NOTE)
            continue;
        const char *notes = (const char *)info->dlpi_addr + h->p_vaddr;
        add_bytes(sum, notes, h->p_memsz);
        named = named || (h->p_align <= 4 && has_build_id(notes, h->p_memsz));
    }
    for (int i = 0; i < info->dlpi_phnum && !named; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && !(h->p_flags & PF_W))
            add_bytes(sum, (const char *)info->dlpi_addr + h->p_vaddr, h->p_filesz);
    }
    return 0;
}

// The C library has several forms of some functions, and takes one by what the processor can do.
static void add_choices(uint64_t *sum) {
    static const char *const names[] = {"memcpy", "memset", "strlen", "strchr", "strcmp"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        add_word(sum, (uintptr_t)dlsym(RTLD_DEFAULT, names[i]));
}

static uint64_t fingerprint(void) {
    uint64_t sum = whm_movable_here.layout.stack_size;
    dl_iterate_phdr(add_library, &sum);
    add_choices(&sum);
    return sum;
}

void whm_compare_processes(void) {
    whm_movable *m = &whm_movable_here;
    const wh_type *word = wh_type_basic(WH_TYPE_UINT64);
    int n = whm_process_here.processes;
    uint64_t mine = m->fingerprint = fingerprint(), *all = calloc((size_t)n, sizeof(*all));
    if (!all)
        whm_refuse_run("there is no memory for %d processes", n);
    whm_need(wh_coll_allgather_wait(m->team, &mine, 1, word, all, 1, word, -1),
             "the processes cannot compare their libraries");
    for (int i = 0; i < n; i++)
        if (all[i] != all[0])
            whm_refuse_run(
                "ranks cannot move between processes 0 and %d: they run different programs, or "
                "have other libraries, or at other addresses, or on a processor of another kind, "
                "or stacks of other sizes (WHERRY_MPI_STACK)",
                i);
    free(all);
}
