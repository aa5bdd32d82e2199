// SPDX-License-Identifier: BSD-3-Clause
//
// See pss.h.
#include "bench/charm/pss.h"

#include <stdio.h>

long bench_pss_kib(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[128];
    long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %ld kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

void bench_pss_print(const long *kib, int count) {
    printf("{\"kib\": [");
    for (int i = 0; i < count; i++)
        printf("%s%ld", i ? ", " : "", kib[i]);
    printf("]}\n");
    fflush(stdout);
}
