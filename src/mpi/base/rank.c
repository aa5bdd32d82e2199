// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/process.h"

#include <stdarg.h>
#include <stdio.h>
#include <wherry/log.h>

static whm_rank first;
whm_rank *whm_self = &first;

void whm_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(whm_self->sentence, sizeof(whm_self->sentence), format, args);
    va_end(args);
}

int whm_say_status(wh_status status, const char *what) {
    whm_process_lost(status);
    const char *more = wh_log_take_error();
    int code = status == WH_ENOMEM         ? MPI_ERR_NO_MEM
               : status == WH_ETRUNCATED   ? MPI_ERR_TRUNCATE
               : status == WH_ETYPE        ? MPI_ERR_TYPE
               : status == WH_ENOTSUP      ? MPI_ERR_UNSUPPORTED_OPERATION
               : whm_tells_of_loss(status) ? MPI_ERR_PROC_ABORTED
                                           : MPI_ERR_OTHER;
    return whm_fail(code, "%s: %s%s%s", what, wh_status_text(status), *more ? ": " : "", more);
}
