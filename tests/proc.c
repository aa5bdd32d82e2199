// SPDX-License-Identifier: BSD-3-Clause
//
// What the test programs of several processes share, see proc.h.
#include "proc.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ucx_choice.h"

static char context[256];
static int role;
static wh_worker *shown;

void proc_context(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(context, sizeof(context), format, args);
    va_end(args);
}

void proc_fail(const char *file, int line, const char *format, ...) {
    const char *name = strrchr(file, '/');
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "FAILED [%d] %s: %s:%d: %s\n", getpid(), context, name ? name + 1 : file, line,
            text);
    signal(SIGALRM, SIG_DFL);
    alarm(5);  // printing may hang, too
    if (shown)
        wh_worker_dump(shown, stderr);
    _exit(1);
}

uint64_t proc_now_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t proc_now_ms(void) {
    return proc_now_us() / 1000;
}

// splitmix64: any seed will do, also a small one.
uint64_t proc_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t proc_below(uint64_t *state, uint64_t n) {
    return proc_random(state) % n;
}

uint64_t proc_seed(uint64_t fallback, bool *given) {
    const char *text = getenv("WHERRY_SEED");
    *given = text && *text;
    return *given ? strtoull(text, NULL, 0) : fallback;
}

bool proc_has_lane(const char *lane) {
    return strcmp(lane, "ucx") != 0 || ucx_usable();
}

void proc_role(int number) {
    role = number;
}

void proc_open(proc_worker *w, const char *lane, const char *mode, const char *const *options) {
    static const char *const names[] = {"", "wait", "spin", "adaptive"};
    char lanes[32];
    const char *all[8] = {lanes};
    int count = 1;
    snprintf(lanes, sizeof(lanes), "lanes=%s", lane);
    if (ucx_option(role))
        all[count++] = ucx_option(role);
    for (int i = 0; count < 7 && options && options[i]; i++)
        all[count++] = options[i];
    wh_progress_mode how = WH_PROGRESS_ADAPTIVE;
    for (int i = 1; i < 4; i++)
        if (strcmp(mode, names[i]) == 0)
            how = (wh_progress_mode)i;
    w->thread = strcmp(mode, "thread") == 0;
    CHECK_STATUS(wh_context_create(all, &w->ctx), WH_OK);
    CHECK_STATUS(wh_worker_create(w->ctx, WH_WORKER_OPTS(.mode = how, .progress_thread = w->thread),
                                  &w->worker),
                 WH_OK);
    shown = w->worker;
}

void proc_close(proc_worker *w) {
    if (shown == w->worker)
        shown = NULL;
    wh_worker_destroy(w->worker);
    wh_context_destroy(w->ctx);
}

void proc_wait(const proc_worker *w, int ms) {
    if (w->thread)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    else
        (void)!wh_worker_wait(w->worker, ms);
}

void *proc_map(size_t size) {
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ptr != MAP_FAILED);
    return ptr;
}

static void on_alarm(int signal) {
    (void)signal;
    // Not allowed in a handler, and all that is left: the process ends here in any case.
    proc_fail(__FILE__, __LINE__, "it takes too long: some call does not come back");
}

void proc_alarm(unsigned seconds) {
    signal(SIGALRM, on_alarm);
    alarm(seconds);
}

void proc_fill(void *buf, size_t size, uint64_t seed) {
    char *at = buf;
    memset(at, (int)(seed & 0xff), size);
    if (size < 8)
        return;
    uint64_t last = ~seed;
    memcpy(at + size - 8, &last, 8);
    if (size >= 16)
        memcpy(at, &seed, 8);
}

bool proc_same(const void *buf, size_t size, uint64_t seed) {
    const char *at = buf;
    uint64_t first = seed, last = ~seed;
    if (size >= 16)
        memcpy(&first, at, 8);
    if (size >= 8)
        memcpy(&last, at + size - 8, 8);
    if (first != seed || last != ~seed)
        return false;
    // Each page is looked at, and small messages whole.
    size_t step = size > 65536 ? 509 : 1;
    for (size_t i = size >= 16 ? 8 : 0; i + 8 < size; i += step)
        if ((uint8_t)at[i] != (uint8_t)seed)
            return false;
    return size >= 8 || size == 0 || (uint8_t)at[size - 1] == (uint8_t)seed;
}

