// SPDX-License-Identifier: BSD-3-Clause
//
// See text.h.
#include "bench/text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char UNITS[] = "KMGT";

// Whether `rest`, what follows the digits of a size, is nothing, "B", "K", "KB" or "KiB".
static bool read_unit(const char *rest, unsigned *shift) {
    *shift = 0;
    const char *unit = *rest ? strchr(UNITS, toupper((unsigned char)*rest)) : NULL;
    if (!unit)
        return *rest == '\0' || strcasecmp(rest, "B") == 0;
    *shift = 10 * (unsigned)(unit - UNITS + 1);
    return rest[1] == '\0' || strcasecmp(rest + 1, "B") == 0 || strcasecmp(rest + 1, "iB") == 0;
}

// Digits only: strtoull by itself also takes blanks and signs.
static bool read_digits(const char *text, uint64_t *value, const char **rest) {
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    *rest = end;
    return errno == 0;
}

bool bench_parse_size(const char *text, uint64_t *size) {
    uint64_t value;
    const char *rest;
    unsigned shift;
    if (!read_digits(text, &value, &rest) || !read_unit(rest, &shift))
        return false;
    if (value > UINT64_MAX >> shift)
        return false;
    *size = value << shift;
    return true;
}

char *bench_format_size(uint64_t size, char *text, size_t text_size) {
    int unit = 0;
    while (size && size % 1024 == 0 && unit < (int)strlen(UNITS)) {
        size /= 1024;
        unit++;
    }
    char suffix[2] = {unit ? UNITS[unit - 1] : 0};
    snprintf(text, text_size, "%" PRIu64 "%s", size, suffix);
    return text;
}
