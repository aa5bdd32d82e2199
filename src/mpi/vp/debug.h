// SPDX-License-Identifier: BSD-3-Clause
//
// Virtual ranks under a debugger.
#ifndef WHM_VP_DEBUG_H
#define WHM_VP_DEBUG_H

#include <stddef.h>

struct link_map;

// whm_debug_program has debuggers find the libraries of this process, which runs a program of `mpicc -vp`.
void whm_debug_program(void);

// whm_spell writes what may stand between the folder and the name of a path, and is another text for each number; it returns how many characters.
size_t whm_spell(char *path, size_t size, int number);

// whm_debug_image says that an image which the loader has loaded has the program's symbols.  Different numbers give different spellings of its name.
void whm_debug_image(struct link_map *map, int number);

#endif
