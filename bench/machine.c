// SPDX-License-Identifier: BSD-3-Clause
//
// See machine.h.
#include "bench/machine.h"

#include "bench/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

bool bench_read_line(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(text, (int)size, file) != NULL;
    fclose(file);
    if (got)
        text[strcspn(text, "\n")] = '\0';
    return got;
}

// The value of the first "name : value" line of /proc/cpuinfo; arm64 has no model name there.
static void read_cpu(char *text, size_t size) {
    char line[256];
    snprintf(text, size, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, size, "%.*s", (int)size - 1, colon + 2);
        break;
    }
    fclose(file);
}

static void read_caches(char *text, size_t size) {
    char path[128], level[16], type[32], bytes[32];
    size_t used = 0;
    text[0] = '\0';
    for (int index = 0; index < 8 && used < size; index++) {
        const char *base = "/sys/devices/system/cpu/cpu0/cache/index";
        snprintf(path, sizeof path, "%s%d/level", base, index);
        if (!bench_read_line(path, level, sizeof level))
            return;
        snprintf(path, sizeof path, "%s%d/type", base, index);
        if (!bench_read_line(path, type, sizeof type) || strcmp(type, "Instruction") == 0)
            continue;
        snprintf(path, sizeof path, "%s%d/size", base, index);
        if (!bench_read_line(path, bytes, sizeof bytes))
            continue;
        used += (size_t)snprintf(text + used, size - used, "%sL%s%s %s", used ? ", " : "", level,
                                 strcmp(type, "Data") == 0 ? "d" : "", bytes);
    }
}

void bench_machine_read(bench_machine *machine) {
    struct utsname name;
    struct sysinfo info;
    cpu_set_t allowed;

    memset(machine, 0, sizeof *machine);
    read_cpu(machine->cpu, sizeof machine->cpu);
    read_caches(machine->caches, sizeof machine->caches);
    if (uname(&name) == 0)
        snprintf(machine->kernel, sizeof machine->kernel, "%.20s %.60s %.20s", name.sysname,
                 name.release, name.machine);
    if (gethostname(machine->host, sizeof machine->host - 1) != 0)
        machine->host[0] = '\0';
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        machine->cores = CPU_COUNT(&allowed);
    if (sysinfo(&info) == 0)
        machine->memory = (uint64_t)info.totalram * info.mem_unit;
}

static bool read_siblings(int core, char *text, size_t size) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             core);
    return bench_read_line(path, text, size);
}

// Whether two cores are threads of one: their lists of siblings are then the same text.
static bool same_core(int a, int b) {
    char list_a[64], list_b[64];
    return read_siblings(a, list_a, sizeof list_a) && read_siblings(b, list_b, sizeof list_b) &&
           strcmp(list_a, list_b) == 0;
}

bool bench_pick_cores(int cores[2]) {
    cpu_set_t allowed;
    cores[0] = cores[1] = -1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed))
            continue;
        if (cores[0] < 0) {
            cores[0] = cores[1] = core;
        } else if (!same_core(cores[0], core)) {
            cores[1] = core;
            return true;
        }
    }
    return false;
}

bool bench_may_use(int core) {
    cpu_set_t allowed;
    if (core < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return core < 0;
    return core < CPU_SETSIZE && CPU_ISSET(core, &allowed);
}

bool bench_pin(int core) {
    cpu_set_t set;
    if (core < 0)
        return true;
    if (core >= CPU_SETSIZE)
        return false;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static double seconds_of(const struct rusage *usage) {
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

// User and system time of a living process: fields 14 and 15, counted behind the name's bracket,
// because the name itself may contain blanks.
static double seconds_of_process(pid_t pid) {
    char path[64], line[512];
    unsigned long user, system;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!bench_read_line(path, line, sizeof line))
        return 0;
    const char *rest = strrchr(line, ')');
    if (!rest ||
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

// user + nice + system + irq + softirq + steal of all cores: steal is the host's other guests.
static double seconds_busy(void) {
    char line[256];
    unsigned long long user, nice, system, irq, softirq, steal;
    if (!bench_read_line("/proc/stat", line, sizeof line) ||
        sscanf(line, "cpu %llu %llu %llu %*u %*u %llu %llu %llu", &user, &nice, &system, &irq,
               &softirq, &steal) != 6)
        return 0;
    return (double)(user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

void bench_load_read(bench_load *load, pid_t child) {
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    load->at_ns = bench_ns();
    load->busy = seconds_busy();
    load->ours = seconds_of(&self) + seconds_of(&children);
    if (child > 0)
        load->ours += seconds_of_process(child);
}

double bench_load_others(const bench_load *from, const bench_load *to) {
    double wall = (double)(to->at_ns - from->at_ns) / (double)BENCH_NS_PER_S;
    double others = (to->busy - from->busy) - (to->ours - from->ours);
    return wall > 0 && others > 0 ? others / wall : 0;
}
