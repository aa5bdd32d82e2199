// SPDX-License-Identifier: BSD-3-Clause
//
// Images: copies of the program, one for each virtual rank, with global variables of their own.
//
// A program that `mpicc -vp` has linked is a shared object that can also be run.  It is copied into memory and loaded from there once for each
// rank, so that each copy has its own globals, statics and thread-local variables, and runs its own constructors.  Libraries that it
// needs are loaded once, and shared.
#ifndef WHM_VP_IMAGE_H
#define WHM_VP_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef int whm_main_fn(int argc, char **argv, char **envp);

// What the images' references to these functions lead to, instead of the C library's.
typedef struct whm_redirected {
    const char *name;
    void (*fn)(void);
} whm_redirected;

// whm_image_load loads one more copy of this process's program, the last one or not, and returns its main function.  Its references go where
// `redirected` says, a list that ends with a name NULL.  NULL: it cannot be; `why` says the reason and what to do.
whm_main_fn *whm_image_load(const whm_redirected *redirected, bool last, char *why, size_t size);

// whm_image_begin_libraries has the constructors of the program's libraries called that have not been: they come behind this library's, which runs the
// ranks.  A copy of the program that is loaded for a rank does so, too; this one is for programs of which none is.  false: `why` says the reason.
bool whm_image_begin_libraries(char *why, size_t size);

#endif
