// SPDX-License-Identifier: BSD-3-Clause
#include "rt/pe/refuse.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "rt/pe/pe.h"

void whi_refuse_log(const char *id, const char *format, ...) {
    char text[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    whi_log(WHI_ERROR, id, "%s", text);
}

void whi_refuse_log_pe(const wh_pe *pe, const char *call, const char *what, int number) {
    whi_refuse_log("E-RT-10", "%s: %s is PE %d, and the job has PEs 0 to %d", call, what, number,
                   pe->pes - 1);
}
