// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/raise.h"

#include <stdio.h>
#include <stdlib.h>

// Until error handlers are there: MPI_ERRORS_ARE_FATAL, which is what objects begin with.
__attribute__((weak)) int whm_raise(whm_kind kind, void *object, int code) {
    (void)kind;
    (void)object;
    fprintf(stderr, "%s: error class %d: %s\n", whm_self->call, code, whm_self->sentence);
    abort();
}
