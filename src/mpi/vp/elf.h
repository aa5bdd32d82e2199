// SPDX-License-Identifier: BSD-3-Clause
//
// Images at addresses of our choice: the program, loaded once more for a rank that moves.
//
// The system's loader has loaded the program already, as it does all programs; its headers and its dynamic section are read there.  Further
// copies are mapped from the program's file and linked here, against the libraries of the process.  Code and constants stay the file's, so that
// all ranks share them.
#ifndef WHM_VP_ELF_H
#define WHM_VP_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/vp/image.h"

typedef struct whm_part {  // of an image, from its base on, in whole pages
    size_t from, size;
} whm_part;

enum { WHM_PARTS = 8 };

typedef struct whm_elf {
    int fd;
    size_t span;  // of an image
    whm_part writable[WHM_PARTS];
    int parts;
    size_t tls_size, tls_align;
    // The rest is the affair of elf.c: places in an image, from its base on.
    const struct link_map *map;
    size_t dynamic, main, frames, tls_image, tls_filled;
} whm_elf;

// whm_elf_open looks at the program of this process.  false: it cannot be loaded so; `why` says the reason and what to do.
bool whm_elf_open(whm_elf *elf, char *why, size_t size);

// whm_elf_map maps an image, as it is in the file, to memory that is reserved for it.
bool whm_elf_map(const whm_elf *elf, char *base, char *why, size_t size);

// whm_elf_link has a mapped image refer to itself, to its thread-local variables at `tls`, which are filled in, to the libraries, and to
// `redirected`, a list that ends with a name NULL.
bool whm_elf_link(const whm_elf *elf, char *base, char *tls, const whm_redirected *redirected,
                  char *why, size_t size);

// whm_elf_start runs what comes before main, whm_elf_finish what comes after it.
void whm_elf_start(const whm_elf *elf, char *base, int argc, char **argv, char **envp);
void whm_elf_finish(const whm_elf *elf, char *base);

whm_main_fn *whm_elf_main(const whm_elf *elf, char *base);

// whm_elf_frames tells the C++ runtime where an image's frames are, so that exceptions find their way; not any more: `on` false.  No C++: nothing happens.
void whm_elf_frames(const whm_elf *elf, char *base, bool on);

// whm_tls_get_addr is __tls_get_addr for images and all else.
void *whm_tls_get_addr(uintptr_t *module_and_offset);

#endif
