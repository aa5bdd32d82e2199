// SPDX-License-Identifier: BSD-3-Clause
//
// What the test programs of several processes share: failing with all that is known, seeds, time, workers by name.
//
// A process that finds something wrong prints its context and its worker and ends with status 1; its parent sees the
// status and says how to repeat the run.  One thread per process, save where a worker has a progress thread.
#ifndef WHERRY_TESTS_PROC_H
#define WHERRY_TESTS_PROC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <wherry/wherry.h>

// proc_context sets what is printed before any failure of this process.
void proc_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

// proc_fail prints the context, the sentence and the worker that was opened last, and ends the process.
void proc_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            proc_fail(__FILE__, __LINE__, "%s", #cond);                                            \
    } while (0)
#define CHECK_STATUS(a, b)                                                                         \
    do {                                                                                           \
        wh_status proc_a = (a), proc_b = (b);                                                      \
        if (proc_a != proc_b)                                                                      \
            proc_fail(__FILE__, __LINE__, "%s is %s, not %s", #a, wh_status_name(proc_a),          \
                      wh_status_name(proc_b));                                                     \
    } while (0)
#define CHECK_INT(a, b)                                                                            \
    do {                                                                                           \
        long long proc_a = (long long)(a), proc_b = (long long)(b);                                \
        if (proc_a != proc_b)                                                                      \
            proc_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #a, proc_a, proc_b);             \
    } while (0)

uint64_t proc_now_ms(void);
uint64_t proc_now_us(void);

// proc_random steps a generator; proc_below returns a number below n.
uint64_t proc_random(uint64_t *state);
uint64_t proc_below(uint64_t *state, uint64_t n);

// proc_seed returns WHERRY_SEED, which asks for one run to be repeated, or `fallback`; *given tells which.
uint64_t proc_seed(uint64_t fallback, bool *given);

// A worker by its lane ("shm", "stream", "ucx") and mode ("wait", "spin", "adaptive", "thread").
typedef struct proc_worker {
    wh_context *ctx;
    wh_worker *worker;
    bool thread;
} proc_worker;
// proc_has_lane says whether this build and machine have a lane, and, when not, prints why.
bool proc_has_lane(const char *lane);

// proc_role says which role this process plays, 0 or 1, which decides on its UCX (ucx_choice.h).  Role 0 unless said.
void proc_role(int number);

void proc_open(proc_worker *w, const char *lane, const char *mode, const char *const *options);
void proc_close(proc_worker *w);

// proc_wait lets the worker progress for at most `ms`, and returns early when something happened.
void proc_wait(const proc_worker *w, int ms);

// proc_map returns zeroed memory that children share.
void *proc_map(size_t size);

// proc_alarm ends the process with its state when it is still there after that many seconds: the last resort.
void proc_alarm(unsigned seconds);

// Content: the first and last bytes tell the seed, those between repeat it.
void proc_fill(void *buf, size_t size, uint64_t seed);
bool proc_same(const void *buf, size_t size, uint64_t seed);

// proc_descriptors counts the open descriptors of this process; proc_rss its resident bytes; proc_cpu_us its CPU time.
int proc_descriptors(void);
size_t proc_rss(pid_t pid);
uint64_t proc_cpu_us(void);

// proc_raise_descriptors asks for that many; false: they are not to be had.
bool proc_raise_descriptors(size_t count);

// Memory of a message: dense, or spread, so that every second unit of it is the message's; the host's, or a device's.  `dense` is
// host memory where its bytes lie together, proc_memory_lay brings them to where an operation takes them, and
// proc_memory_gather back.
//
// The device is CUDA's where there is one (the test driver, say), and otherwise the simulated one.
enum { PROC_SPREAD = 1, PROC_DEVICE = 2, PROC_MEMORIES = 4 };

typedef struct proc_memory {
    void *data;     // for an operation,
    size_t count;   // which counts so many elements
    wh_type *type;  // of this type; NULL: bytes
    void *dense;
    size_t size;
    wh_mem_kind kind;
} proc_memory;

// proc_memory_new makes some; `how` is a sum of the PROC_* above.
proc_memory proc_memory_new(size_t size, unsigned how);
void proc_memory_free(proc_memory *m);
void proc_memory_lay(const proc_memory *m);
void proc_memory_gather(const proc_memory *m);

#endif
