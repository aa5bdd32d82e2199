// SPDX-License-Identifier: BSD-3-Clause
//
// For debuggers: what they find by DT_DEBUG, and a function to stop in.
#include <elf.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static int mine;
int shown;

__attribute__((noinline)) void stop_here(int rank) {
    mine = rank + 100;
    shown = rank + 200;
    MPI_Barrier(MPI_COMM_WORLD);
    __asm__ volatile("" ::: "memory");
}

static const struct r_debug *found(void) {
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR), *h = headers;
    uintptr_t base = (uintptr_t)headers - sizeof(ElfW(Ehdr));
    while (h->p_type != PT_DYNAMIC)
        h++;
    for (const ElfW(Dyn) *d = (const ElfW(Dyn) *)(base + h->p_vaddr); d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_DEBUG)
            return (const struct r_debug *)d->d_un.d_ptr;
    return NULL;
}

int main(int argc, char **argv) {
    char program[4096] = "";
    int rank, images = 0, libraries = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    stop_here(rank);
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return 1;
    const struct r_debug *debug = found();
    for (const struct link_map *map = debug ? debug->r_map : NULL; map; map = map->l_next) {
        FILE *file = fopen(map->l_name, "r");
        images += file && map->l_name[0] && !strstr(map->l_name, ".so");
        libraries += file && strstr(map->l_name, "libmpi_abi.so");
        if (file)
            fclose(file);
    }
    if (rank == 0)
        printf("%d images, %d libraries, %d %d\n", images, libraries, mine, shown);
    MPI_Finalize();
    return 0;
}
