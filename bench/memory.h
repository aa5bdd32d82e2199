// SPDX-License-Identifier: BSD-3-Clause
//
// Kinds of memory of messages to measure: the library's, and two ways to use CUDA's.
//
// Any thread may call this.
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <wherry/wherry.h>

enum { BENCH_MEMORY_NAME = 16 };

typedef struct bench_memory {
    char name[BENCH_MEMORY_NAME];  // as it is written, and in the rows
    wh_mem_kind kind;
    bool managed;  // CUDA's, that moves between device and host
    bool staged;   // no way but through host memory
} bench_memory;

// bench_memory_parse reads a name: of a kind, "cuda-staged" or "managed".  Whether it exists here it does not look.
bool bench_memory_parse(const char *name, bench_memory *memory);

// bench_memory_alloc allocates memory on the first device, or the host's; NULL: there is none.
char *bench_memory_alloc(wh_mem_kind kind, bool managed, size_t size);
void bench_memory_free(wh_mem_kind kind, bool managed, char *memory);

// bench_host_memory is that of messages for which no kind can be chosen.
static inline bench_memory bench_host_memory(void) {
    return (bench_memory){.name = "host", .kind = WH_MEM_HOST};
}

#endif
