// SPDX-License-Identifier: BSD-3-Clause
//
// Stacks, and who runs whom.
//
// A mapping is [inaccessible page | stack ... | whi_ult | less than a page]: what a thread is known by lies at the top of its stack, so that making one
// takes one mapping or none.  The sanitizers are told of each switch.
#include "rt/ult/ult.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rt/ult/switch.h"

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ASAN 1
#elif __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifdef ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TSAN
#include <sanitizer/tsan_interface.h>
#endif

// The thread sanitizer counts the calls of each stack: what switches must not be called.
#define INLINE static inline __attribute__((always_inline))

// What a sanitizer knows of a stack.
typedef struct fiber {
#ifdef ASAN
    void *fake;
    const void *bottom;
    size_t size;
#elif defined(TSAN)
    void *handle;
#else
    char nothing;
#endif
} fiber;

struct whi_ult {
    void *sp;         // while it does not run
    void *runner_sp;  // of who runs it
    whi_ult *runner;  // NULL: the system's thread; when it is free: the next one
    void (*fn)(void *arg);
    void *arg;
    whi_ult_stacks *stacks;
    char *map;  // where its mapping begins
    bool ended;
    bool passed;  // another thread has passed on to it; else whi_ult_run runs it
    fiber own, back;
};

static _Thread_local whi_ult *here __attribute__((tls_model("initial-exec")));

#ifdef ASAN
// begin_switch tells of a switch from one stack (NULL: it ends) to another, and end_switch that it was made; where the
// stack of the system's thread lies is learnt from the first switch away from it.
INLINE void begin_switch(fiber *from, const fiber *to) {
    __sanitizer_start_switch_fiber(from ? &from->fake : NULL, to->bottom, to->size);
}
static void end_switch(fiber *into, fiber *came_from) {
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(into->fake, &bottom, &size);
    if (came_from) {
        came_from->bottom = bottom;
        came_from->size = size;
    }
}
static void make_fiber(fiber *f, const void *bottom, size_t size) {
    *f = (fiber){.bottom = bottom, .size = size};
}
static void end_fiber(fiber *f) {
    __asan_unpoison_memory_region(f->bottom, f->size);
}
static void note_runner(fiber *f) {
    (void)f;
}
#elif defined(TSAN)
INLINE void begin_switch(fiber *from, const fiber *to) {
    (void)from;
    __tsan_switch_to_fiber(to->handle, 0);
}
static void end_switch(fiber *into, fiber *came_from) {
    (void)into, (void)came_from;
}
static void make_fiber(fiber *f, const void *bottom, size_t size) {
    (void)bottom, (void)size;
    f->handle = __tsan_create_fiber(0);
}
static void end_fiber(fiber *f) {
    __tsan_destroy_fiber(f->handle);
}
static void note_runner(fiber *f) {
    f->handle = __tsan_get_current_fiber();
}
#else
INLINE void begin_switch(fiber *from, const fiber *to) {
    (void)from, (void)to;
}
static void end_switch(fiber *into, fiber *came_from) {
    (void)into, (void)came_from;
}
static void make_fiber(fiber *f, const void *bottom, size_t size) {
    (void)f, (void)bottom, (void)size;
}
static void end_fiber(fiber *f) {
    (void)f;
}
static void note_runner(fiber *f) {
    (void)f;
}
#endif

// ---- Stacks.

