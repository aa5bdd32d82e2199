// SPDX-License-Identifier: BSD-3-Clause
//
// doctor_find, see doctor.h: how a finding looks, whoever has found it.
#include "cli/doctor.h"

#include <stdarg.h>
#include <stdio.h>

void doctor_find(doctor *self, finding grade, const char *where, const char *fix,
                 const char *format, ...) {
    static const char *const words[] = {"ok  ", "note", "BAD "};
    va_list args;
    self->notes += grade == FINDING_NOTE;
    self->bad += grade == FINDING_BAD;
    printf("%s  %-16s ", words[grade], where);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (fix && grade != FINDING_GOOD)
        printf("      %-16s -> %s\n", "", fix);
}
