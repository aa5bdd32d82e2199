// SPDX-License-Identifier: BSD-3-Clause
//
// See bind.h.  A core is the set of processors that share it, a unit of binding a core or a node.
#include "cli/run/bind.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/text.h"

enum { LIST_MAX = 4096, NODES_MAX = 1024 };

void bind_share(int units, int local, int count, int *first, int *last) {
    if (count > units) {  // some share one
        *first = (int)((int64_t)local * units / count);
        *last = *first + 1;
        return;
    }
    *first = (int)((int64_t)local * units / count);
    *last = (int)((int64_t)(local + 1) * units / count);
}

bool bind_read_list(const char *text, cpu_set_t *processors) {
    while (*text) {
        int first, last, used = 0, more = 0;
        if (sscanf(text, "%d%n-%d%n", &first, &used, &last, &more) < 2)
            last = first;
        if (!used || first < 0 || last < first || last >= CPU_SETSIZE)
            return false;
        for (int i = first; i <= last; i++)
            CPU_SET((size_t)i, processors);
        text += more ? more : used;
        if (*text && *text++ != ',')
            return false;
    }
    return true;
}

static bool read_list(const char *path, const cpu_set_t *free_ones, cpu_set_t *processors) {
    char text[LIST_MAX];
    CPU_ZERO(processors);
    if (!cli_read_line(path, text, sizeof text) || !bind_read_list(text, processors))
        return false;
    CPU_AND(processors, processors, free_ones);
    return CPU_COUNT(processors) > 0;
}

// The cores, or the nodes, that may be used; those without a description are processors.
static int find_units(bool nodes, const cpu_set_t *free_ones, cpu_set_t *units, int max) {
    int count = 0;
    cpu_set_t rest = *free_ones, unit;
    char path[128];
    for (int i = 0; nodes && i < NODES_MAX && count < max; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", i);
        if (read_list(path, free_ones, &unit))
            units[count++] = unit;
    }
    if (nodes)
        return count;
    for (int i = 0; i < CPU_SETSIZE && count < max; i++) {
        if (!CPU_ISSET((size_t)i, &rest))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        if (!read_list(path, free_ones, &unit)) {
            CPU_ZERO(&unit);
            CPU_SET((size_t)i, &unit);
        }
        units[count++] = unit;
        CPU_XOR(&unit, &unit, &rest);  // without those that are in both
        CPU_AND(&rest, &rest, &unit);
    }
    return count;
}

bool bind_choose(run_bind how, int local, int count, cpu_set_t *processors) {
    static cpu_set_t units[CPU_SETSIZE];
    cpu_set_t free_ones;
    // A machine with more processors than such a set can name is left alone.
    if (how == RUN_BIND_NONE || sched_getaffinity(0, sizeof free_ones, &free_ones) != 0)
        return false;
    int found = find_units(how == RUN_BIND_NUMA, &free_ones, units, CPU_SETSIZE), first, last;
    if (!found || (how == RUN_BIND_AUTO && count > found))
        return false;
    bind_share(found, local, count, &first, &last);
    CPU_ZERO(processors);
    for (int i = first; i < last; i++)
        CPU_OR(processors, processors, &units[i]);
    return true;
}
