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
} runs;

// ---- Which pages there are.

static void add(runs *all, uint64_t from, uint64_t size) {
    run *last = all->count ? &all->at[all->count - 1] : NULL;
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

// ---- Packing and unpacking.

bool whm_pack_rank(whm_mover *who, whm_carry_fn *put, void *arg) {
    whm_seat *seat = who->seat;
    if (whm_types_flatten(&who->rank) != MPI_SUCCESS)
        whm_refuse_run("rank %d cannot be moved: %s", who->rank.world, whm_self->sentence);
    who->seat = NULL;
    whm_heap_trim(who->rank.heap);
    runs all = written(who);
    uint64_t count = all.count;
    bool good = put(arg, &count, sizeof(count)) && put(arg, all.at, all.count * sizeof(run));
    for (size_t i = 0; i < all.count && good; i++)
        good = put(arg, who->place + all.at[i].from, all.at[i].size);
    free(all.at);
    who->seat = seat;
    return good;
}

static bool inside(const run *r) {
    size_t size = whm_movable_here.layout.size;
    return r->from % PAGE == 0 && r->from < size && r->size <= size - r->from;
}

bool whm_unpack_rank(int world, whm_carry_fn *get, void *arg) {
    whm_movable *m = &whm_movable_here;
    char why[512];
    uint64_t count = 0;
    char *place = whm_place_take(world, why, sizeof(why));
    if (!place || !whm_elf_map(&m->elf, place + m->layout.image, why, sizeof(why)))
        whm_refuse_run("rank %d has no place: %s", world, why);
    bool good = get(arg, &count, sizeof(count)) && count && count <= m->layout.size / PAGE;
    run *all = good ? calloc(count, sizeof(run)) : NULL;
    good = all && get(arg, all, count * sizeof(run));
    for (size_t i = 0; i < count && good; i++)
        good = inside(&all[i]) && get(arg, place + all[i].from, all[i].size);
    free(all);
    if (!good)
        return false;
    whm_mover *who = (whm_mover *)place;
    m->here[world] = who;
    m->alive++;
    whm_process_here.rank[world] = &who->rank;
    whm_elf_frames(&m->elf, place + m->layout.image, true);
    return whm_types_unflatten(&who->rank) == MPI_SUCCESS;
}

// ---- To another process.

typedef struct way {
    wh_endpoint *to;
    uint64_t tag;
    wh_status status;
} way;

static way way_of(int world, wh_endpoint *to) {
    return (way){to, UINT64_C(0x4D4F5645) << 32 | (uint32_t)world, WH_OK};
}

static bool send_part(void *arg, void *data, size_t size) {
    way *w = arg;
    w->status = wh_tag_send_wait(w->to, data, size, w->tag, -1);
    return w->status == WH_OK;
}

static bool receive_part(void *arg, void *data, size_t size) {
    way *w = arg;
    wh_result result = {.size = 0};
    w->status = wh_worker_tag_recv_wait(whm_process_here.worker, data, size, w->tag,
                                        WH_TAG_MASK_ALL, -1, &result);
    return w->status == WH_OK && result.size == size;
}

void whm_ship(int world, wh_endpoint *to) {
    whm_movable *m = &whm_movable_here;
    whm_mover *who = m->here[world];
    whm_seat *seat = who->seat;
    way w = way_of(world, to);
    whm_elf_frames(&m->elf, who->place + m->layout.image, false);
    bool good = whm_pack_rank(who, send_part, &w);
    whm_process_lost(w.status);
    if (!good)
        whm_refuse_run("rank %d cannot be moved: %s", world, wh_status_text(w.status));
    m->here[world] = NULL;
    m->alive--;
    whm_process_here.rank[world] = NULL;
    whm_place_give_up(world);
    seat->left = true;
    m->leaving++;
    wh_pe_resume(whm_process_here.pe, &seat->wait);
}

void whm_unship(int world) {
    way w = way_of(world, NULL);
    bool good = whm_unpack_rank(world, receive_part, &w);
    whm_process_lost(w.status);
    if (!good)
        whm_refuse_run("rank %d cannot be received: %s", world,
                       w.status == WH_OK ? "part of it is missing" : wh_status_text(w.status));
}
