// SPDX-License-Identifier: BSD-3-Clause
//
// A rank as bytes: those pages of its place that it has ever written to.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wherry/tag.h>

#include "mpi/type/type.h"
#include "mpi/vp/movable.h"

enum { PAGE = 4096, MAP_WORDS = 512 };

typedef struct run {  // of pages, in bytes from the place's begin on
    uint64_t from, size;
} run;

typedef struct runs {
    run *at;
    size_t count, room;
    uint64_t bytes;
} runs;

// ---- Which pages there are.

static void add(runs *all, uint64_t from, uint64_t size) {
    run *last = all->count ? &all->at[all->count - 1] : NULL;
    all->bytes += size;
    if (last && last->from + last->size == from) {
        last->size += size;
        return;
    }
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 64;
        all->at = realloc(all->at, all->room * sizeof(run));
        if (!all->at)
            whm_refuse_run("there is no memory to move a rank");
    }
    all->at[all->count++] = (run){from, size};
}

// add_written adds the pages of a part that are in memory or were swapped out.  The others read as they did at the begin.
static void add_written(runs *all, int map, const char *place, uint64_t from, uint64_t size) {
    const uint64_t there = UINT64_C(3) << 62;  // present, swapped
    uint64_t words[MAP_WORDS];
    for (uint64_t at = from, end = from + size; at < end;) {
        uint64_t pages = (end - at + PAGE - 1) / PAGE, n = pages < MAP_WORDS ? pages : MAP_WORDS;
        off_t offset = (off_t)((uintptr_t)(place + at) / PAGE * sizeof(uint64_t));
        if (pread(map, words, n * sizeof(uint64_t), offset) != (ssize_t)(n * sizeof(uint64_t)))
            whm_refuse_run("/proc/self/pagemap does not tell which pages a rank has: %s",
                           strerror(errno));
        for (uint64_t i = 0; i < n; i++, at += PAGE)
            if (words[i] & there)
                add(all, at, PAGE);
    }
}

static runs written(const whm_mover *who) {
    const whm_movable *m = &whm_movable_here;
    const whm_layout *l = &m->layout;
    runs all = {0};
    int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (map < 0)
        whm_refuse_run("/proc/self/pagemap cannot be read: %s", strerror(errno));
    add_written(&all, map, who->place, 0, l->image);
    for (int i = 0; i < m->elf.parts; i++)
        add_written(&all, map, who->place, l->image + m->elf.writable[i].from,
                    m->elf.writable[i].size);
    add_written(&all, map, who->place, l->tls, l->stack - PAGE - l->tls);
    add_written(&all, map, who->place, l->stack, l->stack_size);
    char *end = whm_heap_end(who->rank.heap);
    add_written(&all, map, who->place, l->heap, (uint64_t)(end - who->place) - l->heap);
    close(map);
    return all;
}

// ---- Sending and receiving.

static uint64_t tag_of(int world) {
    return UINT64_C(0x4D4F5645) << 32 | (uint32_t)world;
}

static void give(wh_endpoint *to, int world, const void *data, size_t size) {
    wh_status st = wh_tag_send_wait(to, data, size, tag_of(world), -1);
    if (st != WH_OK)
        whm_refuse_run("rank %d cannot be moved: %s", world, wh_status_text(st));
}

static void get(int world, void *data, size_t size) {
    wh_result result = {.size = 0};
    wh_status st = wh_worker_tag_recv_wait(whm_process_here.worker, data, size, tag_of(world),
                                           WH_TAG_MASK_ALL, -1, &result);
    if (st != WH_OK || result.size != size)
        whm_refuse_run("rank %d cannot be received: %s", world,
                       st == WH_OK ? "part of it is missing" : wh_status_text(st));
}

void whm_ship(int world, wh_endpoint *to) {
    whm_movable *m = &whm_movable_here;
    whm_mover *who = m->here[world];
    whm_seat *seat = who->seat;
    if (whm_types_flatten(&who->rank) != MPI_SUCCESS)
        whm_refuse_run("rank %d cannot be moved: %s", world, whm_self->sentence);
    whm_elf_frames(&m->elf, who->place + m->layout.image, false);
    who->seat = NULL;
    whm_heap_trim(who->rank.heap);
    runs all = written(who);
    uint64_t count = all.count;
    give(to, world, &count, sizeof(count));
    give(to, world, all.at, all.count * sizeof(run));
    for (size_t i = 0; i < all.count; i++)
        give(to, world, who->place + all.at[i].from, all.at[i].size);
    free(all.at);
    m->here[world] = NULL;
    m->alive--;
    whm_process_here.rank[world] = NULL;
    whm_place_give_up(world);
    seat->left = true;
    wh_pe_resume(whm_process_here.pe, &seat->wait);
}

void whm_unship(int world) {
    whm_movable *m = &whm_movable_here;
    char why[512];
    uint64_t count;
    char *place = whm_place_take(world, why, sizeof(why));
    if (!place || !whm_elf_map(&m->elf, place + m->layout.image, why, sizeof(why)))
        whm_refuse_run("rank %d has no place: %s", world, why);
    get(world, &count, sizeof(count));
    run *all = calloc(count, sizeof(run));
    if (!all)
        whm_refuse_run("there is no memory to move a rank");
    get(world, all, count * sizeof(run));
    for (size_t i = 0; i < count; i++)
        get(world, place + all[i].from, all[i].size);
    free(all);
    whm_mover *who = (whm_mover *)place;
    m->here[world] = who;
    m->alive++;
    whm_process_here.rank[world] = &who->rank;
    whm_elf_frames(&m->elf, place + m->layout.image, true);
    if (whm_types_unflatten(&who->rank) != MPI_SUCCESS)
        whm_refuse_run("rank %d cannot be moved: %s", world, whm_self->sentence);
}
