// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/base/rank.h"

#include <stdarg.h>
#include <stdio.h>

static whm_rank first;
whm_rank *whm_self = &first;

void whm_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(whm_self->sentence, sizeof(whm_self->sentence), format, args);
    va_end(args);
}