int proc_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    int count = -3;  // ".", ".." and the one of `dir`
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

size_t proc_rss(pid_t pid) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file);
    unsigned long all, resident = 0;
    CHECK(fscanf(file, "%lu %lu", &all, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

uint64_t proc_cpu_us(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

bool proc_raise_descriptors(size_t count) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= count)
        return true;
    limit.rlim_cur = count;
    if (limit.rlim_max < count)
        limit.rlim_max = count;  // root may
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// device_kind loads CUDA's driver, which nobody may do before a fork: for children only.
static wh_mem_kind device_kind(void) {
    static wh_mem_kind kind;
    if (!kind)
        kind = wh_mem_kinds() & 1u << WH_MEM_CUDA ? WH_MEM_CUDA : WH_MEM_SIM;
    return kind;
}

// unit_of returns the length of the runs of spread memory: on a device, where each may be a copy, few long ones.
static size_t unit_of(size_t size, wh_mem_kind kind) {
    enum { WORD = 8, RUNS = 16 };
    return kind != WH_MEM_HOST && size && size % (RUNS * WORD) == 0 ? size / RUNS : WORD;
}

static void *allocate(size_t size, wh_mem_kind kind) {
    void *ptr = NULL;
    if (kind == WH_MEM_HOST)
        CHECK((ptr = malloc(size + 1)));
    else
        CHECK_STATUS(wh_mem_alloc_kind(kind, 0, size + 1, &ptr), WH_OK);
    return ptr;
}

proc_memory proc_memory_new(size_t size, unsigned how) {
    proc_memory m = {.size = size, .count = size, .dense = malloc(size ? size : 1)};
    CHECK(m.dense);
    m.data = m.dense;
    m.kind = how & PROC_DEVICE ? device_kind() : WH_MEM_HOST;
    if (how)
        m.data = allocate(how & PROC_SPREAD ? 2 * size : size, m.kind);
    if (how & PROC_SPREAD) {
        size_t unit = unit_of(size, m.kind);
        wh_type *run = NULL;
        CHECK(size % unit == 0);
        m.count = size / unit;
        CHECK_STATUS(wh_type_create_contig((int64_t)unit / 8, wh_type_basic(WH_TYPE_UINT64), &run),
                     WH_OK);
        CHECK_STATUS(wh_type_create_resized(run, 0, 2 * (int64_t)unit, &m.type), WH_OK);
        wh_type_release(run);
    }
    return m;
}

void proc_memory_free(proc_memory *m) {
    if (m->kind > WH_MEM_HOST)
        CHECK_STATUS(wh_mem_free_kind(m->kind, m->data), WH_OK);
    else if (m->data != m->dense)
        free(m->data);
    free(m->dense);
    wh_type_release(m->type);
    *m = (proc_memory){.data = NULL};
}

// move copies between the two places, by way of a picture of the spread one.
static void move(const proc_memory *m, bool lay) {
    if (m->data == m->dense)
        return;
    size_t unit = m->type ? unit_of(m->size, m->kind) : m->size,
           space = (m->type ? 2 : 1) * m->size;
    char *picture = m->kind == WH_MEM_HOST ? m->data : malloc(space ? space : 1), *dense = m->dense;
    CHECK(picture);
    if (m->kind != WH_MEM_HOST)
        CHECK_STATUS(wh_mem_copy(picture, WH_MEM_HOST, m->data, m->kind, space), WH_OK);
    for (size_t at = 0; at < m->size; at += unit) {
        char *there = picture + (m->type ? 2 : 1) * at;
        memcpy(lay ? there : dense + at, lay ? dense + at : there, unit);
    }
    if (m->kind == WH_MEM_HOST)
        return;
    if (lay)
        CHECK_STATUS(wh_mem_copy(m->data, m->kind, picture, WH_MEM_HOST, space), WH_OK);
    free(picture);
}

void proc_memory_lay(const proc_memory *m) {
    move(m, true);
}

void proc_memory_gather(const proc_memory *m) {
    move(m, false);
}
