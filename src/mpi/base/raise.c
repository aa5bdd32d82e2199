// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/raise.h"

#include <stdlib.h>
#include <wherry/log.h>

// Until error handlers are there: MPI_ERRORS_ARE_FATAL, which is what objects begin with.
__attribute__((weak)) int whm_raise(whm_kind kind, void *object, int code) {
    (void)kind;
    (void)object;
    (void)!(wh_log_write("error", "E-MPI-01", "%s: error class %d: %s", whm_self->call, code,
                         whm_self->sentence) == WH_OK);
    abort();
}