static size_t page(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

void whi_ult_stacks_init(whi_ult_stacks *stacks, size_t size, unsigned keep) {
    if (size < WHI_ULT_STACK_MIN)
        size = WHI_ULT_STACK_MIN;
    size = (size + page() - 1) / page() * page();
    *stacks = (whi_ult_stacks){.size = size, .keep = keep};
}

static char *bottom_of(const whi_ult *ult) {
    return ult->map + page();
}

// Threads that run in turns touch the same few lines at the top of their stacks.  In whole pages below each other, all of these would share a few
// sets of the first cache.
static size_t shift(unsigned number) {
    enum { LINE = 64, LINES = 64, APART = 5 };
    return (size_t)number * APART % LINES * LINE;
}

// With the inaccessible page, and one for the shift.
static size_t size_of_mapping(const whi_ult_stacks *stacks) {
    return page() + stacks->size + page();
}

static whi_ult *map_stack(whi_ult_stacks *stacks) {
    size_t whole = size_of_mapping(stacks);
    char *at = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (mprotect(at, page(), PROT_NONE) != 0) {
        munmap(at, whole);
        return NULL;
    }
    whi_ult *ult = (whi_ult *)(at + whole - shift(stacks->mapped++)) - 1;
    ult->map = at;
    return ult;
}

static void unmap_stack(whi_ult_stacks *stacks, whi_ult *ult) {
    munmap(ult->map, size_of_mapping(stacks));
}

void whi_ult_stacks_fini(whi_ult_stacks *stacks) {
    assert(!stacks->alive);
    while (stacks->free) {
        whi_ult *ult = stacks->free;
        stacks->free = ult->runner;
        unmap_stack(stacks, ult);
    }
    stacks->kept = 0;
}

static void give_back(whi_ult *ult) {
    whi_ult_stacks *stacks = ult->stacks;
    end_fiber(&ult->own);
    stacks->alive--;
    if (stacks->kept == stacks->keep) {
        unmap_stack(stacks, ult);
        return;
    }
    ult->runner = stacks->free;
    stacks->free = ult;
    stacks->kept++;
}

// ---- Threads.

static void begin(void *arg) {
    whi_ult *ult = arg;
    end_switch(&ult->own, &ult->back);
    ult->fn(ult->arg);
    ult->ended = true;
    begin_switch(NULL, &ult->back);
    whi_stack_switch(&ult->sp, ult->runner_sp);
    __builtin_unreachable();
}

wh_status whi_ult_new(whi_ult_stacks *stacks, void (*fn)(void *arg), void *arg, whi_ult **made) {
    whi_ult *ult = stacks->free;
    if (ult) {
        stacks->free = ult->runner;
        stacks->kept--;
    } else {
        ult = map_stack(stacks);
        if (!ult)
            return WH_ENOMEM;
    }
    *ult = (whi_ult){.fn = fn, .arg = arg, .stacks = stacks, .map = ult->map};
    ult->sp = whi_stack_prepare(ult, begin, ult);
    make_fiber(&ult->own, bottom_of(ult), (size_t)((char *)ult - bottom_of(ult)));
    stacks->alive++;
    *made = ult;
    return WH_OK;
}

bool whi_ult_run(whi_ult *ult) {
    int error = errno;
    assert(ult != here && !ult->ended);
    ult->runner = here;
    ult->passed = false;
    here = ult;
    note_runner(&ult->back);
    begin_switch(&ult->back, &ult->own);
    whi_stack_switch(&ult->runner_sp, ult->sp);
    ult = here;
    end_switch(&ult->back, NULL);
    here = ult->runner;
    bool lives = !ult->ended;
    if (!lives)
        give_back(ult);
    errno = error;
    return lives;
}

void whi_ult_suspend(void) {
    int error = errno;
    whi_ult *ult = here;
    assert(ult);
    begin_switch(&ult->own, &ult->back);
    whi_stack_switch(&ult->sp, ult->runner_sp);
    end_switch(&ult->own, ult->passed ? NULL : &ult->back);
    errno = error;
}

void whi_ult_pass(whi_ult *next) {
    int error = errno;
    whi_ult *ult = here;
    assert(ult && next != ult && !next->ended);
    next->runner = ult->runner;
    next->runner_sp = ult->runner_sp;
    next->back = ult->back;
    next->passed = true;
    here = next;
    begin_switch(&ult->own, &next->own);
    whi_stack_switch(&ult->sp, next->sp);
    end_switch(&ult->own, ult->passed ? NULL : &ult->back);
    errno = error;
}

void whi_ult_drop(whi_ult *ult) {
    assert(ult != here);
    give_back(ult);
}

whi_ult *whi_ult_here(void) {
    return here;
}
