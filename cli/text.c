// SPDX-License-Identifier: BSD-3-Clause
//
// See text.h.
#include "cli/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_parse_uint(const char *text, uint64_t low, uint64_t high, uint64_t *value) {
    char *end;
    if (!isdigit((unsigned char)*text))  // strtoull takes blanks and signs
        return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end || number < low || number > high)
        return false;
    *value = number;
    return true;
}

bool cli_parse_seconds(const char *text, double *seconds) {
    char *unit;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    double value = strtod(text, &unit);
    if (strcmp(unit, "ms") == 0)
        value /= 1000;
    else if (*unit && strcmp(unit, "s") != 0)
        return false;
    if (!(value > 0 && value < 86400))
        return false;
    *seconds = value;
    return true;
}

char *cli_format_bytes(double bytes, char *text, size_t size) {
    static const char units[] = "KMGT";
    const char *unit = units;
    if (bytes < 1024) {
        snprintf(text, size, "%.0f B", bytes);
        return text;
    }
    for (bytes /= 1024; bytes >= 1024 && unit[1]; unit++)
        bytes /= 1024;
    snprintf(text, size, "%.*f %ciB", bytes < 10 ? 2 : bytes < 100 ? 1 : 0, bytes, *unit);
    return text;
}

bool cli_read_line(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(text, (int)size, file) != NULL;
    fclose(file);
    if (got)
        text[strcspn(text, "\n")] = '\0';
    return got;
}
